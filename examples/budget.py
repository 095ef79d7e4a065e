"""A parent and its subagent spend from one ledger.

Run: python examples/budget.py [--model local | provider:name]

The desk asks the warehouse about an order. Both use the same ledger, so the calls of the warehouse
leave less for the desk. With --model local, a real model reports how many tokens it has read and
written.
"""

from __future__ import annotations

from typing import Any

from _models import chosen_model
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata

from agent_factory import create_agent
from agent_factory.middleware import BudgetMiddleware, Ledger, Limits


def response(text: str, tool: str = "", read: int = 200) -> AIMessage:
    """A scripted answer with the usage that a provider would report."""
    calls = [{"name": tool, "args": {"order_id": "A-1001"}, "id": tool}] if tool else []
    usage = UsageMetadata(input_tokens=read, output_tokens=20, total_tokens=read + 20)
    return AIMessage(text, tool_calls=calls, usage_metadata=usage)


SCRIPT = [
    response("", "ask_warehouse"),  # the desk
    response("", "find_order"),  # the warehouse
    response("Order A-1001 is on shelf 7 and leaves on Thursday.", read=250),
    response("Order A-1001 leaves on Thursday.", read=260),  # the desk again
]


def price(model: str, usage: UsageMetadata) -> float:
    """Five dollars for a million tokens of any model."""
    return usage["total_tokens"] * 5 / 1_000_000


def find_order(order_id: str) -> str:
    """Look up where an order is."""
    return f"Order {order_id} is on shelf 7 and leaves on Thursday."


def main() -> None:
    question = "Where is my order A-1001?"
    model = chosen_model(SCRIPT, {"ask_warehouse": [question], "find_order": [question]})
    ledger = Ledger(Limits(usd=0.02, turns=6, tool_calls=4))
    warehouse = create_agent(
        model, [find_order], middleware=[BudgetMiddleware(ledger=ledger, prices=price)]
    )

    def ask_warehouse(order_id: str) -> str:
        """Ask the warehouse where an order is."""
        asked = {"role": "user", "content": f"Where is my order {order_id}?"}
        return str(warehouse.invoke({"messages": [asked]})["messages"][-1].text)

    desk = create_agent(
        model, [ask_warehouse], middleware=[BudgetMiddleware(ledger=ledger, prices=price)]
    )
    result: Any = desk.invoke({"messages": [{"role": "user", "content": question}]})
    for message in result["messages"]:
        message.pretty_print()

    spent = ledger.spent
    print(
        f"\n{spent.turns} turns and {spent.tool_calls} tool calls of two agents: "
        f"{spent.total_tokens} tokens, ${spent.usd:.4f} of ${ledger.limits.usd}"
    )


if __name__ == "__main__":
    main()
