"""List of runs: the newest first, with what each was asked and what it has cost."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, case, func, or_, select

from agent_factory.service.errors import ServiceError
from agent_factory.service.jobs import MessageJob, read_job
from agent_factory.service.steering import STATUS
from agent_factory.service.tables import runs, threads

Status = Literal["queued", "held", "running", "waiting", "done", "failed", "cancelled"]
"""State of a run.

- "queued": no worker has begun with it.
- "held": its thread waits for a review; the message follows the decision.
- "running": a worker works on it.
- "waiting": it is paused and waits for decisions.
- "done", "failed", "cancelled": it has ended.
"""

LOOK_BACK = 5_000
"""The most runs that one search looks at."""

ENDED = frozenset({"done", "failed", "cancelled"})
"""States in which a run has ended."""

_IS_HELD = runs.c.job.is_(None) & (threads.c.status == "waiting")
# The table has "queued" for both: the thread knows which it is.
_STATE = case((STATUS != "queued", STATUS), (_IS_HELD, "held"), else_="queued").label("state")
_SUMMARIES = select(runs, _STATE, threads.c.title).select_from(
    runs.outerjoin(threads, threads.c.thread_id == runs.c.thread_id)
)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Run in a list.

    Args:
        id: Its id.
        thread_id: The thread.
        title: The title of the thread.
        agent: The agent.
        status: Where it is, as `Run.status`.
        question: What the user has written; "" if it only goes on.
        error: Why it has failed.
        created_at: When it was submitted, in seconds since 1970, by the database's clock.
        started_at: When a worker has first taken it.
        ended_at: When it has ended; None if it has not.
        input_tokens: Tokens that its model calls have read.
        output_tokens: Tokens that they have written.
        usd: What they have cost, in US dollars; 0.0 if no price is known.
    """

    id: str
    thread_id: str
    title: str | None
    agent: str
    status: Status
    question: str
    error: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    input_tokens: int
    output_tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class RunList:
    """Part of the list of runs.

    Args:
        runs: The runs, the newest first.
        before: Where the next part begins, for `search_runs(before=...)`; None at the end.
        is_full: Whether it has as many runs as were asked for. If not, and there is a next part,
            the search has looked at as many runs as one search may.
    """

    runs: list[RunSummary]
    before: int | None
    is_full: bool


def run_list(
    connection: Connection,
    *,
    tenant: str | None,
    agent: str | None,
    status: Collection[str] | None,
    since: float | None,
    text: str | None,
    before: int | None,
    limit: int,
) -> RunList:
    """Runs that match, from a window of the newest: no search reads more than that.

    Args:
        connection: The connection.
        tenant: Only those of this tenant.
        agent: Only those of this agent.
        status: Only those in one of these states.
        since: Only those that were submitted since then.
        text: What the question or the title of the thread contains, or an id of the run or thread
            begins with.
        before: Where the list begins.
        limit: The most runs.
    """
    # Without filters, the first rows are those of the list: none has to be looked for.
    is_filtered = any((agent, status, since, text))
    newest = select(runs.c.seq).order_by(runs.c.seq.desc())
    newest = newest.limit(LOOK_BACK if is_filtered else limit + 1)
    if tenant is not None:
        newest = newest.where(runs.c.tenant == tenant)
    if before is not None:
        newest = newest.where(runs.c.seq < before)
    # The numbers alone: the rows have payloads, of which only those that match are read.
    window = newest.subquery()
    query = _SUMMARIES.join(window, runs.c.seq == window.c.seq).order_by(runs.c.seq.desc())
    query = query.limit(limit + 1)
    if agent is not None:
        query = query.where(runs.c.agent == agent)
    if status is not None:
        query = query.where(_STATE.in_(status))
    if since is not None:
        query = query.where(runs.c.created_at >= since)
    if text:
        # Escaped: somebody who writes "%" or "_" looks for that sign.
        ids = (runs.c.run_id, runs.c.thread_id)
        begins = [column.startswith(text, autoescape=True) for column in ids]
        texts = (threads.c.title, runs.c.question)
        contain = [column.icontains(text, autoescape=True) for column in texts]
        query = query.where(or_(*contain, *begins))
    rows = connection.execute(query).all()
    found = [summary_of(row) for row in rows[:limit]]
    if len(rows) > limit:
        return RunList(found, rows[limit - 1].seq, is_full=True)
    if not is_filtered:
        return RunList(found, None, is_full=False)
    count, oldest = connection.execute(
        select(func.count(), func.min(window.c.seq)).select_from(window)
    ).one()
    return RunList(found, oldest if count == LOOK_BACK else None, is_full=False)


def summary_of(row: Row[Any]) -> RunSummary:
    """Summary of a row of runs that has the columns `state` and `title`, too."""
    usage = row.usage or ()
    return RunSummary(
        id=row.run_id,
        thread_id=row.thread_id,
        title=row.title,
        agent=row.agent,
        status=row.state,
        question=question_of(row.payload),
        error=row.error,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.updated_at if row.state in ENDED else None,
        input_tokens=sum(line["input_tokens"] for line in usage),
        output_tokens=sum(line["output_tokens"] for line in usage),
        usd=sum(line["usd"] for line in usage),
    )


def question_of(payload: str) -> str:
    """What the user has written last in the message of a run; "" if nothing."""
    try:
        job = read_job(payload)
    except ServiceError:  # a newer version has stored it
        return ""
    return job.question if isinstance(job, MessageJob) else ""


def run_summary(connection: Connection, run: str) -> RunSummary | None:
    """Summary of one run; None if there is none."""
    row = connection.execute(_SUMMARIES.where(runs.c.run_id == run)).first()
    return None if row is None else summary_of(row)
