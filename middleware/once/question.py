"""The question about an attempt whose outcome is unknown."""

from __future__ import annotations

from typing import Any

from langchain_core.messages.tool import ToolCall

from agent_factory import Flow, Invoke
from agent_factory.middleware._shared.invocable import InOwnGraph
from agent_factory.review.questions import ask_about
from agent_factory.review.requests import ReviewConfig, ToolApprovalRequest

from .effects import Effect, EffectError


def decision_about(earlier: Effect, call: ToolCall, question: str) -> Flow[Any]:
    """Ask a person about an attempt whose outcome is unknown; return the decision.

    LangGraph gives the interrupts of a task their answers by order, so a question in the task of
    the tool could take the answer to a question of the tool itself. A graph has its own namespace.
    """
    request = ToolApprovalRequest(
        type="tool_approval",
        tool_call_id=call["id"],
        name=call["name"],
        args=call["args"],
        description=question,
        review_config=ReviewConfig(
            action_name=call["name"], allowed_decisions=["approve", "reject", "respond"]
        ),
    )

    def ask() -> Flow[object]:
        yield from ()
        return ask_about(request)

    key = [earlier.attempt]
    while True:
        answer = yield Invoke(InOwnGraph(ask), key)
        # Outside of an agent no task is paused, so the graph ends with its interrupt.
        if "__interrupt__" in answer:
            raise EffectError(
                call["name"],
                "cannot be asked about outside of an agent.",
                "Test the answers in an agent with a checkpointer.",
            )
        # As in `once_per_task`. So questions about earlier attempts are passed in their order.
        if answer.get("key") == key:
            return answer["value"]
