"""What a watched run has to show, and the long threads and stopwatches of the benchmarks."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tables import each

sys.path.append(str(Path(__file__).resolve().parent.parent))  # benchmarks/ is never installed

from benchmarks import contenders, threads
from benchmarks.efforts import FULL
from benchmarks.floor import floor
from benchmarks.harness import Figure, Interval, now
from benchmarks.parts import HOW, REST, TURN, TURNS, WITHIN
from benchmarks.plot import plot
from benchmarks.report import Report, parts_table, report, turns_table
from benchmarks.runs import QUESTION, Setting
from benchmarks.savers import CONFIG, Mode, Saver
from benchmarks.scripted import FreeModel, add
from benchmarks.stopwatch import Stopwatches
from benchmarks.watched import watched
from benchmarks.watchers import ShowsTooLittle, Watcher, watched_runs, watchers

WAYS = contenders.there(contenders.WAYS)


def shown(factory: contenders.Factory, watcher: Watcher, saver: Saver = Saver.NONE) -> None:
    """Run in view of a watcher, which raises if it sees something else than it should."""
    setting = Setting(watcher.mode, saver, number=2, turns=3, writing=watcher.writing)
    with watched_runs({"it": (factory, setting)}, watcher) as found:
        for _ in range(2):
            found["it"].timed(now)


@pytest.mark.long
@pytest.mark.parametrize("watcher", watchers(), ids=lambda watcher: watcher.name)
@each("way", WAYS, ids=lambda way: way.name or "default")
@each("saver", [Saver.NONE, Saver.MEMORY])
def test_every_watcher_sees_every_step(
    watcher: Watcher, way: contenders.Transition, saver: Saver
) -> None:
    shown(contenders.ours(way), watcher, saver)


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


def test_a_watched_row_is_ours_over_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = contenders.ours()
    for module in ("contenders", "watched"):
        monkeypatch.setattr(f"benchmarks.{module}.has_peer", lambda: True)
    monkeypatch.setattr(contenders, "peer", lambda: replace(ours, name=contenders.PEER))
    rows = list(watched(FULL))
    assert len({row.name for row in rows}) == len(rows) == 2 * len(watchers())
    judged = {pair.of for row in rows for pair in row.pairs if pair.goal}
    assert judged == {contenders.OURS}
    assert {pair.over for row in rows for pair in row.pairs} == {contenders.PEER}
    goals = {(row.name, pair.goal) for row in rows for pair in row.pairs if pair.goal != "watched"}
    assert goals - {(name, None) for name, _ in goals} == {
        (f"{way}, {saver}", goal)
        for way, goal in (
            ("invoke with a tracer", "traced"),
            ("ainvoke with a tracer", "traced"),
            ("astream_events v2", "events"),
        )
        for saver in ("no saver", "memory")
    }


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


def test_a_part_that_runs_inside_another_is_taken_off_it() -> None:
    assert WITHIN.keys() | set(WITHIN.values()) <= HOW.keys()
    for part in WITHIN:
        seen = {part}
        while part in WITHIN:
            part = WITHIN[part]
            assert part not in seen
            seen.add(part)


def test_a_turn_takes_the_steps_that_it_is_charged_for() -> None:
    from benchmarks.floor import _steps_of_a_turn as steps

    assert steps(contenders.by_hand(), 0, Saver.NONE) == 2
    assert steps(contenders.ours(), 2, Saver.NONE) == 0
    assert steps(contenders.ours(), 2, Saver.MEMORY) == 2
    hook_by_hook = contenders.Transition("", {"fused": False})
    assert steps(contenders.ours(hook_by_hook), 2, Saver.NONE) == 2 + 2 * 2
    assert steps(contenders.ours(hook_by_hook), 2, Saver.MEMORY) == 2 + 2 * 2


@pytest.mark.long
def test_the_tables_of_the_floor_have_a_row_for_each_turn_and_part(floors: list[Figure]) -> None:
    turns = turns_table(floors).splitlines()
    assert turns[0] == "| CPU (wall-clock) ms | no saver | memory |"
    assert [line.split(" | ")[0] for line in turns[2:]] == [f"| {name}" for name in TURNS]
    parts = parts_table(floors).splitlines()
    head = "ours, no saver | by hand, no saver | ours, memory | by hand, memory"
    assert parts[0] == f"| CPU ms a turn | {head} | how |"
    assert [line.split(" | ")[0] for line in parts[2:]] == [f"| {n}" for n in (*HOW, "all of it")]
    rows = [[float(cell or 0) for cell in line.split(" | ")[1:5]] for line in parts[2:]]
    rounded = [
        pytest.approx(sum(column), abs=0.01 * len(HOW)) for column in zip(*rows[:-1], strict=True)
    ]
    assert rows[-1] == rounded
    assert all(rows[-1])


def row(name: str, of: str, cpu: float, goal: str | None = "watched") -> Figure:
    value = Interval(9, 9, 9)
    return Figure(
        "watched", name, of, "langchain", "ms", value, Interval(cpu, cpu, cpu), [1, 1], 3, goal
    )


def drawn(*figures: Figure) -> Any:
    """The elements of the picture by class, and its texts."""
    root = ET.fromstring(plot(Report("2026-11-23", {"langchain": "1.4.7"}, figures)))
    kinds: dict[str, list[Any]] = {}
    for element in root.iter():
        kinds.setdefault(element.get("class", ""), []).append(element)
    return kinds, [element.text for element in root.iter() if element.tag.endswith("}text")]


def test_a_picture_shows_the_default_over_the_peer() -> None:
    kinds, texts = drawn(
        row("invoke, no saver", "agent_factory", 0.125),
        row("invoke, no saver", "agent_factory fused", 0.11, None),
        row('stream "values", no saver', "agent_factory", 1.5),
        row("invoke, memory", "agent_factory", 0.25),
    )
    fast, slow = kinds["bar"], kinds["slow"]
    assert [float(bar.get("width")) for bar in fast] == [25, 50], "langchain's 1.00 is at 200"
    assert [float(bar.get("width")) for bar in slow] == [250], "a bar is cut off"
    assert len(kinds["goal"]) == 3
    kinds, _ = drawn(row("invoke, memory", "agent_factory", 0.25, goal=None))
    assert "bar" not in kinds, "what has no goal has not reached it"
    assert {"0.12", "1.50", "0.25", 'stream "values"', "no saver", "memory saver"} <= set(texts)
    assert "0.11" not in texts


def test_a_picture_needs_figures() -> None:
    with pytest.raises(ValueError, match="must have figures of the group 'watched'"):
        plot(report([]))
