"""Updates of the state: the writes of a node and its layers, and the state after the writes.

LangGraph applies the writes of a step when the step is over. Several nodes in one step must see
each other's writes earlier, so `StateView` applies writes at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from langchain_core.messages import RemoveMessage
from langgraph.channels import EphemeralValue, LastValue, UntrackedValue
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Overwrite

from agent_factory.errors import BadReturn, UndeclaredJump, UnknownStateKey, describe
from agent_factory.state.channels import IndexedReducer, ViewedChannel, is_messages, with_ids
from agent_factory.upstream import is_json_overwrite

Pair = tuple[str, Any]

_LAYER = "a wrap_model_call layer"


class UpdateMerger:
    """Merge the update of the model node with the updates of its layers, inner layers first.

    - A key whose channel takes one value a step gets the value of the outermost layer.
    - Messages become one list. Of two writes of a message the write of the inner layer counts: a
      request passes the layers from the outside in, so the inner layer saw the other's changes.
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
        keys, written_ids = set(update), set[str]()
        for command in commands:
            for key, value in (new := pairs_of(command, _LAYER)):
                if key not in self._keys:
                    # All keys of the command, so that an error names each unknown key.
                    check_keys([key for key, _ in new], self._keys, _LAYER)
                if key == "jump_to" and value:
                    raise UndeclaredJump(_LAYER, "cannot jump.", "Jump from an after_model hook.")
                if key in self._messages and isinstance(value, list):
                    ids = [getattr(message, "id", None) for message in value]
                    value = [m for m, id in zip(value, ids, strict=True) if id not in written_ids]
                    written_ids.update(id for id in ids if id and id != REMOVE_ALL_MESSAGES)
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
            # A message that is removed and added again keeps its position in one write and moves to
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


def pairs_of_result(result: Any) -> list[Pair] | None:
    """Return the writes in a node's result; None if the result leaves the graph."""
    if type(result) is dict:  # nearly always, if the node has written something
        return [*result.items()]
    pairs: list[Pair] = []
    for part in parts_of(result):
        if isinstance(part, Command):
            if part.graph or part.goto:
                return None
            pairs += pairs_of(part, "a node")
        else:
            pairs += part.items()
    return pairs


def parts_of(result: Any) -> list[Any]:
    """Return the updates and commands of which the result of a node consists."""
    parts = result if isinstance(result, list) else [result]
    return [part for part in parts if part is not None]


def without_keys(part: Any, keys: Collection[str]) -> Any:
    """Return an update or a command without some keys."""
    if not keys:
        return part
    if not isinstance(part, Command):
        return {key: part[key] for key in part if key not in keys}
    pairs = [(key, value) for key, value in pairs_of(part, "a node") if key not in keys]
    # A dict if no key occurs twice: LangGraph's streams show the updates of dicts only.
    update = dict(pairs)
    return replace(part, update=update if len(update) == len(pairs) else pairs)


def check_keys(keys: Iterable[str], state_keys: Collection[str], owner: str) -> None:
    """Check that the state has the written keys."""
    if unknown_keys := set(keys).difference(state_keys):
        raise UnknownStateKey(
            owner,
            f"wrote {', '.join(map(repr, sorted(unknown_keys)))}, and the state has no such key.",
            "Declare it in the state_schema of a middleware or of the agent.",
        )


class UnknownOutcome(Exception):
    """A write to a channel that only LangGraph can update. Users never see this error."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The state after a node's writes, before LangGraph applies them."""

    persistent: dict[str, Any]  # values until the next write
    ephemeral: dict[str, Any]  # values for the next node alone
    updates: dict[str, list[Any]]  # writes of the nodes so far to persistent keys
    last: dict[str, list[Any]]  # the node's own writes to ephemeral keys
    order: Mapping[str, Any]  # all keys, in the order in which LangGraph reads them
    pairs: list[Pair] = field(default_factory=list)  # the node's own writes, messages with ids

    def state(self) -> dict[str, Any]:
        """Return the state for the next node and its edge."""
        if not self.ephemeral:
            return dict(self.persistent)
        return _in_order({**self.persistent, **self.ephemeral}, self.order)

    def writes(self) -> list[Pair]:
        """Return the writes with this state as the result, once the step is over."""
        every = (*self.updates.items(), *self.last.items())
        return [(key, value) for key, values in every for value in values]


class StateView:
    """The state within one step, beginning with the state before the step.

    Each reducer is called once for each write, on the value itself and not on a copy: LangGraph
    gets the result, as an `Overwrite`. Only messages are merged again by LangGraph, which changes
    nothing, since they have ids by then; so a checkpoint stores new messages, not all.
    """

    def __init__(
        self,
        state: Mapping[str, Any],
        channels: Mapping[str, ViewedChannel],
        cache: dict[str, Any],
        order: Mapping[str, Any],
    ) -> None:
        self._channels = channels
        self._order = order
        # Reducers of messages with their index, and channels, from earlier steps.
        self._cache = cache
        # The state so far. Set it to a preview to accept the preview.
        self.now = now = Preview({}, {}, {}, {}, order)
        for key, value in state.items():
            is_ephemeral = key in channels and channels[key].is_ephemeral
            (now.ephemeral if is_ephemeral else now.persistent)[key] = value
        self._stored_keys = frozenset(now.persistent)

    def preview(
        self, pairs: Iterable[Pair], outcomes: Mapping[str, Any] = MappingProxyType({})
    ) -> Preview:
        """Return the state after a node's writes. Accept the state before the next call.

        Args:
            pairs: The writes.
            outcomes: Results of reducers for the writes from an earlier call, by key.

        Raises:
            UnknownOutcome: Only LangGraph can compute a value.
            Exception: A reducer has raised the error.
        """
        now, order, channels = self.now, self._order, self._channels
        named_pairs: list[Pair] = []
        by_key: dict[str, list[Any]] = {}
        replaced_keys: set[str] = set()  # keys of messages without a merge of several writes
        for key, value in pairs:
            if not channels[key].is_known:  # before a reducer is called: LangGraph calls it then
                raise UnknownOutcome(key)
            if channels[key].is_messages:
                earlier, replaces = now.updates.get(key), value is None or overwrites(value)
                if replaces or (earlier and type(earlier[0]) is Overwrite):
                    replaced_keys.add(key)
                if not replaces:  # merged here and by LangGraph, so the messages need ids first
                    value = with_ids(value)
            named_pairs.append((key, value))
            by_key.setdefault(key, []).append(value)
        if not named_pairs:  # most hooks write nothing
            return Preview(now.persistent, {}, now.updates, {}, order) if now.ephemeral else now
        # Copies: a preview that is not accepted leaves the state unchanged.
        persistent, updates = dict(now.persistent), dict(now.updates)
        ephemeral: dict[str, Any] = {}
        for key, values in by_key.items():
            channel = channels[key]
            if channel.is_single and len(values) == 1:  # nearly all
                persistent[key], updates[key] = values[0], values
            elif channel.is_ephemeral:
                ephemeral[key] = self._value(key, values)
            elif channel.is_single:
                persistent[key], updates[key] = self._value(key, values), values
            elif channel.is_messages and key not in replaced_keys:
                reducer = self._cache.setdefault(key, IndexedReducer())
                merged = persistent.get(key) or []
                for messages in values:
                    merged = reducer.merge(merged, messages)
                persistent[key], updates[key] = merged, [*now.updates.get(key, ()), *values]
            else:
                value = outcomes[key] if key in outcomes else self._value(key, values)
                # A step takes one Overwrite of a key, and no other write of the key. Without a
                # value so far, LangGraph stores the write unchanged.
                first = key not in self._stored_keys
                persistent[key], updates[key] = value, [value if first else Overwrite(value)]
        # Only a new key is out of order: a replaced value keeps its position in a dict.
        if len(persistent) > len(now.persistent):
            persistent = _in_order(persistent, order)
        last = {key: by_key[key] for key in ephemeral}
        return Preview(persistent, ephemeral, updates, last, order, named_pairs)

    def _value(self, key: str, values: list[Any]) -> Any:
        """Return the value of a key after some writes, as its channel computes the value."""
        view, before = self._channels[key], self.now.persistent
        if key not in before:
            # A copy: all runs share the channel of the compiled graph.
            channel: Any = view.channel.copy()
        elif not view.is_reduced:
            channel = view.channel.from_checkpoint(before[key])
        else:
            if key not in self._cache:  # making a channel takes longer than its reducer
                self._cache[key] = view.channel.from_checkpoint(before[key])
            channel = self._cache[key]
            # The channel still has the value of its last use, which another node may have replaced.
            channel.value = before[key]
        channel.update(values)
        return channel.get()


def _in_order(state: dict[str, Any], order: Mapping[str, Any]) -> dict[str, Any]:
    return {key: state[key] for key in order if key in state}


def overwrites(value: Any) -> bool:
    """Return True if a write replaces the value, in any form that LangGraph accepts."""
    is_dict = isinstance(value, Mapping)  # messages are lists
    return is_json_overwrite(value) if is_dict else isinstance(value, Overwrite)
