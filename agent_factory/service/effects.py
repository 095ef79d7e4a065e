"""SharedEffects: the effects of tools, recorded in the database of a service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import delete, select, update

from agent_factory.middleware.once import Effect
from agent_factory.service.database import Database
from agent_factory.service.leases import Lease, aborting
from agent_factory.service.rows import read_row
from agent_factory.service.tables import effects


class SharedEffects:
    """Store of effects for one run, for an OnceMiddleware without a `store`.

    The transaction of the start of a tool checks the lease of the run.
    """

    def __init__(self, database: Database, lease: Lease) -> None:
        self._database, self._lease = database, lease

    def begin(self, effect: Effect) -> Effect | None:
        """Insert a record if its key is new, or return the existing one, under the lease."""
        new = self._database.insert(effects).values(**asdict(effect)).on_conflict_do_nothing()
        query = select(effects).where(effects.c.key == effect.key)
        with aborting():
            while True:
                with self._database.begin() as connection:
                    self._lease.check(connection)
                    if connection.execute(new.returning(effects.c.key)).first() is not None:
                        return None
                    # Another process may release the record between the two statements.
                    row = connection.execute(query).first()
                if row is not None:
                    return read_row(Effect, row)

    def finish(self, effect: Effect, result: bytes) -> None:
        """Store the result, unless another attempt has the record.

        A run that has lost its thread may as well: its effect is no longer unknown.
        """
        statement = update(effects).filter_by(key=effect.key, attempt=effect.attempt)
        with aborting():
            self._database.write(statement.values(result_data=result))

    def release(self, effect: Effect) -> None:
        """Delete the record, unless another attempt has the record or it has a result."""
        statement = delete(effects).filter_by(key=effect.key, attempt=effect.attempt)
        with aborting():
            self._database.write(statement.filter_by(result_data=None))

    def of_run(self, run: str) -> Sequence[Effect]:
        """The records of a run, in the order in which they were inserted."""
        query = select(effects).where(effects.c.run == run).order_by(effects.c.number)
        with aborting():
            return [read_row(Effect, row) for row in self._database.rows(query)]
