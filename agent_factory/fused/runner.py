"""Step runner: takes the nodes of one step, one after the other.

What a step cannot do in the place of a later node, such as to wait for the answer to an interrupt
or to fail, that node does itself in the step that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import count
from typing import Any, Protocol, cast

from langchain_core.callbacks import CallbackManager
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.channels import UntrackedValue
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Interrupt, Send, interrupt

from agent_factory.fused.events import Event
from agent_factory.fused.planning import Fusion, Stage
from agent_factory.fused.run import Action, Run
from agent_factory.fused.spans import AsyncSpans, as_written, call_in_span
from agent_factory.fused.state_view import Preview, StateView
from agent_factory.runtime.composition import without_streaming
from agent_factory.runtime.routing import Choice, Target
from agent_factory.runtime.tools_node import with_state
from agent_factory.state.channels import DeltaMessages
from agent_factory.state.schema import LAST_NODE
from agent_factory.state.updates import Pair, pairs_of
from agent_factory.tools.tool_node import CallsWithState
from agent_factory.topology.model import END, TOOLS
from agent_factory.upstream import (
    counting_graphs,
    current_config,
    graph_namespace,
    in_namespace,
    interrupts_here,
    reading_after,
    saver_of,
    sent_writes,
    stored_writes,
    stores_at_exit,
    streams_messages,
    task_id,
)

_FRAMES = (__name__, "agent_factory.fused.spans", "agent_factory.fused.tool_batch")
"""Modules through which a step calls a node."""


def replay(error: Exception, config: RunnableConfig | None, run: Run) -> Action | None:
    """Return a function that raises the same in another step, or None if only a rerun can."""

    def raise_again() -> Any:
        raise error

    if not isinstance(error, GraphInterrupt):
        # The frames of this step would stand between those of the one that raises again.
        while (trace := error.__traceback__) and trace.tb_frame.f_globals["__name__"] in _FRAMES:
            error.__traceback__ = trace.tb_next
        return raise_again
    interrupts: tuple[Interrupt[Any], ...] = (*error.args, ())[0]
    if interrupts_here(interrupts, config):
        asked = interrupts[0]
        return lambda: interrupt(asked.value, response_schema=asked.response_schema)
    # A subgraph waits, in a checkpoint namespace that belongs to the step that called it. A run
    # without a checkpointer cannot be resumed, so there the namespace does not matter.
    return raise_again if run.single_step else None


class StepNode(Protocol):
    """A node that a step goes through."""

    name: str
    fusion: Fusion
    has_trace_policy: bool

    @property
    def steps(self) -> Mapping[str, StepNode]:
        """The nodes of the agent."""

    @property
    def stage(self) -> Stage:
        """What a step has to know about the node."""

    @property
    def traced(self) -> Runnable[Any, Any]:
        """The node as LangGraph traces it."""


class StepRunner:
    """One step through the nodes of an agent. Its caller decides between sync and async."""

    def __init__(
        self, first: StepNode, state: Mapping[str, Any], config: RunnableConfig, run: Run
    ) -> None:
        self._first = first
        self._graphs = count()  # numbers of the graphs that the current node calls
        self._sent = sent_writes(config)  # by the current node, before it returns
        config = reading_after(config, lambda: self._view.now.writes())
        self._config = counting_graphs(config, lambda: next(self._graphs))  # of the step
        self._quiet_config = _unnamed(without_streaming(self._config))
        self._has_saver = saver_of(config) is not None
        self._task = run.new_id() if self._has_saver else ""  # the id of the nodes after the first
        self._run = run
        fusion = first.fusion
        self._view = StateView(state, fusion.viewed, run.cached_channels, fusion.keys)
        self._is_first = True
        self._last = first.name  # the last node whose writes the step has
        self._unchanged = True
        self._stored = False  # what was written so far is stored, and nothing else may be written
        self._calls: list[dict[str, Any]] | None = None
        self._needs_own_step, run.resumed = run.resumed, False
        self._node_config = config
        self._events: list[Event] = []
        self._to_stream: Callable[[], None] = _do_nothing
        self.step = first  # the node that comes next
        self.error: Exception | None = None  # that of the edge of the last node
        self._unstored: Any = None
        self.done = False
        self.outcome: Any = None
        self._deferred = run.deferred.pop(first.name, None)
        run.runner = self

    @cached_property
    def spans(self) -> AsyncSpans:
        """The spans of the nodes, in an asynchronous run with traces."""
        return AsyncSpans()

    @property
    def needs_thread(self) -> bool:
        """Whether an asynchronous run takes the next nodes in a thread."""
        return self.step.stage.needs_thread and not (
            self.done or self._run.watched or self._deferred is not None
        )

    def run_next(self) -> None:
        """Run the next node, and find out what comes after it."""
        input, config = self._enter()
        step = self.step
        if self._deferred is not None:
            return self._take_deferred()
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
        step = self.step
        if self._deferred is not None:
            return self._take_deferred()
        try:
            if not self._run.traced:
                self.take(await step.stage.node.ainvoke(input, config))
            elif step.has_trace_policy:
                await self.spans.finish()
                async for _ in step.traced.astream(input, config):
                    pass
            else:
                # Of the handlers of an asynchronous run, that of the stream is called first.
                take = partial(self.take_in_span, streamed=self._run.messages)
                await self.spans.call(
                    step.stage.node, step.name, input, config, take, streaming=streaming
                )
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
            if self._has_saver and not self._is_first:  # for the threads of graphs that it calls
                config = in_namespace(config, stage.name, self._task)
        else:
            config = (
                run.first_config(self._config, traced=run.traced)
                if self._is_first
                else run.later_config(self._config, stage.name)
            )
            if not run.traced:
                config = _unnamed(config)
        self._node_config = config
        # A node may have set a config for what it calls, which is not for the next node.
        current_config.set(config)
        self._to_stream = _do_nothing
        if self._calls is None:
            return stage.visible(self._view.now.state()), config
        # ToolNode reads persistent channels only, so tools must not see ephemeral ones here.
        state = stage.visible(dict(self._view.now.persistent))
        return CallsWithState(self._calls, state), config

    def _fail(self, error: Exception) -> None:
        if self._is_first:
            raise error  # this is its own step
        self._sent.clear()
        if self.done:
            return  # an edge has failed in a span
        # Graphs that a node has called keep what they returned in the namespace of its step: a run
        # that is resumed finds it only if they are called there.
        reruns = isinstance(error, GraphInterrupt) and next(self._graphs) > 0
        reruns = reruns and not self._run.single_step
        action = None if reruns else replay(error, self._node_config, self._run)
        self._leave_to_own_step(action)

    def _take_deferred(self) -> None:
        """Process what the first node has returned or raised in the middle of an earlier step."""
        action, self._deferred = self._deferred, None
        assert action is not None
        self.take(action())
        self._to_stream()

    def take_in_span(self, result: Any, *, streamed: bool = False) -> Any:
        """Process what the node has returned, and return it as handlers see it.

        Messages have their ids already if somebody has seen them: an edge, or the stream of them.

        Raises:
            Exception: The edge has failed; the span ends with its error.
        """
        by_edge = not isinstance(self.step.stage.route, str)
        recorded = result if by_edge else as_written(result, streamed=streamed)
        self.take(result)
        if self.error is not None:
            raise self.error
        return recorded

    def take(self, result: Any) -> None:
        """Process what the node has returned, and continue or end the step."""
        now, stage = self._view.now, self.step.stage
        route, returned = stage.route, result
        if self._sent and (sent := self._take_sent()):
            result = [Command(update=sent), *_parts(result)]
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
            self._look_ahead(result, route)
            self._leave_to_own_step(lambda: result)
            return
        if (written := self._written(result)) is None:
            if self._is_first:
                self._end(result)
            else:
                self._leave_to_own_step(lambda: result)
            return
        pairs, preview = written
        try:
            target = route if isinstance(route, str) else route(preview.state(), self._node_config)
        except Exception as error:
            self._emit(pairs, preview, done=False)
            self.error = error
            self._fail(error)
            return
        if self._run.messages and returned is not None:
            self._to_stream = partial(self._stream_messages, returned, self._view.now.state())
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

    def _take_sent(self) -> list[Pair]:
        """Return what the node has written directly; notes of LangGraph's own stay."""
        channels, every = self._first.fusion.channels, list(self._sent)
        self._sent.clear()
        self._sent.extend(pair for pair in every if pair[0] not in channels)
        return [pair for pair in every if pair[0] in channels]

    def _written(self, result: Any) -> tuple[list[Pair], Preview] | None:
        """Return what a node writes, and the state after that; None if only LangGraph can tell.

        That is so for a Command that leaves the graph, and for writes that raise: LangGraph raises
        its own error in the step of the node.
        """
        with suppress(Exception):
            if (pairs := _pairs(result)) is not None:
                return pairs, self._view.preview(pairs)
        return None

    def _look_ahead(self, result: Any, edge: str | Choice) -> None:
        """Find out what the step that follows does to the span of a node.

        Messages get their ids when an edge reads the state, or a stream shows them. An edge may
        fail.
        """
        if isinstance(edge, str):
            if self._run.messages:
                self._written(result)
            return
        written = self._written(result)
        # An edge that records its decision is called once.
        if written and self._run.traced and not self._first.fusion.records:
            try:
                edge(written[1].state(), self._node_config)
            except Exception as error:
                self.error = error

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
        calls = getattr(preview.persistent["messages"][-1], "tool_calls", ())
        pairs = [*kept, (LAST_NODE, self._last)]
        self._unstored = saver, stored_writes(self._config, pairs, target, max(1, len(calls)))

    def _move_to(self, name: str) -> None:
        self._is_first, self.step, self._graphs = False, self._first.steps[name], count()
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
            and not self._has_saver
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
        moved = self._last != self._first.name
        if (moved or self._stored) and self._has_saver:
            pairs.append((LAST_NODE, self._last))
        # LangGraph takes a dict as it is, and looks at each of several pairs.
        update = dict(pairs)
        self._end(Command(update=update if len(update) == len(pairs) else pairs, goto=goto))

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
                _in_shape(pair, given) if isinstance(channels[given[0]], DeltaMessages) else pair
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


def _pairs(result: Any) -> list[Pair] | None:
    """Return what a node writes, from what it has returned; None if that leaves the graph."""
    pairs: list[Pair] = []
    for part in _parts(result):
        if isinstance(part, Command):
            if part.graph or part.goto:
                return None
            pairs += pairs_of(part, "a node")
        else:
            pairs += part.items()
    return pairs


def _parts(result: Any) -> list[Any]:
    parts = result if isinstance(result, list) else [result]
    return [part for part in parts if part is not None]


def _in_shape(pair: Pair, given: Pair) -> Pair:
    """Return messages with ids as they were written: one that was not in a list still is not."""
    alone = isinstance(given[1], list) and not isinstance(pair[1], list)
    return (given[0], given[1][0]) if alone else given


def _do_nothing() -> None:
    """Stand for what is to be done after a node."""


def _unnamed(config: RunnableConfig) -> RunnableConfig:
    """Return a config for what a node calls, without the name of the node."""
    named = ("run_name", "run_id")
    return cast("RunnableConfig", {key: config[key] for key in config if key not in named})  # type: ignore[literal-required]
