"""A worker in its own process whose agent renders pages in the background."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from select import select
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import ToolRuntime, background, create_agent
from agent_factory.middleware import BackgroundMiddleware, SteeringMiddleware
from agent_factory.service import Pace, Service
from agent_factory.service import background as background_jobs
from agent_factory.testing import ScriptedChatModel
from service.desk import Journal, take
from service.worker_process import DEAD_AFTER

TOOLS = {"Render": "render", "Print": "print_page", "Crash": "crash"}
"""The tools by the first word of a message."""


def make_studio(journal: Journal, seconds: float = 0.0) -> Any:
    """An agent that renders or prints the page of each message, in the background.

    A page may be printed twice, and so may be what ends its worker.
    """

    def render(page: str, runtime: ToolRuntime) -> str:
        """Render a page."""
        take(seconds)
        journal.write("rendered", page)
        return f"Page {page} is rendered."

    def print_page(page: str, runtime: ToolRuntime) -> str:
        """Print a page."""
        journal.write("begun", page)
        take(seconds)
        journal.write("printed", page)
        return f"Page {page} is printed."

    def crash(page: str, runtime: ToolRuntime) -> str:
        """Print a page on a printer that is broken."""
        journal.write("crashed", page)
        take(seconds)
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        new = takewhile(lambda message: message.type != "ai", reversed(messages))
        words = [message.text.split() for message in new]
        calls: Any = [
            {"name": TOOLS[verb], "args": {"page": page}, "id": page}
            for verb, page in (each[:2] for each in words if each and each[0] in TOOLS)
        ]
        return AIMessage("" if calls else "Well.", tool_calls=calls)

    return create_agent(
        ScriptedChatModel([answer] * 100_000),
        [
            background(render),
            background(print_page, on_loss="repeat"),
            background(crash, on_loss="repeat"),
        ],
        middleware=[SteeringMiddleware(), BackgroundMiddleware(max_running=1000)],
        checkpointer=InMemorySaver(),
    )


if __name__ == "__main__":
    url, path, text = sys.argv[1:]
    options = json.loads(text)
    # Where workers are killed at random, a job may lose more of them than it may have attempts.
    background_jobs.MOST_ATTEMPTS = options.get("attempts", 1_000_000)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with closing(Service(url, pace=Pace(dead_after=DEAD_AFTER))) as service:
        agent = make_studio(Journal(Path(path)), options.get("seconds", 0.01))
        service.add("studio", agent, busy="steer")
        service.start(slots=8)
        print("ready", flush=True)
        # A signal that comes just before a call that waits does not end the call.
        while not select([sys.stdin], [], [], 0.2)[0]:
            pass
