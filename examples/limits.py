"""Limits that end a run with an answer: a tool may run only once in a conversation.

Run: python examples/limits.py [--model local | provider:name]

When the limit on look-ups is reached, the model is asked for a last answer without tools. The limit
on model calls ends the run in any case. The small local model answers anyway; it is too small to
know what it does not know.
"""

from __future__ import annotations

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent
from agent_factory.middleware import ModelCallLimitMiddleware, ToolCallLimitMiddleware

SCRIPT = [
    [{"name": "find_order", "args": {"order_id": "A-1001"}}],
    "It arrives on Thursday.",
    [{"name": "find_order", "args": {"order_id": "A-1002"}}],
    "I know A-1001 only, which arrives on Thursday. A-1002 I could not look up any more.",
]
HINTS = {"find_order": ["Where is my order C-12?"]}


def find_order(order_id: str) -> str:
    """Say when an order arrives."""
    return f"Order {order_id} arrives on Thursday."


def main(model: BaseChatModel) -> None:
    agent = create_agent(
        model,
        [find_order],
        middleware=[
            ModelCallLimitMiddleware(run_limit=5, exit_behavior="answer"),
            ToolCallLimitMiddleware(tool_name="find_order", thread_limit=1, exit_behavior="answer"),
        ],
        checkpointer=InMemorySaver(),
    )
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    messages: list[AnyMessage] = []
    for order in ("A-1001", "A-1002"):
        question = {"role": "user", "content": f"Where is my order {order}?"}
        messages = agent.invoke({"messages": [question]}, thread)["messages"]
    for message in messages:
        message.pretty_print()


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
