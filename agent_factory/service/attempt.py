"""Attempts: one job under one lease, from its start to its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import START
from langgraph.types import StateSnapshot

from agent_factory.middleware.once import Recording, aundo_effects, undo_effects
from agent_factory.review import (
    Pending,
    aadd_input,
    acarry_out,
    add_input,
    carry_out,
    is_paused,
    read_thread,
    repeat_review,
)
from agent_factory.service.approvals import SharedApprovals
from agent_factory.service.backend import Backend, RegisteredAgent, config_of
from agent_factory.service.background import SharedJobs
from agent_factory.service.effects import SharedEffects
from agent_factory.service.engines.engine import Status
from agent_factory.service.events import EventLog
from agent_factory.service.jobs import (
    JOB_KEY,
    RUN_KEY,
    DecisionJob,
    MessageJob,
    ThreadJob,
    UndoJob,
    load_input,
    message_of,
)
from agent_factory.service.leases import Fence
from agent_factory.service.outputs import Output
from agent_factory.service.saver import FencedSaver
from agent_factory.service.steering import SharedMailbox
from agent_factory.service.store import TenantStore
from agent_factory.service.thread_queue import Claim, lock_thread
from agent_factory.service.usage import UsageHandler
from agent_factory.service.waits import unused_decisions, write_waits
from agent_factory.types import providing
from agent_factory.upstream import COPY_BRANCH, INTERRUPT

Thread = tuple[StateSnapshot, Pending]
"""The state of a thread, and its waits."""


class RunAttempt:
    """One attempt to begin a run, or to continue it, up to its end or its next pause.

    The settings of the message that began the run hold to its end.
    """

    def __init__(
        self, backend: Backend, claim: Claim, work: ThreadJob, usage: UsageHandler, worker: str
    ) -> None:
        self._backend, self._claim, self._work = backend, claim, work
        agent = self._agent = backend.agent(work.agent)
        self._usage, self._worker, database, lease = usage, worker, backend.database, claim.lease
        message = work if isinstance(work, MessageJob) else message_of(claim.run)
        self._mailbox = SharedMailbox(database, backend.signals, lease, message)
        is_agent = agent.plan is not None
        self._saver = FencedSaver(
            database, lease, claim.job, backend.log.soon, self._mailbox, is_agent
        )
        self._checkpoint: str | None = None  # at which the run begins; None for the newest
        self._graph = agent.stored_in(self._saver, TenantStore(database, work.tenant, in_run=True))
        if message.interrupt_before or message.interrupt_after:
            stops: dict[str, str | list[str]] = {}
            for name in ("interrupt_before", "interrupt_after"):
                agent_nodes = getattr(agent.graph, f"{name}_nodes")
                run_nodes = getattr(message, name) or ()
                # A run adds pauses to those of the agent, which may be reviews, and removes none.
                everywhere = "*" in (agent_nodes, run_nodes)
                nodes = [*dict.fromkeys([*agent_nodes, *run_nodes])]
                stops[f"{name}_nodes"] = "*" if everywhere else nodes
            self._graph = self._graph.copy(update=stops)
        config = config_of(claim.run, message, work.trace)
        self._config: RunnableConfig = {
            **config,
            "metadata": {**config["metadata"], JOB_KEY: claim.job},
            "callbacks": [Fence(database, lease), usage, *backend.callbacks],
        }
        modes = (getattr(work, "stream", None), message.stream, agent.stream)
        chosen = next(mode for mode in modes if mode is not None)
        self._recorder = Recorder(backend.log, claim.job, agent, chosen, message.subgraphs)
        self._options: dict[str, object] = {
            "durability": "sync",  # an answer of the model is stored before its tools run
            "stream_mode": self._recorder.all_modes,
            "subgraphs": message.subgraphs or agent.decisions,
            "version": "v2",
        }
        if message.context is not None:
            self._options["context"] = message.context
        self._parts: Any = None

    def start(self) -> RunAttempt | None:
        """Begin or continue the run; return the step that follows it, or None if it has ended."""
        latest, work = self._saver.get_tuple(self._config), self._work
        if latest is not None:
            self._saver.latest = latest.checkpoint["id"]
        has_begun = latest is not None and latest.metadata.get(JOB_KEY) == self._claim.job
        is_write = latest is not None and latest.metadata.get("source") == "update"
        if has_begun and is_write and isinstance(work, MessageJob):
            # So far, the job has only ended the turn before its own.
            latest, has_begun = self._saver.before(work.thread, work.run), False
        # The job has stored a checkpoint before: another worker was interrupted.
        if has_begun:
            self._parts = self._resume()
        elif isinstance(work, DecisionJob):
            self._parts = self._carry_out(work.decisions)
        else:
            assert isinstance(work, MessageJob)
            self._parts = self._take_message(work, latest)
        return None if self._parts is None else self

    # Ways to start: each returns the stream of the run, or None

    def _stream(self, input: object) -> object:
        """Run the agent with an input."""
        graph = self._graph
        method: Callable[..., object] = graph.astream if self._agent.asynchronous else graph.stream
        return method(input, self._start_config, **self._options)

    def _take_message(self, work: MessageJob, latest: CheckpointTuple | None) -> object:
        """Run the agent with a message, after unread messages of ended runs."""
        if latest is not None and work.rollback:
            latest = self._saver.before(work.thread, work.rollback)
            if latest is None:
                self._saver.delete_thread(work.thread)
            else:
                self._checkpoint = latest.checkpoint["id"]
        unread = self._unread(latest, work.before) if work.before else []
        if work.checkpoint is not None:
            is_newest = work.checkpoint == self._saver.latest
            self._checkpoint = None if is_newest else work.checkpoint
        input = load_input(work.input)
        if input is None:
            return self._go_on()
        # From the newest back, so that the oldest message is the first.
        for earlier in reversed(unread):
            input = {**earlier, **input, "messages": [*earlier["messages"], *input["messages"]]}
        if latest is not None:
            snapshot = self._graph.get_state(self._start_config)
            # A run that failed or was cancelled leaves a thread in the middle of a turn.
            if snapshot.tasks and START not in snapshot.next:
                add = aadd_input if self._agent.asynchronous else add_input
                place = self._start_config
                return add(self._graph, place, input, stream=True, **self._options)
        return self._stream(input)

    def _carry_out(self, decisions: Mapping[str, Any]) -> object:
        """Run the agent with decisions, without decisions that a task has taken before."""
        thread = self.read()
        database, job = self._backend.database, self._claim.job
        unused = unused_decisions(database, self._work.thread, job, thread[1], decisions)
        if not unused:  # the step of the decisions has no checkpoint yet
            return self._resume(thread)
        act = acarry_out if self._agent.asynchronous else carry_out
        return act(self._graph, self._config, thread, unused, stream=True, **self._options)

    def _resume(self, thread: Thread | None = None) -> object:
        """Continue an interrupted run; None if the run has ended or is paused."""
        data = {"worker": self._worker}
        self._backend.log.add(self._claim.job, {"type": "resumed", "ns": (), "data": data})
        # Raises if no node of the agent can continue.
        snapshot, _ = thread or self.read()
        goes_on = isinstance(self._work, MessageJob) and load_input(self._work.input) is None
        self._recorder.is_paused = is_paused(self._graph, snapshot, goes_on=goes_on)
        # A step that has finished and has no checkpoint yet is missing from `next`.
        is_over = not snapshot.tasks or self._recorder.is_paused
        return None if is_over else self._stream(None)

    def _go_on(self) -> object:
        """Go on without a message. A decision holds only for its run.

        So a client cannot use an earlier decision about a call by going on after a cancelled run,
        from an earlier checkpoint, or in a copy of the thread.
        """
        place = self._start_config
        turns = repeat_review(self._graph, place, earlier=self._checkpoint is not None)
        is_paused = any(self._pauses(graph, at, node) for graph, at, node in turns)
        self._recorder.is_paused = is_paused
        if turns[0][1] is not place:
            self._checkpoint = None  # after the write, it is the newest
        if not is_paused:
            return self._stream(None)
        if self._checkpoint is not None:
            self._graph.update_state(place, None, COPY_BRANCH)
        return None

    def _pauses(self, graph: Any, place: RunnableConfig, node: str | None) -> bool:
        """Return True if a run that goes on stops at once, at a pause of an agent or an inner one.

        LangGraph passes a pause at which a run begins. `node` has written the state, if known.
        """
        agent = self._agent.graph if graph is self._graph else graph
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
            return True  # the checkpoint does not name the node that wrote
        return not set(self._graph.get_state(snapshot.parent_config).next).isdisjoint(after)

    # Reading

    def read(self) -> Thread:
        """The state of the thread, and its waits; MissingNode if the agent lacks their node."""
        return read_thread(self._graph, self._config)

    def _unread(
        self, latest: CheckpointTuple | None, before: Sequence[tuple[str, str, str | None]]
    ) -> list[Any]:
        """Inputs of ended runs that are not in the state yet; a fork among these runs begins."""
        snapshot = self._graph.get_state(self._config)
        unread: list[object] = []
        for run, input, checkpoint in before:
            is_reached = latest is not None and latest.metadata.get(RUN_KEY) == run
            unread = [] if is_reached else unread
            if checkpoint is not None and not is_reached:
                self._checkpoint = checkpoint
            message = load_input(input)
            if message is not None and (not is_reached or START in snapshot.next):
                unread.append(message)
        return unread

    @property
    def _start_config(self) -> RunnableConfig:
        """The config of the run: at the newest checkpoint, or at `_checkpoint`."""
        if self._checkpoint is None:
            return self._config
        # LangGraph's update_state needs the namespace where there is an id.
        place = {"checkpoint_ns": "", "checkpoint_id": self._checkpoint}
        configurable = {**self._config["configurable"], **place}
        return {**self._config, "configurable": configurable}

    # Following

    def run(self) -> None:
        """Follow the run in this thread."""
        with self._services():
            for part in self._parts:
                self._note(part)

    async def arun(self) -> None:
        """Follow the run in this event loop."""
        with self._services():
            # `astream` returns a stream, and `acarry_out` a coroutine that returns one.
            is_stream = hasattr(self._parts, "__aiter__")
            async for part in self._parts if is_stream else await self._parts:
                self._note(part)

    @contextmanager
    def _services(self) -> Iterator[None]:
        """Services that middleware find: effects, approvals, the mailbox, background jobs."""
        backend, lease, run = self._backend, self._claim.lease, self._claim.run
        approvals = SharedApprovals(backend.database, backend.queue, lease, run.tenant, run.agent)
        effects = SharedEffects(backend.database, lease)
        try:
            with providing(
                effects=Recording(effects, run.run_id),
                approvals=approvals,
                mailbox=self._mailbox,
                jobs=SharedJobs(backend, lease, run, self._worker),
            ):
                yield
        except Exception:
            # Writes of the run before its error stay.
            self._saver.flush()
            for part in self._recorder.last_parts:
                backend.log.add(self._claim.job, part)
            raise

    def _note(self, part: Any) -> None:
        if part["type"] == "custom":
            self._usage.add_decision(part["data"])
        self._recorder.add(part)

    def finish(self) -> Status:
        """Store the outcome; return the status of the run."""
        work, recorder, backend, claim = self._work, self._recorder, self._backend, self._claim
        # Before the transaction: the read uses other connections.
        waiting_for = self.read()[1] if recorder.is_paused else None
        plan, spent = self._agent.plan, self._usage.columns_of(claim.run)
        end = {"checkpoint_id": self._saver.latest}
        status: Status = "waiting" if waiting_for else "done"
        is_awaited = status == "done" and backend.outputs.are_awaited(work.run)
        output = recorder.output(self._saver) if is_awaited else None
        outcome = {"status": status, **end}
        ending = backend.log.ending(claim.job, work.run, outcome, recorder.last_parts)
        with self._saver.order, ending as connection:
            claim.lease.check(connection)
            self._saver.flush_in(connection)
            if waiting_for:
                stop = {"job": claim.job, **end, **spent, "plan": plan}
                write_waits(connection, backend.database, self._agent, work, waiting_for, stop)
            else:
                columns = {**end, **spent}
                backend.queue.settle(connection, work.thread, work.run, "done", plan, **columns)
            # Before the signal of the end, which `ending` sends after this block.
            if output is not None:
                backend.database.after_commit(partial(backend.outputs.add, work.run, output))
        return status


class Recorder:
    """Records the parts of a run's stream as events, and keeps the values of the output."""

    def __init__(
        self, log: EventLog, job: str, agent: RegisteredAgent, modes: Sequence[str], subgraphs: bool
    ) -> None:
        self._log, self._job, self._agent = log, job, agent
        self._modes, self._subgraphs = {*modes}, subgraphs
        # Recorded for the studio even if the client did not ask: such parts are marked.
        self._studio_modes = {"custom", "messages", "updates"} if agent.decisions else set()
        # Interrupts are in the updates, and the output in the values, whatever the client asks for.
        self.all_modes = sorted({*self._modes, *self._studio_modes, "updates", "values"})
        self.is_paused = False
        self.last_parts: list[Mapping[str, object]] = []
        """Parts that are written together with the outcome."""
        self._values: object = None

    def add(self, part: Any) -> None:
        """Record a part, if somebody asked for it."""
        mode, is_inside = part["type"], bool(part["ns"])
        is_question = mode == "updates" and INTERRUPT in part["data"]
        # LangGraph reports an interrupt of an agent inside at the top, too.
        if is_question and not is_inside:
            self.is_paused = True
        if mode == "values" and not is_inside:
            self._values = part["data"]
        is_asked = mode in self._modes and (self._subgraphs or not is_inside)
        if is_asked or mode in self._studio_modes:
            public = self._agent.public.of_part(part)
            public = public if is_asked else {**public, "asked": False}
            # A client may answer a question at once, so the question is shown when the thread
            # waits.
            if is_question or self.is_paused or part.get("interrupts"):
                self.last_parts.append(public)
            else:
                self._log.add(self._job, public)

    def output(self, saver: FencedSaver) -> Output | None:
        """The output of an ended run; None if only its checkpoint has the output."""
        if self._values is None or not self._agent.is_output_stored:
            return None
        written = saver.serde.dumps_typed(self._agent.public.of_values(self._values))
        return partial(saver.serde.loads_typed, written)


class UndoAttempt:
    """One attempt to undo the effects of a run that was ended."""

    def __init__(self, backend: Backend, claim: Claim, work: UndoJob) -> None:
        self._backend, self._claim, self._work = backend, claim, work
        self._agent = backend.agent(work.agent)
        self._effects = SharedEffects(backend.database, claim.lease)
        self._report: dict[str, list[str]] = {"undone": [], "unknown": [], "kept": []}

    def start(self) -> UndoAttempt:
        """Return the step that undoes the effects."""
        return self

    def run(self) -> None:
        """Undo the effects in this thread."""
        with providing(effects=Recording(self._effects, self._work.of)):
            for once in self._agent.once:
                self._add(undo_effects(once, self._work.of))

    async def arun(self) -> None:
        """Undo the effects in this event loop."""
        with providing(effects=Recording(self._effects, self._work.of)):
            for once in self._agent.once:
                self._add(await aundo_effects(once, self._work.of))

    def _add(self, undone: object) -> None:
        for kind, effects in self._report.items():
            effects += map(str, getattr(undone, kind))

    def finish(self) -> Status:
        """Store the outcome; return the status of the run."""
        claim, queue, run = self._claim, self._backend.queue, self._claim.run.run_id
        outcome = {"status": "done", **self._report}
        with self._backend.log.ending(claim.job, run, outcome) as connection:
            claim.lease.check(connection)
            row = lock_thread(connection, claim.lease.thread_id)
            assert row is not None  # the lease is there
            queue.record(connection, row, "service", "undo", self._report)
            queue.settle(connection, row.thread_id, run, "done")
        return "done"
