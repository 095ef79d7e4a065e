"""Tasks of A2A: the runs of a service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from a2a.helpers import new_text_part
from a2a.types import Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent
from langchain_core.messages import AIMessage
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from agent_factory.providers import ending_of, text_of
from agent_factory.serve.a2a.messages import (
    agent_message,
    artifacts_of,
    text_artifact,
    to_user_message,
    waiting_message,
)
from agent_factory.serve.exchange import ENDED, Exchange, last_answer, open_waits, reviews_of
from agent_factory.serve.wait_texts import inbox_of
from agent_factory.service import Run, Service

Event = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent

STATES = {
    "queued": TaskState.TASK_STATE_SUBMITTED,
    "held": TaskState.TASK_STATE_SUBMITTED,
    "running": TaskState.TASK_STATE_WORKING,
    "waiting": TaskState.TASK_STATE_INPUT_REQUIRED,
    "done": TaskState.TASK_STATE_COMPLETED,
    "failed": TaskState.TASK_STATE_FAILED,
    "cancelled": TaskState.TASK_STATE_CANCELED,
}
"""States of tasks by the status of the run."""


def task_of(service: Service, request: Request, run: Run) -> Task:
    """A run as a task."""
    info = run.info
    state, message, values = STATES[info.status], None, {}
    if info.status == "waiting":
        if waits := open_waits(service, run):
            message = waiting_message(reviews_of(waits), inbox_of(request), run)
        else:  # somebody has decided, and the run continues
            state = TaskState.TASK_STATE_WORKING
    elif info.status == "failed":
        # The type of the error, and its text.
        message = agent_message(run, new_text_part(str(info.error)))
    elif info.status == "done":
        values = run.result()
        if ending := ending_of(last_answer(values.get("messages", ()))):
            message = agent_message(run, new_text_part(ending.text))
    return Task(
        id=run.id,
        context_id=run.thread_id,
        status=TaskStatus(state=state, message=message),
        history=[to_user_message(message, run) for message in run.messages],
        artifacts=artifacts_of(values),
    )


async def events_of(exchange: Exchange) -> AsyncIterator[Event]:
    """The events of a run until its end, or until it waits for input. The first is the task."""
    service, request, run = exchange.service, exchange.request, exchange.run
    task = await run_in_threadpool(task_of, service, request, run)
    yield task
    stops = {STATES[status] for status in (*ENDED, "waiting")}
    if task.status.state in stops:
        return
    names: Any = {"task_id": run.id, "context_id": run.thread_id}
    working = TaskStatus(state=TaskState.TASK_STATE_WORKING)
    has_begun = False
    texts: set[str] = set()  # artifacts with a begin
    while True:
        async for part in exchange.follow():
            if part["type"] == "waiting_for":
                message = agent_message(run, new_text_part(part["data"]["text"]))
                status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED, message=message)
                yield TaskStatusUpdateEvent(**names, status=status)
                continue
            if not has_begun:
                has_begun = True
                yield TaskStatusUpdateEvent(**names, status=working)
            # Agents inside the agent are silent.
            if part["type"] != "messages" or part["ns"]:
                continue
            message = part["data"][0]
            if isinstance(message, AIMessage) and (text := text_of(message)):
                id = str(message.id)
                artifact = text_artifact(id, text)
                yield TaskArtifactUpdateEvent(**names, artifact=artifact, append=id in texts)
                texts.add(id)
        task = await run_in_threadpool(task_of, service, request, run)
        if task.status.state in stops:  # otherwise somebody has decided after the last part
            break
    ids = [artifact.artifact_id for artifact in task.artifacts]
    # Artifacts before belong to an earlier stream of the task.
    start = next((at for at, id in enumerate(ids) if id in texts), 0)
    for artifact in task.artifacts[start:]:
        # Structured output, and texts without a stream.
        if artifact.artifact_id not in texts:
            yield TaskArtifactUpdateEvent(**names, artifact=artifact, last_chunk=True)
    yield TaskStatusUpdateEvent(**names, status=task.status)
