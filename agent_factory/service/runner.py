"""Runner: carries out jobs on threads, so that another worker can continue at any point."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import Lock, Thread
from time import monotonic
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import START
from langgraph.types import StateSnapshot
from sqlalchemy import Connection, Row, select, update

from agent_factory.errors import MissingNode
from agent_factory.middleware.once import aundo_effects, effects_of_run, undo_effects
from agent_factory.review import (
    Pending,
    ReviewError,
    aadd_input,
    aapprove,
    add_input,
    adecide,
    approvals_of_run,
    approve,
    decide,
    pending,
    repeat_review,
)
from agent_factory.service.approvals import SharedApprovals
from agent_factory.service.backend import (
    AGENT_KEY,
    JOB_KEY,
    RUN_KEY,
    TENANT_KEY,
    Backend,
    RegisteredAgent,
)
from agent_factory.service.database import Database
from agent_factory.service.effects import SharedEffects
from agent_factory.service.errors import DatabaseLost, LeaseLost
from agent_factory.service.events import load
from agent_factory.service.jobs import DecisionJob, MessageJob, ThreadJob, UndoJob, read_job
from agent_factory.service.leases import Fence, Lease, take_lease
from agent_factory.service.public_state import INTERRUPT
from agent_factory.service.saver import FencedSaver
from agent_factory.service.store import TenantStore
from agent_factory.service.tables import questions, runs, threads, waits, workers
from agent_factory.service.thread_queue import lock_thread
from agent_factory.service.usage import UsageHandler
from agent_factory.upstream import COPY_BRANCH, RUN_ID

logger = logging.getLogger("agent_factory.service")

_ACTIVE = ("queued", "running")


class Runner:
    """Carries out the jobs of one process."""

    def __init__(self, backend: Backend, worker: Callable[[], str]) -> None:
        self._backend, self._worker = backend, worker
        self._database, self._queue, self._log = backend.database, backend.queue, backend.log
        self._lock = Lock()
        self._own_loop: asyncio.AbstractEventLoop | None = None

    def run(self, job: str, payload: str) -> dict[str, object]:
        """Carry out a job, or continue it where another worker was cut short.

        Returns:
            The outcome: its `status` is "done", "waiting", "failed", "lost" or "passed on". It is
            lost if another worker has taken over or the run was cancelled, and passed on if only
            other workers have the agent.
        """
        work = read_job(payload)
        assert work is not None  # only the rows of runs may be empty
        if work.agent not in self._backend.agents:
            # Other workers have it: this one is older or newer than they are.
            pass_on = partial(self._queue.pass_on, work.agent, work.tenant)
            self._database.retried(pass_on, seconds=math.inf)
            return {"status": "passed on"}
        start, usage = monotonic(), UsageHandler()
        try:
            outcome = self._database.retried(lambda: self._attempt(job, work, usage))
        except LeaseLost:
            return {"status": "lost"}
        except (MissingNode, ReviewError) as error:
            logger.exception("Thread %s cannot continue.", work.thread)
            text = str(error)
            back = partial(self._fail, job, work, text, usage)
            if isinstance(work, DecisionJob):
                what = "stranded" if isinstance(error, MissingNode) else "refused"
                back = partial(self._take_back, what, job, work, text)
            outcome = self._database.retried(back, seconds=math.inf)
        except (Exception, DatabaseLost) as error:
            # DatabaseLost is a BaseException, so that no middleware catches it.
            logger.exception("Run %s of thread %s failed.", work.run, work.thread)
            text = f"{type(error).__name__}: {error}"
            # Without this, the thread would take no other message: as long as it takes.
            outcome = self._database.retried(
                lambda: self._fail(job, work, text, usage), seconds=math.inf
            )
        # After the transaction with the outcome: who reads this event may look the run up.
        self._log.add(job, {"type": "end", "ns": (), "data": outcome}, last=True)
        self._backend.metrics.ended(work.agent, outcome["status"], monotonic() - start)
        return outcome

    def _attempt(self, job: str, work: ThreadJob, usage: UsageHandler) -> dict[str, Any]:
        agent = self._backend.agent(work.agent)
        with self._database.begin() as connection:
            row = lock_thread(connection, work.thread)
            if row is None:
                raise LeaseLost(f"The thread {work.thread!r} was deleted.")
            run = connection.execute(select(runs).where(runs.c.run_id == work.run)).first()
            if run is None or run.job != job or run.status == "cancelled":
                raise LeaseLost(f"Run {work.run!r} was cancelled.")
            if run.status not in _ACTIVE:
                # A worker has finished the job and died before the engine knew. By now the thread
                # may work on its next message.
                return {
                    "status": run.status,
                    "checkpoint_id": run.checkpoint_id,
                    "error": run.error,
                }
            connection.execute(
                update(runs).where(runs.c.run_id == work.run).values(status="running")
            )
            lease = take_lease(
                connection,
                work.thread,
                owner=self._worker(),
                status="running",
                plan=agent.plan,
                updated_at=self._database.now,
            )
        if row.plan not in (None, agent.plan):
            logger.warning(
                "The plan of agent %r has changed since thread %s ran. If the thread waits at a "
                "node that was renamed, pass create_agent(..., moved=...).",
                agent.name,
                work.thread,
            )
        if isinstance(work, UndoJob):
            return self._undo(agent, work, lease)
        attempt = _Attempt(self._backend, agent, job, work, lease, run, usage)
        parts = attempt.start()
        if attempt.continues:
            self._log.add(job, {"type": "resumed", "ns": (), "data": {"worker": self._worker()}})
        if parts is not None:
            approvals = SharedApprovals(self._database, self._queue, lease, work.tenant, work.agent)
            effects = effects_of_run(SharedEffects(self._database, lease), work.run)
            with effects, approvals_of_run(approvals):
                self._follow(job, attempt, parts)
        return self._finish(job, work, attempt, usage.added_to(run.usage))

    def _follow(self, job: str, attempt: _Attempt, parts: Any) -> None:
        """Run to the end or to the next pause, and write what happens to the event log."""

        def note(part: Any) -> None:
            # LangGraph reports an interrupt of an agent inside at the top, too.
            if part["type"] == "updates" and INTERRUPT in part["data"] and not part["ns"]:
                attempt.is_paused = True
            is_asked = part["type"] in attempt.modes and (attempt.subgraphs or not part["ns"])
            if is_asked or part["type"] in attempt.studio_modes:
                public = attempt.agent.public.of_part(part)
                self._log.add(job, public if is_asked else {**public, "asked": False})

        if isinstance(parts, Iterator):
            for part in parts:
                note(part)
            return

        async def follow() -> None:
            # `astream` returns a stream, and `adecide` a coroutine that returns one.
            stream: AsyncIterator[object] = parts if hasattr(parts, "__aiter__") else await parts
            async for part in stream:
                note(part)

        asyncio.run_coroutine_threadsafe(follow(), self._loop).result()

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of all async runs: clients of models are bound to one."""
        with self._lock:
            if self._own_loop is None:
                self._own_loop = asyncio.new_event_loop()
                run = self._own_loop.run_forever
                Thread(target=run, name="agent-factory-async", daemon=True).start()
            return self._own_loop

    def _undo(self, agent: RegisteredAgent, work: UndoJob, lease: Lease) -> dict[str, object]:
        """Run the compensations of a run that was ended, and say in the audit what became of it."""
        report: dict[str, list[str]] = {"undone": [], "unknown": [], "kept": []}
        with effects_of_run(SharedEffects(self._database, lease), work.of):
            for once in agent.once:
                if agent.asynchronous:
                    undoing = aundo_effects(once, work.of)
                    undone = asyncio.run_coroutine_threadsafe(undoing, self._loop).result()
                else:
                    undone = undo_effects(once, work.of)
                for kind, effects in report.items():
                    effects += map(str, getattr(undone, kind))
        with self._database.begin() as connection:
            lease.check(connection)
            row = lock_thread(connection, work.thread)
            assert row is not None
            self._queue.record(connection, row, "service", "undo", report)
            self._queue.settle(connection, work.thread, work.run, "done")
        return {"status": "done", **report}

    def _finish(
        self, job: str, work: ThreadJob, attempt: _Attempt, usage: list[dict[str, object]]
    ) -> dict[str, object]:
        # Before the transaction: it reads the thread through other connections.
        waiting_for = attempt.pending() if attempt.is_paused else None
        place: dict[str, object] = {"checkpoint_id": attempt.saver.latest}
        with self._database.begin() as connection:
            attempt.lease.check(connection)
            if not waiting_for:
                values = {**place, "usage": usage}
                self._queue.settle(connection, work.thread, work.run, "done", **values)
                return {"status": "done", **place}
            stop = {"job": job, **place}
            write_waits(connection, self._database, attempt.agent, work, waiting_for, stop)
            statement = update(runs).where(runs.c.run_id == work.run).values(usage=usage)
            connection.execute(statement)
        return {"status": "waiting", **place}

    def _may_end(self, connection: Connection, job: str, work: ThreadJob) -> Row[Any] | None:
        """The run of a job that this worker may end, with its thread locked.

        It may unless another living worker has the lease, or the run was ended by others. Nobody
        has the lease of a job that has failed before this worker could take it.
        """
        thread = lock_thread(connection, work.thread)
        run = connection.execute(select(runs).where(runs.c.run_id == work.run)).first()
        if thread is None or run is None or run.job != job or run.status not in _ACTIVE:
            return None
        # A worker without a row was given up by the others.
        others = select(workers.c.id).where(workers.c.id == thread.owner)
        if thread.owner != self._worker() and connection.execute(others).first() is not None:
            return None
        take_lease(connection, work.thread)
        return run

    def _fail(self, job: str, work: ThreadJob, text: str, usage: UsageHandler) -> dict[str, object]:
        with self._database.begin() as connection:
            run = self._may_end(connection, job, work)
            if run is not None:
                values = {"error": text, "usage": usage.added_to(run.usage)}
                self._queue.settle(connection, work.thread, work.run, "failed", **values)
        return {"status": "failed", "error": text}

    def _take_back(self, what: str, job: str, work: DecisionJob, text: str) -> dict[str, object]:
        """Take decisions back that the agent cannot carry out; they can be made again.

        They are stranded if no node takes them, and refused if the review does: for a tool of an
        agent inside, which is not known when a person decides.
        """
        of_run = waits.c.run == work.run
        undone = {"decided_at": None, "decided_by": None, "decision": None}
        with self._database.begin() as connection:
            run = self._may_end(connection, job, work)
            if run is not None:
                taken_back = update(waits).where(of_run, waits.c.digest.in_(work.decisions))
                connection.execute(taken_back.values(**undone))
                waiting = {"status": "waiting", "error": text, "owner": None}
                connection.execute(
                    update(threads).where(threads.c.thread_id == work.thread).values(**waiting)
                )
                connection.execute(
                    update(runs)
                    .where(runs.c.run_id == work.run)
                    .values(status="waiting", error=text)
                )
                self._queue.record(connection, run, "service", what, text)
        return {"status": "waiting", "error": text}


class _Attempt:
    """One attempt to carry out a job, under one lease."""

    def __init__(
        self,
        backend: Backend,
        agent: RegisteredAgent,
        job: str,
        work: ThreadJob,
        lease: Lease,
        run: Row[Any],
        usage: UsageHandler,
    ) -> None:
        """Prepare an attempt.

        Args:
            backend: The parts of the service.
            agent: The agent.
            job: The id of the job.
            work: What the job does: a message or decisions.
            lease: The lease of the thread.
            run: The run, with the message that it began with, whose settings hold to its end.
            usage: Counts the model calls.
        """
        self.agent, self.lease, self._job, self._work = agent, lease, job, work
        self._database = backend.database
        message = read_job(run.payload)
        if not isinstance(message, MessageJob):  # of a run that `reindex` has found
            place = {name: getattr(work, name) for name in ("run", "thread", "tenant", "agent")}
            message = MessageJob(**place, priority=work.priority, input="")
        choices = (getattr(work, "stream", None), message.stream, agent.stream)
        self.modes = {*next(modes for modes in choices if modes is not None)}
        self.subgraphs = message.subgraphs
        # Recorded for the studio even if the client did not ask: `_follow` marks such parts.
        self.studio_modes = {"custom", "messages", "updates"} if agent.decisions else set()
        self._context = message.context
        self.saver = FencedSaver(backend.database, lease, job)
        self.is_paused = self.continues = False
        self._from: str | None = None  # the checkpoint to go back to
        store = TenantStore(backend.database, work.tenant, in_run=True)
        stops: dict[str, str | list[str]] = {}
        for name in ("interrupt_before", "interrupt_after"):
            agent_nodes, run_nodes = (
                getattr(agent.graph, f"{name}_nodes"),
                getattr(message, name) or (),
            )
            # A run adds pauses to those of the agent, which may be reviews, and removes none.
            everywhere = "*" in (agent_nodes, run_nodes)
            stops[f"{name}_nodes"] = (
                "*" if everywhere else [*dict.fromkeys([*agent_nodes, *run_nodes])]
            )
        self._graph = agent.stored_in(self.saver, store).copy(update=stops)
        config = message.config
        self._config: RunnableConfig = {
            **config,
            "configurable": {**config.get("configurable", {}), "thread_id": work.thread},
            "metadata": {
                # First, so that metadata of a client cannot replace the keys below. With a known
                # run id, LangGraph would drop the input, and pass a pause (see `upstream.RUN_ID`).
                **{key: value for key, value in run.metadata.items() if key != RUN_ID},
                RUN_KEY: work.run,
                JOB_KEY: job,
                AGENT_KEY: agent.name,
                TENANT_KEY: work.tenant,
                **({"traceparent": work.trace} if work.trace else {}),
            },
            "callbacks": [Fence(backend.database, lease), usage, *backend.callbacks],
        }

    def start(self) -> object:
        """Begin or continue the run; return its stream, or None if the job is done."""
        options: dict[str, object] = {
            "durability": "sync",  # an answer of the model is stored before its tools run
            # `_follow` finds interrupts in the updates, whatever the client asks for.
            "stream_mode": sorted({*self.modes, *self.studio_modes, "updates"}),
            "subgraphs": True,
            "version": "v2",
        }
        if self._context is not None:
            options["context"] = self._context
        latest = self.saver.get_tuple(self._config)
        if latest is not None:
            self.saver.latest = latest.checkpoint["id"]
        # The job has stored a checkpoint before: another worker was cut short in it.
        if latest is not None and latest.metadata.get(JOB_KEY) == self._job:
            return self._continue(options)
        work = self._work
        if isinstance(work, DecisionJob):
            decisions = self._unused(work.decisions)
            if not decisions:  # the step that they began has no checkpoint yet
                return self._continue(options)
            if "" in decisions:  # the run was stopped where no call waits
                return self._reviewed(approve, aapprove, None, options)
            return self._reviewed(decide, adecide, decisions, options)
        assert isinstance(work, MessageJob)  # to undo a run, none is attempted
        inputs = load(b64decode(work.input))
        if latest is not None and work.rollback:
            latest = checkpoint_before(self.saver, work.thread, work.rollback)
            if latest is None:
                self.saver.delete_thread(work.thread)
            else:
                self._from = latest.checkpoint["id"]
        unread = self._unread(latest, work.before) if work.before else []
        if work.checkpoint is not None:
            self._from = None if work.checkpoint == self.saver.latest else work.checkpoint
        if inputs is None:
            return self._go_on(options)
        # From the newest back, so that the oldest message is the first.
        for earlier in reversed(unread):
            inputs = {**earlier, **inputs, "messages": [*earlier["messages"], *inputs["messages"]]}
        snapshot = self._graph.get_state(self._place())
        # A run that failed or was cancelled leaves a thread in the middle of a turn.
        if snapshot.tasks and START not in snapshot.next:
            return self._reviewed(add_input, aadd_input, inputs, options)
        return self._stream(inputs, options)

    def _unused(self, decisions: Mapping[str, object]) -> dict[str, object]:
        """The decisions that no task of this job has taken, by the digests of their calls.

        Each call is a task: of those that a dead worker has begun, some have stored
        what came of their decision, and others nothing. A task that has asked again has taken its
        decision, also where the next question is the same: another reviewer may ask it.
        """
        this_thread = questions.c.thread_id == self._work.thread
        with self._database.read() as connection:
            query = select(questions.c.interrupt_id).where(
                this_thread, questions.c.job == self._job
            )
            asked_again = {*connection.execute(query).scalars()}
        calls = self.pending().calls
        still_open = {call.digest for call in calls if call.interrupt_id not in asked_again}
        if not calls:
            still_open = {""}
        return {digest: decisions[digest] for digest in decisions if digest in still_open}

    def _unread(
        self, latest: CheckpointTuple | None, before: Sequence[tuple[str, str, str | None]]
    ) -> list[Any]:
        """Inputs of interrupted runs that are not in the state yet; a fork among them begins."""
        snapshot = self._graph.get_state(self._config)
        unread: list[object] = []
        for run, input, checkpoint in before:
            is_reached = latest is not None and latest.metadata.get(RUN_KEY) == run
            unread = [] if is_reached else unread
            if checkpoint is not None and not is_reached:
                self._from = checkpoint
            message = load(b64decode(input))
            if message is not None and (not is_reached or START in snapshot.next):
                unread.append(message)
        return unread

    def _go_on(self, options: Mapping[str, object]) -> object:
        """Go on without a message. A decision holds for the run that it was made in, and no other.

        So a client cannot let a call run that was decided about before, by going on after a
        cancelled run, from an earlier checkpoint, or in a copy of the thread.
        """
        place = self._place()
        turns = repeat_review(self._graph, place, earlier=self._from is not None)
        self.is_paused = any(self._pauses(graph, at, node) for graph, at, node in turns)
        if turns[0][1] is not place:
            self._from = None  # it was written to, so it is the newest
        if not self.is_paused:
            return self._stream(None, options)
        if self._from is not None:
            self._graph.update_state(place, None, COPY_BRANCH)
        return None

    def _pauses(self, graph: Any, place: RunnableConfig, node: str | None) -> bool:
        """Return True if a run that goes on stops at once, at a pause that an agent itself has set.

        LangGraph passes a pause at which a run begins.

        Args:
            graph: The agent, or one that is a node of it.
            place: Where it goes on.
            node: The node that has written the state; None if that is to be found out.
        """
        agent = self.agent.graph if graph is self._graph else graph
        before, after = agent.interrupt_before_nodes, agent.interrupt_after_nodes
        snapshot: StateSnapshot = self._graph.get_state(place)
        following = {*snapshot.next} - {START}
        if following and (before == "*" or not following.isdisjoint(before)):
            return True
        source = (snapshot.metadata or {}).get("source")
        if not (following and after) or source == "input":
            return False
        if after == "*" or node is not None:
            return after == "*" or node in after
        if source != "loop" or snapshot.parent_config is None:
            return True  # the checkpoint does not say which node was written for
        return not set(self._graph.get_state(snapshot.parent_config).next).isdisjoint(after)

    def pending(self) -> Pending:
        """Waits of the thread; MissingNode if the agent does not have the node."""
        return pending(self._graph, self._config)

    def _continue(self, options: Mapping[str, object]) -> object:
        """Continue a run that was cut short; None if it has ended or is paused."""
        self.pending()  # raises if no node of the agent can continue
        snapshot: StateSnapshot = self._graph.get_state(self._config)
        before, after = self._graph.interrupt_before_nodes, self._graph.interrupt_after_nodes
        # A run that was cut short before such a node must not skip the review. What a decision
        # wrote to the thread is another source: its run still has to continue.
        stops = bool(after) or before == "*" or not set(snapshot.next).isdisjoint(before)
        from_loop = (snapshot.metadata or {}).get("source") == "loop"
        work = self._work
        goes_on = isinstance(work, MessageJob) and load(b64decode(work.input)) is None
        may_stop = snapshot.next and stops and (from_loop or goes_on)
        self.is_paused = bool(snapshot.interrupts or may_stop)
        self.continues = True
        # A step that has finished and has no checkpoint yet is missing from `next`.
        return self._stream(None, options) if snapshot.tasks and not self.is_paused else None

    def _stream(self, input: object, options: Mapping[str, object]) -> object:
        graph = self._graph
        method: Callable[..., object] = graph.astream if self.agent.asynchronous else graph.stream
        return method(input, self._place(), **options)

    def _reviewed(
        self,
        act: Callable[..., object],
        aact: Callable[..., object],
        value: object,
        options: Mapping[str, object],
    ) -> object:
        method = aact if self.agent.asynchronous else act
        arguments = () if value is None else (value,)
        return method(self._graph, self._place(), *arguments, stream=True, **options)

    def _place(self) -> RunnableConfig:
        """The config of the run: at the latest checkpoint, or where it goes back to."""
        if self._from is None:
            return self._config
        # LangGraph's update_state needs the namespace where there is an id.
        place = {"checkpoint_ns": "", "checkpoint_id": self._from}
        configurable = {**self._config["configurable"], **place}
        return {**self._config, "configurable": configurable}


def checkpoint_before(saver: FencedSaver, thread: str, run: str) -> CheckpointTuple | None:
    """The newest checkpoint of a thread that another run than this one has stored."""
    place: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    checkpoints = saver.list(place)
    return next(
        (checkpoint for checkpoint in checkpoints if checkpoint.metadata.get(RUN_KEY) != run), None
    )


def write_waits(
    connection: Connection,
    database: Database,
    agent: RegisteredAgent,
    work: ThreadJob,
    waiting_for: Pending,
    place: Mapping[str, object],
) -> None:
    """Write what a thread waits for; each attempt of a job writes the same rows.

    Args:
        connection: The transaction.
        database: The database.
        agent: The agent, which knows how long a review may wait.
        work: The job that has led there, or one in its place.
        waiting_for: What the thread waits for.
        place: The `job` that has led there, and the `checkpoint_id`.
    """
    calls: list[dict[str, object]] = [
        {
            "call_id": call.id,
            "digest": call.digest,
            "tool": call.name,
            "kind": call.kind,
            # With letters as they are, since `Inbox.waits(text=...)` searches in this text.
            "args": json.dumps(call.args, default=str, ensure_ascii=False),
            "question": json.dumps(call.question, default=str),
            "allowed": ",".join(call.allowed),
            "call_digest": call.call_digest,
            "reviewers": [*call.reviewers],
            "remember": call.remember,
        }
        for call in waiting_for.calls
    ]
    # The run has stopped where no call waits: one wait stands for the pause.
    if not calls:
        nothing = {"call_id": "", "digest": "", "args": "{}", "question": "null"}
        calls = [{**nothing, "tool": waiting_for.next[0], "kind": "pause", "allowed": "approve"}]
    now, within = database.now, agent.review_within
    for call in calls:
        key = f"{place['job']} {call['digest'] or call['tool']}"
        row = database.insert(waits).values(
            **call,
            # The same in each attempt, so that the row of an earlier one stays.
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
        )
        connection.execute(row.on_conflict_do_nothing())
    connection.execute(
        update(threads)
        .where(threads.c.thread_id == work.thread)
        .values(status="waiting", run=work.run, owner=None, error=None, updated_at=now)
    )
    statement = update(runs).where(runs.c.run_id == work.run)
    connection.execute(
        statement.values(status="waiting", checkpoint_id=place["checkpoint_id"], error=None)
    )
