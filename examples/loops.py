"""Loops that end: a model that searches in circles, and an answer that was cut off.

Run: python examples/loops.py [--model local | provider:name]

The scripted model looks for an order and reads the rules, again and again, with the same results.
The guard of progress tells it so, then refuses the calls, then asks for an answer. The first answer
is cut off at the limit of output tokens, so the guard of answers asks for a shorter one. The
decision log says what they did, and why.
"""

from __future__ import annotations

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from agent_factory import Decision, create_agent
from agent_factory.middleware import AnswerGuardMiddleware, ProgressGuardMiddleware

LOOK = [{"name": "find_order", "args": {"order_id": "A-1002"}}]
READ = [{"name": "read_rules", "args": {"topic": "delivery"}}]
SCRIPT = [
    *[LOOK, READ, LOOK, READ, LOOK, READ],
    AIMessage("I have looked for order A-1002, and", response_metadata={"finish_reason": "length"}),
    "There is no order A-1002. Please check the number.",
]
HINTS = {
    "find_order": ["Where is my order C-12?"],
    "read_rules": ["What are the rules for returns?"],
}


def find_order(order_id: str) -> str:
    """Say when an order arrives."""
    return f"There is no order {order_id}."


def read_rules(topic: str) -> str:
    """Read the rules of the shop."""
    return f"The rules for {topic}: orders arrive within three days."


def show(decision: Decision) -> None:
    if decision.middleware and decision.reason:
        print(decision)


def main(model: BaseChatModel) -> None:
    agent = create_agent(
        model,
        [find_order, read_rules],
        middleware=[ProgressGuardMiddleware(), AnswerGuardMiddleware()],
        decisions=show,
    )
    question = {"role": "user", "content": "Where is my order A-1002?"}
    for message in agent.invoke({"messages": [question]})["messages"]:
        message.pretty_print()


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
