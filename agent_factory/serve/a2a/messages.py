"""Messages of A2A as messages of LangChain and as decisions, and the reverse."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from a2a.helpers import new_data_part, new_text_part
from a2a.types import Artifact, Message, Part, Role
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToJson
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from agent_factory.providers import text_of
from agent_factory.serve.json_response import to_json
from agent_factory.serve.wait_texts import question_text, wait_data, waits_text
from agent_factory.service import Run, Wait

ID_PREFIX = "a2a:"
"""Prefix of messages of clients: the id of an answer would replace the answer."""

STRUCTURED = "structured_response"
"""Artifact with structured output of an agent, and the key of the state."""


def to_langchain(message: Message) -> HumanMessage:
    """A message of a client, for an agent.

    Raises:
        InvalidParamsError: The message has no content.
    """
    blocks = [content_block(part) for part in message.parts]
    if not blocks:
        raise InvalidParamsError("message.parts must have a part with text, data, raw or url.")
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    if len(texts) == len(blocks):
        return HumanMessage("\n".join(texts))
    return HumanMessage(content_blocks=blocks)


def content_block(part: Part) -> Any:
    """A content block of LangChain."""
    kind = part.WhichOneof("content")
    if kind is None:
        raise InvalidParamsError("A part must have text, data, raw or url.")
    if kind == "text":
        return {"type": "text", "text": part.text}
    if kind == "data":
        return {"type": "text", "text": to_json(_data(part))}
    family = part.media_type.partition("/")[0]
    block = {"type": family if family in ("image", "audio", "video") else "file"}
    if part.media_type:
        block["mime_type"] = part.media_type
    content = part.url if kind == "url" else b64encode(part.raw).decode()
    return {**block, "url" if kind == "url" else "base64": content}


def _data(part: Part) -> Any:
    """The data of a part. Protobuf has no integers, and people who send 3 mean 3."""

    def number(text: str) -> int | float:
        value = float(text)
        return int(value) if value.is_integer() else value

    return json.loads(MessageToJson(part.data), parse_float=number)


def to_decisions(message: Message, waits: Sequence[Wait]) -> dict[str, Any]:
    """The decisions of a message, by the ids of the waits.

    A text answers a question, or names a decision; data are a decision, or decisions by their
    waits.

    Raises:
        InvalidParamsError: The message decides nothing.
    """
    data = [_data(part) for part in message.parts if part.HasField("data")]
    answer: Any = data[0] if data else "\n".join(part.text for part in message.parts)
    if isinstance(answer, Mapping) and isinstance(answer.get("decisions"), Mapping):
        if unknown := answer["decisions"].keys() - {wait.id for wait in waits}:
            raise InvalidParamsError(f"The task does not wait for {', '.join(sorted(unknown))}.")
        return dict(answer["decisions"])
    if len(waits) > 1:
        example = to_json({"decisions": {waits[0].id: {"type": waits[0].allowed[0]}}})
        text = f"The task waits for {len(waits)} decisions. Send data such as {example}."
        raise InvalidParamsError(text)
    (wait,) = waits
    if isinstance(answer, Mapping) and "type" in answer:
        return {wait.id: dict(answer)}
    if wait.kind == "question":
        return {wait.id: {"type": "respond", "message": answer}}
    if isinstance(answer, str) and answer.strip().lower() in wait.allowed:
        return {wait.id: {"type": answer.strip().lower()}}
    raise InvalidParamsError(
        f"The message must decide about {wait.tool}, got {answer!r:.100}. "
        f"Send {', '.join(wait.allowed)} as a text, or data such as "
        '{"type": "reject", "message": "Too much."}.'
    )


def to_user_message(message: BaseMessage, run: Run) -> Message:
    """A submitted message."""
    id, parts = str(message.id).removeprefix(ID_PREFIX), [new_text_part(message.text)]
    places: Any = {"task_id": run.id, "context_id": run.thread_id}
    return Message(message_id=id, **places, role=Role.ROLE_USER, parts=parts)


def waiting_message(waits: Sequence[Wait], inbox: str, run: Run) -> Message:
    """The waits of a task: as a text for people, and as data for programs."""
    questions = "\n\n".join(question_text(wait) for wait in waits)
    text = f"{questions}\n\n{waits_text(waits, inbox)}".strip()
    data = {"waits": [wait_data(wait, inbox) for wait in waits]}
    return agent_message(run, new_text_part(text), new_data_part(data))


def agent_message(run: Run, *parts: Part) -> Message:
    """A message of the agent about its task."""
    places: Any = {"task_id": run.id, "context_id": run.thread_id}
    return Message(message_id=uuid4().hex, **places, role=Role.ROLE_AGENT, parts=parts)


def artifacts_of(values: Mapping[str, Any]) -> list[Artifact]:
    """The texts of the agent since the last message of the user, and the structured output."""
    answers: list[Artifact] = []
    for message in reversed(values.get("messages", ())):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, AIMessage) and (text := text_of(message)):
            answers.insert(0, text_artifact(str(message.id), text))
    if values.get(STRUCTURED) is not None:
        data = json.loads(to_json(values[STRUCTURED]))
        answers.append(
            Artifact(artifact_id=STRUCTURED, name=STRUCTURED, parts=[new_data_part(data)])
        )
    return answers


def text_artifact(id: str, text: str) -> Artifact:
    """A message of the agent as an artifact, with the id of the message."""
    return Artifact(artifact_id=id, name="answer", parts=[new_text_part(text)])
