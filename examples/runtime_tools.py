"""Tools that are known only when the run starts, from a plug-in, a server or a user's rights.

Run: python examples/runtime_tools.py [--model local | provider:name]

A middleware adds them to the request (model layer) and runs them (tool layer). The agent is built
without tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, tool

from agent_factory import AgentMiddleware, AgentState, Flow, ModelRequest, create_agent
from agent_factory.middleware import ToolCallRequest

SCRIPT = [
    [{"name": "refund", "args": {"order_id": "A-1001"}}],
    "Done: order A-1001 was refunded.",
]
HINTS = {"refund": ["I want my money back for order C-12."]}


@dataclass
class User:
    """The user; the context of a run."""

    name: str
    is_staff: bool


def tools_for(user: User) -> dict[str, BaseTool]:
    """The tools of a user; a real function would ask a server and cache the result."""

    @tool
    def refund(order_id: str) -> str:
        """Refund an order."""
        return f"Order {order_id} was refunded by {user.name}."

    return {refund.name: refund} if user.is_staff else {}


class UsersTools(AgentMiddleware[AgentState[Any], User]):
    """Offers each user their tools, and runs them."""

    def around_model(self, request: ModelRequest[User]) -> Flow[Any]:
        offered = tools_for(request.runtime.context).values()
        return (yield request.override(tools=[*request.tools, *offered]))

    def around_tool(self, request: ToolCallRequest) -> Flow[Any]:
        user: Any = request.runtime.context
        found = tools_for(user).get(request.tool_call["name"])
        # Without a tool, the model gets an error that the name is unknown.
        return (yield request.override(tool=found) if found else request)


def main(model: BaseChatModel) -> None:
    agent = create_agent(model, middleware=[UsersTools()], context_schema=User)
    result = agent.invoke(
        {"messages": [{"role": "user", "content": "I want my money back for order A-1001."}]},
        context=User("Ada", is_staff=True),
    )
    for message in result["messages"]:
        message.pretty_print()


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
