"""Reservations: amounts of a ledger that running calls hold until their cost is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, or_, select, update

from agent_factory.service.database import Database
from agent_factory.service.errors import DatabaseUnavailable
from agent_factory.service.rows import logged
from agent_factory.service.tables import AMOUNTS, ledger, reservations, workers

_ROUNDING = 1e-12  # what adding up floats may leave of nothing, in US dollars

GIVE_BACK = {
    column: case((column - amount > _ROUNDING, column - amount), else_=0)
    for column, amount in (
        (ledger.c[f"{name}_reserved"], bindparam(f"{name}_held", type_=ledger.c[name].type))
        for name in AMOUNTS
    )
}
"""What an update of a ledger's row sets when a reservation ends."""

_PLACE: dict[str, Any] = {"scope": bindparam("at_scope"), "per": bindparam("at_per")}
_GIVEN_BACK = update(ledger).filter_by(**_PLACE).values(GIVE_BACK)


def end_reservation(connection: Connection, id: str) -> Mapping[str, object]:
    """Delete a reservation; return the parameters of `GIVE_BACK`, zeros if it has expired."""
    statement = delete(reservations).where(reservations.c.id == id).returning(reservations)
    row: dict[str, object] = dict(connection.execute(statement).mappings().first() or {})
    return {f"{name}_held": row.get(name, 0) for name in AMOUNTS}


_UNLOCKED = (
    select(reservations.c.id)
    .join(ledger, (ledger.c.scope == reservations.c.scope) & (ledger.c.per == reservations.c.per))
    .where(reservations.c.id == bindparam("id"))
    .with_for_update(skip_locked=True)
)


def expire_reservations(database: Database, *, skip_locked: bool = False) -> int:
    """Give back reservations of calls that took too long, or whose worker is dead; count them.

    A call that ends later records its cost. With `skip_locked`, rows that another transaction has
    locked are left out; else an unreachable row raises DatabaseUnavailable. A row with a fault
    holds up no other row.
    """
    passes = () if skip_locked else (DatabaseUnavailable,)
    # A process without a worker has no heartbeat: only the time limits its reservations.
    owner = reservations.c.owner
    is_orphan = owner.is_not(None) & owner.not_in(select(workers.c.id))
    query = select(reservations).where(or_(reservations.c.expires <= database.now, is_orphan))
    number = 0
    for row in database.rows(query):
        # A transaction for each row: two processes at once wait for each other only once.
        fault = logged("Reservation %s was not given back.", row.id, but=passes)
        with fault, database.begin() as connection:
            if skip_locked and connection.execute(_UNLOCKED, {"id": row.id}).first() is None:
                continue
            amounts = end_reservation(connection, row.id)
            place = {"at_scope": row.scope, "at_per": row.per}
            connection.execute(_GIVEN_BACK, {**place, **amounts})
            number += 1
    return number
