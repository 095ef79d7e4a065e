"""The comparison with other libraries and servers: who takes part, and what is written of it."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from sqlalchemy import create_engine, text

from tables import each

sys.path.append(str(Path(__file__).resolve().parent.parent))  # benchmarks/ is never installed

from benchmarks import (
    contenders,
    databases,
    peer_kills,
    peer_waits,
    peers,
    report,
    servers,
    temporal,
)
from benchmarks.contenders import BY_HAND, HOOKS, OURS, PEER
from benchmarks.efforts import FULL
from benchmarks.goals import GOALS
from benchmarks.harness import Absent, Contender, Figure, Match, Pair, Tally, Timed
from benchmarks.others import AGNO, NOT_INSTALLED, OPENAI_AGENTS, PLUGIN, PYDANTIC_AI, libraries
from benchmarks.peer_kills import ANSWERED, CALLS, LOST, ONCE, REPEATED, end_of
from benchmarks.runs import QUESTION, Setting, built, until_done
from benchmarks.savers import CONFIG, Mode, Saver
from benchmarks.scripted import FreeModel, add
from benchmarks.servers import Unavailable, environment
from benchmarks.service_crowd import Crowd
from waiting import auntil

PRESENT = [each for each in peers.entrants().values() if not isinstance(each, Absent)]
"""Those that are installed here."""

by_name = pytest.mark.parametrize("factory", PRESENT, ids=lambda each: each.name)

SMALL = replace(FULL, runs=1, builds=1, turns=2, waiting=2, kills=1, servers=False)


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
def test_a_thread_that_waits_for_a_person_is_weighed(factory: contenders.Factory) -> None:
    weight = peer_waits.bytes_at_the_person(factory, 3)[peer_waits.BYTES]
    assert 0.5 < weight < 1_000


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


@each("has_package", [True, False])
def test_a_plugin_without_its_package_or_a_server_is_absent(
    has_package: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(temporal, "find_spec", lambda name: has_package)
    server = tmp_path / "temporal"
    monkeypatch.setattr(temporal, "SERVER", tmp_path if not has_package else server)
    works = [*temporal.temporal(SMALL)]
    assert [work.items for work in works] == [{PLUGIN: Absent(NOT_INSTALLED)}] * 2
    if has_package:
        server.touch()
        (present,) = next(temporal.temporal(SMALL)).items.values()
        assert not isinstance(present, Absent)


def figures(*pairs: Pair, inside: bool = True) -> list[Figure]:
    @contextmanager
    def opened() -> Iterator[dict[str, Timed | Absent]]:
        yield {"a": Contender(lambda: None), "b": Absent("it cannot be installed")}

    return Match("group", "name", opened, 2, pairs, inside=inside).figures()


def test_a_row_says_why_a_contender_is_absent_and_its_goal_is_not_measured() -> None:
    present, missing, alone = figures(Pair("a", None), Pair("a", "b", "served"), Pair("b", None))
    assert present.reason is None
    assert (missing.reason, len(missing.sides)) == ("b: it cannot be installed", 1)
    assert (alone.reason, alone.sides) == ("b: it cannot be installed", [])
    row = report.table([missing]).splitlines()[-1]
    assert "| a / b | not measured: b: it cannot be installed |" in row
    assert "yes" not in row
    assert math.isnan(missing.value.middle)
    assert not report.shortfalls([missing])
    assert f"not measured: {GOALS['served'].what}" in report.unmeasured([missing])
    written = report.report([missing])
    assert report.read(written.json()).markdown() == written.markdown()


def test_the_cpu_time_of_other_processes_is_not_shown() -> None:
    (inside,), (outside,) = figures(Pair("a", None)), figures(Pair("a", None), inside=False)
    assert inside.cpu is not None
    assert outside.cpu is None


def test_an_environment_is_made_once_or_there_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        (tmp_path / ".venv-bench-peer").mkdir(exist_ok=True)
        failed = int(command[-1] == "peer==3")
        return subprocess.CompletedProcess(command, failed, "", "Looking\nNo matching | version\n")

    monkeypatch.setattr(servers, "ROOT", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    for requirements in (["peer==1"], ["peer==1"], ["peer==2"]):
        python = environment("peer", requirements)
        assert python.is_relative_to(tmp_path / ".venv-bench-peer")
    assert [command[-1] for command in commands if "pip" in command] == ["peer==1", "peer==2"]
    with pytest.raises(Unavailable, match="cannot be installed: No matching   version"):
        environment("peer", ["peer==3"])


def test_a_server_that_ends_at_once_or_lacks_its_database_is_a_reason(tmp_path: Path) -> None:
    code = "raise SystemExit('\\x1b[31mNo database.\\x1b[0m')"
    start = servers._running([sys.executable, "-c", code], tmp_path, "/ok", {})
    with pytest.raises(Unavailable, match=r"did not start: +No database\."), start:
        pytest.fail("it has ended")
    with pytest.raises(Unavailable, match="needs Postgres"), servers.aegra(None, tmp_path):
        pytest.fail("it has no database")


@pytest.mark.long
def test_postgres_without_uuid_ossp_gets_its_function() -> None:
    import psycopg

    # Not pytest's folder, which only its owner may enter: the server is another user.
    with TemporaryDirectory() as folder, databases.database(databases.Place.POSTGRES) as url:
        place = servers._new_database(url, "other", Path(folder) / "extensions")
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute('create extension if not exists "uuid-ossp"')
            (number,) = connection.execute("select uuid_generate_v4()::text").fetchone() or [""]
    assert len(number) == 36


def test_commits_of_each_connection_of_sqlite_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sqlite3", "sqlite3.dbapi2"):  # put back after the test
        monkeypatch.setattr(f"{module}.connect", sqlite3.connect)
    databases._count_commits.cache_clear()
    url = f"sqlite:///{tmp_path}/counted.db"
    before = databases.usage(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("create table numbers (number integer)"))
        connection.execute(text("insert into numbers values (1)"))
    engine.dispose()
    with closing(sqlite3.connect(tmp_path / "counted.db")) as plain:
        for number in range(3):
            with plain:
                plain.execute("insert into numbers values (?)", (number,))
    assert databases.usage(url).less(before).commits == 4
    databases._count_commits.cache_clear()


@pytest.mark.long
async def test_runs_of_a_crowd_wait_until_it_is_open() -> None:
    crowd = Crowd()
    await crowd.wait()
    crowd.is_open, crowd.present = False, 0
    tasks = [asyncio.ensure_future(crowd.wait()) for _ in range(3)]
    await auntil(lambda: crowd.lags)
    assert crowd.present == 3
    assert not any(task.done() for task in tasks)
    crowd.is_open = True
    await asyncio.gather(*tasks)
