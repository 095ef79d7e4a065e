"""Databases of older and newer versions: refused by name, upgraded, used by old and new workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_factory.service import DatabaseVersionError, Service
from agent_factory.service.database import Database
from agent_factory.service.migrations import MIGRATIONS
from service.old_databases import COMMITS, NEWEST, SCHEMAS, load_postgres, load_sqlite, shape
from service.schemas import traffic

Until = Callable[..., None]
WAIT = 30.0
VERSION = MIGRATIONS[-1].version

ON_POSTGRES = sorted(path.name.partition(".")[0] for path in SCHEMAS.glob("*.postgres.sql"))


@pytest.fixture(
    params=[
        *COMMITS,
        *(pytest.param(f"{commit} postgres", marks=pytest.mark.long) for commit in ON_POSTGRES),
    ]
)
def old_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The database of each older version in turn, with traffic in it."""
    commit, _, kind = request.param.partition(" ")
    if not kind:
        return load_sqlite(commit, tmp_path / "old.db")
    return load_postgres(commit, request.getfixturevalue("postgres_url"))


@pytest.fixture
def asks_again(request: pytest.FixtureRequest) -> bool:
    """True if the version named calls without the digest of the tool: such decisions are void."""
    commit = request.node.callspec.params["old_url"].partition(" ")[0]
    return commit not in ("e60b0f32", "a46c400a", NEWEST)


@pytest.fixture
def old_service(old_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service with the agents of that traffic; the run that was cut short can end now."""
    traffic.never.set()
    service = Service(old_url)
    for name in ("desk", "new"):
        service.add(name, traffic.desk())
    yield service
    service.close()


def contents(service: Service, thread: str) -> list[str]:
    """The contents of the messages of a thread."""
    messages = service.state(thread, tenant="acme").values.get("messages", ())
    return [str(message.content) for message in messages]


def test_an_older_database_is_refused_by_name(old_url: str) -> None:
    with closing(Service(old_url)) as service:
        for use in (
            service.start,
            service.threads,
            service.inbox().waits,
            service.reindex().__next__,
        ):
            with pytest.raises(DatabaseVersionError) as error:
                use()
    shown = old_url.replace("postgresql://", "postgresql://")
    assert str(error.value) == (
        f"[AF374] the database {shown}: has version 0, this version of agent-factory needs "
        f"{VERSION}. Run agent-factory upgrade {shown}."
    )
    assert error.value.version == 0


def test_an_upgraded_database_has_the_tables_of_a_new_one(
    old_url: str, url_of_its_kind: str
) -> None:
    old, new = Database(old_url), Database(url_of_its_kind)
    old.upgrade()
    with old.begin() as connection:
        upgraded = shape(connection)
    with new.begin() as connection:
        created = shape(connection)
    old.close()
    new.close()
    # The first commits had columns more, which may be null.
    left = {key: kind for key, kind in upgraded.items() if key not in created}
    assert all(kind[1] for kind in left.values() if isinstance(kind, tuple)), left
    assert {key: upgraded.get(key) for key in created} == created


@pytest.fixture
def url_of_its_kind(old_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of the same kind."""
    if old_url.startswith("sqlite"):
        return f"sqlite:///{tmp_path}/new.db"
    from service.databases import new_postgres

    return new_postgres(request.getfixturevalue("postgres_server"))


def test_an_upgraded_service_goes_on_where_the_old_one_was(
    old_service: Service, asks_again: bool, until: Until
) -> None:
    service = old_service
    assert [*service.upgrade().steps] == [step.version for step in MIGRATIONS]
    [*service.reindex()]
    review, held = (service.inbox("acme").waits(thread=name)[0] for name in ("review", "held"))
    assert review.args == {"euros": 12}
    assert review.claimed_by == (None if asks_again else "ann")
    service.start(dead_after=1.0)
    for wait in (review, held):
        service.decide(wait.id, "approve", by="ann", tenant="acme")
    if asks_again:
        until(lambda: service.inbox("acme").waits(thread="decided"), WAIT)
        (wait,) = service.inbox("acme").waits(thread="decided")
        service.decide(wait.id, "approve", by="ann", tenant="acme")

    def left() -> list[str]:
        return [thread.id for thread in service.threads() if thread.status != "idle"]

    until(lambda: left() in ([], ["later"]), WAIT)
    threads = {thread.id: contents(service, thread.id) for thread in service.threads()}
    assert threads["done"] == ["Hello", "Done: Hello"]
    for thread, euros in (("paid", 10), ("review", 12), ("decided", 13), ("held", 14)):
        paid = [f"Pay {euros}", "", f"Paid {euros}.", f"Done: Pay {euros}"]
        assert threads[thread][:4] == paid
    assert threads["held"][4:] == ["Thanks", "Done: Thanks"]
    assert threads["running"] == ["Block", "Done: Block", "After", "Done: After"]
    assert threads["queued"] == ["First", "Done: First", "Second", "Done: Second"]
    assert threads.get("passed", ["Hello"])[0] == "Hello"
    if "later" in threads:
        assert threads["later"] == []
        assert service.thread("later").status == "queued"


def test_an_upgrade_keeps_what_is_no_job(old_service: Service, old_commit: str) -> None:
    service = old_service
    service.upgrade()
    assert service.verify_audit().startswith("4:")
    entries = [(entry.who, entry.what, entry.thread_id) for entry in service.inbox().audit()]
    assert (
        entries
        == [
            ("ann", "approve", "decided"),
            ("ann", "claim", "review"),
            ("ann", "approve", "paid"),
        ][: len(entries)]
    )
    (run,) = service.runs("done")
    assert run.status == "done"
