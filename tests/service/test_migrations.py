"""Databases of older and newer versions: refused by name, upgraded, used by old and new workers."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from sqlalchemy import Connection, event, inspect, make_url, text
from sqlalchemy.exc import DBAPIError
from starlette.testclient import TestClient

from agent_factory.serve import create_app
from agent_factory.service import DatabaseVersionError, Service, ServiceError, migrations
from agent_factory.service.database import Database
from agent_factory.service.migrations import MIGRATIONS, Migration, Report
from commands import run
from processes import Processes, exit_code
from service import next_version
from service.databases import new_postgres
from service.desk import Journal, check_history, make_desk
from service.worker_process import WorkerProcess
from tables import each
from waiting import until

WAIT = 60.0
VERSION = MIGRATIONS[-1].version
NEXT = VERSION + 1
TESTS = Path(__file__).parent.parent
SCHEMAS = Path(__file__).parent / "schemas"


def shape(connection: Connection) -> dict[tuple[str, str], object]:
    """The columns, indexes and keys of the tables of the service."""
    inspector = inspect(connection)
    parts: dict[tuple[str, str], object] = {}
    for table in inspector.get_table_names():
        if not table.startswith("service_"):
            continue
        for column in inspector.get_columns(table):
            kind = (str(column["type"]), column["nullable"])
            parts[table, f"column {column['name']}"] = kind
        for index in inspector.get_indexes(table):
            options = {name: str(text) for name, text in index.get("dialect_options", {}).items()}
            value = (index["column_names"], index["unique"], options)
            parts[table, f"index {index['name']}"] = value
        for unique in inspector.get_unique_constraints(table):
            parts[table, f"unique {unique['column_names']}"] = True
        parts[table, "key"] = inspector.get_pk_constraint(table)["constrained_columns"]
    return parts


def statements(database: Database) -> list[str]:
    """The statements that create the tables of the service in an empty database."""
    created: list[str] = []

    def keep(_: object, __: object, statement: str, *___: object) -> None:
        if statement.strip().startswith("CREATE"):
            created.append(re.sub(r"\s+", " ", statement).strip())

    event.listen(database.engine, "before_cursor_execute", keep)
    database.set_up()
    event.remove(database.engine, "before_cursor_execute", keep)
    return created


@pytest.fixture
def next_step(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Migration]]:
    """Adds a step after the newest one, as the next version has it; until the test ends."""
    before = [*MIGRATIONS]

    def add(
        migrate: Callable[[Connection, Report], None] | None = None, oldest: int = VERSION
    ) -> Migration:
        step = next_version.migration(oldest)
        if migrate is not None:
            step = Migration(step.version, oldest, step.title, migrate)
        MIGRATIONS.append(step)
        return step

    yield add
    MIGRATIONS[:] = before


def versions(database: Database) -> list[tuple[int, int]]:
    """The steps that a database has noted."""
    with database.engine.connect() as session:
        rows = session.execute(text("select version, oldest from service_schema order by version"))
        return [(row.version, row.oldest) for row in rows]


# Released versions


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_the_tables_of_each_version_become_those_of_this_one(
    url: str, version: int, request: pytest.FixtureRequest
) -> None:
    """A change of a table needs a step, and a file of its version: schemas/README.md."""
    kind = make_url(url).get_backend_name()
    file = SCHEMAS / f"version_{version}.{kind}.sql"
    with closing(Database(url)) as database:
        created = statements(database)
        with database.read() as connection:
            new = shape(connection)
    if version == VERSION and "UPDATE_SCHEMAS" in os.environ:
        row = f"INSERT INTO service_schema VALUES ({version}, {MIGRATIONS[-1].oldest}, 0)"
        file.write_text(";\n".join([*created, row]) + ";\n")
    if kind == "sqlite":
        old_url = f"sqlite:///{request.getfixturevalue('tmp_path')}/old.db"
        with closing(sqlite3.connect(make_url(old_url).database or "")) as connection:
            connection.executescript(file.read_text())
    else:
        old_url = new_postgres(request.getfixturevalue("postgres_server"))
        with psycopg.connect(old_url, autocommit=True) as connection:
            connection.execute(file.read_bytes())
    with closing(Database(old_url)) as database:
        database.upgrade()
        with database.read() as connection:
            assert shape(connection) == new


def test_an_older_database_is_refused_by_name(
    url: str, next_step: Callable[..., Migration]
) -> None:
    with closing(Database(url)) as database:
        database.set_up()
    next_step()
    with closing(Service(url)) as service:
        reads = (service.threads.search, service.inbox().waits, service.reindex().__next__)
        for use in (service.start, *reads):
            with pytest.raises(DatabaseVersionError) as error:
                use()
    shown = make_url(url).render_as_string()  # without the password
    assert str(error.value) == (
        f"[AF374] the database {shown}: has version {VERSION}, this version of agent-factory needs "
        f"{VERSION + 1}. Run agent-factory upgrade {shown}."
    )
    assert error.value.version == VERSION


def test_tables_without_a_version_are_refused(url: str) -> None:
    """Only development versions made them."""
    with closing(Database(url)) as database:
        database.write(text("DROP TABLE service_schema"))
        with (
            closing(Database(url)) as other,
            pytest.raises(DatabaseVersionError, match="version 0"),
        ):
            other.set_up()
        with pytest.raises(ServiceError, match="before the first release"):
            database.upgrade()


# The upgrade itself


def test_an_upgrade_run_twice_or_by_two_at_once_takes_each_step_once(
    url: str, next_step: Callable[..., Migration]
) -> None:
    databases = [Database(url) for _ in range(4)]
    databases[0].set_up()
    next_step()
    with ThreadPoolExecutor(4) as pool:
        assert len([*pool.map(Database.upgrade, databases)]) == 4
    taken = [(step.version, step.oldest) for step in MIGRATIONS[-2:]]
    assert versions(databases[0]) == taken
    assert databases[0].upgrade().steps == {}
    assert versions(databases[0]) == taken
    for database in databases:
        database.close()


def test_a_step_that_fails_leaves_nothing(url: str, next_step: Callable[..., Migration]) -> None:
    with closing(Database(url)) as first:
        first.set_up()

    def fail(connection: Connection, report: Report) -> None:
        connection.execute(text("ALTER TABLE service_threads ADD COLUMN note VARCHAR"))
        connection.execute(text("UPDATE service_threads SET nothing = 1"))

    with closing(Database(url)) as database:
        next_step(fail)
        with pytest.raises(DBAPIError):
            database.upgrade()
        assert versions(database)[-1] == (VERSION, MIGRATIONS[-2].oldest)
        columns = inspect(database.engine).get_columns("service_threads")
        assert "note" not in [column["name"] for column in columns]
        MIGRATIONS.pop()
        step = next_step()
        assert database.upgrade().steps == {step.version: step.title}
        assert versions(database)[-1] == (VERSION + 1, VERSION)


@pytest.mark.parametrize("oldest", [VERSION, VERSION + 1])
def test_a_newer_database_is_used_if_its_step_says_so(
    url: str, next_step: Callable[..., Migration], oldest: int
) -> None:
    next_step(oldest=oldest)
    with closing(Database(url)) as database:
        database.set_up()
    MIGRATIONS.pop()
    with closing(Service(url)) as service:
        if oldest == VERSION:
            assert service.threads.search() == []
            assert service.upgrade().steps == {}
            return
        for use in (service.threads.search, service.upgrade, service.start):
            with pytest.raises(DatabaseVersionError) as error:
                use()
    assert f"has version {oldest}, which works with version {oldest} or newer" in str(error.value)
    assert f"this version of agent-factory has {VERSION}. Install" in str(error.value)


@pytest.mark.parametrize("has_died", [True, False])
def test_workers_that_would_fail_are_waited_for(
    url: str, next_step: Callable[..., Migration], has_died: bool
) -> None:
    detail = f'{{"tables": {VERSION}}}'
    with closing(Database(url)) as database:
        with database.begin() as connection:
            connection.execute(
                text("insert into service_workers values ('w-1', 0, :draining, :detail)"),
                {"draining": False, "detail": detail},
            )
            now = connection.execute(text("select max(at) from service_schema")).scalar_one()
            alive = text("update service_workers set beat = :now")
            connection.execute(alive, {"now": now})
        step = next_step(oldest=VERSION + 1)
        text_of_step = rf"before step {VERSION + 1} \(Add notes to threads\).*w-1\. Run"
        with pytest.raises(ServiceError, match=text_of_step):
            database.upgrade()
        assert versions(database)[-1][0] == VERSION
        if has_died:
            with database.begin() as connection:
                connection.execute(alive, {"now": now - 60})
        else:  # it works with the new tables
            MIGRATIONS.remove(step)
            step = next_step(oldest=VERSION)
        assert [*database.upgrade().steps] == [step.version]


@pytest.mark.long
def test_a_step_does_not_hold_up_others_while_a_table_is_locked(
    postgres_url: str, next_step: Callable[..., Migration], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a backup, which reads the tables for long."""
    monkeypatch.setattr(migrations, "_LOCK_TIMEOUT", "200ms")
    with closing(Database(postgres_url)) as database:
        database.set_up()
        next_step()
        upgrade = Thread(target=database.upgrade)
        with database.engine.begin() as backup:
            backup.execute(text("select * from service_threads"))
            upgrade.start()
            waiting = text("select count(*) from pg_locks where not granted")
            with database.read() as connection:
                until(lambda: connection.execute(waiting).scalar_one())
            with database.engine.begin() as connection:  # while the backup goes on
                connection.execute(text("set local statement_timeout = '20s'"))
                connection.execute(text("select * from service_threads"))
            assert versions(database)[-1][0] == VERSION
        upgrade.join()
        assert versions(database)[-1][0] == VERSION + 1


# Rolling updates


@pytest.mark.long
@pytest.mark.timeout(600)  # it starts four processes, one after the other
def test_old_and_new_workers_work_side_by_side_while_the_database_is_upgraded(
    url: str,
    service: Service,
    database: Database,
    processes: Processes,
    start_worker: Callable[..., WorkerProcess],
    tmp_path: Path,
) -> None:
    messages: dict[str, list[str]] = {f"t-{number}": [] for number in range(6)}
    service.add("desk", make_desk(Journal(tmp_path / "journal")))

    def submit(turns: int) -> None:
        for _ in range(turns):
            for thread, ids in messages.items():
                ids.append(f"{thread}-{len(ids)}")
                service.submit("desk", thread=thread, message="Pay.", message_id=ids[-1])

    submit(1)
    old = start_worker(url)
    submit(2)
    command = [sys.executable, "-m", "service.next_version", "upgrade", url]
    upgrade = processes.start(command, cwd=TESTS)
    submit(2)
    assert exit_code(upgrade) == 0
    with start_worker(url, module=("service.next_version", "work")):
        submit(2)
        old.kill()
        submit(1)
        # An old one that starts again accepts the newer tables.
        with start_worker(url):
            submit(2)
            for thread in messages:
                service.threads.runs(thread)[0].result(WAIT)
            assert {worker["tables"] for worker in service.workers()} == {VERSION, VERSION + 1}
    for thread, ids in messages.items():
        check_history(service.threads.state(thread).values["messages"], ids)
    assert versions(database)[-1] == (VERSION + 1, VERSION)


# The command, and others on a database of another version


LOCAL = ("127.0.0.1", 50000)
SERVICE = """from agent_factory.service import Service

service = Service("sqlite:///{path}")
"""


@pytest.fixture
def old_file(sqlite_url: str, next_step: Callable[..., Migration]) -> str:
    """A database of this version, for the code of the next one."""
    with closing(Database(sqlite_url)) as database:
        database.set_up()
    next_step()
    return sqlite_url


@pytest.fixture(params=["url", "service"])
def target(request: pytest.FixtureRequest, old_file: str, tmp_path: Path) -> str:
    """Each way to name a service."""
    if request.param == "url":
        return old_file
    file = tmp_path / "shop_upgrade.py"
    file.write_text(SERVICE.format(path=tmp_path / "service.db"))
    return f"{file}:service"


def version(url: str) -> int | None:
    with closing(Database(url)) as database:
        return database.pending_upgrade().before


def test_the_steps_are_shown_and_taken_once(target: str, old_file: str) -> None:
    steps = [f"  {NEXT}  Add notes to threads."]
    shown = run("upgrade", target, "--dry-run")
    first = f"The database has version {VERSION}, {NEXT} is needed:"
    assert (shown.exit_code, shown.stdout.splitlines()) == (1, [first, *steps])
    assert version(old_file) == VERSION
    done = run("upgrade", target)
    last = f"The database has version {NEXT} now."
    assert (done.exit_code, done.stdout.splitlines()) == (0, [first, *steps, last])
    assert version(old_file) == NEXT
    for options in ((), ("--dry-run",)):
        again = run("upgrade", target, *options)
        nothing = f"The database has version {NEXT}: there is nothing to do.\n"
        assert (again.exit_code, again.stdout) == (0, nothing)


def test_json_has_the_same_keys_each_time(old_file: str) -> None:
    results = [run("upgrade", old_file, "--json", *more) for more in (["--dry-run"], [], [])]
    assert [result.exit_code for result in results] == [1, 0, 0]
    data = [json.loads(result.stdout) for result in results]
    steps = [{"version": NEXT, "title": "Add notes to threads"}]
    assert data == [
        {"before": VERSION, "after": NEXT, "steps": steps, "upgraded": False},
        {"before": VERSION, "after": NEXT, "steps": steps, "upgraded": True},
        {"before": NEXT, "after": NEXT, "steps": [], "upgraded": False},
    ]


def test_an_empty_database_gets_its_tables(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    text = f"The database is empty: it gets the tables of version {VERSION}.\n"
    assert run("upgrade", url, "--dry-run").stdout == text
    assert version(url) is None
    assert run("upgrade", url).stdout == text
    assert version(url) == VERSION


@each("command", ["worker", "inbox", "drain", "reindex", "audit", "approvals"])
def test_other_commands_refuse_old_databases(command: str, old_file: str, tmp_path: Path) -> None:
    file = tmp_path / f"shop_{command}.py"
    file.write_text(SERVICE.format(path=tmp_path / "service.db"))
    result = run(command, f"{file}:service")
    assert result.exit_code == 2
    assert f"has version {VERSION}, this version of agent-factory needs {NEXT}" in result.stderr
    assert f"Run agent-factory upgrade {old_file}." in " ".join(result.stderr.split())
    assert "a bug in agent-factory" not in result.stderr


def test_a_service_that_fails_at_its_import_names_the_url(old_file: str, tmp_path: Path) -> None:
    """It sets a limit: then the URL is given to `upgrade`."""
    file = tmp_path / "shop_limits.py"
    file.write_text(SERVICE.format(path=tmp_path / "service.db") + 'service.limit("acme")\n')
    result = run("upgrade", f"{file}:service")
    assert result.exit_code == 2
    assert f"Run agent-factory upgrade {old_file}." in " ".join(result.stderr.split())


def test_a_server_says_that_it_is_not_available(old_file: str) -> None:
    with closing(Service(old_file)) as service:
        client = TestClient(create_app(service), base_url="http://127.0.0.1", client=LOCAL)
        with client:
            response = client.post("/threads/search", json={})
    assert response.status_code == 503
    assert "version" not in response.text  # the log has the rest, and the URL


def test_a_url_that_names_no_database_is_refused() -> None:
    result = run("upgrade", "mysql://localhost/desk")
    assert result.exit_code == 2
    assert "must be SQLite or Postgres" in result.stderr
