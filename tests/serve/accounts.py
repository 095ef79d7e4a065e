"""People who use agents by other programs, and what they may decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel

from agent_factory import create_agent
from agent_factory.serve import Principal
from agent_factory.serve.exchange import open_waits
from agent_factory.service import Run, Service, Wait
from agent_factory.testing import ScriptedChatModel
from serve.agents import hold


class Bill(BaseModel):
    """What was paid."""

    euros: int


def who(request: Any) -> Principal | None:
    """The person whom the headers of a request name: Ann, if there are none."""
    name = request.headers.get("x-user", "ann@acme")
    if not name:
        return None
    roles = frozenset({request.headers.get("x-role", "accounting")})
    return Principal(tenant=name.partition("@")[2], name=name, roles=roles)


def may_decide(principal: Principal, wait: Wait) -> bool:
    """People of the accounting decide about all waits, and others about none."""
    return "accounting" in principal.roles


SERVER: dict[str, Any] = {"authenticate": who, "may_decide": may_decide}
"""Options of a server for these people."""


def add_gated(service: Service) -> None:
    """Add an agent that answers once a test has opened the gate: see the fixture `gate`."""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        hold("held")
        return AIMessage(f"You said: {messages[-1].text}")

    service.add("gated", create_agent(ScriptedChatModel([answer] * 100)))


def statuses(service: Service, thread: str) -> list[str]:
    """The statuses of the runs of a thread; none before it exists."""
    try:
        return [run.status for run in service.threads.runs(thread)]
    except LookupError:
        return []


def decided_meanwhile() -> Callable[..., list[Wait]]:
    """`open_waits`, as it is if somebody decides just before it is called the first time."""
    has_decided = False

    def read(service: Service, run: Run) -> list[Wait]:
        nonlocal has_decided
        if not has_decided:
            has_decided = True
            for wait in open_waits(service, run):
                service.decide(wait.id, "approve", by="bob")
            return []
        return open_waits(service, run)

    return read
