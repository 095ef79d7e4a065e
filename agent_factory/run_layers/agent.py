"""LayeredAgent: compiled agent with layers around each of its runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from typing import Any

from langchain_core.runnables import RunnableConfig

from agent_factory.fused.agent import FusedAgent
from agent_factory.hooks.flows import is_awaitable
from agent_factory.run_layers.run import RUN, LayeredRun
from agent_factory.runtime.threads import ThreadAgent


class LayeredAgent(ThreadAgent):
    """Compiled agent whose runs are inside the flows `around_agent` of its middleware.

    LangGraph's `invoke`, `ainvoke` and the event protocols call `stream` and `astream`. An agent
    without such a flow is of another class.
    """

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Iterator[Any]:
        """Run inside the layers, and yield events."""
        run = LayeredRun(self, input, config, options, asynchronous=False)
        steps = run.steps()
        advance, value = steps.send, None
        while True:
            try:
                call = advance(value)
            except StopIteration:
                yield from run.view.take()
                return
            try:
                value, advance = None, steps.send
                if call is not RUN:
                    value = call()
                    continue
                yield from run.view.take()
                parts: Any = super().stream(run.input, run.config, **run.options)
                with closing(parts):
                    for part in parts:
                        yield from run.view.see(part)
            except BaseException as error:
                value, advance = run.raised(error), steps.throw

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run inside the layers, and yield events, asynchronously."""
        run = LayeredRun(self, input, config, options, asynchronous=True)
        steps = run.steps()
        advance, value = steps.send, None
        while True:
            try:
                call = advance(value)
            except StopIteration:
                for part in run.view.take():
                    yield part
                return
            try:
                value, advance = None, steps.send
                if call is not RUN:
                    value = call()
                    value = await value if is_awaitable(value) else value
                    continue
                for part in run.view.take():
                    yield part
                parts: Any = super().astream(run.input, run.config, **run.options)
                async with aclosing(parts):
                    async for part in parts:
                        for seen in run.view.see(part):
                            yield seen
            except BaseException as error:
                value, advance = run.raised(error), steps.throw


class FusedLayeredAgent(LayeredAgent, FusedAgent):
    """LayeredAgent whose runs take many nodes in one step."""
