"""Type-checked, never run: what a type checker knows of an agent's answer."""

from __future__ import annotations

from typing import Any, assert_type

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage
from pydantic import BaseModel

from agent_factory import AgentMiddleware, AgentState, ModelRequest, Runtime, create_agent
from agent_factory.structured_output import ProviderStrategy, ToolStrategy


class Weather(BaseModel):
    """The weather."""

    degrees: float


class Context(BaseModel):
    """Who asks."""

    user: str


class Counting(AgentState[Any]):
    """A state of one's own."""

    calls: int


def answers(model: BaseChatModel) -> None:
    """`structured_response` has the type of the schema, however it is given."""
    for agent in (
        create_agent(model, response_format=Weather),
        create_agent(model, response_format=ToolStrategy(Weather)),
        create_agent(model, response_format=ProviderStrategy(Weather)),
    ):
        result = agent.invoke({"messages": []}, version="v2").value
        assert_type(result["structured_response"], Weather)
        assert_type(result["messages"], list[AnyMessage])


class Own(AgentMiddleware[Counting, Context]):
    """A middleware knows its state and its context."""

    state_schema = Counting

    def before_model(self, state: Counting, runtime: Runtime[Context]) -> dict[str, Any] | None:
        """Both are typed."""
        assert_type(state["calls"], int)
        assert_type(runtime.context, Context)
        return {"calls": state["calls"] + 1}

    def around_model(self, request: ModelRequest[Context]) -> Any:
        """A flow calls inward with `yield`."""
        assert_type(request.runtime.context, Context)
        return (yield request)


def with_context(model: BaseChatModel) -> None:
    """The context's type is checked where it is passed in."""
    agent = create_agent(model, middleware=[Own()], context_schema=Context)
    agent.invoke({"messages": []}, context=Context(user="ada"))
