"""Comparison: differences between two states of a thread."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agent_factory.serve.pages.conversation import in_one_line
from agent_factory.serve.pages.rendering import pretty
from agent_factory.serve.pages.wording import by_id

LONGEST = 20_000
"""Characters of two texts up to which their words are compared."""

Part = tuple[str, str]
"""Part of a text: "" of both texts, "del" or "ins", and the part."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Different message or value of the state.

    Args:
        kind: "added", "removed" or "changed".
        name: The author, such as "User", or the key.
        parts: Common and different parts.
    """

    kind: str
    name: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between two states.

    Args:
        messages: Messages that were added, removed or changed, in the order of the conversation.
        values: Values of the state that are different.
        same: Number of equal messages.
    """

    messages: tuple[Difference, ...]
    values: tuple[Difference, ...]
    same: int


def compare(before: Mapping[str, Any], after: Mapping[str, Any], agent: str) -> Comparison:
    """Compare the values of two states.

    >>> from langchain_core.messages import HumanMessage
    >>> before = {"messages": [HumanMessage("Hi", id="1")], "tone": "calm"}
    >>> after = {"messages": [HumanMessage("Hi there", id="1")], "tone": "brief"}
    >>> compare(before, after, "desk").messages
    (Difference(kind='changed', name='User', parts=(('', 'Hi'), ('ins', ' there'))),)
    >>> [part for difference in compare(before, after, "desk").values for part in difference.parts]
    [('', '"'), ('del', 'calm'), ('ins', 'brief'), ('', '"')]
    """
    old, new = (by_id(values.get("messages") or ()) for values in (before, after))
    differences: list[Difference] = []
    # Messages that are gone come first; the rest keeps its order.
    for key, message in {**old, **new}.items():
        name = name_of(message, agent)
        if key not in new:
            differences.append(Difference("removed", name, (("del", text_of(message)),)))
        elif key not in old:
            differences.append(Difference("added", name, (("ins", text_of(message)),)))
        elif (first := text_of(old[key])) != (second := text_of(message)):
            differences.append(Difference("changed", name, tuple(parts_of(first, second))))
    changed: list[Difference] = []
    for name in sorted({*before, *after} - {"messages"}):
        if name not in after:
            changed.append(Difference("removed", name, (("del", pretty(before[name])),)))
        elif name not in before:
            changed.append(Difference("added", name, (("ins", pretty(after[name])),)))
        elif before[name] != after[name]:
            parts = parts_of(pretty(before[name]), pretty(after[name]))
            changed.append(Difference("changed", name, tuple(parts)))
    same = len(old.keys() & new.keys()) - sum(part.kind == "changed" for part in differences)
    return Comparison(tuple(differences), tuple(changed), same)


def name_of(message: BaseMessage, agent: str) -> str:
    """The author of a message, as a person says."""
    if isinstance(message, HumanMessage):
        return str(message.additional_kwargs.get("lc_source") or "User")
    if isinstance(message, ToolMessage):
        return f"Result of {message.name or 'a tool'}"
    return agent if isinstance(message, AIMessage) else message.type.capitalize()


def text_of(message: BaseMessage) -> str:
    """A message as text, with a line for each call."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    lines = (f"calls {call['name']}: {in_one_line(call['args'])}" for call in calls)
    return "\n".join(filter(None, [message.text, *lines])) or "(empty)"


def parts_of(before: str, after: str) -> Iterator[Part]:
    """Compare two texts word by word.

    >>> list(parts_of("pay 40 euros", "pay 10 euros"))
    [('', 'pay '), ('del', '40'), ('ins', '10'), ('', ' euros')]
    """
    # The time grows with the square of the length.
    if len(before) + len(after) > LONGEST:
        yield from (("del", before), ("ins", after))
        return
    # With the space between words: the parts together are the texts.
    old, new = (re.findall(r"\w+|\s+|[^\w\s]", text) for text in (before, after))
    for kind, start, end, new_start, new_end in SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if kind == "equal":
            yield "", "".join(old[start:end])
            continue
        if start < end:
            yield "del", "".join(old[start:end])
        if new_start < new_end:
            yield "ins", "".join(new[new_start:new_end])
