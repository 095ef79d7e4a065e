"""Leases: only the process with the lease of a thread can write to the thread.

A lease is a number, the epoch of the thread. Taking the lease raises the epoch, so that an older
holder notices: a process that was stopped, given up and came back. Each write checks the epoch in
its transaction. No epoch is used twice for an id: a thread that was deleted and created again
begins at another random number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import randbits

from langchain_core.callbacks import BaseCallbackHandler
from sqlalchemy import Connection, update

from agent_factory.service.database import Database, driver_connection
from agent_factory.service.errors import DatabaseLost, DatabaseUnavailable, LeaseLost
from agent_factory.service.tables import threads

# For the driver itself: each write of a run executes this, and SQLAlchemy takes ten times as long.
# `{0}` stands for the placeholder of the driver. FOR SHARE keeps another process from taking the
# lease before this transaction ends; SQLite has one writer at a time.
_QUERY = f"SELECT 1 FROM {threads.name} WHERE thread_id = {{0}} AND epoch = {{0}}"
_QUERIES = {"sqlite": _QUERY.format("?"), "postgresql": _QUERY.format("%s") + " FOR SHARE"}


def first_number() -> int:
    """First number of the epochs, or of the jobs, of a new thread.

    A deleted thread may be created again under its id, while a process still works for the old
    thread: random numbers do not come again. A counter in the database would begin again after a
    restore from a backup.

    >>> first_number() != first_number()
    True
    """
    return randbits(62)  # room to count on in a column of 64 bits


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to a thread. A lost lease has a lower epoch than the thread."""

    thread_id: str
    epoch: int

    @property
    def epochs(self) -> tuple[int, int]:
        """Epochs of a thread that still runs the job of this lease.

        At the second epoch, the holder has taken the lease again, and the commit had no answer.
        Between two claims of a job, the epoch rises twice: when the job is given back, and then.
        """
        return self.epoch, self.epoch + 1

    def check(self, connection: Connection) -> None:
        """Raise LeaseLost if the lease is lost; else lock the lease until the transaction ends."""
        question = _QUERIES[connection.dialect.name]
        cursor = driver_connection(connection).execute(question, (self.thread_id, self.epoch))
        if cursor.fetchone() is None:
            raise LeaseLost(f"The lease {self.epoch} of thread {self.thread_id!r} is lost.")


def take_lease(connection: Connection, thread_id: str, **values: object) -> Lease:
    """Take the lease from any holder, and set columns of the thread's row."""
    statement = update(threads).filter_by(thread_id=thread_id).returning(threads.c.epoch)
    row = connection.execute(statement.values(epoch=threads.c.epoch + 1, **values)).first()
    if row is None:
        raise LookupError(f"There is no thread {thread_id!r}.")
    return Lease(thread_id, row.epoch)


@contextmanager
def aborting() -> Iterator[None]:
    """Abort the run if the database is not available."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise DatabaseLost(str(error)) from error


class Fence(BaseCallbackHandler):
    """Callback handler that checks the lease before each tool call."""

    raise_error = True  # LangChain only logs errors of a handler otherwise
    run_inline = True  # in the thread of the tool, before it runs
    ends_with_run = True  # work in the background goes on without the lease
    ignore_llm = ignore_chat_model = ignore_chain = ignore_retriever = ignore_retry = True

    def __init__(self, database: Database, lease: Lease) -> None:
        super().__init__()
        self._database, self._lease = database, lease

    def on_tool_start(self, serialized: Mapping[str, object], input_str: str, **_: object) -> None:
        """Raise LeaseLost before a tool runs for a run that has ended."""
        # A read: no commit waits for the disk.
        with aborting(), self._database.read() as connection:
            self._lease.check(connection)
