"""Backend: the database, the queue and the agents of a service, shared in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from sqlalchemy import Row, bindparam, select

from agent_factory.errors import ArgumentError
from agent_factory.factory import middleware_of, with_checkpoints_of
from agent_factory.middleware.once import OnceMiddleware
from agent_factory.review import topology_or_none
from agent_factory.service.arguments import Attachment
from agent_factory.service.database import Database
from agent_factory.service.engines.engine import Engine, engine_of
from agent_factory.service.errors import NotFound
from agent_factory.service.events import EventLog
from agent_factory.service.jobs import AGENT_KEY, RUN_KEY, TENANT_KEY, MessageJob
from agent_factory.service.metrics import Metrics
from agent_factory.service.outputs import Outputs
from agent_factory.service.pace import Pace
from agent_factory.service.public_state import PublicState
from agent_factory.service.rows import must_exist
from agent_factory.service.saver import FencedSaver
from agent_factory.service.signals import Signals
from agent_factory.service.store import TenantStore
from agent_factory.service.tables import threads
from agent_factory.service.thread_queue import Slot, ThreadQueue
from agent_factory.state import has_stored_value
from agent_factory.types import Graph
from agent_factory.upstream import INTERRUPT, RUN_ID

T = TypeVar("T")

_AGENT = select(threads.c.agent, threads.c.tenant).where(threads.c.thread_id == bindparam("id"))

CLIENT_SECONDS = 30.0
"""Seconds for which a call of a client waits for an unavailable database."""

Busy = Literal["queue", "reject", "interrupt", "rollback", "steer"]
"""Treatment of a message to a busy thread."""

Waiting = Literal["queue", "interrupt", "reject"]
"""Treatment of a message to a thread that waits for a decision."""

Late = Literal["reject", "escalate"]
"""Treatment of a review at its deadline."""


@dataclass(frozen=True, kw_only=True)  # without slots, so that cached_property works
class RegisteredAgent:
    """An agent, and how the service runs it."""

    name: str
    graph: Graph
    description: str
    review_within: float | None
    late: Late
    busy: Busy
    waiting: Waiting
    stream: tuple[str, ...]
    asynchronous: bool
    decisions: bool
    configurable: frozenset[str]
    attachments: frozenset[Attachment]
    notices: bool = False

    @cached_property
    def plan(self) -> str | None:
        """The digest of the agent's plan; None if another library has built the graph."""
        topology = topology_or_none(self.graph)
        return None if topology is None else topology.digest

    def stored_in(self, saver: FencedSaver, store: TenantStore | None = None) -> Graph:
        """The agent with the checkpointer of the service, and with its own store or another."""
        # `graph.copy` checks all nodes again, which takes as long as several steps of a run.
        graph = copy(self.graph)
        # The agent's own store comes first, as `Service.add` says.
        graph.checkpointer, graph.store = saver, self.graph.store or store
        return graph

    @cached_property
    def public(self) -> PublicState:
        """Part of the agent's state that leaves the service."""
        return PublicState(self.graph)

    @cached_property
    def is_output_stored(self) -> bool:
        """True if the output of a run equals the values of its last checkpoint."""
        graph = self.graph
        return self.plan is not None and all(
            has_stored_value(graph.channels[key]) for key in graph.output_channels
        )

    @property
    def once(self) -> list[OnceMiddleware]:
        """The middleware whose effects can be undone."""
        try:
            members = middleware_of(self.graph)
        except ArgumentError:  # another library has built the graph
            return []
        return [member for member in members if isinstance(member, OnceMiddleware) and member.undo]


def config_of(run: Row[Any], message: MessageJob, trace: str | None) -> RunnableConfig:
    """The config of a run, without its callbacks.

    The settings of the message that began the run hold to its end. `trace` is the `traceparent` of
    who submitted the work.
    """
    config = message.config
    return {
        **config,
        "configurable": {**config.get("configurable", {}), "thread_id": run.thread_id},
        "metadata": {
            # First: metadata of a client must not replace the keys below. With a known run id,
            # LangGraph would drop the input, and pass a pause (see `upstream.RUN_ID`).
            **{key: value for key, value in run.metadata.items() if key != RUN_ID},
            RUN_KEY: run.run_id,
            AGENT_KEY: run.agent,
            TENANT_KEY: run.tenant,
            **({"traceparent": trace} if trace else {}),
        },
    }


class Backend:
    """The database, the queue, the events and the agents of a service, in one process."""

    def __init__(
        self,
        database: Database,
        callbacks: Sequence[BaseCallbackHandler] = (),
        pace: Pace = Pace(),  # noqa: B008  a frozen value
        engine: Engine | str | None = None,
    ) -> None:
        self.database, self.callbacks, self.pace = database, [*callbacks], pace
        self.signals = Signals(database)
        self.use(engine_of(engine))
        self.log = EventLog(database, self.signals, pace)
        self.metrics = Metrics(database)
        self.outputs = Outputs()
        self.agents: dict[str, RegisteredAgent] = {}
        self.slot: Callable[[], AbstractContextManager[Slot | None]] = nullcontext
        """Reserves a slot of the worker in this process for a new run."""

    def use(self, engine: Engine) -> None:
        """Let an engine give out the jobs."""
        self.engine = engine
        self.queue = ThreadQueue(self.database, self.signals, engine)

    def add(self, agent: RegisteredAgent) -> None:
        """Register an agent, with checkpoints in the form for the service's saver."""
        if agent.name in self.agents:
            reason = f"{agent.name!r} is taken."
            raise ArgumentError("name", reason, "Give each agent its own name.")
        graph = with_checkpoints_of(agent.graph, FencedSaver(self.database))
        self.agents[agent.name] = replace(agent, graph=graph)

    def call(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, repeated for some seconds while there is no database."""
        return self.database.retried(work, seconds=CLIENT_SECONDS)

    def agent(self, name: str) -> RegisteredAgent:
        """A registered agent; NotFound for another name."""
        if name not in self.agents:
            reason = f"was not added to this service, which has {sorted(self.agents)}."
            hint = f"Call service.add({name!r}, agent) first, also in each worker."
            raise NotFound(f"agent {name!r}", reason, hint)
        return self.agents[name]

    def agent_of(self, thread: str, tenant: str | None = None) -> RegisteredAgent:
        """The agent of a thread; NotFound without the thread, a message, or the agent."""
        row = must_exist(self.database.row(_AGENT, {"id": thread}), f"thread {thread!r}", tenant)
        if not row.agent:
            raise NotFound(f"thread {thread!r}", "has no message yet.", "Submit one first.")
        return self.agent(row.agent)

    def graph_of(self, thread: str, tenant: str | None = None) -> Graph:
        """The agent of a thread as in `agent_of`, with a checkpointer that reads the thread."""
        return self.agent_of(thread, tenant).stored_in(FencedSaver(self.database))

    def output(self, name: str, thread: str, checkpoint: str, *, waits: bool) -> dict[str, object]:
        """Output of an agent's `invoke` at a checkpoint, its end or a pause."""
        agent = self.agent(name)
        place: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_id": checkpoint}}
        snapshot = agent.stored_in(FencedSaver(self.database)).get_state(place)
        values = dict(agent.public.of_snapshot(snapshot).values)
        if waits:
            values[INTERRUPT] = list(snapshot.interrupts)
        return values

    def close(self) -> None:
        """Write the gathered events, give out the last jobs, and close all connections."""
        self.log.close()  # first, since it still writes
        self.engine.stop(self.pace.stop)
        self.signals.close()
        self.database.close()
