"""The shortest agent: a model, a tool, a question.

Run: python examples/quickstart.py [--model local | provider:name]
"""

from __future__ import annotations

from _models import chosen_model
from langchain_core.language_models import BaseChatModel

from agent_factory import create_agent

SCRIPT = [
    [{"name": "find_order", "args": {"order_id": "A-1001"}}],
    "Order A-1001 left the warehouse on Monday and arrives on Thursday.",
]
HINTS = {"find_order": ["Where is my order C-12?"]}


def find_order(order_id: str) -> str:
    """Look up an order and say where it is."""
    return f"Order {order_id} left the warehouse on Monday and arrives on Thursday."


def main(model: BaseChatModel) -> None:
    agent = create_agent(model, [find_order], system_prompt="You help customers of a shop.")
    result = agent.invoke({"messages": [{"role": "user", "content": "Where is my order A-1001?"}]})
    for message in result["messages"]:
        message.pretty_print()


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
