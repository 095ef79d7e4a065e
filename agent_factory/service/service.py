"""Service: runs agents as durable work, on one machine or on many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Literal, get_args

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from sqlalchemy import delete, select

from agent_factory.errors import ArgumentError, describe
from agent_factory.factory import path_of, with_decisions
from agent_factory.review import Decision, StandingApproval, StrandedThread, pending, stranded
from agent_factory.service.approvals import Approvals
from agent_factory.service.arguments import (
    Attachment,
    attachments_of,
    check_choice,
    keys_of,
    modes_of,
    seconds_of,
)
from agent_factory.service.assistants import Assistants
from agent_factory.service.backend import Backend, Busy, Late, RegisteredAgent, Waiting
from agent_factory.service.crons import Crons
from agent_factory.service.database import Database
from agent_factory.service.engines.engine import Engine
from agent_factory.service.errors import NotFound
from agent_factory.service.inbox import Inbox, Via
from agent_factory.service.messages import as_config, check_busy, prepare
from agent_factory.service.notices import OnWait
from agent_factory.service.operations import Operations
from agent_factory.service.pace import Pace
from agent_factory.service.request_rates import RequestRates
from agent_factory.service.resume import decisions_of, whole_decision
from agent_factory.service.rows import must_exist, read_row
from agent_factory.service.run import Run
from agent_factory.service.saver import FencedSaver
from agent_factory.service.scheduled_messages import ScheduledMessages, check_cron
from agent_factory.service.schedules import Cron, Schedule, write_cron
from agent_factory.service.service_threads import ServiceThreads
from agent_factory.service.store import TenantStore
from agent_factory.service.tables import limits, runs, schedules, threads
from agent_factory.service.threads import leased
from agent_factory.service.waits import Wait
from agent_factory.types import Graph


class Service(Operations):
    """Runs agents as durable work: on SQLite in one machine, on Postgres with many workers.

    A submitted message is carried out even if processes die: another worker continues the run from
    its last checkpoint. Messages of one thread are carried out in order.

    Args:
        url: `sqlite:///file.db`, or `postgresql://user@host/name`.
        connections: The most connections to the database that this process holds.
        direct_url: The URL of Postgres itself, if `url` leads to PgBouncer.
        callbacks: Callback handlers of all runs, such as `agent_factory.telemetry.Telemetry()`.
        on_wait: A sync or async function that a worker calls with the `Wait` when a thread begins
            to wait for a person: once, and again if the function raises or the worker dies.
        pace: How often workers and callers look for news, and when a worker counts as dead.
        engine: Who gives out the jobs: None for the processes of the service themselves, a URL such
            as "temporal://127.0.0.1:7233", or an `Engine`. All processes need the same.

    Raises:
        ArgumentError: The URL names no supported database, or no engine.

    >>> from tempfile import mkdtemp
    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> agent = create_agent(ScriptedChatModel(["Hello!"]))
    >>> with Service(f"sqlite:///{mkdtemp()}/desk.db") as service:
    ...     service.add("desk", agent)
    ...     run = service.submit("desk", thread="t-1", message="Hi")
    ...     run.result(timeout=30)["messages"][-1].text
    'Hello!'
    """

    def __init__(
        self,
        url: str,
        *,
        connections: int = 16,
        direct_url: str | None = None,
        callbacks: Sequence[BaseCallbackHandler] = (),
        on_wait: OnWait | None = None,
        pace: Pace = Pace(),  # noqa: B008  it cannot change
        engine: Engine | str | None = None,
    ) -> None:
        database = Database(url, connections=connections, direct_url=direct_url)
        super().__init__(Backend(database, callbacks, pace, engine), on_wait)
        self._scheduled_messages = ScheduledMessages(self._backend, self.webhooks, self.submit)
        self._request_rates = RequestRates(database)
        self.threads = ServiceThreads(self._backend)
        """The threads: their metadata, states and runs."""

    # Set-up

    def add(
        self,
        name: str,
        agent: Graph,
        *,
        description: str = "",
        review_within: str | float | None = None,
        late: Late = "reject",
        busy: Busy = "queue",
        waiting: Waiting = "queue",
        stream: Collection[str] = ("updates", "messages", "custom"),
        asynchronous: bool | None = None,
        decisions: bool = False,
        configurable: Collection[str] = (),
        attachments: Collection[Attachment] | None = None,
    ) -> None:
        """Let the service run an agent. Workers need it before they start.

        Args:
            name: The name to which messages are submitted.
            agent: An agent of `create_agent`, or any compiled graph whose state has `messages`. The
                checkpointer of the service replaces its own. An agent without a store gets the
                store of the run's tenant.
            description: The purpose of the agent, for models that call the agent over MCP, and for
                agents that find the agent over A2A.
            review_within: The longest time of a review, in seconds or as "30m", "4h", "2d"; None
                sets no limit.
            late: "reject" rejects a call after that time. "escalate" raises its priority, ends its
                claim, allows the same time again, and then rejects the call.
            busy: The default for `submit`: see there.
            waiting: The default for `submit`: see there.
            stream: The modes of LangGraph's streams that are recorded for `Run.stream`.
            asynchronous: Whether the agent runs with `astream`, in one event loop per process,
                where many runs wait for their models at once. None chooses `astream` if a tool has
                only a coroutine function, like the tools of MCP.
            decisions: Record the decisions of hooks, layers and routes, and all parts of a run that
                the studio shows while it works. The agent must come from `create_agent`.
            configurable: The keys of `config["configurable"]` that clients may set over HTTP. They
                choose the values, so an agent must not trust them. Python may set all keys except
                LangGraph's.
            attachments: The files that people may attach in the studio: "image", "pdf" and "text".
                None takes the files from the profile of the agent's model; without a profile, none.

        Raises:
            ArgumentError: An argument cannot be used, or the name is taken.
        """
        if not isinstance(agent, CompiledStateGraph):
            reason = f"must be a compiled agent, got {describe(agent)}."
            raise ArgumentError("agent", reason, "Pass what create_agent(...) returns.")
        check_choice("late", late, get_args(Late))
        check_busy(busy, name, agent)
        check_choice("waiting", waiting, get_args(Waiting))
        path = path_of(agent)
        if asynchronous is not None and path == ("sync" if asynchronous else "async"):
            reason = f"is {asynchronous}, and this agent can only run {path}."
            raise ArgumentError("asynchronous", reason, "Leave it out.")
        registered = RegisteredAgent(
            name=name,
            graph=with_decisions(agent) if decisions else agent,
            description=description,
            review_within=seconds_of("review_within", review_within),
            late=late,
            busy=busy,
            waiting=waiting,
            stream=modes_of(stream),
            asynchronous=path == "async" if asynchronous is None else asynchronous,
            decisions=decisions,
            configurable=keys_of(configurable),
            attachments=attachments_of(agent, attachments),
            notices=self._on_wait is not None,
        )
        self._backend.add(registered)

    @property
    def agents(self) -> dict[str, Graph]:
        """The agents that were added, by their names."""
        return {name: agent.graph for name, agent in self._backend.agents.items()}

    def client_config(self, agent: str, config: RunnableConfig | None) -> RunnableConfig:
        """The config that a client sends for a run, as `submit` takes it.

        Raises:
            NotFound: There is no such agent.
            ConfigNotAllowed: `add` does not name a key of `configurable`, or a run of the service
                cannot have a part of the config.
            ArgumentError: A part has the wrong type.
        """
        return as_config(config, self._backend.agent(agent))

    def description(self, agent: str) -> str:
        """Description of an agent, as `add` has it.

        Raises:
            NotFound: There is no such agent.
        """
        return self._backend.agent(agent).description

    def busy(self, agent: str) -> Busy:
        """The default of `submit(busy=...)` for an agent.

        Raises:
            NotFound: There is no such agent.
        """
        return self._backend.agent(agent).busy

    def waiting(self, agent: str) -> Waiting:
        """The default of `submit(waiting=...)` for an agent.

        Raises:
            NotFound: There is no such agent.
        """
        return self._backend.agent(agent).waiting

    def attachments(self, agent: str) -> Collection[Attachment]:
        """Kinds of files that people may attach to messages in the studio.

        Raises:
            NotFound: There is no such agent.
        """
        return self._backend.agent(agent).attachments

    def limit(
        self, tenant: str, *, concurrency: int | None = None, per_minute: int | None = None
    ) -> None:
        """Limit the runs of a tenant, over all workers.

        Args:
            tenant: The tenant.
            concurrency: The most runs at once.
            per_minute: The most runs that begin within a minute.
        """
        database = self._backend.database
        values = {"concurrency": concurrency, "per_minute": per_minute}
        row = database.insert(limits).values(tenant=tenant, **values)
        database.write(row.on_conflict_do_update(index_elements=["tenant"], set_=values))

    def take_requests(self, key: str, per_minute: int, *, number: int = 1) -> float:
        """Count requests over all processes, unless there are too many.

        All requests of a minute may come at once; after that they have to come evenly.

        Args:
            key: The name of the caller.
            per_minute: The most within a minute.
            number: The number of requests.

        Returns:
            The seconds until the requests may come: 0.0 if they were counted.
        """
        return self._request_rates.take(key, number, per_minute)

    # Messages

    def submit(
        self,
        agent: str,
        *,
        thread: str | None = None,
        message: object = None,
        checkpoint: str | None = None,
        message_id: str | None = None,
        tenant: str = "",
        priority: int = 0,
        busy: Busy | None = None,
        waiting: Waiting | None = None,
        by: str = "api",
        context: Mapping[str, object] | None = None,
        config: RunnableConfig | None = None,
        stream: Collection[str] | None = None,
        subgraphs: bool = True,
        metadata: Mapping[str, object] | None = None,
        interrupt_before: Collection[str] | Literal["*"] | None = None,
        interrupt_after: Collection[str] | Literal["*"] | None = None,
        delay: float | None = None,
    ) -> Run:
        """Submit a message to an agent, for a worker to carry out. Returns at once.

        Args:
            agent: The name of the agent.
            thread: The thread; None for a new thread.
            message: A string, a message, a list of messages, or an input of the agent. None goes on
                from the checkpoint, or from the point where the last run of the thread failed.
            checkpoint: The id of a checkpoint of the thread: the run begins there, and later
                checkpoints stay in the history.
            message_id: The id of the message: submitted again with the same id, by the same person,
                a message is the same run. None makes a new id.
            tenant: The tenant of the thread. Other tenants cannot see the thread.
            priority: Higher is earlier, between threads; from -1000 to 1000.
            busy: Behaviour if the thread is busy. "queue": the message waits for its turn.
                "reject": ThreadBusy is raised. "interrupt": the run ends, and the runs queued
                behind it; their messages and writes stay. "rollback": these runs end, and the
                thread goes back to its state before the run. "steer": the run reads the message at
                its next call of the model; an input with more than messages of the user, or with
                other settings than the run, waits for its turn. None takes the value of `add`.
            waiting: Behaviour if the thread waits for a decision. "queue": the message is held
                until the decision. "interrupt": the message begins now, the waits are withdrawn,
                and their calls do not run. "reject": ThreadBusy is raised. None takes `busy`, or
                the value of `add` if `busy` is None as well.
            by: Who submits. The audit names them if they withdraw a question.
            context: Runtime context of the agent, as JSON.
            config: `recursion_limit`, `max_concurrency` (from 2 for a sync agent), `run_name`,
                `tags`, `metadata` and `configurable` of the run, as JSON. Keys that LangGraph reads
                cannot be set.
            stream: The modes recorded for `Run.stream`; None takes the modes of `add`.
            subgraphs: Whether agents inside the agent are recorded, too.
            metadata: Notes about the run, as JSON. The checkpoints of the run have them, too.
            interrupt_before: Nodes before which the run pauses, or "*", besides the agent's own.
            interrupt_after: Nodes after which the run pauses, or "*", besides the agent's own.
            delay: Seconds until the run may begin. Later messages of the thread wait behind it.

        Raises:
            NotFound: There is no such agent or checkpoint, or another tenant has the thread.
            ThreadBusy: The thread is busy, and `busy` is "reject"; or waits, and `waiting` is.
            ArgumentError: An argument cannot be used.
        """
        job, work = prepare(
            self._backend, agent, thread=thread, message=message, checkpoint=checkpoint,
            message_id=message_id, tenant=tenant, priority=priority, busy=busy, waiting=waiting,
            by=by, context=context, config=config, stream=stream, subgraphs=subgraphs,
            metadata=metadata, interrupt_before=interrupt_before, interrupt_after=interrupt_after,
            delay=delay,
        )  # fmt: skip
        before = self._backend.signals.moment("ends", job.run)
        is_new = self._backend.call(work)
        return Run(self._backend, job.run, job.thread, before if is_new else None)

    def run(self, run_id: str, *, tenant: str | None = None) -> Run:
        """A run by its id, from any process.

        Raises:
            NotFound: The tenant has no such run.
        """
        query = select(runs.c.thread_id, runs.c.tenant).where(runs.c.run_id == run_id)
        row = must_exist(self._backend.database.row(query), f"run {run_id!r}", tenant)
        return Run(self._backend, run_id, row.thread_id)

    def lease(self, agent: str, thread: str, *, tenant: str = "") -> AbstractContextManager[Graph]:
        """Lease a thread to this process, without workers: for a queue of your own.

        Who had the lease before cannot write any more: their `with` ends in ThreadBusy.

        Args:
            agent: The name of the agent.
            thread: The thread, which is created if missing.
            tenant: The tenant of the thread.

        Returns:
            A context manager with the agent, for this thread alone. Its checkpoints, and the
            effects of an OnceMiddleware without a store, are in the database of the service.

        Raises:
            NotFound: There is no such agent, or another tenant has the thread.
            ThreadBusy: A run of the service has the thread, or another process has taken the lease.
            DatabaseUnavailable: The database is away.

        >>> from tempfile import mkdtemp
        >>> from langchain_core.messages import HumanMessage
        >>> from agent_factory import create_agent
        >>> from agent_factory.review import take_turn
        >>> from agent_factory.testing import ScriptedChatModel
        >>> service = Service(f"sqlite:///{mkdtemp()}/desk.db")
        >>> service.add("desk", create_agent(ScriptedChatModel(["Hello!"])))
        >>> thread = {"configurable": {"thread_id": "t-1"}}
        >>> with service.lease("desk", "t-1") as desk:
        ...     take_turn(desk, thread, HumanMessage("Hi", id="m-1"))["messages"][-1].text
        'Hello!'
        """
        return leased(self._backend, agent, thread, tenant)

    # Reviews

    def inbox(
        self, tenant: str | None = None, *, may_decide: Callable[[Wait], bool] | None = None
    ) -> Inbox:
        """Inbox with the waits of threads.

        Args:
            tenant: The tenant of the threads; None shows all.
            may_decide: Whether the caller may claim and decide a wait.
        """
        return Inbox(self._backend, tenant, may_decide)

    def decide(
        self,
        wait_id: str,
        decision: str | Decision | Mapping[str, object],
        *,
        by: str,
        message: object = None,
        args: Mapping[str, object] | None = None,
        tenant: str | None = None,
        undo: bool = False,
        may_decide: Callable[[Wait], bool] | None = None,
        roles: Collection[str] = (),
        digest: str | None = None,
        remember: Mapping[str, object] | None = None,
        via: Via = "python",
    ) -> Run:
        """Decide about a wait of a thread. A worker continues the run.

        Args:
            wait_id: The id of the wait.
            decision: "approve", "edit", "reject" or "respond"; or a whole `Decision`.
            by: Who decides, for the audit.
            message: With "reject": a text for the model. With "respond": the result or the answer.
            args: With "edit": all arguments of the call that runs instead; nothing is merged.
            tenant: The tenant of the caller.
            undo: With "reject": end the run here, and undo its effects by the compensations of its
                OnceMiddleware.
            may_decide: As in `inbox`.
            roles: The roles of the caller: a rule may name roles as reviewers.
            digest: The digest of the wait that the caller has seen; a wait with another digest is
                not decided.
            remember: With "approve": approve later calls as well, for some `seconds`, as
                `agent_factory.middleware.Remember`. The policy sets the longest time.
            via: The interface through which the decision came, for the audit.

        Returns:
            The run that continues, or was ended.

        Raises:
            NotFound: The tenant has no such wait.
            AlreadyDecided: Somebody has decided otherwise. The same decision again is the same run.
            ClaimedByOther: Somebody else has claimed the wait.
            DecisionForbidden: `may_decide` does not allow the decision, or the call of an edit.
            InvalidDecision: The decision has an unknown or a wrong part, or the arguments of an
                edit do not fit the tool.
            DecisionNotAllowed: This call does not allow the decision, or not from the caller; or
                the digest is of another call.
        """
        inbox = self.inbox(tenant, may_decide=may_decide)
        edited = None if args is None else {"args": args}
        whole = whole_decision(
            decision, edited_action=edited, message=message, digest=digest, remember=remember
        )
        work = partial(inbox.decide, wait_id, whole, by=by, roles=roles, undo=undo, via=via)
        return self.run(self._backend.call(work))

    def resume(
        self,
        thread: str,
        value: object,
        *,
        by: str,
        roles: Collection[str] = (),
        stream: Collection[str] | None = None,
        tenant: str | None = None,
        may_decide: Callable[[Wait], bool] | None = None,
        via: Via = "python",
    ) -> Run:
        """Answer the interrupts of a thread with a value, like `Command(resume=...)`.

        Args:
            thread: The thread.
            value: The answer to the interrupt; for several interrupts, a mapping of their ids to
                answers. The answer to a review is `{"decisions": [...]}`.
            by: Who answers, for the audit.
            roles: The roles of the caller.
            stream: The modes recorded for `Run.stream`; None takes the modes of the run.
            tenant: The tenant of the caller.
            may_decide: As in `inbox`.
            via: The interface through which the answer came, for the audit.

        Raises:
            NotFound: The tenant has no such thread, or it waits for nothing.
            ArgumentError: The value does not name the interrupt.
            InvalidAnswer: The value does not have the form of an answer.
            AlreadyDecided, ClaimedByOther: As in `decide`.
            DecisionForbidden, InvalidDecision, DecisionNotAllowed: As in `decide`.
        """
        if stream is not None:
            modes_of(stream)
        inbox = self.inbox(tenant, may_decide=may_decide)
        place: RunnableConfig = {"configurable": {"thread_id": thread}}
        # A digest names the wait as well as the call, so it is unique.
        waits = {wait.digest: wait.id for wait in inbox.waits(thread=thread, limit=1000)}
        waiting_for = pending(self._backend.graph_of(thread, tenant), place)
        decisions = decisions_of(waiting_for, value)
        if not waits or not waits.keys() >= decisions.keys():
            raise NotFound(f"thread {thread!r}", "waits for no answer.")
        by_wait = {waits[digest]: decision for digest, decision in decisions.items()}
        work = partial(inbox.decide_together, by_wait, by=by, roles=roles, stream=stream, via=via)
        return self.run(self._backend.call(work))

    def approvals(
        self, *, tenant: str | None = None, agent: str | None = None, active: bool = True
    ) -> list[StandingApproval]:
        """Standing approvals, the newest first.

        Args:
            tenant: The tenant; None takes all.
            agent: The agent; None takes all.
            active: Whether revoked and expired approvals are left out.
        """
        approvals = Approvals(self._backend.database, self._backend.queue, tenant)
        return [*approvals.list(active=active, agent=agent)]

    def revoke(self, approval: str, *, by: str, tenant: str | None = None) -> StandingApproval:
        """End a standing approval: later calls are asked about again.

        Args:
            approval: The id of the approval.
            by: Who ends the approval, for the audit.
            tenant: The tenant of the caller.

        Raises:
            NotFound: The tenant has no such approval.
        """
        approvals = Approvals(self._backend.database, self._backend.queue, tenant)
        return self._backend.call(partial(approvals.revoke, approval, by))

    # Assistants, stores and stranded threads

    def assistants(self, tenant: str = "") -> Assistants:
        """Assistants of a tenant: agents with settings, which clients create and run.

        Args:
            tenant: The tenant. Other tenants do not see them.
        """
        return Assistants(self._backend, tenant)

    def store(self, tenant: str = "") -> BaseStore:
        """Store of a tenant, across threads, for agents without a store.

        Args:
            tenant: The tenant. Other tenants do not see its items.

        >>> from tempfile import mkdtemp
        >>> store = Service(f"sqlite:///{mkdtemp()}/desk.db").store("acme")
        >>> store.put(("users", "ann"), "likes", {"food": "pizza"})
        >>> store.get(("users", "ann"), "likes").value
        {'food': 'pizza'}
        """
        return TenantStore(self._backend.database, tenant)

    def stranded(self, agent: str) -> Iterator[StrandedThread]:
        """Threads of an agent that wait at a node which the agent no longer has.

        Ask before an update, with the new code: `create_agent(..., moved=...)` maps renamed
        middleware.

        Args:
            agent: The name of the agent.
        """
        graph = self._backend.agent(agent).stored_in(FencedSaver(self._backend.database))
        at_a_node = threads.c.status.in_(("waiting", "failed", "running"))
        query = select(threads.c.thread_id).where(threads.c.agent == agent, at_a_node)
        return stranded(graph, self._backend.database.values(query))

    # Schedules

    def schedule(
        self,
        name: str,
        cron: str,
        *,
        agent: str,
        message: object,
        thread: str | None = None,
        tenant: str = "",
        timezone: str | None = None,
        **options: Any,
    ) -> None:
        """Submit a message at the times of a cron expression.

        Args:
            name: The name of the schedule; a schedule of this name is replaced.
            cron: Such as "0 3 * * *": at three every night.
            agent: The agent.
            message: The message.
            thread: The thread; None takes a new thread each time.
            tenant: The tenant.
            timezone: Such as "Europe/Berlin"; None is UTC.
            **options: Other arguments of `submit`, as JSON; and `webhook`, a URL that gets the
                outcome.

        Raises:
            NotFound: There is no such agent.
            ArgumentError: The cron expression or the time zone cannot be read, or `submit` would
                refuse an argument.
        """
        options["message"] = message
        row = Cron(name, tenant, agent, "", thread, cron, timezone, options=options)
        check_cron(self._backend, row)
        with self._backend.database.begin() as connection:
            write_cron(self._backend.database, connection, row)

    def crons(self, tenant: str = "") -> Crons:
        """Crons of a tenant: schedules that clients create.

        Args:
            tenant: The tenant. Other tenants do not see them.
        """
        return Crons(self._backend, tenant)

    def unschedule(self, name: str) -> None:
        """Delete a schedule.

        Raises:
            NotFound: There is no schedule of this name.
        """
        if not self._backend.database.write(delete(schedules).where(schedules.c.id == name)):
            raise NotFound(f"schedule {name!r}", "does not exist.")

    def schedules(self) -> list[Schedule]:
        """The schedules, by their names."""
        query = select(schedules).where(schedules.c.next_at.is_not(None)).order_by(schedules.c.id)
        return [Schedule.of(read_row(Cron, row)) for row in self._backend.database.rows(query)]

    # Async

    async def asubmit(self, agent: str, **options: Any) -> Run:
        """Async variant of `submit`."""
        return await asyncio.to_thread(partial(self.submit, agent, **options))

    async def adecide(self, wait_id: str, decision: str | Decision, **options: Any) -> Run:
        """Async variant of `decide`."""
        return await asyncio.to_thread(partial(self.decide, wait_id, decision, **options))
