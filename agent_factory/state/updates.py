"""Merge the state update of a node with those of the layers around it."""

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

_LAYER = "a wrap_model_call layer"


class UpdateMerger:
    """Merge the update of the model node with those of its layers, inner layers first.

    - A key whose channel takes one value a step gets that of the outermost layer.
    - Messages become one list. Of two writes of one message that of the inner layer counts: a
      request passes the layers from the outside in, so the inner one saw what the outer changed.
    - Other keys are written several times, for their reducer.
    """

    def __init__(self, channels: Mapping[str, Any]) -> None:
        single = (LastValue, EphemeralValue, UntrackedValue)  # channels of one value a step
        self._keys = frozenset(channels)
        self._messages = {key for key, channel in channels.items() if is_messages(channel)}
        self._single = {key for key, channel in channels.items() if isinstance(channel, single)}

    def __call__(
        self, update: Mapping[str, Any], commands: Sequence[Command[Any]]
    ) -> dict[str, Any] | Command[Any]:
        """Return a dict, or a Command if a key has to be written several times."""
        pairs: list[Pair] = list(update.items())
        keys, written = set(update), set[str]()
        for command in commands:
            for key, value in (new := pairs_of(command, _LAYER)):
                if key not in self._keys:
                    check_keys([key for key, _ in new], self._keys, _LAYER)
                if key == "jump_to" and value:
                    raise UndeclaredJump(_LAYER, "cannot jump.", "Jump from an after_model hook.")
                if key in self._messages and isinstance(value, list):
                    ids = [getattr(message, "id", None) for message in value]
                    value = [m for m, id in zip(value, ids, strict=True) if id not in written]
                    written.update(id for id in ids if id and id != REMOVE_ALL_MESSAGES)
                if key in keys:
                    self._add(pairs, key, value)
                else:
                    keys.add(key)
                    pairs.append((key, value))
        merged = dict(pairs)
        return merged if len(merged) == len(pairs) else Command(update=pairs)

    def _add(self, pairs: list[Pair], key: str, value: Any) -> None:
        for index, (earlier_key, earlier) in enumerate(pairs):
            if earlier_key != key:
                continue
            if key in self._single:
                pairs[index] = (key, value)
                return
            # A message that is removed and added again keeps its place in one write and moves to
            # the end in two, so a list with removals stays a separate write.
            lists = isinstance(earlier, list) and isinstance(value, list)
            removes = lists and any(isinstance(message, RemoveMessage) for message in earlier)
            if key in self._messages and lists and not removes:
                pairs[index] = (key, [*earlier, *value])
                return
        pairs.append((key, value))


def pairs_of(command: Command[Any], owner: str) -> list[Pair]:
    """Return the update of a command as pairs of key and value; another update raises."""
    update = command.update
    if update is None:
        return []
    if type(update) is dict or isinstance(update, Mapping):
        return list(update.items())
    if isinstance(update, Sequence) and all(isinstance(p, tuple) and len(p) == 2 for p in update):
        return list(update)
    reason = f"returned a Command whose update is {describe(update)}."
    raise BadReturn(owner, reason, "Pass a dict: Command(update={...}).")


def check_keys(keys: Iterable[str], known: Collection[str], owner: str) -> None:
    """Check that the state has the keys that are to be written."""
    if unknown := set(keys).difference(known):
        raise UnknownStateKey(
            owner,
            f"wrote {', '.join(map(repr, sorted(unknown)))}, and the state has no such key.",
            "Declare it in the state_schema of a middleware or of the agent.",
        )
