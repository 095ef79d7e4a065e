"""Audit: actions of people, as a chain of hashes that shows any change of an entry.

Entries have numbers without gaps. The hash of an entry covers the entry and the hash of the entry
before. The head, the number and the hash of the newest entry, stands for all entries.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select

from agent_factory.errors import ArgumentError
from agent_factory.service.database import Database, number_of
from agent_factory.service.errors import AuditTampered
from agent_factory.service.rows import read_row
from agent_factory.service.tables import audit

NO_ENTRY = "0" * 64
"""Hash before the first entry."""


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
        number: The number in the audit of the service, from 1.
        hash: The hash of the entry and of the hash before.
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
    database: Database,
    connection: Connection,
    row: Row[Any],
    who: str,
    what: str,
    detail: object = None,
    thread: str | None = None,
) -> None:
    """Add an entry about the row of a thread, a wait or an approval. Other transactions wait."""
    if not database.is_sqlite:  # in SQLite, one transaction writes at a time
        lock = func.pg_advisory_xact_lock(number_of("audit"))
        connection.execute(select(lock))
    # In another statement: the statement of the lock does not see commits during its wait.
    newest = select(audit.c.id, audit.c.hash).order_by(audit.c.id.desc()).limit(1).subquery()
    # As scalar subqueries, so that an empty table gives a row too, with None for both.
    number, before, now = connection.execute(
        select(
            select(newest.c.id).scalar_subquery(),
            select(newest.c.hash).scalar_subquery(),
            database.now,
        )
    ).one()
    entry = {
        "tenant": row.tenant,
        "thread_id": thread or row.thread_id,
        "wait_id": getattr(row, "wait_id", None),
        "who": who,
        "what": what,
        "detail": None if detail is None else json.dumps(detail, default=str),
        "id": (number or 0) + 1,
        "at": now,
    }
    connection.execute(insert(audit).values(**entry, hash=entry_hash(before or NO_ENTRY, entry)))


def verify_entries(database: Database, head: str | None) -> str:
    """Check the whole chain, entry by entry, and return its head.

    Raises:
        AuditTampered: An entry was changed, removed, inserted or moved.
        ArgumentError: `head` is not the head of an audit.
    """
    head_number, head_hash = -1, ""
    if head is not None:
        # Bounded, since `int` raises ValueError for more than 4,300 digits.
        match = re.fullmatch(r"(\d{1,18}):([0-9a-f]{64})", head)
        if match is None:
            raise ArgumentError(
                "head",
                f"must be the number of an entry and its hash, got {head!r}.",
                "Pass what verify_audit() has returned.",
            )
        head_number, head_hash = int(match[1]), match[2]
    number, before = 0, NO_ENTRY
    with database.read() as connection:
        for row in _entries(connection):
            number += 1
            entry = {**row._mapping}
            stored_hash = entry.pop("hash")
            if row.id > number:
                raise AuditTampered(number, "is missing.")
            before = entry_hash(before, entry)
            if stored_hash != before:
                raise AuditTampered(number, "was changed: its hash does not fit.")
            if number == head_number and before != head_hash:
                raise AuditTampered(number, "or one before it was rewritten, hashes included.")
    if number < head_number:
        raise AuditTampered(number + 1, f"is missing, and all up to {head_number}.")
    return f"{number}:{before}"


def _entries(connection: Connection) -> Iterator[Row[Any]]:
    # A page at a time, since the audit only grows. A cursor would need a transaction.
    page = select(audit).order_by(audit.c.id).limit(1000)
    rows = connection.execute(page).all()
    while rows:
        yield from rows
        rows = connection.execute(page.where(audit.c.id > rows[-1].id)).all()
