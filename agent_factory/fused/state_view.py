"""State view: the state as the nodes of one fused step see it, one after the other.

LangGraph applies the writes of a step when the step is over. Several nodes in one step must see
each other's writes before that, so this module applies them to copies of LangGraph's channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

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
from langgraph.types import Overwrite

from agent_factory.state.channels import is_messages, with_ids
from agent_factory.state.updates import Pair
from agent_factory.upstream import is_json_overwrite

Channel = BaseChannel[Any, Any, Any]


def is_ephemeral(channel: Channel) -> bool:
    """Whether only the next step sees what a step writes."""
    if isinstance(channel, Topic):
        return not channel.accumulate
    return isinstance(channel, AnyValue | EphemeralValue)


def is_single(channel: Channel) -> bool:
    """Whether the value is the last write. A subclass may behave otherwise."""
    return type(channel) in (LastValue, UntrackedValue)


def is_reduced(channel: Channel) -> bool:
    """Whether a reducer computes the value from the one before and all writes."""
    return isinstance(channel, BinaryOperatorAggregate | DeltaChannel)


def is_persistent(channel: Channel) -> bool:
    """Whether a value stays until the next write."""
    return isinstance(channel, LastValue | UntrackedValue | BinaryOperatorAggregate | DeltaChannel)


def is_known(channel: Channel) -> bool:
    """Whether the value after a write can be computed in advance."""
    return is_ephemeral(channel) or is_single(channel) or is_reduced(channel)


@dataclass(frozen=True, slots=True)
class ViewedChannel:
    """A channel, and what writes do to it: asked once for all the writes of all steps."""

    channel: Channel
    is_ephemeral: bool
    is_single: bool
    is_reduced: bool
    is_messages: bool
    is_known: bool

    @classmethod
    def of(cls, channel: Channel) -> ViewedChannel:
        """Return a channel with all that the functions above say about it."""
        about = (is_ephemeral, is_single, is_reduced, is_messages, is_known)
        return cls(channel, *(is_so(channel) for is_so in about))


@dataclass(frozen=True, slots=True)
class Preview:
    """What the state will be after a node's writes."""

    persistent: dict[str, Any]  # the values that stay until the next write
    ephemeral: dict[str, Any]  # the values that only the next node sees
    written: dict[str, list[Any]]  # all writes to persistent keys so far
    last: dict[str, list[Any]]  # the node's own writes to ephemeral keys
    order: Mapping[str, Any]  # all keys, in the order in which LangGraph reads them
    given: list[Pair] = field(default_factory=list)  # the node's own writes, messages with ids
    opaque: bool = False  # there is a write whose outcome only LangGraph can compute

    def state(self) -> dict[str, Any]:
        """Return the state that the next node and its edge see."""
        if not self.ephemeral:
            return dict(self.persistent)
        return _in_order({**self.persistent, **self.ephemeral}, self.order)

    def writes(self) -> list[Pair]:
        """Return the writes that leave the state so, once the step is over."""
        every = (*self.written.items(), *self.last.items())
        return [(key, value) for key, values in every for value in values]


class StateView:
    """The state within one step, beginning with the state that was read before it."""

    def __init__(
        self,
        state: Mapping[str, Any],
        channels: Mapping[str, ViewedChannel],
        cached: dict[str, Any],
        order: Mapping[str, Any],
    ) -> None:
        self._channels = channels
        self._order = order
        self._cached = cached  # channels from earlier steps; those of messages have an index
        ephemeral = {key for key in state if key in channels and channels[key].is_ephemeral}
        persistent = {key: value for key, value in state.items() if key not in ephemeral}
        # The state so far. Set it to a preview to accept that.
        self.now = Preview(persistent, {key: state[key] for key in ephemeral}, {}, {}, order)
        self._reduced: dict[str, Channel] = {}

    def preview(self, pairs: Iterable[Pair]) -> Preview:
        """Return the state after a node's writes. Accept it before you call this again."""
        now, order, channels = self.now, self._order, self._channels
        named: list[Pair] = []
        given: dict[str, list[Any]] = {}
        for key, value in pairs:
            # Messages are folded here and by LangGraph, so their ids must be set before that.
            if channels[key].is_messages and not _overwrites(value):
                value = with_ids(value)
            named.append((key, value))
            if key in given:
                given[key].append(value)
            else:
                given[key] = [value]
        if not named:  # most hooks write nothing
            return Preview(now.persistent, {}, now.written, {}, order) if now.ephemeral else now
        persistent, written, opaque = dict(now.persistent), dict(now.written), False
        ephemeral: dict[str, Any] = {}
        for key, values in given.items():
            channel = channels[key]
            if channel.is_single and len(values) == 1:  # nearly all
                persistent[key], written[key] = values[0], values
                continue
            if channel.is_ephemeral:
                ephemeral[key] = self._apply(key, channel, values)
                continue
            if channel.is_known:
                persistent[key] = self._apply(key, channel, values)
            else:
                opaque = True
            earlier = now.written.get(key, [])
            if (not earlier and len(values) == 1) or channel.is_single:
                written[key] = values
            # An earlier Overwrite is the only write, because those after it were merged into it.
            elif any(map(_overwrites, [*earlier[:1], *values])):
                # A step takes one Overwrite, and no write after it.
                written[key] = [Overwrite(persistent[key])]
            else:
                written[key] = [*earlier, *values]
        if len(persistent) > len(now.persistent):
            persistent = _in_order(persistent, order)
        return Preview(
            persistent=persistent,
            ephemeral=ephemeral,
            written=written,
            last={key: given[key] for key in ephemeral},
            order=order,
            given=named,
            opaque=opaque,
        )

    def _apply(self, key: str, viewed: ViewedChannel, values: list[Any]) -> Any:
        """Return the value of a key after some writes."""
        channel: Any = viewed.channel
        if not viewed.is_reduced:
            channel = channel.copy()
        elif key in self._reduced:
            channel = self._reduced[key]
        else:
            if key not in self.now.persistent:
                channel = channel.copy()
            else:
                value = self.now.persistent[key]
                if not viewed.is_messages:
                    # A reducer may change its first argument, and LangGraph folds that again.
                    value = copy(value)
                if not (viewed.is_messages or type(channel) is BinaryOperatorAggregate):
                    channel = channel.from_checkpoint(value)
                elif key in self._cached:  # to make one takes longer than its reducer
                    channel = self._cached[key]
                    channel.value = value
                else:
                    channel = self._cached[key] = channel.from_checkpoint(value)
            self._reduced[key] = channel
        channel.update(values)
        return channel.get()


def _in_order(state: dict[str, Any], order: Mapping[str, Any]) -> dict[str, Any]:
    return {key: state[key] for key in order if key in state}


def _overwrites(value: Any) -> bool:
    """Whether a write replaces the value, in any form that LangGraph accepts."""
    return isinstance(value, Overwrite) or is_json_overwrite(value)
