"""Channels of the state, and channels for messages.

`add_messages` reads the whole history at each write, and again at each conditional edge. The
channels here keep an index of the history instead, so that the time of a write is proportional to
the update. Values and checkpoints are the same as LangGraph's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from inspect import signature
from random import Random
from typing import Any, Self, TypeAlias
from uuid import UUID, uuid5

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langgraph.channels import (
    AnyValue,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    Topic,
    UntrackedValue,
)
from langgraph.channels.base import BaseChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from agent_factory.upstream import messages_delta_reducer

Channel: TypeAlias = BaseChannel[Any, Any, Any]

_Index: TypeAlias = tuple[list[AnyMessage], dict[str | None, int]]
_MakeId: TypeAlias = Callable[[str | None, BaseMessage], str]

# Never change: stored ids derive from this value.
_NAMESPACE = UUID("7d4f2a0e-93c5-4b1d-8e66-2c1f0a9b5d38")


_random = Random()  # not the module's, which a program may seed again and again
# A forked worker would make the same ids as its parent.
os.register_at_fork(after_in_child=_random.seed)


def random_id() -> str:
    """Return a random UUID.

    `uuid4` asks the operating system, and lets other threads run meanwhile: with a saver that
    writes in the background, the call took up to a tenth of a turn.
    """
    return str(UUID(int=_random.getrandbits(128), version=4))


def _random_id(previous: str | None, message: BaseMessage) -> str:
    """Return an id for a message, in the form of `add_messages`."""
    return random_id()


def _derived_id(previous: str | None, message: BaseMessage) -> str:
    """Return an id that is the same at each replay of the writes of a thread."""
    return str(uuid5(_NAMESPACE, f"{previous}/{message.type}/{message.content!r}"))


class IndexedReducer:
    """`add_messages` for one channel, with an index of the positions of messages.

    The index is used only if the list is unchanged, because callers may mutate it. Comparing two
    lists of the same objects takes a nanosecond for each. An id that is changed in place, on a
    message of the history, is not noticed. Only the reducer that owns an index may change the
    index.
    """

    __slots__ = ("_index", "_make_id", "_owns_index")

    def __init__(
        self, make_id: _MakeId = _random_id, index: _Index | None = None, owns_index: bool = True
    ) -> None:
        self._make_id = make_id
        self._index = index
        self._owns_index = owns_index

    def borrowed(self) -> IndexedReducer:
        """Return a reducer that reads this index and does not change the index."""
        return IndexedReducer(self._make_id, self._index, owns_index=False)

    def __call__(self, left: Any, right: Any) -> Any:
        """Return the result of `add_messages`, or raise its error."""
        # `add_messages` raises, with LangGraph's message, unless both are missing.
        if left is None or right is None:
            return add_messages(left, right)
        history, positions = self._index_of(left)
        previous = history[-1].id if history else None
        new = _as_messages(right, self._make_id, previous, positions)
        return self._merge(history, positions, new)

    def merge(self, left: object, new: list[AnyMessage]) -> object:
        """Return the result of `add_messages` for a history, and messages that have ids."""
        return self._merge(*self._index_of(left), new)

    def _merge(
        self, history: list[AnyMessage], positions: dict[str | None, int], new: list[AnyMessage]
    ) -> object:
        for at in range(len(new) - 1, -1, -1):
            if isinstance(new[at], RemoveMessage) and new[at].id == REMOVE_ALL_MESSAGES:
                # `add_messages` takes the rest unchanged: ids twice, and removals inside.
                self._index, history, positions, new = None, [], {}, new[at + 1 :]
                break
        # A copy: the state of nodes and callers has the old list.
        merged: list[Any] = [*history]
        changed: dict[str | None, int] = {}
        removed_ids: set[str | None] = set()
        for message in new:
            position = changed.get(message.id, positions.get(message.id))
            removal = isinstance(message, RemoveMessage)
            if position is None and removal:
                return add_messages(history, new)  # type: ignore[arg-type]  # raises
            if position is None:
                position = len(merged)
                merged.append(message)
            elif not removal:
                merged[position] = message
            # The last write counts: a message after its removal is there again.
            (removed_ids.add if removal else removed_ids.discard)(message.id)
            changed[message.id] = position
        if removed_ids:
            self._index = None
            return [message for message in merged if message.id not in removed_ids]
        # A borrowed index is not changed. It no longer fits, and is made again on demand.
        if not self._owns_index or self._index is None:
            self._index = None
            return merged
        for position in changed.values():  # New messages come in the order of their positions.
            history[position : position + 1] = [merged[position]]
        positions.update(changed)
        return merged

    def _index_of(self, left: object) -> _Index:
        """Return the index of a history, made again for another history."""
        if self._index is None or self._index[0] != left:
            messages = list(_as_messages(left, self._make_id))
            self._index = messages, {message.id: at for at, message in enumerate(messages)}
            self._owns_index = True
        return self._index


_PLAIN = frozenset((AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage))
"""Types of messages that are not chunks: nearly all messages."""


def _as_messages(
    value: object,
    make_id: _MakeId,
    previous: str | None = None,
    taken_ids: Container[str | None] = (),
) -> list[AnyMessage]:
    """Return writes as messages with ids.

    `previous` is the id of the message before the writes, `taken_ids` holds the ids of all messages
    before.
    """
    messages: list[Any] = value if isinstance(value, list) else [value]
    types = set(map(type, messages))
    if not types <= _PLAIN and any(
        not issubclass(t, BaseMessage) or issubclass(t, BaseMessageChunk) for t in types
    ):
        messages = [
            message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message
            for message in convert_to_messages(messages)
        ]
    new_ids: set[str | None] = set()
    for message in messages:
        if message.id is None:
            message.id = make_id(previous, message)
            # Equal messages in a row would get the same derived id, and become a single message.
            while message.id in new_ids or message.id in taken_ids:
                message.id = make_id(message.id, message)
            new_ids.add(message.id)
        previous = message.id
    return messages


def _update(
    channel: BinaryOperatorAggregate[Any] | DeltaChannel[Any],
    reducer: IndexedReducer,
    steps: Iterable[Sequence[object]],
) -> bool:
    """Apply the writes of some steps to a channel; return whether there were any.

    LangGraph's own channel applies the reducer, so `Overwrite` has LangGraph's meaning.
    """
    plain: BinaryOperatorAggregate[Any] = BinaryOperatorAggregate(list, reducer)
    plain.value = channel.value
    is_updated = False
    try:
        for values in steps:
            is_updated = plain.update(values) or is_updated
    # Also if a reducer raises: LangGraph's channel keeps the writes before.
    finally:
        channel.value = plain.value
    return is_updated


class IndexedMessages(BinaryOperatorAggregate[Any]):
    """Channel of the messages of a thread, stored in full in each checkpoint.

    A faster `Annotated[list[AnyMessage], add_messages]` for long histories. Threads can change
    from the one to the other and back.
    """

    __slots__ = ("_reducer",)

    def __init__(self, typ: Any = list, operator: Any = add_messages) -> None:
        super().__init__(typ, operator)
        self._reducer = IndexedReducer()

    def copy(self) -> Self:
        """Return a copy, on which LangGraph tries writes before routing."""
        new = super().copy()
        new._reducer = self._reducer.borrowed()
        return new

    def update(self, values: Sequence[Any]) -> bool:
        """Apply the writes of a step; return whether there were any."""
        return _update(self, self._reducer, [values])


def fold_messages(state: Any, writes: Sequence[object]) -> list[AnyMessage]:
    """Reducer for LangGraph's DeltaChannel with the result of `add_messages`.

    The same writes get the same ids.

    >>> [message.text for message in fold_messages([], [("user", "Hi"), ("ai", "Hello")])]
    ['Hi', 'Hello']
    """
    return reduce(IndexedReducer(_derived_id), writes, state)


_MOST_FULL_COPIES = 8
"""Size of all full copies of a long thread over the size of the thread, about.

At 2, a turn of a service with 1,000 messages took 23.6 ms of CPU on SQLite, and at 8 only 18.5 ms:
each write since the last copy is read from a row.
"""


class DeltaMessages(DeltaChannel[Any]):
    """Channel of the messages of a thread, of which a checkpoint stores only new writes.

    LangGraph's DeltaChannel with the behaviour of `add_messages`. LangGraph calls the channel
    beta: stored threads stay readable, the form of storage may change.

    Args:
        reducer: Internal: LangGraph passes the reducer when it copies the channel.
        typ: Type of the value.
        snapshot_frequency: Number of writes after which the messages are stored in full once, so
            that reading a thread need not start at its beginning. In a thread of more than eight
            times as many messages the number is an eighth of the number of messages, so the size of
            the stored data grows with the thread and not with its square.

    Raises:
        ValueError: `snapshot_frequency` is not positive.

    >>> from typing import Annotated
    >>> from agent_factory import AgentState
    >>> class State(AgentState):
    ...     messages: Annotated[list[AnyMessage], DeltaMessages(snapshot_frequency=20)]
    """

    __slots__ = ("_least", "_reducer")

    def __init__(
        self, reducer: Any = None, typ: Any = list, *, snapshot_frequency: int = 100
    ) -> None:
        reducer = reducer or messages_delta_reducer(fold_messages)
        super().__init__(reducer, typ, snapshot_frequency=snapshot_frequency)
        self._reducer = IndexedReducer(_derived_id)

    @property
    def snapshot_frequency(self) -> int:
        """Number of writes after which the messages are stored in full, given their number now.

        langgraph 1.2.22 (pregel, create_checkpoint) reads the attribute again for each checkpoint;
        see the canary in tests/test_upstream.py.
        """
        length = len(self.value) if isinstance(self.value, list) else 0
        return max(self._least, length // _MOST_FULL_COPIES)

    @snapshot_frequency.setter
    def snapshot_frequency(self, least: int) -> None:
        self._least = least

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel with a stored value."""
        new = super().from_checkpoint(checkpoint)
        new._least = self._least
        return new

    def copy(self) -> Self:
        """Return a copy, on which LangGraph tries writes before routing."""
        new = self.from_checkpoint(self.value)
        new._reducer = self._reducer.borrowed()
        return new

    def update(self, values: Sequence[Any]) -> bool:
        """Apply the writes of a step; return whether there were any."""
        return _update(self, self._reducer, [values])

    def replay_writes(self, writes: Sequence[Any]) -> None:
        """Apply the writes since the messages were last stored in full."""
        _update(self, self._reducer, _joined(writes))


def _joined(writes: Iterable[Any]) -> Iterator[list[object]]:
    """Yield steps of one write with the same result, with lists that only add or replace joined.

    Each write copies the history, so thousands of writes take the time of the square.
    """
    batch: list[Any] | None = None
    # Each is the id of a task, the channel and the value, as savers return them.
    for _, _, write in writes:
        # Each message has an id, and does not remove other messages.
        if isinstance(write, list) and all(
            isinstance(message, BaseMessage)
            and not (message.id is None or isinstance(message, RemoveMessage))
            for message in write
        ):
            (batch := batch or []).extend(write)
            continue
        if batch is not None:  # an empty list gives ids to messages of an Overwrite
            yield [batch]
        batch = None
        yield [write]
    if batch is not None:
        yield [batch]


class KeyedByName(BinaryOperatorAggregate[Any]):
    """Channel of a dict that middleware keep by their names, with former names replaced.

    An entry under the current name comes before an entry under a former name.
    """

    __slots__ = ("_new_names",)

    def __init__(self, channel: BinaryOperatorAggregate[Any], new_names: Mapping[str, str]) -> None:
        super().__init__(channel.typ, channel.operator)
        self.key = channel.key
        self._new_names = new_names

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel with a stored value."""
        # LangGraph's `from_checkpoint` constructs the class with a type and an operator.
        new = type(self)(self, self._new_names)
        plain: BinaryOperatorAggregate[Any] = BinaryOperatorAggregate(self.typ, self.operator)
        new.value = plain.from_checkpoint(self._renamed(checkpoint)).value
        return new

    def copy(self) -> Self:
        """Return a copy, on which LangGraph tries writes before routing."""
        return self.from_checkpoint(self.value)

    def update(self, values: Sequence[Any]) -> bool:
        """Apply the writes of a step; writes of a step that was cut short may have former names."""
        return super().update([self._renamed(value) for value in values])

    def _renamed(self, value: object) -> object:
        if not isinstance(value, dict) or self._new_names.keys().isdisjoint(value):
            return value
        # Former names first, so that an entry under the current name takes their place.
        names = sorted(value, key=lambda name: name not in self._new_names)
        return {self._new_names.get(name, name): value[name] for name in names}


def with_ids(value: object) -> object:
    """Return writes as messages with ids; None stays None and fails later."""
    return None if value is None else _as_messages(value, _random_id)


def has_stored_value(channel: object) -> bool:
    """Return True if the value of a channel is the value read from its checkpoints.

    Other channels drop values, or compute values from the stored data.
    """
    kinds = (LastValue, BinaryOperatorAggregate, IndexedMessages, DeltaMessages)
    return type(channel) in kinds


def is_messages(channel: object) -> bool:
    """Return True if a channel merges writes as `add_messages` does."""
    if isinstance(channel, BinaryOperatorAggregate):
        return channel.operator is add_messages
    return isinstance(channel, DeltaMessages)


def is_ephemeral(channel: Channel) -> bool:
    """Return True if only the next step sees the writes of a step."""
    # An accumulating Topic keeps its values for the whole run.
    if isinstance(channel, Topic):
        return not channel.accumulate
    return isinstance(channel, AnyValue | EphemeralValue)


def is_single(channel: Channel) -> bool:
    """Return True if the value is the last write. A subclass may behave otherwise."""
    return type(channel) in (LastValue, UntrackedValue)


def is_reduced(channel: Channel) -> bool:
    """Return True if a reducer of the user computes the value, write by write."""
    return type(channel) in (BinaryOperatorAggregate, KeyedByName) and not is_messages(channel)


def is_persistent(channel: Channel) -> bool:
    """Return True if a value stays until the next write."""
    return isinstance(channel, LastValue | UntrackedValue | BinaryOperatorAggregate | DeltaChannel)


def is_known(channel: Channel) -> bool:
    """Return True if the value after a write can be computed in advance.

    A DeltaChannel stores writes and not values, so its reducer has to run in LangGraph.
    """
    return any(test(channel) for test in (is_ephemeral, is_single, is_reduced, is_messages))


@dataclass(frozen=True, slots=True)
class ViewedChannel:
    """A channel, and its behaviour at writes: asked once for all the writes of all steps."""

    channel: Channel
    is_ephemeral: bool
    is_single: bool
    is_reduced: bool
    is_messages: bool
    is_known: bool

    @classmethod
    def of(cls, channel: Channel) -> ViewedChannel:
        """Return a channel with the answers of the functions above."""
        about = (is_ephemeral, is_single, is_reduced, is_messages, is_known)
        return cls(channel, *(is_so(channel) for is_so in about))


_LANGGRAPH = ("base", "memory", "sqlite", "postgres")
_STORING = ("put", "put_writes", "get_tuple", "list", "get_delta_channel_history")
_MODULES = {"agent_factory.service.saver", *map("langgraph.checkpoint.{}".format, _LANGGRAPH)}


def supports_delta_channel(checkpointer: object, *, by_default: bool = False) -> bool:
    """Return True if a saver declares that it can rebuild the value of a DeltaChannel.

    langgraph-checkpoint 4.3: every saver inherits `get_delta_channel_history`, which silently loses
    writes if a saver deletes old checkpoints (MongoDB, Redis), and their order if it drops
    `task_path`. `by_default`, all methods have to be LangGraph's or ours: another `put` may rewrite
    messages, which a delta checkpoint does not have.
    """
    if not isinstance(checkpointer, BaseCheckpointSaver):
        return False
    methods = [getattr(checkpointer, prefix + name) for name in _STORING for prefix in ("", "a")]
    modules = [".".join(str(method.__module__).split(".")[:3]) for method in methods]
    is_declared = modules[-2:] != ["langgraph.checkpoint.base"] * 2
    takes_path = "task_path" in signature(checkpointer.put_writes).parameters
    return is_declared and takes_path and (not by_default or _MODULES.issuperset(modules))
