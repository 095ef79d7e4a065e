"""Crons: schedules that clients create, with what they know of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from time import time
from typing import Any, Literal, get_args
from uuid import uuid4

from sqlalchemy import Row, Select, delete, insert, select, update

from agent_factory.service.arguments import check_choice, check_name
from agent_factory.service.backend import Backend
from agent_factory.service.cron import next_time, zone_of
from agent_factory.service.errors import NotFound
from agent_factory.service.tables import crons

CronSort = Literal[
    "cron_id", "assistant", "thread_id", "created_at", "updated_at", "ends_at", "next_at"
]
"""What crons are sorted by."""

CRON_KEY = "cron_id"
"""Key in the metadata of runs: the cron that has begun it."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A message that is submitted again and again.

    Args:
        id: Its id, and the name of its schedule.
        tenant: Whose it is.
        agent: The name of the agent.
        assistant: The assistant whose settings its runs have; the id of the agent itself, too.
        thread_id: The thread of its runs; None if each gets a new one.
        schedule: A cron expression.
        timezone: Whose times these are; None is UTC.
        ends_at: When it ends, in seconds since 1970.
        enabled: Whether it runs.
        keeps_threads: Whether the thread of a run stays when the next one begins.
        by: Who has created it.
        options: What `Service.submit` gets, as JSON: `message`, `config`, `context` and others.
        request: What the client has asked for, as it is shown again.
        metadata: What is noted about it; its runs have it, too.
        created_at: When it was created.
        updated_at: When it changed.
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

    @property
    def next_at(self) -> float | None:
        """When it runs next, in seconds since 1970; None if it does not."""
        following = _next(self.schedule, self.timezone)
        # As `due_cron` decides: at the very end it does not run.
        has_ended = self.ends_at is not None and following >= self.ends_at
        return None if has_ended or not self.enabled else following


class Crons:
    """Crons of a tenant.

    Made by `Service.crons`.

    Args:
        backend: The parts of the service.
        tenant: Whose they are. Other tenants cannot see them.
        schedule: `Service.schedule`.
        unschedule: `Service.unschedule`.
    """

    def __init__(
        self,
        backend: Backend,
        tenant: str,
        schedule: Callable[..., None],
        unschedule: Callable[[str], None],
    ) -> None:
        self._backend, self._database, self._tenant = backend, backend.database, tenant
        self._schedule, self._unschedule = schedule, unschedule

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
        # For its error, before a row is written.
        _next(schedule, timezone)
        self._backend.agent(agent)
        id, now = str(uuid4()), self._database.now
        with self._database.begin() as connection:
            connection.execute(
                insert(crons).values(
                    cron_id=id,
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
            )
        # After the row: a schedule without one would end when it is due.
        return self._applied(id)

    def get(self, cron: str) -> Cron:
        """One cron.

        Raises:
            NotFound: There is no such cron, or it belongs to another tenant.
        """
        with self._database.read() as connection:
            row = connection.execute(self._own().where(crons.c.cron_id == cron)).first()
        if row is None:
            raise NotFound(f"cron {cron!r}", "does not exist.")
        return _cron_of(row)

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
            sort_by: What they are sorted by.
            descending: Whether the highest value comes first; what has no value comes last.
            limit: The most to return.
            offset: How many to leave out before them.
            **filters: Those of `count`.
        """
        check_choice("sort_by", sort_by, get_args(CronSort))
        name = {"cron_id": "id"}.get(sort_by, sort_by)
        matches = self._matching(**filters)
        # Python compares no None with a number.
        without = [cron for cron in matches if getattr(cron, name) is None]
        others = [cron for cron in matches if getattr(cron, name) is not None]
        others.sort(key=lambda cron: getattr(cron, name), reverse=descending)
        return [*others, *without][offset:][:limit]

    def count(self, **filters: Any) -> int:
        """Count the crons of an `assistant`, a `thread`, those that are `enabled`, or all.

        Args:
            **filters: These, and `metadata`: only those whose metadata have these values.
        """
        return len(self._matching(**filters))

    def change(self, cron: str, **values: Any) -> Cron:
        """Change arguments of a cron. Keys of `metadata` are added to the others.

        Raises:
            NotFound: There is no such cron.
            ArgumentError: The cron expression or the time zone cannot be read.
        """
        current = self.get(cron)
        if "metadata" in values:
            values["metadata"] = {**current.metadata, **values["metadata"]}
        _next(values.get("schedule", current.schedule), values.get("timezone", current.timezone))
        of_cron = (crons.c.cron_id == cron) & (crons.c.tenant == self._tenant)
        with self._database.begin() as connection:
            changed = update(crons).where(of_cron)
            connection.execute(changed.values(**values, updated_at=self._database.now))
        return self._applied(cron)

    def delete(self, cron: str) -> None:
        """Delete a cron. Runs that it has begun go on.

        Raises:
            NotFound: There is no such cron.
        """
        # For its error, and for the tenant, which the statement does not name.
        self.get(cron)
        with self._database.begin() as connection:
            connection.execute(delete(crons).where(crons.c.cron_id == cron))
        with suppress(NotFound):  # it was disabled
            self._unschedule(cron)

    def _applied(self, id: str) -> Cron:
        """A cron whose schedule is as its row says."""
        cron = self.get(id)
        if not cron.enabled:
            with suppress(NotFound):
                self._unschedule(id)
            return cron
        # Last, so that the metadata of a client cannot name another cron.
        metadata = {**cron.options.get("metadata", {}), **cron.metadata, CRON_KEY: id}
        self._schedule(
            id,
            cron.schedule,
            agent=cron.agent,
            thread=cron.thread_id,
            tenant=cron.tenant,
            timezone=cron.timezone,
            **{"message": None, **cron.options, "metadata": metadata},
        )
        return cron

    def _own(self) -> Select[Any]:
        return select(crons).where(crons.c.tenant == self._tenant)

    def _matching(
        self,
        assistant: str | None = None,
        thread: str | None = None,
        enabled: bool | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> list[Cron]:
        query = self._own().order_by(crons.c.created_at, crons.c.cron_id)
        filters = {"assistant": assistant, "thread_id": thread, "enabled": enabled}
        for column, value in filters.items():
            if value is not None:
                query = query.where(crons.c[column] == value)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        wanted = (metadata or {}).items()
        return [cron for cron in map(_cron_of, rows) if wanted <= cron.metadata.items()]


def due_cron(backend: Backend, name: str, due: datetime) -> Cron | None:
    """The cron of a schedule that is due; None if it was deleted, disabled, or has ended."""
    with backend.database.read() as connection:
        row = connection.execute(select(crons).where(crons.c.cron_id == name)).first()
    cron = None if row is None else _cron_of(row)
    if cron is None or not cron.enabled:
        return None
    return cron if cron.ends_at is None or due.timestamp() < cron.ends_at else None


def _next(schedule: str, timezone: str | None) -> float:
    """When a cron expression is due next, as workers read it."""
    return next_time(schedule, zone_of(timezone), time())


def _cron_of(row: Row[Any]) -> Cron:
    values = dict(row._mapping)
    return Cron(id=values.pop("cron_id"), **values)
