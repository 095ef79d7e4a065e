"""Every contender can be built, run and watched, every group measured. No speed is asserted."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from tables import each

sys.path.append(str(Path(__file__).resolve().parent.parent))  # benchmarks/ is never installed

from benchmarks import batteries, contenders, harness, runs, threads
from benchmarks.efforts import FULL, GOALS_ONLY, SHORT, Effort, Thread
from benchmarks.floor import floor
from benchmarks.goals import GOALS
from benchmarks.groups import GROUPS
from benchmarks.harness import Figure, now
from benchmarks.others import others
from benchmarks.parts import REST, TURN, TURNS, WITHIN
from benchmarks.runs import QUESTION, Setting
from benchmarks.savers import CONFIG, Mode, Saver
from benchmarks.scripted import FreeModel, add, history, wordy_add
from benchmarks.stopwatch import Stopwatches
from benchmarks.watchers import ShowsTooLittle, Watcher, watched_runs, watchers

TINY = Effort(
    checks=2,
    runs=1,
    builds=1,
    imports=1,
    turns=1,
    numbers=(0, 16),
    savers=(Saver.NONE, Saver.SQLITE),
    calls=(2,),
    histories=(6,),
    watches=1,
    crowds=(2,),
    memories=(2,),
    threads=(Thread(2, SHORT, (0, 1)),),
    floors=1,
    services=1,
    share=0.05,
    servers=False,
    waiting=2,
    kills=1,
)


SLOW_GROUPS = {
    *("crowd", "few", "floor", "latency", "pages", "peers", "reading", "service"),
    *("temporal", "watched"),
}
"""Groups that take seconds even so."""


def everywhere(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    """Replace a function of `contenders` wherever it was imported."""
    for module in [module for key, module in sys.modules.items() if key.startswith("benchmarks.")]:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, value)


def test_every_goal_has_a_figure_in_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    everywhere(monkeypatch, "has_peer", lambda: True)
    everywhere(monkeypatch, "peer", lambda: replace(contenders.ours(), name=contenders.PEER))
    goals = {
        pair.goal
        for group in GROUPS.values()
        for work in group(replace(GOALS_ONLY, memories=(2,)))
        for pair in work.pairs
    }
    assert goals - {None} == GOALS.keys()


def test_goals_are_judged_without_an_argument() -> None:
    assert contenders.judged() == [contenders.DEFAULT]
    assert not contenders.DEFAULT.options
    assert contenders.ours().name == contenders.OURS
    assert not contenders.ours().create_agent.keywords  # type: ignore[attr-defined]  # a partial


@pytest.fixture
def own_loop() -> Iterator[None]:
    """Libraries whose sync runs need a loop, and would leave one open, find this one."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()
    asyncio.set_event_loop(None)


def everyone() -> list[contenders.Factory]:
    transitions = contenders.there([*contenders.WAYS, *contenders.FULL_CHECKPOINTS])
    loops = [contenders.ours(), contenders.by_hand(), contenders.plain()]
    return [*loops, *contenders.rivals(transitions), *others()]


@pytest.mark.usefixtures("own_loop")
@each("factory", everyone(), ids=lambda factory: factory.name)
def test_every_contender_takes_the_turns_it_was_asked_to_take(
    factory: contenders.Factory, call: Callable[..., Any]
) -> None:
    seen: list[int] = []

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        seen.append(a)
        return a + b

    agent = factory.create_agent(FreeModel(turns=2), [add], middleware=[], checkpointer=None)
    call(agent, {"messages": [runs.QUESTION]})
    assert seen == [0, 1]


def test_a_wide_turn_in_a_long_conversation_is_one_turn(call: Callable[..., Any]) -> None:
    model = FreeModel(turns=1, calls=3, before=4, size=5)
    for factory in (contenders.ours(), contenders.plain()):
        agent = factory.create_agent(model, [add], middleware=[], checkpointer=None)
        done = call(agent, {"messages": [*history(4), runs.QUESTION]})["messages"]
        kinds = [HumanMessage, AIMessage] * 2 + [HumanMessage, AIMessage, *[ToolMessage] * 3]
        assert [type(message) for message in done] == [*kinds, AIMessage]
        assert done[-1].content == "xxxxx"


# Sync runs of other libraries share this thread's loop, and one ends its generators for the rest.
@pytest.mark.filterwarnings("ignore:asynchronous generator:ResourceWarning")
@pytest.mark.usefixtures("own_loop")
@pytest.mark.parametrize(
    "group",
    [
        pytest.param(
            name, marks=[pytest.mark.long, pytest.mark.timeout(900)] if name in SLOW_GROUPS else []
        )
        for name in GROUPS
        if name != "imports"
    ],
)
def test_every_group_can_be_measured_without_other_libraries(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere(monkeypatch, "has_peer", lambda: False)
    tried = [work.figures() for work in GROUPS[group](TINY)]
    assert tried
    figures = [found for some in tried for found in some if found.reason is None]
    assert all(math.isfinite(found.value.low) for found in figures)
    # Costs of a message or a second, and what comes later, are differences: noise may take them
    # below zero. So may it the parts of a turn. A kill may repeat no effect.
    differences = {"CPU", "commits", "kB", "more", "lag", "later", "kill", "kills"}
    assert all(
        found.value.low > 0
        for found in figures
        if found.group != "floor" and not differences & {*found.unit.split()}
    )


def test_a_run_is_weighed_as_sqlite_stores_it() -> None:
    factory, size = contenders.ours(), 50
    tool, model = wordy_add(size), FreeModel(turns=5, size=size)
    members = factory.middleware(contenders.HOOKS, 2)
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        agent = factory.create_agent(model, [tool], middleware=members, checkpointer=saver)
        agent.invoke({"messages": [runs.QUESTION]}, CONFIG)
        stored = connection.execute(
            "select (select sum(length(checkpoint) + length(metadata)) from checkpoints)"
            " + (select sum(length(value)) from writes)"
        ).fetchone()[0]
    weighed = runs.weigh(factory, 2, 5, size)
    # The versions of channels have random parts, of a length that differs.
    assert weighed["kB a turn"] == pytest.approx(stored / 5 / 1000, rel=0.02)
    assert weighed["checkpoints a turn"] == 2


@pytest.mark.usefixtures("quick_gc")
def test_memory_is_counted_while_all_runs_wait() -> None:
    entry = (contenders.ours(), runs.Setting(Mode.ASYNC, turns=1))
    assert 1_000 < runs.memory_per_run(entry, 3) < 1_000_000


def test_built_ins_and_bare_hooks_take_the_same_steps(tmp_path: Path) -> None:
    model = batteries.ReportingModel(turns=2)
    stack = batteries.built_ins(model, str(tmp_path))
    create = contenders.ours().create_agent
    agents = [
        create(model, [add], middleware=members, checkpointer=InMemorySaver(), ignore=["AF210"])
        for members in (stack, batteries.bare_hooks(stack))
    ]
    config = {"configurable": {"thread_id": "one"}}
    steps = [[[*step] for step in agent.stream({"messages": "Count."}, config)] for agent in agents]
    assert steps[0] == steps[1]
    assert steps[0].count(["tools"]) == 2


def test_an_import_is_timed_by_the_clocks_of_its_process() -> None:
    reading = runs.Import("import json").timed(harness.now)
    assert 0 < reading.wall < 60
    assert 0 <= reading.cpu < 60


WAYS = contenders.there(contenders.WAYS)


class Blind:
    """An agent that shows nothing: each call runs to the end, and no callback sees it."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    def invoke(self, asked: Any, config: Any) -> Any:
        return {"messages": self._agent.invoke(asked, CONFIG)["messages"][:1]}

    async def ainvoke(self, asked: Any, config: Any) -> Any:
        return self.invoke(asked, config)

    def stream(self, asked: Any, config: Any, **_: Any) -> Any:
        self._agent.invoke(asked, config)
        return iter(())

    async def astream(self, asked: Any, config: Any, **_: Any) -> Any:
        for part in self.stream(asked, config):
            yield part

    stream_events = stream

    def astream_events(self, asked: Any, config: Any, *, version: str) -> Any:
        events = self.astream(asked, config)

        async def started() -> Any:
            return events

        return started() if version == "v3" else events


@each("watcher", watchers(), ids=lambda watcher: watcher.name)
def test_a_run_that_shows_nothing_is_not_a_figure(watcher: Watcher) -> None:
    ours = contenders.ours()

    def create_agent(model: Any, tools: Any, **options: Any) -> Any:
        return Blind(ours.create_agent(model, tools, **options))

    # Blind async runs call sync, and need no stream writer.
    blind = replace(ours, create_agent=create_agent)
    setting = Setting(watcher.mode, number=2, turns=3, plain=True)
    with (
        watched_runs({"blind": (blind, setting)}, watcher) as found,
        pytest.raises(ShowsTooLittle, match=r"^blind must show \d+ .* got "),
    ):
        found["blind"].timed(now)


@pytest.mark.long
@each("mode", Mode)
@each("way", WAYS, ids=lambda way: way.name or "default")
def test_a_thread_is_as_long_before_each_turn(mode: Mode, way: contenders.Transition) -> None:
    agents: list[Any] = []
    ours = contenders.ours(way)

    def create_agent(*arguments: Any, **options: Any) -> Any:
        agents.append(ours.create_agent(*arguments, **options))
        return agents[-1]

    def length() -> int:
        agent = agents[-1]
        state = (
            agent.get_state(CONFIG) if mode is Mode.SYNC else asyncio.run(agent.aget_state(CONFIG))
        )
        return len(state.values["messages"])

    setting = Setting(mode, Saver.MEMORY, turns=2, before=12)
    entry = (replace(ours, create_agent=create_agent), setting)
    with threads.readings({"it": entry}, threads.Read.TURN) as found:
        contender = found["it"]
        assert length() == 12
        contender.run()
        assert length() == 12 + 4  # a question, an answer with a call, its result, an answer
        contender.tidy()
        assert length() == 12


class Clock(threading.local):
    """The processor's clock of a thread, which only work moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Work for so many seconds."""
    clock = Clock()
    monkeypatch.setattr("time.thread_time", clock)

    def work(seconds: float) -> None:
        clock.now += seconds

    return work


def test_a_stopwatch_counts_work_in_all_threads_and_no_waiting(
    busy: Callable[[float], None],
) -> None:
    watches = Stopwatches()
    work, wait = watches.wrap("work", busy), watches.wrap("wait", time.sleep)
    with watches.running({"work", "wait"}):
        work(10)
        thread = threading.Thread(target=work, args=(20,))
        thread.start()
        thread.join()
        wait(0.001)
    assert watches.seconds == {"work": 30, "wait": 0}


def test_only_the_stopwatches_run_that_are_asked_for(busy: Callable[[float], None]) -> None:
    watches = Stopwatches()
    inner = watches.wrap("inner", partial(busy, 1))
    outer = watches.wrap("outer", inner)
    outer()
    assert not watches.seconds
    with watches.running({"inner"}):
        outer()
    assert set(watches.seconds) == {"inner"}
    watches.seconds.clear()
    with watches.running({"inner", "outer"}):
        outer()
    assert set(watches.seconds) == {"outer"}, "what runs inside another one is a part of it"


def test_a_stopwatch_is_taken_off_again() -> None:
    class Base:
        def own(self) -> str:
            return "own"

        inherited = own

    class Derived(Base):
        def own(self) -> str:
            return "derived"

    watches, before = Stopwatches(), dict(vars(Derived))
    with (
        watches.patched("part", Derived, "own"),
        watches.patched("part", Derived, "inherited"),
        watches.running({"part"}),
    ):
        assert (Derived().own(), Derived().inherited()) == ("derived", "own")
        assert watches.seconds["part"] != 0
    assert dict(vars(Derived)) == before


@pytest.fixture(scope="module")
def floors() -> list[Figure]:
    effort = replace(FULL, floors=2, turns=1)
    return [found for work in floor(effort) for found in work.figures()]


@pytest.mark.long
def test_the_parts_of_a_turn_add_up_to_it(floors: list[Figure]) -> None:
    for saver in ("no saver", "memory"):
        for whose, whole in (("ours", TURN), ("by hand", contenders.BY_HAND)):
            parts = {f.of: f.value.middle for f in floors if f.name == f"{whose}, {saver}"}
            (turn,) = (f for f in floors if (f.name, f.of) == (f"turn, {saver}", whole))
            assert turn.cpu is not None
            assert sum(parts.values()) == pytest.approx(turn.cpu.middle)
            assert REST in parts
            assert all(parts[name] != 0 for name in parts if name in WITHIN), "a part never ran"
    turns = [found.of for found in floors if found.name == "turn, memory"]
    assert turns == list(TURNS)


@each("saver", [None, InMemorySaver()])
def test_every_stopwatch_is_put_around_something_that_runs(saver: Any) -> None:
    from benchmarks.floor import _patches as patches

    ours, watches = contenders.ours(), Stopwatches()
    members = ours.middleware(contenders.HOOKS, 2)
    agent = ours.create_agent(FreeModel(turns=1), [add], middleware=members, checkpointer=saver)
    parts = {part for part, _, _ in patches()}
    with ExitStack() as stack:
        for part, owner, method in patches():
            stack.enter_context(watches.patched(part, owner, method))
        for part in parts:
            with watches.running({part}):
                agent.invoke({"messages": [QUESTION]}, {"configurable": {"thread_id": part}})
    assert watches.seconds.keys() == parts


def test_a_turn_takes_the_steps_that_it_is_charged_for() -> None:
    from benchmarks.floor import _steps_of_a_turn as steps

    assert steps(contenders.by_hand(), 0, Saver.NONE) == 2
    assert steps(contenders.ours(), 2, Saver.NONE) == 0
    assert steps(contenders.ours(), 2, Saver.MEMORY) == 2
    hook_by_hook = contenders.Transition("", {"fused": False})
    assert steps(contenders.ours(hook_by_hook), 2, Saver.NONE) == 2 + 2 * 2
    assert steps(contenders.ours(hook_by_hook), 2, Saver.MEMORY) == 2 + 2 * 2
