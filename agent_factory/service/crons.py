"""Crons: schedules that clients create, with the facts that clients ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Update,
    delete,
    func,
    insert,
    select,
    update,
)

from agent_factory.service.arguments import check_choice, check_name
from agent_factory.service.backend import Backend
from agent_factory.service.errors import NotFound
from agent_factory.service.metadata_search import has_metadata
from agent_factory.service.rows import having
from agent_factory.service.schedules import next_run
from agent_factory.service.tables import schedules
from agent_factory.state import check_json

CronSort = Literal[
    "cron_id", "assistant", "thread_id", "created_at", "updated_at", "ends_at", "next_at"
]
"""What crons are sorted by."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A message that is submitted again and again.

    Args:
        id: The id, and the name of the schedule.
        tenant: The tenant.
        agent: The name of the agent.
        assistant: The assistant whose settings its runs have; the id of the agent itself, too.
        thread_id: The thread of its runs; None if each run gets a new one.
        schedule: A cron expression.
        timezone: The time zone of the expression; None is UTC.
        ends_at: When it ends, in seconds since 1970.
        enabled: Whether it runs.
        keeps_threads: Whether the thread of a run stays when the next run begins.
        by: Who created it.
        options: Arguments of `Service.submit`, as JSON: `message`, `config`, `context` and others.
        request: The request of the client, as it is shown again.
        metadata: Notes about it; its runs have them, too.
        created_at: When it was created.
        updated_at: When it changed.
        next_at: When it runs next, in seconds since 1970; None if it has ended or is disabled.
    """

    id: str
    tenant: str
    agent: str
    assistant: str
    thread_id: str | None
    schedule: str
    timezone: str | None
    ends_at: float | None
    enabled: bool
    keeps_threads: bool
    by: str
    options: Mapping[str, Any]
    request: Mapping[str, Any]
    metadata: Mapping[str, Any]
    created_at: float
    updated_at: float
    next_at: float | None = None


class Crons:
    """Crons of a tenant.

    Made by `Service.crons`.

    Args:
        backend: The parts of the service.
        tenant: The tenant. Other tenants cannot see its crons.
    """

    def __init__(self, backend: Backend, tenant: str) -> None:
        self._backend, self._database, self._tenant = backend, backend.database, tenant

    def create(
        self,
        schedule: str,
        *,
        agent: str,
        assistant: str,
        options: Mapping[str, object],
        by: str,
        thread: str | None = None,
        timezone: str | None = None,
        ends_at: float | None = None,
        enabled: bool = True,
        keeps_threads: bool = False,
        request: Mapping[str, object] | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> Cron:
        """Create a cron. Its arguments are those of a `Cron`.

        Raises:
            ArgumentError: The cron expression or the time zone cannot be read.
            NotFound: There is no such agent.
        """
        check_name(by)
        with self._database.begin() as connection:
            now = connection.execute(select(self._database.now)).scalar_one()
            cron = Cron(
                id=str(uuid4()),
                tenant=self._tenant,
                agent=agent,
                assistant=assistant,
                thread_id=thread,
                schedule=schedule,
                timezone=timezone,
                ends_at=ends_at,
                enabled=enabled,
                keeps_threads=keeps_threads,
                by=by,
                options=dict(options),
                request=dict(request or {}),
                metadata=dict(metadata or {}),
                created_at=now,
                updated_at=now,
            )
            return self._write(connection, insert(schedules), cron, now)

    def get(self, cron: str) -> Cron:
        """One cron.

        Raises:
            NotFound: There is no such cron, or it belongs to another tenant.
        """
        with self._database.read() as connection:
            return self._get(connection, cron)

    def search(
        self,
        *,
        sort_by: CronSort = "created_at",
        descending: bool = True,
        limit: int = 50,
        offset: int = 0,
        **filters: Any,
    ) -> list[Cron]:
        """Crons, the newest first.

        Args:
            sort_by: The value that orders them.
            descending: Whether the highest value comes first; crons without a value come last.
            limit: The most to return.
            offset: How many to leave out before them.
            **filters: Those of `count`.
        """
        check_choice("sort_by", sort_by, get_args(CronSort))
        key = schedules.c["id" if sort_by == "cron_id" else sort_by]
        order = (key.desc() if descending else key.asc()).nulls_last()
        with self._database.read() as connection:
            query = select(schedules).where(*self._matching(connection, **filters))
            query = query.order_by(order, schedules.c.created_at, schedules.c.id)
            rows = connection.execute(query.limit(limit).offset(offset))
            return [Cron(**row) for row in rows.mappings()]

    def count(self, **filters: Any) -> int:
        """Count the crons of an `assistant`, a `thread`, those that are `enabled`, or all.

        Args:
            **filters: These, and `metadata`: only crons whose metadata contain these.
        """
        with self._database.read() as connection:
            query = select(func.count()).where(*self._matching(connection, **filters))
            return connection.execute(query).scalar_one()

    def change(self, cron: str, **values: Any) -> Cron:
        """Change arguments of a cron. Keys of `metadata` are added to the others.

        Raises:
            NotFound: There is no such cron.
            ArgumentError: The cron expression or the time zone cannot be read.
        """
        with self._database.begin() as connection:
            current = self._get(connection, cron)
            if "metadata" in values:
                values["metadata"] = {**current.metadata, **values["metadata"]}
            now = connection.execute(select(self._database.now)).scalar_one()
            changed = replace(current, **values, updated_at=now)
            of_cron = update(schedules).where(schedules.c.id == cron)
            return self._write(connection, of_cron, changed, now)

    def delete(self, cron: str) -> None:
        """Delete a cron. Runs that it has begun go on.

        Raises:
            NotFound: There is no such cron.
        """
        with self._database.begin() as connection:
            self._get(connection, cron)
            connection.execute(delete(schedules).where(schedules.c.id == cron))

    def _write(
        self, connection: Connection, statement: Insert | Update, cron: Cron, now: float
    ) -> Cron:
        """Write a cron, and when it runs next."""
        self._backend.agent(cron.agent)
        metadata = {**(cron.options.get("metadata") or {}), **cron.metadata}
        for argument, value in {
            **cron.options,
            "thread": cron.thread_id,
            "metadata": metadata,
        }.items():
            check_json(argument, value)
        following = next_run(cron.schedule, cron.timezone, cron.ends_at, now)
        cron = replace(cron, next_at=following if cron.enabled else None)
        connection.execute(statement.values(asdict(cron)))
        return cron

    def _get(self, connection: Connection, cron: str) -> Cron:
        query = select(schedules).where(schedules.c.id == cron, *self._matching(connection))
        row = connection.execute(query).mappings().first()
        if row is None:
            raise NotFound(f"cron {cron!r}", "does not exist.")
        return Cron(**row)

    def _matching(
        self,
        connection: Connection,
        assistant: str | None = None,
        thread: str | None = None,
        enabled: bool | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> list[ColumnElement[bool]]:
        filters = {"assistant": assistant, "thread_id": thread, "enabled": enabled}
        return [
            *having(schedules, tenant=self._tenant, **filters),
            schedules.c.assistant != "",  # the other rows are schedules of the product
            *([has_metadata(connection, schedules.c.metadata, metadata)] if metadata else []),
        ]
