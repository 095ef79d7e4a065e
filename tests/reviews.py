"""Calls that are reviewed, and how a thread continues after a review."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import tool
from langgraph.types import interrupt

from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from samples import THREAD


def payments(*euros: int) -> list[dict[str, Any]]:
    """Calls that pay these amounts."""
    return [{"name": "pay", "args": {"euros": n}, "id": f"call_{n}"} for n in euros]


def question(about: str) -> dict[str, Any]:
    """A call that asks a person about something."""
    return {"name": "ask", "args": {"about": about}, "id": about}


class Till:
    """A tool that has an effect, so that it shows which calls ran."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, euros: int) -> str:
        """Pay money."""
        self.paid.append(euros)
        return f"paid {euros}"


class Mailbox:
    """Tools that have an effect, with a record of the calls that ran."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, Any]] = []

    def tools(self) -> list[Any]:
        @tool
        def send(to: str, text: str = "") -> str:
            """Send a mail."""
            self.ran.append(("send", to))
            return f"sent to {to}"

        @tool
        def delete(number: int) -> str:
            """Delete a mail."""
            self.ran.append(("delete", number))
            return f"deleted {number}"

        return [send, delete]


def goes_on(agent: Any) -> bool:
    """Whether the thread has come to its end, and takes another message."""
    assert agent.get_state(THREAD).next == ()
    assert_valid_history(agent.get_state(THREAD).values["messages"])
    model = ScriptedChatModel(["You are welcome."])
    again = create_agent(model, checkpointer=agent.checkpointer)
    result = again.invoke({"messages": [("user", "Thanks")]}, THREAD)
    # The model reads what the thread holds: its history needed no repair.
    return bool(model.requests[0].messages == result["messages"][:-1])


def ask(question: str) -> str:
    """Ask a person."""
    return str(interrupt(question))
