"""Let another model call choose which tools to offer, if there are too many to show at once.

Run: python examples/choose_tools.py [--model local | provider:name]

The middleware inside the selector only prints the tools that were chosen.
"""

from __future__ import annotations

from typing import Any

from _models import chosen_model
from langchain_core.language_models import BaseChatModel

from agent_factory import AgentMiddleware, Flow, ModelRequest, create_agent
from agent_factory.middleware import LLMToolSelectorMiddleware

SCRIPT = [
    [{"name": "ToolSelection", "args": {"tools": ["refund"]}}],
    [{"name": "refund", "args": {"order_id": "A-1001"}}],
    "Done: the money for order A-1001 is on its way.",
]
HINTS = {"refund": ["I want my money back for order C-12."]}


def find_order(order_id: str) -> str:
    """Look up where an order is."""
    return f"Order {order_id} arrives on Thursday."


def refund(order_id: str) -> str:
    """Pay the money for an order back."""
    return f"The money for order {order_id} is on its way."


def play_music(song: str) -> str:
    """Play a song."""
    return f"Now playing: {song}"


class PrintTools(AgentMiddleware[Any, Any]):
    """Prints the tools that a model call offers."""

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        print("offered:", *(getattr(tool, "name", tool) for tool in request.tools))
        return (yield request)


def main(model: BaseChatModel) -> None:
    agent = create_agent(
        model,
        [find_order, refund, play_music],
        # One model does both here; in a product, give the selector a smaller one.
        middleware=[
            LLMToolSelectorMiddleware(max_tools=2, on_parsing_failure="all"),
            PrintTools(),
        ],
    )
    request = "I want my money back for order A-1001."
    result = agent.invoke({"messages": [{"role": "user", "content": request}]})
    for message in result["messages"]:
        message.pretty_print()


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
