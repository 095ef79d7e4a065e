"""Jobs: work on a thread, as it is stored."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from sqlalchemy import Row

from agent_factory.service.errors import ServiceError
from agent_factory.service.message_serializer import load

RUN_KEY = "agent_factory_run"
"""Key in the metadata of checkpoints: the run."""

JOB_KEY = "agent_factory_job"
"""Key in the metadata of checkpoints: the job."""

AGENT_KEY, TENANT_KEY = "agent_factory_agent", "agent_factory_tenant"
"""Keys in the metadata of checkpoints: the name of the agent, and whose thread it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadJob:
    """Work on one thread; a higher priority is earlier.

    Workers of several versions share the stored form: a new field has a default, and a worker
    leaves out unknown fields. `trace` is the `traceparent` of the submission, if known.
    """

    kind: ClassVar[str]

    run: str
    thread: str
    tenant: str
    agent: str
    priority: int
    trace: str | None = None

    @classmethod
    def for_run(cls, row: Row[Any], **values: Any) -> Self:
        """Work for the run of a row: of a thread, or of one of its waits."""
        place = {"run": row.run, "thread": row.thread_id, "tenant": row.tenant, "agent": row.agent}
        return cls(**{**place, "priority": 0, **values})

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
        begins_at: The earliest begin, in seconds since 1970; None for at once.
        before: Messages of runs that this message has ended: their runs, inputs and checkpoints.
        rollback: The run before which the thread goes back.

    The other fields are arguments of `Service.submit`.
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

    def again(self, run: str, input: str, **values: Any) -> MessageJob:
        """Another run with these settings, which begins at the newest checkpoint."""
        at_once = replace(self, checkpoint=None, begins_at=None, before=(), rollback=None)
        return replace(at_once, run=run, input=input, **values)

    @property
    def messages(self) -> list[tuple[str, str, str | None]]:
        """Its message behind those of `before`, for the `before` of a later message."""
        return [*self.before, (self.run, self.input, self.checkpoint)]

    @property
    def question(self) -> str:
        """The last text of the user; "" for a run without a message."""
        inputs = load_input(self.input) or {"messages": ()}
        texts = [str(one.text) for one in inputs["messages"] if isinstance(one, HumanMessage)]
        return texts[-1] if texts else ""


_LEFT_OUT = ("begins_at", "before", "rollback", "busy")
"""Fields that are stored only with a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionJob(ThreadJob):
    """Decisions about all waits of a thread, by the digests of their calls; by "" without calls."""

    kind: ClassVar[str] = "decision"

    decisions: Mapping[str, Any]
    stream: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoJob(ThreadJob):
    """Undo the effects of an ended run, whose id is `of`."""

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
        reason = f"has the kind {data['kind']!r}, which this version does not know."
        hint = "Let workers of the version that has stored it carry it out."
        raise ServiceError("a job", reason, hint)
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
