"""Branches: the lines of a thread's history. A thread goes on from the end of the newest."""

from __future__ import annotations

from sqlalchemy import column, select, table

from agent_factory.service.backend import Backend

_CHECKPOINTS = table(  # of LangGraph's savers, on SQLite and on Postgres
    "checkpoints",
    column("thread_id"),
    column("checkpoint_ns"),
    column("checkpoint_id"),
    column("parent_checkpoint_id"),
)


def branches_of(backend: Backend, thread: str, limit: int) -> list[list[str]]:
    """The branches of a thread, the newest first: the ids of checkpoints, each end first."""
    names = _CHECKPOINTS.c
    query = select(names.checkpoint_id, names.parent_checkpoint_id).where(
        names.thread_id == thread, names.checkpoint_ns == ""
    )
    with backend.database.read() as connection:
        rows = connection.execute(query).all()
    parents: dict[str, str | None] = {row.checkpoint_id: row.parent_checkpoint_id for row in rows}
    # The ids of checkpoints grow with time.
    ends = sorted(parents.keys() - parents.values(), reverse=True)
    branches = []
    for end in ends[:limit]:
        # The first checkpoint of a thread has no parent.
        branch = [end]
        while (parent := parents.get(branch[-1])) is not None:
            branch.append(parent)
        branches.append(branch)
    return branches
