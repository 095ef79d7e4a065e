"""Where the time of one turn goes: our turn, and what is below it, down to the functions alone.

A turn is a call of the model and of one tool. What a run takes to start and to end is not part of
it: a run without turns is taken off the run with turns, round by round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from statistics import median
from typing import Any, TypedDict

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables.base import RunnableBinding
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import get_runtime
from langgraph.types import Command

from agent_factory.runtime import model_node
from agent_factory.runtime.hook_node import HookNode
from agent_factory.runtime.model_node import ModelNode
from agent_factory.runtime.step import Stage
from agent_factory.runtime.tools_node import ToolsNode
from agent_factory.state.history import ValidatedPrefix
from benchmarks.contenders import BY_HAND, HOOKS, Factory, Kind, by_hand, ours, plain
from benchmarks.efforts import Effort
from benchmarks.harness import (
    Clock,
    Contender,
    Figure,
    Interval,
    Pair,
    Rounds,
    interval,
    measure,
    now,
)
from benchmarks.parts import (
    BARE_TURN,
    FUNCTIONS,
    HISTORY,
    HOOK_CALLS,
    HOW,
    LOOP,
    MANY,
    MESSAGES,
    MODEL,
    MODEL_CALL,
    MODEL_NODE,
    NODES,
    PARTS,
    PARTS_BY_HAND,
    REST,
    SAVER,
    SERDE,
    STEPS,
    TOOL_CALL,
    TOOLS_NODE,
    TURN,
    TURNS,
    WITHIN,
)
from benchmarks.runs import QUESTION
from benchmarks.savers import CONFIG, THREAD, Saver
from benchmarks.scripted import FreeModel, add
from benchmarks.stopwatch import Stopwatches

UNIT = "ms a turn"

NO_TURNS = ", no turns"
"""Behind the name of a contender that only starts and ends."""

LONG = 20
"""Super-steps of the empty graph."""


def floor(effort: Effort) -> Iterator[Floor]:
    """One fused turn and its parts, and those of LangGraph by hand."""
    for saver in (Saver.NONE, Saver.MEMORY):
        yield Floor(saver, effort.floors, effort.turns)


@dataclass(frozen=True, slots=True)
class Floor:
    """All contenders and parts with one saver, measured in turn in one process.

    Args:
        saver: Where threads are kept.
        rounds: How often each contender is timed.
        turns: How many turns its runs take.
    """

    saver: Saver
    rounds: int
    turns: int
    group: str = "floor"

    @property
    def name(self) -> str:
        """The saver."""
        return str(self.saver)

    @property
    def pairs(self) -> Sequence[Pair]:
        """None: nothing here has a goal."""
        return []

    def figures(
        self, clock: Clock = now, after_round: Callable[[], None] = lambda: None
    ) -> list[Figure]:
        """Time whole turns, and the parts of ours and of one wired by hand."""
        watches = Stopwatches()
        with ExitStack() as stack:
            for part, owner, method in _patches():
                stack.enter_context(watches.patched(part, owner, method))
            mine = _Clocked("ours", ours(), self, watches, self._there(PARTS), number=MANY)
            hand = _Clocked("by hand", by_hand(), self, watches, self._there(PARTS_BY_HAND))
            empty = _Clocked("empty", Factory("empty", _empty_graph), self, watches, [SAVER], LONG)
            contenders = _whole_turns(self)
            for clocked in (mine, hand, empty):
                contenders |= clocked.contenders()
            taken = measure(contenders, self.rounds, clock, after_round)
        whole = {name: _turns(taken, name, self.turns) for name in TURNS}
        _, step = _turns(taken, empty.name_of(SAVER), LONG)
        if self.saver is Saver.MEMORY:
            step = [each - of for each, of in zip(step, empty.parts()[SAVER], strict=True)]
        found = [self._figure("turn", name, *whole[name]) for name in TURNS]
        for clocked, name in ((mine, TURN), (hand, BY_HAND)):
            within = WITHIN if clocked is mine else {MODEL: MODEL_CALL, SERDE: SAVER}
            parts = _alone(clocked.parts(), within)
            parts[STEPS] = [each * clocked.steps for each in step]
            found += self._parts(clocked.name, whole[name][1], parts)
        return found

    def _there(self, parts: Sequence[str]) -> list[str]:
        saved = self.saver is Saver.MEMORY
        return [part for part in parts if saved or part not in (SERDE, SAVER)]

    def _parts(
        self, whose: str, whole: Sequence[float], parts: Mapping[str, Sequence[float]]
    ) -> list[Figure]:
        """A figure for each part, by CPU time; what is left is a part too, so they add up."""
        found = [self._figure(whose, name, parts[name]) for name in HOW if name in parts]
        rest = [whole[i] - sum(part[i] for part in parts.values()) for i in range(len(whole))]
        low, high = interval(rest).low, interval(rest).high
        left = median(whole) - sum(figure.value.middle for figure in found)
        last = replace(
            self._figure(whose, REST, rest),
            value=Interval(left, min(left, low), max(left, high)),
        )
        return [*found, last]

    def _figure(
        self, whose: str, part: str, wall: Sequence[float], cpu: Sequence[float] | None = None
    ) -> Figure:
        value, work = interval(wall), interval(cpu) if cpu else None
        return Figure(
            self.group,
            f"{whose}, {self.saver}",
            part,
            None,
            UNIT,
            value,
            work,
            [value.middle],
            self.rounds,
            None,
        )


def _turns(taken: Rounds, name: str, turns: int) -> tuple[list[float], list[float]]:
    """The wall-clock and CPU times of a turn in milliseconds, round by round."""
    whole = [readings[name] for readings in taken]
    starts = [readings[f"{name}{NO_TURNS}"] for readings in taken]
    pairs = list(zip(whole, starts, strict=True))
    scale = 1000 / turns
    walls = [(run.wall - start.wall) * scale for run, start in pairs]
    return walls, [(run.cpu - start.cpu) * scale for run, start in pairs]


def _whole_turns(work: Floor) -> dict[str, Contender]:
    """A run with turns, and one without, for each of the whole turns."""
    bare: dict[str, tuple[Factory, int]] = {
        TURN: (ours(), MANY),
        BARE_TURN: (ours(), 0),
        BY_HAND: (by_hand(), 0),
        LOOP: (plain(), 0),
        FUNCTIONS: (Factory(FUNCTIONS, Functions), 0),
    }
    return {
        f"{name}{suffix}": _run(factory, number, work.saver, turns)
        for name, (factory, number) in bare.items()
        for suffix, turns in (("", work.turns), (NO_TURNS, 0))
    }


def _run(factory: Factory, number: int, saver: Saver, turns: int) -> Contender:
    kept = InMemorySaver() if saver is Saver.MEMORY else None
    members = factory.middleware(HOOKS, number)
    agent = factory.create_agent(
        FreeModel(turns=turns), [add], middleware=members, checkpointer=kept
    )
    asked = {"messages": [QUESTION]}
    forget = partial(kept.delete_thread, THREAD) if kept else lambda: None
    return Contender(lambda: agent.invoke(asked, CONFIG), tidy=forget)


class Functions:
    """What every contender calls in the end: the method of the model, and the function.

    Args:
        model: Its method is called.
        tools: One function.
        middleware: None of them.
        checkpointer: None.
    """

    def __init__(
        self, model: Any, tools: Sequence[Any], *, middleware: Any = (), checkpointer: Any = None
    ) -> None:
        self._model, self._function = model, tools[0]

    def invoke(self, asked: Any, config: Any = None) -> Any:
        """Run until the model calls no tool."""
        messages: list[Any] = [HumanMessage(asked["messages"][0][1])]
        while True:
            answer = self._model._generate(messages).generations[0].message
            messages.append(answer)
            if not answer.tool_calls:
                return {"messages": messages}
            messages += [
                ToolMessage(str(self._function(**call["args"])), tool_call_id=call["id"])
                for call in answer.tool_calls
            ]


class _Left(TypedDict):
    left: int


def _empty_graph(
    model: Any, tools: Sequence[Any], *, middleware: Any = (), checkpointer: Any = None
) -> Any:
    """A graph that takes a number of steps in which nothing happens."""

    def node(state: _Left) -> Any:
        left = state["left"] - 1
        return Command(update={"left": left}, goto="node" if left > 0 else ())

    graph: Any = StateGraph(_Left)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile(checkpointer=checkpointer)


def _patches() -> Iterator[tuple[str, Any, str]]:
    """What stopwatches are put around that cannot be handed to an agent, by its part."""
    yield NODES, Stage, "invoke"
    yield HOOK_CALLS, HookNode, "invoke"
    yield MODEL_NODE, ModelNode, "invoke"
    yield HISTORY, ValidatedPrefix, "of"
    yield HISTORY, ValidatedPrefix, "remember"
    yield HISTORY, model_node, "repair"
    yield TOOLS_NODE, ToolsNode, "invoke"
    yield TOOLS_NODE, ToolNode, "invoke"
    agents = [
        factory.create_agent(FreeModel(turns=0), [add], middleware=[], checkpointer=saver)
        for factory, saver in product((ours(), by_hand()), (None, InMemorySaver()))
    ]
    for channel in {type(agent.channels["messages"]) for agent in agents}:
        # Those of delta channels have one method more.
        for method in ("checkpoint", "copy", "from_checkpoint", "get", "replay_writes", "update"):
            if hasattr(channel, method):
                yield MESSAGES, channel, method


def _alone(
    parts: Mapping[str, Sequence[float]], within: Mapping[str, str]
) -> dict[str, list[float]]:
    """What each part takes without the parts inside it, round by round."""
    return {
        name: [
            whole
            - sum(
                parts[inner][i]
                for inner, outer in within.items()
                if outer == name and inner in parts
            )
            for i, whole in enumerate(taken)
        ]
        for name, taken in parts.items()
    }


class _Clocked:
    """An agent with stopwatches, of which each contender runs one; with turns and without.

    Args:
        name: What it is called.
        factory: Who builds it.
        work: What it is measured for.
        watches: Its stopwatches.
        parts: What is measured.
        turns: How many turns it takes, if not as many as the others.
        number: How many middleware it has.
    """

    def __init__(
        self,
        name: str,
        factory: Factory,
        work: Floor,
        watches: Stopwatches,
        parts: Sequence[str],
        turns: int | None = None,
        number: int = 0,
    ) -> None:
        self.name = name
        self.turns = turns or work.turns
        self._factory, self._number = factory, number
        self._parts = parts
        self._saver, self._watches = work.saver, watches
        self._seconds: dict[str, list[float]] = {}
        self.steps = _steps_of_a_turn(factory, number, work.saver) if turns is None else 1.0

    def name_of(self, part: str) -> str:
        """The contender that runs the stopwatch of this part."""
        return f"{self.name}: {part}"

    def contenders(self) -> dict[str, Contender]:
        """Two for each part: a run with turns, and one without."""
        return {
            f"{self.name_of(part)}{suffix}": self._contender(part, suffix)
            for part in self._parts
            for suffix in ("", NO_TURNS)
        }

    def _contender(self, part: str, suffix: str) -> Contender:
        watches, turns = self._watches, 0 if suffix else self.turns
        saver = _saver(watches) if self._saver is Saver.MEMORY else None
        agent = self._factory.create_agent(
            _ClockedModel(turns=turns).clocked_by(watches),
            [_clocked_tool(watches)],
            middleware=self._factory.middleware(HOOKS, self._number),
            checkpointer=saver,
        )
        # The empty graph counts its steps down, the others are asked a question.
        counts = "left" in agent.channels
        asked: Any = {"left": turns + 1} if counts else {"messages": [QUESTION]}
        taken = self._seconds.setdefault(f"{part}{suffix}", [])
        # Calls of the channel inside a node are a part of the node.
        running = {part, NODES} if part is MESSAGES else {part}

        def run() -> None:
            with watches.running(running):
                agent.invoke(asked, {**CONFIG, "recursion_limit": 1_000})

        def tidy() -> None:
            taken.append(watches.seconds[part])
            if saver is not None:
                saver.delete_thread(THREAD)

        return Contender(run, prepare=watches.seconds.clear, tidy=tidy)

    def parts(self) -> dict[str, list[float]]:
        """What the parts of a turn take in milliseconds, round by round."""
        scale = 1000 / self.turns
        # The first run of each was a warm-up.
        return {
            part: [
                (whole - start) * scale
                for whole, start in zip(
                    self._seconds[part][1:], self._seconds[f"{part}{NO_TURNS}"][1:], strict=True
                )
            ]
            for part in self._parts
        }


class _Binding(RunnableBinding[Any, Any]):
    """The model with its tools. Agents look through a binding, so it hides nothing from them."""

    call: Any

    def invoke(self, input: Any, config: Any = None, **_: Any) -> Any:
        return self.call(input, config)


class _ClockedModel(FreeModel):
    """A free model with stopwatches around its call and its own method."""

    binding: Any = None
    answer: Any = None

    def clocked_by(self, watches: Stopwatches) -> _ClockedModel:
        self.answer = watches.wrap(MODEL, super()._generate)
        self.binding = _Binding(bound=self, call=watches.wrap(MODEL_CALL, self.invoke))
        return self

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self.binding

    def _generate(self, messages: Any, *_: Any, **__: Any) -> Any:
        return self.answer(messages)


class _ClockedTool(StructuredTool):
    """A tool with a stopwatch around its call."""

    call: Any = None

    def invoke(self, input: Any, config: Any = None, **options: Any) -> Any:
        return self.call(input, config, **options)


def _clocked_tool(watches: Stopwatches) -> Any:
    made: Any = _ClockedTool.from_function(add)
    made.call = watches.wrap(TOOL_CALL, partial(StructuredTool.invoke, made))
    return made


def _saver(watches: Stopwatches) -> Any:
    serde: Any = JsonPlusSerializer()
    serde.dumps_typed = watches.wrap(SERDE, serde.dumps_typed)
    saver: Any = InMemorySaver(serde=serde)
    saver.put = watches.wrap(SAVER, saver.put)
    saver.put_writes = watches.wrap(SAVER, saver.put_writes)
    return saver


class _NotingModel(FreeModel):
    """A free model that calls a function before each answer."""

    note: Any

    def _generate(self, messages: Any, *_: Any, **__: Any) -> Any:
        self.note()
        return super()._generate(messages)


def _steps_of_a_turn(factory: Factory, number: int, saver: Saver) -> float:
    """How many super-steps a turn takes.

    Each super-step begins with a checkpoint of its own, whether it is saved or not. So the ids that
    the model, the tool and the hooks find in their runtime are counted.
    """
    seen: set[str] = set()

    def note(*_: Any) -> None:
        info = get_runtime().execution_info
        assert info is not None  # a node is running
        seen.add(info.checkpoint_id)

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        note()
        return a + b

    counts = []
    for turns in (1, 3):
        agent = factory.create_agent(
            _NotingModel(turns=turns, note=note),
            [add],
            middleware=factory.middleware(
                Kind("noting hooks", {"before_model": note, "after_model": note}), number
            ),
            checkpointer=InMemorySaver() if saver is Saver.MEMORY else None,
        )
        seen.clear()
        agent.invoke({"messages": [QUESTION]}, CONFIG)
        counts.append(len(seen))
    return (counts[1] - counts[0]) / 2
