"""Ask a model again until the arguments of its tool call are valid; no tool runs.

Run: python examples/reprompt.py

The graph has two nodes: the model fills in a form by a tool call, and a ValidationNode checks it.
The edge after it goes back to the model until the form is valid. The result is the form.
"""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from _models import chosen_model
from langchain_core.messages import ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel, Field, model_validator

from agent_factory.prebuilt import ValidationNode

SCRIPT = [
    [{"name": "Booking", "args": {"room": "attic", "start": "2026-05-04", "end": "2026-05-06"}}],
    [{"name": "Booking", "args": {"room": "garden", "start": "2026-05-06", "end": "2026-05-04"}}],
    [{"name": "Booking", "args": {"room": "garden", "start": "2026-05-04", "end": "2026-05-06"}}],
]


class Booking(BaseModel):
    """Book a room for some nights."""

    room: Literal["garden", "lake"]
    start: date = Field(description="The day of arrival.")
    end: date = Field(description="The day of departure.")

    @model_validator(mode="after")
    def check_order(self) -> Booking:
        if self.end <= self.start:
            raise ValueError("end must be after start")
        return self


def next_step(state: MessagesState) -> Literal["model", "__end__"]:
    """Go back to the model while one of the results after its message is an error."""
    for message in reversed(state["messages"]):
        if not isinstance(message, ToolMessage):
            break
        if message.additional_kwargs.get("is_error"):
            return "model"
    return "__end__"


def main() -> None:
    model = chosen_model(SCRIPT).bind_tools([Booking])

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("validation", ValidationNode([Booking]))
    graph.add_edge(START, "model")
    graph.add_edge("model", "validation")
    graph.add_conditional_edges("validation", next_step, ["model", END])

    question: Any = ("user", "The garden room from the 4th to the 6th of May 2026, please.")
    result = graph.compile().invoke({"messages": [question]}, {"recursion_limit": 12})
    for message in result["messages"]:
        message.pretty_print()
    print(repr(Booking.model_validate_json(result["messages"][-1].text)))


if __name__ == "__main__":
    main()
