"""A turn: calls of one message that run in one task, each after those that it waits for.

Calls that meet must see what the earlier ones have written, before LangGraph applies it: a turn
applies it to a copy of the state. What all calls have written is written at the end, in the order
of the message, as if they had run one after the other.

A call that waits for an answer or fails needs a task, which can be resumed without the others. So
the task of a turn ends there. It writes what the calls before that one have written. The others are
sent on, the finished ones with their results: those that wait for no other one side by side, each
to its own task, and the rest after that as a turn again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from langchain_core.messages import ToolCall
from langgraph.types import Command

from agent_factory.runtime.order import Order
from agent_factory.state.channels import ViewedChannel
from agent_factory.state.updates import StateView, overwrites, pairs_of_result, parts_of
from agent_factory.tools.injection import CONTAINERS
from agent_factory.tools.registry import plan_inside
from agent_factory.tools.tool_node import with_context

RESULT = "result"
"""Key of a finished call that holds its result, when it is sent again."""

LATER = "later"
"""Key of a call that is sent again: the calls that come after its task and those next to it.

The first of these tasks sends them, so that the others have an empty list. Without the key, the
calls of the task are the last ones of the turn.
"""

RELAYS = "relays"
"""Key of a call that is sent again: whether its task writes the signals of the tasks before it."""

_SENT_AGAIN = (RESULT, LATER, RELAYS)


class SentAgain(list[Any]):
    """Calls that are sent again, with what one of them has raised or asked in an earlier task."""

    def __init__(self, calls: Iterable[Mapping[str, Any]], outcomes: Mapping[str, Any]) -> None:
        super().__init__(calls)
        self.outcomes = dict(outcomes)

    def __reduce__(self) -> tuple[object, ...]:
        return list, (list(self),)  # a checkpoint holds the calls alone, which run again


@dataclass(frozen=True)
class Turns:
    """What the turns of an agent share."""

    order: Order
    channels: Mapping[str, Any]
    state_schema: type[Any]

    @cached_property
    def viewed(self) -> Mapping[str, ViewedChannel]:
        """The channels as the view of a turn asks them."""
        return {key: ViewedChannel.of(channel) for key, channel in self.channels.items()}


class Turn:
    """The calls of one task: which can start, what they see, and what they write together.

    Args:
        turns: What it shares with the other turns of the agent.
        calls: The calls, in the order of the message.
        updates: What calls write that run no tool, by their numbers.
        state: What tools see of the state; None if they have to read it themselves.
        stateless: Names of tools that see no state.
        apart: Names of tools that need a task to themselves.
    """

    def __init__(
        self,
        turns: Turns,
        calls: list[dict[str, Any]],
        updates: dict[int, Any],
        state: Mapping[str, Any] | None,
        stateless: Collection[str],
        apart: Collection[str],
    ) -> None:
        self.calls = calls
        self._turns = turns
        self._state = state
        self._stateless = stateless
        self._waits = turns.order.waits(calls)
        # Of a call, all that come before it in any way.
        self._before: list[frozenset[int]] = []
        for numbers in self._waits:
            self._before.append(numbers.union(*(self._before[number] for number in numbers)))
        self.updates = updates  # what the finished calls write
        self._pending = [
            number
            for number, call in enumerate(calls)
            if number not in updates and (RESULT in call or call["name"] not in apart)
        ]

    def ready(self) -> list[tuple[int, Any]]:
        """Return the calls that can start now by their numbers, each with the node's input."""
        ready, pending = [], []
        for number in self._pending:
            if not self.updates.keys() >= self._waits[number]:
                pending.append(number)
            elif (input := self._input(number)) is not None:
                ready.append((number, input))
        self._pending = pending
        return ready

    def _input(self, number: int) -> Any:
        """Return the input of the node for one call; None if the call has no place here."""
        call = plain(self.calls[number])
        if call["name"] in self._stateless:
            return with_context(call, {})
        if self._state is None:  # tools read it, and only LangGraph can apply what is written
            return None if self._before[number] else [call]
        state = self._state_before(number, self._state)
        return None if state is None else with_context(call, state)

    def _state_before(self, number: int, state: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the state that the calls before one leave; None if only LangGraph can tell."""
        # A copy: reducers may change a value in place, and are called again for the thread.
        copies = {k: v.copy() if type(v) in CONTAINERS else v for k, v in state.items()}
        if not self._before[number]:
            return copies
        channels, keys = self._turns.viewed, self._turns.state_schema.__annotations__
        view = StateView(copies, channels, {}, keys)
        for earlier in sorted(self._before[number]):
            pairs = pairs_of_result(self.updates[earlier])
            if pairs is None:
                return None
            pairs = [pair for pair in pairs if not channels[pair[0]].is_ephemeral]
            # Of all writes of a key in one step, LangGraph takes such a one alone.
            if any(channels[key].is_reduced and overwrites(value) for key, value in pairs):
                return None
            try:
                view.now = view.preview(pairs)
            except Exception:  # LangGraph raises it where it applies the update
                return None
        return view.now.persistent

    # The end

    def update(self, numbers: range) -> Any:
        """Return what some finished calls write, in the order of the message."""
        parts = [part for n in numbers for part in self._last_writes(n, numbers)]
        if any(isinstance(part, Command) for part in parts):
            return parts
        update: dict[str, Any] = {"messages": []}
        for part in parts:
            update |= {**part, "messages": [*update["messages"], *part["messages"]]}
        return update

    def _last_writes(self, number: int, numbers: range) -> list[Any]:
        """Return what a call writes, without keys of one value that a later call writes, too."""
        channels = self._turns.viewed
        later = {
            key
            for other in numbers
            if number in self._before[other]
            for key, _ in pairs_of_result(self.updates[other]) or ()
            if key in channels and channels[key].is_single
        }
        return [_without(part, later) if later else part for part in parts_of(self.updates[number])]

    def rest(self) -> tuple[int, int]:
        """Return the number of the first call that is not finished, and where the others part.

        The calls between the two go to tasks side by side, and those from there on come later.
        """
        numbers = range(len(self.calls))
        first = next((n for n in numbers if n not in self.updates), len(self.calls))
        next_to_it = range(first, len(self.calls))
        return first, next(
            (n for n in next_to_it if any(other >= first for other in self._before[n])),
            len(self.calls),
        )


def sent_again(
    calls: Iterable[Mapping[str, Any]], results: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return calls to send again, the finished ones with their results."""
    own = [{key: call[key] for key in call if key not in _SENT_AGAIN} for call in calls]
    return [{**c, RESULT: results[c["id"]]} if c["id"] in results else c for c in own]


def plain(call: Mapping[str, Any]) -> ToolCall:
    """Return a call without the keys that the agent added for its tools node.

    The arguments are copied, because a layer may change them, and a message of the thread holds
    them.
    """
    return ToolCall(name=call["name"], args={**call["args"]}, id=call["id"], type="tool_call")


def tools_apart(tools: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of tools that call an agent: a stored thread resumes it in its task."""
    return frozenset(name for name, tool in tools.items() if plan_inside(tool) is not None)


def _without(part: Any, keys: Collection[str]) -> Any:
    """Return an update or a command without some keys."""
    if not isinstance(part, Command):
        return {key: part[key] for key in part if key not in keys}
    pairs = [(k, v) for k, v in pairs_of_result(replace(part, goto=())) or () if k not in keys]
    update = dict(pairs)
    return replace(part, update=update if len(update) == len(pairs) else pairs)
