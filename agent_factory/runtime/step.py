"""Steps: LangGraph runs a step for a node, and in a fused run for the nodes after it as well.

`Stage._take_nodes` is the loop: enter a node, invoke it and take its result, as long as the path
leads forward. A node later in a step cannot wait for an answer, or fail: it does so in the next
step. A run hook by hook has a step for each node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from typing import Any, NamedTuple, cast
from uuid import UUID

from langchain_core.callbacks.manager import handle_event
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.channels import UntrackedValue
from langgraph.errors import ErrorCode, GraphInterrupt, GraphRecursionError, create_error_message
from langgraph.types import Command, Send

from agent_factory.counts import COUNTS
from agent_factory.runtime.composition import unnamed, without_streaming
from agent_factory.runtime.outcomes import Outcome, Result, outcome_of, repeat
from agent_factory.runtime.routing import Choice, InstantRunnable, Target
from agent_factory.runtime.watching import (
    AsyncSpans,
    Event,
    Reader,
    Watch,
    as_written,
    call_in_span,
)
from agent_factory.state.channels import DeltaMessages, ViewedChannel, random_id
from agent_factory.state.schema import ENGINE_KEYS, LAST_NODE
from agent_factory.state.updates import Pair, Preview, StateView, pairs_of_result, parts_of
from agent_factory.tools.tool_node import CallsWithState, with_state
from agent_factory.topology.model import END, TOOLS
from agent_factory.upstream import (
    at_node,
    at_step,
    counting_graphs,
    current_config,
    graph_namespace,
    in_namespace,
    node_runnable,
    node_writers,
    put_stored,
    read_keys,
    reading_after,
    saver_of,
    sent_writes,
    stored_writes,
    stores_at_exit,
    streams,
    super_step,
    task_id,
)

RUN = "__agent_factory_run"
"""Key of `configurable` that holds the `Run`. Keys that start with "__" stay out of metadata."""


# One run


@dataclass(slots=True)
class Run:
    """A fused run: its memory from one step to the next, in addition to the state."""

    watch: Watch = field(default_factory=Watch)
    depth: int = 0  # how many graphs are around the run
    # Nothing is stored between the steps and no caller needs them, so the run takes one step.
    single_step: bool = False
    in_graph: bool = False  # the run has begun in the graph; before, it is on its way from `invoke`
    resumes: bool = False  # the next node may wait for an answer, so it needs a step to itself
    has_answer: bool | None = None  # whether the run has its structured answer, if known
    skipped_steps: int = 0  # steps saved so far; they count towards the recursion limit
    ahead: int = 0  # steps to add for the number of a run hook by hook
    step: Any = None  # the Step under way
    # Outcomes by node: the node has them in its own step, in place of its work.
    deferred_outcomes: dict[str, Outcome] = field(default_factory=dict)
    channels: dict[str, Any] = field(default_factory=dict)  # of messages, to use again
    id: str = field(default_factory=random_id)
    _ids: int = 0  # how many were made

    def check_limit(self, step: int, limit: int) -> None:
        """Raise an error if the run may not take this super-step of LangGraph's."""
        if step + self.skipped_steps > limit:
            message = (
                f"Recursion limit of {limit} reached, but the run has not ended. Set a higher "
                "`recursion_limit` in the config of the call, or find out what keeps the run going."
            )
            code = ErrorCode.GRAPH_RECURSION_LIMIT
            raise GraphRecursionError(create_error_message(message=message, error_code=code))

    def first_config(self, config: RunnableConfig, *, is_traced: bool) -> RunnableConfig:
        """Return the config of the first node of a step, as in a run hook by hook."""
        run_id = None if is_traced else UUID(self.new_id())
        return at_step(config, self.ahead, run_id)

    def later_config(self, config: RunnableConfig, node: str) -> RunnableConfig:
        """Return the config of a later node of a step, as in a run hook by hook."""
        run_id = None if self.watch.is_traced else UUID(self.new_id())
        return at_node(config, self.ahead, node, self.new_id(), run_id, sent=node == TOOLS)

    def new_id(self) -> str:
        """Return an id in the form of a UUID, faster than by making a UUID."""
        self._ids += 1
        return f"{self.id[:-12]}{self._ids:012x}"


def run_of(config: RunnableConfig | None) -> Run | None:
    """Return the run of a config; None in a run hook by hook."""
    run: Run | None = (config or {}).get("configurable", {}).get(RUN)
    return run


# The nodes of an agent


class Successors(NamedTuple):
    """The nodes to which a step may continue from a node."""

    always: frozenset[str] = frozenset()
    if_unchanged: frozenset[str] = frozenset()  # if no node of the step has written state so far
    if_stored: frozenset[str] = frozenset()  # once the writes so far are stored


@dataclass(frozen=True)
class Fusion:
    """Settings that the stages of an agent share."""

    channels: Mapping[str, Any]
    keys: Mapping[str, Any]  # of the state, in the order in which LangGraph reads them
    kept: Collection[str]  # keys whose values stay until the next write
    engine_keys: list[str]  # keys of the state for the engine alone
    reads_signals: Collection[str]  # nodes that see these keys
    records: bool  # decisions of nodes are recorded, with their step and call
    batches_calls: bool  # the tool calls of a turn may go to one task
    state_keys: Collection[str] | None  # keys sent with calls; None if tools read the state
    next_after_tools: str | None  # None if an edge looks at the results of tools to choose it
    plan_successors: Callable[[], Mapping[str, Successors]]

    # Many agents are built and never run, so the first run makes the parts for runs.

    @cached_property
    def viewed(self) -> Mapping[str, ViewedChannel]:
        """The channels as the view of a step asks them."""
        return {key: ViewedChannel.of(channel) for key, channel in self.channels.items()}

    @cached_property
    def successors(self) -> Mapping[str, Successors]:
        """The nodes that may follow each node in a step."""
        return self.plan_successors()


class Stage(Runnable[Any, Any]):
    """Runnable that LangGraph calls for a node; in a fused run, for the nodes after it as well."""

    name: str

    def __init__(
        self,
        name: str,
        node: Any,
        route: str | Choice,
        pregel_node: Any,
        stages: Mapping[str, Stage],
        fusion: Fusion,
        lead: Callable[[Stage], Runnable[Any, Any]] | None = None,
    ) -> None:
        self.name = name
        self.node = node
        self.route = route  # the next node, or a function that chooses the next node
        self.stages = stages
        self.fusion = fusion
        self.sees_signals = name in fusion.reads_signals
        self.streams: bool = node.streams  # tokens of the models that the node calls
        self.needs_thread: bool = node.needs_thread  # in an asynchronous run
        self.lead = lead  # the choice of a node that chooses the next node itself
        self._pregel_node = pregel_node

    @cached_property
    def successors(self) -> Successors:
        """The nodes that may follow in the same step."""
        return self.fusion.successors[self.name]

    @cached_property
    def alone(self) -> Runnable[Any, Any]:
        """The node as LangGraph runs it, with its edges."""
        return node_runnable(self._pregel_node)

    @cached_property
    def traced(self) -> Runnable[Any, Any]:
        """The node as LangGraph traces it, with the rest of a step in place of its edges.

        Spans of other nodes are made here, in less time.
        """
        return node_runnable(self._pregel_node, _Continue())

    @cached_property
    def with_lead(self) -> Runnable[Any, Any]:
        """The node with its own choice in place of its edges. LangGraph traces this node itself."""
        return node_runnable(self._pregel_node, self.lead and self.lead(self))

    @cached_property
    def writers(self) -> Sequence[Runnable[Any, Any]]:
        """Writers of a result to LangGraph: first of the update, then of the edges."""
        return node_writers(self._pregel_node)

    def visible(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the part of the state that the node sees."""
        if self.sees_signals or ENGINE_KEYS.isdisjoint(state):
            return state
        return {key: state[key] for key in state if key not in ENGINE_KEYS}

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        config = config or {}
        if (run := run_of(config)) is None:
            return self.alone.invoke(input, config)
        if self.lead and self.name not in run.deferred_outcomes:
            return self.with_lead.invoke(input, run.first_config(config, is_traced=True))
        step = Step(self, input, config, run)
        # In a copy: `enter` sets a config, and later calls of LangGraph need their own.
        copy_context().run(self._take_nodes, step)
        return step.write(config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        config = config or {}
        if (run := run_of(config)) is None:
            return await self.alone.ainvoke(input, config)
        if self.lead and self.name not in run.deferred_outcomes:
            return await self.with_lead.ainvoke(input, run.first_config(config, is_traced=True))
        return await self._atake(Step(self, input, config, run), config, streaming=False)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> AsyncIterator[Any]:
        """Run as `ainvoke`, with the events of a stream for callbacks that listen to them."""
        config, node = config or {}, self.alone
        if (run := run_of(config)) is not None:
            if self.lead is None or self.name in run.deferred_outcomes:
                yield await self._atake(Step(self, input, config, run), config, streaming=True)
                return
            node, config = self.with_lead, run.first_config(config, is_traced=True)
        async for part in node.astream(input, config):
            yield part

    async def _atake(self, step: Step, config: RunnableConfig, *, streaming: bool) -> Any:
        nodes = self._atake_nodes(step, streaming=streaming)
        # A task, because only a task runs a coroutine in another context.
        await asyncio.create_task(nodes, context=copy_context())
        return step.write(config)

    def _take_nodes(self, step: Step, in_thread: bool = False) -> None:
        """Go from node to node, until the step ends; in a thread, as long as nodes need one."""
        if (failure := step.take_deferred()) is not None:
            step.show()
            raise failure
        while step.end is None and (not in_thread or step.needs_thread):
            step.show()
            step.store()
            if (reader := step.awaited_reader) and not step.goes_on(reader.wait()):
                break
            node, state, config = step.enter()
            try:
                if not step.is_traced:
                    step.take(node.invoke(state, config))
                # A policy for the contents of a span applies to LangGraph's own span only.
                elif node.has_trace_policy:
                    step.position.stage.traced.invoke(state, config)  # calls `take_in_span`
                else:
                    name = step.position.stage.name
                    call_in_span(node, name, state, unnamed(config), step.take_in_span)
            except Exception as error:
                if not step.defer(error):
                    step.show()
                    raise
            step.stream_messages()
        step.show()

    async def _atake_nodes(self, step: Step, *, streaming: bool) -> None:
        """Go from node to node, as `_take_nodes`."""
        if (failure := step.take_deferred()) is not None:
            await step.ashow()
            raise failure
        while step.end is None:
            await step.ashow()
            await step.astore()
            if (reader := step.awaited_reader) and not step.goes_on(await reader.await_()):
                break
            if step.needs_thread:
                await run_in_executor(None, self._take_nodes, step, True)
                continue
            node, state, config = step.enter()
            try:
                if not step.is_traced:
                    step.take(await node.ainvoke(state, config))
                elif node.has_trace_policy:
                    # A handler must see the end of the last span before the start of this span.
                    await step.spans.finish()
                    # `ainvoke` would hide the parts of the node from handlers of `astream_events`.
                    async for _ in step.position.stage.traced.astream(state, config):
                        pass
                else:
                    # An asynchronous run calls the handler of the stream first.
                    take = partial(step.take_in_span, is_streamed=step.streams_messages)
                    name = step.position.stage.name
                    config = unnamed(config)
                    await step.spans.call(node, name, state, config, take, streaming=streaming)
            except Exception as error:
                if not step.defer(error):
                    await step.ashow()
                    raise
            step.stream_messages()
        await step.ashow()


class _Continue(InstantRunnable):
    """The end of a traced node in a step: the choice of the next node."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        run = run_of(config)
        assert run is not None  # a step has started the node
        return run.step.take_in_span(input)


# One step


class Position(NamedTuple):
    """The node that a step takes next."""

    stage: Stage
    calls: list[dict[str, Any]] | None = None  # the input of the tools node
    is_first: bool = False  # LangGraph runs the step for this node


class End(NamedTuple):
    """The result of a step for LangGraph."""

    result: Any
    has_edges: bool = False  # LangGraph takes the edges of the node, and not the step


@dataclass(slots=True)
class Pending:
    """Work on the nodes so far that a step does before it enters the next node."""

    writes: Any = None  # a saver, and the arguments of its `put_writes`
    # The state and the next node, if the step ends here without a reader of its stream.
    boundary: tuple[Preview, Target] | None = None
    # A result with messages that are not streamed yet, and its state.
    messages: tuple[Any, Mapping[str, Any]] | None = None
    events: list[Event] = field(default_factory=list)


class Step:
    """One step through the nodes of an agent, begun at the node that LangGraph runs."""

    def __init__(self, first: Stage, state: Any, config: RunnableConfig, run: Run) -> None:
        fusion = first.fusion
        if first.lead:  # its input is calls, and not the state
            state = read_keys(config, list(fusion.keys))
        self._number = super_step(config)
        if run.skipped_steps:  # LangGraph does not count them
            run.check_limit(self._number, config["recursion_limit"])
        if fusion.engine_keys and not first.sees_signals:  # later nodes of the step may see them
            state = {**state, **read_keys(config, fusion.engine_keys)}
        self._first = first
        self._run = run
        self._view = StateView(state, fusion.viewed, run.channels, fusion.keys)
        self._graphs = count()  # numbers of the graphs that the current node calls
        self._node_writes = sent_writes(config)  # by the current node, before it returns
        config = reading_after(config, self._with_sent, fusion.kept)
        self._config = counting_graphs(config, lambda: next(self._graphs))  # of the step
        self._quiet_config = unnamed(without_streaming(self._config))
        self._saver = saver_of(config)
        self._has_saver = self._saver is not None
        names_tasks = self._has_saver or fusion.records
        self._task = run.new_id() if names_tasks else ""  # the id of the nodes after the first
        self._last = first.name  # the last node whose writes the step has
        self._is_unchanged = True
        # If set, the writes so far are stored, and nothing else may be written.
        self._is_stored = False
        self._needs_own_step, run.resumes = run.resumes, False
        self._node_config = config
        self._pending = Pending()
        self.position = Position(first, is_first=True)
        self.is_traced, self.streams_messages = run.watch.is_traced, run.watch.messages
        self.end: End | None = None
        run.step = self

    @cached_property
    def spans(self) -> AsyncSpans:
        """The spans of the nodes, in an asynchronous run with traces."""
        return AsyncSpans()

    @property
    def needs_thread(self) -> bool:
        """True if an asynchronous run takes the next nodes in a thread."""
        watch = self._run.watch
        needs = self.end is None and self.position.stage.needs_thread
        return needs and not (watch.nodes or watch.reader)

    # The moves of the loop, in its order

    def take_deferred(self) -> Exception | None:
        """Take the result that the first node has had in the middle of an earlier step, if any.

        Return the error of the node there, or the error of its edge or its question here.
        """
        if (outcome := self._run.deferred_outcomes.pop(self._first.name, None)) is None:
            return None
        if isinstance(outcome, Exception):
            return outcome
        # The node does not run again, but the edge and the question need the config of the node.
        self.enter()
        try:
            self.take(repeat(outcome), outcome.outcomes if isinstance(outcome, Result) else {})
        except Exception as error:
            return error
        self.stream_messages()
        return None

    def show(self) -> None:
        """Show the events of the nodes that have run to the caller of the stream."""
        if events := self._run.watch.events:
            pending, self._pending.events = self._pending.events, []
            for event in pending:
                events.emit(event)

    async def ashow(self) -> None:
        """Show the events of the nodes that have run, and wait for their delivery."""
        events = self._run.watch.events
        if self.is_traced and (events or self.end):
            await self.spans.finish()
        if events:
            pending, self._pending.events = self._pending.events, []
            for event in pending:
                delivery = events.emit(event)
                if events.awaits:
                    await delivery

    def store(self) -> None:
        """Store the writes so far, if they have to outlive the rest of the step."""
        if self._pending.writes is not None:
            (saver, writes), self._pending.writes = self._pending.writes, None
            put_stored(saver.put_writes, writes)

    async def astore(self) -> None:
        """Store the writes so far, as `store`."""
        if self._pending.writes is not None:
            (saver, writes), self._pending.writes = self._pending.writes, None
            await put_stored(saver.aput_writes, writes)

    @property
    def awaited_reader(self) -> Reader | None:
        """The reader of the stream, at a possible end of the step; None elsewhere."""
        return self._run.watch.reader if self._pending.boundary else None

    def goes_on(self, reader_is_here: bool) -> bool:
        """Pass a possible end, or end the step before the node that comes next."""
        boundary, self._pending.boundary = self._pending.boundary, None
        if boundary and not reader_is_here:
            preview, target = boundary
            self._run.skipped_steps -= 1
            self._run.ahead -= 1
            self._leave(preview, self._goto(target, preview))
        return reader_is_here

    def enter(self) -> tuple[Any, Any, RunnableConfig]:
        """Return the next node, its input and its config."""
        (stage, calls, is_first), run = self.position, self._run
        if not (run.watch.shows_names or stage.streams):
            config = self._quiet_config
            if self._first.fusion.records:  # a record has the step and the task of the node
                task = task_id(config) if is_first else self._task
                config = in_namespace(config, stage.name, task, self._number + run.ahead)
            elif self._has_saver and not is_first:  # for the threads of graphs that the node calls
                config = in_namespace(config, stage.name, self._task)
        else:
            config = (
                run.first_config(self._config, is_traced=self.is_traced)
                if is_first
                else run.later_config(self._config, stage.name)
            )
            if not self.is_traced:
                config = unnamed(config)
        self._node_config = config
        # A node may have set a config for its own calls, which is not for the next node.
        current_config.set(config)
        if calls is None:
            return stage.node, stage.visible(self._view.now.state()), config
        # ToolNode reads persistent channels only, so tools must not see ephemeral channels here.
        state = stage.visible(dict(self._view.now.persistent))
        return stage.node, CallsWithState(calls, state), config

    def take(self, result: Any, outcomes: Mapping[str, Any] = {}) -> None:
        """Apply the result of the node, and continue or end the step.

        Raises:
            Exception: The edge has raised the error. The span of the node ends with this error.
        """
        before, stage, node_result = self._view.now, self.position.stage, result
        route = stage.route
        if self._node_writes:
            writes, notes = self._split(self._node_writes)
            self._node_writes.clear()
            self._node_writes.extend(notes)
            result = [Command(update=writes), *parts_of(result)] if writes else result
        # Fast path: most hooks return None and have only a single next node.
        if (
            result is None
            and isinstance(route, str)
            and route in stage.successors.always
            and not (before.ephemeral or self._needs_own_step)
        ):
            self._emit((), before)
            self._last = stage.name
            self._move_to(route)
            return
        if self._is_stored and result is not None and not self._begin_next_step():
            self._defer_result(result)
            return
        pairs = pairs_of_result(result)
        preview = None if pairs is None else self._preview(pairs, outcomes)
        if pairs is None or preview is None:
            self._leave_to_langgraph(result, node_result)
            return
        try:
            target = route if isinstance(route, str) else route(preview.state(), self._node_config)
        except Exception:
            self._emit(pairs, preview, done=False)
            raise
        if self._run.watch.messages and node_result is not None:
            self._pending.messages = node_result, before.state()
        self._view.now = preview
        self._last = stage.name
        self._is_unchanged = self._is_unchanged and result is None
        self._emit(pairs, preview)
        if not self._can_continue(target, preview):
            self._leave(preview, self._goto(target, preview))
        elif isinstance(target, str):
            self._move_to(target)
        else:
            self._move_to(TOOLS, self._calls_of(target, preview))

    def take_in_span(self, result: Any, *, is_streamed: bool = False) -> Any:
        """Take the result of the node, and return the result for handlers.

        Messages already have ids if an edge or the stream of messages has seen them.
        """
        by_edge = not isinstance(self.position.stage.route, str)
        outputs = result if by_edge else as_written(result, is_streamed=is_streamed)
        self.take(result)
        return outputs

    def defer(self, error: Exception) -> bool:
        """Leave an error to a separate step; return False if the node has this step alone."""
        if self.position.is_first:
            return False
        # LangGraph drops the direct writes of a task that fails or is interrupted.
        self._node_writes.clear()
        # The counts of the node are part of this step.
        if (counts := COUNTS.get()) and not self._is_stored and self.end is None:
            self._view.now = self._preview([*counts.items()]) or self._view.now
        if self.end is not None:
            return True  # an edge has failed in a span
        # Graphs called by a node keep their results in the namespace of their step: a resumed run
        # finds the results only if the graphs are called there.
        reruns = isinstance(error, GraphInterrupt) and next(self._graphs) > 0
        reruns = reruns and not self._run.single_step
        self._leave_to_own_step(
            None if reruns else outcome_of(error, self._node_config, self._run.single_step)
        )
        return True

    def stream_messages(self) -> None:
        """Show LangGraph's stream of messages the result of the node."""
        if self._pending.messages is None:
            return
        (result, state), self._pending.messages = self._pending.messages, None
        config: Any = self._node_config
        handlers = [each for each in config["callbacks"].handlers if streams(each, "messages")]
        # Tracers that instrument LangChain add themselves to each new manager, so none is made.
        ids: Any = {"run_id": UUID(self._run.new_id()), "parent_run_id": None, "tags": []}
        tell: Any = partial(handle_event, handlers, **ids)
        # LangGraph's handler takes a span for a node if the span has the name in the metadata.
        # Messages of the start are not streamed: they are in the state already.
        about = {"metadata": config["metadata"], "name": config["metadata"]["langgraph_node"]}
        tell("on_chain_start", "ignore_chain", None, state, **about)
        tell("on_chain_end", "ignore_chain", result)

    def write(self, config: RunnableConfig) -> Any:
        """Write the updates of the nodes, and the next node, to LangGraph."""
        assert self.end is not None  # the loop ends with the step
        update, *edges = self._first.writers
        result, has_edges = self.end
        update.invoke(result, config)
        for edge in edges if has_edges else ():
            edge.invoke(result, config)
        return result

    # Writes of a node

    def _with_sent(self, writes: Sequence[Pair]) -> list[Pair]:
        """Return the writes of the nodes so far, with the direct writes of the current node."""
        pairs, notes = self._split(writes)
        preview = self._preview(pairs) if pairs else self._view.now
        return [*(self._view.now.writes() + pairs if preview is None else preview.writes()), *notes]

    def _split(self, writes: Iterable[Pair]) -> tuple[list[Pair], list[Pair]]:
        """Return the direct writes of a node to the state, and LangGraph's notes."""
        pairs: list[Pair] = []
        notes: list[Pair] = []
        for pair in writes:
            (pairs if pair[0] in self._first.fusion.channels else notes).append(pair)
        return pairs, notes

    def _preview(self, pairs: Sequence[Pair], outcomes: Mapping[str, Any] = {}) -> Preview | None:
        """Return the state after some writes; None if only LangGraph can compute the state.

        Examples are an unknown channel, and a reducer that raises: LangGraph calls the reducer in
        the step of the node, and raises the error there.
        """
        try:
            return self._view.preview(pairs, outcomes)
        except Exception:
            return None

    def _defer_result(self, result: Any) -> None:
        """Leave the result of a node to a separate step, and give the node's span its contents.

        Messages get ids when an edge reads the state, or a stream shows them. An edge may fail.
        """
        route, watch = self.position.stage.route, self._run.watch
        by_edge = watch.is_traced and not isinstance(route, str)
        pairs = pairs_of_result(result) if by_edge or watch.messages else None
        preview = None if pairs is None else self._preview(pairs)
        self._leave_to_own_step(Result(result, preview.persistent if preview else {}))
        # An edge with a recorded decision is called once.
        if preview and by_edge and not self._first.fusion.records:
            cast("Choice", route)(preview.state(), self._node_config)

    # The next node

    def _can_continue(self, target: Target, preview: Preview) -> bool:
        """Return True if this step may run the next node."""
        successors, run = self.position.stage.successors, self._run
        is_node = isinstance(target, str)
        ends = self._needs_own_step
        if is_node and target in successors.always:
            return not ends
        if is_node and not ends:
            if self._is_unchanged and target in successors.if_unchanged:
                return True
            # A reader who sees events after the step must not wait longer for an answer.
            late = run.watch.events is not None and run.watch.events.late
            if not late and target in successors.if_stored:
                self._is_stored = True
                self._pending.writes = self._writes_before(target, preview)
                return True
        # Of several calls, each may wait for an answer or fail, so they need tasks.
        is_one = is_node or len(target) == 1 == len(target[0].arg)  # type: ignore[union-attr]
        possible = is_one and (not is_node or target in self._first.stages)
        goes_on = self._begin_next_step(possible=possible and not ends)
        if goes_on and run.watch.reader is not None:
            self._pending.boundary = preview, target
        return goes_on

    def _begin_next_step(self, *, possible: bool = True) -> bool:
        """Return True if a run of a single step goes on with the nodes of the next step."""
        run = self._run
        if not run.single_step:
            return False
        run.check_limit(self._number + 1, self._config["recursion_limit"])
        if possible:
            run.skipped_steps += 1
            self._is_unchanged, self._is_stored = True, False
        return possible

    def _writes_before(self, target: str, preview: Preview) -> Any:
        """Return a saver, and the writes that have to outlive the rest of the step."""
        channels = self._first.fusion.channels
        if self._saver is None or stores_at_exit(self._config):
            return None
        # LangGraph stores no writes to these channels either: a saver may not take the values.
        stored_pairs = [
            pair for pair in preview.writes() if type(channels[pair[0]]) is not UntrackedValue
        ]
        calls = getattr(preview.persistent["messages"][-1], "tool_calls", ())
        pairs = [*stored_pairs, (LAST_NODE, self._last)]
        return self._saver, stored_writes(self._config, pairs, target, max(1, len(calls)))

    def _move_to(self, name: str, calls: list[dict[str, Any]] | None = None) -> None:
        self.position, self._graphs = Position(self._first.stages[name], calls), count()
        self._run.ahead += 1

    def _leave_to_own_step(self, outcome: Outcome | None) -> None:
        """End the step before this node; the writes of the nodes before are kept."""
        name, calls = self.position.stage.name, self.position.calls
        if outcome is not None:
            self._run.deferred_outcomes[name] = outcome
        self._run.ahead -= 1
        goto = name if calls is None else [Send(TOOLS, calls)]
        self._leave(self._view.now, goto)

    def _leave_to_langgraph(self, result: Any, node_result: Any) -> None:
        """Let LangGraph apply the result of the node, in a step of the node alone.

        LangGraph can leave the graph, knows all kinds of channels, and raises their errors.
        """
        if not self.position.is_first:
            self._leave_to_own_step(Result(result))
            return
        if self._run.watch.messages and node_result is not None:
            self._pending.messages = node_result, self._view.now.state()
        self.end = End(result, has_edges=True)

    def _goto(self, target: Target, preview: Preview) -> Any:
        if isinstance(target, str):
            return () if target == END else target
        calls = self._calls_of(target, preview)
        fusion, watch = self._first.fusion, self._run.watch
        ids = {call["id"] for call in calls}
        together = (
            fusion.batches_calls
            and not self._has_saver
            and not (watch.nodes or watch.shows_names)
            # The limit counts tasks: in one task, asynchronous calls would all run at once.
            and self._config.get("max_concurrency") is None
            # A batch finds the result of a call by the id of the call.
            and None not in ids
            and len(ids) == len(calls)
        )
        batches = [calls] if together else [send.arg for send in target]
        if fusion.state_keys is not None:
            state = preview.persistent
            batches = [with_state(batch, state, fusion.state_keys) for batch in batches]
        return [Send(TOOLS, batch) for batch in batches]

    def _calls_of(self, sends: list[Send], preview: Preview) -> list[dict[str, Any]]:
        self._run.has_answer = preview.persistent.get("structured_response") is not None
        return [call for send in sends for call in send.arg]

    def _leave(self, preview: Preview, goto: Any) -> None:
        """End the step with the writes of all its nodes."""
        if (events := self._run.watch.events) is not None:
            self._pending.events += events.of_step(graph_namespace(self._config), preview)
        pairs = preview.writes()
        has_moved = self._last != self._first.name
        if (has_moved or self._is_stored) and self._has_saver:
            pairs.append((LAST_NODE, self._last))
        # LangGraph takes a dict unchanged, and looks at each of several pairs.
        update = dict(pairs)
        self.end = End(Command(update=update if len(update) == len(pairs) else pairs, goto=goto))

    # Events of the node

    def _emit(self, pairs: Sequence[Pair], preview: Preview, *, done: bool = True) -> None:
        """Note the events of the node that has run, up to the edge or with the edge."""
        if (events := self._run.watch.events) is None:
            return
        channels = self._first.fusion.channels
        if pairs:  # LangGraph shows messages as a delta channel stores them, with ids
            node_pairs, pairs = pairs, []
            for (key, value), (_, stored_value) in zip(node_pairs, preview.pairs, strict=True):
                if isinstance(channels[key], DeltaMessages):
                    alone = isinstance(stored_value, list) and not isinstance(value, list)
                    value = stored_value[0] if alone else stored_value
                pairs.append((key, value))
        namespace, task = graph_namespace(self._config), task_id(self._node_config)
        outcome = preview if done else None
        name = self.position.stage.name
        self._pending.events += events.of_node(namespace, name, task, pairs, outcome)
