"""Queue: messages and forks of a thread that no run has read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.types import StateSnapshot

from agent_factory.serve.pages.live import AT_WORK
from agent_factory.service import Service, ThreadInfo
from agent_factory.upstream import RUN_ID

MOST = 50
"""Messages of a queue that a page shows."""


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message, or a fork, that no run has read.

    Args:
        run: The id of its run.
        text: What it says; "" for a fork without a message.
        checkpoint: The id of the checkpoint at which it begins, if it is a fork.
        created_at: When it was sent, in seconds since 1970.
        note: What it waits for.
    """

    run: str
    text: str
    checkpoint: str | None
    created_at: float
    note: str


def queue_of(
    service: Service, info: ThreadInfo, newest: StateSnapshot | None = None
) -> list[QueuedMessage]:
    """Messages and forks of a thread that no run has read, in their order.

    Args:
        service: The service.
        info: The thread.
        newest: Its newest state, if it has one: what is in it has been read.
    """
    if info.status == "waiting":
        return held_messages(service, info.id, info.tenant)
    if info.status not in AT_WORK:
        return []
    messages = []
    for run in service.threads.runs(info.id, status=["queued", "running"], limit=MOST):
        facts, checkpoint = run.info, run.request.get("checkpoint")
        # A message that a run works on is in the state, or is there with its first step.
        has_begun = facts.status == "running" and checkpoint is None
        if facts.reader is not None or has_begun or is_of(newest, run.id):
            continue
        note = "waits for its turn"
        if run.id == info.run:
            note = "begins"
        elif run.request.get("busy") == "steer":
            note = "is read at the next step of the run"
        text = "\n".join(str(message.text) for message in run.messages)
        messages.append(QueuedMessage(run.id, text, checkpoint, facts.created_at, note))
    return messages[::-1]


def held_messages(service: Service, thread: str, tenant: str) -> list[QueuedMessage]:
    """Messages of a thread that are held until a decision, in their order.

    Raises:
        NotFound: There is no such thread.
    """
    return [
        QueuedMessage(held.run, held.text, held.checkpoint, held.created_at, "held until decided")
        for held in service.threads.held(thread, tenant=tenant)
    ]


def is_of(state: StateSnapshot | None, run: str) -> bool:
    """Return True if a run has written a state."""
    metadata: Mapping[str, Any] = (state.metadata if state is not None else None) or {}
    return metadata.get(RUN_ID) == run
