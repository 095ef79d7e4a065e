"""The support desk: an agent with three middleware and the tools of the shop."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from agent_factory import create_agent
from agent_factory.demo.shop import Shop, tools_of
from agent_factory.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    SummarizationMiddleware,
)

Desk = CompiledStateGraph[Any, Any, Any, Any]
"""The agent of the demo."""

THREAD: RunnableConfig = {"configurable": {"thread_id": "desk"}}

QUESTIONS = [
    "Where is my order A-1001?",
    "Can I return shoes after 30 days?",
    "Please refund 20 dollars for order A-1001, it arrived broken.",
    "Where is my order A-1002?",
]
"""The messages of the customer, in order."""

LATER = "What is the warranty of a lamp?"
"""The question for the second process."""

DECLINED = "Nothing was refunded: a reviewer declined it."
"""The result of a rejected refund; a small model repeats it to the customer."""

SUMMARY = (
    "{messages}\n\nWrite a short summary of what the customer asked and what the shop answered."
)
"""The prompt for a summary; a small model needs a short one."""

EXAMPLES = {
    "find_order": ["Where is my order C-3003?", "Has B-17 been sent yet?"],
    "refund_order": [
        "Please refund 5 dollars for order C-3003.",
        "I want 12 dollars back for B-17.",
    ],
    "search_policies": ["Can I return a jacket?", "How long is the warranty of a toaster?"],
}
"""Sample messages that help a very small model to choose among the tools."""


def build_desk(model: BaseChatModel, shop: Shop, checkpointer: BaseCheckpointSaver[str]) -> Desk:
    """The support desk as an agent."""
    return create_agent(
        model,
        tools_of(shop),
        system_prompt="You are the support desk of a small shop. Answer in one short sentence.",
        middleware=[
            ModelCallLimitMiddleware(run_limit=6),
            SummarizationMiddleware(
                model,
                trigger=("messages", 12),
                keep=("messages", 4),
                summary_prompt=SUMMARY,
                keep_thread=False,  # the demo prints updates of the thread
            ),
            HumanInTheLoopMiddleware(
                {
                    "refund_order": {
                        "allowed_decisions": ["approve", "reject"],
                        "description": "Money leaves the till: a person decides if this call runs.",
                    }
                }
            ),
        ],
        checkpointer=checkpointer,
        name="desk",
    )
