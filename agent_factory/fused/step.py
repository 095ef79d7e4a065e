"""Fused steps: several nodes of a plan in one LangGraph step, with the same order and result.

A step that starts at a node continues with the next ones as their edges say, as long as the path
leads forward. What such a step cannot do in the place of a later node, such as to wait for the
answer to an interrupt or to fail, that node does itself in the step that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.errors import (
    ErrorCode,
    GraphInterrupt,
    GraphRecursionError,
    create_error_message,
)
from langgraph.types import Command, Interrupt, Send, interrupt

from agent_factory.fused.state_view import Channel, Preview, StateView
from agent_factory.runtime.composition import without_streaming
from agent_factory.runtime.routing import Choice, Target
from agent_factory.runtime.tools_node import with_state
from agent_factory.state.schema import RETRIES, TOOL_SIGNALS
from agent_factory.state.updates import Pair, pairs_of
from agent_factory.tools.tool_node import CallsWithState
from agent_factory.topology.model import END, TOOLS
from agent_factory.upstream import current_config, interrupts_here, super_step, with_node_name

RUN = "__agent_factory_run"
"""Key of `configurable` that holds the `Run`. Keys that start with "__" stay out of metadata."""

ANSWERED = "answered"
"""Key of a tool call that says whether the run already has its structured answer."""

Action = Callable[[], Any]


@dataclass(slots=True)
class Run:
    """What a fused run remembers from one step to the next, in addition to the state."""

    depth: int = 0  # how many graphs are around it
    resumed: bool = False  # the next node may wait for an answer, so it needs a step to itself
    resent: bool = False  # the calls of a turn were sent again, each to its own task
    # Nothing is stored between the steps and no caller observes them, so the run takes one step.
    single_step: bool = False
    skipped_steps: int = 0  # how many steps that saved; they count towards the recursion limit
    cached_channels: dict[str, Any] = field(default_factory=dict)  # of messages, to use again
    # What a node or a tool call does in its own step, in place of its work, by its name or id.
    deferred: dict[str, Action] = field(default_factory=dict)

    def check_limit(self, config: RunnableConfig, begun: int = 1) -> None:
        """Raise an error if the run may take no more step; `begun` is 0 before the current one."""
        limit = config["recursion_limit"]
        if super_step(config) + self.skipped_steps + begun - 1 >= limit:
            message = (
                f"Recursion limit of {limit} reached, but the run has not ended. Set a higher "
                "`recursion_limit` in the config of the call, or find out what keeps the run going."
            )
            code = ErrorCode.GRAPH_RECURSION_LIMIT
            raise GraphRecursionError(create_error_message(message=message, error_code=code))


def run_of(config: RunnableConfig | None) -> Run:
    """Return the run of a config; a new one outside of fused runs."""
    run: Run | None = (config or {}).get("configurable", {}).get(RUN)
    return run or Run()


def replay(error: Exception, config: RunnableConfig | None) -> Action | None:
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
    return raise_again if run_of(config).single_step else None


@dataclass(frozen=True, slots=True)
class FusedStage:
    """A node that a fused step may go through."""

    node: Runnable[Any, Any]
    route: str | Choice  # where its edge leads: a node, or a route that chooses one
    next_nodes: frozenset[str] = frozenset()  # nodes this step may continue to from it
    next_if_unchanged: frozenset[str] = frozenset()  # the same, if no node has written state so far
    sees_signals: bool = False  # sees the keys for signals of tools and for retries
    streams: bool = False  # the tokens of models that it calls are streamed
    needs_thread: bool = False  # runs in a thread in an asynchronous run


class StepRunner:
    """One step through the stages of an agent. Its caller decides between sync and async."""

    def __init__(
        self, first: FusedNode, state: Mapping[str, Any], config: RunnableConfig | None, run: Run
    ) -> None:
        self._first = first
        self._stages = first.stages
        self._name = first.name
        self._is_first = True
        self._unchanged = True
        self._calls: list[dict[str, Any]] | None = None
        self._run = run
        self._view = StateView(state, first.channels, run.cached_channels)
        self._config = config
        self._quiet_config = without_streaming(config)
        self._needs_own_step, run.resumed = run.resumed, False
        self.stage = first.stages[first.name]  # the one that comes next
        self.done = False
        self.outcome: Any = None

    def run_next(self) -> None:
        try:
            result = self.stage.node.invoke(*self._enter())
        except Exception as error:
            return self._fail(error)
        self.take(result)

    async def arun_next(self) -> None:
        try:
            result = await self.stage.node.ainvoke(*self._enter())
        except Exception as error:
            return self._fail(error)
        self.take(result)

    def run_next_in_thread(self) -> None:
        """Run the next node, and those after it that need a thread, in the current thread."""
        self.run_next()
        while self.stage.needs_thread and not self.done:
            self.run_next()

    def _enter(self) -> tuple[Any, RunnableConfig | None]:
        """Return the input and the config of the next node."""
        if self.stage.streams:
            config: RunnableConfig | None = with_node_name(self._config, self._name)
        else:
            config = self._quiet_config
        # A node may have set a config for what it calls, which is not for the next node.
        current_config.set(config)
        if self._calls is None:
            return self._visible(self._view.now.state()), config
        # ToolNode reads persistent channels only, so tools must not see ephemeral ones here.
        return CallsWithState(self._calls, self._visible(dict(self._view.now.persistent))), config

    def _visible(self, state: dict[str, Any]) -> dict[str, Any]:
        if not self.stage.sees_signals:
            state.pop(TOOL_SIGNALS, None)
            state.pop(RETRIES, None)
        return state

    def _fail(self, error: Exception) -> None:
        if self._is_first:
            raise error  # this is its own step
        self._leave_to_own_step(replay(error, self._config))

    def take(self, result: Any) -> None:
        """Process what the node has returned, and continue or end the step."""
        now, route = self._view.now, self.stage.route
        # Fast path: most hooks return None and have one next node.
        if (
            result is None
            and isinstance(route, str)
            and route in self.stage.next_nodes
            and not (now.ephemeral or self._needs_own_step)
        ):
            self._move_to(route)
            return
        preview = now if result is None and not now.ephemeral else self._preview(result)
        if preview is None:
            if self._is_first:
                self._end(result)
            else:
                self._leave_to_own_step(lambda: result)
            return
        try:
            target = route if isinstance(route, str) else route(preview.state(), self._config)
        except Exception as error:
            return self._fail(error)
        self._view.now = preview
        self._unchanged = self._unchanged and result is None
        if not self._can_continue(target, preview):
            self._end(Command(update=preview.writes(), goto=self._goto(target, preview)))
        elif isinstance(target, str):
            self._calls = None
            self._move_to(target)
        else:
            self._calls = _calls_of(target, preview)
            self._move_to(TOOLS)

    def _preview(self, result: Any) -> Preview | None:
        """Return the state after a result; None if only LangGraph can process the result.

        That is so for a Command that leaves the graph, and for a write that raises: LangGraph
        raises its own error in the node's own step.
        """
        parts = result if isinstance(result, list) else [result]
        if any(isinstance(part, Command) and (part.graph or part.goto) for part in parts):
            return None
        pairs: list[Pair] = []
        try:
            for part in parts:
                if isinstance(part, Command):
                    pairs += pairs_of(part, "a node")
                elif part is not None:
                    pairs += part.items()
            return self._view.preview(pairs)
        except Exception:
            return None

    def _can_continue(self, target: Target, preview: Preview) -> bool:
        """Whether this step may run what comes next."""
        stage, run, is_node = self.stage, self._run, isinstance(target, str)
        within = is_node and (
            target in stage.next_nodes or (self._unchanged and target in stage.next_if_unchanged)
        )
        if run.single_step and not within:
            run.check_limit(self._config or {})
        if self._needs_own_step or preview.opaque:
            return False
        if within:
            return True
        # Of several calls, each may wait for an answer or fail, so they need tasks.
        possible = target in self._stages if is_node else len(target) == 1
        if not (run.single_step and possible):
            return False
        run.skipped_steps += 1
        self._unchanged = True
        return True

    def _move_to(self, name: str) -> None:
        self._is_first, self._name, self.stage = False, name, self._stages[name]

    def _leave_to_own_step(self, action: Action | None) -> None:
        """End the step before this node; what the nodes before it have written is kept."""
        if action is not None:
            self._run.deferred[self._name] = action
        goto = self._name if self._calls is None else [Send(TOOLS, self._calls)]
        self._end(Command(update=self._view.now.writes(), goto=goto))

    def _goto(self, target: Target, preview: Preview) -> Any:
        if isinstance(target, str):
            return () if target == END else target
        calls = _calls_of(target, preview)
        ids = {call["id"] for call in calls}
        # A batch knows its results by the ids of their calls.
        if None in ids or len(ids) < len(calls) or not self._first.batches_calls:
            return [Send(TOOLS, [call]) for call in calls]
        if self._first.state_keys is not None and not preview.opaque:
            calls = with_state(calls, preview.persistent, self._first.state_keys)
        return Send(TOOLS, calls)

    def _end(self, outcome: Any) -> None:
        self.done, self.outcome = True, outcome


def _calls_of(sends: list[Send], preview: Preview) -> list[dict[str, Any]]:
    answered = preview.persistent.get("structured_response") is not None
    return [{**call, ANSWERED: answered} for send in sends for call in send.arg]


@dataclass(eq=False, repr=False)
class FusedNode(Runnable[Any, Any]):
    """Node whose step may continue to the nodes that follow it."""

    name: str
    stages: Mapping[str, FusedStage]
    channels: Mapping[str, Channel]
    batches_calls: bool  # the tool calls of a turn may go to one task
    state_keys: Collection[str] | None  # of the state that calls are sent with

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        runner = self._start(input, config)
        while not runner.done:
            runner.run_next()
        return runner.outcome

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        runner = self._start(input, config)
        while not runner.done:
            if runner.stage.needs_thread:
                await run_in_executor(None, runner.run_next_in_thread)
            else:
                await runner.arun_next()
        return runner.outcome

    def _start(self, input: Any, config: RunnableConfig | None) -> StepRunner:
        run = run_of(config)
        if run.skipped_steps:  # LangGraph does not count those
            run.check_limit(config or {}, begun=0)
        runner = StepRunner(self, input, config, run)
        if (action := run.deferred.pop(self.name, None)) is not None:
            runner.take(action())
        return runner
