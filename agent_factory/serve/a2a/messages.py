"""Messages of A2A as messages of LangChain and as decisions."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from a2a.types import Message, Part
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToJson
from langchain_core.messages import HumanMessage

from agent_factory.serve.json_response import to_json
from agent_factory.service import Wait


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
