"""Agents run on our ToolNode, with all its differences to LangGraph's."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.tools import tool
from pydantic import BaseModel, ValidationError

from agent_factory import (
    AgentMiddleware,
    AgentState,
    InjectedState,
    ToolRuntime,
    create_agent,
    plan_agent,
)
from agent_factory.errors import ArgumentError, SpecErrors
from agent_factory.testing import ScriptedChatModel
from samples import timed, two_stores, user


class Shop(AgentState[Any]):
    cart: NotRequired[dict[str, list[int]]]
    user: NotRequired[str]


GO: Any = {"messages": "Go", "cart": {"lamps": [1]}, "user": "Ada"}


def ran(call: Any, given: Any, args: Any = None, **options: Any) -> Any:
    """The state after a turn in which the model called this tool."""
    model = ScriptedChatModel([[{"name": given.name, "args": args or {}}], "Done"])
    return call(create_agent(model, [given], state_schema=Shop, **options), GO)


def result_text(result: Any) -> str:
    (message,) = [m for m in result["messages"] if m.type == "tool"]
    return str(message.text)


def test_c2_c27_c32_tools_that_could_not_work_are_refused_together() -> None:
    """Also where nothing is built, but planned."""

    @tool("timed")
    def other() -> str:
        """Say something else."""
        return "never"

    builds: list[Any] = [lambda tools: create_agent(ScriptedChatModel([]), tools)]
    for build in (*builds, lambda tools: plan_agent(tools=tools)):
        with pytest.raises(SpecErrors) as caught:
            build([two_stores, timed, other])
        assert [(error.code, error.subject) for error in caught.value.errors] == [
            ("AF112", "tools: two_stores"),
            ("AF112", "tools: timed"),
            ("AF113", "timed"),
        ]


def test_c32_the_middleware_that_brings_such_a_tool_is_named() -> None:
    class Films(AgentMiddleware):
        tools = (timed,)

    with pytest.raises(ArgumentError, match=r"^\[AF112\]") as caught:
        create_agent(ScriptedChatModel([]), middleware=[Films()])
    assert caught.value.subject == "Films: timed"


@tool
def spoil(runtime: ToolRuntime[Any, Any], cart: Annotated[Any, InjectedState("cart")]) -> str:
    """Change what is given."""
    cart["lamps"].append(2)
    runtime.state["cart"]["lamps"].append(3)
    runtime.state["messages"].clear()
    return "spoilt"


def test_c39_a_tool_cannot_change_the_state_it_is_given(call: Any) -> None:
    """Nor can a tool that a layer brings."""

    class Brings(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            return (yield request.override(tool=spoil))

    for tools, layers in ([spoil], []), ([], [Brings()]):
        model = ScriptedChatModel([[{"name": "spoil", "args": {}}], "Done"])
        result = call(create_agent(model, tools, middleware=layers, state_schema=Shop), GO)
        assert result["cart"] == {"lamps": [1]}
        assert [m.text for m in result["messages"]] == ["Go", "", "spoilt", "Done"]


class Lamps(BaseModel):
    count: int


@tool
def order(text: str) -> str:
    """Order lamps."""
    return str(Lamps.model_validate({"count": text}))


def test_c50_a_validation_error_of_a_tool_is_an_error_of_the_tool(call: Any) -> None:
    for options in ({}, {"handle_tool_errors": False}, {"handle_tool_errors": KeyError}):
        with pytest.raises(ValidationError, match="for Lamps"):
            ran(call, order, {"text": "many"}, **options)
    text = result_text(ran(call, order, {"text": "many"}, handle_tool_errors=True))
    assert text.startswith("Error: 1 validation error for Lamps")


def test_c68_a_layer_may_give_a_tool_another_state(call: Any) -> None:
    class Masks(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            return (yield request.override(state={**request.state, "user": "A."}))

    result = ran(call, tool(user), middleware=[Masks()])
    assert (result_text(result), result["user"]) == ("A.", "Ada")
