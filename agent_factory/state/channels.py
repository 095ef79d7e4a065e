"""Channels for messages: LangGraph's own, with `add_messages` done in the time of the update.

`add_messages` looks at the whole history at each write, and again at each conditional edge. These
channels keep an index of it instead. What they hold, store and hand out is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Self, TypeAlias
from uuid import UUID, uuid4, uuid5

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    RemoveMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langgraph.channels import BinaryOperatorAggregate, DeltaChannel
from langgraph.graph import message as langgraph_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

SNAPSHOT_FREQUENCY = 100
"""Writes to the messages before they are stored in full again. LangGraph's own number."""

_Index: TypeAlias = tuple[list[AnyMessage], dict[str | None, int]]
_Naming: TypeAlias = Callable[[str | None, BaseMessage], str]

_NAMES = UUID("7d4f2a0e-93c5-4b1d-8e66-2c1f0a9b5d38")  # drawn once: ids in threads derive from it


def _drawn(after: str | None, message: BaseMessage) -> str:
    """An id for a message, as `add_messages` makes it."""
    return str(uuid4())


def _derived(after: str | None, message: BaseMessage) -> str:
    """An id that is the same whenever the history is read again.

    Args:
        after: The id of the message before this one. It makes threads differ.
        message: The message without an id.
    """
    return str(uuid5(_NAMES, f"{after}/{message.type}/{message.content!r}"))


class Fold:
    """`add_messages` for one channel, remembering where each message is.

    What is remembered is used only if the history is what it was: whoever was handed it may have
    changed it in place. Comparing two lists of the same objects takes a nanosecond for each. An
    id that was changed in place, on a message of the history, is not noticed.

    Args:
        name: Makes the id of a message that has none.
        index: The messages last seen and the place of each id, or None.
        owned: Whether to keep the index up to date; otherwise it is another's.
    """

    __slots__ = ("_index", "_name", "_owned")

    def __init__(
        self, name: _Naming = _drawn, index: _Index | None = None, owned: bool = True
    ) -> None:
        self._name = name
        self._index = index
        self._owned = owned

    def borrowed(self) -> Fold:
        """One that reads this index and does not change it."""
        return Fold(self._name, self._index, owned=False)

    def __call__(self, left: Any, right: Any) -> Any:
        """What `add_messages` gives.

        Raises:
            ValueError: A message is to be removed that is not there, or a side is None.
        """
        if left is None or right is None:
            return add_messages(left, right)
        known, at = self._index_of(left)
        new = _messages(right, self._name, known[-1].id if known else None, at)
        cleared = _after_clearing(new)
        if cleared is not None:
            self._index = None
            return cleared
        return self._merged(known, at, new)

    def _merged(self, known: list[Any], at: dict[str | None, int], new: list[Any]) -> Any:
        merged = [*known]
        places: dict[str | None, int] = {}
        removed: set[str | None] = set()
        for message in new:
            place = places.get(message.id, at.get(message.id))
            removal = isinstance(message, RemoveMessage)
            if place is None and removal:
                return add_messages(known, new)  # which raises, in LangGraph's own words
            if place is None:
                place = len(merged)
                merged.append(message)
            elif not removal:
                merged[place] = message
            (removed.add if removal else removed.discard)(message.id)
            places[message.id] = place
        if removed:
            self._index = None
            return [message for message in merged if message.id not in removed]
        self._follow(merged, places)
        return merged

    def _index_of(self, left: Any) -> _Index:
        if self._index is None or self._index[0] != left:
            messages = list(_messages(left, self._name))
            self._index = messages, {message.id: at for at, message in enumerate(messages)}
            self._owned = True
        return self._index

    def _follow(self, merged: list[AnyMessage], places: dict[str | None, int]) -> None:
        """Bring the index up to date, or let go of it where it is another's."""
        if self._index is None or not self._owned:
            self._index = None
            return
        known, at = self._index
        for place in places.values():  # new ones come in the order they were appended in
            known[place : place + 1] = [merged[place]]
        at.update(places)


def _messages(
    given: Any, name: _Naming, after: str | None = None, taken: Container[str | None] = ()
) -> list[AnyMessage]:
    """What was written, as messages with ids.

    Args:
        given: One message or a list, in any form.
        name: Makes the id of a message that has none.
        after: The id of the message before them.
        taken: The ids of all messages before them.
    """
    messages = _coerced(given if isinstance(given, list) else [given])
    made: set[str | None] = set()
    for message in messages:
        if message.id is None:
            message.id = name(after, message)
            while message.id in made or message.id in taken:
                message.id = name(message.id, message)
            made.add(message.id)
        after = message.id
    return messages


def _coerced(given: list[Any]) -> list[Any]:
    if all(map(_is_whole, set(map(type, given)))):
        return given
    return [_whole(message) for message in convert_to_messages(given)]


def _is_whole(kind: type) -> bool:
    return issubclass(kind, BaseMessage) and not issubclass(kind, BaseMessageChunk)


def _whole(message: BaseMessage) -> BaseMessage:
    if isinstance(message, BaseMessageChunk):
        return message_chunk_to_message(message)
    return message


def _after_clearing(messages: Iterable[AnyMessage]) -> list[AnyMessage] | None:
    """What was written after the last word to remove everything; None without one."""
    kept: list[AnyMessage] | None = None
    for message in messages:
        if isinstance(message, RemoveMessage) and message.id == REMOVE_ALL_MESSAGES:
            kept = []
        elif kept is not None:
            kept.append(message)
    return kept


@contextmanager
def _folding(
    channel: BinaryOperatorAggregate[Any] | DeltaChannel[Any], fold: Fold
) -> Iterator[BinaryOperatorAggregate[Any]]:
    """LangGraph's own channel with an index for its reducer, to change another's value with."""
    plain: BinaryOperatorAggregate[Any] = BinaryOperatorAggregate(list, fold)
    plain.value = channel.value
    try:
        yield plain
    finally:
        channel.value = plain.value


class IndexedMessages(BinaryOperatorAggregate[Any]):
    """The messages of a thread, stored in full in each checkpoint.

    What `Annotated[list[AnyMessage], add_messages]` does, without its work for long histories.
    Threads go from one to the other and back.

    Args:
        typ: The type of the value.
        operator: What it does: LangGraph compares the channels of a key by it.
    """

    __slots__ = ("_fold",)

    def __init__(self, typ: Any = list, operator: Any = add_messages) -> None:
        super().__init__(typ, operator)
        self._fold = Fold()

    def copy(self) -> Self:
        """A copy, to be told what may happen next."""
        new = super().copy()
        new._fold = self._fold.borrowed()
        return new

    def update(self, values: Sequence[Any]) -> bool:
        """Apply the writes of a step; whether there were any."""
        with _folding(self, self._fold) as plain:
            return plain.update(values)


def fold_messages(state: Any, writes: Sequence[Any]) -> Any:
    """A reducer for LangGraph's DeltaChannel that does what `add_messages` does.

    Applied to the same writes it gives the same ids.

    Raises:
        ValueError: A message is to be removed that is not there, or a write is None.

    >>> [message.text for message in fold_messages([], [("user", "Hi"), ("ai", "Hello")])]
    ['Hi', 'Hello']
    """
    return reduce(Fold(_derived), writes, state)


# Where LangGraph finds its own reducer it makes messages with ids of all that is written, before it
# is stored; elsewhere it leaves pairs and texts, and a pair comes back from a saver as two texts.
# Without this reducer, which LangGraph calls experimental, lists of messages work all the same.
_NAMED_BEFORE = getattr(langgraph_messages, "_messages_delta_reducer", fold_messages)


class DeltaMessages(DeltaChannel[Any]):
    """The messages of a thread, of which a checkpoint stores only what was written.

    LangGraph's DeltaChannel with all that `add_messages` can do. LangGraph calls that channel
    beta: what it stores stays readable, how it stores may change.

    Args:
        reducer: Leave it: LangGraph passes it on when it copies the channel.
        typ: The type of the value.
        snapshot_frequency: Writes after which the messages are stored in full once, so that
            reading a thread need not go back to its start. In a thread of more than twice as many
            messages it is half their number: what is stored grows with a thread, not with its
            square.

    Raises:
        ValueError: `snapshot_frequency` is not positive.

    >>> from typing import Annotated
    >>> from agent_factory import AgentState
    >>> class State(AgentState):
    ...     messages: Annotated[list[AnyMessage], DeltaMessages(snapshot_frequency=20)]
    """

    __slots__ = ("_fold", "_least")

    def __init__(
        self,
        reducer: Any = _NAMED_BEFORE,
        typ: Any = list,
        *,
        snapshot_frequency: int = SNAPSHOT_FREQUENCY,
    ) -> None:
        super().__init__(reducer, typ, snapshot_frequency=snapshot_frequency)
        self._fold = Fold(_derived)

    @property
    def snapshot_frequency(self) -> int:
        """Writes after which LangGraph stores the messages in full, as many as there are now."""
        held = len(self.value) if isinstance(self.value, list) else 0
        return max(self._least, held // 2)

    @snapshot_frequency.setter
    def snapshot_frequency(self, least: int) -> None:
        self._least = least

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """A channel that holds what was stored."""
        new = super().from_checkpoint(checkpoint)
        new._least = self._least
        return new

    def copy(self) -> Self:
        """A copy, to be told what may happen next."""
        new = self.from_checkpoint(self.value)
        new._fold = self._fold.borrowed()
        return new

    def update(self, values: Sequence[Any]) -> bool:
        """Apply the writes of a step; whether there were any."""
        with _folding(self, self._fold) as plain:
            return plain.update(values)

    def replay_writes(self, writes: Sequence[Any]) -> None:
        """Apply what was written since the messages were last stored in full."""
        with _folding(self, self._fold) as plain:
            for _, _, value in writes:
                plain.update([value])


def with_ids(given: Any) -> Any:
    """What is to be written, as messages that have their ids; None stays, and is refused later."""
    return None if given is None else _messages(given, _drawn)


def is_messages(channel: Any) -> bool:
    """Whether a channel folds what is written to it as `add_messages` does."""
    if isinstance(channel, BinaryOperatorAggregate):
        return channel.operator is add_messages
    return isinstance(channel, DeltaMessages)
