"""An agent whose model, stream and thread contain no personal data.

Run: python examples/privacy.py [--model local | provider:name]

Mail addresses become hashes: the same for the same address, so that the model can still
distinguish people. Card numbers keep their last four digits.
"""

from __future__ import annotations

from typing import Any

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk

from agent_factory import InputAgentState, create_agent
from agent_factory.middleware import PIIMiddleware

SCRIPT = [
    [{"name": "find_order", "args": {"order_id": "A-1001"}}],
    "Order A-1001 goes to grace@example.org. Your card 4242 4242 4242 4242 was charged.",
]
HINTS = {"find_order": ["Where is my order C-12?"]}


def find_order(order_id: str) -> str:
    """Look up an order and say where it is."""
    return f"Order {order_id} arrives on Thursday; questions to grace@example.org."


def main(model: BaseChatModel) -> None:
    everywhere: Any = {"apply_to_output": True, "apply_to_tool_results": True}
    agent = create_agent(
        model,
        [find_order],
        middleware=[
            PIIMiddleware("email", strategy="hash", hash_key="a secret of yours", **everywhere),
            PIIMiddleware("credit_card", strategy="mask", **everywhere),
        ],
    )
    question: InputAgentState = {
        "messages": [{"role": "user", "content": "Where is my order A-1001? I am ada@example.com."}]
    }
    last: Any = question
    for mode, part in agent.stream(question, stream_mode=["messages", "values"]):
        if mode == "messages":
            show_words(part)
        else:
            last = part
    print()
    for message in last["messages"]:
        message.pretty_print()


def show_words(part: Any) -> None:
    chunk, _metadata = part
    if isinstance(chunk, AIMessageChunk):
        print(chunk.text, end="", flush=True)


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
