"""A2A's client for Python."""

from __future__ import annotations

from typing import Any

import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest, TaskState
from checks import URL, run


async def send(text: str, task: str = "", streaming: bool = False) -> Any:
    """The responses to a message, of a client with or without streams."""
    async with httpx.AsyncClient(timeout=60) as http:
        config = ClientConfig(httpx_client=http, streaming=streaming)
        client = await create_client(f"{URL}/a2a/desk", config)
        message = new_text_message(text, role=Role.ROLE_USER, task_id=task)
        return [each async for each in client.send_message(SendMessageRequest(message=message))]


async def outcome(*texts: str) -> Any:
    """The state of a task and its answer, after messages to it."""
    task: Any = None
    for text in texts:
        (response,) = await send(text, task.id if task else "")
        task = response.task
    answers = [artifact.parts[0].text for artifact in task.artifacts]
    return TaskState.Name(task.status.state), answers


async def stream() -> Any:
    responses = await send("Hi you", streaming=True)
    parts = [part for each in responses for part in each.artifact_update.artifact.parts]
    return "".join(part.text for part in parts)


PAY = 'call pay {"euros": 5}'
run(
    message=(lambda: outcome("Hi"), ("TASK_STATE_COMPLETED", ["You said: Hi"])),
    stream=(stream, "You said: Hi you"),
    review=(lambda: outcome(PAY, "approve"), ("TASK_STATE_COMPLETED", ["Done: Paid 5."])),
    review_waits=(lambda: outcome(PAY), ("TASK_STATE_INPUT_REQUIRED", [])),
)
