"""Several nodes of the plan in one step: same order, same views, same end, fewer steps.

A step that starts at a node goes on to the next ones as their edges say, as long as it leads
forward and nothing asks for a step of its own. Every node stays a node: what a step cannot do in
their place (wait for an answer, fail) is done by the node itself, in a step that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor, var_child_runnable_config
from langgraph.errors import (
    ErrorCode,
    GraphInterrupt,
    GraphRecursionError,
    create_error_message,
)
from langgraph.types import Command, Interrupt, Send, interrupt

from agent_factory.fused.state_view import Channel, Preview, View
from agent_factory.runtime.composition import without_streaming
from agent_factory.state.schema import RETRIES, TOOL_SIGNALS
from agent_factory.state.updates import Pair, pairs_of
from agent_factory.tools.tool_node import CallsWithState
from agent_factory.topology.model import END, TOOLS

RUN = "__agent_factory_run"
"""Under this key a fused run lies in `configurable`. What starts so is in no metadata."""

ANSWERED = "answered"
"""Under this key a tool call says whether the run has its structured answer already."""


@dataclass(slots=True)
class Run:
    """What a fused run keeps beside the state, from one step to the next.

    Args:
        depth: How many graphs lie around it.
        resumed: An answer may wait for the next node: it takes a step of its own.
        resent: The calls of a turn were sent again, each to a task of its own.
        whole: Nothing is kept between its steps, and nobody can look in there: it takes but one.
        spared: How many steps it did not take for that, which count all the same.
        kept: Channels of messages, to be used again.
    """

    depth: int = 0
    resumed: bool = False
    resent: bool = False
    whole: bool = False
    spared: int = 0
    kept: dict[str, Any] = field(default_factory=dict)
    _acts: dict[str, Callable[[], Any]] = field(default_factory=dict)

    def defer(self, name: str, act: Callable[[], Any]) -> None:
        """Let a node, or a tool call, do in its own step what came of it in another's."""
        self._acts[name] = act

    def handed(self, name: str) -> Callable[[], Any] | None:
        """What was handed over to a node, or to a tool call; once."""
        return self._acts.pop(name, None)

    def needs_own_step(self) -> bool:
        """Whether the next node takes a step of its own."""
        resumed, self.resumed = self.resumed, False
        return resumed

    def was_sent_again(self) -> bool:
        """Whether the task that ends has sent its calls again."""
        resent, self.resent = self.resent, False
        return resent

    def check_limit(self, config: RunnableConfig, begun: int = 1) -> None:
        """See whether the run may take one more step.

        Args:
            config: The config of the step at hand.
            begun: 1 if it is about to end, 0 if it is about to begin.

        Raises:
            GraphRecursionError: It may not.
        """
        taken = config["metadata"]["langgraph_step"] + self.spared + begun - 1
        limit = config["recursion_limit"]
        if taken >= limit:
            said = (
                f"Recursion limit of {limit} reached, and the run is not at its end. Set a higher "
                "`recursion_limit` in the config of the call, or find out what keeps it going."
            )
            code = ErrorCode.GRAPH_RECURSION_LIMIT
            raise GraphRecursionError(create_error_message(message=said, error_code=code))


def run_of(config: RunnableConfig | None) -> Run:
    """The run a config belongs to; a new one outside of fused runs."""
    run: Run | None = (config or {}).get("configurable", {}).get(RUN)
    return run or Run()


def again(error: Exception, config: RunnableConfig | None) -> Callable[[], Any] | None:
    """What raises the same in another step; None where what raised it has to run again.

    Args:
        error: What was raised.
        config: The config of the step that raised it.
    """
    if not isinstance(error, GraphInterrupt):
        return lambda: _raise(error)
    questions: tuple[Interrupt[Any], ...] = (*error.args, ())[0]
    namespace = (config or {}).get("configurable", {}).get("checkpoint_ns", "")
    if [question.id for question in questions] != [Interrupt.from_ns(None, namespace).id]:
        # A graph inside it waits, under the name of that step. What nothing keeps goes on nowhere.
        return (lambda: _raise(error)) if run_of(config).whole else None
    asked = questions[0]
    return lambda: interrupt(asked.value, response_schema=asked.response_schema)


def _raise(error: Exception) -> Any:
    raise error


Target = str | list[Send]

Destination = str | Callable[[Mapping[str, Any], RunnableConfig | None], Target]
"""Where an edge leads: the name of a node where there is nothing to choose."""


@dataclass(frozen=True, slots=True)
class FusedStage:
    """A node that a step may go through.

    Args:
        node: What it does.
        route: Where its edge leads.
        onward: The nodes to which a step may go on from it.
        idly: Those to which it may as long as nothing is written: then nothing is lost with it.
        engine: Whether it sees the engine's own keys.
        silent: Whether models that it asks say nothing in the agent's stream.
        together: Whether the tool calls it sends may go to one task.
        threaded: Whether it goes to a thread in an asynchronous run.
        keep: For tools: keeps the state at hand for calls that are sent there.
    """

    node: Runnable[Any, Any]
    route: Destination
    next_nodes: frozenset[str] = frozenset()
    next_if_unchanged: frozenset[str] = frozenset()
    engine: bool = False
    silent: bool = True
    together: bool = True
    threaded: bool = False
    keep: Callable[[list[dict[str, Any]], Mapping[str, Any]], None] | None = None


class StepRunner:
    """One step through the stages of an agent; knows nothing of sync or async.

    Args:
        stages: All stages, by name.
        start: Where it starts.
        state: The state as the first node reads it.
        channels: What becomes of a write to each key.
        config: The config of the step.
        run: The run it belongs to.
    """

    def __init__(
        self,
        stages: Mapping[str, FusedStage],
        start: str,
        state: Mapping[str, Any],
        channels: Mapping[str, Channel],
        config: RunnableConfig | None,
        run: Run,
    ) -> None:
        self._stages = stages
        self._name = start
        self._first = True
        self._idle = True
        self._calls: list[dict[str, Any]] | None = None
        self._run = run
        self._view = View(state, channels, self._run.kept)
        self._config = config
        self._silent = without_streaming(config)
        self._alone = self._run.needs_own_step()
        self.handed = self._run.handed(start)
        """What came of the first node in another step; None if it is yet to run."""
        self.stage = stages[start]
        """The stage that comes next."""
        self.done = False
        self.outcome: Any = None

    def enter(self) -> tuple[Any, RunnableConfig | None]:
        """Begin the next node: the state as it sees it, or the calls for tools, and its config."""
        config = self._silent if self.stage.silent else _named(self._config, self._name)
        # What the node before has set, for what it calls, is not for this one.
        var_child_runnable_config.set(config)
        if self._calls is not None:
            # LangGraph's own reading shows tools nothing that passes with a step.
            return CallsWithState(self._calls, self._shown(dict(self._view.now.lasting))), config
        return self._shown(self._view.now.state()), config

    def _shown(self, state: dict[str, Any]) -> dict[str, Any]:
        if not self.stage.engine:
            state.pop(TOOL_SIGNALS, None)
            state.pop(RETRIES, None)
        return state

    def go_on(self) -> None:
        """Run the next node in a synchronous way."""
        try:
            result = self.stage.node.invoke(*self.enter())
        except Exception as error:
            return self.fail(error)
        self.take(result)

    async def ago_on(self) -> None:
        """As `go_on`, awaited."""
        try:
            result = await self.stage.node.ainvoke(*self.enter())
        except Exception as error:
            return self.fail(error)
        self.take(result)

    def share_thread(self) -> None:
        """Run all that come next and need a thread, in this one."""
        self.go_on()
        while self.stage.threaded and not self.done:
            self.go_on()

    def fail(self, error: Exception) -> None:
        """The node has failed; what the nodes before it have written is kept.

        Raises:
            Exception: It is the first node: this step is its own. A later one raises it again in
                a step of its own.
        """
        if self._first:
            raise error
        self._leave_to_itself(again(error, self._config))

    def take(self, result: Any) -> None:
        """The node has returned.

        Raises:
            AgentFactoryError: It is the first node, and its edge leads nowhere.
        """
        now, route = self._view.now, self.stage.route
        # Most hooks write nothing, most of the time.
        if result is None and route in self.stage.next_nodes and not (now.passing or self._alone):
            self._turn_to(route)
            return
        foreseen = now if result is None and not now.passing else self._foreseen(result)
        if foreseen is None:
            self._give_up(result)
            return
        target: Any = route
        if not isinstance(target, str):
            try:
                target = target(foreseen.state(), self._config)
            except Exception as error:
                if self._first:
                    raise
                self._leave_to_itself(again(error, self._config))
                return
        self._view.now = foreseen
        self._idle = self._idle and result is None
        if not self._goes_on(target, foreseen):
            self._end(Command(update=foreseen.writes(), goto=self._goto(target, foreseen)))

    def _goes_on(self, target: Target, foreseen: Preview) -> bool:
        """Turn to the node that comes next, if this step may go on to it."""
        within, run = self._is_within(target), self._run
        if run.whole and not within:
            run.check_limit(self._config or {})
        if self._alone or foreseen.blind or not (within or (run.whole and self._knows(target))):
            return False
        if not within:
            run.spared += 1
            self._idle = True
        self._calls = None if isinstance(target, str) else self._told(target, foreseen)
        self._turn_to(target if isinstance(target, str) else TOOLS)
        return True

    def _turn_to(self, name: str) -> None:
        self._first, self._name, self.stage = False, name, self._stages[name]

    def _is_within(self, target: Target) -> bool:
        """Whether the node that comes next belongs to this step."""
        stage = self.stage
        return isinstance(target, str) and (
            target in stage.next_nodes or (self._idle and target in stage.next_if_unchanged)
        )

    def _knows(self, target: Target) -> bool:
        """Whether what comes next can be done here. Of several calls each may wait, or fail."""
        if isinstance(target, str):
            return target in self._stages
        return len(target) == 1

    def _foreseen(self, result: Any) -> Preview | None:
        """The state after a result; None where LangGraph is to deal with it in a step of its own.

        It leads out of the graph, or it cannot be written: that LangGraph says in its own words.
        """
        parts = result if isinstance(result, list) else [result]
        if any(isinstance(part, Command) and (part.graph or part.goto) for part in parts):
            return None
        try:
            return self._view.preview([pair for part in parts for pair in _pairs(part)])
        except Exception:
            return None

    def _give_up(self, result: Any) -> None:
        if self._first:
            self._end(result)
        else:
            self._leave_to_itself(lambda: result)

    def _leave_to_itself(self, act: Callable[[], Any] | None) -> None:
        if act is not None:
            self._run.defer(self._name, act)
        itself = self._name if self._calls is None else [Send(TOOLS, self._calls)]
        self._end(Command(update=self._view.now.writes(), goto=itself))

    def _goto(self, target: Target, foreseen: Preview) -> Any:
        """Where a step leads: the calls of a turn to one task, if they can be told apart."""
        if isinstance(target, str):
            return () if target == END else target
        calls = self._told(target, foreseen)
        ids = {call["id"] for call in calls}
        alike = None in ids or len(ids) < len(calls)
        if alike or not self.stage.together:
            return [Send(TOOLS, [call]) for call in calls]
        keep = self._stages[TOOLS].keep
        if keep is not None and not foreseen.blind:
            keep(calls, foreseen.lasting)
        return Send(TOOLS, calls)

    def _told(self, sends: list[Send], foreseen: Preview) -> list[dict[str, Any]]:
        answered = foreseen.lasting.get("structured_response") is not None
        return [{**call, ANSWERED: answered} for send in sends for call in send.arg]

    def _end(self, outcome: Any) -> None:
        self.done, self.outcome = True, outcome


def _named(config: RunnableConfig | None, name: str) -> RunnableConfig:
    """A config whose runs say by which node they were called."""
    known = config or {}
    return {**known, "metadata": {**known.get("metadata", {}), "langgraph_node": name}}


def _pairs(result: Any) -> list[Pair]:
    if result is None:
        return []
    return pairs_of(result, "a node") if isinstance(result, Command) else list(result.items())


class FusedNode(Runnable[Any, Any]):
    """A node of the plan, whose step may go on to the nodes that follow it.

    Args:
        name: Its name.
        stages: All stages, by name.
        channels: What becomes of a write to each key.
    """

    def __init__(
        self, name: str, stages: Mapping[str, FusedStage], channels: Mapping[str, Channel]
    ) -> None:
        self.name: str = name
        self._stages = stages
        self._channels = channels

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Take the step in a synchronous run."""
        drive = self._begun(input, config)
        while not drive.done:
            drive.go_on()
        return drive.outcome

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Take the step in an asynchronous run."""
        drive = self._begun(input, config)
        while not drive.done:
            if drive.stage.threaded:
                await run_in_executor(None, drive.share_thread)
            else:
                await drive.ago_on()
        return drive.outcome

    def _begun(self, input: Any, config: RunnableConfig | None) -> StepRunner:
        run = run_of(config)
        if run.spared:  # LangGraph knows nothing of those
            run.check_limit(config or {}, begun=0)
        drive = StepRunner(self._stages, self.name, input, self._channels, config, run)
        if drive.handed is not None:
            drive.take(drive.handed())
        return drive
