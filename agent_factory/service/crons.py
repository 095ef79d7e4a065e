"""Crons: schedules of clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, delete, func, select

from agent_factory.service.arguments import check_choice, check_name
from agent_factory.service.backend import Backend
from agent_factory.service.metadata_search import has_metadata
from agent_factory.service.rows import having, must_exist, read_row
from agent_factory.service.scheduled_messages import check_cron
from agent_factory.service.schedules import Cron, write_cron
from agent_factory.service.tables import schedules

CronSort = Literal[
    "cron_id", "assistant", "thread_id", "created_at", "updated_at", "ends_at", "next_at"
]
"""What crons are sorted by."""


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
            ArgumentError: The cron expression or the time zone cannot be read, or `Service.submit`
                would refuse an option.
            NotFound: There is no such agent or assistant.
        """
        check_name(by)
        cron = Cron(
            str(uuid4()), self._tenant, agent, assistant, thread, schedule, timezone, ends_at,
            enabled=enabled,
            keeps_threads=keeps_threads,
            by=by,
            options=dict(options),
            request=dict(request or {}),
            metadata=dict(metadata or {}),
        )  # fmt: skip
        check_cron(self._backend, cron)
        with self._database.begin() as connection:
            return write_cron(self._database, connection, cron)

    def get(self, cron: str) -> Cron:
        """One cron.

        Raises:
            NotFound: The tenant has no such cron.
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
            sort_by: The value that orders the crons.
            descending: Whether the highest value comes first; crons without a value come last.
            limit: The most to return.
            offset: Crons to skip before the first.
            **filters: The filters of `count`.
        """
        check_choice("sort_by", sort_by, get_args(CronSort))
        key = schedules.c["id" if sort_by == "cron_id" else sort_by]
        order = (key.desc() if descending else key.asc()).nulls_last()
        query = select(schedules).where(*self._matching(**filters))
        query = query.order_by(order, schedules.c.created_at, schedules.c.id)
        rows = self._database.rows(query.limit(limit).offset(offset))
        return [read_row(Cron, row) for row in rows]

    def count(self, **filters: Any) -> int:
        """Count crons.

        Args:
            **filters: `assistant`, `thread`, `enabled`, and `metadata`, which the metadata of a
                cron contain.
        """
        query = select(func.count()).where(*self._matching(**filters))
        (number,) = self._database.values(query)
        return int(number)

    def change(self, cron: str, **values: Any) -> Cron:
        """Change arguments of a cron. Keys of `metadata` are added to the present keys.

        Raises:
            NotFound: There is no such cron, or no such agent or assistant for an enabled cron.
            ArgumentError: As in `create`.
        """
        changed = _changed(self.get(cron), values)
        # A cron of an agent that is gone can be disabled.
        if changed.enabled or "options" in values:
            check_cron(self._backend, changed)
        with self._database.begin() as connection:
            changed = _changed(self._get(connection, cron), values)
            return write_cron(self._database, connection, changed)

    def delete(self, cron: str) -> None:
        """Delete a cron. Its runs go on.

        Raises:
            NotFound: There is no such cron.
        """
        with self._database.begin() as connection:
            self._get(connection, cron)
            connection.execute(delete(schedules).where(schedules.c.id == cron))

    def _get(self, connection: Connection, cron: str) -> Cron:
        query = select(schedules).where(schedules.c.id == cron, *self._matching())
        return read_row(Cron, must_exist(connection.execute(query).first(), f"cron {cron!r}"))

    def _matching(
        self,
        assistant: str | None = None,
        thread: str | None = None,
        enabled: bool | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> list[ColumnElement[bool]]:
        filters = {"assistant": assistant, "thread_id": thread, "enabled": enabled}
        is_sqlite = self._database.is_sqlite
        return [
            *having(schedules, tenant=self._tenant, **filters),
            schedules.c.assistant != "",  # the other rows are schedules of the product
            *([has_metadata(schedules.c.metadata, metadata, sqlite=is_sqlite)] if metadata else ()),
        ]


def _changed(cron: Cron, values: Mapping[str, Any]) -> Cron:
    metadata = {**cron.metadata, **values.get("metadata", {})}
    return replace(cron, **{**values, "metadata": metadata})
