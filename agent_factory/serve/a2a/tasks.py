"""Tasks of A2A: the runs of a service, with their messages and artifacts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from a2a.helpers import (
    new_data_artifact,
    new_data_part,
    new_message,
    new_text_artifact,
    new_text_message,
    new_text_part,
    new_text_status_update_event,
)
from a2a.types import (
    Artifact,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from langchain_core.messages import AIMessage, HumanMessage
from starlette.concurrency import run_in_threadpool

from agent_factory.providers import ending_of, text_of
from agent_factory.serve.exchange import ENDED, Exchange, last_answer, open_waits, reviews_of
from agent_factory.serve.json_response import to_json
from agent_factory.serve.wait_texts import inbox_of, question_text, wait_data, waits_text

ID_PREFIX = "a2a:"
"""Prefix of messages of clients: the id of an answer would replace the answer."""

ANSWER = "answer"
"""Name of artifacts with texts of the agent."""

STRUCTURED = "structured_response"
"""Artifact with structured output of an agent, and the key of the state."""

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


def task_of(exchange: Exchange) -> Task:
    """The run of an exchange as a task."""
    run, info = exchange.run, exchange.run.info
    ids = run.thread_id, run.id
    state, message, values = STATES[info.status], None, {}
    if info.status == "waiting":
        if waits := open_waits(exchange.service, run):
            reviews, inbox = reviews_of(waits), inbox_of(exchange.request)
            questions = "\n\n".join(question_text(wait) for wait in reviews)
            # As a text for people, and as data for programs.
            text = f"{questions}\n\n{waits_text(reviews, inbox)}".strip()
            data = {"waits": [wait_data(wait, inbox) for wait in reviews]}
            message = new_message([new_text_part(text), new_data_part(data)], *ids)
        else:  # somebody has decided, and the run continues
            state = TaskState.TASK_STATE_WORKING
    elif info.status == "failed":
        # The type of the error, and its text.
        message = new_text_message(str(info.error), None, *ids)
    elif info.status == "done":
        values = run.result()
        if ending := ending_of(last_answer(values.get("messages", ()))):
            message = new_text_message(ending.text, None, *ids)
    history = []
    for sent in run.messages:
        history.append(new_text_message(sent.text, None, *ids, Role.ROLE_USER))
        history[-1].message_id = str(sent.id).removeprefix(ID_PREFIX)
    return Task(
        id=run.id,
        context_id=run.thread_id,
        status=TaskStatus(state=state, message=message),
        history=history,
        artifacts=artifacts_of(values),
    )


def artifacts_of(values: Mapping[str, Any]) -> list[Artifact]:
    """The texts of the agent since the last message of the user, and the structured output."""
    answers: list[Artifact] = []
    for message in reversed(values.get("messages", ())):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, AIMessage) and (text := text_of(message)):
            answers.insert(0, new_text_artifact(ANSWER, text, artifact_id=str(message.id)))
    if values.get(STRUCTURED) is not None:
        data = json.loads(to_json(values[STRUCTURED]))
        answers.append(new_data_artifact(STRUCTURED, data, artifact_id=STRUCTURED))
    return answers


async def events_of(exchange: Exchange) -> AsyncIterator[Event]:
    """The events of a run until its end, or until it waits for input. The first is the task."""
    run, task = exchange.run, await run_in_threadpool(task_of, exchange)
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
                state, text = TaskState.TASK_STATE_SUBMITTED, part["data"]["text"]
                yield new_text_status_update_event(**names, state=state, text=text)
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
                artifact = new_text_artifact(ANSWER, text, artifact_id=id)
                yield TaskArtifactUpdateEvent(**names, artifact=artifact, append=id in texts)
                texts.add(id)
        task = await run_in_threadpool(task_of, exchange)
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
