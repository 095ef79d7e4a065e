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
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Interrupt, Send, interrupt

from agent_factory.fused_view import Channel, Foreseen, View
from agent_factory.schema import RELAY, RETRIES
from agent_factory.topology import END, TOOLS
from agent_factory.tracing import silenced
from agent_factory.updates import Pair, pairs_of

RUN = "__agent_factory_run"
"""Under this key a fused run lies in `configurable`. What starts so is in no metadata."""

ANSWERED = "answered"
"""Under this key a tool call says whether the run has its structured answer already."""

Target = str | list[Send]

Lead = str | Callable[[Mapping[str, Any], RunnableConfig | None], Target]
"""Where an edge leads: the name of a node where there is nothing to choose."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A node that a step may go through.

    Args:
        node: What it does.
        route: Where its edge leads.
        onward: The nodes to which a step may go on from it.
        engine: Whether it sees the engine's own keys.
        silent: Whether models that it asks say nothing in the agent's stream.
        together: Whether the tool calls it sends may go to one task.
        threaded: Whether it goes to a thread in an asynchronous run.
    """

    node: Runnable[Any, Any]
    route: Lead
    onward: frozenset[str] = frozenset()
    engine: bool = False
    silent: bool = True
    together: bool = True
    threaded: bool = False


@dataclass(slots=True)
class Run:
    """What a fused run keeps beside the state, from one step to the next.

    Args:
        depth: How many graphs lie around it.
        resumed: An answer may wait for the next node: it takes a step of its own.
        sent_again: The calls of a turn were sent again, each to a task of its own.
        kept: Channels of messages, to be used again.
    """

    depth: int = 0
    resumed: bool = False
    sent_again: bool = False
    kept: dict[str, Any] = field(default_factory=dict)
    _acts: dict[str, Callable[[], Any]] = field(default_factory=dict)

    def hand_over(self, name: str, act: Callable[[], Any]) -> None:
        """Let a node, or a tool call, do in its own step what came of it in another's."""
        self._acts[name] = act

    def handed(self, name: str) -> Callable[[], Any] | None:
        """What was handed over to a node, or to a tool call; once."""
        return self._acts.pop(name, None)

    def takes_one(self) -> bool:
        """Whether the next node takes a step of its own."""
        resumed, self.resumed = self.resumed, False
        return resumed

    def was_sent_again(self) -> bool:
        """Whether the task that ends has sent its calls again."""
        sent_again, self.sent_again = self.sent_again, False
        return sent_again


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
        return None  # a graph inside it waits, under the name of that step
    asked = questions[0]
    return lambda: interrupt(asked.value, response_schema=asked.response_schema)


class Walk:
    """One step through the stages of an agent; knows nothing of sync or async.

    Args:
        stages: All stages, by name.
        start: Where it starts.
        state: The state as the first node reads it.
        channels: What becomes of a write to each key.
        config: The config of the step.
    """

    def __init__(
        self,
        stages: Mapping[str, Stage],
        start: str,
        state: Mapping[str, Any],
        channels: Mapping[str, Channel],
        config: RunnableConfig | None,
    ) -> None:
        self._stages = stages
        self._start = self._name = start
        self._run = run_of(config)
        self._view = View(state, channels, self._run.kept)
        self._config = config
        self._silent = silenced(config)
        self._alone = self._run.takes_one()
        self.handed = self._run.handed(start)
        """What came of the first node in another step; None if it is yet to run."""
        self.stage = stages[start]
        """The stage that comes next."""
        self.result: Any = None
        """What its node returned."""
        self.done = False
        self.outcome: Any = None

    def enter(self) -> tuple[dict[str, Any], RunnableConfig | None]:
        """Begin the next node: the state as it sees it, and its config."""
        state = self._view.now.state()
        if not self.stage.engine:
            state.pop(RELAY, None)
            state.pop(RETRIES, None)
        config = self._silent if self.stage.silent else self._config
        # What the node before has set, for what it calls, is not for this one.
        var_child_runnable_config.set(config)
        return state, config

    def go_on(self, threaded: bool = True) -> None:
        """Run what comes next in a synchronous way: one node, or all that share a thread."""
        while True:
            with self:
                self.result = self.stage.node.invoke(*self.enter())
            if self.done or not (threaded and self.stage.threaded):
                return

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> bool:
        """The node has come to its end; what the nodes before it have written is kept.

        What the first node raises is raised: this step is its own. What a later one raises, it
        raises again in a step of its own.
        """
        if error is None:
            self.take(self.result)
            return True
        if self._name == self._start or not isinstance(error, Exception):
            return False
        self._leave_to_itself(again(error, self._config))
        return True

    def take(self, result: Any) -> None:
        """The node has returned.

        Raises:
            AgentFactoryError: It is the first node, and its edge leads nowhere.
        """
        now = self._view.now
        # Most hooks write nothing, most of the time.
        foreseen = now if result is None and not now.passing else self._foreseen(result)
        if foreseen is None:
            self._give_up(result)
            return
        target: Any = self.stage.route
        if not isinstance(target, str):
            try:
                target = target(foreseen.state(), self._config)
            except Exception as error:
                if self._name == self._start:
                    raise
                self._leave_to_itself(again(error, self._config))
                return
        self._view.now = foreseen
        may_go_on = isinstance(target, str) and target in self.stage.onward
        if may_go_on and not (self._alone or foreseen.blind):
            self._name, self.stage = target, self._stages[target]
        else:
            self._end(Command(update=foreseen.writes(), goto=self._goto(target, foreseen)))

    def _foreseen(self, result: Any) -> Foreseen | None:
        """The state after a result; None where LangGraph is to deal with it in a step of its own.

        It leads out of the graph, or it cannot be written: that LangGraph says in its own words.
        """
        if isinstance(result, Command) and result.graph is not None:
            return None
        try:
            return self._view.foresee(_pairs(result))
        except Exception:
            return None

    def _give_up(self, result: Any) -> None:
        if self._name == self._start:
            self._end(result)
        else:
            self._leave_to_itself(lambda: result)

    def _leave_to_itself(self, act: Callable[[], Any] | None) -> None:
        if act is not None:
            self._run.hand_over(self._name, act)
        self._end(Command(update=self._view.now.writes(), goto=self._name))

    def _goto(self, target: Target, foreseen: Foreseen) -> Any:
        """Where a step leads: the calls of a turn to one task, if they can be told apart."""
        if isinstance(target, str):
            return () if target == END else target
        answered = foreseen.lasting.get("structured_response") is not None
        calls = [{**call, ANSWERED: answered} for send in target for call in send.arg]
        ids = {call["id"] for call in calls}
        alike = None in ids or len(ids) < len(calls)
        if alike or not self.stage.together:
            return [Send(TOOLS, [call]) for call in calls]
        return Send(TOOLS, calls)

    def _end(self, outcome: Any) -> None:
        self.done, self.outcome = True, outcome


def _raise(error: Exception) -> Any:
    raise error


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
        self, name: str, stages: Mapping[str, Stage], channels: Mapping[str, Channel]
    ) -> None:
        self.name: str = name
        self._stages = stages
        self._channels = channels

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Take the step in a synchronous run."""
        walk = self._begun(input, config)
        while not walk.done:
            walk.go_on(threaded=False)
        return walk.outcome

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Take the step in an asynchronous run."""
        walk = self._begun(input, config)
        while not walk.done:
            if walk.stage.threaded:
                await run_in_executor(None, walk.go_on)
                continue
            with walk:
                walk.result = await walk.stage.node.ainvoke(*walk.enter())
        return walk.outcome

    def _begun(self, input: Any, config: RunnableConfig | None) -> Walk:
        walk = Walk(self._stages, self.name, input, self._channels, config)
        if walk.handed is not None:
            walk.take(walk.handed())
        return walk
