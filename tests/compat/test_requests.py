"""Requests, responses and handlers of layers: the same in langchain's agents and in these."""

from __future__ import annotations

import copy
import dataclasses
import operator
import warnings
from collections.abc import Callable
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command
from pydantic import BaseModel

from agent_factory.testing import ScriptedChatModel
from samples import Number
from samples import add_tool as add
from tables import each

ASK = {"messages": [("user", "Hi")]}
ADDING = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}]
SCENARIOS: list[Callable[..., Any]] = []


def scenario(function: Callable[..., Any]) -> Callable[..., Any]:
    SCENARIOS.append(function)
    return function


@tool
def shout(text: str) -> str:
    """Shout."""
    if not text:
        raise ValueError("nothing to shout")
    return text.upper()


def played(
    f: Any, call: Any, *bodies: Any, steps: Any = ("x",), tools: Any = (), **options: Any
) -> Any:
    """What the caller gets, and what the model was sent, with a layer for each body."""
    model = ScriptedChatModel(list(steps))
    layers = [b if not callable(b) else f.layer(b) for b in bodies]
    done = call(f.create_agent(model, list(tools), middleware=layers, **options), ASK)
    settings = [{k: v for k, v in r.kwargs.items() if k != "tool_choice"} for r in model.requests]
    sent = [(r.messages, sorted(map(str, r.tools))) for r in model.requests]
    return done, sent, settings


@scenario
def the_fields_of_a_request(f: Any, call: Any) -> Any:
    seen: list[Any] = []

    def look(request: Any) -> Any:
        names = ("messages", "system_message", "system_prompt", "tool_choice", "model_settings")
        seen.append([getattr(request, name) for name in names])
        seen.append([sorted(vars(request)), sorted(request.state), request.response_format])
        seen.append([name for name in dir(request.runtime) if not name.startswith("_")])
        return (yield request)

    played(f, call, look, tools=[add, {"type": "web"}], system_prompt="Be brief.")
    return seen


@scenario
def a_request_is_a_dataclass(f: Any, call: Any) -> Any:
    def replaced(request: Any) -> Any:
        return (yield dataclasses.replace(request, model_settings={"temperature": 1}))

    kinds = (f.ModelRequest, f.ModelResponse, f.ExtendedModelResponse)
    names = [[field.name for field in dataclasses.fields(kind)] for kind in kinds]
    return names, played(f, call, replaced)


@scenario
def a_request_is_copied_and_compared(f: Any, call: Any) -> Any:
    seen: list[Any] = []

    def look(request: Any) -> Any:
        other = request.override(messages=[HumanMessage("z")])
        seen.extend([copy.copy(request) == request, other == request, type(other)])
        for change in ({"nope": 1}, {"system_prompt": "a", "system_message": SystemMessage("b")}):
            with pytest.raises((TypeError, ValueError)) as caught:
                request.override(**change)
            seen.append(caught.type)
        seen.append(request.override(system_prompt=None).system_message)
        seen.append(request.override(system_prompt="").system_message)
        return (yield other)

    return played(f, call, look), seen


@scenario
def a_field_may_be_assigned_with_a_warning(f: Any, call: Any) -> Any:
    seen: list[Any] = []

    def assign(request: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            request.system_prompt = "New."
            request.model_settings = {"temperature": 2}
        seen.append([warning.category for warning in caught])
        return (yield request)

    return played(f, call, assign), seen


@scenario
def system_messages_keep_their_blocks(f: Any, call: Any) -> Any:
    def more(request: Any) -> Any:
        blocks = [*request.system_message.content_blocks, {"type": "text", "text": "More."}]
        return (yield request.override(system_message=SystemMessage(content=blocks)))

    return played(f, call, more, system_prompt=SystemMessage("Base."))


@scenario
def a_handler_is_not_called(f: Any, call: Any) -> Any:
    def answers(request: Any) -> Any:
        return f.ModelResponse(result=[AIMessage("none")])
        yield

    def message(request: Any) -> Any:
        return AIMessage("none")
        yield

    return played(f, call, answers), played(f, call, message)


@scenario
def a_handler_is_called_twice(f: Any, call: Any) -> Any:
    def twice(request: Any) -> Any:
        first = yield request
        again = [*request.messages, first.result[0], HumanMessage("again")]
        second = yield request.override(messages=again)
        return f.ModelResponse(result=[first.result[0], HumanMessage("again"), *second.result])

    return played(f, call, twice, steps=["x", "y"])


@scenario
def exceptions_pass_through_handlers(f: Any, call: Any) -> Any:
    def inner(request: Any) -> Any:
        try:
            return (yield request)
        except ValueError as error:
            raise KeyError("k") from error

    def outer(request: Any) -> Any:
        try:
            return (yield request)
        except KeyError as error:
            return AIMessage(repr(error.__cause__))

    return played(f, call, outer, inner, steps=[ValueError("v")])


def log_schema(f: Any) -> Any:
    class Log(f.AgentState):  # type: ignore[misc]
        log: NotRequired[Annotated[list[str], operator.add]]  # type: ignore[valid-type]

    return Log


def writer(f: Any, name: str, *, calls: int = 1) -> Any:
    """A layer that adds its name to the log, and a message."""

    def write(request: Any) -> Any:
        for _ in range(calls):
            response = yield request
        if not isinstance(response, f.ModelResponse):
            response = response.model_response
        update = {"log": [name], "messages": [HumanMessage(name)]}
        return f.ExtendedModelResponse(response, Command(update=update))

    write.__name__ = name
    return f.layer(write, state_schema=log_schema(f))


@scenario
def commands_are_merged_from_the_innermost(f: Any, call: Any) -> Any:
    return played(f, call, writer(f, "outer"), writer(f, "inner"))


@scenario
def commands_of_an_abandoned_attempt_are_dropped(f: Any, call: Any) -> Any:
    return played(f, call, writer(f, "outer", calls=2), writer(f, "inner"), steps=["x", "y"])


@scenario
def a_layer_gives_the_structured_response(f: Any, call: Any) -> Any:
    def direct(request: Any) -> Any:
        response = yield request
        return f.ModelResponse(response.result, structured_response={"a": 1})

    def by_command(request: Any) -> Any:
        response = yield request
        command: Any = Command(update={"structured_response": {"b": 1}})
        return f.ExtendedModelResponse(response, command)

    return played(f, call, direct), played(f, call, by_command)


@scenario
def a_response_is_changed_in_place(f: Any, call: Any) -> Any:
    def change(request: Any) -> Any:
        response = yield request
        response.result[0] = AIMessage("replaced")
        response.structured_response = {"a": 1}
        return response

    return played(f, call, change)


@scenario
def tools_are_removed_and_added(f: Any, call: Any) -> Any:
    def none(request: Any) -> Any:
        return (yield request.override(tools=[]))

    def searching(request: Any) -> Any:
        return (yield request.override(tools=[*request.tools, {"type": "web_search"}]))

    # A call of a tool that was removed runs in langchain's agent: see test_offered_tools.
    scripts = ((none, ["x"]), (searching, [ADDING, "x"]))
    return [played(f, call, body, steps=steps, tools=[add]) for body, steps in scripts]


@scenario
def a_dynamic_tool_is_run_by_a_tool_layer(f: Any, call: Any) -> Any:
    asked: list[Any] = []

    def offer(request: Any) -> Any:
        return (yield request.override(tools=[*request.tools, shout]))

    def supply(request: Any) -> Any:
        asked.append([request.tool is None, request.tool_call["name"]])
        return (yield request.override(tool=request.tool or shout))

    steps = [[{"name": "shout", "args": {"text": "a"}, "id": "2"}], "x"]
    layers = [f.layer(offer), f.layer(supply, "tool")]
    given = [played(f, call, *layers, steps=steps, tools=tools) for tools in ([add], [])]
    return given, asked


@scenario
def model_and_settings_are_changed(f: Any, call: Any) -> Any:
    other = ScriptedChatModel(["from the other"])

    def swap(request: Any) -> Any:
        settings = {"temperature": 0, "parallel_tool_calls": False}
        return (yield request.override(model=other, model_settings=settings, tool_choice="add"))

    done = played(f, call, swap, tools=[add])
    return done, [(r.kwargs, sorted(map(str, r.tools))) for r in other.requests]


@scenario
def the_response_format_is_changed(f: Any, call: Any) -> Any:
    class Text(BaseModel):
        s: str

    def narrow(request: Any) -> Any:
        return (yield request.override(response_format=f.ToolStrategy(Number)))

    def none(request: Any) -> Any:
        return (yield request.override(response_format=None))

    def provider(request: Any) -> Any:
        return (yield request.override(response_format=f.ProviderStrategy(Number)))

    number = [[{"name": "Number", "args": {"n": 1}, "id": "1"}]]
    chosen = f.ToolStrategy(Number | Text)
    return [
        played(f, call, narrow, steps=number, tools=[add], response_format=chosen),
        played(f, call, none, steps=["prose"], tools=[add], response_format=chosen),
        played(f, call, provider, steps=['{"n": 3}'], tools=[add]),
    ]


@scenario
def the_request_of_a_tool_is_changed(f: Any, call: Any) -> Any:
    seen: list[Any] = []

    def change(request: Any) -> Any:
        runtime = request.runtime
        names = [name for name in dir(runtime) if not name.startswith("_")]
        seen.append([request.tool.name, request.tool_call, sorted(request.state), names])
        first = yield request
        args = {"a": int(first.content), "b": 1}
        return (yield request.override(tool_call={**request.tool_call, "args": args}))

    return played(f, call, f.layer(change, "tool"), steps=[ADDING, "x"], tools=[add]), seen


@scenario
def a_tool_layer_returns_a_command_or_handles_an_error(f: Any, call: Any) -> Any:
    def command(request: Any) -> Any:
        message = yield request
        return Command(update={"messages": [message], "log": ["ran"]})

    def handle(request: Any) -> Any:
        try:
            return (yield request)
        except ValueError as error:
            return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")

    logged = f.layer(command, "tool", state_schema=log_schema(f))
    failing = [[{"name": "shout", "args": {"text": ""}, "id": "1"}], "x"]
    return [
        played(f, call, logged, steps=[ADDING, "x"], tools=[add]),
        played(f, call, f.layer(handle, "tool"), steps=failing, tools=[shout]),
    ]


@scenario
def invalid_and_unknown_calls_reach_a_tool_layer(f: Any, call: Any) -> Any:
    seen: list[Any] = []

    def look(request: Any) -> Any:
        result = yield request
        seen.append([request.tool is None, result.status])
        return result

    calls = [*ADDING, {"name": "nope", "args": {}, "id": "2"}]
    bad = [{"name": "add", "args": {"a": "x"}, "id": "3"}]
    done = played(f, call, f.layer(look, "tool"), steps=[calls, bad, "x"], tools=[add])
    return done, sorted(seen)  # parallel calls


@scenario
def a_prompt_decorator_needs_no_arguments(f: Any, call: Any) -> Any:
    @f.dynamic_prompt()  # type: ignore[untyped-decorator]
    def counted(request: Any) -> str:
        return f"{len(request.messages)} so far."

    return played(f, call, f.dynamic_prompt(lambda request: "Short."))[1], played(f, call, counted)


@each("scenario", SCENARIOS, ids=lambda function: function.__name__)
def test_it_is_the_same_in_both(same: Any, scenario: Any) -> None:
    same(scenario)
