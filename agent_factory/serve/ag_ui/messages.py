"""Messages of AG-UI as messages of LangChain, and the reverse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ag_ui.core import types
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agent_factory.providers import text_of
from agent_factory.review import CLIENT_ID

_SOURCES = {"base64": "data", "url": "url", "file_id": "file"}
"""Types of sources, by the fields of LangChain's blocks."""

_PARTS = {
    "image": types.ImagePart,
    "audio": types.AudioPart,
    "video": types.VideoPart,
    "file": types.DocumentPart,
}


def new_messages(
    messages: Iterable[types.Message], thread_messages: Iterable[BaseMessage]
) -> list[BaseMessage]:
    """The messages of a client that its thread lacks.

    Only the service writes tool results, reasoning and activities. A result of a call that the
    client has run answers that call: see `call_results`.
    """
    ids = {id_of(message) for message in thread_messages}
    new: list[BaseMessage] = []
    for message in messages:
        if message.id in ids:
            continue
        if isinstance(message, types.UserMessage):
            content: Any = message.content
            if not isinstance(content, str):
                content = [_block(part) for part in content]
            new.append(HumanMessage(content, id=message.id, name=message.name))
        elif isinstance(message, types.SystemMessage | types.DeveloperMessage):
            new.append(SystemMessage(message.content, id=message.id))
        elif isinstance(message, types.AssistantMessage) and message.content:
            # Text alone: calls would stay without a result.
            new.append(AIMessage(message.content, id=message.id))
    return new


def answer_before(messages: Sequence[types.Message]) -> str | None:
    """The id of the message of an agent or a tool to which a user's new message is the next."""
    if not (messages and isinstance(messages[-1], types.UserMessage)):
        return None
    of_agent = (types.AssistantMessage, types.ToolMessage)
    return next((each.id for each in reversed(messages) if isinstance(each, of_agent)), None)


def cut_of(
    messages: Sequence[types.Message],
    thread_messages: Sequence[BaseMessage],
    as_stored: Callable[[types.Message], str],
    *,
    whole: bool,
    edited: bool,
    again: bool,
) -> str | None:
    """The id of the first message that a client has taken out of its thread; None for none.

    A client that edits a message, or wants another answer, sends the conversation up to there. The
    messages of people count: clients write the turns of an agent in forms of their own.

    Args:
        as_stored: Returns the text of a message as guards leave it, which the thread has.
        whole: Whether a client that has no message of the thread has taken out all of them.
        edited: Whether the last message may have another text than in the thread.
        again: Whether the last message wants another answer.
    """
    asked = {id_of(item): item for item in thread_messages if isinstance(item, HumanMessage)}
    sent = [message for message in messages if isinstance(message, types.UserMessage)]
    for message in sent if edited else sent[:-1]:
        item = asked.get(message.id)
        if item is not None and item.text not in (_text(message), as_stored(message)):
            return item.id
    kept = [message.id for message in sent if message.id in asked]
    if len(kept) == len(sent):  # without a new message
        position = asked_again(messages, thread_messages)
        rest = thread_messages[position:] if position is not None else ()
        # A run that has failed or was cancelled goes on, unless an earlier message is asked.
        again = again or (edited and any(isinstance(m, HumanMessage) for m in rest[1:]))
        return next((m.id for m in rest if again and not isinstance(m, ToolMessage)), None)
    if not (kept or whole):
        return None
    # A client may leave out the beginning of a long conversation.
    after = [*asked][[*asked].index(kept[-1]) + 1 :] if kept else [*asked]
    return asked[after[0]].id if after else None


def asked_again(
    messages: Sequence[types.Message], thread_messages: Iterable[BaseMessage]
) -> int | None:
    """The position of a client's last message in its thread; None if it wants no answer.

    It wants one if it is a message of the user, or a result of a tool that has run here.
    """
    for position, item in enumerate(thread_messages):
        if messages and id_of(item) == messages[-1].id:
            ran_here = isinstance(item, ToolMessage) and CLIENT_ID not in item.response_metadata
            return position if ran_here or isinstance(item, HumanMessage) else None
    return None


def _text(message: types.UserMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(part.text for part in message.content if isinstance(part, types.TextPart))


def id_of(message: BaseMessage) -> str:
    """The id of a message, for a client.

    A snapshot replaces messages with the same ids. So a result from a client keeps the client's id.
    """
    return str(message.response_metadata.get(CLIENT_ID) or message.id)


def call_results(
    messages: Iterable[types.Message], thread_messages: Iterable[BaseMessage]
) -> dict[str, object]:
    """New results from a client, by the ids of the calls."""
    ids = {id_of(message) for message in thread_messages}
    results: dict[str, object] = {}
    for message in messages:
        if isinstance(message, types.AssistantMessage):
            # Ids of calls may recur: a result before the call belongs to an earlier call.
            for call in message.tool_calls or ():
                results.pop(call.id, None)
        elif isinstance(message, types.ToolMessage) and message.id not in ids:
            content: Any = message.content
            if not isinstance(content, str):
                content = [_block(part) for part in content] or ""
            result = {"error": message.error} if message.error else {"content": content}
            results[message.tool_call_id] = {**result, "id": message.id}
    return results


def _block(part: types.ContentPart) -> dict[str, object]:
    """A content block of LangChain."""
    if isinstance(part, types.TextPart):
        return {"type": "text", "text": part.text}
    source = part.source
    values = {field: source.value for field, kind in _SOURCES.items() if kind == source.type}
    kind = "file" if part.type == "document" else part.type
    block = {"type": kind, "mime_type": source.mime_type, **values}
    return {name: value for name, value in block.items() if value}


def to_ag_ui(messages: Iterable[BaseMessage]) -> Iterator[types.Message]:
    """The messages of a thread, for a client."""
    for message in messages:
        id = id_of(message)
        if isinstance(message, AIMessage):
            if reasoning := reasoning_of(message):
                yield types.ReasoningMessage(id=reasoning_id(id), content=reasoning)
            calls = [
                types.ToolCall(
                    id=str(call["id"]),
                    function=types.FunctionCall(
                        name=call["name"], arguments=json.dumps(call["args"], default=str)
                    ),
                )
                for call in message.tool_calls
            ]
            if not is_empty(message):
                content = text_of(message) or None
                yield types.AssistantMessage(id=id, content=content, tool_calls=calls or None)
        elif isinstance(message, HumanMessage):
            yield types.UserMessage(id=id, content=_content(message), name=message.name)
        elif isinstance(message, SystemMessage):
            yield types.SystemMessage(id=id, content=message.text)
        elif isinstance(message, ToolMessage):
            text = message.text
            failed = text if message.status == "error" else None
            yield types.ToolMessage(
                id=id, content=text, tool_call_id=message.tool_call_id, error=failed
            )


def is_empty(message: BaseMessage) -> bool:
    """Return True for an answer without text and calls, an empty bubble on a page."""
    return isinstance(message, AIMessage) and not (message.tool_calls or text_of(message))


def _content(message: HumanMessage) -> str | list[types.ContentPart]:
    if isinstance(message.content, str):
        return message.content
    parts: list[types.ContentPart] = []
    for block in message.content_blocks:
        fields: dict[str, Any] = dict(block)
        if fields["type"] == "text":
            parts.append(types.TextPart(text=fields["text"]))
        elif fields["type"] in _PARTS:
            place = next((name for name in _SOURCES if name in fields), "file_id")
            # AG-UI wants a type for data, and LangChain does not.
            unknown = "application/octet-stream" if place == "base64" else None
            source: Any = {"type": _SOURCES[place], "value": fields.get(place, "")}
            source["mime_type"] = fields.get("mime_type") or unknown
            parts.append(_PARTS[fields["type"]](source=source))
    return parts


def reasoning_of(message: AIMessage) -> str:
    """Reasoning of the model in a message, or in a piece."""
    if isinstance(message.content, str) and not message.additional_kwargs:
        return ""  # reading the blocks of each token takes time
    blocks: Iterable[Any] = message.content_blocks
    return "".join(block.get("reasoning") or "" for block in blocks if block["type"] == "reasoning")


def reasoning_id(message: str) -> str:
    """The id of the reasoning of a message."""
    return f"{message}:reasoning"
