"""Messages: how a message of a user becomes a run of a thread."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import isfinite
from typing import Any, Literal, cast, get_args
from uuid import uuid4

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import RunnableConfig
from sqlalchemy import bindparam, select, update

from agent_factory.errors import ArgumentError, describe
from agent_factory.review import without_marks
from agent_factory.runtime import check_threads
from agent_factory.service.arguments import check_choice, check_name, modes_of, nodes_of
from agent_factory.service.backend import Backend, Busy, RegisteredAgent, Waiting
from agent_factory.service.errors import ConfigNotAllowed, NotFound, ThreadBusy
from agent_factory.service.jobs import MessageJob, UndoJob, read_job
from agent_factory.service.message_serializer import dump
from agent_factory.service.metrics import traceparent
from agent_factory.service.rows import must_exist
from agent_factory.service.saver import FencedSaver
from agent_factory.service.steering import STEER, can_be_steered
from agent_factory.service.tables import runs, threads
from agent_factory.service.thread_queue import BUSY, HIGHEST_PRIORITY
from agent_factory.service.threads import check_thread_id, insert_thread, title_of
from agent_factory.state import check_json, check_storable
from agent_factory.types import Graph
from agent_factory.upstream import RUN_ID, is_reserved

_PRIORITIES = range(-HIGHEST_PRIORITY, HIGHEST_PRIORITY + 1)
_KNOWN = select(runs.c.run_id).where(runs.c.run_id == bindparam("id"))


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message that is held until the decision for which its thread waits.

    Args:
        run: The id of its run.
        text: The text.
        checkpoint: The id of the checkpoint at which a fork begins: the thread goes on from there,
            and later checkpoints stay in the history.
        created_at: The time of submission, in seconds since 1970, by the database's clock.
    """

    run: str
    text: str
    checkpoint: str | None
    created_at: float


@dataclass(frozen=True, slots=True)
class Arrival:
    """Behaviour of a message from a person if its thread has a run, or waits for a decision."""

    busy: Busy
    waiting: Busy | Waiting
    by: str


def check_busy(busy: object, agent: str, graph: Graph) -> None:
    """Raise ArgumentError if an agent does not support a value of `busy`."""
    check_choice("busy", busy, get_args(Busy))
    if busy == STEER and not can_be_steered(graph):
        lacks = "has no SteeringMiddleware, which reads what is sent to a run."
        hint = "Write create_agent(..., middleware=[SteeringMiddleware(), ...])."
        raise ArgumentError("busy", f"is {STEER!r}, and agent {agent!r} {lacks}", hint)


def prepare(
    backend: Backend,
    agent: str,
    *, thread: str | None = None, message: object = None, message_id: str | None = None,
    checkpoint: str | None = None, tenant: str = "", by: str = "api", priority: int = 0,
    busy: Busy | None = None, waiting: Waiting | None = None, delay: float | None = None,
    context: Mapping[str, object] | None = None, config: RunnableConfig | None = None,
    stream: Collection[str] | None = None, subgraphs: bool = True,
    metadata: Mapping[str, object] | None = None,
    interrupt_before: Collection[str] | Literal["*"] | None = None,
    interrupt_after: Collection[str] | Literal["*"] | None = None,
) -> tuple[MessageJob, Callable[[], bool]]:  # fmt: skip
    """The job of a checked message, and the call that submits the job.

    The arguments, and the errors that concern no thread, are those of `Service.submit`.
    """
    check_name(by)
    texts = {"thread": thread, "message_id": message_id, "tenant": tenant, "by": by}
    for name, text in {**texts, "checkpoint": checkpoint}.items():
        if not isinstance(text, str | None):
            raise ArgumentError(name, f"must be a string, got {describe(text)}.")
        check_json(name, text)
    for name, part in {"context": context, "metadata": metadata}.items():
        if not isinstance(part, Mapping | None):
            raise ArgumentError(name, f"must be an object, got {describe(part)}.")
        check_json(name, part and dict(part))
    registration = backend.agent(agent)
    check_busy(busy or registration.busy, agent, registration.graph)
    if waiting is not None:
        check_choice("waiting", waiting, get_args(Waiting))
    # No run is under way on a thread that waits.
    of_both = None if busy == STEER else busy
    at_wait = waiting or of_both or registration.waiting
    arrival = Arrival(busy or registration.busy, at_wait, by)
    if priority not in _PRIORITIES:
        raise ArgumentError("priority", f"must be from -1000 to 1000, got {priority!r}.")
    if delay is not None and not (isinstance(delay, int | float) and isfinite(delay)):
        raise ArgumentError("delay", f"must be a number of seconds, got {describe(delay)}.")
    check_thread_id(thread)
    thread_id = thread or str(uuid4())
    message_id = message_id or str(uuid4())
    goes_on = message is None and (checkpoint is not None or thread is not None)
    inputs = None if goes_on else as_input(message, message_id, registration.graph)
    # As JSON, so that no two lists of names give one text. The id of a message comes from a
    # client: an id that another client has used leads to no run of that client.
    identity = json.dumps([tenant, thread_id, message_id, by])
    settings = as_config(config, registration, of_client=False)
    run_metadata = {**settings.pop("metadata", {}), **(metadata or {})}
    job = MessageJob(
        run=hashlib.sha256(identity.encode()).hexdigest()[:32],
        thread=thread_id,
        tenant=tenant,
        agent=agent,
        priority=priority,
        input=as_text(inputs),
        checkpoint=checkpoint,
        context=None if context is None else dict(context),
        config=settings,
        stream=None if stream is None else sorted(modes_of(stream)),
        subgraphs=subgraphs,
        interrupt_before=nodes_of(registration.graph, "interrupt_before", interrupt_before),
        interrupt_after=nodes_of(registration.graph, "interrupt_after", interrupt_after),
        trace=traceparent(),
        busy="steer" if arrival.busy == "steer" else busy,  # the run under way looks for it
    )
    title = None if inputs is None else title_of(inputs["messages"])
    return job, partial(submit, backend, job, arrival, run_metadata, title, delay)


def submit(
    backend: Backend,
    job: MessageJob,
    arrival: Arrival,
    metadata: dict[str, object],
    title: str | None,
    delay: float | None,
) -> bool:
    """Write a run, and queue the run if its thread is not busy; False for a known run."""
    thread_id = job.thread
    with backend.slot() as slot, backend.database.begin() as connection:
        if delay is not None:
            now = connection.execute(select(backend.database.now)).scalar_one()
            job = replace(job, begins_at=now + delay)
        row = insert_thread(connection, backend, thread_id, job.tenant, title=title)
        is_busy, waits = row.status in BUSY, row.status == "waiting"
        # With the thread locked, since a client without an answer may send the message again at
        # once. Where nothing can refuse the message, `queue_new` finds a known run.
        may_be_refused = is_busy or job.checkpoint is not None
        if may_be_refused and connection.execute(_KNOWN, {"id": job.run}).first() is not None:
            return False
        saver = FencedSaver(backend.database)
        if job.checkpoint is not None and not saver.knows(connection, thread_id, job.checkpoint):
            raise NotFound(f"checkpoint {job.checkpoint!r}", "is not one of this thread.")
        how = arrival.waiting if waits else arrival.busy
        if is_busy and how == "reject":
            reason, when = f"is {row.status}.", "later, or with busy='queue'."
            if waits:
                reason = "waits for a decision."
                when = "after it, or with waiting='queue' or waiting='interrupt'."
            raise ThreadBusy(f"thread {thread_id!r}", reason, f"Submit the message {when}")
        if is_busy and how in ("interrupt", "rollback"):
            of_run = select(runs.c.payload).where(runs.c.run_id == row.run)
            if isinstance(read_job(connection.execute(of_run).scalar() or "{}"), UndoJob):
                how = "queue"  # first, the effects of a run are undone
        if is_busy and how in ("interrupt", "rollback"):
            earlier_runs = backend.queue.end_runs(connection, row, arrival.by)
            if how == "interrupt":
                jobs = [read_job(run.payload) for run in earlier_runs]
                before = [job.messages for job in jobs if isinstance(job, MessageJob)]
                job = replace(job, before=[*chain.from_iterable(before)])
            else:
                job = replace(job, rollback=row.run)
        if row.title is None and title is not None:  # a thread created before its first message
            statement = update(threads).where(threads.c.thread_id == thread_id)
            connection.execute(statement.values(title=title))
        if not is_busy:
            return backend.queue.queue_new(connection, row, job, slot, metadata=metadata)
        backend.queue.add_run(connection, job, metadata=metadata)
        if how not in ("queue", STEER):
            backend.queue.queue(connection, job)
        elif how == STEER:
            sent = {"run": job.run, "to": row.run}
            backend.queue.record(connection, row, arrival.by, STEER, sent)
        return True


def retry(backend: Backend, run: str, by: str) -> str:
    """Begin a run where another run has failed, as `Run.retry`; return its id."""
    of_run = select(runs, threads.c.run.label("last"), threads.c.status.label("of_thread"))
    of_run = of_run.join(threads, threads.c.thread_id == runs.c.thread_id)
    row = must_exist(backend.database.row(of_run.where(runs.c.run_id == run)), f"run {run!r}")
    # As JSON, so that the id differs from each id that a client has chosen.
    identity = json.dumps(["retry", run])
    new = hashlib.sha256(identity.encode()).hexdigest()[:32]
    # An earlier call has begun the new run.
    if row.last == new:
        return new
    job = read_job(row.payload)
    if row.status != "failed" or not isinstance(job, MessageJob):
        hint = "Try again a run that has failed."
        raise ThreadBusy(f"run {run!r}", f"is {row.status}, and has not failed.", hint)
    if row.last != run or row.of_thread != "failed":
        hint = "Send a message, or go on from a checkpoint of the thread."
        raise ThreadBusy(f"thread {row.thread_id!r}", "has gone on since the run failed.", hint)
    metadata = {**row.metadata, "retry_of": run}
    # After a message that came meanwhile, the thread is busy: the run has lost its turn.
    again = job.again(new, as_text(None))
    submit(backend, again, Arrival("reject", "reject", by), metadata, None, None)
    return new


def as_input(message: object, message_id: str, graph: Graph) -> dict[str, Any]:
    """An input of the agent, after its message guards; the last message has the id."""
    values = dict(message) if isinstance(message, Mapping) and "messages" in message else {}
    content = values.get("messages", message)
    try:
        messages = convert_to_messages(content if isinstance(content, list) else [content])
        title_of(messages)  # reads parts that the caller may have set without a check
        if messages and messages[-1].id is None:
            # A copy: the message belongs to the caller.
            messages[-1] = messages[-1].model_copy(update={"id": message_id})
    except Exception as error:  # its class depends on the wrong part of a message
        reason = f"must be a string, a message or a list of messages, got {describe(message)}."
        hint = "Pass message='...' or message={'messages': [...]}."
        raise ArgumentError("message", reason, hint) from error
    inputs: dict[str, object] = without_marks({**values, "messages": messages})
    check_storable("message", inputs)
    # The queue, the title of the thread and the pages show a message before its run begins.
    if (admit := getattr(graph, "admit", None)) is not None:
        inputs, refusal = admit(inputs)
        if refusal is not None:
            hint = "Submit it without that."
            raise ArgumentError("message", f"is refused by the agent. {refusal}", hint) from refusal
    return inputs


def as_text(inputs: Mapping[str, object] | None) -> str:
    """An input of the agent as text for a worker."""
    try:
        return b64encode(dump(inputs)).decode()
    except Exception as error:  # such as of an object whose class the serializer does not know
        raise ArgumentError("message", f"cannot be stored: {error}.") from error


_PARTS: dict[str, tuple[Callable[[object], bool], str]] = {
    "configurable": (lambda value: isinstance(value, Mapping), "an object"),
    # `type` and not isinstance: True and False are ints.
    "max_concurrency": (lambda value: type(value) is int and value > 0, "a number from 1"),
    "metadata": (lambda value: isinstance(value, Mapping), "an object"),
    "recursion_limit": (lambda value: type(value) is int and value > 0, "a number from 1"),
    "run_name": (lambda value: isinstance(value, str), "a string"),
    "tags": (
        lambda value: isinstance(value, list | tuple) and all(isinstance(v, str) for v in value),
        "a list of strings",
    ),
}
"""Parts that the config of a run can have, and their types. The service sets other parts."""

_OF_A_RUN = ("agent_factory_", "__", "langgraph_", "lc_", "ls_")
"""Prefixes of keys that a library writes to the metadata of a run."""

_PLACE = ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", RUN_ID)


def as_config(
    config: RunnableConfig | None, agent: RegisteredAgent, *, of_client: bool = True
) -> RunnableConfig:
    """The parts of a config that a run of an agent can have.

    A client may set only the keys of `configurable` that the agent allows.

    Metadata that libraries write to a run are left out: a graph with an agent of another service as
    a node sends the metadata of its run.

    Raises:
        ConfigNotAllowed: A part or a key may not be set.
        ArgumentError: A part has the wrong type, or a sync agent would have one thread.
    """
    if not isinstance(config, Mapping | None):
        raise ArgumentError("config", f"must be an object, got {describe(config)}.")
    absent: tuple[object, ...] = (None, [], (), {})
    parts: dict[str, Any] = {k: part for k, part in (config or {}).items() if part not in absent}
    if others := sorted(map(str, parts.keys() - _PARTS)):
        takes = f"It takes {', '.join(_PARTS)}."
        raise ConfigNotAllowed("config", f"cannot set {', '.join(others)} of a run.", takes)
    for name, part in parts.items():
        fits, expected = _PARTS[name]
        if not fits(part):
            raise ArgumentError(f"config.{name}", f"must be {expected}, got {describe(part)}.")
        check_json(f"config.{name}", dict(part) if isinstance(part, Mapping) else part)
    if not agent.asynchronous:  # each run of a service streams
        check_threads(parts)
    keys = parts.setdefault("configurable", {})
    if reserved := sorted(filter(is_reserved, keys)):
        reason = f"{', '.join(map(repr, reserved))} belongs to LangGraph and cannot be set."
        raise ConfigNotAllowed("config.configurable", reason, "Leave it out.")
    if of_client and (others := sorted(keys.keys() - agent.configurable)):
        names = ", ".join(sorted(agent.configurable)) or "no key"
        raise ConfigNotAllowed(
            "config.configurable",
            f"a client may not set {', '.join(map(repr, others))}. It may set {names}.",
            "Leave it out, or name it where the service adds the agent: "
            f"service.add(..., configurable={sorted({*agent.configurable, *others})}).",
        )
    parts["metadata"] = {
        key: value
        for key, value in parts.get("metadata", {}).items()
        if not key.startswith(_OF_A_RUN) and key not in _PLACE
    }
    return cast("RunnableConfig", parts)
