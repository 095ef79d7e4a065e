"""Tools and schemas that many tests use, and short ways to read a result.

Test files import it as `samples`: pytest puts this folder on the path (`pythonpath` in
pyproject.toml).
"""

from __future__ import annotations

from typing import Any

from langchain_core.tools import tool
from pydantic import BaseModel

from agent_factory import AgentMiddleware, Topology, hook_config, plan_agent


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


add_tool = tool(add)


class Answer(BaseModel):
    number: int


def last_text(result: Any) -> str:
    """The text of the last message."""
    return str(result["messages"][-1].text)


def tool_results(result: Any) -> list[tuple[str, str]]:
    """The text and the status of each tool message."""
    return [(m.text, m.status) for m in result["messages"] if m.type == "tool"]


def find(query: str) -> str:
    """Find."""
    return query


class Guard(AgentMiddleware):
    """Middleware with hooks, a jump and both kinds of layers."""

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Look."""

    def around_model(self, request: Any) -> Any:
        return (yield request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


def full_plan() -> Topology:
    """A plan with hooks, layers, a jump, and tools of every kind."""
    return plan_agent(
        tools=[find, {"type": "web_search"}],
        middleware=[Guard(), Guard(name="other")],
        response_format={"title": "Answer", "type": "object"},
    )
