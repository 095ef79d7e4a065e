"""Changes of a prefix: the difference of two requests, and the author."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from agent_factory.decisions.prefix.digest import Digest, Part, Prefix, ToolDigest, digest_of


class Change(NamedTuple):
    """Difference of two requests: the part, the position in the part, and a text."""

    part: Part
    at: int
    text: str
    kept: int  # characters before the position, of the earlier request


class Culprit(NamedTuple):
    """Cause of a change: a middleware and a method, or a node and the name of a tool."""

    middleware: str
    hook: str
    tool: str = ""


class PrefixChange(NamedTuple):
    """A change of the prefix, with the author and the loss in tokens."""

    culprit: Culprit
    text: str
    lost: int
    cached: int
    followers: tuple[str, ...] = ()  # middleware further in with changes of the same part


INPUT: Final = Culprit("", "input")
"""The caller: the input of a run, or `update_state`."""

REPAIR: Final = Culprit("", "model")
"""The model node, which repairs histories."""


def change_of(part: Part, old: Prefix, new: Prefix) -> Change | None:
    """Return the difference of a part in two requests, apart from messages at the end."""
    before, after = old.part(part), new.part(part)
    if before == after:
        return None
    tools, system, _ = old.sizes()
    if part == "model":
        return Change(part, 0, f"calls {after} in place of {before}", 0)
    if part == "tools":
        at = _first_difference(before, after)
        return Change(part, at, _change_of_tools(before, after), sum(t.size for t in before[:at]))
    if part == "response_format":
        return Change(part, 0, "changes the response format", tools)
    if part == "system_prompt":
        if not (before.size and after.size):
            verb = "removes" if before.size else "adds"
            return Change(part, 0, f"{verb} the system prompt", tools)
        at = _first_difference(before.blocks, after.blocks) * before.block
        about = "" if before.block == 1 else "about "
        return Change(part, at, f"changes the system prompt at {about}byte {at}", tools + at)
    if part == "settings":
        names = sorted({name for name, _ in {*before} ^ {*after}})
        return Change(part, 0, f"changes {', '.join(names)}", tools + system)
    at = _first_difference(before, after)
    if at == len(before):
        return None
    size_before = tools + system + sum(size for _, size in before[:at])
    return Change(part, at, _change_of_messages(before, after, at), size_before)


PARTS: Final[tuple[Part, ...]] = (
    "model", "tools", "response_format", "system_prompt", "settings", "messages",
)  # fmt: skip


def _first_difference(first: Sequence[object], other: Sequence[object]) -> int:
    pairs = zip(first, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(other)))


def _change_of_tools(before: Sequence[ToolDigest], after: Sequence[ToolDigest]) -> str:
    old, new = ([tool.name for tool in tools] for tools in (before, after))
    additions, removals = ([n for n in a if n not in b] for a, b in ((new, old), (old, new)))
    if additions or removals:
        phrases = [("adds", additions), ("removes", removals)]
        return " and ".join(f"{verb} {_tools(names)}" for verb, names in phrases if names)
    if old != new:
        at = _first_difference(old, new)
        return f"changes the order of the tools from {new[at]} on"
    changed = [a.name for a, b in zip(after, before, strict=True) if a != b]
    return f"changes the schema of {_tools(changed)}"


def _tools(names: Sequence[str]) -> str:
    return f"the tool{'s' * (len(names) > 1)} {', '.join(names)}"


def _change_of_messages(before: Sequence[Digest], after: Sequence[Digest], at: int) -> str:
    """Return the edit of messages from an index on, after which they continue alike."""
    old, new = before[at:], after[at:]
    # The last message may be new each time, so the equal part may end before.
    for end in range(len(old), max(0, len(old) - 2), -1):
        alike = 0
        # The longest match counts: a short text, such as "ok", may occur several times.
        for place in (index for index, digest in enumerate(new) if digest == old[end - 1]):
            count = 1
            while count < min(end, place + 1) and old[end - 1 - count] == new[place - count]:
                count += 1
            if count > alike:
                alike, removals, additions = count, end - count, place + 1 - count
        if alike:
            return _edit(at, removals, additions)
    return _edit(at, 1, 1) if len(old) == 1 else f"changes all messages from messages[{at}] on"


def _edit(at: int, removals: int, additions: int) -> str:
    place = (
        f"messages[{at}]" if removals <= 1 else f"messages[{at}] to messages[{at + removals - 1}]"
    )
    if not additions:
        return f"removes {place}"
    if not removals:
        return f"inserts {additions} message{'s' * (additions > 1)} at {place}"
    if removals == additions == 1:
        return f"edits {place}"
    return f"replaces {place} by {additions} message{'s' * (additions > 1)}"


def culprit_at(change: Change, old: Sequence[Prefix], new: Sequence[Prefix]) -> int:
    """Return the outermost place from which on, inward, a change is found in each place.

    Args:
        change: The change at the innermost place, in the sent request.
        old: The digests of the earlier request at each place, the outermost first.
        new: Digests of the later request.
    """

    def is_same(outer: Change, place: int) -> bool:
        """Return True if a change of messages further out is the same, by message or index."""
        inner = len(new) - 1
        if change.part != "messages":
            return True
        if all(len(of[place].messages) == len(of[inner].messages) for of in (old, new)):
            return outer.at == change.at
        # A layer has moved messages.
        return any(
            outer.at < len(of[place].messages)
            and change.at < len(of[inner].messages)
            and of[place].messages[outer.at] == of[inner].messages[change.at]
            for of in (old, new)
        )

    index = len(new) - 1
    while index:
        outer = change_of(change.part, old[index - 1], new[index - 1])
        if outer is None or not is_same(outer, index - 1):
            break
        index -= 1
    return index


class Edit(NamedTuple):
    """A write to the messages of a thread other than an addition at the end."""

    culprit: Culprit
    at: int


def edited_from(messages: Sequence[Any], update: Any) -> int | None:
    """Return the index of the first changed or removed message of an update, or None."""
    update = update if isinstance(update, list) else [update]
    removals = [index for index, item in enumerate(update) if isinstance(item, RemoveMessage)]
    # As LangGraph's reducer: of several removals of all messages, the last one counts.
    every = [index for index in removals if update[index].id == REMOVE_ALL_MESSAGES]
    if every:
        rest = update[every[-1] + 1 :]
        # A dict or a pair becomes a message later, when LangGraph writes it.
        if not all(isinstance(item, BaseMessage) for item in rest):
            return 0
        at = _first_difference(*(list(map(digest_of, some)) for some in (messages, rest)))
        return at if at < len(messages) else None
    index_of = {message.id: index for index, message in enumerate(messages)}
    indexes = []
    for item in update:
        if not isinstance(item, BaseMessage) or item.id not in index_of:
            continue
        index = index_of[item.id]
        if isinstance(item, RemoveMessage) or digest_of(item) != digest_of(messages[index]):
            indexes.append(index)
    return min(indexes, default=None)
