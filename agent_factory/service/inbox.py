"""Inbox: what the threads of all agents wait for, and who decides about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from agent_factory.errors import ArgumentError
from agent_factory.review.pending_calls import PendingCall
from agent_factory.review.steps import DecisionNotAllowed, validated
from agent_factory.service.audit import AuditEntry
from agent_factory.service.database import Database
from agent_factory.service.errors import (
    AlreadyDecided,
    ClaimedByOther,
    DecisionForbidden,
    NotFound,
)
from agent_factory.service.metrics import traceparent
from agent_factory.service.tables import audit, waits
from agent_factory.service.thread_queue import HIGHEST_PRIORITY, ThreadQueue, lock_thread

CLAIM_SECONDS = 900.0
"""How long a claim holds."""

SYSTEM = "deadline"
"""Who decides if nobody does, in the audit."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A tool call, or another question, that a thread waits for.

    Args:
        id: Its id.
        thread_id: The thread.
        tenant: The tenant of the thread.
        agent: The name of the agent.
        run: The id of the run that waits.
        tool: The tool; for a question that belongs to no call, its node.
        kind: Why it waits, as `agent_factory.review.PendingCall.kind`.
        args: The arguments of the call.
        question: What is asked.
        allowed: The decisions that may be made.
        priority: Higher is more urgent.
        created_at: When it came up; all times are seconds since 1970, by the database's clock.
        deadline: When it is decided without a person, if ever.
        claimed_by: Who has claimed it, if the claim has not expired.
        claimed_until: When the claim expires.
        decided_at: When it was decided.
        decided_by: Who decided.
        decision: The decision.
        checkpoint_id: The checkpoint at which the thread waits.
        digest: Names the call, with its tool and its arguments, and this wait: what
            `agent_factory.review` takes in place of the call's id.
        call_id: The id of the call, as `agent_factory.review.PendingCall.id`.
        call_digest: The digest of the tool and the arguments, which an approval names: what runs
            must have it. Empty for a question.
        reviewers: Who may decide, as names or roles; empty for everybody.
        remember: The longest time in seconds for which later calls may be approved as well; None:
            they may not.
    """

    id: str
    thread_id: str
    tenant: str
    agent: str
    run: str
    tool: str
    kind: str
    args: Mapping[str, Any]
    question: Any
    allowed: tuple[str, ...]
    priority: int
    created_at: float
    deadline: float | None
    claimed_by: str | None
    claimed_until: float | None
    decided_at: float | None
    decided_by: str | None
    decision: Mapping[str, Any] | None
    checkpoint_id: str | None
    digest: str
    call_id: str = ""
    call_digest: str = ""
    reviewers: tuple[str, ...] = ()
    remember: float | None = None


def is_reviewer(reviewers: Collection[str], name: str, roles: Collection[str]) -> bool:
    """Whether a person may decide about a wait for these reviewers, by name or by role.

    >>> is_reviewer(["finance"], "ann", ["finance"]), is_reviewer([], "ann", [])
    (True, True)
    """
    return not reviewers or not {name, *roles}.isdisjoint(reviewers)


class Inbox:
    """What threads wait for: of one tenant, or of all.

    >>> from agent_factory.service import Service
    """

    def __init__(
        self,
        database: Database,
        queue: ThreadQueue,
        tenant: str | None = None,
        may_decide: Callable[[Wait], bool] | None = None,
    ) -> None:
        self._database, self._queue, self._tenant = database, queue, tenant
        self._may_decide = may_decide

    def waits(
        self,
        *,
        agent: str | None = None,
        tool: str | None = None,
        thread: str | None = None,
        claimed_by: str | None = None,
        text: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[Wait]:
        """Undecided waits, the most urgent and then the oldest first.

        Args:
            agent: Only those of this agent.
            tool: Only those of this tool.
            thread: Only those of this thread.
            claimed_by: Only those that this person has claimed.
            text: Only those whose arguments or thread id contain it.
            limit: The most to return.
            offset: How many to leave out before them.
        """
        given = {"agent": agent, "tool": tool, "thread_id": thread, "claimed_by": claimed_by}
        found = select(waits).where(waits.c.decided_at.is_(None), *self._own())
        for column, value in given.items():
            if value is not None:
                found = found.where(waits.c[column] == value)
        if text:
            has_text = waits.c.args.icontains(text, autoescape=True)
            found = found.where(has_text | waits.c.thread_id.icontains(text, autoescape=True))
        found = found.order_by(waits.c.priority.desc(), waits.c.created_at)
        with self._database.read() as connection:
            now = connection.execute(select(self._database.now)).scalar_one()
            rows = connection.execute(found.limit(limit).offset(offset)).all()
        return [_read(row, now) for row in rows]

    def count(self) -> int:
        """How many waits are undecided."""
        counted = select(func.count()).where(waits.c.decided_at.is_(None), *self._own())
        with self._database.read() as connection:
            return connection.execute(counted).scalar_one()

    def tools(self) -> list[str]:
        """The tools that undecided waits are about."""
        named = select(waits.c.tool).where(waits.c.decided_at.is_(None), *self._own()).distinct()
        with self._database.read() as connection:
            return sorted(connection.execute(named).scalars())

    def get(self, wait_id: str) -> Wait:
        """One wait, also a decided one.

        Raises:
            NotFound: There is none with this id, or it belongs to another tenant.
        """
        with self._database.read() as connection:
            now = connection.execute(select(self._database.now)).scalar_one()
            return _read(self._find(connection, wait_id), now)

    def claim(self, wait_id: str, *, by: str, seconds: float = CLAIM_SECONDS) -> Wait:
        """Take a wait, so that nobody else decides about it, or extend a claim.

        Args:
            wait_id: The wait.
            by: Who takes it.
            seconds: How long the claim holds.

        Raises:
            NotFound: There is no such wait.
            AlreadyDecided: It is decided.
            ClaimedByOther: Somebody else has claimed it.
        """
        return self._claim(wait_id, by, self._database.now + seconds, by, "claim")

    def release(self, wait_id: str, *, by: str) -> Wait:
        """Give a claim back.

        Raises:
            NotFound: There is no such wait.
            AlreadyDecided: It is decided.
            ClaimedByOther: Somebody else has claimed it.
        """
        return self._claim(wait_id, by, None, None, "release")

    def _claim(self, wait_id: str, by: str, until: Any, owner: str | None, what: str) -> Wait:
        self._check_right(wait_id, by)
        with self._database.begin() as connection:
            row = self._lock(connection, wait_id, by)
            if row.decided_at is not None:
                raise AlreadyDecided(f"wait {wait_id!r}", _decided_text(row))
            connection.execute(
                update(waits)
                .where(waits.c.wait_id == wait_id)
                .values(claimed_by=owner, claimed_until=until)
            )
            self._queue.record(connection, row, by, what)
        return self.get(wait_id)

    def decide(
        self,
        wait_id: str,
        decision: Mapping[str, Any],
        *,
        by: str,
        roles: Collection[str] = (),
        undo: bool = False,
    ) -> str:
        """Decide about a wait, and continue the run once all of its waits are decided.

        The same decision again changes nothing.

        Args:
            wait_id: The wait.
            decision: The decision, in the form that HumanInTheLoopMiddleware takes.
            by: Who decides.
            roles: The roles of the one who decides.
            undo: End the run here, and undo the effects that it has had.

        Returns:
            The id of the run.

        Raises:
            NotFound: There is no such wait.
            AlreadyDecided: Somebody has decided otherwise.
            ClaimedByOther: Somebody else has claimed it.
            DecisionForbidden: `may_decide` does not allow it.
            DecisionNotAllowed: This decision may not be made about this call, or not by them; or it
                names the digest of another call.
        """
        self._check_right(wait_id, by)
        with self._database.begin() as connection:
            return self._decide(connection, wait_id, decision, by, roles, undo=undo)

    def decide_together(
        self,
        decisions: Mapping[str, Mapping[str, Any]],
        *,
        by: str,
        roles: Collection[str] = (),
        stream: Collection[str] | None = None,
    ) -> str:
        """Decide about several waits of one run: about all of them, or about none.

        Args:
            decisions: Decisions by the ids of the waits, as in `decide`.
            by: Who decides.
            roles: The roles of the one who decides.
            stream: The modes that are recorded for `Run.stream`; None takes those of the run.

        Returns:
            The id of the run.

        Raises:
            NotFound: As in `decide`.
            AlreadyDecided: As in `decide`.
            ClaimedByOther: As in `decide`.
            DecisionForbidden: As in `decide`.
            DecisionNotAllowed: As in `decide`.
        """
        for wait_id in decisions:
            self._check_right(wait_id, by)
        with self._database.begin() as connection:
            run = ""
            for wait_id, decision in decisions.items():
                run = self._decide(connection, wait_id, decision, by, roles, stream=stream)
            return run

    def _decide(
        self,
        connection: Connection,
        wait_id: str,
        decision: Mapping[str, Any],
        by: str,
        roles: Collection[str],
        *,
        undo: bool = False,
        stream: Collection[str] | None = None,
    ) -> str:
        row = self._lock(connection, wait_id, by)
        if "remember" in decision and isinstance(decision["remember"], Mapping):
            decision = {**decision, "remember": {**decision["remember"], "by": by}}
        call = PendingCall(
            wait_id,
            row.tool,
            json.loads(row.args),
            row.kind,
            row.allowed.split(","),
            call_digest=row.call_digest,
            remember=row.remember,
            digest=row.digest,
        )
        if row.decided_at is not None:
            with suppress(DecisionNotAllowed, ArgumentError):
                if json.loads(row.decision) == validated(call, decision):
                    return str(row.run)
            raise AlreadyDecided(f"wait {wait_id!r}", _decided_text(row))
        if not is_reviewer(row.reviewers, by, roles):
            raise DecisionNotAllowed(
                f"{row.tool} ({wait_id!r})",
                f"{by!r} may not decide about this call.",
                f"Reviewers: {', '.join(row.reviewers)}.",
            )
        decision = validated(call, decision)
        self._write(connection, row, decision, by, continues=not undo, stream=stream)
        if undo:
            self._queue.end_run(connection, row, by, undo=True)
        return str(row.run)

    def _write(
        self,
        connection: Connection,
        row: Row[Any],
        decision: Mapping[str, Any],
        by: str,
        *,
        continues: bool = True,
        stream: Collection[str] | None = None,
    ) -> None:
        connection.execute(
            update(waits)
            .where(waits.c.wait_id == row.wait_id)
            .values(decided_at=self._database.now, decided_by=by, decision=json.dumps(decision))
        )
        together = select(waits).where(waits.c.run == row.run, waits.c.job == row.job)
        rows = connection.execute(together).all()
        if continues and all(one.decided_at is not None for one in rows):
            self._queue.queue(
                connection,
                row.run,
                {
                    "kind": "decision",
                    "run": row.run,
                    "thread": row.thread_id,
                    "tenant": row.tenant,
                    "agent": row.agent,
                    "priority": min(row.priority, HIGHEST_PRIORITY),  # it was escalated
                    "trace": traceparent(),
                    "decisions": {one.digest: json.loads(one.decision) for one in rows},
                    "stream": None if stream is None else sorted(stream),
                },
            )
        # At the end: other transactions that write to the audit wait until this one has ended.
        self._queue.record(connection, row, by, decision["type"], decision)

    def expire(self, late: Mapping[str, float]) -> int:
        """Decide about waits whose deadline has passed; return how many there were.

        Args:
            late: Seconds that an escalated wait gets, by agent.
        """
        passed = select(waits.c.wait_id).where(
            waits.c.decided_at.is_(None), waits.c.deadline < self._database.now
        )
        with self._database.read() as connection:
            ids = connection.execute(passed.limit(1000)).scalars().all()
        for wait_id in ids:
            with self._database.begin() as connection:
                row = self._lock(connection, wait_id, None)
                if row.decided_at is not None:
                    continue
                if row.late == "escalate":
                    more = self._database.now + late.get(row.agent, CLAIM_SECONDS)
                    connection.execute(
                        update(waits)
                        .where(waits.c.wait_id == wait_id)
                        .values(
                            priority=waits.c.priority + 1,
                            late="reject",
                            deadline=more,
                            claimed_by=None,
                            claimed_until=None,
                        )
                    )
                    self._queue.record(connection, row, SYSTEM, "escalate")
                    continue
                text = "Nobody decided about this call in time, so it was not approved."
                answer = {"reject": {"type": "reject", "message": text}}
                answer["respond"] = {"type": "respond", "message": text}
                allowed = row.allowed.split(",")
                kind = next((kind for kind in answer if kind in allowed), None)
                if kind is not None:
                    self._write(connection, row, answer[kind], SYSTEM)
                else:  # the run was stopped where no call waits: it can go on, or end
                    self._queue.end_run(connection, row, SYSTEM)
        return len(ids)

    def audit(self, *, thread: str | None = None, limit: int = 100) -> list[AuditEntry]:
        """Who did what, the newest first.

        Args:
            thread: Only entries about this thread.
            limit: The most to return.
        """
        found = select(audit).order_by(audit.c.id.desc()).limit(limit)
        if self._tenant is not None:
            found = found.where(audit.c.tenant == self._tenant)
        if thread is not None:
            found = found.where(audit.c.thread_id == thread)
        with self._database.read() as connection:
            return [
                AuditEntry(
                    row.at,
                    row.tenant,
                    row.thread_id,
                    row.wait_id,
                    row.who,
                    row.what,
                    json.loads(row.detail or "null"),
                    row.id,
                    row.hash,
                )
                for row in connection.execute(found)
            ]

    def _check_right(self, wait_id: str, by: str) -> None:
        """Raise DecisionForbidden if this person may not decide. No lock is held meanwhile."""
        if self._may_decide is not None and not self._may_decide(self.get(wait_id)):
            raise DecisionForbidden(f"wait {wait_id!r}", f"may not be decided by {by!r}.")

    def _own(self) -> list[Any]:
        return [] if self._tenant is None else [waits.c.tenant == self._tenant]

    def _find(self, connection: Connection, wait_id: str) -> Row[Any]:
        row = connection.execute(
            select(waits).where(waits.c.wait_id == wait_id, *self._own())
        ).first()
        if row is None:
            raise NotFound(f"wait {wait_id!r}", "does not exist.", "inbox().waits() shows all.")
        return row

    def _lock(self, connection: Connection, wait_id: str, by: str | None) -> Row[Any]:
        """The row of a wait, with its thread locked; ClaimedByOther if `by` may not decide."""
        lock_thread(connection, self._find(connection, wait_id).thread_id)
        row = self._find(connection, wait_id)
        if by is None or row.claimed_by in (None, by) or row.decided_at is not None:
            return row
        held = select(waits.c.wait_id).where(
            waits.c.wait_id == wait_id, waits.c.claimed_until > self._database.now
        )
        if connection.execute(held).first() is not None:
            raise ClaimedByOther(
                f"wait {wait_id!r}",
                f"is claimed by {row.claimed_by!r}.",
                "Decide about another one, or wait until the claim is released or expires.",
            )
        return row


def _decided_text(row: Row[Any]) -> str:
    kind = json.loads(row.decision)["type"]
    return f"was decided before: {kind!r} by {row.decided_by!r}."


def _read(row: Row[Any], now: float) -> Wait:
    expired = row.claimed_until is not None and row.claimed_until < now
    return Wait(
        id=row.wait_id,
        thread_id=row.thread_id,
        tenant=row.tenant,
        agent=row.agent,
        run=row.run,
        tool=row.tool,
        kind=row.kind,
        args=json.loads(row.args),
        question=json.loads(row.question),
        allowed=tuple(row.allowed.split(",")),
        priority=row.priority,
        created_at=row.created_at,
        deadline=row.deadline,
        claimed_by=None if expired else row.claimed_by,
        claimed_until=None if expired else row.claimed_until,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        decision=json.loads(row.decision or "null"),
        checkpoint_id=row.checkpoint_id,
        digest=row.digest,
        call_id=row.call_id,
        call_digest=row.call_digest,
        reviewers=tuple(row.reviewers),
        remember=row.remember,
    )
