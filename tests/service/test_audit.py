"""The audit: chains of hashes, in which no entry can be changed unnoticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sqlalchemy import Connection, Insert, delete, insert, select, text, update
from sqlalchemy.exc import DatabaseError

from agent_factory.errors import ArgumentError
from agent_factory.service import AuditTampered, DatabaseUnavailable, Service
from agent_factory.service.audit import NO_ENTRY, entry_hash, verify_entries
from agent_factory.service.backend import Backend
from agent_factory.service.database import Database
from agent_factory.service.tables import audit
from service.desk import Journal, make_desk, waiting
from service.stored import Tables
from tables import each

ROWS: list[Any] = [
    SimpleNamespace(tenant="acme", thread_id="t-1", wait_id=None),
    SimpleNamespace(tenant="", thread_id="t-2", wait_id="w-1"),
]
EMPTY = f"0:{'0' * 64}"


def record(backend: Backend, number: int, who: str = "ann") -> None:
    for position in range(number):
        with backend.database.begin() as connection:
            backend.queue.record(connection, ROWS[position % 2], who, "claim", {"euros": position})


def allow_changes(connection: Connection) -> None:
    """Remove the triggers, as somebody can who owns the tables."""
    if connection.dialect.name == "sqlite":
        for name in ("service_audit_update", "service_audit_delete"):
            connection.execute(text(f"drop trigger if exists {name}"))
    else:
        connection.execute(text("drop trigger service_audit_refuse on service_audit"))


def entries(database: Database) -> list[Any]:
    return Tables(database).rows(select(audit).order_by(audit.c.id))


def test_the_head_is_that_of_the_newest_entry_and_entries_are_read_part_by_part(
    service: Service, backend: Backend
) -> None:
    assert service.verify_audit() == EMPTY
    record(backend, 3)
    inbox = service.inbox()
    first, *_, last = inbox.audit()[::-1]
    assert (first.number, last.number) == (1, 3)
    head = service.verify_audit()
    for known in (None, head, EMPTY):
        assert service.verify_audit(head=known) == head
    record(backend, 2)
    record(backend, 1, who="bob")
    assert service.verify_audit(head=head).startswith("6:")
    newest = inbox.audit(who="ann", limit=2)
    assert [entry.number for entry in newest] == [5, 4]
    rest = inbox.audit(who="ann", before=newest[-1].number)
    assert [entry.number for entry in rest] == [3, 2, 1]
    assert [entry.number for entry in inbox.audit(who="bob")] == [6]
    assert inbox.audit(who="ann", before=1) == []


@each("head", ["", "x", "3", "3:abc", f"-1:{'0' * 64}", f"x:{'0' * 64}"])
def test_what_is_not_a_head(sqlite_url: str, head: str) -> None:
    with pytest.raises(ArgumentError, match="must be the number of an entry and a hash"):
        Service(sqlite_url).verify_audit(head=head)


REWRITES: list[Any] = [
    update(audit).values(who="bob"),
    delete(audit),
    insert(audit).prefix_with("OR REPLACE", dialect="sqlite"),
]


@pytest.mark.parametrize("statement", REWRITES)
def test_the_database_refuses_changes(backend: Backend, statement: Any) -> None:
    record(backend, 1)
    if isinstance(statement, Insert):  # in the place of an entry
        (row,) = entries(backend.database)
        statement = statement.values({**row._mapping, "who": "bob"})
    with pytest.raises(DatabaseError, match=r"service_audit is append-only|duplicate key"):
        Tables(backend.database).write(statement)
    assert entries(backend.database)[0].who == "ann"


def rewrite(connection: Connection) -> None:
    """Change an entry, and write all hashes again."""
    connection.execute(update(audit).where(audit.c.id == 2).values(who="bob"))
    chains: dict[str, str] = {}
    for row in connection.execute(select(audit).order_by(audit.c.id)).all():
        entry = {**row._mapping}
        del entry["hash"]
        chains[row.thread_id] = entry_hash(chains.get(row.thread_id, NO_ENTRY), entry)
        change(connection, row.id, ("hash", chains[row.thread_id]))


TAMPERED: dict[str, tuple[Callable[[Connection], object], int | None, int | None, int]] = {
    "changed": (lambda c: change(c, 2, ("who", "bob")), 2, 2, 2),
    "moved to another thread": (lambda c: change(c, 3, ("thread_id", "t-2")), 3, 3, 3),
    "swapped": (lambda c: reorder(c, [3, 2, 1, 4, 5, 6], False), 1, 1, 1),
    "inserted": (lambda c: add(c, 6, 5, None), 6, 6, 6),
    "another number": (lambda c: change(c, 6, ("id", 9)), 9, 6, 6),
    "removed from the middle": (lambda c: remove(c, {3}, False), 5, 3, 5),
    "the newest of a thread": (lambda c: remove(c, {5}, False), None, 5, 6),
    "a thread": (lambda c: remove(c, {1, 3, 5}, False), None, 1, 6),
    "the newest": (lambda c: remove(c, {5, 6}, False), None, None, 6),
    "all": (lambda c: remove(c, {*range(1, 7)}, False), None, None, 6),
    "all hashes": (rewrite, None, None, 6),
}
"""Changes of six entries; the entries that are found in Postgres, SQLite, and with a head."""


@pytest.mark.parametrize("kind", TAMPERED)
def test_tampering_is_found_and_without_a_head_as_far_as_the_chains_show_it(
    service: Service, backend: Backend, kind: str
) -> None:
    record(backend, 6)
    head = service.verify_audit()
    tamper, postgres, sqlite, with_head = TAMPERED[kind]
    is_sqlite = backend.database.is_sqlite
    with backend.database.begin() as connection:
        allow_changes(connection)
        tamper(connection)
    alone = sqlite if is_sqlite else postgres
    if alone is None:
        assert service.verify_audit() != head
    for known, number in ((None, alone), (head, alone if is_sqlite and alone else with_head)):
        if number is not None:
            with pytest.raises(AuditTampered, match=rf"entry {number} of the audit") as found:
                service.verify_audit(head=known)
            assert found.value.number == number


def test_writers_at_once_do_not_fork_a_chain(service: Service, url: str) -> None:
    """Each thread has its own connections, as another process has."""
    service.workers()  # creates the tables

    def write(_: int) -> None:
        with closing(Backend(Database(url, connections=1))) as backend:
            record(backend, 4)
            with suppress(ZeroDivisionError), backend.database.begin() as connection:
                backend.queue.record(connection, ROWS[0], "ann", "claim")
                raise ZeroDivisionError
            record(backend, 4)

    with ThreadPoolExecutor(6) as pool:
        assert [*pool.map(write, range(6))] == [None] * 6
    service.verify_audit()
    assert len(service.inbox().audit()) == 48


@contextmanager
def entry_under_way(url: str) -> Iterator[None]:
    """An entry about the first thread, in a transaction of another process that stays open."""
    with closing(Backend(Database(url))) as backend, backend.database.begin() as connection:
        backend.queue.record(connection, ROWS[0], "bob", "claim")
        yield


def test_an_open_transaction_holds_up_no_decision_about_another_thread(
    postgres_url: str, tmp_path: Path
) -> None:
    # Without the limit, a decision that waits would wait for the end of the test.
    with Service(f"{postgres_url}&options=-c%20lock_timeout%3D20s") as service:
        service.add("desk", make_desk(Journal(tmp_path / "journal"), review=True, calls=1))
        wait = waiting(service, "t-2")
        with entry_under_way(postgres_url):
            service.decide(wait.id, "approve", by="ann").result(60)
            assert [entry.who for entry in service.inbox().audit()] == ["ann"]


def test_a_head_waits_for_smaller_numbers_and_pages_notice_them(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Backend(Database(postgres_url))) as backend, Service(postgres_url) as service:
        with ThreadPoolExecutor() as pool, entry_under_way(postgres_url):
            with backend.database.begin() as connection:
                backend.queue.record(connection, ROWS[1], "ann", "claim")
            with monkeypatch.context() as patch:
                patch.setattr("agent_factory.service.audit.LONGEST_WAIT", 0.0)
                with pytest.raises(DatabaseUnavailable, match="that does not end"):
                    service.verify_audit()
            early, verified = service.threads.pulse(), pool.submit(service.verify_audit)
        head = verified.result()
        assert head.startswith("2:")
        assert service.threads.pulse() != early
        record(backend, 2)
        assert service.verify_audit(head=head).startswith("4:")


@pytest.mark.long
def test_a_role_that_may_only_add(postgres_url: str) -> None:
    """As docs/service/security.md recommends."""
    owned = Service(postgres_url)
    owned.workers()  # creates the tables
    owned.close()
    role = f"desk_{uuid4().hex[:8]}"
    owner = Database(postgres_url)
    with owner.begin() as connection:
        for statement in (
            "create role {} login",
            "grant usage, create on schema public to {}",
            "grant select, insert, update, delete on all tables in schema public to {}",
            "grant usage on all sequences in schema public to {}",
            "revoke update, delete on service_audit from {}",
        ):
            connection.execute(text(statement.format(role)))
    owner.close()
    url = postgres_url.replace("//postgres:@", f"//{role}:@")
    service = Service(url)
    service.threads.create("t-1")
    service.threads.delete("t-1", by="ann")
    assert service.verify_audit().startswith("1:")
    service.close()
    database = Database(url)
    for statement in (
        "update service_audit set who = 'bob'",
        "delete from service_audit",
        "truncate service_audit",
        "drop trigger service_audit_refuse on service_audit",
        "alter table service_audit disable trigger all",
    ):
        with pytest.raises(DatabaseError, match=r"permission denied|must be owner"):
            database.write(text(statement))
    database.close()


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Ten entries in a database without triggers, whose changes a test undoes."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('audit')}/a.db")
    backend = Backend(database)
    record(backend, 10)
    with database.begin() as connection:
        allow_changes(connection)
    yield database
    backend.close()


IDS = st.integers(1, 10)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-(2**40), 2**40).filter(lambda number: not 1 <= number <= 10),
    "at": st.floats(allow_nan=False),
    "wait_id": WORDS | st.none(),
    "detail": WORDS | st.none() | st.sampled_from(['{"euros":1}', '{"euros": 1.0}', "null"]),
    "hash": st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
}
CHANGES = st.sampled_from(audit.c.keys()).flatmap(
    lambda column: st.tuples(st.just(column), VALUES.get(column, WORDS))
)


def change(connection: Connection, number: int, value: tuple[str, Any]) -> None:
    connection.execute(update(audit).where(audit.c.id == number).values(dict([value])))


def remove(connection: Connection, numbers: set[int], renumber: bool) -> None:
    """The newest entry is another test: without a head, nobody can miss it."""
    connection.execute(delete(audit).where(audit.c.id.in_(numbers)))
    if renumber:
        kept = connection.execute(select(audit.c.id).order_by(audit.c.id)).scalars().all()
        for position, number in enumerate(kept, 1):
            change(connection, number, ("id", position))


def reorder(connection: Connection, order: list[int], hashes_stay: bool) -> None:
    rows = [{**row._mapping} for row in connection.execute(select(audit).order_by(audit.c.id))]
    hashes = [row["hash"] for row in rows]
    for row, number in zip(rows, order, strict=True):
        row["id"] = number
        if hashes_stay:
            row["hash"] = hashes[number - 1]
    connection.execute(delete(audit))
    connection.execute(insert(audit), rows)


def add(connection: Connection, place: int, like: int, digest: str | None) -> None:
    found = select(audit).where(audit.c.id == like)
    new = {**connection.execute(found).one()._mapping, "id": place}
    for number in range(10, place - 1, -1):
        change(connection, number, ("id", number + 1))
    connection.execute(insert(audit).values({**new, "hash": digest or new["hash"]}))


@pytest.mark.law
@each(
    "tamper, arguments",
    [
        (change, st.tuples(IDS, CHANGES)),
        (remove, st.tuples(st.sets(st.integers(1, 9), min_size=1), st.booleans())),
        (reorder, st.tuples(st.permutations(range(1, 11)), st.booleans())),
        (add, st.tuples(st.integers(0, 11), IDS, VALUES["hash"] | st.none())),
    ],
)
def test_any_change_is_found(
    chain: Database, tamper: Callable[..., None], arguments: st.SearchStrategy[tuple[Any, ...]]
) -> None:
    """A change of the table, which is undone then, with or without a head."""
    head, original = verify_entries(chain, None), entries(chain)

    @given(arguments)
    def law(drawn: tuple[Any, ...]) -> None:
        with chain.begin() as connection:
            tamper(connection, *drawn)
        try:
            assume(entries(chain) != original)
            for known in (None, head):
                with pytest.raises(AuditTampered):
                    verify_entries(chain, known)
        finally:
            rows = [{**row._mapping} for row in original]
            Tables(chain).write(delete(audit), insert(audit).values(rows))

    law()
