"""FencedSaver: stores checkpoints in the database of the service, under a lease."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from threading import RLock
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import START
from langgraph.types import Interrupt
from sqlalchemy import Connection, delete, text

from agent_factory.middleware.steering import STEERING_READ
from agent_factory.service.database import Database, driver_connection
from agent_factory.service.jobs import RUN_KEY
from agent_factory.service.leases import Lease, aborting
from agent_factory.service.message_serializer import MessageSerializer
from agent_factory.service.steering import SharedMailbox
from agent_factory.service.tables import questions
from agent_factory.upstream import INTERRUPT, number_after, waiting_nodes

T = TypeVar("T")

_VERSIONS = InMemorySaver()

Write = Callable[[BaseCheckpointSaver[str], Connection], object]
"""A write through LangGraph's saver in a transaction."""


def in_thread(method: Callable[..., Any]) -> Any:
    """Return the async variant of a method of a saver, which runs in a thread of the database."""

    @wraps(method)
    async def call(saver: FencedSaver, *args: Any, **kwargs: Any) -> Any:
        work = partial(method, saver, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(saver.database.threads, work)

    call.__name__, call.__doc__ = f"a{method.__name__}", f"Async variant of `{method.__name__}`."
    return call


class FencedSaver(BaseCheckpointSaver[str]):
    """Saver of LangGraph on SQLite or Postgres, for one run.

    Each write is a transaction, which also checks the lease of the thread: a run that has lost its
    lease raises LeaseLost and writes nothing. LangGraph's savers hold one lock for all runs of a
    process.

    Args:
        database: The database.
        lease: The lease of the run's thread; None only reads.
        job: The job whose questions are noted, so that another worker can continue the job.
        soon: Calls a function soon, in another thread. With `soon`, the writes of a task and the
            checkpoint of an input go into the transaction of the next checkpoint, and the last
            checkpoint of an agent into the transaction of its outcome: these mostly follow at once.
            The state is read once.
        mailbox: The transaction of a checkpoint takes its messages out of the mailbox.
        is_agent: Whether `create_agent` has built the graph: its first node calls no tool before
            the next checkpoint, and a checkpoint shows the next nodes.
    """

    def __init__(
        self,
        database: Database,
        lease: Lease | None = None,
        job: str | None = None,
        soon: Callable[[Callable[[], None]], None] | None = None,
        mailbox: SharedMailbox | None = None,
        is_agent: bool = False,
    ) -> None:
        super().__init__(serde=MessageSerializer())
        self._mailbox, self._is_agent = mailbox, is_agent
        self.database, self._lease, self._job, self._soon = database, lease, job, soon
        self.order = RLock()
        """Lock of the writes. Take the lock before a transaction: others may wait for both."""
        self._gathered: list[Write] = []
        self._known: dict[Any, Any] = {}  # results of reads, until the next write
        self.latest: str | None = None
        """The id of the latest checkpoint of the thread itself that this run knows of."""

    # Reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint of a config, or the latest checkpoint of its thread."""

        def read() -> CheckpointTuple | None:
            with aborting(), self.database.read() as connection:
                return self._on(connection).get_tuple(config)

        found = self._read(config, (), read)
        if found is not None:  # the clock of another process may be ahead
            number_after(found.checkpoint["id"])
        return None if found is None else _copied(found)

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest first."""
        self.flush()
        with aborting(), self.database.read() as connection:
            yield from self._on(connection).list(config, **options)

    def before(self, thread: str, run: str) -> CheckpointTuple | None:
        """The newest checkpoint of a thread that another run has stored."""
        checkpoints = self.list({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        others = (entry for entry in checkpoints if entry.metadata.get(RUN_KEY) != run)
        return next(others, None)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """History from which LangGraph puts delta channels together."""

        def read() -> Mapping[str, DeltaChannelHistory]:
            with aborting(), self.database.read() as connection:
                saver = self._on(connection)
                return saver.get_delta_channel_history(config=config, channels=channels)

        return self._read(config, channels, read)

    def _read(self, config: RunnableConfig, channels: Sequence[str], read: Callable[[], T]) -> T:
        """Result of a read, kept until the next write: no other process has the lease."""
        if self._soon is None:
            return read()
        of, ns = config["configurable"], "checkpoint_ns"
        key = (of["thread_id"], of.get(ns), of.get("checkpoint_id"), *channels)
        with self.order:
            self.flush()
            if key not in self._known:
                self._known[key] = read()
            known: T = self._known[key]
            return known

    def get_next_version(self, current: str | None, channel: None) -> str:
        """The version of a channel after `current`: the savers of all databases agree."""
        return _VERSIONS.get_next_version(current, channel)

    def knows(self, connection: Connection, thread: str, checkpoint: str) -> bool:
        """Return True if a thread has a checkpoint, as a transaction sees it."""
        place = {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": checkpoint}
        return self._on(connection).get_tuple({"configurable": place}) is not None

    # Writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; LeaseLost if the run has lost its thread."""
        place = config["configurable"]
        namespace = place["checkpoint_ns"]
        # Messages to a thread are for its outermost agent.
        has_read = STEERING_READ in new_versions and not namespace

        def write(saver: BaseCheckpointSaver[str], connection: Connection) -> None:
            saver.put(config, checkpoint, metadata, new_versions)
            if has_read and self._mailbox is not None:
                self._mailbox.note(connection, checkpoint["channel_values"][STEERING_READ])

        # Agents inside the agent store their checkpoints in namespaces.
        if not namespace:
            self.latest = checkpoint["id"]
        # A run that is interrupted before the next checkpoint begins again, with the same input.
        # LangGraph takes a step, and stores a checkpoint, to give the input to the first nodes:
        # START runs alone, since an attempt gives no input to a thread in the middle of a turn.
        # Later tasks get other ids then, by which a graph of another library may know its effects.
        waits = START in new_versions and (self._is_agent or metadata.get("source") == "input")
        # The last checkpoint is stored with the outcome of the run: no node follows. Graphs of
        # another library may have edges that a checkpoint does not show.
        entry = CheckpointTuple(config, checkpoint, metadata)
        is_last = self._is_agent and not namespace and not waiting_nodes(entry, latest=False)
        self._write(write, may_wait=waits or is_last)
        stored = {"checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}
        return {"configurable": {"thread_id": place["thread_id"], **stored}}

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store writes of a task; LeaseLost if the run has lost its thread."""
        interrupts = [each for channel, value in writes if channel == INTERRUPT for each in value]

        def write(saver: BaseCheckpointSaver[str], connection: Connection) -> None:
            saver.put_writes(config, writes, task_id, task_path)
            if self._job is not None and interrupts:
                self._note_questions(connection, self._job, interrupts)

        # No checkpoint follows an error or an interrupt.
        is_last = any(channel in WRITES_IDX_MAP for channel, _ in writes)
        self._write(write, may_wait=not is_last)

    def _write(self, write: Write, *, may_wait: bool = False) -> None:
        with self.order:
            self._known.clear()
            self._gathered.append(write)
            if may_wait and self._soon is not None:
                if len(self._gathered) == 1:
                    # No checkpoint may follow for long: another task of the step works.
                    self._soon(self.flush)
                return
            self.flush()

    def flush(self) -> None:
        """Write the gathered writes; LeaseLost if the run has lost its thread."""
        with self.order:
            if self._gathered:
                with self._fenced() as connection:
                    self._write_gathered(connection)
                self._gathered.clear()

    def flush_in(self, connection: Connection) -> None:
        """Write the gathered writes in a transaction that has checked the lease.

        The caller has taken `order` before the transaction.
        """
        self._write_gathered(connection)
        self._gathered.clear()

    def _write_gathered(self, connection: Connection) -> None:
        saver = self._on(connection)
        for write in self._gathered:
            write(saver, connection)

    def delete_thread(self, thread_id: str) -> None:
        """Delete all checkpoints of a thread."""
        self._write(lambda saver, _: saver.delete_thread(thread_id))

    def erase(self, connection: Connection, thread: str) -> None:
        """Delete all checkpoints of a thread, in a transaction that deletes its row."""
        self._on(connection).delete_thread(thread)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread to the thread of the lease, with the writes of tasks."""

        def write(saver: BaseCheckpointSaver[str], connection: Connection) -> None:
            # `list` returns writes without the paths of their tasks, which order the messages of a
            # delta channel, so the rows are copied.
            of_postgres = ["checkpoints", "checkpoint_blobs", "checkpoint_writes"]
            threads = {"source": source_thread_id, "target": target_thread_id}
            for table in ["checkpoints", "writes"] if self.database.is_sqlite else of_postgres:
                columns = connection.execute(text(f"SELECT * FROM {table} LIMIT 0")).keys()
                names = ", ".join(name for name in columns if name != "thread_id")
                rows = f"SELECT :target, {names} FROM {table} WHERE thread_id = :source"
                connection.execute(
                    text(f"INSERT INTO {table} (thread_id, {names}) {rows}"), threads
                )

        self._write(write)

    def _note_questions(
        self, connection: Connection, job: str, interrupts: Sequence[Interrupt]
    ) -> None:
        assert self._lease is not None  # see `_fenced`
        thread = self._lease.thread_id
        # Only the newest job of a thread is continued: notes of older jobs are not needed.
        earlier = (questions.c.thread_id == thread) & (questions.c.job != job)
        connection.execute(delete(questions).where(earlier))
        for interrupt in interrupts:
            row = {"thread_id": thread, "job": job, "interrupt_id": interrupt.id}
            connection.execute(self.database.insert(questions).values(row).on_conflict_do_nothing())

    @contextmanager
    def _fenced(self) -> Iterator[Connection]:
        if self._lease is None:
            raise PermissionError(
                "This saver only reads: a thread of a service is written to by its runs. "
                "Use service.submit() or service.decide()."
            )
        with aborting(), self.database.begin() as connection:
            self._lease.check(connection)
            yield connection

    def _on(self, connection: Connection) -> BaseCheckpointSaver[str]:
        """LangGraph's saver in the transaction of a connection."""
        # A new saver takes longer than a statement, so each connection keeps a saver.
        saver: BaseCheckpointSaver[str] | None = connection.info.get("saver")
        if saver is None:
            driver = driver_connection(connection)
            if self.database.is_sqlite:
                from langgraph.checkpoint.sqlite import SqliteSaver

                saver = SqliteSaver(_InTransaction(driver))  # type: ignore[arg-type]
                # `Database.create` has created the tables; setup() would commit the transaction.
                saver.is_setup = True
            else:
                from langgraph.checkpoint.postgres import PostgresSaver

                saver = PostgresSaver(driver)
            connection.info["saver"] = saver
        saver.serde = self.serde  # with the classes of the run's agent
        return saver

    # Async: the same, in as many threads as there are connections

    aget_tuple = in_thread(get_tuple)
    aget_delta_channel_history = in_thread(get_delta_channel_history)
    aput = in_thread(put)
    aput_writes = in_thread(put_writes)
    adelete_thread = in_thread(delete_thread)
    acopy_thread = in_thread(copy_thread)

    async def alist(
        self, config: RunnableConfig | None, **options: Any
    ) -> AsyncIterator[CheckpointTuple]:
        """Async variant of `list`."""
        for entry in await in_thread(lambda saver: [*saver.list(config, **options)])(self):
            yield entry


def _copied(found: CheckpointTuple) -> CheckpointTuple:
    """A copy of a checkpoint: LangGraph changes the versions in a checkpoint."""
    checkpoint = found.checkpoint
    own: Any = {
        **checkpoint,
        "channel_values": dict(checkpoint["channel_values"]),
        "channel_versions": dict(checkpoint["channel_versions"]),
        "versions_seen": {node: {**seen} for node, seen in checkpoint["versions_seen"].items()},
    }
    return found._replace(checkpoint=own)


class _InTransaction:
    """Connection of SQLite without commits: the owner of the transaction commits."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.cursor = connection.cursor

    def commit(self) -> None:
        pass
