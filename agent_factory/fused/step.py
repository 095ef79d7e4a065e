"""Steps: the nodes that a run takes in one LangGraph step, with the same order and result.

A step that starts at a node continues with the next ones as their edges say, as long as the path
leads forward. In a run hook by hook, each node is a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextvars import copy_context
from functools import cached_property
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor

from agent_factory.fused.planning import Fusion, Stage
from agent_factory.fused.run import Run, run_of
from agent_factory.fused.runner import StepRunner
from agent_factory.upstream import (
    node_alone,
    node_before,
    read_keys,
    state_writer,
)


class Step(Runnable[Any, Any]):
    """What LangGraph runs for a node: it alone, or in a fused run those after it as well."""

    name: str

    def __init__(self, name: str, node: Any, steps: Mapping[str, Step], fusion: Fusion) -> None:
        self.name = name
        self.steps = steps
        self.fusion = fusion
        self._node = node
        self.has_trace_policy = node.trace_policy is not None
        self._write = state_writer(node)

    @cached_property
    def stage(self) -> Stage:
        """What a step has to know about the node."""
        return self.fusion.stages[self.name]

    @cached_property
    def alone(self) -> Runnable[Any, Any]:
        """The node as LangGraph runs it, with its edges."""
        return node_alone(self._node)

    @cached_property
    def traced(self) -> Runnable[Any, Any]:
        """The node as LangGraph traces it, with the rest of a step in place of its edges.

        Spans of other nodes are made here, in less time.
        """
        return node_before(self._node, _Continue())

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        config = config or {}
        if (run := run_of(config)) is None:
            return self.alone.invoke(input, config)
        return copy_context().run(self._invoke, input, config, run)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        config = config or {}
        if (run := run_of(config)) is None:
            return await self.alone.ainvoke(input, config)
        work = self._ainvoke(input, config, run, streaming=False)
        return await asyncio.create_task(work, context=copy_context())

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> AsyncIterator[Any]:
        """Run as `ainvoke`, with the events of a stream for callbacks that listen to it."""
        config = config or {}
        if (run := run_of(config)) is None:
            async for part in self.alone.astream(input, config):
                yield part
        else:
            work = self._ainvoke(input, config, run, streaming=True)
            yield await asyncio.create_task(work, context=copy_context())

    def _invoke(self, input: Any, config: RunnableConfig, run: Run) -> Any:
        runner, watched = self._start(input, config, run), run.watched
        while not runner.done:
            if watched:
                self._show(runner, run)
            if unstored := runner.take_unstored():
                saver, writes = unstored
                saver.put_writes(*writes)
            try:
                runner.run_next()
            except Exception:
                self._show(runner, run)
                raise
        self._show(runner, run)
        return self._write.invoke(runner.outcome, config)

    def _show(self, runner: StepRunner, run: Run) -> None:
        """Show the events of the nodes that have run to the caller of the stream."""
        for event in runner.take_events():
            run.emit(event)

    async def _ainvoke(
        self, input: Any, config: RunnableConfig, run: Run, *, streaming: bool
    ) -> Any:
        runner, watched = self._start(input, config, run), run.watched
        while not runner.done:
            if watched:
                await self._ashow(runner, run)
            if unstored := runner.take_unstored():
                saver, writes = unstored
                await saver.aput_writes(*writes)
            try:
                if runner.needs_thread:
                    await run_in_executor(None, runner.run_next_in_thread)
                else:
                    await runner.arun_next(streaming=streaming)
            except Exception:
                await self._ashow(runner, run)
                raise
        await self._ashow(runner, run)
        return self._write.invoke(runner.outcome, config)

    async def _ashow(self, runner: StepRunner, run: Run) -> None:
        """Show the events of the nodes that have run, and wait until they have been seen."""
        if run.traced and (run.events is not None or runner.done):
            await runner.spans.finish()
        for event in runner.take_events():
            await run.aemit(event)

    def _start(self, input: Any, config: RunnableConfig, run: Run) -> StepRunner:
        if run.skipped_steps:  # LangGraph does not count those
            run.check_limit(config, begun=0)
        keys = self.fusion.engine_keys
        if keys and not self.stage.sees_signals:  # later nodes of the step may see them
            input = {**input, **read_keys(config, keys)}
        return StepRunner(self, input, config, run)


class _Continue(Runnable[Any, Any]):
    """The end of a traced node in a step: the choice of what comes next."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        run = run_of(config)
        assert run is not None  # a step has started the node
        return run.runner.take_in_span(input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        return self.invoke(input, config)
