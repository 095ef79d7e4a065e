"""An agent as the tool of another one. The inner one pauses for a review; we answer from outside.

Run: python examples/subagent.py

The question travels up through the tool to the caller of the outer agent, and the answer down.
"""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent_factory import agent_tool, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.testing import ScriptedChatModel

FRONT_DESK = [
    [{"name": "ask_billing", "args": {"request": "Refund order A-1001."}}],
    "Your money is on its way.",
]
BILLING = [
    [{"name": "refund", "args": {"order_id": "A-1001"}}],
    "I have refunded order A-1001.",
]


def refund(order_id: str) -> str:
    """Refund an order."""
    return f"Order {order_id} was refunded."


def main() -> None:
    # It needs no checkpointer: the thread of the agent that calls it keeps its state.
    billing = create_agent(
        ScriptedChatModel(BILLING),
        [refund],
        middleware=[HumanInTheLoopMiddleware({"refund": True})],
        name="billing",
        ignore=["AF211"],  # the warning that it has no checkpointer
    )

    ask_billing = agent_tool(
        billing, name="ask_billing", description="Ask the billing department to do something."
    )
    agent = create_agent(
        ScriptedChatModel(FRONT_DESK), [ask_billing], checkpointer=InMemorySaver(), name="front"
    )
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    result: Any = agent.invoke(
        {"messages": [{"role": "user", "content": "I want my money back."}]}, thread
    )

    question = result["__interrupt__"][0].value
    print(f"billing wants to call: {question['action_requests'][0]['name']}")

    approved = {"decisions": [{"type": "approve"}]}
    result = agent.invoke(Command(resume=approved), thread)
    for message in result["messages"]:
        message.pretty_print()


if __name__ == "__main__":
    main()
