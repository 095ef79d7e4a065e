"""Traffic of an old version, for the databases in this folder: see README.md.

Run ``python traffic.py URL`` with the code of that version, and the folder tests, on PYTHONPATH. It
ends as a machine that fails does: with a run that works, messages and a decision that are queued,
and one for later.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from threading import Event
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import text

from agent_factory import create_agent, middleware
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from waiting import until

begins, never = Event(), Event()


def answer(messages: list[BaseMessage]) -> AIMessage:
    """The model: it calls `pay` for "Pay 10", and works without end for "Block"."""
    user = next(message for message in reversed(messages) if isinstance(message, HumanMessage))
    words = str(user.content).split()
    if words[0] == "Block":
        begins.set()
        never.wait()
    if words[0] == "Pay" and not isinstance(messages[-1], ToolMessage):
        call = {"name": "pay", "args": {"euros": int(words[1])}, "id": f"call-{words[1]}"}
        return AIMessage("", tool_calls=[call])
    return AIMessage(f"Done: {user.content}")


def pay(euros: int) -> str:
    """Pay a bill."""
    receipt = f"Paid {euros}."
    return receipt


def desk() -> Any:
    """An agent whose payments are reviewed."""
    stack: list[Any] = [middleware.HumanInTheLoopMiddleware(interrupt_on={"pay": True})]
    if hasattr(middleware, "OnceMiddleware"):
        stack.append(middleware.OnceMiddleware({"pay": "rerun"}))
    return create_agent(
        ScriptedChatModel([answer] * 100), [pay], middleware=stack, checkpointer=InMemorySaver()
    )


class Traffic:
    """What a service has done and has still to do when its machine fails."""

    def __init__(self, url: str) -> None:
        self.service = Service(url)
        self.service.add("desk", desk())
        self.service.add("new", desk())
        self.arguments = inspect.signature(self.service.submit).parameters

    def submit(self, agent: str, thread: str, message: str, **options: Any) -> None:
        """Submit a message, with the options that this version has."""
        options = {name: value for name, value in options.items() if name in self.arguments}
        self.service.submit(
            agent,
            thread=thread,
            message=message,
            message_id=f"{thread}: {message}",
            tenant="acme",
            **options,
        )

    def ask(self, thread: str, message: str) -> str:
        """The wait of a payment."""
        self.submit("desk", thread, message)
        until(lambda: self.waits(thread))
        return self.waits(thread)[0]

    def waits(self, thread: str) -> list[str]:
        """The open waits of a thread."""
        waits = self.service.inbox("acme").waits()
        return [wait.id for wait in waits if wait.thread_id == thread]

    def is_idle(self, thread: str) -> bool:
        """True if a thread has done all of its messages."""
        query = text("select status from service_threads where thread_id = :thread")
        with self.service._backend.database.begin() as connection:
            return connection.execute(query, {"thread": thread}).scalar() == "idle"

    def run(self) -> None:
        """Let it happen."""
        service = self.service
        service.schedule(
            "nightly",
            "0 3 * * *",
            agent="desk",
            message="Good night",
            thread="nightly",
            tenant="acme",
            timezone="Europe/Berlin",
        )
        service.limit("acme", concurrency=1)
        if hasattr(service, "store"):
            service.store("acme").put(("users", "ann"), "likes", {"food": "pizza"})
        engine = getattr(service._backend, "engine", None)
        passes_on = hasattr(engine, "pass_on")
        if passes_on:  # a job that the worker puts into the queue of an agent that it lacks
            self.submit("new", "passed", "Hello")
            agent = service._backend.agents.pop("new")
        service.start(slots=1)
        self.submit("desk", "done", "Hello", metadata={"order": 7})
        until(lambda: self.is_idle("done"))
        paid, review, decided, _ = (
            self.ask(thread, f"Pay {euros}")
            for thread, euros in (("paid", 10), ("review", 12), ("decided", 13), ("held", 14))
        )
        service.decide(paid, "approve", by="ann", tenant="acme")
        until(lambda: self.is_idle("paid"))
        self.submit("desk", "held", "Thanks")  # until the review is decided
        service.inbox("acme").claim(review, by="ann")
        if passes_on:
            service._backend.agents["new"] = agent
        self.submit("desk", "running", "Block")
        assert begins.wait(60)
        # The only slot is taken: what comes now stays in the queue.
        self.submit("desk", "running", "After")
        service.decide(decided, "approve", by="ann", tenant="acme")
        self.submit("desk", "queued", "First", priority=5, context={"user": "ann"})
        self.submit("desk", "queued", "Second")
        self.submit("desk", "later" if "delay" in self.arguments else "now", "Later", delay=1e9)
        time.sleep(1)  # waits: the last events are written, and nobody sees it
        os._exit(0)


if __name__ == "__main__":
    Traffic(sys.argv[1]).run()
