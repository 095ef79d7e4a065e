"""Steering: messages that the running run reads before its end.

A steered message waits in the queue of its thread, behind the run. The run takes the message out of
the queue when it reads the message; an unread message becomes the next run. So each message is read
once, in any order of events:

- After `submit`, the message is in the queue. Two statements take messages out:
  `SharedMailbox.note` in the transaction of the checkpoint with the message, and
  `ThreadQueue.queue` for a run that begins with the message.
- Both statements lock the row of the thread: a checkpoint is stored under the lease, and the next
  run is queued when the row says that the run has ended. So one statement comes first.
- If the checkpoint comes first, the next run is another message.
- If the end of the run comes first, no checkpoint of the run follows.
- A message after the end of the run finds an idle thread, and begins a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from langchain_core.messages import HumanMessage
from sqlalchemy import Column, Connection, Row, Select, bindparam, func, select, update

from agent_factory.middleware.steering import STEERING_READ
from agent_factory.service.database import Database
from agent_factory.service.jobs import MessageJob, load_input, read_job
from agent_factory.service.leases import Lease, aborting
from agent_factory.service.signals import Signals
from agent_factory.service.tables import runs
from agent_factory.types import Graph

STEER = "steer"
"""The value of `busy` for a message to the run under way."""

_WAITING = (
    select(runs.c.payload)
    .where(
        runs.c.thread_id == bindparam("id"),
        runs.c.job.is_(None),
        runs.c.status == "queued",
        # Without loading all payloads; `_readable` checks the value itself.
        runs.c.payload.contains(f'"busy": "{STEER}"'),
    )
    .order_by(runs.c.seq)
)

_reader = runs.alias("reader_runs")
_SHARED = ("status", "job", "checkpoint_id", "error", "updated_at")


def _with_readers(columns: Iterable[Column[Any]]) -> Select[Any]:
    """Columns of a run, with the outcome of the run that has read its message."""
    of_outcome = (
        func.coalesce(_reader.c[column.name], column).label(column.name)
        if column.name in _SHARED
        else column
        for column in columns
    )
    both = runs.outerjoin(_reader, _reader.c.run_id == runs.c.reader)
    return select(*of_outcome).select_from(both).where(runs.c.run_id == bindparam("id"))


_ROW = _with_readers(runs.c)
_OUTCOME = _with_readers(runs.c[name] for name in (*_SHARED, "agent", "reader"))

STATUS = func.coalesce(
    select(_reader.c.status).where(_reader.c.run_id == runs.c.reader).scalar_subquery(),
    runs.c.status,
)
"""The status of a run, as in `run_row`."""

_SETTINGS = ("agent", "context", "config", "interrupt_before", "interrupt_after")


def run_row(connection: Connection, run: str, *, whole: bool = True) -> Row[Any] | None:
    """The row of a run, with the outcome of the run that has read its message, if any.

    Unless `whole`, only the columns of the outcome, the agent and the reader are read.
    """
    return connection.execute(_ROW if whole else _OUTCOME, {"id": run}).first()


def can_be_steered(graph: Graph) -> bool:
    """Return True if an agent reads messages while it runs: it has SteeringMiddleware.

    Args:
        graph: The agent.

    >>> from agent_factory import create_agent
    >>> from agent_factory.middleware import SteeringMiddleware
    >>> from agent_factory.testing import ScriptedChatModel
    >>> model = ScriptedChatModel(["Hello!"])
    >>> can_be_steered(create_agent(model))
    False
    >>> can_be_steered(create_agent(model, middleware=[SteeringMiddleware()], ignore=["AF211"]))
    True
    """
    return STEERING_READ in graph.channels


class SharedMailbox:
    """Mailbox of one run, which began with a message, in the queue of its thread."""

    def __init__(self, database: Database, signals: Signals, lease: Lease, run: MessageJob) -> None:
        self._database, self._signals, self._lease, self._run = database, signals, lease, run

    @property
    def thread(self) -> str:
        """The id of the run's thread."""
        return self._lease.thread_id

    def messages(self) -> dict[str, HumanMessage]:
        """The waiting messages, in order. The last message of a run has the id of the run."""
        with aborting():
            payloads = self._database.values(_WAITING, {"id": self.thread})
        waiting: dict[str, HumanMessage] = {}
        for job in map(read_job, payloads):
            # A job that undoes a run waits for its turn, too.
            if not isinstance(job, MessageJob):
                continue
            messages = self._readable(job)
            for number, message in enumerate(messages, 1):
                is_last = number == len(messages)
                waiting[job.run if is_last else f"{job.run}/{number}"] = message
        return waiting

    def _readable(self, job: MessageJob) -> list[HumanMessage]:
        """The messages of a job; none if the job has more than messages, and must be a run."""
        same = all(getattr(job, name) == getattr(self._run, name) for name in _SETTINGS)
        elsewhere = job.checkpoint or job.begins_at
        inputs = load_input(job.input)
        # A run has one context and one config to its end. An input with other keys of the state
        # would change the state between two steps of the run.
        if job.busy != STEER or not same or elsewhere or inputs is None or len(inputs) > 1:
            return []
        messages = inputs["messages"]
        return messages if all(isinstance(each, HumanMessage) for each in messages) else []

    def note(self, connection: Connection, ids: Collection[str]) -> None:
        """Take read messages out of the queue, in the transaction of their checkpoint."""
        # Also a message that was cancelled after this run has read it: the thread has it.
        statement = (
            update(runs)
            .where(runs.c.run_id.in_(ids), runs.c.thread_id == self.thread)
            .where(runs.c.job.is_(None), runs.c.reader.is_(None))
            .values(status="done", reader=self._run.run)
            .returning(runs.c.run_id)
        )
        if read := connection.execute(statement).scalars().all():
            self._signals.send(connection, {"jobs": (), "ends": read})
