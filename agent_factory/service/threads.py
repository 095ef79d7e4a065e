"""Threads of a service: find, create, change and delete."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.constants import END, START
from langgraph.errors import InvalidUpdateError
from langgraph.types import StateUpdate
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    cast,
    delete,
    false,
    func,
    insert,
    not_,
    select,
    update,
)

from agent_factory.errors import ArgumentError
from agent_factory.middleware.once import effects_of_run
from agent_factory.review import Pending, pending, without_marks
from agent_factory.service.backend import Backend
from agent_factory.service.database import Database
from agent_factory.service.effects import SharedEffects
from agent_factory.service.errors import DatabaseLost, LeaseLost, ThreadBusy
from agent_factory.service.jobs import AGENT_KEY, RUN_KEY, TENANT_KEY, ThreadJob, load_input
from agent_factory.service.leases import Fence, Lease, first_number, take_lease
from agent_factory.service.metadata_search import has_metadata
from agent_factory.service.rows import having, must_exist, read_row
from agent_factory.service.saver import FencedSaver
from agent_factory.service.store import TenantStore
from agent_factory.service.tables import (
    approvals,
    background_jobs,
    effects,
    events,
    questions,
    runs,
    schedules,
    threads,
    waits,
)
from agent_factory.service.thread_queue import BUSY, lock_thread
from agent_factory.service.waits import write_waits
from agent_factory.state import check_json
from agent_factory.types import Graph

_LONGEST_ID = 255  # an index of Postgres takes 2,700 bytes

ARCHIVED = {"archived": True}
"""The metadata of an archived thread."""

LONGEST_TITLE = 200
"""The most characters of a given title."""

ThreadSort = Literal["updated_at", "created_at", "status", "thread_id"]
"""What threads are sorted by."""


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """A thread.

    Args:
        id: The id.
        tenant: The tenant.
        agent: The agent of the last message, or of the creation; "" without an agent.
        status: "idle", "queued", "running", "waiting" (for a decision) or "failed".
        run: The id of the present or last run.
        error: The error of a failed run.
        title: A given title, or the beginning of the first message; None without both.
        metadata: Notes of the product; `{"archived": True}` for an archived thread.
        created_at: The time of creation, in seconds since 1970, by the database's clock.
        updated_at: The time of the last change.
    """

    id: str
    tenant: str
    agent: str
    status: str
    run: str | None
    error: str | None
    updated_at: float
    created_at: float = 0.0
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Row[Any]) -> ThreadInfo:
        """The thread of a row."""
        return read_row(cls, row, id=row.thread_id)


def found_threads(
    database: Database,
    filters: Mapping[str, str | Collection[str] | None],
    metadata: Mapping[str, object],
    text: str | None = None,
    archived: bool | None = None,
) -> Select[Any]:
    """A query for threads, with filters by columns, as `ServiceThreads.search` has them."""
    check_json("metadata", metadata)
    query = select(threads)
    by_id = filters.get("thread_id") is not None
    for name, choice in filters.items():
        column: ColumnElement[Any] = threads.c[name]
        if by_id and name != "thread_id":
            # With a plain column, SQLite takes its index, and reads all threads of a tenant.
            column = func.coalesce(column, column)
        if isinstance(choice, str):
            query = query.where(column == choice)
        elif choice is not None:
            query = query.where(column.in_(choice))
    if text:
        # Escaped: a user who writes "%" or "_" looks for that sign.
        has_text = threads.c.title.icontains(text, autoescape=True)
        query = query.where(has_text | threads.c.thread_id.startswith(text, autoescape=True))
    if metadata:
        has_them = has_metadata(threads.c.metadata, metadata, sqlite=database.is_sqlite)
        query = query.where(has_them)
    if archived is not None:
        # Most metadata do not have the word: to read each as JSON takes longer.
        has_word = cast(threads.c.metadata, Text).contains('"archived"')
        is_true = has_metadata(threads.c.metadata, ARCHIVED, sqlite=database.is_sqlite)
        is_archived = has_word & func.coalesce(is_true, false())
        query = query.where(is_archived if archived else not_(is_archived))
    return query


def title_of(messages: Iterable[BaseMessage]) -> str | None:
    """The beginning of the first message of a user, in one line."""
    texts = (
        " ".join(message.text.split()) for message in messages if isinstance(message, HumanMessage)
    )
    return shorten(next(texts, ""), 80, placeholder="…") or None


def check_thread_id(thread: str | None) -> None:
    """Raise ArgumentError if an id of a thread is too long."""
    if thread is not None and len(thread) > _LONGEST_ID:
        reason = f"must have at most {_LONGEST_ID} characters, got {len(thread)}."
        raise ArgumentError("thread", reason)


def insert_thread(
    connection: Connection, backend: Backend, thread: str, tenant: str, **values: object
) -> Row[Any]:
    """The row of a thread, locked; a missing thread is created with these values."""
    check_thread_id(thread)
    new: dict[str, object] = {"thread_id": thread, "tenant": tenant, "its_tenant": tenant}
    new |= {"agent": "", "epoch": first_number(), "jobs": first_number(), "title": None}
    new |= {"metadata": {}, **values}
    # Two messages may create a thread at once: one inserts nothing, and gets the row of the other.
    row = connection.execute(backend.queue.insert_thread, new).first()
    return must_exist(row, f"thread {thread!r}", tenant)


def locked_thread(connection: Connection, thread: str, tenant: str | None) -> Row[Any]:
    """The row of a thread, locked until the transaction ends; NotFound as in `must_exist`."""
    return must_exist(lock_thread(connection, thread), f"thread {thread!r}", tenant)


def change_state(
    backend: Backend,
    thread: str,
    supersteps: Sequence[Sequence[StateUpdate]],
    checkpoint: str | None,
    tenant: str | None,
    by: str,
) -> RunnableConfig:
    """Write to the state of a thread on which no run works, under a lease.

    The waits of the thread are withdrawn; the waits of the new state take their place.
    """
    agent = backend.agent_of(thread, tenant)
    with backend.database.begin() as connection:
        row = locked_thread(connection, thread, tenant)
        if row.status in ("queued", "running"):
            hint = "Change its state when its run has ended, or cancel the run first."
            raise ThreadBusy(f"thread {thread!r}", f"is {row.status}.", hint)
        lease = take_lease(connection, thread)
        nodes = [write.as_node for writes in supersteps for write in writes]
        detail = {"as_node": nodes[0] if len(nodes) == 1 else nodes}
        backend.queue.record(connection, row, by, "write", detail)
    graph = agent.stored_in(FencedSaver(backend.database, lease))
    # LangGraph's update_state needs the namespace where there is an id.
    config: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    if checkpoint is not None:
        config["configurable"]["checkpoint_id"] = checkpoint
    # A run that has begun since the transaction above has the lease: this write fails.
    with yielding(thread):
        safe = [
            [write._replace(values=without_marks(write.values)) for write in writes]
            for writes in supersteps
        ]
        try:
            changed = graph.bulk_update_state(config, safe)
        # ValueError: an empty update. Reducers raise the others, depending on the wrong value.
        except (
            *(InvalidUpdateError, ValueError, TypeError, LookupError),
            *(AttributeError, NotImplementedError),
        ) as error:
            raise ArgumentError("values", f"cannot be written: {error}.") from error
        if row.status == "waiting":
            waiting_for = pending(graph, {"configurable": {"thread_id": thread}})
        with backend.database.begin() as connection:
            statement = update(threads).where(threads.c.thread_id == thread)
            connection.execute(statement.values(updated_at=backend.database.now))
            if row.status == "waiting":
                lease.check(connection)
                if waiting_for:
                    backend.queue.withdraw(connection, row, by)
                    at = changed["configurable"]["checkpoint_id"]
                    ask_again(connection, backend, row, waiting_for, at)
                else:
                    backend.queue.end_run(connection, row, by)
    return changed


def ask_again(
    connection: Connection, backend: Backend, thread: Row[Any], asked: Pending, checkpoint: str
) -> None:
    """Write the waits of a thread at a checkpoint that no run has stored."""
    agent = backend.agent(thread.agent)
    stop = {"job": checkpoint, "checkpoint_id": checkpoint}
    work = ThreadJob.for_run(thread)
    write_waits(connection, backend.database, agent, work, asked, stop)


@contextmanager
def yielding(thread: str) -> Iterator[None]:
    """Raise ThreadBusy if another process begins to work on the thread meanwhile.

    Errors that no middleware catches become errors that callers catch.
    """
    try:
        yield
    except LeaseLost as error:
        raise ThreadBusy(f"thread {thread!r}", "went to another process meanwhile.") from error
    except DatabaseLost as error:
        raise (error.__cause__ or error) from None


@contextmanager
def leased(backend: Backend, name: str, thread: str, tenant: str) -> Iterator[Graph]:
    """An agent that writes to a thread under a new lease, as `Service.lease`."""
    agent, database = backend.agent(name), backend.database
    with database.begin() as connection:
        row = insert_thread(connection, backend, thread, tenant)
        if row.status in BUSY:
            hint = "The service works on it: submit the message, or wait."
            raise ThreadBusy(f"thread {thread!r}", f"is {row.status}.", hint)
        lease = take_lease(connection, thread, agent=name, updated_at=database.now)
    graph = agent.stored_in(FencedSaver(database, lease), TenantStore(database, tenant))
    graph.config = merge_configs(graph.config, {"callbacks": [Fence(database, lease)]})
    store = SharedEffects(database, lease)
    with yielding(thread), effects_of_run(store, leased_run(thread)):
        yield graph


def leased_run(thread: str) -> str:
    """The name of the runs of a thread under leases, for their effects. No run has such an id."""
    return f"lease-{thread}"


def roll_back_thread(backend: Backend, thread: Row[Any], lease: Lease) -> None:
    """Go back to the state before the last run of a thread; the history keeps its writes."""
    saver = FencedSaver(backend.database, lease)
    before = saver.before(thread.thread_id, thread.run)
    with yielding(thread.thread_id):
        if before is None:
            saver.delete_thread(thread.thread_id)
        else:
            # Without values as END, LangGraph drops the tasks of a checkpoint: nothing goes on.
            backend.agent(thread.agent).stored_in(saver).update_state(before.config, None, END)


def keep_messages(
    backend: Backend, thread: Row[Any], lease: Lease, unread: Sequence[tuple[str, str, str | None]]
) -> None:
    """Write the messages of a run that was cancelled before its first checkpoint.

    A thread in the middle of a turn stays as it is, without the messages.

    Args:
        unread: As `MessageJob.messages`.
    """
    if thread.agent not in backend.agents:
        return  # this process cannot write its state
    graph = backend.agent(thread.agent).stored_in(FencedSaver(backend.database, lease))
    place: RunnableConfig = {
        "configurable": {"thread_id": thread.thread_id, "checkpoint_ns": ""},
        "metadata": {AGENT_KEY: thread.agent, TENANT_KEY: thread.tenant},
    }
    snapshot = graph.get_state(place)
    # In a checkpoint of an input, the state lacks the message.
    is_input, names = START in snapshot.next, [run for run, *_ in unread]
    if snapshot.next and not is_input:
        return
    if (reached := (snapshot.metadata or {}).get(RUN_KEY)) in names:
        unread = unread[names.index(reached) + (not is_input) :]
    # Another message may have begun meanwhile.
    with suppress(ThreadBusy), yielding(thread.thread_id):
        for run, input, checkpoint in unread:
            message = load_input(input)
            at = {} if checkpoint is None else {"checkpoint_id": checkpoint}
            config: Any = {
                "configurable": {**place["configurable"], **at},
                "metadata": {**place["metadata"], RUN_KEY: run},
            }
            if message is not None:
                graph.update_state(config, message, START)


def copy_thread(
    backend: Backend, thread: str, copy: str, tenant: str | None, by: str
) -> ThreadInfo:
    """Copy a thread on which no run works: its checkpoints and its waits."""
    with backend.database.begin() as connection:
        row = locked_thread(connection, thread, tenant)
        if row.status in ("queued", "running"):
            raise ThreadBusy(f"thread {thread!r}", f"is {row.status}.", "Copy it later.")
        insert_thread(connection, backend, copy, row.tenant, metadata=row.metadata)
        lease = take_lease(connection, copy, agent=row.agent, plan=row.plan)
    saver = FencedSaver(backend.database, lease)
    if row.agent:
        saver.copy_thread(thread, copy)
    waiting_for, place = Pending(), RunnableConfig(configurable={"thread_id": copy})
    if row.status == "waiting":
        graph = backend.agent(row.agent).stored_in(saver)
        waiting_for, place = pending(graph, place), graph.get_state(place).config
    with backend.database.begin() as connection:
        lease.check(connection)
        new = locked_thread(connection, copy, None)
        backend.queue.record(connection, new, by, "copy", {"of": thread})
        if not waiting_for:
            return ThreadInfo.of(new)
        source = connection.execute(select(runs).where(runs.c.run_id == row.run)).one()
        # A run has one thread: the copy gets another run, with the same message and settings.
        run = f"copy-{copy}"
        values = {**source._mapping, "run_id": run, "thread_id": copy, "job": None}
        del values["seq"]
        connection.execute(insert(runs).values(values))
        statement = update(threads).where(threads.c.thread_id == copy).values(run=run)
        new = connection.execute(statement.returning(threads)).one()
        ask_again(connection, backend, new, waiting_for, place["configurable"]["checkpoint_id"])
        return ThreadInfo.of(locked_thread(connection, copy, None))


def delete_thread(
    backend: Backend, thread: str, tenant: str | None, by: str, *, even_busy: bool = True
) -> bool:
    """Delete a thread: its checkpoints, its runs, its reviews, and its jobs.

    The audit keeps an entry. A run of the thread loses its lease; without `even_busy`, a busy
    thread stays, and the result is False.
    """
    of_thread = select(runs.c.run_id).where(runs.c.thread_id == thread)
    with backend.database.begin() as connection:
        row = locked_thread(connection, thread, tenant)
        if row.status in BUSY and not even_busy:
            return False
        jobs = select(runs.c.job).where(runs.c.thread_id == thread)
        earlier_jobs = select(waits.c.job).where(waits.c.thread_id == thread)
        FencedSaver(backend.database).erase(connection, thread)
        is_leased = effects.c.run == leased_run(thread)
        connection.execute(delete(effects).where(effects.c.run.in_(of_thread) | is_leased))
        of_thread_jobs = events.c.job.in_(jobs) | events.c.job.in_(earlier_jobs)
        connection.execute(delete(events).where(of_thread_jobs))
        connection.execute(delete(approvals).where(approvals.c.thread == thread))
        if row.status in BUSY:
            backend.queue.end_runs(connection, row, by)
        backend.queue.record(connection, row, by, "delete")
        # The other rows are schedules of the product, which create the thread again.
        of_crons = having(schedules, thread_id=thread, tenant=row.tenant)
        connection.execute(delete(schedules).where(schedules.c.assistant != "", *of_crons))
        for table in (runs, waits, questions, background_jobs, threads):
            connection.execute(delete(table).where(table.c.thread_id == thread))
    return True
