"""A worker in its own process whose agent renders pages in the background."""

from __future__ import annotations

import json
import sys
import time
from itertools import takewhile
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import ToolRuntime, background, create_agent
from agent_factory.middleware import BackgroundMiddleware, SteeringMiddleware
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from service.desk import Journal
from service.worker_process import DEAD_AFTER, WorkerProcess


def make_studio(journal: Journal, seconds: float = 0.0) -> Any:
    """An agent that renders the page of each message, in the background."""

    def render(page: str, runtime: ToolRuntime) -> str:
        """Render a page."""
        time.sleep(seconds)
        journal.write("rendered", page)
        return f"Page {page} is rendered."

    def answer(messages: list[BaseMessage]) -> AIMessage:
        new = takewhile(lambda message: message.type != "ai", reversed(messages))
        asked = [m.text.split()[1] for m in new if m.text.startswith("Render ")]
        calls: Any = [{"name": "render", "args": {"page": page}, "id": page} for page in asked]
        return AIMessage("" if calls else "Well.", tool_calls=calls)

    return create_agent(
        ScriptedChatModel([answer] * 100_000),
        [background(render)],
        middleware=[SteeringMiddleware(), BackgroundMiddleware(max_running=1000)],
        checkpointer=InMemorySaver(),
    )


class StudioProcess(WorkerProcess):
    """A worker of a studio in another process."""

    MODULE = ("service.studio_process",)


if __name__ == "__main__":
    url, path, options = sys.argv[1:]
    service = Service(url)
    seconds = json.loads(options)["seconds"]
    service.add("studio", make_studio(Journal(Path(path)), seconds), busy="steer")
    service.start(slots=8, dead_after=DEAD_AFTER)
    print("ready", flush=True)
    sys.stdin.read()
    service.close()
