"""Inbox: decisions of people about the waits of threads."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from langchain_core.runnables import RunnableConfig
from sqlalchemy import ColumnElement, Connection, Row, Select, func, select, update

from agent_factory.errors import ArgumentError, ReviewError
from agent_factory.review import (
    DecisionNotAllowed,
    DecisionType,
    InvalidDecision,
    Judge,
    Judgement,
    Kind,
    PendingCall,
    Reviews,
    judge,
)
from agent_factory.service.audit import AuditEntry
from agent_factory.service.backend import Backend
from agent_factory.service.errors import AlreadyDecided, ClaimedByOther, DecisionForbidden, NotFound
from agent_factory.service.jobs import DecisionJob
from agent_factory.service.metrics import traceparent
from agent_factory.service.rows import having, logged
from agent_factory.service.saver import FencedSaver
from agent_factory.service.tables import audit, threads, waits
from agent_factory.service.thread_queue import HIGHEST_PRIORITY, lock_thread
from agent_factory.service.waits import Wait
from agent_factory.state import json_fault, place_of

CLAIM_SECONDS = 900.0
"""Seconds for which a claim holds."""

SYSTEM = "deadline"
"""Name in the audit for decisions after a deadline."""

Via = Literal["python", "cli", "page", "langgraph", "ag-ui", "openai", "mcp", "a2a", "deadline"]
"""The interface through which a decision came."""

_MAY_NOT = "may not decide about this call."

_IS_OPEN = waits.c.decided_at.is_(None)
_FOR_PEOPLE = waits.c.kind != "client"
"""Condition of waits about which people decide."""


class Inbox:
    """Waits of the threads of one tenant, or of all.

    >>> from tempfile import mkdtemp
    >>> from agent_factory.service import Service
    >>> inbox = Service(f"sqlite:///{mkdtemp()}/desk.db").inbox("acme")
    >>> inbox.waits(tool="refund"), inbox.count()
    ([], 0)
    """

    def __init__(
        self,
        backend: Backend,
        tenant: str | None = None,
        may_decide: Callable[[Wait], bool] | None = None,
    ) -> None:
        self._backend, self._tenant, self._may_decide = backend, tenant, may_decide
        self._database, self._queue = backend.database, backend.queue
        self._own = having(waits, tenant=tenant)

    def waits(
        self,
        *,
        agent: str | None = None,
        tool: str | None = None,
        thread: str | None = None,
        run: str | None = None,
        claimed_by: str | None = None,
        text: str | None = None,
        decided: bool = False,
        limit: int = 50,
        offset: int = 0,
    ) -> list[Wait]:
        """Undecided waits, the most urgent and then the oldest first; a filter of None takes all.

        Calls that a client runs are listed with `thread` alone: people do not decide about them.

        Args:
            agent: The agent.
            tool: The tool.
            thread: The thread.
            run: The run.
            claimed_by: The person who has claimed the waits.
            text: Part of the arguments, of the thread's id or of its title.
            decided: Whether decided waits are listed, too.
            limit: The most to return.
            offset: Waits to skip before the first.
        """
        filters = having(
            waits, agent=agent, tool=tool, thread_id=thread, run=run, claimed_by=claimed_by
        )
        query = select(waits).where(*self._own, *filters)
        if not decided:
            query = query.where(_IS_OPEN)
        if thread is None:
            query = query.where(_FOR_PEOPLE)
        if text:
            # Escaped, since a person may look for "%" and "_".
            columns = (waits.c.args, waits.c.thread_id, threads.c.title)
            args, id, title = (column.icontains(text, autoescape=True) for column in columns)
            with_title = waits.c.thread_id.in_(select(threads.c.thread_id).where(title))
            query = query.where(args | id | with_title)
        query = query.order_by(waits.c.priority.desc(), waits.c.created_at)
        return self._waits(query.limit(limit).offset(offset))

    def find(
        self,
        *,
        ids: Collection[str] | None = None,
        threads: Collection[str] | None = None,
        undecided: bool = False,
        limit: int = 500,
    ) -> list[Wait]:
        """Waits by their ids or by their threads, the newest first.

        Args:
            ids: The ids; None takes all.
            threads: The threads; None takes all.
            undecided: Whether decided waits are left out.
            limit: The most to return.
        """
        query = select(waits).where(*self._own)
        for column, values in ((waits.c.wait_id, ids), (waits.c.thread_id, threads)):
            if values is not None:
                query = query.where(column.in_(values))
        if undecided:
            query = query.where(_IS_OPEN)
        query = query.order_by(waits.c.created_at.desc(), waits.c.wait_id)
        return self._waits(query.limit(limit))

    def _waits(self, query: Select[Any]) -> list[Wait]:
        # The time is in each row: claims expire by the clock of the database.
        rows = self._database.rows(query.add_columns(self._database.now.label("now")))
        return [Wait.of(row, row.now) for row in rows]

    def count(self) -> int:
        """Count the undecided waits, without calls that a client runs."""
        query = select(func.count()).where(_IS_OPEN, _FOR_PEOPLE, *self._own)
        (number,) = self._database.values(query)
        return int(number)

    def tools(self) -> list[str]:
        """The tools of the undecided waits, without calls that a client runs."""
        query = select(waits.c.tool).where(_IS_OPEN, _FOR_PEOPLE, *self._own).distinct()
        return sorted(self._database.values(query))

    def get(self, wait_id: str) -> Wait:
        """One wait, also a decided one.

        Raises:
            NotFound: The tenant has no such wait.
        """
        for wait in self.find(ids=[wait_id]):
            return wait
        raise _missing(wait_id)

    def claim(self, wait_id: str, *, by: str, seconds: float = CLAIM_SECONDS) -> Wait:
        """Claim a wait for one person, or extend a claim.

        Args:
            wait_id: The wait.
            by: The person.
            seconds: The time for which the claim holds.

        Raises:
            NotFound: There is no such wait.
            AlreadyDecided: The wait is decided.
            ClaimedByOther: Somebody else has claimed the wait.
        """
        return self._claim(wait_id, by, self._database.now + seconds, "claim")

    def release(self, wait_id: str, *, by: str) -> Wait:
        """Give a claim back.

        Raises:
            NotFound: There is no such wait.
            AlreadyDecided: The wait is decided.
            ClaimedByOther: Somebody else has claimed the wait.
        """
        return self._claim(wait_id, by, None, "release")

    def _claim(self, wait_id: str, by: str, until: ColumnElement[float] | None, what: str) -> Wait:
        # Before the transaction: `may_decide` is code of the product, and may be slow.
        self._check_right(self.get(wait_id), by)
        with self._database.begin() as connection:
            row = self._lock(connection, wait_id, by)
            if row.decided_at is not None:
                raise AlreadyDecided(f"wait {wait_id!r}", _decided_text(row))
            this = update(waits).where(waits.c.wait_id == wait_id)
            owner = None if until is None else by
            connection.execute(this.values(claimed_by=owner, claimed_until=until))
            self._queue.record(connection, row, by, what)
        return self.get(wait_id)

    def decide(
        self,
        wait_id: str,
        decision: Mapping[str, object],
        *,
        by: str,
        roles: Collection[str] = (),
        undo: bool = False,
        via: Via = "python",
    ) -> str:
        """Decide about a wait, and continue the run once all of its waits are decided.

        The same decision again changes nothing. A refused decision changes nothing either, and can
        be made again.

        Args:
            wait_id: The wait.
            decision: The decision, as `agent_factory.review.Decision`.
            by: Who decides.
            roles: The roles of this person.
            undo: With "reject": end the run here, and undo its effects.
            via: The interface through which the decision came, for the audit.

        Returns:
            The id of the run.

        Raises:
            NotFound, AlreadyDecided, ClaimedByOther: As in `Service.decide`.
            DecisionForbidden, InvalidDecision, DecisionNotAllowed: As in `Service.decide`.
        """
        return self._decide({wait_id: decision}, by, roles, via, undo=undo)

    def decide_together(
        self,
        decisions: Mapping[str, Mapping[str, object]],
        *,
        by: str,
        roles: Collection[str] = (),
        stream: Collection[str] | None = None,
        via: Via = "python",
    ) -> str:
        """Decide about several waits of one run: about all, or about none.

        The errors, the result and further arguments are those of `decide`.

        Args:
            decisions: Decisions by the ids of the waits.
            by: Who decides.
            roles: The roles of this person.
            stream: The modes recorded for `Run.stream`; None takes the modes of the run.
            via: The interface through which the decisions came, for the audit.
        """
        return self._decide(decisions, by, roles, via, stream=stream)

    def _decide(
        self,
        decisions: Mapping[str, object],
        by: str,
        roles: Collection[str],
        via: Via,
        *,
        undo: bool = False,
        stream: Collection[str] | None = None,
    ) -> str:
        # Without a lock: judging a decision reads the thread, and calls `may_decide`.
        judgements = {
            id_: self.judge(id_, decision, by=by, roles=roles)
            for id_, decision in decisions.items()
        }
        judged = [each for each in judgements.values() if isinstance(each, Judgement)]
        kinds = {judgement.decision["type"] for judgement in judged}
        if undo and kinds - {"reject"}:
            reason = f"goes with 'reject' only, got {', '.join(kinds)}."
            raise ArgumentError("undo", reason, "Reject the call, or leave undo out.")
        run = ""
        with self._database.begin() as connection:
            for wait_id, judgement in judgements.items():
                row = self._lock(connection, wait_id, by)
                run = row.run
                if row.decided_at is not None:
                    decided = json.loads(row.decision)
                    if isinstance(judgement, Judgement) and judgement.decision == decided:
                        continue
                    raise AlreadyDecided(f"wait {wait_id!r}", _decided_text(row))
                if isinstance(judgement, ReviewError):
                    # After the check above: a decided wait keeps its first decision, and says so
                    # whatever the second one is.
                    raise judgement
                self._write(connection, row, judgement, by, via, continues=not undo, stream=stream)
                if undo:
                    self._queue.end_run(connection, row, by, undo=True)
        return run

    def judge(
        self, wait_id: str, decision: object, *, by: str, roles: Collection[str] = ()
    ) -> Judgement | ReviewError:
        """The judgement about a decision, or the error of a refusal. Nothing changes.

        The arguments are those of `decide`.

        Raises:
            NotFound: There is no such wait.
            DecisionForbidden: `may_decide` does not allow the decision, or the call of an edit.
        """
        wait = self.get(wait_id)
        self._check_right(wait, by)
        agent = self._backend.agents.get(wait.agent)
        judge_one: Judge = judge
        if agent is not None:
            place: RunnableConfig = {"configurable": {"thread_id": wait.thread_id}}
            graph = agent.stored_in(FencedSaver(self._database))
            judge_one = Reviews.of(graph).judge(lambda: graph.get_state(place).values)
        try:
            if not wait.is_for(by, roles):
                hint = f"Reviewers: {', '.join(wait.reviewers)}. A person is named with '@'; the "
                hint += "others are roles."
                raise DecisionNotAllowed(wait.tool, f"{by!r} {_MAY_NOT}", hint)
            judgement = judge_one(_call_of(wait), decision)
            # The decision is stored as JSON later, when a row is locked.
            if (fault := json_fault(judgement.decision)) is not None:
                text = f"a decision is stored as JSON: {place_of(fault[0])} {fault[1]}"
                raise InvalidDecision(wait.tool, text)
        except ReviewError as error:
            return error
        if "remember" in judgement.decision:
            # Last, so that a client cannot name another person.
            judgement.decision["remember"] = {**judgement.decision["remember"], "by": by}
        runs = judgement.runs
        if runs is not None and judgement.decision["type"] == "edit":
            self._check_right(replace(wait, tool=runs["name"], args=runs["args"]), by)
        return judgement

    def _write(
        self,
        connection: Connection,
        row: Row[Any],
        judgement: Judgement,
        by: str,
        via: Via,
        *,
        continues: bool = True,
        stream: Collection[str] | None = None,
    ) -> None:
        decision = judgement.decision
        this = update(waits).where(waits.c.wait_id == row.wait_id)
        values = {"decided_at": self._database.now, "decided_by": by}
        connection.execute(this.values(**values, decision=json.dumps(decision)))
        # Waits of this job: earlier pauses of the run had other jobs.
        together = select(waits).where(waits.c.run == row.run, waits.c.job == row.job)
        rows = connection.execute(together).all()
        if continues and all(wait.decided_at is not None for wait in rows):
            job = DecisionJob.for_run(
                row,
                priority=min(row.priority, HIGHEST_PRIORITY),  # of an escalated wait
                trace=traceparent(),
                decisions={wait.digest: json.loads(wait.decision) for wait in rows},
                stream=None if stream is None else sorted(stream),
            )
            self._queue.queue(connection, job)
        detail = {
            "decision": decision,
            "call": {"id": row.call_id, "name": row.tool, "args": json.loads(row.args)},
            "runs": judgement.runs,
            "via": via,
        }
        self._queue.record(connection, row, by, decision["type"], detail)

    def expire(
        self, late: Mapping[str, float], is_stopping: Callable[[], bool] = lambda: False
    ) -> int:
        """Decide about waits after their deadline; return the number of decided waits.

        Each wait is a transaction, and a wait with a fault holds up no other wait. A wait whose
        thread is locked comes later, as in `ThreadQueue.take_over`. `late` has the seconds for an
        escalated wait, by agent.
        """
        is_late = waits.c.deadline < self._database.now
        query = select(waits.c.wait_id, waits.c.thread_id).where(_IS_OPEN, is_late)
        # All: a part of them could be nothing but locked threads and faults.
        places = self._database.rows(query.order_by(waits.c.deadline))
        number = 0
        for wait_id, thread_id in places:
            if is_stopping():
                break
            fault = logged("Wait %s was not decided at its deadline.", wait_id)
            with fault, self._database.begin() as connection:
                if lock_thread(connection, thread_id, skip_locked=True) is not None:
                    self._expire(connection, self._find(connection, wait_id), late)
                    number += 1
        return number

    def _expire(self, connection: Connection, row: Row[Any], late: Mapping[str, float]) -> None:
        if row.decided_at is not None:
            return
        # A claim does not stop a deadline.
        if row.late == "escalate":
            more = self._database.now + late.get(row.agent, CLAIM_SECONDS)
            values = {"priority": waits.c.priority + 1, "late": "reject", "deadline": more}
            values |= {"claimed_by": None, "claimed_until": None}
            connection.execute(update(waits).where(waits.c.wait_id == row.wait_id).values(values))
            self._queue.record(connection, row, SYSTEM, "escalate")
            return
        # A question has no "reject": the text is its answer.
        text = "Nobody decided about this call in time, so it was not approved."
        answers: dict[str, object] = {"reject": text, "respond": text}
        if row.kind == "client":
            result = {"error": "The client has not sent a result of this call in time."}
            answers["respond"] = result
        allowed = row.allowed.split(",")
        kind = next((kind for kind in answers if kind in allowed), None)
        if kind is not None:
            # At time 0 no claim has expired; claims do not matter for the call.
            call = _call_of(Wait.of(row, 0))
            judgement = judge(call, {"type": kind, "message": answers[kind]})
            self._write(connection, row, judgement, SYSTEM, "deadline")
        else:  # a pause without calls: the run can go on, or end
            self._queue.end_run(connection, row, SYSTEM)

    def audit(
        self,
        *,
        thread: str | None = None,
        who: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[AuditEntry]:
        """Entries of the audit, the newest first; a filter of None takes all.

        Args:
            thread: The thread.
            who: The person.
            before: A number of an entry: entries from this number on are left out.
            limit: The most to return.
        """
        filters = having(audit, who=who, tenant=self._tenant, thread_id=thread)
        query = select(audit).where(*filters).order_by(audit.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.id < before)
        return [AuditEntry.of(row) for row in self._database.rows(query)]

    def _check_right(self, wait: Wait, by: str) -> None:
        """Raise DecisionForbidden if a person may not decide about a call that no client runs."""
        if wait.kind == "client":
            return
        if self._may_decide is not None and not self._may_decide(wait):
            hint = "Somebody who may decide about it has to."
            raise DecisionForbidden(wait.tool, f"{by!r} {_MAY_NOT}", hint)

    def _find(self, connection: Connection, wait_id: str) -> Row[Any]:
        query = select(waits).where(waits.c.wait_id == wait_id, *self._own)
        if (row := connection.execute(query).first()) is None:
            raise _missing(wait_id)
        return row

    def _lock(self, connection: Connection, wait_id: str, by: str) -> Row[Any]:
        """The row of a wait, with its thread locked; ClaimedByOther if another has a claim."""
        lock_thread(connection, self._find(connection, wait_id).thread_id)
        # Again: somebody may have decided before the thread was locked.
        row = self._find(connection, wait_id)
        # A decided wait passes: the caller names the person who decided.
        if row.claimed_by in (None, by) or row.decided_at is not None:
            return row
        query = select(waits.c.wait_id).where(waits.c.claimed_until > self._database.now)
        if connection.execute(query.filter_by(wait_id=wait_id)).first() is not None:
            hint = "Decide about another one, or wait until the claim is released or expires."
            raise ClaimedByOther(f"wait {wait_id!r}", f"is claimed by {row.claimed_by!r}.", hint)
        return row


def _call_of(wait: Wait) -> PendingCall:
    return PendingCall(
        # A pause has no call.
        wait.call_id or wait.id,
        wait.tool,
        wait.args,
        cast("Kind", wait.kind),
        cast("tuple[DecisionType, ...]", wait.allowed),
        call_digest=wait.call_digest,
        remember=wait.remember,
        digest=wait.digest,
    )


def _missing(wait_id: str) -> NotFound:
    return NotFound(f"wait {wait_id!r}", "does not exist.", "inbox().waits() shows all.")


def _decided_text(row: Row[Any]) -> str:
    kind = json.loads(row.decision)["type"]
    return f"was decided before: {kind!r} by {row.decided_by!r}."
