"""Rows in the tables of a service, as another process reads and writes them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Executable, insert

from agent_factory.service import Service
from agent_factory.service.backend import Backend
from agent_factory.service.database import Database
from agent_factory.service.tables import threads


def backend_of(service: Service) -> Backend:
    """The parts of a service, for tests of one of them."""
    return service._backend


def insert_thread(connection: Connection, name: str) -> None:
    """The row of a thread without runs."""
    values = {"tenant": "", "agent": "", "status": "idle", "epoch": 0, "jobs": 0, "created_at": 0}
    connection.execute(insert(threads).values(thread_id=name, updated_at=0, **values))


def tables_of(service: Service) -> Tables:
    """The rows of a service, by its own connections."""
    return Tables(backend_of(service).database)


class Tables:
    """The tables of `agent_factory.service.tables`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def now(self) -> Any:
        """The time by the clock of the database, for statements."""
        return self.database.now

    def rows(self, query: Executable) -> list[Any]:
        """The rows that a query selects."""
        return self.database.rows(query)

    def values(self, query: Executable) -> list[Any]:
        """The values that a query selects in its first column."""
        return self.database.values(query)

    def value(self, query: Executable) -> Any:
        """The only value that a query selects."""
        (value,) = self.values(query)
        return value

    def write(self, *statements: Executable) -> None:
        """Execute statements in one transaction."""
        with self.database.begin() as connection:
            for statement in statements:
                connection.execute(statement)
