"""Checks of messages and answers, while the model works and before anybody sees an answer.

Run: python examples/guarded_chat.py [--model local | provider:name]

The check of messages runs while the model answers. It objects to the second question, so no word
of that answer is seen. The check of answers keeps promises of money from the user.
"""

from __future__ import annotations

from typing import Any

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage

from agent_factory import create_agent
from agent_factory.middleware import GuardMiddleware

SCRIPT: list[Any] = [
    "Your order arrives on Thursday.",
    "Roses are red.",
    "We will pay you 40 euros back.",
]


def about_orders(messages: list[AnyMessage]) -> str | None:
    """Object to questions that are not about an order."""
    texts = [message.text for message in messages if message.type == "human"]
    return None if all("order" in text for text in texts) else "it is not about an order"


def no_promises(answer: AIMessage) -> str | None:
    """Object to answers that promise money."""
    return "it promises money" if "pay" in answer.text else None


def main(model: BaseChatModel) -> None:
    agent = create_agent(
        model,
        middleware=[
            GuardMiddleware(about_orders, answer="I only know about orders."),
            GuardMiddleware(
                no_promises, on="answer", name="promises", answer="Please ask the desk: {reason}."
            ),
        ],
    )
    for question in ("Where is my order?", "Write a poem.", "What about the order that broke?"):
        print(f"> {question}")
        for chunk, _metadata in agent.stream(
            {"messages": [{"role": "user", "content": question}]}, stream_mode="messages"
        ):
            if isinstance(chunk, AIMessage | AIMessageChunk):
                print(chunk.text, end="", flush=True)
        print()


if __name__ == "__main__":
    main(chosen_model(SCRIPT))
