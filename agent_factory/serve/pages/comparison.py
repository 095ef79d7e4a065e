"""Comparison: differences between two states of a thread."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agent_factory.providers import text_of
from agent_factory.serve.pages.conversation import in_one_line
from agent_factory.serve.pages.rendering import pretty
from agent_factory.serve.pages.wording import by_id

LONGEST = 20_000
"""Characters of two texts up to which their words are compared."""

Part = tuple[str, str]
"""Part of a text: "" of both texts, "del" or "ins", and the part."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Message, by its author, or value, by its key, that was added, removed or changed."""

    kind: str
    name: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between two states, and the number of messages that are the same."""

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
    # Messages that are gone come first; the rest keeps its order.
    texts = [{key: words_of(message) for key, message in side.items()} for side in (old, new)]
    names = {key: name_of(message, agent) for key, message in {**old, **new}.items()}
    keys = {key: key for key in sorted({*before, *after} - {"messages"})}
    values = [{key: pretty(side[key]) for key in keys if key in side} for side in (before, after)]
    same = sum(texts[0][key] == texts[1][key] for key in old.keys() & new.keys())
    return Comparison(differences(names, *texts), differences(keys, *values), same)


def differences(
    names: Mapping[str, str], before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[Difference, ...]:
    """The differences between two groups of texts, in the order of the names."""
    found = []
    for key, name in names.items():
        if key not in after:
            found.append(Difference("removed", name, (("del", before[key]),)))
        elif key not in before:
            found.append(Difference("added", name, (("ins", after[key]),)))
        elif before[key] != after[key]:
            found.append(Difference("changed", name, tuple(parts_of(before[key], after[key]))))
    return tuple(found)


def name_of(message: BaseMessage, agent: str) -> str:
    """The author of a message, as a person says."""
    if isinstance(message, HumanMessage):
        return str(message.additional_kwargs.get("lc_source") or "User")
    if isinstance(message, ToolMessage):
        return f"Result of {message.name or 'a tool'}"
    return agent if isinstance(message, AIMessage) else message.type.capitalize()


def words_of(message: BaseMessage) -> str:
    """A message as text, with a line for each call."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    lines = (f"calls {call['name']}: {in_one_line(call['args'])}" for call in calls)
    return "\n".join(filter(None, [text_of(message), *lines])) or "(empty)"


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
