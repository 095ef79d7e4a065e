"""The question about an attempt whose outcome is unknown."""

from __future__ import annotations

from typing import Any

from langchain_core.messages.tool import ToolCall
from langgraph.func import entrypoint
from typing_extensions import TypedDict

from agent_factory import Flow, Invoke
from agent_factory.review.questions import ask_about
from agent_factory.review.requests import ReviewConfig, ToolApprovalRequest

from .effects import Effect, EffectError


class Question(TypedDict):
    """A question, and the attempt it is about."""

    request: ToolApprovalRequest
    attempt: str


class Answer(TypedDict):
    """Decision of a person about an attempt."""

    decision: Any
    attempt: str


@entrypoint()
def ask_person(question: Question) -> Answer:
    """Ask in a graph, which has its own namespace.

    LangGraph gives the interrupts of a task their answers by order, so a question in the task of
    the tool could take the answer to a question of the tool itself.
    """
    if "request" not in question:  # of another graph, which had this namespace before
        return Answer(decision=None, attempt="")
    return Answer(decision=ask_about(question["request"]), attempt=question["attempt"])


def decision_about(earlier: Effect, call: ToolCall, question: str) -> Flow[Any]:
    """Ask a person about an attempt whose outcome is unknown; return the decision."""
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
    question_state = Question(request=request, attempt=earlier.attempt)
    while True:
        answer = yield Invoke(ask_person, question_state)
        # Outside of an agent no task is paused, so the graph ends with its interrupt.
        if "__interrupt__" in answer:
            raise EffectError(
                call["name"],
                "cannot be asked about outside of an agent.",
                "Test the answers in an agent with a checkpointer.",
            )
        # In a task that is resumed, a graph that has ended returns its old state. The next one has
        # another namespace. So questions about earlier attempts are passed in their order.
        if answer.get("attempt") == earlier.attempt:
            return answer["decision"]
