"""Every contender can be built and run, and every group measured. No speed is asserted."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

import agent_factory
from tables import each

sys.path.append(str(Path(__file__).resolve().parent.parent))  # benchmarks/ is never installed

from benchmarks import batteries, contenders, harness, runs
from benchmarks.contenders import Transition
from benchmarks.efforts import FULL, GOALS_ONLY, HEADLINE, SHORT, Effort, Thread
from benchmarks.goals import GOALS
from benchmarks.groups import GROUPS
from benchmarks.latency import check
from benchmarks.others import others
from benchmarks.savers import CONFIG, Mode, Saver
from benchmarks.scripted import FreeModel, Gate, add, history, new_functions, wordy_add

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
    *("crowd", "few", "floor", "latency", "pages", "peers", "reading", "service", "watched")
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


def test_a_way_takes_part_as_soon_as_the_library_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_agent(model: Any, tools: Any, *, swift: Any = False, keep: Any = None) -> Any:
        return swift, keep

    monkeypatch.setattr(agent_factory, "create_agent", create_agent)
    transitions = [
        Transition("as before", {"steady": False}, judged=False),
        Transition("swift", {"swift": True}),
        Transition("thin", {"swift": True, "keep": "little"}),
        Transition("absent", {"steady": True}),
    ]
    found = contenders.there(transitions)
    assert [way.name for way in found] == ["as before", "swift", "thin"]
    built = [contenders.ours(way).create_agent("model", []) for way in found]
    assert built == [(False, None), (True, None), (True, "little")]
    assert contenders.judged(transitions) == found[1:]
    assert contenders.judged(transitions[:1]) == []


def test_goals_are_judged_without_an_argument() -> None:
    assert contenders.judged() == [contenders.DEFAULT]
    assert not contenders.DEFAULT.options
    assert contenders.ours().name == contenders.OURS
    assert not contenders.ours().create_agent.keywords  # type: ignore[attr-defined]  # a partial


@each("effort", [HEADLINE, GOALS_ONLY])
def test_without_more_effort_the_default_stands_alone(effort: Effort) -> None:
    assert effort.transitions() == [contenders.DEFAULT]
    assert effort.transitions(contenders.FULL_CHECKPOINTS) == []


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


def test_the_self_check_is_made_sync_and_async() -> None:
    figures = [found for work in check(TINY) for found in work.figures()]
    assert [found.name for found in figures] == ["itself, sync", "itself, async"]


@each("effort", [FULL, HEADLINE, GOALS_ONLY])
def test_a_growth_needs_agents_with_none(effort: Effort) -> None:
    assert effort.numbers[0] == 0
    assert 16 in effort.numbers


@each("mode", Mode)
@each("saver", Saver)
def test_a_run_leaves_no_thread_behind(mode: Mode, saver: Saver) -> None:
    kept: list[Any] = []

    def create_agent(*args: Any, checkpointer: Any, **kwargs: Any) -> Any:
        kept.append(checkpointer)
        return contenders.ours().create_agent(*args, checkpointer=checkpointer, **kwargs)

    factory = replace(contenders.ours(), create_agent=create_agent)
    with runs.runs({"a": (factory, runs.Setting(mode, saver, turns=1))}) as found:
        assert found["a"].timed(harness.now).wall > 0
        if mode is Mode.SYNC and kept[0] is not None:
            assert list(kept[0].list(None)) == []


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


def test_functions_are_new_to_a_factory_only_once() -> None:
    one, other = new_functions(1), new_functions(1)
    assert one[0] is not other[0]
    assert one[0].__name__ == other[0].__name__ == "tool_0"


def test_what_waits_does_so_until_all_have_come() -> None:
    async def come() -> list[bool]:
        gate = Gate(2)
        tasks = [asyncio.ensure_future(gate.wait()) for _ in range(2)]
        await gate.full.wait()
        waiting = [task.done() for task in tasks]
        gate.open.set()
        await asyncio.gather(*tasks)
        return waiting

    assert asyncio.run(come()) == [False, False]
