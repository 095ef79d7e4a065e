"""Servers and databases that benchmarks measure: what is missing is said. No speed is asserted."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import create_engine, text

sys.path.append(str(Path(__file__).resolve().parent.parent))  # benchmarks/ is never installed

from benchmarks import databases, report, servers
from benchmarks.goals import GOALS
from benchmarks.harness import Absent, Contender, Figure, Match, Pair, Timed
from benchmarks.servers import Unavailable, environment
from benchmarks.service_crowd import Crowd
from waiting import auntil


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


# Servers


def test_packages_that_cannot_be_installed_are_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        failed = "pip" in command
        return subprocess.CompletedProcess(
            command, int(failed), "", "Looking\nNo matching | version\n"
        )

    monkeypatch.setattr(servers, "ROOT", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(Unavailable, match="cannot be installed: No matching   version"):
        environment("peer", ["peer==1"])


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        (tmp_path / ".venv-bench-peer").mkdir(exist_ok=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(servers, "ROOT", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    for requirements in (["peer==1"], ["peer==1"], ["peer==2"]):
        python = environment("peer", requirements)
        assert python.is_relative_to(tmp_path / ".venv-bench-peer")
    assert [command[-1] for command in commands if "pip" in command] == ["peer==1", "peer==2"]


def test_a_server_that_ends_at_once_is_a_reason(tmp_path: Path) -> None:
    code = "raise SystemExit('\\x1b[31mNo database.\\x1b[0m')"
    start = servers._running([sys.executable, "-c", code], tmp_path, "/ok", {})
    with pytest.raises(Unavailable, match=r"did not start: +No database\."), start:
        pytest.fail("it has ended")


def test_aegra_without_postgres_is_a_reason(tmp_path: Path) -> None:
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


# Databases


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
