"""Jobs: work on a thread, as it is stored."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from sqlalchemy import Row

from agent_factory.service.errors import ServiceError
from agent_factory.service.message_serializer import load

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

RUN_KEY = "agent_factory_run"
"""Key in the metadata of checkpoints: the run."""

JOB_KEY = "agent_factory_job"
"""Key in the metadata of checkpoints: the job."""

AGENT_KEY, TENANT_KEY = "agent_factory_agent", "agent_factory_tenant"
"""Keys in the metadata of checkpoints: the name of the agent, and whose thread it is."""


class Attempt(Protocol):
    """Attempt to carry out a job, as the job starts it."""

    saver: Any
    checkpoint: str | None

    def unread(self, latest: Any, before: Any) -> list[Any]:
        """The inputs of ended runs that the thread has not read."""

    def take_input(self, input: object, latest: Any) -> object:
        """Run the agent with an input."""

    def carry_out(self, decisions: Mapping[str, Any]) -> object:
        """Run the agent with decisions."""

    def go_on(self) -> object:
        """Run the agent without an input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadJob:
    """Work on one thread.

    Workers of several versions share the stored form: a new field has a default, and a worker
    leaves out unknown fields.

    Args:
        run: The id of the run.
        thread: The thread.
        tenant: The tenant of the thread.
        agent: The name of the agent.
        priority: Higher is earlier.
        trace: The `traceparent` of the submission, if known.
    """

    kind: ClassVar[str]

    run: str
    thread: str
    tenant: str
    agent: str
    priority: int
    trace: str | None = None

    @property
    def goes_on(self) -> bool:
        """True for a run without a message."""
        return False

    def start(self, attempt: Attempt, latest: CheckpointTuple | None) -> object:
        """Start the work with an attempt.

        Args:
            attempt: The attempt.
            latest: The newest checkpoint of the thread; None for a new thread.

        Returns:
            The stream of the run; None if there is nothing to run.
        """
        raise NotImplementedError

    def to_text(self) -> str:
        """Return the job as JSON text for `read_job`."""
        data = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        for name in _LEFT_OUT:
            if name in data and not data[name]:
                del data[name]
        return json.dumps({"kind": self.kind, **data})


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageJob(ThreadJob):
    """A message, or a run without a message.

    Args:
        input: The input of the agent, as `messages.as_text` writes it.
        checkpoint: The checkpoint at which the run begins; None for the latest.
        context: The context of the run.
        config: The config of the run.
        stream: The recorded modes; None takes the modes of the agent.
        subgraphs: Whether agents inside are recorded, too.
        interrupt_before: Nodes before which the run pauses, or "*", besides the agent's own.
        interrupt_after: Nodes after which the run pauses, or "*", besides the agent's own.
        begins_at: The earliest begin, in seconds since 1970; None for at once.
        before: Messages of runs that this message has ended: their runs, inputs and checkpoints.
        rollback: The run before which the thread goes back.
        busy: The requested behaviour on a busy thread; None takes the value of the agent.
    """

    kind: ClassVar[str] = "message"

    input: str
    checkpoint: str | None = None
    context: Mapping[str, object] | None = None
    config: RunnableConfig = field(default_factory=RunnableConfig)
    stream: Sequence[str] | None = None
    subgraphs: bool = True
    interrupt_before: Sequence[str] | str | None = None
    interrupt_after: Sequence[str] | str | None = None
    begins_at: float | None = None
    before: Sequence[tuple[str, str, str | None]] = ()
    rollback: str | None = None
    busy: str | None = None

    @property
    def question(self) -> str:
        """The last text of the user; "" for a run without a message."""
        inputs = load_input(self.input) or {"messages": ()}
        texts = [str(one.text) for one in inputs["messages"] if isinstance(one, HumanMessage)]
        return texts[-1] if texts else ""

    @property
    def goes_on(self) -> bool:
        """True for a run without a message."""
        return load_input(self.input) is None

    def start(self, attempt: Attempt, latest: CheckpointTuple | None) -> object:
        """Run the agent with the message, after unread messages of ended runs."""
        inputs = load_input(self.input)
        if latest is not None and self.rollback:
            latest = attempt.saver.before(self.thread, self.rollback)
            if latest is None:
                attempt.saver.delete_thread(self.thread)
            else:
                attempt.checkpoint = latest.checkpoint["id"]
        unread = attempt.unread(latest, self.before) if self.before else []
        if self.checkpoint is not None:
            is_newest = self.checkpoint == attempt.saver.latest
            attempt.checkpoint = None if is_newest else self.checkpoint
        if inputs is None:
            return attempt.go_on()
        # From the newest back, so that the oldest message is the first.
        for earlier in reversed(unread):
            inputs = {**earlier, **inputs, "messages": [*earlier["messages"], *inputs["messages"]]}
        return attempt.take_input(inputs, latest)


_LEFT_OUT = ("begins_at", "before", "rollback", "busy")
"""Fields that are stored only with a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionJob(ThreadJob):
    """Decisions about all waits of a thread.

    Args:
        decisions: The decisions by the digests of their calls; by "" at a pause without calls.
        stream: The recorded modes; None takes the modes of the message.
    """

    kind: ClassVar[str] = "decision"

    decisions: Mapping[str, Any]
    stream: Sequence[str] | None = None

    def start(self, attempt: Attempt, latest: CheckpointTuple | None) -> object:
        """Run the agent with the decisions."""
        return attempt.carry_out(self.decisions)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoJob(ThreadJob):
    """Undo the effects of an ended run.

    Args:
        of: The id of the ended run.
    """

    kind: ClassVar[str] = "undo"

    of: str


_KINDS: dict[str, type[ThreadJob]] = {
    kind.kind: kind for kind in (MessageJob, DecisionJob, UndoJob)
}


def read_job(text: str) -> ThreadJob | None:
    """Return a stored job; None for the lost message of a run that `reindex` has found.

    Raises:
        ServiceError: A newer version has stored a kind of job that this version does not know.

    >>> job = UndoJob(run="undo-1", thread="t", tenant="", agent="desk", priority=0, of="1")
    >>> read_job(job.to_text()) == job, read_job("{}")
    (True, None)
    """
    data = json.loads(text)
    if not data:
        return None
    if data["kind"] not in _KINDS:
        raise ServiceError(
            "a job",
            f"has the kind {data['kind']!r}, which this version does not know.",
            "Let workers of the version that has stored it carry it out.",
        )
    kind = _KINDS[data["kind"]]
    # A newer worker may have stored unknown fields.
    names = [attribute.name for attribute in fields(kind)]
    return kind(**{name: data[name] for name in names if name in data})


def message_of(run: Row[Any]) -> MessageJob:
    """The message that began a run; an empty message if `reindex` has found the run."""
    job = read_job(run.payload)
    if isinstance(job, MessageJob):
        return job
    names = ("tenant", "agent", "priority")
    values = {name: getattr(run, name) for name in names}
    return MessageJob(run=run.run_id, thread=run.thread_id, **values, input="")


def load_input(text: str) -> Any:
    """The input of a message job; None if the run goes on without a message."""
    return load(b64decode(text))
