"""SharedApprovals: standing approvals in the database of a service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from langchain_core.messages.tool import ToolCall
from sqlalchemy import Select, select, update

from agent_factory.review import StandingApproval
from agent_factory.service.database import Database
from agent_factory.service.leases import Lease, aborting
from agent_factory.service.rows import having, must_exist, read_row
from agent_factory.service.tables import approvals
from agent_factory.service.thread_queue import ThreadQueue, lock_thread


class Approvals:
    """The standing approvals of a service: of one tenant, or of all."""

    def __init__(self, database: Database, queue: ThreadQueue, tenant: str | None = None) -> None:
        self._database, self._queue, self._tenant = database, queue, tenant

    def list(self, *, active: bool = True, agent: str | None = None) -> Sequence[StandingApproval]:
        """The approvals, the newest first; with `active`, without revoked and expired ones."""
        query = self._select(active=active).order_by(approvals.c.given_at.desc(), approvals.c.id)
        query = query.where(*having(approvals, agent=agent))
        return [read_row(StandingApproval, row) for row in self._database.rows(query)]

    def revoke(self, approval_id: str, by: str) -> StandingApproval:
        """End an approval; NotFound if the tenant has no such approval."""
        query = self._select(active=False).where(approvals.c.id == approval_id)
        with self._database.begin() as connection:
            result = connection.execute(query.with_for_update())
            row = must_exist(result.first(), f"approval {approval_id!r}")
            # A second revoke changes nothing: the row keeps the person and the time of the first.
            if row.revoked_at is None:
                ended = update(approvals).where(approvals.c.id == approval_id)
                connection.execute(ended.values(revoked_at=self._database.now, revoked_by=by))
                self._queue.record(connection, row, by, "revoke", {"approval": approval_id})
                row = connection.execute(query).one()
            return read_row(StandingApproval, row)

    def _select(self, *, active: bool) -> Select[Any]:
        query = select(approvals).where(*having(approvals, tenant=self._tenant))
        if active:
            in_time = approvals.c.expires_at > self._database.now
            query = query.where(approvals.c.revoked_at.is_(None), in_time)
        return query


class SharedApprovals(Approvals):
    """Standing approvals for one run, whose lease is checked in each transaction that writes."""

    def __init__(
        self, database: Database, queue: ThreadQueue, lease: Lease, tenant: str, agent: str
    ) -> None:
        super().__init__(database, queue, tenant)
        self._lease, self._agent = lease, agent

    def add(self, approval: StandingApproval) -> None:
        """Store an approval, unless its id is known: also the id of a revoked approval."""
        now = self._database.now
        place = {"tenant": self._tenant, "agent": self._agent, "given_in": self._lease.thread_id}
        times = {"given_at": now, "expires_at": now + approval.seconds}
        new = self._database.insert(approvals).values(asdict(approval) | place | times)
        new = new.on_conflict_do_nothing()
        with aborting(), self._database.begin() as connection:
            self._lease.check(connection)
            # No row comes back for a known id: then the audit gets no second entry.
            row = connection.execute(new.returning(*approvals.c)).first()
            if row is not None:
                when, seconds = approval.condition, approval.seconds
                of_call = {"approval": approval.id, "tool": approval.tool}
                detail = {**of_call, "when": when, "seconds": seconds}
                self._queue.record(connection, row, approval.by, "remember", detail)

    def find(
        self, call: ToolCall, schema: str, thread: str | None, approval_id: str | None = None
    ) -> StandingApproval | None:
        """An approval by which a call may run now; with an id, only this approval."""
        filters = having(approvals, agent=self._agent, tool=call["name"], id=approval_id)
        query = self._select(active=True).where(*filters)
        with aborting():
            # By the clock of the database, as in the query: clocks of workers may differ.
            rows = self._database.rows(query.add_columns(self._database.now.label("now")))
        pairs = ((read_row(StandingApproval, row), row.now) for row in rows)
        return next((each for each, now in pairs if each.covers(call, schema, thread, now)), None)

    def use(self, approval: StandingApproval, call: ToolCall, thread: str | None) -> None:
        """Note in the audit that a call runs by an approval."""
        statement = update(approvals).where(approvals.c.id == approval.id)
        with aborting(), self._database.begin() as connection:
            self._lease.check(connection)
            connection.execute(statement.values(uses=approvals.c.uses + 1))
            row = lock_thread(connection, self._lease.thread_id)
            assert row is not None  # the lease is held
            detail = {"approval": approval.id, "tool": call["name"], "args": call["args"]}
            self._queue.record(connection, row, approval.by, "allow", detail)
