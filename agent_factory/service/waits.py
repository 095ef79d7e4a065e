"""Waits: tool calls and questions for which a thread waits, as rows of the database."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select, update

from agent_factory.review import Pending
from agent_factory.service.backend import RegisteredAgent
from agent_factory.service.database import Database
from agent_factory.service.jobs import ThreadJob
from agent_factory.service.rows import read_row
from agent_factory.service.tables import questions, runs, threads, waits


@dataclass(frozen=True, slots=True)
class Wait:
    """A tool call, or another question, for which a thread waits.

    Args:
        id: The id.
        thread_id: The thread.
        tenant: The tenant of the thread.
        agent: The name of the agent.
        run: The id of the run that waits.
        tool: The tool; for a question without a call, the node.
        kind: The kind, as `agent_factory.review.PendingCall.kind`.
        args: The arguments of the call.
        question: The question.
        allowed: The allowed decisions.
        priority: Higher is more urgent.
        created_at: The begin; all times are seconds since 1970, by the database's clock.
        deadline: The time of a decision without a person, if set.
        claimed_by: Who has a claim that has not expired.
        claimed_until: The end of the claim.
        decided_at: The time of the decision.
        decided_by: Who decided.
        decision: The decision.
        checkpoint_id: The checkpoint at which the thread waits.
        digest: Names the call, with its tool and its arguments, and this wait:
            `agent_factory.review` takes the digest in place of the call's id.
        call_id: The id of the call, as `agent_factory.review.PendingCall.id`.
        call_digest: The digest of the tool and the arguments, which an approval names. Empty for a
            question.
        reviewers: Who may decide: roles, and people as "@ann"; empty for everybody.
        remember: The longest time in seconds of an approval for later calls; None allows none.
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

    def is_for(self, name: str, roles: Collection[str]) -> bool:
        """True if a person is one of the reviewers, by name or by role."""
        # With "@", since a person may have chosen the name of a role.
        marks = {f"@{name}", *(role for role in roles if not role.startswith("@"))}
        return not self.reviewers or not marks.isdisjoint(self.reviewers)

    @classmethod
    def of(cls, row: Row[Any], now: float) -> Wait:
        """The wait of a row, at a time by the clock of the database."""
        texts = ("args", "question", "decision")
        values: dict[str, Any] = {name: json.loads(getattr(row, name) or "null") for name in texts}
        values |= {"allowed": tuple(row.allowed.split(",")), "reviewers": tuple(row.reviewers)}
        if row.claimed_until is not None and row.claimed_until < now:  # the claim has expired
            values |= {"claimed_by": None, "claimed_until": None}
        return read_row(cls, row, id=row.wait_id, **values)


def write_waits(
    connection: Connection,
    database: Database,
    agent: RegisteredAgent,
    work: ThreadJob,
    waiting_for: Pending,
    place: Mapping[str, object],
) -> None:
    """Write the waits of a thread; each attempt of a job writes the same rows.

    `place` has the id of the `job` and the `checkpoint_id`; of a run that pauses now, its `usage`,
    its `steps` and the agent's `plan`, too.
    """
    calls: list[dict[str, object]] = [
        {
            "call_id": call.id,
            "digest": call.digest,
            "tool": call.name,
            "kind": call.kind,
            # Without escapes, since `Inbox.waits(text=...)` searches in this text.
            "args": json.dumps(call.args, default=str, ensure_ascii=False),
            "question": json.dumps(call.question, default=str),
            "allowed": ",".join(call.allowed),
            "call_digest": call.call_digest,
            "reviewers": [*call.reviewers],
            "remember": call.remember,
        }
        for call in waiting_for.calls
    ]
    # At a pause without calls, one wait stands for the pause.
    if not calls:
        nothing = {"call_id": "", "digest": "", "args": "{}", "question": "null"}
        calls = [{**nothing, "tool": waiting_for.next[0], "kind": "pause", "allowed": "approve"}]
    now, within = database.now, agent.review_within
    for call in calls:
        key = f"{place['job']} {call['digest'] or call['tool']}"
        row = database.insert(waits).values(
            **call,
            # The same id in each attempt, so that the row of an earlier attempt stays.
            wait_id=hashlib.sha256(key.encode()).hexdigest()[:16],
            thread_id=work.thread,
            tenant=work.tenant,
            agent=agent.name,
            run=work.run,
            job=place["job"],
            priority=work.priority,
            created_at=now,
            deadline=None if within is None else now + within,
            late=agent.late,
            checkpoint_id=place["checkpoint_id"],
            # People do not decide about a call that a client runs.
            notice_due=now if agent.notices and call["kind"] != "client" else None,
        )
        connection.execute(row.on_conflict_do_nothing())
    of_thread = {key: place[key] for key in ("plan",) if key in place}
    of_run = {key: place[key] for key in ("checkpoint_id", "usage", "steps") if key in place}
    of_thread |= {"run": work.run, "owner": None, "updated_at": now}
    paused = {"status": "waiting", "error": None}
    connection.execute(update(threads).filter_by(thread_id=work.thread).values(paused | of_thread))
    connection.execute(update(runs).filter_by(run_id=work.run).values(paused | of_run))


def unused_decisions(
    database: Database, thread: str, job: str, waiting_for: Pending, decisions: Mapping[str, Any]
) -> dict[str, Any]:
    """The decisions that no task of a job has taken, by the digests of their calls.

    Each call is a task. Of the tasks of a dead worker, some have stored the outcome of their
    decision. A task that has raised another interrupt has taken its decision, also if the next
    question is the same: another reviewer may ask it.
    """
    query = select(questions.c.interrupt_id).filter_by(thread_id=thread, job=job)
    asked_again = {*database.values(query)}
    calls = waiting_for.calls
    still_open = {call.digest for call in calls if call.interrupt_id not in asked_again}
    if not calls:
        still_open = {""}
    return {digest: decisions[digest] for digest in decisions if digest in still_open}
