"""Tool batches: the tool calls of one turn in one task, in runs of which nothing is stored.

A task for each call costs more than most calls. If a call waits for an answer or fails, all are
sent again, each to its own task, and the finished ones take their results along. Where a thread is
stored, each call has its task from the start: a graph that it calls is resumed there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.types import Command, Send

from agent_factory.fused.planning import Fusion
from agent_factory.fused.run import Run, run_of
from agent_factory.fused.runner import replay
from agent_factory.hooks.flows import then
from agent_factory.runtime.composition import Handler
from agent_factory.runtime.routing import DIRECT, Choice, Target
from agent_factory.runtime.tools_node import ToolsNode
from agent_factory.state.schema import TOOL_SIGNALS
from agent_factory.topology.model import TOOLS
from agent_factory.upstream import node_alone, node_before, state_writer

RESULT = "result"
"""Key of a finished call that holds its result, when it is sent to its own task."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """The calls of one task, with results and failures by the id of the call."""

    run: Run
    config: RunnableConfig | None
    asynchronous: bool
    single: bool  # there is only one call, whose errors are the task's
    known: Mapping[str, Any]  # results from an earlier task
    results: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)  # of its calls, if asynchronous

    def finish(self, call: str, result: Any) -> Any:
        self.results[call] = result
        return result

    def fail(self, call: str, error: BaseException) -> ToolMessage:
        """Note what stopped a call, and return a placeholder for its result."""
        if not isinstance(error, Exception):
            raise error
        self.failures[call] = error
        return ToolMessage("", tool_call_id=call)


_batch: ContextVar[_Batch | None] = ContextVar("batch", default=None)


def capture_results(run: Handler) -> Handler:
    """Return the call of a tool with all its layers so that the batch notes its result."""

    async def later(result: Any) -> Any:
        return result

    def captured(request: Any) -> Any:
        batch, call = _batch.get(), request.tool_call["id"]
        if batch is None:
            return run(request)
        if batch.asynchronous and (task := asyncio.current_task()):
            batch.tasks.add(task)
        if call in batch.known:
            return later(batch.known[call]) if batch.asynchronous else batch.known[call]
        if (action := batch.run.deferred.pop(call, None)) is not None:
            return action()
        if batch.single:
            return run(request)
        try:
            result = run(request)
        except Exception as error:
            return batch.fail(call, error)
        return then(result, partial(batch.finish, call), partial(batch.fail, call))

    return captured


@dataclass(eq=False, repr=False)
class BatchedToolsNode(Runnable[Any, Any]):
    """Tools node that takes the calls of a turn in one task."""

    tools: ToolsNode  # its layers capture results
    name = TOOLS

    @property
    def tools_by_name(self) -> dict[str, BaseTool]:
        """The tools that run here, as LangGraph's ToolNode lists them."""
        return self.tools.tools_by_name

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        batch = self._start(input, config, asynchronous=False)
        if (action := batch.run.deferred.pop(TOOLS, None)) is not None:
            return action()
        return self._finish(batch, input, self.tools.invoke(input, config))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        batch = self._start(input, config, asynchronous=True)
        if (action := batch.run.deferred.pop(TOOLS, None)) is not None:
            return action()
        try:
            output = await self.tools.ainvoke(input, config)
        except asyncio.CancelledError:
            if batch.tasks:  # ToolNode waits for the first cancelled call only
                await asyncio.wait(batch.tasks)
            raise
        return self._finish(batch, input, output)

    def _start(self, input: Any, config: RunnableConfig | None, *, asynchronous: bool) -> _Batch:
        # A thread of another graph may be paused at its tools, with the whole state as their input.
        calls = input if isinstance(input, list) else []
        known = {call["id"]: call[RESULT] for call in calls if RESULT in call}
        batch = _Batch(run_of(config) or Run(), config, asynchronous, len(calls) < 2, known)
        _batch.set(batch)
        return batch

    def _finish(self, batch: _Batch, input: Any, output: Any) -> Any:
        if batch.failures:
            for call_id, error in batch.failures.items():
                if (action := replay(error, batch.config, batch.run)) is not None:
                    batch.run.deferred[call_id] = action
            batch.run.resent = True
            batch.run.ahead -= 1  # the calls take one more step
            calls = [
                {**call, RESULT: batch.results[call["id"]]} if call["id"] in batch.results else call
                for call in input
            ]
            return Command(goto=[Send(TOOLS, [call]) for call in calls])
        return output


class ToolsStep(Runnable[Any, Any]):
    """What LangGraph runs for the tools node: in a fused run, the next node is known."""

    name = TOOLS

    def __init__(self, node: Any, fusion: Fusion) -> None:
        self._node = node
        self._entry = fusion.next_after_tools

    @cached_property
    def _alone(self) -> Runnable[Any, Any]:
        return node_alone(self._node)

    @cached_property
    def _fused(self) -> Runnable[Any, Any]:
        if self._entry is None:
            return self._alone
        return node_before(self._node, _Enter(self._entry, state_writer(self._node)))

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        node, config = self._choose(config)
        return node.invoke(input, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        node, config = self._choose(config)
        return await node.ainvoke(input, config)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> AsyncIterator[Any]:
        """Run as `ainvoke`, with the events of a stream for callbacks that listen to it."""
        node, config = self._choose(config)
        async for part in node.astream(input, config):
            yield part

    def _choose(
        self, config: RunnableConfig | None
    ) -> tuple[Runnable[Any, Any], RunnableConfig | None]:
        run = run_of(config)
        if run is None or config is None:
            return self._alone, config
        return self._fused, run.first_config(config, traced=True)


@dataclass(eq=False, repr=False)
class _Enter(Runnable[Any, Any]):
    """The end of a tools node: it continues with the entry of the loop."""

    entry: str
    write: Runnable[Any, Any]

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        run = run_of(config)
        if run is not None and run.resent:  # with a Command
            run.resent = False
            return self.write.invoke(input, config)
        # A run that was resumed does not know whether it has an answer: the entry node checks.
        unknown = run is None or run.answered is not False
        signals = [{TOOL_SIGNALS: DIRECT}] if unknown else []
        updates = input if isinstance(input, list) else [input]
        self.write.invoke([*updates, *signals, Command(goto=self.entry)], config)
        return input

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        return self.invoke(input, config)


def resendable(choose: Choice) -> Choice:
    """Return the route after tools, which leads nowhere if the node has sent its calls again."""

    def route(state: Any, config: RunnableConfig | None = None) -> Target:
        run = run_of(config)
        if run is None or not run.resent:
            return choose(state, config)
        run.resent = False
        return []

    return route
