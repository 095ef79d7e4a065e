"""Code that stands on create_react_agent, on these parts: two hooks, a limit on steps, the plan.

Run: python examples/react_agent.py [--model local | provider:name]
"""

from __future__ import annotations

from typing import Any

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage

from agent_factory import create_react_agent, topology_of

ORDER = {"order_id": "A-1001"}
SCRIPT = [
    [{"name": "find_order", "args": ORDER}],
    "Order A-1001 arrived on Monday. It cost 90 euros.",
    [{"name": "refund", "args": {**ORDER, "euros": 90}}],
    "A colleague will look at your refund for order A-1001.",
    [{"name": "find_order", "args": ORDER}],
]
HINTS = {
    "find_order": ["Where is my order C-12?"],
    "refund": ["I want 90 euros back for order C-12.", "Refund order C-12, please."],
}
LARGEST = 50


def find_order(order_id: str) -> str:
    """Look up an order and say where it is."""
    return f"Order {order_id} arrived on Monday. It cost 90 euros."


def refund(order_id: str, euros: int) -> str:
    """Pay money back for an order."""
    return f"{euros} euros were paid back for order {order_id}."


def latest(state: Any) -> dict[str, Any]:
    """Before each call of the model: show it the words since the user last spoke, and no more."""
    messages = state["messages"]
    start = max(i for i, message in enumerate(messages) if message.type == "human")
    return {"llm_input_messages": messages[start:]}


def guard(state: Any) -> dict[str, Any]:
    """After each call of the model: answer large refunds in the tool's place."""
    return {
        "messages": [
            ToolMessage("Refused: a colleague decides on this.", tool_call_id=call["id"])
            for call in getattr(state["messages"][-1], "tool_calls", [])
            if call["name"] == "refund" and call["args"].get("euros", LARGEST + 1) > LARGEST
        ]
    }


def main(model: BaseChatModel) -> None:
    agent = create_react_agent(
        model,
        [find_order, refund],
        prompt="You help customers of a shop.",
        pre_model_hook=latest,
        post_model_hook=guard,
    )
    print(topology_of(agent).render(), end="\n\n")
    messages: list[Any] = []
    for question in ("Where is my order A-1001?", "I want 90 euros back for order A-1001."):
        asked = {"messages": [*messages, ("user", question)]}
        messages = agent.invoke(asked)["messages"]
    for message in messages:
        message.pretty_print()
    # Five steps are too few for a turn with tools and hooks: it ends with a message, not an error.
    again = {"messages": [("user", "Where is my order A-1001?")]}
    short = agent.invoke(again, {"recursion_limit": 5})
    print(f"\nwith five steps: {short['messages'][-1].text}")


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
