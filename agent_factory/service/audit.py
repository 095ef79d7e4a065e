"""Audit: actions of people, as chains of hashes that show changes of entries.

Each thread has a chain: the hash of an entry covers the entry and the hash of the thread's entry
before. Numbers rise over all threads. The head, the newest number and a hash over all entries in
the order of their numbers, stands for all chains.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from sqlalchemy import Connection, Row, Sequence, func, insert, select, text

from agent_factory.errors import ArgumentError
from agent_factory.service.database import Database
from agent_factory.service.errors import AuditTampered, DatabaseUnavailable
from agent_factory.service.rows import read_row
from agent_factory.service.tables import audit

NO_ENTRY = "0" * 64
"""Hash before the first entry of a thread."""

_CHAINS = 0x5EC1CF  # the upper half of their advisory locks; `number_of` has another one
# Transactions that have added an entry, or are about to.
_WRITERS = text(f"""SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND classid = {_CHAINS} AND database =
    (SELECT oid FROM pg_database WHERE datname = current_database())""")
LONGEST_WAIT = 30.0
"""Seconds for which a verification waits for a transaction with an entry."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Action of a person.

    Args:
        at: The time, in seconds since 1970, by the database's clock.
        tenant: The tenant.
        thread_id: The thread.
        wait_id: The wait, for an action about a wait.
        who: A person, or "deadline".
        what: "claim", "release", "approve", "edit", "reject", "respond", "escalate", "withdraw",
            "cancel", "steer", "write", "copy", "delete", "delete run", "undo", "stranded" or
            "refused".
        detail: Details. For a decision: the complete `decision`, its `call`, the call that `runs`
            (None without a call), and the interface (`via`).
        number: The number in the audit of the service, which rises, maybe with gaps.
        hash: The hash of the entry and of the hash before in the thread.
    """

    at: float
    tenant: str
    thread_id: str
    wait_id: str | None
    who: str
    what: str
    detail: Any
    number: int
    hash: str

    @classmethod
    def of(cls, row: Row[Any]) -> AuditEntry:
        """The entry of a row."""
        return read_row(cls, row, number=row.id, detail=json.loads(row.detail or "null"))


def entry_hash(before: str, entry: Mapping[str, object]) -> str:
    """SHA-256 of an entry and of the hash before, as canonical JSON in hexadecimal digits."""
    # SQLite stores values of any type in a column, and a change of the type is a change.
    text = json.dumps(
        {**entry, "before": before},
        sort_keys=True,
        separators=(",", ":"),
        default=lambda value: [type(value).__name__, repr(value)],
    )
    return hashlib.sha256(text.encode()).hexdigest()


def append_entry(
    database: Database, connection: Connection, row: Row[Any], who: str, what: str, detail: object
) -> None:
    """Add an entry about the row of a thread, a wait or an approval, alone for the thread."""
    # An approval has the thread of its decision, which may be deleted, or of another tenant by now.
    thread = getattr(row, "given_in", None) or row.thread_id
    of_thread = select(audit.c.hash).where(audit.c.thread_id == thread)
    newest = of_thread.order_by(audit.c.id.desc()).limit(1).scalar_subquery()
    number: Any = select(func.coalesce(func.max(audit.c.id), 0) + 1).scalar_subquery()
    if not database.is_sqlite:  # in SQLite, one transaction writes at a time
        lock = func.pg_advisory_xact_lock(_CHAINS << 32 | crc32(thread.encode()))
        connection.execute(select(lock))
        number = Sequence("service_audit_id_seq").next_value()
    # In another statement: the statement of the lock does not see commits during its wait, and
    # `_newest_number` needs the lock before the number.
    before, id_, now = connection.execute(select(newest, number, database.now)).one()
    entry = {
        "tenant": row.tenant,
        "thread_id": thread,
        "wait_id": getattr(row, "wait_id", None),
        "who": who,
        "what": what,
        "detail": None if detail is None else json.dumps(detail, default=str),
        "id": id_,
        "at": now,
    }
    connection.execute(insert(audit).values(**entry, hash=entry_hash(before or NO_ENTRY, entry)))


def verify_entries(database: Database, head: str | None) -> str:
    """Check each chain, entry by entry, and return the head, as `Operations.verify_audit`."""
    known, known_root = -1, ""
    if head is not None:
        # Bounded, since `int` raises ValueError for more than 4,300 digits.
        match = re.fullmatch(r"(\d{1,18}):([0-9a-f]{64})", head)
        if match is None:
            reason = f"must be the number of an entry and a hash, got {head!r}."
            raise ArgumentError("head", reason, "Pass what verify_audit() has returned.")
        known, known_root = int(match[1]), match[2]
    number, root, chains, newest = 0, NO_ENTRY, dict[str, str](), _newest_number(database)
    with database.read() as connection:
        for row in _entries(connection, newest):
            # In Postgres, a transaction that was undone leaves a gap.
            expected = number + 1 if database.is_sqlite else known
            if number < expected < row.id:
                raise AuditTampered(expected, "is missing.")
            entry = {**row._mapping}
            stored_hash = entry.pop("hash")
            digest = entry_hash(chains.get(row.thread_id, NO_ENTRY), entry)
            if stored_hash != digest:
                reason = "was changed, or is not the next one of its thread: its hash does not fit."
                raise AuditTampered(row.id, reason, row.thread_id)
            number, chains[row.thread_id] = row.id, digest
            root = hashlib.sha256(f"{root}{digest}".encode()).hexdigest()
            if number == known and root != known_root:
                reason = "or one before it was removed, inserted or rewritten, hashes included."
                raise AuditTampered(number, reason)
    if number < known:
        raise AuditTampered(known, f"is missing, and all after entry {number}.")
    return f"{number}:{root}"


def _newest_number(database: Database) -> int:
    """The newest number, once no open transaction has a smaller one."""
    number: int = database.values(select(func.coalesce(func.max(audit.c.id), 0)))[0]
    if database.is_sqlite:
        return number
    writers = {*database.values(_WRITERS)}

    def wait() -> None:
        if not writers.isdisjoint(database.values(_WRITERS)):
            reason = "has an entry of a transaction that does not end."
            raise DatabaseUnavailable("the audit", reason, "Look into pg_stat_activity.")

    database.retried(wait, seconds=LONGEST_WAIT)
    return number


def _entries(connection: Connection, newest: int) -> Iterator[Row[Any]]:
    # A page at a time, since the audit only grows. A cursor would need a transaction.
    page = select(audit).where(audit.c.id <= newest).order_by(audit.c.id).limit(1000)
    rows = connection.execute(page).all()
    while rows:
        yield from rows
        rows = connection.execute(page.where(audit.c.id > rows[-1].id)).all()
