"""Messages: how what a user says becomes a run of a thread, and what is held meanwhile."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import RunnableConfig
from sqlalchemy import insert, select, update

from agent_factory.errors import ArgumentError, describe
from agent_factory.service.backend import Backend, Busy, Waiting
from agent_factory.service.errors import NotFound, ThreadBusy
from agent_factory.service.events import dump, load
from agent_factory.service.saver import FencedSaver
from agent_factory.service.tables import runs, threads
from agent_factory.service.thread_queue import BUSY
from agent_factory.service.threads import insert_thread


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message that is held until the decision for which its thread waits.

    Args:
        run: The id of its run.
        text: What it says.
        checkpoint: The id of the checkpoint at which it begins, if it is a fork: the thread goes
            on from there, and what came after it stays in the history.
        created_at: When it was submitted, in seconds since 1970, by the database's clock.
    """

    run: str
    text: str
    checkpoint: str | None
    created_at: float


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a message does if its thread is not idle.

    Args:
        busy: What it does if a run works on the thread, or is queued for it.
        waiting: What it does if the thread waits for a decision.
        by: Who submits it, for the audit.
    """

    busy: Busy
    waiting: Busy | Waiting
    by: str


def submit(
    backend: Backend,
    run_id: str,
    payload: dict[str, Any],
    arrival: Arrival,
    metadata: dict[str, Any],
    title: str | None,
) -> None:
    """Write a run, and queue it if its thread is not busy; one that is known stays as it is.

    Raises:
        NotFound: The thread belongs to another tenant, or does not have the checkpoint.
        ThreadBusy: The thread is not idle, and the message does not wait.
    """
    thread_id, tenant = payload["thread"], payload["tenant"]
    payload = dict(payload)  # this may be repeated
    with backend.database.begin() as connection:
        if (delay := payload.pop("delay")) is not None:
            now = connection.execute(select(backend.database.now)).scalar_one()
            payload = {**payload, "begins_at": now + delay}
        row = insert_thread(connection, backend, thread_id, tenant, title=title)
        again = select(runs.c.run_id).where(runs.c.run_id == run_id)
        if connection.execute(again).first() is not None:
            return
        saver = FencedSaver(backend.database)
        if (checkpoint := payload["checkpoint"]) is not None and not saver.knows(
            connection, thread_id, checkpoint
        ):
            raise NotFound(f"checkpoint {checkpoint!r}", "is not one of this thread.")
        is_busy, waits = row.status in BUSY, row.status == "waiting"
        how = arrival.waiting if waits else arrival.busy
        if is_busy and how == "reject":
            raise ThreadBusy(
                f"thread {thread_id!r}",
                "waits for a decision." if waits else f"is {row.status}.",
                "Submit the message after it, or with waiting='queue' or waiting='interrupt'."
                if waits
                else "Submit the message later, or with busy='queue'.",
            )
        columns = ("run_id", "thread_id", "tenant", "agent", "priority")
        values = {**payload, "run_id": run_id, "thread_id": thread_id}
        if is_busy and how in ("interrupt", "rollback"):
            of_run = select(runs.c.payload).where(runs.c.run_id == row.run)
            if json.loads(connection.execute(of_run).scalar() or "{}").get("kind") == "undo":
                how = "queue"  # what a run has done is undone first
        if is_busy and how in ("interrupt", "rollback"):
            ended = backend.queue.end_runs(connection, row, arrival.by)
            works = [json.loads(run.payload) for run in ended]
            if how == "interrupt":
                payload["before"] = [
                    message
                    for work in works
                    if "input" in work  # that of a run which `reindex` has found is lost
                    for message in (
                        *work.get("before", ()),
                        [work["run"], work["input"], work["checkpoint"]],
                    )
                ]
            else:
                payload["rollback"] = row.run
        if row.title is None and title is not None:  # it was created before its first message
            named = update(threads).where(threads.c.thread_id == thread_id)
            connection.execute(named.values(title=title))
        connection.execute(
            insert(runs).values(
                **{name: values[name] for name in columns},
                payload=json.dumps(payload),
                metadata=metadata,
                status="queued",
                created_at=backend.database.now,
            )
        )
        if not is_busy or how != "queue":
            backend.queue.queue(connection, run_id, payload)


def held_messages(backend: Backend, thread: str, tenant: str | None) -> list[HeldMessage]:
    """The messages that are held until a thread is decided about, in their order.

    Raises:
        NotFound: There is no such thread, or it belongs to another tenant.
    """
    queued = select(runs).where(
        runs.c.thread_id == thread, runs.c.job.is_(None), runs.c.status == "queued"
    )
    of_thread = select(threads.c.tenant, threads.c.status).where(threads.c.thread_id == thread)
    with backend.database.read() as connection:
        row = connection.execute(of_thread).first()
        rows = connection.execute(queued.order_by(runs.c.seq)).all()
    if row is None or tenant not in (None, row.tenant):
        raise NotFound(f"thread {thread!r}", "does not exist.")
    held = []
    for run in rows if row.status == "waiting" else ():
        work = json.loads(run.payload)
        input = load(b64decode(work["input"])) or {"messages": ()}  # none if it only goes on
        text = "\n".join(message.text for message in input["messages"])
        held.append(HeldMessage(run.run_id, text, work["checkpoint"], run.created_at))
    return held


def as_input(message: Any, message_id: str) -> dict[str, Any]:
    """An input of the agent; its last message has the id."""
    given = dict(message) if isinstance(message, Mapping) and "messages" in message else {}
    listed = given.get("messages", message)
    try:
        messages = convert_to_messages(listed if isinstance(listed, list) else [listed])
    except (KeyError, NotImplementedError, TypeError, ValueError) as error:
        raise ArgumentError(
            "message",
            f"must be a string, a message or a list of messages, got {describe(message)}.",
            "Pass message='...' or message={'messages': [...]}.",
        ) from error
    if messages and messages[-1].id is None:
        messages[-1] = messages[-1].model_copy(update={"id": message_id})
    return {**given, "messages": messages}


def as_text(given: Mapping[str, Any] | None) -> str:
    """An input of the agent as text, which a worker loads."""
    try:
        return b64encode(dump(given)).decode()
    except TypeError as error:  # such as a number of more than 64 bits
        raise ArgumentError("message", f"cannot be stored: {error}.") from error


def as_config(config: RunnableConfig | None) -> dict[str, Any]:
    """The parts of a config that a run can have; the service sets the others."""
    given: dict[str, Any] = dict(config or {})
    names = {"recursion_limit", "tags"} & {*given}
    known: dict[str, Any] = {name: given.pop(name) for name in sorted(names)}
    configurable = given.pop("configurable", {})
    reserved = {"thread_id", "checkpoint_id", "checkpoint_ns"} & {*configurable}
    if given or reserved:
        listed = ", ".join(sorted({*given, *reserved}))
        raise ArgumentError(
            "config",
            f"cannot set {listed} of a run of the service.",
            "It takes recursion_limit, tags and configurable.",
        )
    return {"configurable": configurable, **known}
