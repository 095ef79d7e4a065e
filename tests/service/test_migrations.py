"""Databases of older and newer versions: refused by name, upgraded, used by old and new workers."""

from __future__ import annotations

import json
import pickle
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from sqlalchemy import Connection, create_engine, inspect, make_url, text
from sqlalchemy.exc import DBAPIError
from starlette.testclient import TestClient

from agent_factory.serve import create_app
from agent_factory.service import DatabaseVersionError, Pace, Service, ServiceError
from agent_factory.service.database import Database
from agent_factory.service.message_serializer import dump
from agent_factory.service.migrations import MIGRATIONS, Migration, Report
from agent_factory.service.migrations import upgrade as upgrade_module
from agent_factory.service.migrations.dbos import pending_jobs, stored_schedules
from commands import run
from processes import Processes, exit_code
from service import next_version
from service.conftest import KINDS
from service.databases import new_postgres
from service.desk import check_history
from service.old_databases import COMMITS, NEWEST, SCHEMAS, load_postgres, load_sqlite, shape
from service.schemas import traffic
from service.stored import Tables
from service.worker_process import WorkerProcess
from tables import each
from waiting import until

WAIT = 60.0
VERSION = MIGRATIONS[-1].version
TESTS = Path(__file__).parent.parent

ON_POSTGRES = sorted(path.name.partition(".")[0] for path in SCHEMAS.glob("*.postgres.sql"))


def old_database(request: pytest.FixtureRequest, commit: str, kind: str) -> str:
    """The URL of a copy of the database that a commit has left."""
    if kind == "sqlite":
        return load_sqlite(commit, request.getfixturevalue("tmp_path") / "old.db")
    return load_postgres(commit, request.getfixturevalue("postgres_url"))


@pytest.fixture(
    params=[
        *(f"{commit} sqlite" for commit in COMMITS),
        *(pytest.param(f"{commit} postgres", marks=pytest.mark.long) for commit in ON_POSTGRES),
    ]
)
def old_url(request: pytest.FixtureRequest) -> str:
    """The database of each older version in turn, with traffic in it."""
    return old_database(request, *request.param.split())


@pytest.fixture(params=KINDS)
def last_url(request: pytest.FixtureRequest) -> str:
    """The database of the last version without a number, of each kind."""
    return old_database(request, NEWEST, request.param)


def empty_url(url: str, request: pytest.FixtureRequest) -> str:
    """The URL of an empty database of the same kind."""
    if url.startswith("sqlite"):
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/new.db"
    return new_postgres(request.getfixturevalue("postgres_server"))


@pytest.fixture(autouse=True)
def end_of_the_block() -> None:
    """Let the run end that was cut short."""
    traffic.never.set()


@pytest.fixture
def old_service(old_url: str) -> Iterator[Service]:
    """A service with the agents of that traffic."""
    with closing(Service(old_url, pace=Pace(dead_after=1.0))) as service:
        for name in ("desk", "new"):
            service.add(name, traffic.desk())
        yield service


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


# Older databases


def test_an_older_database_is_refused_by_name(old_url: str) -> None:
    with closing(Service(old_url)) as service:
        reads = (service.threads.search, service.inbox().waits, service.reindex().__next__)
        for use in (service.start, *reads):
            with pytest.raises(DatabaseVersionError) as error:
                use()
    shown = make_url(old_url).render_as_string()  # without the password
    assert str(error.value) == (
        f"[AF374] the database {shown}: has version 0, this version of agent-factory needs "
        f"{VERSION}. Run agent-factory upgrade {shown}."
    )
    assert error.value.version == 0


def test_an_upgraded_database_has_the_tables_of_a_new_one_and_all_rows(
    old_url: str, request: pytest.FixtureRequest
) -> None:
    tables = ("runs", "threads", "waits", "audit", "limits", "effects")

    def rows(connection: Connection) -> dict[str, list[dict[str, Any]]]:
        queries = {table: text(f"select * from service_{table} order by 1") for table in tables}
        return {
            table: [dict(row) for row in connection.execute(query).mappings()]
            for table, query in queries.items()
        }

    with closing(Database(old_url)) as database:
        with database.engine.connect() as connection:
            before = rows(connection)
        database.upgrade()
        with database.begin() as connection:
            after, upgraded = rows(connection), shape(connection)
    with closing(Database(empty_url(old_url, request))) as database, database.begin() as connection:
        created = shape(connection)
    # The first commits had columns more, which may be null.
    left = {key: kind for key, kind in upgraded.items() if key not in created}
    assert all(isinstance(kind, tuple) and kind[1] for kind in left.values()), left
    assert {key: upgraded.get(key) for key in created} == created
    changed = {"status", "job", "run", "owner", "epoch", "id"}
    for table in tables:
        assert len(after[table]) == len(before[table])
        for old, new in zip(before[table], after[table], strict=True):
            for name in old.keys() - changed:
                assert new.get(name) == old[name], (table, name)


@pytest.mark.long
@pytest.mark.parametrize("version", [3, 5])
def test_background_jobs_of_workers_of_earlier_versions_are_kept_and_reported(
    url: str, tables: Tables, version: int
) -> None:
    """The workers write the row as they did, also when the table has the new columns."""
    old = "INSERT INTO service_background_jobs (id, thread_id, run, worker, lost) VALUES "
    lost = dump(HumanMessage("A job is lost.", name="background"))

    def begin(job: str) -> None:
        values = {"id": f"t/{job}", "run": sent.id, "lost": lost}
        tables.write(text(f"{old} (:id, 't', :run, 'dead', :lost)").bindparams(**values))

    with closing(Service(url)) as service:
        service.add("desk", traffic.desk())
        service.start()
        sent = service.submit("desk", thread="t", message="Hello")
        sent.result(WAIT)
        service.stop()
        with tables.database.begin() as connection:
            created = shape(connection)
            columns = {3: ("call", "attempt", "deadline", "handovers"), 5: ("handovers",)}
            for column in columns[version]:
                table = "ALTER TABLE service_background_jobs"
                connection.execute(text(f"{table} DROP COLUMN {column}"))
            connection.execute(text(f"UPDATE service_schema SET version = {version}"))
        begin("1")
    with closing(Service(url)) as service:
        service.add("desk", traffic.desk())
        assert [*service.upgrade().steps] == [step.version for step in MIGRATIONS[version:]]
        with tables.database.begin() as connection:
            assert shape(connection) == created
        begin("2")
        service.start()
        # A job leaves the table as its message makes the thread busy, so the table comes first.
        jobs = text("SELECT id FROM service_background_jobs")
        until(lambda: not tables.rows(jobs) and service.threads.get("t").status == "idle")
        messages = service.threads.state("t").values["messages"]
        texts = [message.text for message in messages if message.name == "background"]
        assert texts == ["A job is lost."] * 2


def test_an_upgraded_service_goes_on_where_the_old_one_was(old_service: Service) -> None:
    service = old_service
    assert [*service.upgrade().steps] == [step.version for step in MIGRATIONS]
    [*service.reindex()]
    reviews = [(wait.thread_id, wait.args) for wait in service.inbox("acme").waits()]
    assert sorted(reviews) == [("held", {"euros": 14}), ("review", {"euros": 12})]
    service.start()

    def has_ended() -> bool:
        # Versions before standing approvals named a call otherwise: its decision is asked again.
        for wait in service.inbox("acme").waits():
            service.decide(wait.id, "approve", by="ann", tenant="acme")
        left = [thread.id for thread in service.threads.search() if thread.status != "idle"]
        return left in ([], ["later"])

    until(has_ended)
    contents = {
        thread.id: [
            str(message.content)
            for message in service.threads.state(thread.id).values.get("messages", ())
        ]
        for thread in service.threads.search()
    }
    if "later" in contents:
        assert contents.pop("later") == []
    else:  # the first versions had no delays
        assert contents.pop("now") == ["Later", "Done: Later"]
    if "passed" in contents:
        assert contents.pop("passed") == ["Hello", "Done: Hello"]
    assert contents == {
        "done": ["Hello", "Done: Hello"],
        **{
            name: [f"Pay {euros}", "", f"Paid {euros}.", f"Done: Pay {euros}"]
            for name, euros in (("paid", 10), ("review", 12), ("decided", 13))
        },
        "held": ["Pay 14", "", "Paid 14.", "Done: Pay 14", "Thanks", "Done: Thanks"],
        "running": ["Block", "Done: Block", "After", "Done: After"],
        "queued": ["First", "Done: First", "Second", "Done: Second"],
    }


def test_a_decision_that_was_queued_is_carried_out_and_not_asked_again(last_url: str) -> None:
    with closing(Service(last_url, pace=Pace(dead_after=1.0))) as service:
        service.add("desk", traffic.desk())
        service.upgrade()
        service.start()
        until(lambda: service.threads.get("decided").status == "idle")
        assert [entry.what for entry in service.inbox().audit(thread="decided")] == ["approve"]
        messages = service.threads.state("decided").values["messages"]
        assert [message.text for message in messages][-2:] == ["Paid 13.", "Done: Pay 13"]


def test_the_audit_the_store_and_schedules_are_there(old_service: Service, old_url: str) -> None:
    service = old_service
    service.upgrade()
    engine = create_engine(old_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        has_items = connection.execute(text("select count(*) from store")).scalar_one()
        now = connection.execute(text("select max(at) from service_schema")).scalar_one()
    engine.dispose()
    whats = [(entry.what, entry.thread_id) for entry in service.inbox().audit()]
    assert whats == [("approve", "decided"), ("claim", "review"), ("approve", "paid")]
    assert service.verify_audit().startswith("3:")
    if has_items:
        item = service.store("acme").get(("users", "ann"), "likes")
        assert item is not None
        assert item.value == {"food": "pizza"}
    (schedule,) = service.schedules()
    assert (schedule.name, schedule.cron, schedule.timezone) == (
        "nightly", "0 3 * * *", "Europe/Berlin",
    )  # fmt: skip
    assert schedule.message == {
        "agent": "desk", "message": "Good night", "thread": "nightly", "tenant": "acme",
    }  # fmt: skip
    assert now < schedule.due < now + 25 * 3600


# DBOS


def prefix(connection: Connection) -> str:
    return "dbos." if connection.dialect.name == "postgresql" else ""


def add_workflow(connection: Connection, id: str, name: str, status: str = "ENQUEUED") -> None:
    """Add a row to the table of DBOS, as a process of an older version does."""
    columns = "(workflow_uuid, name, status, created_at, updated_at, priority)"
    table, values = f"{prefix(connection)}workflow_status", "(:id, :name, :status, 1, 1, 0)"
    insert = text(f"insert into {table} {columns} values {values}")
    connection.execute(insert, {"id": id, "name": name, "status": status})


def test_a_time_of_a_schedule_that_nobody_has_carried_out_is_carried_out(last_url: str) -> None:
    schedule_job = "agent_factory.run_schedule"
    with closing(Database(last_url)) as database:
        with database.engine.begin() as connection:
            for day in ("2026-11-20", "2026-11-19"):
                add_workflow(connection, f"sched-nightly-{day}T03:00:00+01:00~2", schedule_job)
            add_workflow(connection, "sched-nightly-x-2026-11-18T03:00:00+01:00", schedule_job)
            add_workflow(
                connection, "sched-nightly-2026-11-01T03:00:00+01:00", schedule_job, "SUCCESS"
            )
            (schedule,) = stored_schedules(connection)
        assert schedule.due is not None
        assert schedule.due.isoformat() == "2026-11-19T03:00:00+01:00"
        database.upgrade()
        due = Tables(database).value(text("select due from service_schedules"))
        assert due == schedule.due.timestamp()


def test_only_other_applications_submit_to_dbos_after_the_upgrade(last_url: str) -> None:
    """Their jobs stay, and an older process of ours gets an error."""
    with closing(Database(last_url)) as database:
        with database.engine.begin() as connection:
            add_workflow(connection, "theirs", "shop.bill")
        database.upgrade()
        for name in ("agent_factory.run_job", "agent_factory.run_schedule"):
            with (
                pytest.raises(DBAPIError, match="newer than this process: update and restart it"),
                database.engine.begin() as connection,
            ):
                add_workflow(connection, "late", name)
        with database.engine.begin() as connection:
            add_workflow(connection, "theirs-2", "shop.bill")
            left = connection.execute(
                text(
                    f"select workflow_uuid from {prefix(connection)}workflow_status "
                    "where status in ('ENQUEUED', 'PENDING', 'DELAYED') order by 1"
                )
            )
            assert [*left.scalars()] == ["theirs", "theirs-2"]


def test_a_pickle_that_names_a_class_is_refused(last_url: str) -> None:
    evil = b64encode(pickle.dumps({"args": (Path("x"),), "kwargs": {}})).decode()
    with closing(Database(last_url)) as database:
        with database.engine.begin() as connection:
            update = text(f"update {prefix(connection)}workflow_input set inputs = :evil")
            connection.execute(update, {"evil": evil})
        with (
            pytest.raises(pickle.UnpicklingError, match="is not a part of a job"),
            database.engine.connect() as connection,
        ):
            [*pending_jobs(connection)]


# The upgrade itself


def test_an_upgrade_run_twice_or_by_two_at_once_takes_each_step_once(last_url: str) -> None:
    databases = [Database(last_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert len([*pool.map(Database.upgrade, databases)]) == 4
    taken = [(step.version, step.oldest) for step in MIGRATIONS]
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


@pytest.mark.parametrize("detail", [None, "{}", f'{{"tables": {VERSION}}}'])
def test_workers_that_would_fail_are_waited_for(
    url: str, next_step: Callable[..., Migration], detail: str | None
) -> None:
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
        MIGRATIONS.remove(step)
        step = next_step(oldest=VERSION)
        if detail == f'{{"tables": {VERSION}}}':  # it works with the new tables
            assert [*database.upgrade().steps] == [step.version]
            return
        with database.begin() as connection:  # it was killed some time ago
            connection.execute(alive, {"now": now - 60})
        assert [*database.upgrade().steps] == [step.version]


@pytest.mark.long
def test_a_step_does_not_hold_up_others_while_a_table_is_locked(
    postgres_url: str, next_step: Callable[..., Migration], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a backup, which reads the tables for long."""
    monkeypatch.setattr(upgrade_module, "_LOCK_TIMEOUT", "200ms")
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
) -> None:
    messages: dict[str, list[str]] = {f"t-{number}": [] for number in range(6)}
    service.add("desk", traffic.desk())

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
STEPS = [{"version": step.version, "title": step.title} for step in MIGRATIONS]
SERVICE = """from agent_factory.service import Service

service = Service("sqlite:///{path}")
"""


@pytest.fixture
def old_file(tmp_path: Path) -> str:
    return load_sqlite(NEWEST, tmp_path / "old.db")


@pytest.fixture(params=["url", "service"])
def target(request: pytest.FixtureRequest, old_file: str, tmp_path: Path) -> str:
    """Each way to name a service."""
    if request.param == "url":
        return old_file
    file = tmp_path / "shop_upgrade.py"
    file.write_text(SERVICE.format(path=tmp_path / "old.db"))
    return f"{file}:service"


def version(url: str) -> int | None:
    with closing(Database(url)) as database:
        return database.pending_upgrade().before


def test_the_steps_are_shown_and_taken_once(target: str, old_file: str) -> None:
    steps = [f"  {step.version}  {step.title}." for step in MIGRATIONS]
    shown = run("upgrade", target, "--dry-run")
    first = f"The database has version 0, {VERSION} is needed:"
    assert (shown.exit_code, shown.stdout.splitlines()) == (1, [first, *steps])
    assert version(old_file) == 0
    done = run("upgrade", target)
    last = f"The database has version {VERSION} now."
    assert (done.exit_code, done.stdout.splitlines()) == (0, [first, *steps, last])
    assert version(old_file) == VERSION
    for options in ((), ("--dry-run",)):
        again = run("upgrade", target, *options)
        nothing = f"The database has version {VERSION}: there is nothing to do.\n"
        assert (again.exit_code, again.stdout) == (0, nothing)


def test_json_has_the_same_keys_each_time(old_file: str) -> None:
    results = [run("upgrade", old_file, "--json", *more) for more in (["--dry-run"], [], [])]
    assert [result.exit_code for result in results] == [1, 0, 0]
    data = [json.loads(result.stdout) for result in results]
    assert data == [
        {"before": 0, "after": VERSION, "steps": STEPS, "upgraded": False},
        {"before": 0, "after": VERSION, "steps": STEPS, "upgraded": True},
        {"before": VERSION, "after": VERSION, "steps": [], "upgraded": False},
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
    file.write_text(SERVICE.format(path=tmp_path / "old.db"))
    result = run(command, f"{file}:service")
    assert result.exit_code == 2
    assert f"has version 0, this version of agent-factory needs {VERSION}" in result.stderr
    assert f"Run agent-factory upgrade {old_file}." in " ".join(result.stderr.split())
    assert "a bug in agent-factory" not in result.stderr


def test_a_service_that_fails_at_its_import_names_the_url(old_file: str, tmp_path: Path) -> None:
    """It sets a limit: then the URL is given to `upgrade`."""
    file = tmp_path / "shop_limits.py"
    file.write_text(SERVICE.format(path=tmp_path / "old.db") + 'service.limit("acme")\n')
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
