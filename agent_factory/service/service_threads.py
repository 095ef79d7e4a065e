"""ServiceThreads: the threads of a service, to create, find, read, change, copy and delete."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast, get_args
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot, StateUpdate
from sqlalchemy import BigInteger, Column, ColumnElement, func, or_, select, update

from agent_factory.errors import ArgumentError
from agent_factory.service.arguments import check_choice
from agent_factory.service.backend import Backend
from agent_factory.service.errors import AlreadyExists, NotFound
from agent_factory.service.jobs import MessageJob, load_input, read_job
from agent_factory.service.leases import first_number
from agent_factory.service.messages import HeldMessage
from agent_factory.service.public_state import nodes_of
from agent_factory.service.rows import having, must_exist
from agent_factory.service.run import Run
from agent_factory.service.run_list import (
    LOOK_BACK,
    STATE,
    SUMMARIES,
    RunList,
    question_of,
    summary_of,
)
from agent_factory.service.saver import FencedSaver
from agent_factory.service.steering import STATUS
from agent_factory.service.tables import CHECKPOINTS, audit, runs, threads, waits
from agent_factory.service.threads import (
    LONGEST_TITLE,
    ThreadInfo,
    ThreadSort,
    change_state,
    copy_thread,
    delete_thread,
    found_threads,
    insert_thread,
    locked_thread,
)
from agent_factory.service.usage import total
from agent_factory.state import check_json, check_storable


class ServiceThreads:
    """The threads of a service: create, find, read, change, copy and delete them.

    A service has them as `service.threads`.

    >>> from tempfile import mkdtemp
    >>> from agent_factory.service import Service
    >>> threads = Service(f"sqlite:///{mkdtemp()}/desk.db").threads
    >>> created = threads.create("t-1", metadata={"customer": "C-7"})
    >>> [thread.id for thread in threads.search(metadata={"customer": "C-7"})]
    ['t-1']
    >>> threads.get("t-1").metadata
    {'customer': 'C-7'}
    """

    def __init__(self, backend: Backend) -> None:
        self._backend, self._database = backend, backend.database

    def create(
        self,
        thread: str | None = None,
        *,
        metadata: Mapping[str, object] | None = None,
        tenant: str = "",
        agent: str | None = None,
        exist_ok: bool = True,
    ) -> ThreadInfo:
        """Create a thread before its first message; `Service.submit` creates missing threads.

        Args:
            thread: The id; None for a new id.
            metadata: Notes of the product, as JSON.
            tenant: The tenant.
            agent: The agent of the thread: `update_state` can write before a message comes.
            exist_ok: Whether an existing thread is returned unchanged. Of several callers with
                False at once, one creates the thread.

        Raises:
            NotFound: Another tenant has the thread, or there is no such agent.
            AlreadyExists: The thread exists, and `exist_ok` is False.
        """
        name = thread or str(uuid4())
        if agent is not None:
            self._backend.agent(agent)
        check_json("thread", name)
        check_json("tenant", tenant)
        check_json("metadata", dict(metadata or {}))
        epoch = first_number()
        with self._backend.database.begin() as connection:
            values = {"metadata": dict(metadata or {}), "agent": agent or "", "epoch": epoch}
            row = insert_thread(connection, self._backend, name, tenant, **values)
        # Random, so a thread with another one was there before.
        if not exist_ok and row.epoch != epoch:
            raise AlreadyExists(f"thread {name!r}", "exists already.")
        return ThreadInfo.of(row)

    def get(self, thread: str, *, tenant: str | None = None) -> ThreadInfo:
        """One thread.

        Raises:
            NotFound: The tenant has no such thread.
        """
        row = self._database.row(select(threads).where(threads.c.thread_id == thread))
        return ThreadInfo.of(must_exist(row, f"thread {thread!r}", tenant))

    def search(
        self,
        *,
        tenant: str | None = None,
        ids: Collection[str] | None = None,
        status: str | Collection[str] | None = None,
        agent: str | None = None,
        metadata: Mapping[str, object] | None = None,
        text: str | None = None,
        archived: bool | None = None,
        sort_by: ThreadSort = "updated_at",
        descending: bool = True,
        limit: int = 50,
        offset: int = 0,
    ) -> list[ThreadInfo]:
        """Threads, the last changed first; a filter that is None takes all.

        Args:
            tenant: The tenant.
            ids: The ids.
            status: The status, or several.
            agent: The agent.
            metadata: JSON that the metadata contain: an object contains an object with some of its
                keys, and a list contains a list with some of its items.
            text: Part of the title, or beginning of the id.
            archived: True for archived threads, False for the rest.
            sort_by: The value that orders the threads.
            descending: Whether the highest value comes first.
            limit: The most to return.
            offset: Threads to skip before the first.
        """
        check_choice("sort_by", sort_by, get_args(ThreadSort))
        filters = {"tenant": tenant, "thread_id": ids, "status": status, "agent": agent}
        sorted_by = threads.c[sort_by]
        order = sorted_by.desc() if descending else sorted_by
        query = found_threads(self._database, filters, metadata or {}, text, archived)
        query = query.order_by(order, threads.c.thread_id).limit(limit).offset(offset)
        return [ThreadInfo.of(row) for row in self._database.rows(query)]

    def count(
        self,
        *,
        tenant: str | None = None,
        ids: Collection[str] | None = None,
        status: str | Collection[str] | None = None,
        agent: str | None = None,
        metadata: Mapping[str, object] | None = None,
        text: str | None = None,
        archived: bool | None = None,
    ) -> int:
        """Count the threads of `search` without a limit."""
        filters = {"tenant": tenant, "thread_id": ids, "status": status, "agent": agent}
        query = found_threads(self._database, filters, metadata or {}, text, archived)
        (number,) = self._database.values(select(func.count()).select_from(query.subquery()))
        return int(number)

    def change(
        self,
        thread: str,
        *,
        metadata: Mapping[str, object] | None = None,
        title: str | None = None,
        archived: bool | None = None,
        tenant: str | None = None,
        agent: str | None = None,
    ) -> ThreadInfo:
        """Change keys of a thread's metadata, its title, or whether it is archived.

        Args:
            thread: The thread.
            metadata: The keys and their values, as JSON; other keys stay.
            title: The new title, with at most 200 characters; None keeps the present title.
            archived: Whether the thread is archived: the key `archived` of the metadata. An
                archived thread works as before; lists for people leave it out.
            tenant: The tenant of the caller.
            agent: The agent of a thread without an agent.

        Raises:
            NotFound: The tenant has no such thread, or there is no such agent.
            ArgumentError: The thread has another agent, or the title is empty or too long.

        >>> from tempfile import mkdtemp
        >>> from agent_factory.service import Service
        >>> threads = Service(f"sqlite:///{mkdtemp()}/desk.db").threads
        >>> thread = threads.create("t-1")
        >>> threads.change("t-1", title="The broken lamp", archived=True).title
        'The broken lamp'
        >>> threads.search(archived=False)
        []
        """
        if agent is not None:
            self._backend.agent(agent)
        if title is not None:
            check_json("title", title)
            title = " ".join(title.split())
            if not 0 < len(title) <= LONGEST_TITLE:
                reason = f"must have 1 to {LONGEST_TITLE} characters, got {len(title)}."
                hint = "Leave it out to keep the title that the thread has."
                raise ArgumentError("title", reason, hint)
        changes = dict(metadata or {}) | ({} if archived is None else {"archived": archived})
        check_json("metadata", changes)
        with self._backend.database.begin() as connection:
            row = locked_thread(connection, thread, tenant)
            if agent is not None and row.agent not in ("", agent):
                reason = f"cannot be {agent!r}: the thread is one of agent {row.agent!r}."
                raise ArgumentError("agent", reason, "Create another thread.")
            changed = update(threads).where(threads.c.thread_id == thread).returning(threads)
            changed = changed.values(
                metadata={**row.metadata, **changes},
                agent=agent or row.agent,
                title=title or row.title,
                updated_at=self._backend.database.now,
            )
            return ThreadInfo.of(connection.execute(changed).one())

    def delete(self, thread: str, *, by: str = "api", tenant: str | None = None) -> None:
        """Delete a thread as a whole. A run that works on it is ended.

        Args:
            thread: The thread.
            by: Who deletes the thread, for the audit, which keeps an entry.
            tenant: The tenant of the caller.

        Raises:
            NotFound: The tenant has no such thread.
        """
        delete_thread(self._backend, thread, tenant, by)

    def copy(self, thread: str, *, by: str = "api", tenant: str | None = None) -> ThreadInfo:
        """Copy a thread on which no run works, with its history and its waits.

        Args:
            thread: The thread.
            by: Who copies the thread, for the audit.
            tenant: The tenant of the caller.

        Raises:
            NotFound: The tenant has no such thread.
            ThreadBusy: A run works on the thread, or is queued for it.
        """
        return copy_thread(self._backend, thread, str(uuid4()), tenant, by)

    def runs(
        self,
        thread: str | None = None,
        *,
        tenant: str | None = None,
        agent: str | None = None,
        status: Collection[str] | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[Run]:
        """Runs, the newest first; a filter that is None takes all.

        Args:
            thread: The thread.
            tenant: The tenant.
            agent: The agent.
            status: States, as `Run.status`. A run that is "held" counts as "queued".
            limit: The most to return.
            offset: Runs to skip before the first.

        Raises:
            NotFound: The tenant has no such thread.
        """
        if thread is not None:
            self.get(thread, tenant=tenant)
        query = select(runs.c.run_id, runs.c.thread_id)
        query = query.where(*_run_filters(thread, tenant, agent, status))
        query = query.order_by(runs.c.seq.desc()).limit(limit).offset(offset)
        rows = self._database.rows(query)
        return [Run(self._backend, row.run_id, row.thread_id) for row in rows]

    def count_runs(
        self,
        thread: str | None = None,
        *,
        tenant: str | None = None,
        agent: str | None = None,
        status: Collection[str] | None = None,
    ) -> int:
        """Count the runs of `runs` without a limit."""
        query = select(func.count()).select_from(runs)
        (number,) = self._database.values(query.where(*_run_filters(thread, tenant, agent, status)))
        return int(number)

    def search_runs(
        self,
        *,
        tenant: str | None = None,
        agent: str | None = None,
        status: Collection[str] | None = None,
        since: float | None = None,
        text: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> RunList:
        """Runs of all threads with their questions and costs, the newest first.

        One search looks at 5,000 runs at most. If fewer than `limit` of these match,
        `RunList.before` says where to look further. A filter that is None takes all.

        Args:
            tenant: The tenant.
            agent: The agent.
            status: States, as `Run.status`.
            since: The earliest time of submission, in seconds since 1970.
            text: Part of the question (of its first 1,000 characters) or of the title of the
                thread, or beginning of the id of the run or the thread.
            before: The `before` of the list so far; None begins with the newest run.
            limit: The most to return.

        >>> from tempfile import mkdtemp
        >>> from agent_factory.service import Service
        >>> Service(f"sqlite:///{mkdtemp()}/desk.db").threads.search_runs(status=["failed"]).runs
        []
        """
        # Without filters, the first rows are those of the list: none has to be looked for.
        is_filtered = any((agent, status, since, text))
        newest = select(runs.c.seq).where(*having(runs, tenant=tenant)).order_by(runs.c.seq.desc())
        newest = newest.limit(LOOK_BACK if is_filtered else limit + 1)
        if before is not None:
            newest = newest.where(runs.c.seq < before)
        # The numbers alone: rows have payloads, and only those of matches are read.
        window = newest.subquery()
        query = SUMMARIES.join(window, runs.c.seq == window.c.seq).order_by(runs.c.seq.desc())
        query = query.where(*having(runs, agent=agent)).limit(limit + 1)
        if status is not None:
            query = query.where(STATE.in_(status))
        if since is not None:
            query = query.where(runs.c.created_at >= since)
        if text:
            # Escaped: somebody who writes "%" or "_" looks for that sign.
            ids, texts = (runs.c.run_id, runs.c.thread_id), (threads.c.title, runs.c.question)
            begins = [column.startswith(text, autoescape=True) for column in ids]
            contain = [column.icontains(text, autoescape=True) for column in texts]
            query = query.where(or_(*contain, *begins))
        with self._backend.database.read() as connection:
            rows = connection.execute(query).all()
            found = [summary_of(row) for row in rows[:limit]]
            if len(rows) > limit:
                return RunList(found, rows[limit - 1].seq, is_full=True)
            if not is_filtered:
                return RunList(found, None, is_full=False)
            extent = select(func.count(), func.min(window.c.seq)).select_from(window)
            count, oldest = connection.execute(extent).one()
        return RunList(found, oldest if count == LOOK_BACK else None, is_full=False)

    def held(self, thread: str, *, tenant: str | None = None) -> list[HeldMessage]:
        """Messages and forks that are held until the decision of the thread, in their order.

        Args:
            thread: The thread.
            tenant: The tenant of the caller.

        Raises:
            NotFound: The tenant has no such thread.
        """
        query = select(runs).filter_by(thread_id=thread, job=None, status="queued")
        messages = []
        # Behind a run that works, messages are queued and not held.
        is_waiting = self.get(thread, tenant=tenant).status == "waiting"
        for run in self._database.rows(query.order_by(runs.c.seq)) if is_waiting else ():
            if isinstance(job := read_job(run.payload), MessageJob):
                # A run without a message goes on from a checkpoint.
                inputs = load_input(job.input) or {"messages": ()}
                text = "\n".join(message.text for message in inputs["messages"])
                messages.append(HeldMessage(run.run_id, text, job.checkpoint, run.created_at))
        return messages

    def last_words(self, ids: Collection[str], *, tenant: str | None = None) -> dict[str, str]:
        """The last message of some threads, as text, by the ids of the threads.

        A thread is left out if its last run was submitted without a message.

        Args:
            ids: The threads.
            tenant: The tenant of the threads; None takes all.
        """
        if not ids:
            return {}
        # One query for all: a list must not ask for each of its rows.
        newest = select(func.max(runs.c.seq)).where(runs.c.thread_id.in_(ids))
        query = select(runs.c.thread_id, runs.c.payload)
        query = query.where(runs.c.seq.in_(newest.group_by(runs.c.thread_id)))
        # Not in the inner query: SQLite would use the index of the tenant, and read all its rows.
        query = query.where(*having(runs, tenant=tenant))
        words = [(row.thread_id, question_of(row.payload)) for row in self._database.rows(query)]
        return {thread: question for thread, question in words if question.strip()}

    def usage(self, thread: str, *, tenant: str | None = None) -> list[dict[str, Any]]:
        """Usage of the model calls of all runs of a thread, as `RunInfo.usage`.

        Raises:
            NotFound: The tenant has no such thread.
        """
        self.get(thread, tenant=tenant)
        usages = self._database.values(select(runs.c.usage).where(runs.c.thread_id == thread))
        return total(line for lines in usages for line in lines)

    def pulse(self, *, tenant: str | None = None) -> dict[str, Any]:
        """A value that changes with threads and waits.

        Args:
            tenant: The tenant of the threads; None takes all.

        Returns:
            The time of the last change of a thread ("threads"), the number of open waits ("waits"),
            and sums of the newest numbers of the audit ("audit"), which grows with each claim and
            decision, and of runs ("runs"), which grows with each message, also a held message.
        """

        def newest(number: Column[Any]) -> Any:
            # Not the largest number: a smaller one may be committed later.
            query = select(number.label("number")).where(*having(number.table, tenant=tenant))
            last = query.order_by(number.desc()).limit(20).subquery()
            return select(func.sum(last.c.number).cast(BigInteger)).scalar_subquery()

        changed = select(func.max(threads.c.updated_at)).where(*having(threads, tenant=tenant))
        is_open = [*having(waits, tenant=tenant), waits.c.decided_at.is_(None)]
        columns = {
            "threads": changed.scalar_subquery(),
            "waits": select(func.count()).where(*is_open).scalar_subquery(),
            "audit": newest(audit.c.id),
            "runs": newest(runs.c.seq),
        }
        (row,) = self._database.rows(select(*columns.values()))
        return dict(zip(columns, row, strict=True))

    def state(
        self,
        thread: str,
        *,
        checkpoint: str | None = None,
        namespace: str = "",
        subgraphs: bool = False,
        tenant: str | None = None,
    ) -> StateSnapshot:
        """The state of a thread, as the agent's `get_state` returns it, without private keys.

        Args:
            thread: The thread.
            checkpoint: The id of a checkpoint; None takes the newest.
            namespace: The checkpoint namespace of an agent inside, from a task of the state.
            subgraphs: Whether the tasks have the states of agents inside that wait, in place of
                their configs.
            tenant: The tenant of the caller.

        Raises:
            NotFound: The tenant has no such thread, or its agent was not added or
                has no such node.
        """
        place: RunnableConfig = {"configurable": {"thread_id": thread}}
        if namespace:
            place["configurable"]["checkpoint_ns"] = namespace
        if checkpoint is not None:
            place["configurable"]["checkpoint_id"] = checkpoint
        agent = self._backend.agent_of(thread, tenant)
        graph = agent.stored_in(FencedSaver(self._backend.database))
        nodes = nodes_of(namespace.split("|")) if namespace else ()
        if nodes not in agent.public.graphs:
            raise NotFound(f"namespace {namespace!r}", "is not one of this thread's agents.")
        return agent.public.of_snapshot(graph.get_state(place, subgraphs=subgraphs), nodes)

    async def astate(self, thread: str, *, tenant: str | None = None) -> StateSnapshot:
        """Async variant of `state`."""
        return await asyncio.to_thread(partial(self.state, thread, tenant=tenant))

    def history(
        self,
        thread: str,
        *,
        before: str | None = None,
        limit: int | None = None,
        tenant: str | None = None,
    ) -> Iterator[StateSnapshot]:
        """The states of a thread, the newest first, as in `state`.

        Args:
            thread: The thread.
            before: The id of a checkpoint: later states are left out, and its own.
            limit: The most to return.
            tenant: The tenant of the caller.

        Raises:
            NotFound: As in `state`.
        """
        agent = self._backend.agent_of(thread, tenant)
        graph = agent.stored_in(FencedSaver(self._backend.database))
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        earlier: RunnableConfig | None = None
        if before is not None:
            earlier = {"configurable": {"thread_id": thread, "checkpoint_id": before}}
        snapshots = graph.get_state_history(config, before=earlier, limit=limit)
        return map(agent.public.of_snapshot, snapshots)

    def branches(
        self, thread: str, *, tenant: str | None = None, limit: int = 50
    ) -> list[list[str]]:
        """Branches of the history, the newest first: ids of checkpoints, the end of each first.

        The thread goes on from the end of the first branch. A message with another checkpoint
        begins a branch. `state` shows each checkpoint.

        Args:
            thread: The thread.
            tenant: The tenant of the caller.
            limit: The most to return.

        Raises:
            NotFound: The tenant has no such thread.
        """
        self.get(thread, tenant=tenant)
        names = CHECKPOINTS.c
        query = select(names.checkpoint_id, names.parent_checkpoint_id)
        query = query.filter_by(thread_id=thread, checkpoint_ns="")
        parents: dict[str, str | None] = {row[0]: row[1] for row in self._database.rows(query)}
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

    def update_state(
        self,
        thread: str,
        values: object,
        *,
        as_node: str | None = None,
        checkpoint: str | None = None,
        tenant: str | None = None,
        by: str = "api",
    ) -> RunnableConfig:
        """Write to the state of a thread on which no run works, like the agent's `update_state`.

        Open waits of the thread are withdrawn; the inbox gets the waits of the new state. If the
        new state has none, as after `as_node="__end__"`, the run is cancelled.

        Args:
            thread: The thread.
            values: The update.
            as_node: The node that writes; None takes the last node that ran.
            checkpoint: The checkpoint that the new state is based on; None takes the newest.
            tenant: The tenant of the caller.
            by: Who writes, for the audit.

        Returns:
            The config of the new checkpoint.

        Raises:
            NotFound: As in `state`.
            ThreadBusy: A run works on the thread, or is queued for it.
            ArgumentError: The agent cannot write the update: a node is unknown, for example.
        """
        check_storable("values", values)
        written = StateUpdate(cast("dict[str, Any] | None", values), as_node)
        return self.update_states(thread, [[written]], checkpoint=checkpoint, tenant=tenant, by=by)

    def update_states(
        self,
        thread: str,
        supersteps: Sequence[Sequence[StateUpdate]],
        *,
        checkpoint: str | None = None,
        tenant: str | None = None,
        by: str = "api",
        public: bool = False,
    ) -> RunnableConfig:
        """Write several states of a thread, like the agent's `bulk_update_state`.

        Args:
            thread: The thread.
            supersteps: LangGraph's `StateUpdate`s: a list for each state.
            checkpoint: The checkpoint that the first state is based on.
            tenant: The tenant of the caller.
            by: Who writes, for the audit.
            public: Whether keys that `state` does not show are refused, as for a client.

        Returns:
            The config of the last checkpoint.

        Raises:
            NotFound: As in `state`.
            ThreadBusy: As in `update_state`.
            ArgumentError: As in `update_state`, or a key is private.
        """
        agent = self._backend.agent_of(thread, tenant) if public else None
        for number, writes in enumerate(supersteps):
            for write in writes:
                check_storable(f"supersteps[{number}].values", write.values)
                if agent is None:
                    continue
                updates = write.values if isinstance(write.values, list) else [write.values or {}]
                keys = {key for update in updates for key in update}
                if private := sorted(key for key in keys if key not in agent.public):
                    text = f"{', '.join(private)} is not in the output of {agent.name!r}."
                    raise ArgumentError("values", text)
        return change_state(self._backend, thread, supersteps, checkpoint, tenant, by)


def _run_filters(
    thread: str | None, tenant: str | None, agent: str | None, status: Collection[str] | None
) -> list[ColumnElement[bool]]:
    filters = having(runs, thread_id=thread, tenant=tenant, agent=agent)
    return filters if status is None else [*filters, STATUS.in_(status)]
