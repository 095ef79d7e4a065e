"""Summaries that are stored with a thread, and requests with them in place of messages.

Every layer that makes a conversation smaller puts the stored summaries into the request before
its own work: messages to be hidden further in must not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage
from typing_extensions import TypedDict

from agent_factory import ModelRequest

from .transcript import links_of

SOURCE: Final = "summarization"
"""`additional_kwargs["lc_source"]` of a summary message."""

HEADING: Final = "Summary of the conversation so far:\n\n"

_LINKS: Final = "Files in these messages: "
"""Begins the last line of a summary of messages with files."""

_MAX_LINKS: Final = 50
"""Links in that line, the newest: it is part of each further request."""


class Summary(TypedDict):
    """A summary in place of the messages of a thread up to one of them."""

    text: str  # empty if all of them were left out
    note: str  # a remark about them for the model
    until: list[str]  # ids of the last of them, the newest last
    left_out: list[list[int]]  # the first and the last number of messages outside of any summary


def is_summary(message: BaseMessage) -> bool:
    """Return True for a message that is a summary."""
    return message.additional_kwargs.get("lc_source") == SOURCE


def content_of(summary: Summary) -> str:
    """Content for the model in place of the messages."""
    text = summary["text"] and f"{HEADING}{summary['text']}"
    parts = filter(None, (text, summary["note"]))
    return "\n\n".join(parts) or "[Earlier messages are left out here.]"


def with_links(text: str, earlier: str, messages: Iterable[BaseMessage]) -> str:
    """The text of a summary, with missing links of its messages and of an earlier summary."""
    last_line = earlier.rpartition("\n")[2]
    links = last_line.removeprefix(_LINKS).split() if last_line.startswith(_LINKS) else []
    links += [link for message in messages for link in links_of(message)]
    missing = [link for link in dict.fromkeys(links) if link not in text]
    return f"{text}\n\n{_LINKS}{' '.join(missing[-_MAX_LINKS:])}" if missing else text


def number_in(request: ModelRequest[Any]) -> Callable[[AnyMessage], int]:
    """A function that returns the number of a message in the thread, from 1 on; 0 for others."""
    thread = request.state.get("messages", ())
    # Outside of an agent, messages may have no ids.
    positions = {message.id or id(message): at for at, message in enumerate(thread, 1)}
    return lambda message: positions.get(message.id or id(message), 0)


def stored_summaries(request: ModelRequest[Any]) -> Sequence[Summary]:
    """The summaries of all instances."""
    state: Any = request.state
    summaries: Mapping[str, Summary] = state.get("summaries") or {}
    return [summary for summary in summaries.values() if summary["until"]] if summaries else ()


def with_summaries(request: ModelRequest[Any]) -> list[AnyMessage]:
    """The messages of a request, with each stored summary in place of its messages.

    A summary has no place where its last messages are missing: it is in place
    already, another summary covers them too, or they are not in the thread any more.
    """
    messages = request.messages
    if not request.state.get("summaries"):
        return messages  # three layers ask at each call
    number_of: Callable[[AnyMessage], int] | None = None
    for summary in stored_summaries(request):
        until = summary["until"]
        end = next((i for i in range(len(messages), 0, -1) if messages[i - 1].id in until), 0)
        old = messages[:end]
        # The history of a long thread is compared with itself in most calls.
        if old and messages is not request.state.get("messages"):
            number_of = number_of or number_in(request)
            old = [m for m in old if is_summary(m) or number_of(m)]
        if old:
            messages = replaced(messages, old, summary_message(summary))
    return messages


def summary_message(summary: Summary, id_: str | None = None) -> HumanMessage:
    """The message that a model reads."""
    return HumanMessage(content_of(summary), id=id_, additional_kwargs={"lc_source": SOURCE})


def replaced(
    messages: Sequence[AnyMessage], old: Iterable[AnyMessage], summary: HumanMessage
) -> list[AnyMessage]:
    """Messages with a summary in the position of the first old one; system messages stay."""
    old_messages = [message for message in old if not isinstance(message, SystemMessage)]
    hidden = {id(message) for message in old_messages[1:]}
    return [summary if m is old_messages[0] else m for m in messages if id(m) not in hidden]
