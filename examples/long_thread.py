"""A long thread: old tool results are cleared, and older messages are summarized.

Run: python examples/long_thread.py [--model local | provider:name]

The to-do list is kept by both, because it is in the state and is shown to the model at each call.
The limits are tiny here, so that a short conversation reaches them.
"""

from __future__ import annotations

from typing import Any

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import Flow, ModelRequest, create_agent, wrap_model_call
from agent_factory.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
)

LINES = ["Where is my order A-1001?", "And where is my order B-2002?"]
PLAN = [
    {"content": "Find order A-1001", "status": "in_progress"},
    {"content": "Ask for other orders", "status": "pending"},
]
SCRIPT = [
    [{"name": "write_todos", "args": {"todos": PLAN}}],
    [{"name": "find_order", "args": {"order_id": "A-1001"}}],
    "It arrives on Thursday. Is there another one?",
    [{"name": "find_order", "args": {"order_id": "B-2002"}}],
    "Order B-2002 arrives on Thursday, too.",
]
HINTS = {"find_order": ["Where is my order C-12?"]}


def find_order(order_id: str) -> str:
    """Look up an order and say where it is."""
    return f"Order {order_id} arrives on Thursday. It was last seen at gate 7."


def gist(messages: list[AnyMessage]) -> str:
    """The text of the conversation, without calls and results; a model would write it better."""
    return "\n".join(m.text for m in messages if m.type in ("human", "ai") and m.text)


@wrap_model_call
def shown(request: ModelRequest[Any]) -> Flow[Any]:
    """Print the messages that the model gets."""
    print("--- the model sees")
    for message in request.messages:
        print(f"{message.type}: {message.text}")
    return (yield request)


def main(model: BaseChatModel) -> None:
    agent = create_agent(
        model,
        [find_order],
        system_prompt="You help customers of a shop.",
        middleware=[
            ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=40, keep=0)]),
            SummarizationMiddleware(
                model, trigger=("messages", 7), keep=("messages", 3), summarizer=gist
            ),
            TodoListMiddleware(),
            shown,
        ],
        checkpointer=InMemorySaver(),
    )
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    for line in LINES:
        result: Any = agent.invoke({"messages": [{"role": "user", "content": line}]}, thread)
    print(f"--- the answer\n{result['messages'][-1].text}")


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
