"""Runner: carries out jobs on threads, so that another worker can continue at any point."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
from base64 import b64decode
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, sleep
from typing import Any, Protocol, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import START
from langgraph.types import StateSnapshot
from sqlalchemy import Connection, select, update

from agent_factory.errors import MissingNode
from agent_factory.middleware.background import jobs_of_run
from agent_factory.middleware.once import aundo_effects, effects_of_run, undo_effects
from agent_factory.middleware.steering import mailbox_of_run
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
    JOB_KEY,
    RUN_KEY,
    Backend,
    RegisteredAgent,
    config_of,
)
from agent_factory.service.background import SharedJobs
from agent_factory.service.database import RETRY_SECONDS, Database, attempts
from agent_factory.service.effects import SharedEffects
from agent_factory.service.errors import DatabaseLost, LeaseLost
from agent_factory.service.events import dump_part
from agent_factory.service.jobs import DecisionJob, MessageJob, ThreadJob, UndoJob, read_job
from agent_factory.service.leases import Fence, take_lease
from agent_factory.service.message_serializer import dump, load
from agent_factory.service.outputs import Output
from agent_factory.service.saver import FencedSaver
from agent_factory.service.steering import SharedMailbox
from agent_factory.service.store import TenantStore
from agent_factory.service.tables import questions, runs, threads, waits
from agent_factory.service.thread_queue import Claim, lock_thread
from agent_factory.service.usage import UsageHandler
from agent_factory.state import storable_text
from agent_factory.upstream import COPY_BRANCH, INTERRUPT

logger = logging.getLogger("agent_factory.service")


class Runner:
    """Carries out the jobs of one process.

    What a job does is written once, as steps: a driver for threads and one for an event loop take
    them.

    Args:
        backend: The parts of the service.
        worker: The id of the worker.
    """

    def __init__(self, backend: Backend, worker: Callable[[], str]) -> None:
        self._backend, self._worker = backend, worker
        self._database, self._queue, self._log = backend.database, backend.queue, backend.log

    def run(self, claim: Claim) -> None:
        """Carry out a job, or continue it where another worker was cut short."""
        steps = self._steps(claim)
        step = _next(steps)
        while step is not None:
            error = None
            try:
                step.run()
            except BaseException as raised:
                error = raised
            step = _next(steps, error)

    async def arun(self, claim: Claim) -> None:
        """Async variant of `run`; the database is asked in other threads."""
        loop, steps = asyncio.get_running_loop(), self._steps(claim)
        threads = self._database.threads
        step = await loop.run_in_executor(threads, _next, steps)
        while step is not None:
            error = None
            try:
                await step.arun()
            except BaseException as raised:
                error = raised
            step = await loop.run_in_executor(threads, _next, steps, error)

    def _steps(self, claim: Claim) -> Steps[None]:
        start = monotonic()
        try:
            status = yield from self._outcome(claim)
        except LeaseLost:
            status = "lost"  # another worker has taken over, or the run was cancelled
        self._backend.metrics.ended(claim.run.agent, status, monotonic() - start)

    def _outcome(self, claim: Claim) -> Steps[str]:
        """Carry out a job, and write what became of it, whatever that is."""
        run, usage = claim.run, UsageHandler()
        claims = [claim]  # the last one has the lease
        try:
            work = claim.work()
            assert work is not None  # only the rows of runs may be empty
            return (yield from self._repeated(partial(self._attempt, claims, work, usage)))
        except LeaseLost:
            raise
        except (MissingNode, ReviewError) as error:
            logger.exception("Thread %s cannot continue.", run.thread_id)
            write = partial(self._fail, claims[-1], storable_text(str(error)), usage)
            if run.decision is not None:
                what = "stranded" if isinstance(error, MissingNode) else "refused"
                write = partial(self._take_back, what, claims[-1], storable_text(str(error)))
        except (Exception, DatabaseLost) as error:
            # DatabaseLost is a BaseException, so that no middleware catches it.
            logger.exception("Run %s of thread %s failed.", run.run_id, run.thread_id)
            text = storable_text(f"{type(error).__name__}: {error}")
            write = partial(self._fail, claims[-1], text, usage)
        # Without this, the thread would take no other message: as long as it takes.
        return (yield from self._repeated(write, math.inf))

    def _repeated(
        self, make: Callable[[int], Steps[str]], seconds: float = RETRY_SECONDS
    ) -> Steps[str]:
        """Take steps until their end, from the beginning again while there is no database."""
        pauses: list[float] = []
        for number, attempt in enumerate(attempts(seconds, pauses.append)):
            while pauses:
                yield _Sleep(pauses.pop())
            with attempt:
                return (yield from make(number))
        raise AssertionError  # Retrying returns or raises

    def _attempt(
        self, claims: list[Claim], work: ThreadJob, usage: UsageHandler, number: int
    ) -> Steps[str]:
        if number:
            claims.append(self._queue.claim_again(claims[-1]))
        claim = claims[-1]
        agent = self._backend.agent(work.agent)
        if claim.plan not in (None, agent.plan):
            logger.warning(
                "The plan of agent %r has changed since thread %s ran. If the thread waits at a "
                "node that was renamed, pass create_agent(..., moved=...).",
                agent.name,
                work.thread,
            )
        if isinstance(work, UndoJob):
            undoing = _Undoing(agent, work, SharedEffects(self._database, claim.lease))
            yield undoing
            with self._ending(claim, {"status": "done", **undoing.report}) as connection:
                claim.lease.check(connection)
                row = lock_thread(connection, claim.lease.thread_id)
                assert row is not None  # the lease is there
                self._queue.record(connection, row, "service", "undo", undoing.report)
                self._queue.settle(connection, row.thread_id, claim.run.run_id, "done")
            return "done"
        attempt = _Attempt(self._backend, agent, claim, work, usage)
        parts = attempt.start()
        if attempt.continues:
            data = {"worker": self._worker()}
            self._log.add(claim.job, {"type": "resumed", "ns": (), "data": data})
        if parts is not None:
            yield _Following(self._backend, claim, attempt, parts, self._worker())
        return self._finish(claim, work, attempt)

    def _finish(self, claim: Claim, work: ThreadJob, attempt: _Attempt) -> str:
        # Before the transaction: it reads the thread through other connections.
        waiting_for = attempt.pending() if attempt.is_paused else None
        plan, spent = attempt.agent.plan, attempt.usage.columns_of(claim.run)
        place = {"checkpoint_id": attempt.saver.latest}
        status = "waiting" if waiting_for else "done"
        is_awaited = status == "done" and self._backend.outputs.are_awaited(work.run)
        output = attempt.output() if is_awaited else None
        ending = self._ending(claim, {"status": status, **place}, attempt.last_parts)
        with attempt.saver.order, ending as connection:
            attempt.lease.check(connection)
            attempt.saver.flush_in(connection)
            if waiting_for:
                stop = {"job": claim.job, **place, **spent, "plan": plan}
                write_waits(connection, self._database, attempt.agent, work, waiting_for, stop)
            else:
                of_run = {**place, **spent}
                self._queue.settle(connection, work.thread, work.run, "done", plan, **of_run)
            # Before the signal of the end, since `_ending` sends that after this block.
            if output is not None:
                self._database.after_commit(partial(self._backend.outputs.add, work.run, output))
        return status

    @contextmanager
    def _ending(
        self,
        claim: Claim,
        outcome: Mapping[str, object],
        last_parts: Sequence[Mapping[str, object]] = (),
    ) -> Iterator[Connection]:
        """A transaction that ends a job: with its last events, so that both are there or none."""
        parts = self._log.take(claim.job)
        end = [*map(dump_part, last_parts), dump({"type": "end", "ns": (), "data": outcome})]
        try:
            with self._database.begin() as connection:
                yield connection
                self._log.write(
                    connection, {claim.job: [*parts, *end]}, {"ends": [claim.run.run_id]}
                )
        except BaseException:
            self._log.put_back(claim.job, parts)
            raise

    def _take_from_attempt(self, connection: Connection, claim: Claim) -> None:
        """Lock the thread. What the attempt has begun to write comes too late from here on.

        Raises:
            LeaseLost: The job was ended, or taken over.
        """
        self._queue.lock_claim(connection, claim)
        take_lease(connection, claim.lease.thread_id)

    def _fail(self, claim: Claim, text: str, usage: UsageHandler, _: int) -> Steps[str]:
        yield from ()  # it has no step that takes long
        run = claim.run
        with self._ending(claim, {"status": "failed", "error": text}) as connection:
            self._take_from_attempt(connection, claim)
            of_run = {"error": text, **usage.columns_of(run)}
            self._queue.settle(connection, run.thread_id, run.run_id, "failed", None, **of_run)
        return "failed"

    def _take_back(self, what: str, claim: Claim, text: str, _: int) -> Steps[str]:
        """Take decisions back that the agent cannot carry out; they can be made again.

        They are stranded if no node takes them, and refused if the review does: for a tool of an
        agent inside, which is not known when a person decides.
        """
        yield from ()  # it has no step that takes long
        work = claim.work()
        assert isinstance(work, DecisionJob)
        of_run = waits.c.run == work.run
        undone = {"decided_at": None, "decided_by": None, "decision": None}
        with self._ending(claim, {"status": "waiting", "error": text}) as connection:
            self._take_from_attempt(connection, claim)
            taken_back = update(waits).where(of_run, waits.c.digest.in_(work.decisions))
            connection.execute(taken_back.values(**undone))
            waiting = {"status": "waiting", "error": text, "owner": None}
            connection.execute(
                update(threads).where(threads.c.thread_id == work.thread).values(**waiting)
            )
            connection.execute(
                update(runs).where(runs.c.run_id == work.run).values(status="waiting", error=text)
            )
            self._queue.record(connection, claim.run, "service", what, text)
        return "waiting"


T = TypeVar("T")


class _Step(Protocol):
    """A part of a job that takes long: a thread or an event loop carries it out."""

    def run(self) -> None:
        """Carry it out in this thread."""

    async def arun(self) -> None:
        """Carry it out in this event loop."""


Steps = Generator[_Step, None, T]


def _next(steps: Steps[None], error: BaseException | None = None) -> _Step | None:
    """The next step, after one that has ended or raised; None at the end."""
    try:
        return steps.send(None) if error is None else steps.throw(error)
    except StopIteration:
        return None


@dataclass(frozen=True, slots=True)
class _Sleep:
    """A pause."""

    seconds: float

    def run(self) -> None:
        sleep(self.seconds)

    async def arun(self) -> None:
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class _Following:
    """A run to its end or to its next pause, of which the event log gets what happens."""

    backend: Backend
    claim: Claim
    attempt: _Attempt
    parts: Any
    worker: str

    def run(self) -> None:
        with self._set_up():
            for part in self.parts:
                self._note(part)

    async def arun(self) -> None:
        with self._set_up():
            # `astream` returns a stream, and `adecide` a coroutine that returns one.
            parts = self.parts if hasattr(self.parts, "__aiter__") else await self.parts
            async for part in parts:
                self._note(part)

    @contextmanager
    def _set_up(self) -> Iterator[None]:
        """What middleware find: effects, standing approvals, the mailbox, background jobs."""
        backend, lease, run = self.backend, self.claim.lease, self.claim.run
        approvals = SharedApprovals(backend.database, backend.queue, lease, run.tenant, run.agent)
        effects = SharedEffects(backend.database, lease)
        try:
            with (
                effects_of_run(effects, run.run_id),
                approvals_of_run(approvals),
                mailbox_of_run(self.attempt.mailbox),
                jobs_of_run(SharedJobs(backend, lease, run, self.worker)),
            ):
                yield
        except Exception:
            # What the run has written before its error stays.
            self.attempt.saver.flush()
            for part in self.attempt.last_parts:
                self.backend.log.add(self.claim.job, part)
            raise

    def _note(self, part: Any) -> None:
        attempt = self.attempt
        if part["type"] == "custom":
            attempt.usage.add_decision(part["data"])
        is_question = part["type"] == "updates" and INTERRUPT in part["data"]
        # LangGraph reports an interrupt of an agent inside at the top, too.
        if is_question and not part["ns"]:
            attempt.is_paused = True
        if part["type"] == "values" and not part["ns"]:
            attempt.values = part["data"]
        is_asked = part["type"] in attempt.modes and (attempt.subgraphs or not part["ns"])
        if is_asked or part["type"] in attempt.studio_modes:
            public = attempt.agent.public.of_part(part)
            public = public if is_asked else {**public, "asked": False}
            # A client may answer as soon as it sees a question, so it sees none before the thread
            # waits for the answer.
            if is_question or attempt.is_paused or part.get("interrupts"):
                attempt.last_parts.append(public)
            else:
                self.backend.log.add(self.claim.job, public)


@dataclass(frozen=True, slots=True)
class _Undoing:
    """The compensations of a run that was ended."""

    agent: RegisteredAgent
    work: UndoJob
    effects: SharedEffects
    report: dict[str, list[str]] = field(
        default_factory=lambda: {"undone": [], "unknown": [], "kept": []}
    )

    def run(self) -> None:
        with effects_of_run(self.effects, self.work.of):
            for once in self.agent.once:
                self._add(undo_effects(once, self.work.of))

    async def arun(self) -> None:
        with effects_of_run(self.effects, self.work.of):
            for once in self.agent.once:
                self._add(await aundo_effects(once, self.work.of))

    def _add(self, undone: object) -> None:
        for kind, effects in self.report.items():
            effects += map(str, getattr(undone, kind))


class _Attempt:
    """One attempt to carry out a job, under one lease."""

    def __init__(
        self,
        backend: Backend,
        agent: RegisteredAgent,
        claim: Claim,
        work: ThreadJob,
        usage: UsageHandler,
    ) -> None:
        """Prepare an attempt.

        Args:
            backend: The parts of the service.
            agent: The agent.
            claim: The job. The settings of the message that its run began with hold to the end.
            work: What the job does: a message or decisions.
            usage: Counts the model calls, and notes the steps.
        """
        self.usage = usage
        job, lease, run = claim.job, claim.lease, claim.run
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
        self.mailbox = SharedMailbox(backend.database, backend.signals, lease, message)
        soon, is_agent = backend.log.soon, agent.plan is not None
        self.saver = FencedSaver(backend.database, lease, job, soon, self.mailbox, is_agent)
        self.is_paused = self.continues = False
        self.last_parts: list[Mapping[str, object]] = []  # written with the outcome
        self.values: object = None  # of the output, as far as the run has come
        self._from: str | None = None  # the checkpoint to go back to
        store = TenantStore(backend.database, work.tenant, in_run=True)
        self._graph = agent.stored_in(self.saver, store)
        if message.interrupt_before or message.interrupt_after:
            stops: dict[str, str | list[str]] = {}
            for name in ("interrupt_before", "interrupt_after"):
                agent_nodes = getattr(agent.graph, f"{name}_nodes")
                run_nodes = getattr(message, name) or ()
                # A run adds pauses to those of the agent, which may be reviews, and removes none.
                everywhere = "*" in (agent_nodes, run_nodes)
                stops[f"{name}_nodes"] = (
                    "*" if everywhere else [*dict.fromkeys([*agent_nodes, *run_nodes])]
                )
            self._graph = self._graph.copy(update=stops)
        config = config_of(run, work.trace)
        self._config: RunnableConfig = {
            **config,
            "metadata": {**config["metadata"], JOB_KEY: job},
            "callbacks": [Fence(backend.database, lease), usage, *backend.callbacks],
        }

    def start(self) -> object:
        """Begin or continue the run; return its stream, or None if the job is done."""
        options: dict[str, object] = {
            "durability": "sync",  # an answer of the model is stored before its tools run
            # `_note` finds interrupts in the updates, and the output in the values, whatever the
            # client asks for.
            "stream_mode": sorted({*self.modes, *self.studio_modes, "updates", "values"}),
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
        if latest is not None:
            snapshot = self._graph.get_state(self._place())
            # A run that failed or was cancelled leaves a thread in the middle of a turn.
            if snapshot.tasks and START not in snapshot.next:
                return self._reviewed(add_input, aadd_input, inputs, options)
        return self._stream(inputs, options)

    def output(self) -> Output | None:
        """The output of the run, which has ended; None if only its checkpoint has it."""
        if self.values is None or not self.agent.is_output_stored:
            return None
        serde = self.saver.serde
        written = serde.dumps_typed(self.agent.public.of_values(self.values))
        return partial(serde.loads_typed, written)

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
        place: The `job` that has led there, and the `checkpoint_id`; of a run that pauses now,
            its `usage`, its `steps` and the agent's `plan`, too.
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
            # Nobody decides about a call that the client of the thread runs.
            notice_due=now if agent.notices and call["kind"] != "client" else None,
        )
        connection.execute(row.on_conflict_do_nothing())
    of_thread = {key: place[key] for key in ("plan",) if key in place}
    of_run = {key: place[key] for key in ("checkpoint_id", "usage", "steps") if key in place}
    connection.execute(
        update(threads)
        .where(threads.c.thread_id == work.thread)
        .values(status="waiting", run=work.run, owner=None, error=None, updated_at=now, **of_thread)
    )
    connection.execute(
        update(runs).where(runs.c.run_id == work.run).values(status="waiting", error=None, **of_run)
    )
