"""Every error of a build: its code, its subject and its hint, and all at once."""

from __future__ import annotations

import operator
import re
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.tools import tool

from agent_factory import (
    AgentMiddleware,
    AgentState,
    ToolGuard,
    create_agent,
    hook_config,
    plan_agent,
    wrap_model_call,
)
from agent_factory.errors import BUILD_CODES, ArgumentError, SpecError, SpecErrors, sentence
from agent_factory.testing import ScriptedChatModel
from samples import AsyncHook, Count, Plain, add
from tables import each


def other_add() -> int:
    """Add nothing."""
    return 0


other_add.__name__ = "add"


class Misspelt(AgentMiddleware):
    def before_modle(self, state: Any, runtime: Any) -> None:
        return None


class WithUser(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any, user: Any) -> None:  # type: ignore[override]
        return None


class CoroutineInSync(AgentMiddleware):
    async def before_model(self, state: Any, runtime: Any) -> None:  # type: ignore[override]
        return None


class Both(AgentMiddleware):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    def around_model(self, request: Any) -> Any:
        return (yield request)


class SyncLayer(AgentMiddleware):
    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


class JumpsAway(AgentMiddleware):
    @hook_config(can_jump_to=["away"])  # type: ignore[list-item]
    def before_model(self, state: Any, runtime: Any) -> None:
        return None


class JumpsToTools(AgentMiddleware):
    @hook_config(can_jump_to=["tools"])
    def after_model(self, state: Any, runtime: Any) -> None:
        return None


class Counts(AgentState):
    count: NotRequired[Annotated[list[int], operator.add]]


class Counting(AgentMiddleware[Any, Any]):
    state_schema = Counts


class Strange(AgentMiddleware[Any, Any]):
    state_schema: Any = int


class Tallying(AgentMiddleware[Any, Any]):
    state_schema = Count


class Folded(AgentState):
    count: NotRequired[Annotated[int, lambda only_one: only_one]]


class BringsAdd(AgentMiddleware):
    tools = (other_add,)


def _moving(moved: Any) -> dict[str, Any]:
    return {"middleware": [Counting()], "moved": moved}


class Review(AgentMiddleware):
    def __init__(self, place: Any) -> None:
        super().__init__()
        self.guards = [ToolGuard("add", "check", place=place)]

    def after_model(self, state: Any, runtime: Any) -> None:
        """Decide."""


class Shortcut(AgentMiddleware):
    @hook_config(can_jump_to=["tools"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """May jump to the tools."""


Mistake = tuple[str, str, str, dict[str, Any]]


def mistake(code: str, subject: str, hint: str, **arguments: Any) -> Mistake:
    return code, subject, hint, arguments


MISTAKES: list[Mistake] = [
    mistake("AF101", "model", "provider:name", model=3),
    mistake("AF101", "model", "Pass a chat model", model=None),
    mistake("AF101", "tools", "tools=[...]", tools="add"),
    mistake("AF101", "tools", "tools=[...]", tools=add),
    mistake("AF101", "system_prompt", "string", system_prompt=3),
    mistake("AF101", "name", "string", name=3),
    mistake("AF101", "interrupt_after", "interrupt_after=[", interrupt_after="tools"),
    mistake("AF101", "checkpointer", "Pass a BaseCheckpointSaver", checkpointer="memory"),
    mistake("AF102", "middleware", "list", middleware=Plain()),
    mistake("AF102", "middleware[0]", "Plain(...)", middleware=[Plain]),
    mistake("AF102", "middleware[1]", "decorate", middleware=[Plain(), 3]),
    mistake("AF103", "Plain", "name='first'", middleware=[Plain(), Plain()]),
    mistake("AF104", "'a|b'", "another name", middleware=[Plain(name="a|b")]),
    mistake("AF105", "Misspelt.before_modle", "before_model", middleware=[Misspelt()]),
    mistake(
        "AF106",
        "WithUser.before_model",
        "def before_model(self, state, runtime)",
        middleware=[WithUser()],
    ),
    mistake(
        "AF107", "CoroutineInSync.before_model", "abefore_model", middleware=[CoroutineInSync()]
    ),
    mistake("AF108", "Both", "around_model", middleware=[Both()]),
    mistake(
        "AF109",
        "SyncLayer.wrap_tool_call and AsyncHook.abefore_model",
        "flow",
        middleware=[SyncLayer(), AsyncHook()],
    ),
    mistake("AF110", "JumpsAway.before_model", "'end'", middleware=[JumpsAway()]),
    mistake("AF111", "JumpsToTools.after_model", "tool", middleware=[JumpsToTools()]),
    mistake("AF112", "tools", "docstring", tools=[3]),
    mistake("AF112", "handle_tool_errors", "True", handle_tool_errors=3),
    mistake("AF113", "add", "Rename", tools=[add], middleware=[BringsAdd()]),
    mistake("AF113", "add", "Rename", tools=[add, other_add]),
    mistake(
        "AF113", "add", "Rename", tools=[add], response_format={"title": "add", "type": "object"}
    ),
    mistake("AF114", "create_agent state_schema", "class MyState", state_schema=3),
    mistake("AF114", "Strange state_schema", "class MyState", middleware=[Strange()]),
    mistake("AF114", "the state", "Annotated", state_schema=Folded),
    mistake("AF115", "state key 'count'", "two names", middleware=[Counting(), Tallying()]),
    mistake(
        "AF125", "tool 'add numbers'", "Name it 'add_numbers'.", tools=[tool("add numbers")(add)]
    ),
    mistake("AF126", "Review", "place=", tools=[add], middleware=[Review("around_tool")]),
    mistake(
        "AF127",
        "'at most 5 model calls'",
        "ModelCallLimitMiddleware(run_limit=5)",
        tools=[add],
        guarantees=["at most 5 model calls"],
    ),
    mistake("AF128", "guarantee 'no refunds'", "tool NAME passes", guarantees=["no refunds"]),
    mistake(
        "AF128", "tool ad", "Did you mean 'add'?", tools=[add], guarantees=["tool ad passes A"]
    ),
    mistake("AF101", "guarantees", "Pass guarantees=[", guarantees="at most 5 model calls"),
    mistake(
        "AF129",
        "Review",
        "Remove 'tools' from can_jump_to of Shortcut.before_model",
        tools=[add],
        middleware=[Shortcut(), Review("after_model")],
    ),
    mistake("AF116", "interrupt_before: 'tolos'", "model", interrupt_before=["tolos"]),
    mistake("AF117", "response_format", "TypedDict", response_format=3),
    mistake("AF101", "moved", "moved={'OldName': 'NewName'}", moved=["Old"]),
    mistake("AF101", "moved['Old']", "one new name for each", moved={"Old": ["Counts", "Other"]}),
    mistake("AF101", "moved[3]", "one new name for each", moved={3: "Counting"}),
    mistake("AF101", "moved['a|b']", "one new name", **_moving({"a|b": "Counting"})),
    mistake("AF122", "moved['Old']", "Did you mean 'Counting'?", **_moving({"Old": "Countin"})),
    mistake("AF122", "moved['Old']", "Its middleware are none.", moved={"Old": "Newer"}),
    mistake("AF123", "moved['Counting']", "Remove it", **_moving({"Counting": "Counting"})),
]


def refused(arguments: dict[str, Any]) -> SpecError:
    with pytest.raises(SpecError) as caught:
        create_agent(**{"model": ScriptedChatModel([]), **arguments})
    return caught.value


def test_names_that_move_in_a_circle_are_refused() -> None:
    error = refused({"moved": {"A": "B", "B": "A"}})
    assert [one.code for one in error.errors] == ["AF122", "AF122"]


TYPE_ERRORS = {"AF101", "AF102", "AF106", "AF107", "AF112", "AF114", "AF117"}
PLANNED = {"tools", "middleware", "response_format", "state_schema"}


@each("code, subject, hint, arguments", MISTAKES)
def test_an_invalid_argument_is_refused_by_name_by_agents_and_plans(
    code: str, subject: str, hint: str, arguments: dict[str, Any]
) -> None:
    error = refused(arguments)
    assert error.code == code
    assert error.errors == (error,)
    assert error.subject == subject
    assert hint in error.hint
    assert str(error) == f"[{code}] {error.subject}: {sentence(error.reason)} {error.hint}"
    assert isinstance(error, ValueError)
    assert isinstance(error, TypeError) == (code in TYPE_ERRORS)
    assert isinstance(error, AssertionError) == (code == "AF103")
    # The reducers of "the state" are LangGraph's to judge, when it makes its channels.
    if set(arguments) <= PLANNED and subject != "the state":
        with pytest.raises(SpecError) as caught:
            plan_agent(**arguments)
        assert (caught.value.code, caught.value.subject) == (code, subject)


def test_every_code_of_an_error_is_tested() -> None:
    # in test_factory_warnings and test_stack_file
    elsewhere = {"AF118", "AF119", "AF120", "AF121", "AF124"}
    codes = {code for code, entry in BUILD_CODES.items() if entry.severity == "error"}
    assert codes - elsewhere == {code for code, *_ in MISTAKES}


# Several at once


def test_all_mistakes_of_a_build_arrive_together() -> None:
    error = refused(
        {
            "tools": [3, add, other_add],
            "middleware": [Misspelt(), WithUser(), JumpsAway(), Counting(), Tallying()],
            "response_format": 3,
            "interrupt_before": ["tolos"],
        }
    )
    assert isinstance(error, SpecErrors)
    codes = "AF105 AF106 AF110 AF112 AF113 AF115 AF116 AF117"
    assert sorted(single.code for single in error.errors) == codes.split()
    for single in error.errors:
        assert str(single) in str(error)


def test_arguments_of_wrong_types_are_reported_together() -> None:
    """They come before the others: nothing could be looked into without them."""
    error = refused({"tools": 3, "name": 3, "middleware": [Plain, Misspelt()]})
    assert [single.subject for single in error.errors] == ["tools", "name", "middleware[0]"]


# Nothing half built


def test_the_model_is_not_loaded_for_a_build_that_fails() -> None:
    assert refused({"model": "provider:name", "tools": [3]}).code == "AF112"


def test_a_refused_build_does_not_change_its_arguments(call: Any) -> None:
    stack = [Plain(), wrap_model_call(name="Layer")(lambda request, handler: handler(request))]
    tools: list[Any] = [add, 3]
    refused({"tools": tools, "middleware": stack})
    agent = create_agent(ScriptedChatModel(["Hello"]), tools[:1], middleware=stack[:1])
    assert call(agent, {"messages": "Hi"})["messages"][-1].text == "Hello"


# Prose


def test_the_messages_of_spec_errors(snapshot: Any) -> None:
    """One look at all of it: a change of words is a change that users read."""
    prose = "\n\n".join(str(refused(arguments)) for *_, arguments in MISTAKES)
    assert re.sub(" at 0x[0-9a-f]+", "", prose) == snapshot


UNKNOWN_ARGUMENTS = {
    "prompt": "Write system_prompt=...",
    "state_modifier": "Write system_prompt=...",
    "memory": "Write checkpointer=...",
    "output_type": "Write response_format=...",
    "pre_model_hook": "Write middleware=[...] with a middleware with before_model.",
    "system_promt": "Did you mean system_prompt?",
    "flavour": "It takes model, tools, system_prompt,",
}


@each("build", [create_agent, plan_agent])
@each("name, hint", UNKNOWN_ARGUMENTS.items())
def test_an_unknown_argument_is_refused_with_what_to_write(
    build: Any, name: str, hint: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        build(model=ScriptedChatModel(), **{name: 1})
    assert caught.value.reason == f"is not an argument of {build.__name__}."
    assert caught.value.hint.startswith(hint)
    assert isinstance(caught.value, TypeError)


def test_a_plan_takes_the_arguments_of_an_agent() -> None:
    assert plan_agent(ScriptedChatModel(), [add]) == plan_agent(tools=[add])
    assert plan_agent("openai:gpt-5", [add]) == plan_agent(tools=[add])


@each("build", [create_agent, plan_agent])
def test_tools_in_the_place_of_the_model_are_refused(build: Any) -> None:
    with pytest.raises(ArgumentError, match="Pass the model first, then the tools"):
        build([add])
