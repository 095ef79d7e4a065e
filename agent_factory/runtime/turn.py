"""A turn: calls of one message that run in one task, each as soon as its predecessors have ended.

A call must see the writes of the calls before it, and LangGraph applies writes only after the task.
So a turn applies them to a copy of the state. The writes of all calls are written at the end, in
the order of the message, as if the calls had run one after the other.

A call that waits for an answer or fails needs a separate task, which can be resumed alone. So the
task of the turn ends there, with the writes of the calls before. All later calls are sent on, the
finished ones with their updates: calls without predecessors side by side, each to its own task, and
after them the rest, as a turn again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import nullcontext
from contextvars import copy_context
from functools import cached_property
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_executor_for_config
from langgraph.types import Command, Send

from agent_factory.runtime.order import Order
from agent_factory.runtime.outcomes import outcome_of
from agent_factory.runtime.routing import HELD
from agent_factory.runtime.step import Run, run_of
from agent_factory.runtime.tools_node import Resend, SentCall, ToolsNode
from agent_factory.state.channels import ViewedChannel
from agent_factory.state.schema import TOOL_SIGNALS
from agent_factory.state.updates import (
    StateView,
    overwrites,
    pairs_of_result,
    parts_of,
    without_keys,
)
from agent_factory.tools.injection import copy_containers
from agent_factory.tools.registry import is_agent
from agent_factory.tools.tool_node import CallsWithState
from agent_factory.topology.model import TOOLS
from agent_factory.upstream import read_keys, saver_of

UPDATE = "update"
"""Key of a finished call that is sent on: the update of the call."""

LATER = "later"
"""Key of a call that is sent on: the calls after its task and the parallel tasks.

The first of these tasks sends the calls, so that the other tasks have an empty list. Without the
key, the task has the last calls of the turn.
"""

RELAYS = "relays"
"""Key of a call that is sent on: whether its task writes the signals of the tasks before it."""


class Turn:
    """The calls of one task: which can start, which state they see, and their common update.

    Args:
        calls: The calls, in the order of the message.
        waits: For each call, the numbers of the calls that must end first.
        view: Applies updates to a copy of the state.
        state: The part of the state for tools; None if tools have to read the state themselves.
        stateless: Names of tools that see no state.
        apart: Names of tools that need a task to themselves.
    """

    def __init__(
        self,
        calls: Sequence[dict[str, Any]],
        waits: Sequence[frozenset[int]],
        view: View,
        state: Mapping[str, Any] | None,
        stateless: Collection[str],
        apart: Collection[str],
    ) -> None:
        self.calls = calls
        self.updates = {n: call[UPDATE] for n, call in enumerate(calls) if UPDATE in call}
        self.failures: dict[int, Exception] = {}
        self._view, self._state, self._stateless = view, state, stateless
        self._waits = waits
        # For each call, the direct and indirect predecessors.
        self._before: list[frozenset[int]] = []
        for numbers in waits:
            self._before.append(numbers.union(*(self._before[number] for number in numbers)))
        self._pending = [
            n for n, call in enumerate(calls) if n not in self.updates and call["name"] not in apart
        ]

    def ready(self) -> list[tuple[int, list[dict[str, Any]]]]:
        """Return the calls that can start now by their numbers, each as the node's input."""
        ready, pending = list[tuple[int, list[dict[str, Any]]]](), []
        for number in self._pending:
            call = self.calls[number]
            earlier = [self.updates.get(before) for before in sorted(self._before[number])]
            if not self.updates.keys() >= self._waits[number]:
                pending.append(number)
            elif call["name"] in self._stateless or (self._state is None and not earlier):
                ready.append((number, [call]))
            # Otherwise only LangGraph can apply the writes, so the call cannot run here.
            elif (state := self._view.after(self._state, earlier)) is not None:
                ready.append((number, CallsWithState([call], state)))
        self._pending = pending
        return ready

    def settle(self, number: int, outcome: Any) -> None:
        """Note the update or the error of a call."""
        (self.failures if isinstance(outcome, Exception) else self.updates)[number] = outcome

    def update(self, numbers: Iterable[int]) -> Any:
        """Return the update of some finished calls, in the order of the message."""
        parts: list[Any] = []
        for number in numbers:
            # A key with one value a step gets the value of the last call in a chain.
            later = [n for n in numbers if number in self._before[n]]
            pairs = [pair for n in later for pair in pairs_of_result(self.updates[n]) or ()]
            keys = {key for key, _ in pairs if self._view.is_single(key)}
            parts += (without_keys(part, keys) for part in parts_of(self.updates[number]))
        # LangGraph takes a list of updates only if there is a command among them.
        if any(isinstance(part, Command) for part in parts):
            return parts
        update: dict[str, Any] = {"messages": []}
        for part in parts:
            update |= {**part, "messages": [*update["messages"], *part["messages"]]}
        return update

    def rest(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the calls from the first unfinished call on, the finished ones with updates.

        The first list goes to tasks side by side; the second list comes later.
        """
        size = len(self.calls)
        first = next((n for n in range(size) if n not in self.updates), size)
        later = next(
            (n for n in range(first, size) if any(other >= first for other in self._before[n])),
            size,
        )
        # Only the first call of an earlier task has the two keys.
        calls = [{k: v for k, v in call.items() if k not in (LATER, RELAYS)} for call in self.calls]
        for number, update in self.updates.items():
            calls[number][UPDATE] = update
        return calls[first:later], calls[later:]


class View:
    """The state after updates that LangGraph has not applied yet."""

    def __init__(self, channels: Mapping[str, Any], order: Mapping[str, Any]) -> None:
        self._all_channels, self._order = channels, order

    @cached_property
    def _channels(self) -> dict[str, ViewedChannel]:
        return {key: ViewedChannel.of(channel) for key, channel in self._all_channels.items()}

    def is_single(self, key: str) -> bool:
        """Return True if a step takes one value of a key."""
        return key in self._channels and self._channels[key].is_single

    def after(
        self, state: Mapping[str, Any] | None, updates: Sequence[Any]
    ) -> Mapping[str, Any] | None:
        """Return the state after some updates; None if only LangGraph can compute it."""
        if not updates or state is None:
            return state
        # A copy: reducers may change a value in place, and are called again for the thread.
        copies = {key: copy_containers(value) for key, value in state.items()}
        view = StateView(copies, self._channels, {}, self._order)
        for update in updates:
            pairs = pairs_of_result(update)
            if pairs is None:
                return None
            pairs = [pair for pair in pairs if not self._channels[pair[0]].is_ephemeral]
            # Among several writes of a key in one step, LangGraph takes an overwrite alone.
            if any(self._channels[key].is_reduced and overwrites(value) for key, value in pairs):
                return None
            try:
                view.now = view.preview(pairs)
            except Exception:  # LangGraph raises the error where it applies the update
                return None
        return view.now.persistent


class OrderedToolsNode(ToolsNode):
    """Tools node of an agent whose calls may wait for others of their turn."""

    def __init__(self, *arguments: Any, order: Order, view: View) -> None:
        super().__init__(*arguments)
        self._order = order
        self._turn_view = view

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: object) -> object:
        if not isinstance(input, list) or not input or config is None:
            return super().invoke(input, config)
        if (turn := self._turn(input, config)) is not None:
            self._take(turn, config)
            return self._end(turn, config)
        if (update := input[0].get(UPDATE)) is None:
            update = super().invoke(self._with_state(input, config), config)
        return self._led(update, input[0], config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> object:
        if not isinstance(input, list) or not input or config is None:
            return await super().ainvoke(input, config)
        if (turn := self._turn(input, config)) is not None:
            await self._atake(turn, config)
            return self._end(turn, config)
        if (update := input[0].get(UPDATE)) is None:
            update = await super().ainvoke(self._with_state(input, config), config)
        return self._led(update, input[0], config)

    def _turn(self, calls: list[Any], config: RunnableConfig) -> Turn | None:
        """Return the turn of several calls, if a call waits for another call."""
        if len(calls) < 2:
            return None
        # The rest of a turn is a turn, too, even if no call waits.
        waits = self._order.waits(calls)
        if not any(waits) and RELAYS not in calls[0]:
            return None
        # A stored thread resumes an agent in the task of the call.
        tools = self._toolbox.client.items() if saver_of(config) is not None else ()
        apart = {name for name, tool in tools if is_agent(tool)}
        state = getattr(self._with_state(calls, config), "state", None)
        return Turn(calls, waits, self._turn_view, state, self._stateless, apart)

    def _with_state(self, calls: list[Any], config: RunnableConfig) -> list[Any]:
        """Return calls with the state for tools, if the state is known here."""
        has_outcome = getattr(calls, "outcome", None) is not None
        if isinstance(calls, CallsWithState) or self.state_keys is None or has_outcome:
            return calls
        # The state of calls that are sent on has signals, which are not for tools.
        return CallsWithState(calls, read_keys(config, list(self.state_keys)))

    def _take(self, turn: Turn, config: RunnableConfig) -> None:
        """Run the calls of a turn, each as soon as its predecessors are finished."""

        def take(input: list[Any]) -> Any:
            try:
                return super(OrderedToolsNode, self).invoke(input, config)
            except Exception as error:
                return error

        running: dict[Future[Any], int] = {}
        with get_executor_for_config(config) as executor:
            while (ready := turn.ready()) or running:
                for number, input in ready:
                    if len(ready) == 1 and not running:  # nothing to run next to it
                        turn.settle(number, copy_context().run(take, input))
                    else:
                        running[executor.submit(take, input)] = number
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    turn.settle(running.pop(future), future.result())

    async def _atake(self, turn: Turn, config: RunnableConfig) -> None:
        """Run the calls of a turn, as `_take`."""
        limit = config.get("max_concurrency")
        places = nullcontext() if limit is None else asyncio.Semaphore(limit)

        async def take(number: int, input: list[Any]) -> None:
            try:
                async with places:
                    outcome = await super(OrderedToolsNode, self).ainvoke(input, config)
            except Exception as error:
                outcome = error
            turn.settle(number, outcome)
            start()

        def start() -> None:
            for number, input in turn.ready():
                group.create_task(take(number, input))

        async with asyncio.TaskGroup() as group:
            start()

    def _end(self, turn: Turn, config: RunnableConfig) -> object:
        """Return the update of the calls, and send unfinished calls on."""
        together, rest = turn.rest()
        first = len(turn.calls) - len(together) - len(rest)
        update = turn.update(range(first))
        if not together:
            return self._led(update, turn.calls[0], config)
        run, later = run_of(config) or Run(), list[SentCall]()
        for number, call in enumerate(together, first):
            call[RELAYS] = number == first
            if rest:
                call[LATER] = rest if number == first else []
            error = turn.failures.get(number)
            outcome = error and outcome_of(error, config, run.single_step)
            later.append(SentCall(call, outcome))
        return self._led(update, turn.calls[0], config, later)

    def _led(
        self, update: Any, call: Mapping[str, Any], config: RunnableConfig, later: Any = None
    ) -> object:
        """Return an update, with the signals of earlier tasks and the calls for later tasks."""
        if RELAYS not in call and later is None:  # nearly always
            return update
        parts = parts_of(update)
        if call.get(RELAYS):  # the signals last for a step only
            signals = read_keys(config, [TOOL_SIGNALS, "jump_to"])
            signals[TOOL_SIGNALS] = [s for s in signals.get(TOOL_SIGNALS) or () if s != HELD]
            parts.append(Command(update=signals))
        if later is None and (rest := call.get(LATER)) is not None:
            later = [[{**rest[0], RELAYS: True}, *rest[1:]]] if rest else []
        if later is None:
            return parts if call.get(RELAYS) else update
        (run_of(config) or Run()).ahead -= bool(later)  # the calls take one more step
        sends = [Send(TOOLS, calls) for calls in later]
        return [*parts, Resend(update={TOOL_SIGNALS: HELD}, goto=sends)]
