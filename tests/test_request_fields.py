"""A model or a tool that a layer passes by its name is refused, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from agent_factory import ModelRequest, create_agent, wrap_model_call
from agent_factory.errors import ArgumentError
from agent_factory.testing import ScriptedChatModel
from samples import add, add_tool
from tables import each

Run = Callable[..., Any]
ASK: Any = {"messages": [HumanMessage("Hi")]}


def overridden(request: ModelRequest[Any], name: str, value: object) -> ModelRequest[Any]:
    change: Any = {name: value}
    return request.override(**change)


def constructed(request: ModelRequest[Any], name: str, value: object) -> ModelRequest[Any]:
    fields = ("model", "messages", "tools", "state", "runtime")
    return ModelRequest(**{**{key: getattr(request, key) for key in fields}, name: value})


def assigned(request: ModelRequest[Any], name: str, value: object) -> ModelRequest[Any]:
    setattr(request, name, value)
    return request


BY_NAME = (
    "must be tools, or provider tools as dicts, got str ('{}'). "
    "Pass the tool, not its name: [tool for tool in request.tools if tool.name == 'add']."
)


@pytest.mark.filterwarnings("ignore:Setting ModelRequest:DeprecationWarning")
@each("change", [overridden, constructed, assigned])
@each(
    "name, value, message",
    [
        (
            "model",
            "openai:gpt-5",
            "[AF101] model of a request: must be a chat model, got str ('openai:gpt-5'). "
            "Pass init_model('openai:gpt-5').",
        ),
        ("tools", ["add"], f"[AF101] tools of a request: {BY_NAME.format('add')}"),
        ("tools", ["ad"], f"[AF101] tools of a request: {BY_NAME.format('ad')}"),
        ("tools", ("add",), f"[AF101] tools of a request: {BY_NAME.format('add')}"),
        (
            "tools",
            [add_tool, "search"],
            "[AF101] tools of a request: must be tools, or provider tools as dicts, got str "
            "('search'). The tools are: add.",
        ),
        (
            "tools",
            [None],
            "[AF101] tools of a request: must be tools, or provider tools as dicts, got NoneType "
            "(None). The tools are: add.",
        ),
        (
            "tools",
            "add",
            "[AF101] tools of a request: must be a list, got str ('add'). "
            "Pass tools=[*request.tools, tool].",
        ),
    ],
)
def test_a_name_is_refused(call: Run, change: Any, name: str, value: Any, message: str) -> None:
    @wrap_model_call
    def by_name(request: Any) -> Any:
        return (yield change(request, name, value))

    model = ScriptedChatModel([])
    with pytest.raises(ArgumentError) as caught:
        call(create_agent(model, [add], middleware=[by_name]), ASK)
    assert str(caught.value) == message
    assert model.requests == []


def test_a_tool_without_its_list_is_refused() -> None:
    request: ModelRequest[Any] = ModelRequest(model=ScriptedChatModel(), messages=[])
    with pytest.raises(ArgumentError, match=r"must be a list, got StructuredTool"):
        request.override(tools=add_tool)  # type: ignore[arg-type]


@each("tools", [[add_tool], [add], (add_tool,), {"a": add_tool}.values()])
def test_tools_of_every_form_are_accepted(call: Run, tools: Any) -> None:
    @wrap_model_call
    def again(request: Any) -> Any:
        return (yield request.override(tools=tools, model=request.model))

    model = ScriptedChatModel(["ok"])
    call(create_agent(model, [add], middleware=[again]), ASK)
    assert model.requests[0].tools == ["add"]
