"""The state as the nodes of one step see it, one after the other, and what the step writes.

LangGraph applies the writes of a step when the step is over. Several nodes in one step must see
each other's all the same, so they are applied here to copies of its channels, in its own way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

from langgraph.channels import (
    AnyValue,
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    Topic,
    UntrackedValue,
)
from langgraph.channels.base import BaseChannel
from langgraph.types import Overwrite

from agent_factory.state.channels import DeltaMessages, is_messages, with_ids
from agent_factory.state.updates import Pair

Channel = BaseChannel[Any, Any, Any]

OVERWRITE = "__overwrite__"
"""How LangGraph writes an Overwrite in JSON."""


def is_ephemeral(channel: Channel) -> bool:
    """Whether what one step writes is seen by the next one alone."""
    if isinstance(channel, Topic):
        return not channel.accumulate
    return isinstance(channel, AnyValue | EphemeralValue)


def is_single(channel: Channel) -> bool:
    """Whether the last write is the value. Subclasses may do otherwise."""
    return type(channel) in (LastValue, UntrackedValue)


def is_folded(channel: Channel) -> bool:
    """Whether a reducer makes the value, of the one before and all that is written."""
    return isinstance(channel, BinaryOperatorAggregate | DeltaMessages)


def is_persistent(channel: Channel) -> bool:
    """Whether a value stays until it is written again."""
    return isinstance(channel, LastValue | UntrackedValue | BinaryOperatorAggregate | DeltaMessages)


def is_known(channel: Channel) -> bool:
    """Whether its writes can be foreseen."""
    return is_ephemeral(channel) or is_single(channel) or is_folded(channel)


@dataclass(frozen=True, slots=True)
class Preview:
    """What the state would be after a node's writes.

    Args:
        lasting: The keys that stay until they are written again.
        passing: Those that the next node alone will see.
        written: All that is to be written once the step is over, by key; a passing key is in
            `last`.
        last: What the node itself writes to passing keys.
        blind: A write was made whose outcome only LangGraph can tell.
    """

    lasting: dict[str, Any]
    passing: dict[str, Any]
    written: dict[str, list[Any]]
    last: dict[str, list[Any]]
    blind: bool = False

    def state(self) -> dict[str, Any]:
        """What the next node is shown, and the edge that leads to it."""
        return {**self.lasting, **self.passing}

    def writes(self) -> list[Pair]:
        """What leaves the state, once the step is over, as its nodes have seen it."""
        every = (*self.written.items(), *self.last.items())
        return [(key, value) for key, values in every for value in values]


class View:
    """The state within one step.

    Args:
        state: As it was read when the step began.
        channels: What becomes of a write to each key.
        kept: Channels of messages from earlier steps of the run: they know where each one is.
    """

    def __init__(
        self,
        state: Mapping[str, Any],
        channels: Mapping[str, Channel],
        kept: dict[str, Any] | None = None,
    ) -> None:
        self._channels = channels
        self._kept = {} if kept is None else kept
        passing = {key for key in state if key in channels and is_ephemeral(channels[key])}
        lasting = {key: value for key, value in state.items() if key not in passing}
        self.now = Preview(lasting, {key: state[key] for key in passing}, {}, {})
        """What the nodes so far have left. Setting it accepts what was foreseen."""
        self._folds: dict[str, Channel] = {}

    def preview(self, pairs: Iterable[Pair]) -> Preview:
        """What a node's writes lead to. Foresee again only after accepting it.

        Raises:
            Exception: Whatever LangGraph, or a reducer, would raise at the end of the step.
        """
        now = self.now
        given: dict[str, list[Any]] = {}
        for key, value in pairs:
            given.setdefault(key, []).append(value)
        if not given:  # as with most hooks, most of the time
            return Preview(now.lasting, {}, now.written, {}) if now.passing else now
        given = {key: self._ready(key, values) for key, values in given.items()}
        seen = {
            key: self._seen(key, values)
            for key, values in given.items()
            if is_known(self._channels[key])
        }
        passing = {key: value for key, value in seen.items() if is_ephemeral(self._channels[key])}
        lasting = {**now.lasting, **{k: v for k, v in seen.items() if k not in passing}}
        news = {
            key: self._concat_updates(key, values, lasting)
            for key, values in given.items()
            if key not in passing
        }
        return Preview(
            lasting=lasting,
            passing=passing,
            written={**now.written, **news},
            last={key: given[key] for key in passing},
            blind=len(seen) < len(given),
        )

    def _ready(self, key: str, values: list[Any]) -> list[Any]:
        """Messages get their ids here: they are folded twice, and must be the same ones."""
        if not is_messages(self._channels.get(key)):
            return values
        return [value if _overwrites(value) else with_ids(value) for value in values]

    def _seen(self, key: str, values: list[Any]) -> Any:
        channel = self._channels[key]
        if is_folded(channel):
            channel = self._folds.get(key) or self._begun(key)
            self._folds[key] = channel
        else:
            channel = channel.copy()
        channel.update(values)
        return channel.get()

    def _begun(self, key: str) -> Channel:
        """The channel of a key, with its value in it."""
        channel = self._channels[key]
        if key not in self.now.lasting:
            return channel.copy()
        value = self.now.lasting[key]
        if not is_messages(channel):
            # A reducer may work in place, and then not on what is to be folded again.
            return channel.from_checkpoint(copy(value))
        kept: Any = self._kept.get(key) or channel.from_checkpoint(value)
        kept.value = value
        self._kept[key] = kept
        return cast("Channel", kept)

    def _concat_updates(self, key: str, values: list[Any], after: Mapping[str, Any]) -> list[Any]:
        """All writes to a key, as they are written at the end of the step."""
        earlier = self.now.written.get(key, [])
        if (not earlier and len(values) == 1) or is_single(self._channels[key]):
            return values
        # What is written so far has one in it only if that is all there is.
        if any(map(_overwrites, [*earlier[:1], *values])):
            # A step takes one, and nothing after it.
            return [Overwrite(after[key])]
        return [*earlier, *values]


def _overwrites(value: Any) -> bool:
    """Whether a write may replace what a reducer has made, in any form LangGraph knows."""
    if isinstance(value, Overwrite):
        return True
    return isinstance(value, Mapping) and OVERWRITE in (*value, value.get("type"))
