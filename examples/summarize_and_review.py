"""Two built-in middleware: old messages are summarized, and people review refunds.

Run: python examples/summarize_and_review.py

The model asks for a refund, the run pauses, a person changes the amount, and the run continues.
"""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from agent_factory.testing import ScriptedChatModel

SCRIPT = [
    "I am sorry to hear that. What is the number of your order?",
    "Thank you. How much do you want back?",
    [{"name": "refund", "args": {"order_id": "A-1001", "euros": 90}}],
    "You get 45 euros back: a colleague looked at the order and lowered the amount.",
]
SUMMARY = "The lamp of order A-1001 arrived broken; the customer wants a refund."


def refund(order_id: str, euros: int) -> str:
    """Pay money back for an order."""
    return f"{euros} euros were paid back for order {order_id}."


def decide(request: dict[str, Any]) -> dict[str, Any]:
    """The decision of a person, who would see the request in a form."""
    action = request["action_requests"][0]
    print(f"to review: {action['name']} {action['args']}")
    lowered = {"name": action["name"], "args": {**action["args"], "euros": 45}}
    return {"decisions": [{"type": "edit", "edited_action": lowered}]}


def main() -> None:
    model = ScriptedChatModel(SCRIPT)
    agent = create_agent(
        model,
        [refund],
        middleware=[
            SummarizationMiddleware(
                ScriptedChatModel([SUMMARY]), trigger=("messages", 5), keep=("messages", 1)
            ),
            HumanInTheLoopMiddleware({"refund": True}),
        ],
        checkpointer=InMemorySaver(),
    )
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    for line in ("My lamp arrived broken!", "It is order A-1001.", "90 euros."):
        result: Any = agent.invoke({"messages": [{"role": "user", "content": line}]}, thread)

    # The run has paused: answer its interrupt with Command(resume=...), in the same thread.
    answer = decide(result["__interrupt__"][0].value)
    result = agent.invoke(Command(resume=answer), thread)
    print("--- the model saw")
    for message in [*model.requests[-1].messages, result["messages"][-1]]:
        message.pretty_print()
    print(f"--- the thread has {len(result['messages'])} messages")


if __name__ == "__main__":
    main()
