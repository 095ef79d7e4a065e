"""The comparison with other libraries: who takes part, what is counted, what is written of it."""

from __future__ import annotations

import asyncio
import math
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tables import each

sys.path.append(str(Path(__file__).resolve().parent.parent))  # benchmarks/ is never installed

from benchmarks import contenders, peer_kills, peer_waits, peers
from benchmarks.contenders import BY_HAND, HOOKS, OURS, PEER, PLAIN
from benchmarks.efforts import FULL
from benchmarks.harness import Absent, Contender, Figure, Interval, Pair, Tally, now
from benchmarks.others import AGNO, OPENAI_AGENTS, PYDANTIC_AI, libraries
from benchmarks.peer_kills import ANSWERED, CALLS, LOST, ONCE, REPEATED, end_of
from benchmarks.peers_page import losses, rows_of, tables
from benchmarks.peers_plot import peers_plot
from benchmarks.report import Report, report
from benchmarks.runs import QUESTION, Setting, built, until_done
from benchmarks.savers import CONFIG, Mode, Saver
from benchmarks.scripted import FreeModel, add

PRESENT = [each for each in peers.entrants().values() if not isinstance(each, Absent)]
"""Those that are installed here."""

by_name = pytest.mark.parametrize("factory", PRESENT, ids=lambda each: each.name)

SMALL = replace(FULL, runs=1, builds=1, turns=2, waiting=2, kills=1, servers=False)


# Who takes part


def test_a_library_that_is_missing_is_in_each_row_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    monkeypatch.setattr(peers, "has_peer", lambda: False)
    entrants = peers.entrants()
    assert list(entrants) == [OURS, PEER, BY_HAND, PYDANTIC_AI, OPENAI_AGENTS, AGNO]
    missing = [name for name, each in entrants.items() if isinstance(each, Absent)]
    assert missing == [PEER, PYDANTIC_AI, OPENAI_AGENTS, AGNO]
    (work,) = (each for each in peers.peers(SMALL) if each.name == "building an agent")
    reasons = {each.of: each.reason for each in work.figures() if each.over is None}
    assert reasons[OURS] is None
    assert reasons[AGNO] == "agno: not installed"


def test_what_cannot_be_counted_is_a_reason_and_never_called() -> None:
    items: dict[str, Callable[[], dict[str, float]] | Absent] = {
        "a": lambda: {"kB": 3.0},
        "b": Absent("has no store"),
    }
    pairs = [Pair("a", None, unit="kB"), Pair("b", None, unit="kB"), Pair("b", "a", unit="kB")]
    alone, absent, ratio = Tally("group", "name", items, pairs).figures()
    assert (alone.value.middle, alone.reason) == (3, None)
    assert (absent.reason, absent.sides) == ("b: has no store", [])
    assert (ratio.reason, ratio.sides) == ("b: has no store", [3.0])
    assert math.isnan(ratio.value.middle)


def test_rows_are_the_same_whatever_is_measured_of_them() -> None:
    names = [work.name for work in peers.peers(SMALL)]
    assert len(names) == len({*names}) == len(peers.TURNS) + 4 + len(peer_kills.SCENES)
    for work in peers.peers(SMALL):
        assert {pair.of for pair in work.pairs} >= {*peers.NAMES}


# Turns


@by_name
def test_a_thread_that_is_kept_goes_on_with_one_more_answer(factory: contenders.Factory) -> None:
    calls: list[int] = []

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        calls.append(a)
        return a + b

    for saver in (Saver.MEMORY, Saver.SQLITE):
        if str(saver) in factory.lacks:
            continue
        calls.clear()
        with asyncio.Runner() as runner, factory.opened(saver, Mode.ASYNC, runner) as kept:
            agent = factory.create_agent(FreeModel(turns=2), [add], checkpointer=kept.saver)
            for _ in range(2):
                until_done(runner, agent.ainvoke({"messages": [QUESTION]}, CONFIG))
            assert calls == [0, 1], "the second run finds the turns of the first"
            kept.forget()
            until_done(runner, agent.ainvoke({"messages": [QUESTION]}, CONFIG))
        assert calls == [0, 1, 0, 1], "a thread that is forgotten begins again"


@by_name
@each("view", [peers.STREAMED, peers.TRACED])
def test_a_run_that_is_watched_shows_answers_and_results(
    factory: contenders.Factory, view: str
) -> None:
    if view in factory.lacks:
        assert not hasattr(factory.create_agent, view)
        return
    with asyncio.Runner() as runner, ExitStack() as stack:
        agent, _ = built((factory, Setting(Mode.ASYNC, turns=3)), runner, stack)
        watch = peers.watched(agent, view)
        shown = until_done(runner, watch({"messages": [QUESTION]}, CONFIG))
        assert len(shown) >= 7


def test_a_run_that_shows_too_little_is_not_comparable() -> None:
    turn = peers.Turn("a turn, streamed", peers.STREAMED)
    peers._seen([None] * 7, turn, 3)
    with pytest.raises(RuntimeError, match="at least 7 parts, got 6"):
        peers._seen([None] * 6, turn, 3)


def test_hooks_by_hand_are_nodes_before_and_after_the_model(call: Callable[..., Any]) -> None:
    factory = contenders.by_hand()
    members = factory.middleware(HOOKS, 2)
    agent = factory.create_agent(FreeModel(turns=1), [add], middleware=members)
    nodes = [node for part in agent.stream({"messages": [QUESTION]}) for node in part]
    turn = ["before 0", "before 1", "model", "after 0", "after 1"]
    assert nodes == [*turn, "tools", *turn]
    done = call(agent, {"messages": [QUESTION]})["messages"]
    assert [isinstance(each, AIMessage) for each in done] == [False, True, False, True]


@by_name
def test_middleware_change_nothing_but_the_time(factory: contenders.Factory) -> None:
    turn = peers.Turn("a turn, 2 middleware", number=2)
    with asyncio.Runner() as runner, ExitStack() as stack:
        contender = peers._turn(factory, turn, 2, runner, stack)
        assert isinstance(contender, Contender)
        assert contender.timed(now).wall > 0


# Threads that wait


@by_name
def test_a_thread_that_waits_for_a_person_is_weighed(factory: contenders.Factory) -> None:
    weight = peer_waits.bytes_at_the_person(factory, 3)[peer_waits.BYTES]
    assert 0.5 < weight < 1_000


# Kills

CALL, RESULT, ANSWER = ["call", "1"], ["result", "1"], ["answer", ""]
EACH = {"0 0": 1, "0 1": 1, "0 2": 1}


@each(
    "messages, is_answered, is_valid",
    [
        ([["question", ""], CALL, RESULT, ANSWER], True, True),
        ([CALL, RESULT], False, False),
        ([CALL, ANSWER], True, False),
        ([CALL, RESULT, RESULT, ANSWER], True, False),
        ([CALL, CALL, RESULT, RESULT, ANSWER], True, False),
        ([], False, False),
    ],
)
def test_a_history_is_valid_if_each_call_has_one_result_and_an_answer_ends_it(
    messages: list[list[str]], is_answered: bool, is_valid: bool
) -> None:
    assert end_of(messages, EACH) == (is_answered, is_valid, 0, 0)


def test_effects_are_counted_by_their_calls() -> None:
    end = end_of([CALL, RESULT, ANSWER], {"0 0": 3, "0 1": 1})
    assert (end.repeated, end.lost) == (2, CALLS - 2)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scene", peer_kills.SCENES, ids=lambda scene: scene.name)
def test_a_killed_run_of_ours_loses_nothing_and_a_record_repeats_nothing(
    scene: peer_kills.Scene,
) -> None:
    found = peer_kills.outcomes(scene, OURS, 1)
    assert (found[LOST], found[ANSWERED]) == (0, 100)
    if scene.recorded:
        assert (found[REPEATED], found[ONCE]) == (0, 100)
    else:
        assert found[REPEATED] >= 1, "the call that was killed has had its effect"


def test_only_what_is_stored_can_be_resumed() -> None:
    everyone = {each.name: each for each in (contenders.ours(), *libraries())}
    plain, _, recorded = peer_kills.kills(SMALL, everyone)
    assert {name: isinstance(each, Absent) for name, each in plain.items.items()} == {
        OURS: False,
        PYDANTIC_AI: True,
        OPENAI_AGENTS: False,
        AGNO: False,
    }
    assert recorded.items[AGNO] == Absent(peer_kills.NO_RECORD)


# Tables, sentences and the picture


def amount(of: str, value: float, over: str | None = None, **other: Any) -> Figure:
    interval = Interval(value, value, value)
    parts = {"group": "peers", "name": "a turn", "unit": "ms a turn", "cpu": interval} | other
    return Figure(
        **parts, of=of, over=over, value=Interval(9, 9, 9), sides=[1], rounds=3, goal=None
    )


def exact(found: Figure, value: float) -> Figure:
    return replace(found, value=Interval(value, value, value))


def compared(*ratios: tuple[str, float, float], ours: float = 2.0) -> list[Figure]:
    """A row: each other with the middle and the high end of its ratio to ours."""
    found = [amount(OURS, ours)]
    for name, middle, high in ratios:
        found.append(amount(name, ours * middle))
        found.append(amount(name, middle, OURS, cpu=Interval(middle, middle, high)))
    return found


def counted(of: str, once: float, repeated: float, lost: float = 0, answered: float = 100) -> Any:
    values = {ONCE: once, REPEATED: repeated, LOST: lost, ANSWERED: answered}
    return [
        exact(amount(of, 1, name="killed", unit=unit, cpu=None), value)
        for unit, value in values.items()
    ]


def cells(figures: list[Figure]) -> list[str]:
    return tables(report(figures)).splitlines()[-1].strip("| ").split(" | ")


def test_the_best_of_a_row_is_bold_and_what_is_missing_says_so() -> None:
    absent = replace(amount(AGNO, 1), reason="agno: not installed")
    row = [*compared((PEER, 1.5, 1.6), (PYDANTIC_AI, 0.5, 0.6)), absent]
    head = tables(report(row)).splitlines()[0]
    assert head.startswith(f"|  | **{OURS}** | {PEER} | {BY_HAND} |")
    assert " | ".join(cells(row)) == (
        "a turn, ms | 2 | 3 (1.50) | not measured | **1 (0.50)** | not measured | not installed"
    )


def test_losses_are_written_from_figures_that_are_better_beyond_noise() -> None:
    row = compared((PEER, 1.5, 1.6), (PYDANTIC_AI, 0.5, 0.6), (AGNO, 0.9, 1.1), (PLAIN, 0.1, 0.1))
    assert losses(report(row)) == f"- **{PYDANTIC_AI}**: a turn (0.50)."
    assert losses(report(compared((PEER, 1.5, 1.6)))) == (
        "No other is better in any row, beyond noise."
    )


def test_after_kills_more_good_ends_are_better_and_then_fewer_repeats() -> None:
    row = counted(OURS, 50, 0.5) + counted(PEER, 50, 0.25, 1, 75) + counted(AGNO, 0, 0)
    assert cells(row)[1:4] == [
        "50 %, 0.5 repeated",
        "**50 %, 0.25 repeated, 1 lost, 25 % without an answer**",
        "not measured",
    ]
    assert losses(report(row)).startswith(f"- **{PEER}**: killed (50 %, 0.25 repeated")
    (one,) = rows_of(report(row))
    assert one.best([OURS, PEER, AGNO]) == [PEER]


def test_servers_have_a_table_to_themselves_and_are_compared_with_ours() -> None:
    mine, also, other = "agent-factory serve, Postgres", "agent-factory serve, SQLite", "aegra"
    times = {"name": "runs of a server", "unit": "ms a run", "cpu": None}
    alone = [exact(amount(n, 1, **times), v) for n, v in ((mine, 8), (also, 4), (other, 6))]
    over = [exact(amount(n, 1, mine, **times), v) for n, v in ((also, 0.5), (other, 0.75))]
    found = report([*compared((PEER, 1.5, 1.6)), *alone, *over])
    assert tables(found).count("\n|---|") == 2
    assert cells(list(found.figures))[1:] == ["8", "**4 (0.50)**", "6 (0.75)"]
    assert losses(found) == "- **aegra**: runs of a server (0.75)."


def test_a_bar_is_as_long_as_an_amount_and_the_best_is_green() -> None:
    row = [*compared((PEER, 2.0, 2.0)), replace(amount(AGNO, 1), reason="agno: has none")]
    root = ET.fromstring(peers_plot(Report("2026-01-01", {"agno": "3"}, row, cores=2)))
    bars = {
        each.get("class"): float(each.get("width", "")) for each in root.iter() if each.get("rx")
    }
    assert bars["slow"] == pytest.approx(2 * bars["bar"])
    texts = [each.text for each in root.iter() if each.tag.endswith("}text")]
    assert {"has none", "agno 3", "a turn, ms"} <= {*texts}
    assert "on 2 cores" in " ".join(filter(None, texts))
