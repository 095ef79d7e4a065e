"""The decision log: why a run repeated one call and refused another.

Run: python examples/why.py [--model local | provider:name]

Each line says who decided what and why: a hook or layer with the reason its author gives, or the
agent where it chose an edge. No line has contents of messages.
"""

from __future__ import annotations

from typing import Any

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, ToolMessage

from agent_factory import (
    AgentMiddleware,
    Decision,
    Flow,
    Jump,
    create_agent,
    hook_config,
    set_reason,
)

SCRIPT = [
    [{"name": "find_order", "args": {"order_id": "A-1001"}}],
    "It arrived on Monday.",
    [{"name": "refund", "args": {"order_id": "A-1001"}}],
]
HINTS = {
    "find_order": ["Where is my order C-12?"],
    "refund": ["I want my money back for order C-12."],
}
NOT_ALONE = "I cannot refund orders: a colleague will call you."


class Shop:
    """A shop whose first call fails."""

    def __init__(self) -> None:
        self.called = 0

    def find_order(self, order_id: str) -> str:
        """Say when an order arrives."""
        self.called += 1
        if self.called == 1:
            raise ConnectionError("the line is dead")
        return f"Order {order_id} arrived on Monday."


def refund(order_id: str) -> str:
    """Refund an order."""
    return f"Order {order_id} was refunded."


class Patience(AgentMiddleware):
    """Calls a tool again after a connection error."""

    def around_tool(self, request: Any) -> Flow[Any]:
        try:
            return (yield request)
        except ConnectionError:
            set_reason("the line was dead")
            return (yield request)


class Guard(AgentMiddleware):
    """Ends a run that asks for a refund."""

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> Jump | None:
        calls = [call for call in state["messages"][-1].tool_calls if call["name"] == "refund"]
        if not calls:
            return None
        refused = [ToolMessage(NOT_ALONE, tool_call_id=call["id"]) for call in calls]
        return Jump("end", reason="refunds are for people", messages=refused)


def show(decision: Decision) -> None:
    print(f"{decision.step:3}  {decision}")


def main(model: BaseChatModel) -> None:
    agent = create_agent(
        model, [Shop().find_order, refund], middleware=[Guard(), Patience()], decisions=show
    )
    messages: list[AnyMessage] = []
    for question in ("Where is my order A-1001?", "I want my money back for order A-1001."):
        print(f"\n{question}")
        asked: Any = {"messages": [*messages, {"role": "user", "content": question}]}
        messages = agent.invoke(asked)["messages"]
        print(messages[-1].text)


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
