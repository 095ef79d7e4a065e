"""One update out of a node's own and those of the layers around it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import RemoveMessage
from langgraph.channels import EphemeralValue, LastValue, UntrackedValue
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from agent_factory.errors import BadReturn, UndeclaredJump, UnknownStateKey, describe
from agent_factory.state.channels import is_messages

Pair = tuple[str, Any]

SINGLE = (LastValue, EphemeralValue, UntrackedValue)
"""Channels that take one value a step."""

LAYER = "a wrap_model_call layer"


class Fold:
    """Folds updates, inner first.

    A key that takes one value a step gets the outermost. Messages become one list, in which the
    inner word on a message stands: a request passes the layers from the outside in, so the inner
    one has seen what the outer one changed. Other keys are written several times, for their
    reducer to fold.

    Args:
        channels: The channels of the agent's state.
    """

    def __init__(self, channels: Mapping[str, Any]) -> None:
        self._keys = frozenset(channels)
        self._messages = {key for key, channel in channels.items() if is_messages(channel)}
        self._single = {key for key, channel in channels.items() if isinstance(channel, SINGLE)}

    def __call__(
        self, update: Mapping[str, Any], commands: Sequence[Command[Any]]
    ) -> dict[str, Any] | Command[Any]:
        """The update as a dict, or as a Command where a key has to be written several times."""
        pairs: list[Pair] = list(update.items())
        said: set[str] = set()
        for command in commands:
            for key, value in self._checked(command):
                if key in self._messages and isinstance(value, list):
                    value = _news(value, said)
                self._add(pairs, (key, value))
        folded = dict(pairs)
        return folded if len(folded) == len(pairs) else Command(update=pairs)

    def _checked(self, command: Command[Any]) -> list[Pair]:
        pairs = pairs_of(command, LAYER)
        check_keys(dict(pairs), self._keys, LAYER)
        if any(value for key, value in pairs if key == "jump_to"):
            raise UndeclaredJump(LAYER, "cannot jump.", "Jump from an after_model hook.")
        return pairs

    def _add(self, pairs: list[Pair], new: Pair) -> None:
        key, value = new
        for index, (known, earlier) in enumerate(pairs):
            if known == key and key in self._single:
                pairs[index] = new
                return
            if known == key and key in self._messages and _joins(earlier, value):
                pairs[index] = (key, [*earlier, *value])
                return
        pairs.append(new)


def _news(messages: list[Any], said: set[str]) -> list[Any]:
    """The messages that no layer further in has written or removed; their ids are noted."""
    ids = [getattr(message, "id", None) for message in messages]
    news = [message for message, id in zip(messages, ids, strict=True) if id not in said]
    said.update(id for id in ids if id and id != REMOVE_ALL_MESSAGES)
    return news


def _joins(earlier: Any, later: Any) -> bool:
    """Whether two writes of messages say the same as one.

    Not where the earlier one removes messages: what is removed and added again stays in its place
    in one write, and moves to the end in two.
    """
    lists = isinstance(earlier, list) and isinstance(later, list)
    return lists and not any(isinstance(message, RemoveMessage) for message in earlier)


def pairs_of(command: Command[Any], owner: str) -> list[Pair]:
    """A command's update as pairs of key and value.

    Args:
        command: Any command.
        owner: Who returned it, for the error message.

    Raises:
        BadReturn: The update is neither a dict nor a list of pairs.
    """
    update = command.update
    if update is None:
        return []
    if isinstance(update, Mapping):
        return list(update.items())
    if isinstance(update, Sequence) and all(isinstance(p, tuple) and len(p) == 2 for p in update):
        return list(update)
    raise BadReturn(
        owner, f"returned a Command whose update is {describe(update)}.", "Give a dict of keys."
    )


def check_keys(keys: Iterable[str], known: Collection[str], owner: str) -> None:
    """Refuse writes that would be lost.

    Raises:
        UnknownStateKey: A key is in no schema of the agent.
    """
    if unknown := {key for key in keys if key not in known}:
        raise UnknownStateKey(
            owner,
            f"wrote {', '.join(map(repr, sorted(unknown)))}, and the state has no such key.",
            "Declare it in the state_schema of a middleware or of the agent.",
        )
