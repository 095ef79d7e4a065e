"""A service whose tool pays after a review, and two clients: one may decide, one may not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from starlette.testclient import TestClient

from agent_factory import AgentMiddleware, agent_tool, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.review import Rule, ToolPolicy
from agent_factory.serve import create_app
from agent_factory.service import Service
from serve.accounts import who
from serve.langgraph_desk import caller
from serve.protocol_desk import graph_around

AGENTS = [
    *("batched", "per_call", "before", "after", "custom"),
    *("graph", "inside", "delegates", "async"),
]
"""Ways in which a call of the tool is reviewed."""


class OwnReview(AgentMiddleware[Any, Any]):
    """Reviews calls as users write it: a hook that asks, and nothing around the tools."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        message = state["messages"][-1]
        if not message.tool_calls or interrupt("May it pay?") == "yes":
            return None
        return {"messages": [ToolMessage("No.", tool_call_id=message.tool_calls[0]["id"])]}


class Desk:
    """The service, what its tool has paid, and eve, who may not decide."""

    def __init__(self, service: Service) -> None:
        self.service, self.paid = service, []
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()
        app = create_app(service, who, may_decide=lambda principal, _: principal.name == "ann@acme")
        self.eve, self.ann = (
            TestClient(app, headers={"x-user": f"{name}@acme"}) for name in ("eve", "ann")
        )
        self._add_agents()

    paid: list[int]

    def pay(self, euros: int) -> str:
        """Pay money."""
        self.paid.append(euros)
        self.begun.set()
        self.may_end.wait(60)
        return f"Paid {euros}."

    def _add_agents(self) -> None:
        def agent(*middleware: Any, **options: Any) -> Any:
            stored = {"checkpointer": InMemorySaver(), **options}
            return create_agent(caller("pay", euros=5), [self.pay], middleware=middleware, **stored)

        asks = Rule("pay", "ask", remember=3600)
        review = HumanInTheLoopMiddleware({"pay": True})
        inner = agent(review, checkpointer=None, name="desk", ignore=["AF211"])

        pausing = agent(checkpointer=None, name="desk", interrupt_before=["tools"])
        outer = caller("desk", request="it")
        delegate = agent_tool(inner, description="Pays.")
        made = {
            "batched": agent(review),
            "per_call": agent(HumanInTheLoopMiddleware({"pay": True}, interrupt_mode="per_call")),
            "before": agent(interrupt_before=["tools"]),
            "after": agent(interrupt_after=["model"]),
            "custom": agent(OwnReview()),
            "graph": graph_around(inner),
            "inside": graph_around(pausing),
            "remembers": agent(HumanInTheLoopMiddleware(ToolPolicy(asks, Rule("*", "allow")))),
            "delegates": create_agent(outer, [delegate], checkpointer=InMemorySaver()),
        }
        for name, compiled in {**made, "async": agent(review)}.items():
            runs_async = name == "async"
            self.service.add(name, compiled, configurable=["language"], asynchronous=runs_async)

    def waiting(self, agent: str) -> str:
        """A thread that waits for a review."""
        thread = uuid4().hex
        run = self.service.submit(agent, thread=thread, message="Hi", tenant="acme")
        run.result(60)
        assert (run.status, self.paid) == ("waiting", [])
        return thread

    def approve(self, thread: str) -> Any:
        """Let ann approve what a thread waits for; return the run."""
        (wait,) = self.service.inbox("acme").waits(thread=thread)
        answer: Any = {"type": "respond", "message": "yes"}
        decision = answer if wait.kind == "question" else "approve"
        return self.service.decide(wait.id, decision, by="ann")

    def cancel(self, thread: str) -> None:
        """Let eve cancel the run of a thread."""
        run = self.service.threads.get(thread).run
        answer = self.eve.post(f"/threads/{thread}/runs/{run}/cancel")
        assert answer.status_code in (204, 404)  # 404 if it has ended

    def run(self, thread: str | None, agent: str, **body: Any) -> Any:
        """Let eve run an agent; return the response once the run has ended or pauses."""
        place = "/runs/wait" if thread is None else f"/threads/{thread}/runs/wait"
        return self.eve.post(place, json={"assistant_id": agent, **body})

    def checkpoints(self, thread: str) -> list[str]:
        """The checkpoints of a thread, the newest first."""
        states = self.eve.post(f"/threads/{thread}/history", json={"limit": 100}).json()
        return [state["checkpoint_id"] for state in states]


@contextmanager
def attacked_desk(folder: Path) -> Iterator[Desk]:
    """The service with a worker."""
    with Service(f"sqlite:///{folder}/desk.db") as service:
        yield Desk(service)
