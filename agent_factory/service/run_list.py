"""List of runs: the newest first, with their questions and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Row, case, select

from agent_factory.service.errors import ServiceError
from agent_factory.service.jobs import MessageJob, read_job
from agent_factory.service.rows import read_row
from agent_factory.service.steering import STATUS
from agent_factory.service.tables import runs, threads

Status = Literal["queued", "held", "running", "waiting", "done", "failed", "cancelled"]
"""State of a run.

- "queued": no worker has begun the run.
- "held": the thread waits for a review; the message follows the decision.
- "running": a worker carries out the run.
- "waiting": the run is paused and waits for decisions.
- "done", "failed", "cancelled": the run has ended.
"""

LOOK_BACK = 5_000
"""The most runs that one search looks at."""

ENDED = frozenset({"done", "failed", "cancelled"})
"""States in which a run has ended."""

_IS_HELD = runs.c.job.is_(None) & (threads.c.status == "waiting")
# The table has "queued" for both: the thread knows which it is.
STATE = case((STATUS != "queued", STATUS), (_IS_HELD, "held"), else_="queued").label("state")
SUMMARIES = select(runs, STATE, threads.c.title).select_from(
    runs.outerjoin(threads, threads.c.thread_id == runs.c.thread_id)
)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Run in a list.

    Args:
        id: The id.
        thread_id: The thread.
        title: The title of the thread.
        agent: The agent.
        status: The state, as `Run.status`.
        question: The text of the user; "" for a run without a message.
        error: The error of a failed run.
        created_at: The time of submission, in seconds since 1970, by the database's clock.
        started_at: When a worker first took the run.
        ended_at: The end; None before.
        input_tokens: Tokens that the model calls have read.
        output_tokens: Tokens that the model calls have written.
        usd: Cost of the model calls in US dollars; 0.0 if no price is known.
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
        before: Begin of the next part, for `search_runs(before=...)`; None at the end.
        is_full: Whether the part has `limit` runs. If not, and a next part exists, the search has
            reached its limit of runs.
    """

    runs: list[RunSummary]
    before: int | None
    is_full: bool


def summary_of(row: Row[Any]) -> RunSummary:
    """Summary of a row of runs that has the columns `state` and `title`, too."""
    usage, amounts = row.usage or (), ("input_tokens", "output_tokens", "usd")
    return read_row(
        RunSummary,
        row,
        id=row.run_id,
        status=row.state,
        question=question_of(row.payload),
        ended_at=row.updated_at if row.state in ENDED else None,
        **{name: sum(line[name] for line in usage) for name in amounts},
    )


def question_of(payload: str) -> str:
    """The last text of the user in the message of a run; "" without one."""
    try:
        job = read_job(payload)
    except ServiceError:  # a newer version has stored it
        return ""
    return job.question if isinstance(job, MessageJob) else ""
