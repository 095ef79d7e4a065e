"""The question about an attempt whose outcome is unknown."""

from __future__ import annotations

from functools import cache
from typing import Any, NotRequired

from langchain_core.messages.tool import ToolCall
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from agent_factory import Flow, Invoke
from agent_factory.middleware._shared.interrupts import ask
from agent_factory.middleware._shared.reviews import (
    ActionRequest,
    ReviewConfig,
    ToolApprovalRequest,
    answer_schema,
)

from .effects import Effect, EffectError


class Question(TypedDict):
    """State of the graph that asks: the question, the attempt it is about, and the answer."""

    request: ToolApprovalRequest
    attempt: str
    decision: NotRequired[Any]


@cache
def question_graph() -> Any:
    """The graph that asks a person.

    LangGraph gives the interrupts of a task their answers by order, so a question in the task of
    the tool could take the answer to a question of the tool itself. A graph has a namespace.
    """

    def question(state: Question) -> dict[str, Any]:
        schema, title = answer_schema(state["request"])
        return {"decision": ask(state["request"], schema, title=title)}

    graph = StateGraph(Question)
    graph.add_node("question", question)
    graph.add_edge(START, "question")
    return graph.compile(name="question")


def decision_about(earlier: Effect, call: ToolCall, question: str) -> Flow[Any]:
    """What a person decides about an attempt whose outcome is unknown."""
    request = ToolApprovalRequest(
        tool_call_id=call["id"],
        action_request=ActionRequest(
            name=call["name"],
            args=call["args"],
            description=question,
            tool_call_id=call["id"],
        ),
        review_config=ReviewConfig(
            action_name=call["name"], allowed_decisions=["approve", "reject", "respond"]
        ),
    )
    asked = Question(request=request, attempt=earlier.attempt)
    while True:
        answered = yield Invoke(question_graph(), asked)
        if "__interrupt__" in answered:
            raise EffectError(
                call["name"],
                "cannot be asked about outside of an agent.",
                "Test the answers in an agent with a checkpointer.",
            )
        # In a task that is resumed, a graph that has ended returns its old state. The next one has
        # another namespace. So questions about earlier attempts are passed in their order.
        if answered["attempt"] == earlier.attempt:
            return answered["decision"]
