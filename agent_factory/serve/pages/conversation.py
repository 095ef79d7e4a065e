"""Conversation: the messages of a thread as a page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agent_factory.providers import ServerCall, ending_of, server_calls, sources_of, text_of
from agent_factory.serve.pages.attachments import File

RECENT_MESSAGES = 100
"""Messages at first sight."""

_FILES = ("image", "audio", "video", "file", "text-plain")


@dataclass(slots=True)
class Call:
    """Tool call, with its result and its verdicts."""

    id: str
    name: str
    args: Mapping[str, object]
    result: ToolMessage | None = None
    verdicts: Sequence[str] = ()


@dataclass(slots=True)
class Entry:
    """Message on a page."""

    id: str
    kind: Literal["human", "ai", "system", "other"]
    text: str
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    note: str = ""
    files: tuple[File, ...] = ()
    server_calls: Sequence[ServerCall] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    ending: str = ""


def in_one_line(args: Mapping[str, object]) -> str:
    """Arguments in one line, long ones cut."""
    return ", ".join(f"{name}={shortened(value)}" for name, value in args.items())


def shortened(value: object) -> str:
    """A value as text, a long one cut."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def entries_of(
    messages: Sequence[BaseMessage], verdicts: Mapping[str, Sequence[str]]
) -> list[Entry]:
    """Messages of a page: results and verdicts are at their calls.

    Args:
        verdicts: Decisions about calls, in words, by the ids of the calls.
    """
    entries: list[Entry] = []
    calls: dict[str, Call] = {}
    for number, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            call = calls.get(message.tool_call_id)
            # A second result with the same id stays visible, as a separate entry.
            if call is not None and call.result is None:
                call.result = message
                continue
        entry = entry_of(message, number)
        for call in entry.calls:
            call.verdicts = verdicts.get(call.id, ())
        calls |= {call.id: call for call in entry.calls}
        entries.append(entry)
    return entries


def entry_of(message: BaseMessage, number: int = 0) -> Entry:
    """One message of a page."""
    # Set where a middleware has written the message, such as a summary.
    source = message.additional_kwargs.get("lc_source")
    entry = Entry(message.id or f"message-{number}", "other", text_of(message))
    blocks = message.content_blocks
    entry.files = tuple(File.of(block) for block in blocks if block["type"] in _FILES)
    if isinstance(message, AIMessage):
        entry.kind = "ai"
        thoughts = (block.get("reasoning", "") for block in blocks if block["type"] == "reasoning")
        entry.reasoning = "\n".join(thoughts)
        entry.server_calls, entry.sources = server_calls(message), sources_of(message)
        if ending := ending_of(message):
            entry.ending = ending.text
        entry.calls = [
            *(Call(str(call["id"]), call["name"], call["args"]) for call in message.tool_calls),
            *(
                # Their arguments are a text, since they are not valid JSON.
                Call(str(call["id"]), call["name"] or "?", {"invalid": call["args"]})
                for call in message.invalid_tool_calls
            ),
        ]
    elif isinstance(message, HumanMessage):
        entry.kind = "system" if source else "human"
    elif isinstance(message, SystemMessage):
        entry.kind = "system"
    elif isinstance(message, ToolMessage):
        entry.note = f"a result of {message.name or 'a tool'} without its call"
    if source:
        entry.note = f"written by {source}"
    return entry
