"""Tool batches: the tool calls of one turn in one task, as long as none of them stops.

A task for each call costs more than most calls. But if one call waits for an answer or fails, the
others must not run again when the run is resumed. Then all are sent again, each to its own task,
and the finished ones take their results along.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.types import Command, Send

from agent_factory.fused.step import ANSWERED, Run, replay, run_of
from agent_factory.hooks.flows import then
from agent_factory.runtime.composition import Handler
from agent_factory.runtime.routing import DIRECT, Choice, Target
from agent_factory.runtime.tools_node import ToolsNode
from agent_factory.state.schema import TOOL_SIGNALS
from agent_factory.topology.model import TOOLS

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

    def finish(self, call: str, result: Any) -> Any:
        self.results[call] = result
        return result

    def fail(self, call: str, error: BaseException) -> ToolMessage:
        """Note what stopped a call, and return a placeholder for its result."""
        if self.single or not isinstance(error, Exception):
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
        if call in batch.known:
            return later(batch.known[call]) if batch.asynchronous else batch.known[call]
        if (action := batch.run.deferred.pop(call, None)) is not None:
            return action()
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
    entry: str | None = None  # where the run continues if no tool can end it; or an edge chooses
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
        return self._finish(batch, input, await self.tools.ainvoke(input, config))

    def _start(self, input: Any, config: RunnableConfig | None, *, asynchronous: bool) -> _Batch:
        # A thread of another graph may be paused at its tools, with the whole state as their input.
        calls = input if isinstance(input, list) else []
        known = {call["id"]: call[RESULT] for call in calls if RESULT in call}
        batch = _Batch(run_of(config), config, asynchronous, len(calls) < 2, known)
        _batch.set(batch)
        return batch

    def _finish(self, batch: _Batch, input: Any, output: Any) -> Any:
        if batch.failures:
            for call_id, error in batch.failures.items():
                if (action := replay(error, batch.config)) is not None:
                    batch.run.deferred[call_id] = action
            batch.run.resent = True
            calls = [
                {**call, RESULT: batch.results[call["id"]]} if call["id"] in batch.results else call
                for call in input
            ]
            return Command(goto=[Send(TOOLS, [call]) for call in calls])
        if self.entry is None:
            return output
        # Calls of a run hook by hook do not say whether it has an answer: the entry node checks.
        unknown = not isinstance(input, list) or any(call.get(ANSWERED, True) for call in input)
        signals = [{TOOL_SIGNALS: DIRECT}] if unknown else []
        updates = output if isinstance(output, list) else [output]
        return [*updates, *signals, Command(goto=self.entry)]


def resendable(choose: Choice) -> Choice:
    """Return the route after tools, which leads nowhere if the node has sent its calls again."""

    def route(state: Any, config: RunnableConfig | None = None) -> Target:
        run = run_of(config)
        resent, run.resent = run.resent, False
        return [] if resent else choose(state, config)

    return route
