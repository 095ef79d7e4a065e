"""Retry temporary failures, and report permanent ones to the model.

Run: python examples/resilience.py [--model local | provider:name]

The connection to the orders breaks twice, and the tool is run again until it works. An order that
does not exist would not exist the next time either, so the error is reported to the model at once,
in plain words. The scripted model's first call fails as well, and is retried.
"""

from __future__ import annotations

from _models import chosen_model
from langchain_core.language_models import BaseChatModel

from agent_factory import create_agent
from agent_factory.middleware import (
    ModelRetryMiddleware,
    ToolCallRequest,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)

SCRIPT = [
    ConnectionError("the provider hung up"),
    [{"name": "find_order", "args": {"order_id": "A-1001"}}],
    "Order A-1001 arrives on Thursday.",
    [{"name": "find_order", "args": {"order_id": "C-77"}}],
    "Order C-77 does not exist. Is the number right?",
]
HINTS = {"find_order": ["Where is order D-12?"]}
QUESTIONS = ["Where is order A-1001?", "Where is order C-77?"]

ORDERS = {"A-1001": "arrives on Thursday"}
breaks = [ConnectionError("the line is dead"), TimeoutError("no answer after 2 s")]


def find_order(order_id: str) -> str:
    """Find out where an order is."""
    if breaks:
        error = breaks.pop(0)
        print(f"  find_order: {error}")
        raise error
    return f"Order {order_id} {ORDERS[order_id]}."


def in_plain_words(error: Exception, request: ToolCallRequest) -> str:
    if isinstance(error, KeyError):
        return f"Order {error.args[0]} does not exist."
    return f"The orders cannot be reached: {error}."


def main(model: BaseChatModel) -> None:
    temporary = (ConnectionError, TimeoutError)
    agent = create_agent(
        model,
        [find_order],
        middleware=[
            ModelRetryMiddleware(retry_on=temporary, initial_delay=0.01),
            # Outside the retries: it reports what they do not retry, and what they give up on.
            ToolErrorMiddleware(in_plain_words),
            ToolRetryMiddleware(retry_on=temporary, initial_delay=0.01, on_failure="error"),
        ],
    )
    for question in QUESTIONS:
        result = agent.invoke({"messages": [{"role": "user", "content": question}]})
        for message in result["messages"]:
            message.pretty_print()


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
