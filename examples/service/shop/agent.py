"""The agent: it answers questions about orders, and asks a person before it pays back."""

from __future__ import annotations

import os
import re
import time

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.testing import ScriptedChatModel


def find_order(order_id: str) -> str:
    """Look an order up."""
    time.sleep(float(os.environ.get("SHOP_SECONDS", "3")))  # there is time to kill a worker
    return f"Order {order_id}: a lamp, 40 euros, delivered yesterday."


def refund(order_id: str, euros: int) -> str:
    """Pay an order back."""
    return f"{euros} euros were paid back for order {order_id}."


def answer(messages: list[BaseMessage]) -> AIMessage:
    """What the model says: a stand-in without a key, which knows one conversation."""
    order = re.findall(r"[A-Z]\d+", " ".join(message.text for message in messages))[-1]
    last = messages[-1]
    if not isinstance(last, ToolMessage):
        for paid in messages:
            if isinstance(paid, ToolMessage) and paid.name == "refund" and order in paid.text:
                return AIMessage(f"Yes: {paid.text}")
        return _call("find_order", messages, order_id=order)
    if last.name == "find_order":
        return _call("refund", messages, order_id=order, euros=40)
    return AIMessage(f"About order {order}: {last.text}")


def _call(tool: str, messages: list[BaseMessage], **args: object) -> AIMessage:
    call = {"name": tool, "args": args, "id": f"call-{len(messages)}"}
    return AIMessage("", tool_calls=[call])


desk_agent = create_agent(
    ScriptedChatModel([answer] * 1000),  # in a product: "anthropic:claude-sonnet-4-5"
    [find_order, refund],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"refund": True})],
    checkpointer=InMemorySaver(),  # for tests; a service stores threads in its own database
    name="desk",
)
