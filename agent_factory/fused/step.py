"""Steps: the nodes that a run takes in one LangGraph step, with the same order and result.

A step that starts at a node continues with the next ones as their edges say, as long as the path
leads forward. What such a step cannot do in the place of a later node, such as to wait for the
answer to an interrupt or to fail, that node does itself in the step that follows. In a run hook by
hook, each node is a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from langchain_core.callbacks import CallbackManager
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.channels import UntrackedValue
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Interrupt, Send, interrupt

from agent_factory.fused.events import Event
from agent_factory.fused.run import Action, Run, run_of
from agent_factory.fused.spans import AsyncSpans, as_written, call_in_span
from agent_factory.fused.state_view import Preview, StateView
from agent_factory.runtime.composition import without_streaming
from agent_factory.runtime.routing import Choice, Target
from agent_factory.runtime.tools_node import with_state
from agent_factory.state.channels import DeltaMessages
from agent_factory.state.schema import LAST_NODE, RETRIES, TOOL_SIGNALS
from agent_factory.state.updates import Pair, pairs_of
from agent_factory.tools.tool_node import CallsWithState
from agent_factory.topology.model import END, TOOLS
from agent_factory.upstream import (
    current_config,
    graph_namespace,
    interrupts_here,
    node_alone,
    node_before,
    saver_of,
    state_writer,
    stored_writes,
    stores_at_exit,
    streams_messages,
    task_id,
)

if TYPE_CHECKING:
    from agent_factory.fused.planning import Fusion


def replay(error: Exception, config: RunnableConfig | None, run: Run) -> Action | None:
    """Return a function that raises the same in another step, or None if only a rerun can."""

    def raise_again() -> Any:
        raise error

    if not isinstance(error, GraphInterrupt):
        return raise_again
    interrupts: tuple[Interrupt[Any], ...] = (*error.args, ())[0]
    if interrupts_here(interrupts, config):
        asked = interrupts[0]
        return lambda: interrupt(asked.value, response_schema=asked.response_schema)
    # A subgraph waits, in a checkpoint namespace that belongs to the step that called it. A run
    # without a checkpointer cannot be resumed, so there the namespace does not matter.
    return raise_again if run.single_step else None


@dataclass(frozen=True, slots=True)
class Stage:
    """A node as a part of a step, and what may follow it in the same step."""

    name: str
    node: Runnable[Any, Any]
    route: str | Choice  # the next node, or the function that chooses one
    next_nodes: frozenset[str] = frozenset()  # nodes this step may continue to from it
    next_if_unchanged: frozenset[str] = frozenset()  # the same, if no node has written state so far
    next_if_stored: frozenset[str] = frozenset()  # the same, once what it wrote is stored
    sees_signals: bool = False  # sees the keys for signals of tools and for retries
    streams: bool = False  # the tokens of models that it calls are streamed
    needs_thread: bool = False  # runs in a thread in an asynchronous run

    def visible(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return what the node sees of the state."""
        if self.sees_signals or (TOOL_SIGNALS not in state and RETRIES not in state):
            return state
        return {key: state[key] for key in state if key not in (TOOL_SIGNALS, RETRIES)}


class StepRunner:
    """One step through the nodes of an agent. Its caller decides between sync and async."""

    def __init__(
        self, first: Step, state: Mapping[str, Any], config: RunnableConfig, run: Run
    ) -> None:
        self._first = first
        self._config = config  # of the step
        self._quiet_config = _unnamed(without_streaming(config))
        self._run = run
        fusion = first.fusion
        self._view = StateView(state, fusion.channels, run.cached_channels, fusion.keys)
        self._is_first = True
        self._last = first.name  # the last node whose writes are part of the step
        self._unchanged = True
        self._stored = False  # what was written so far is stored, and nothing else may be written
        self._calls: list[dict[str, Any]] | None = None
        self._needs_own_step, run.resumed = run.resumed, False
        self._node_config = config
        self._events: list[Event] = []
        self._to_stream: Callable[[], None] = _do_nothing
        self.step = first  # the node that comes next
        self.error: Exception | None = None  # that of the last node
        self._unstored: Any = None
        self.done = False
        self.outcome: Any = None
        self.spans = AsyncSpans()
        run.runner = self

    @property
    def needs_thread(self) -> bool:
        """Whether an asynchronous run takes the next nodes in a thread."""
        return self.step.stage.needs_thread and not (self.done or self._run.watched)

    def run_next(self) -> None:
        """Run the next node, and find out what comes after it."""
        input, config = self._enter()
        step, self._to_stream = self.step, _do_nothing
        try:
            if not self._run.traced:
                self.take(step.stage.node.invoke(input, config))
            elif step.has_trace_policy:
                step.traced.invoke(input, config)  # calls `take`
            else:
                call_in_span(step.stage.node, step.name, input, config, self.take_in_span)
        except Exception as error:
            self._fail(error)
        self._to_stream()

    async def arun_next(self, *, streaming: bool) -> None:
        """Run the next node, and find out what comes after it."""
        input, config = self._enter()
        step, self._to_stream = self.step, _do_nothing
        try:
            if not self._run.traced:
                self.take(await step.stage.node.ainvoke(input, config))
            elif step.has_trace_policy:
                await self.spans.finish()
                async for _ in step.traced.astream(input, config):
                    pass
            else:
                # Of the handlers of an asynchronous run, that of the stream is called first.
                node, take = (
                    step.stage.node,
                    partial(self.take_in_span, with_ids=self._run.messages),
                )
                await self.spans.call(node, step.name, input, config, take, streaming=streaming)
        except Exception as error:
            self._fail(error)
        self._to_stream()

    def run_next_in_thread(self) -> None:
        """Run the next node, and those after it that need a thread, in the current thread."""
        self.run_next()
        while self.needs_thread:
            self.run_next()

    def take_unstored(self) -> Any:
        """Return a saver and the arguments for its `put_writes`, if it is to be called now."""
        unstored, self._unstored = self._unstored, None
        return unstored

    def take_events(self) -> list[Event]:
        """Return the events of the nodes that have run since the last call."""
        events, self._events = self._events, []
        return events

    def _enter(self) -> tuple[Any, RunnableConfig]:
        """Return the input and the config of the next node."""
        stage, run = self.step.stage, self._run
        if not (run.named or stage.streams):
            config = self._quiet_config
        elif self._is_first:
            config = run.first_config(self._config, traced=run.traced)
        else:
            config = run.later_config(self._config, stage.name)
        if not run.traced:
            config = _unnamed(config)
        self._node_config = config
        # A node may have set a config for what it calls, which is not for the next node.
        current_config.set(config)
        if self._calls is None:
            return stage.visible(self._view.now.state()), config
        # ToolNode reads persistent channels only, so tools must not see ephemeral ones here.
        state = stage.visible(dict(self._view.now.persistent))
        return CallsWithState(self._calls, state), config

    def _fail(self, error: Exception) -> None:
        if self._is_first:
            raise error  # this is its own step
        if self.done:
            return  # an edge has failed in a span
        self._leave_to_own_step(replay(error, self._node_config, self._run))

    def take_in_span(self, result: Any, *, with_ids: bool = False) -> Any:
        """Process what the node has returned, and return it as handlers see it.

        Messages have their ids already if somebody has seen them: an edge, or the stream of them.

        Raises:
            Exception: The edge has failed; the span ends with its error.
        """
        seen = with_ids or not isinstance(self.step.stage.route, str)
        recorded = result if seen else as_written(result)
        self.take(result)
        if self.error is not None:
            raise self.error
        return recorded

    def take(self, result: Any) -> None:
        """Process what the node has returned, and continue or end the step."""
        now, stage = self._view.now, self.step.stage
        route = stage.route
        # Fast path: most hooks return None and have one next node.
        if (
            result is None
            and isinstance(route, str)
            and route in stage.next_nodes
            and not (now.ephemeral or self._needs_own_step)
        ):
            self._emit((), now)
            self._last = self.step.name
            self._move_to(route)
            return
        if self._stored and result is not None and not self._begin_next_step():
            self._leave_to_own_step(lambda: result)
            return
        pairs = self._pairs(result)
        preview = None if pairs is None else self._preview(pairs)
        if pairs is None or preview is None:
            if self._is_first:
                self._end(result)
            else:
                self._leave_to_own_step(lambda: result)
            return
        try:
            target = route if isinstance(route, str) else route(preview.state(), self._node_config)
        except Exception as error:
            self._emit(pairs, preview, done=False)
            self.error = error
            self._fail(error)
            return
        if self._run.messages and result is not None:
            self._to_stream = partial(self._stream_messages, result, self._view.now.state())
        self._view.now = preview
        self._last = self.step.name
        self._unchanged = self._unchanged and result is None
        self._emit(pairs, preview)
        if not self._can_continue(target, preview):
            self._leave(preview, self._goto(target, preview))
        elif isinstance(target, str):
            self._calls = None
            self._move_to(target)
        else:
            self._calls = self._calls_of(target, preview)
            self._move_to(TOOLS)

    def _pairs(self, result: Any) -> list[Pair] | None:
        """Return what a node writes; None for a Command that leaves the graph."""
        pairs: list[Pair] = []
        for part in result if isinstance(result, list) else [result]:
            if isinstance(part, Command):
                if part.graph or part.goto:
                    return None
                pairs += pairs_of(part, "a node")
            elif part is not None:
                pairs += part.items()
        return pairs

    def _preview(self, pairs: list[Pair]) -> Preview | None:
        """Return the state after some writes; None if LangGraph has to raise its own error."""
        now = self._view.now
        if not (pairs or now.ephemeral):
            return now
        try:
            return self._view.preview(pairs)
        except Exception:
            return None

    def _can_continue(self, target: Target, preview: Preview) -> bool:
        """Whether this step may run what comes next."""
        stage, run, is_node = self.step.stage, self._run, isinstance(target, str)
        ends = self._needs_own_step or preview.opaque
        if is_node and target in stage.next_nodes:
            return not ends
        if is_node and not (ends or run.shows_steps):
            if self._unchanged and target in stage.next_if_unchanged:
                return True
            if target in stage.next_if_stored:
                self._store(target, preview)
                return True
        # Of several calls, each may wait for an answer or fail, so they need tasks.
        possible = target in self._first.steps if is_node else len(target) == 1
        return self._begin_next_step(possible=possible and not ends)

    def _begin_next_step(self, *, possible: bool = True) -> bool:
        """Whether a run that takes a single step goes on with what would be the next one."""
        run = self._run
        if not run.single_step:
            return False
        run.check_limit(self._config)
        if possible:
            run.skipped_steps += 1
            self._unchanged, self._stored = True, False
        return possible

    def _store(self, target: str, preview: Preview) -> None:
        """Prepare to store what was written so far, so that it outlives the rest of the step."""
        self._stored = True
        saver, channels = saver_of(self._config), self._first.fusion.channels
        if saver is None or stores_at_exit(self._config):
            return
        kept = [pair for pair in preview.writes() if type(channels[pair[0]]) is not UntrackedValue]
        self._unstored = saver, stored_writes(self._config, kept, target)

    def _move_to(self, name: str) -> None:
        self._is_first, self.step = False, self._first.steps[name]
        self._run.ahead += 1

    def _leave_to_own_step(self, action: Action | None) -> None:
        """End the step before this node; what the nodes before it have written is kept."""
        name = self.step.name
        if action is not None:
            self._run.deferred[name] = action
        self._run.ahead -= 1
        goto = name if self._calls is None else [Send(TOOLS, self._calls)]
        self._leave(self._view.now, goto)

    def _goto(self, target: Target, preview: Preview) -> Any:
        if isinstance(target, str):
            return () if target == END else target
        calls = self._calls_of(target, preview)
        fusion = self._first.fusion
        ids = {call["id"] for call in calls}
        together = (
            fusion.batches_calls
            and not (self._run.watched or self._run.named)
            and saver_of(self._config) is None
            and self._config.get("max_concurrency") is None
            # A batch knows its results by the ids of their calls.
            and None not in ids
            and len(ids) == len(calls)
        )
        batches = [calls] if together else [[call] for call in calls]
        if (keys := fusion.state_keys) is not None and not preview.opaque:
            batches = [with_state(batch, preview.persistent, keys) for batch in batches]
        return [Send(TOOLS, batch) for batch in batches]

    def _calls_of(self, sends: list[Send], preview: Preview) -> list[dict[str, Any]]:
        self._run.answered = preview.persistent.get("structured_response") is not None
        return [call for send in sends for call in send.arg]

    def _leave(self, preview: Preview, goto: Any) -> None:
        """End the step with everything that its nodes have written."""
        if (events := self._run.events) is not None:
            self._events += events.of_step(graph_namespace(self._config), preview)
        pairs = preview.writes()
        if self._last != self._first.name and saver_of(self._config) is not None:
            pairs.append((LAST_NODE, self._last))
        self._end(Command(update=pairs, goto=goto))

    def _end(self, outcome: Any) -> None:
        self.done, self.outcome = True, outcome

    # What others see of the node

    def _emit(self, pairs: Sequence[Pair], preview: Preview, *, done: bool = True) -> None:
        """Note the events of the node that has run, up to its edge or with it."""
        if (events := self._run.events) is None:
            return
        channels = self._first.fusion.channels
        if pairs:  # LangGraph shows messages as a delta channel stores them
            stored = zip(pairs, preview.given, strict=True)
            pairs = [
                given if isinstance(channels[given[0]], DeltaMessages) else pair
                for pair, given in stored
            ]
        namespace, task = graph_namespace(self._config), task_id(self._node_config)
        outcome = preview if done else None
        self._events += events.of_node(namespace, self.step.name, task, pairs, outcome)

    def _stream_messages(self, result: Any, state: Mapping[str, Any]) -> None:
        """Let LangGraph's stream of messages see what the node has returned."""
        config: Any = self._node_config
        handlers = [one for one in config["callbacks"].handlers if streams_messages(one)]
        manager = CallbackManager(handlers, metadata=config["metadata"])
        name = config["metadata"]["langgraph_node"]
        manager.on_chain_start(cast("Any", None), state, name=name).on_chain_end(result)


def _do_nothing() -> None:
    """Stand for what is to be done after a node."""


def _unnamed(config: RunnableConfig) -> RunnableConfig:
    """Return a config for what a node calls, without the name of the node."""
    named = ("run_name", "run_id")
    return cast("RunnableConfig", {key: config[key] for key in config if key not in named})  # type: ignore[literal-required]


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
            return self.alone.invoke(self.stage.visible(input), config)
        return copy_context().run(self._invoke, input, config, run)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        config = config or {}
        if (run := run_of(config)) is None:
            return await self.alone.ainvoke(self.stage.visible(input), config)
        work = self._ainvoke(input, config, run, streaming=False)
        return await asyncio.create_task(work, context=copy_context())

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> AsyncIterator[Any]:
        """Run as `ainvoke`, with the events of a stream for callbacks that listen to it."""
        config = config or {}
        if (run := run_of(config)) is None:
            async for part in self.alone.astream(self.stage.visible(input), config):
                yield part
        else:
            work = self._ainvoke(input, config, run, streaming=True)
            yield await asyncio.create_task(work, context=copy_context())

    def _invoke(self, input: Any, config: RunnableConfig, run: Run) -> Any:
        runner = self._start(input, config, run)
        while not runner.done:
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
        runner = self._start(input, config, run)
        while not runner.done:
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
        await runner.spans.finish()
        await self._ashow(runner, run)
        return self._write.invoke(runner.outcome, config)

    async def _ashow(self, runner: StepRunner, run: Run) -> None:
        """Show the events of the nodes that have run, and wait until they have been seen."""
        if run.events is not None:
            await runner.spans.finish()
        for event in runner.take_events():
            await run.aemit(event)

    def _start(self, input: Any, config: RunnableConfig, run: Run) -> StepRunner:
        if run.skipped_steps:  # LangGraph does not count those
            run.check_limit(config, begun=0)
        runner = StepRunner(self, input, config, run)
        if (action := run.deferred.pop(self.name, None)) is not None:
            current_config.set(config)
            runner.take(action())
        return runner


class _Continue(Runnable[Any, Any]):
    """The end of a traced node in a step: the choice of what comes next."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        run = run_of(config)
        assert run is not None  # a step has started the node
        return run.runner.take_in_span(input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        return self.invoke(input, config)
