"""Every mistake that a build refuses: by code, by culprit, with a remedy, and all at once."""

from __future__ import annotations

import re
from typing import Annotated, Any, NotRequired

import pytest

from agent_factory import (
    AgentMiddleware,
    AgentState,
    SpecError,
    create_agent,
    hook_config,
    plan_agent,
    wrap_model_call,
)
from agent_factory import errors as errors_module
from agent_factory.errors import (
    ArgumentError,
    ConflictingMiddleware,
    CyclicOrder,
    DuplicateMiddleware,
    FlowAndWrap,
    HookMode,
    HookSignature,
    InvalidName,
    InvalidResponseFormat,
    InvalidSchema,
    InvalidTool,
    JumpToNowhere,
    MissingMiddleware,
    NoCommonPath,
    NotMiddleware,
    SchemaConflict,
    SpecErrors,
    ToolNameTaken,
    UnknownHook,
    UnknownJump,
    UnknownNode,
)
from agent_factory.testing import ScriptedChatModel


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def other_add() -> int:
    """Add nothing."""
    return 0


other_add.__name__ = "add"


class Plain(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> None:
        return None


class Misspelt(AgentMiddleware):
    def before_modle(self, state: Any, runtime: Any) -> None:
        return None


class ShortOfArguments(AgentMiddleware):
    def before_model(self, state: Any) -> None:  # type: ignore[override]
        return None


class CoroutineInSync(AgentMiddleware):
    async def before_model(self, state: Any, runtime: Any) -> None:  # type: ignore[override]
        return None


class Both(AgentMiddleware):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    def around_model(self, request: Any) -> Any:
        return (yield request)


class AsyncHook(AgentMiddleware):
    async def abefore_model(self, state: Any, runtime: Any) -> None:
        return None


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


class Count(AgentState):
    count: NotRequired[int]


class Counts(AgentState):
    count: NotRequired[list[int]]


class Counting(AgentMiddleware[Any, Any]):
    state_schema = Counts


class Strange(AgentMiddleware[Any, Any]):
    state_schema: Any = int


class Folded(AgentState):
    count: NotRequired[Annotated[int, lambda only_one: only_one]]


class BringsAdd(AgentMiddleware):
    tools = (other_add,)


MISTAKES: list[tuple[type[SpecError], str, str, dict[str, Any]]] = [
    (ArgumentError, "model", "provider:name", {"model": 3}),
    (ArgumentError, "model", "Pass a chat model", {"model": None}),
    (ArgumentError, "tools", "tools=[...]", {"tools": "add"}),
    (ArgumentError, "tools", "tools=[...]", {"tools": add}),
    (ArgumentError, "system_prompt", "string", {"system_prompt": 3}),
    (ArgumentError, "name", "string", {"name": 3}),
    (ArgumentError, "interrupt_after", "interrupt_after=[", {"interrupt_after": "tools"}),
    (ArgumentError, "checkpointer", "Pass a BaseCheckpointSaver", {"checkpointer": "memory"}),
    (NotMiddleware, "middleware", "list", {"middleware": Plain()}),
    (NotMiddleware, "middleware[0]", "Plain(...)", {"middleware": [Plain]}),
    (NotMiddleware, "middleware[1]", "decorate", {"middleware": [Plain(), 3]}),
    (DuplicateMiddleware, "Plain", "name='first'", {"middleware": [Plain(), Plain()]}),
    (InvalidName, "'a|b'", "another name", {"middleware": [Plain(name="a|b")]}),
    (UnknownHook, "Misspelt.before_modle", "before_model", {"middleware": [Misspelt()]}),
    (
        HookSignature,
        "ShortOfArguments.before_model",
        "def before_model(self, state, runtime)",
        {"middleware": [ShortOfArguments()]},
    ),
    (
        HookMode,
        "CoroutineInSync.before_model",
        "abefore_model",
        {"middleware": [CoroutineInSync()]},
    ),
    (FlowAndWrap, "Both", "around_model", {"middleware": [Both()]}),
    (
        NoCommonPath,
        "SyncLayer.wrap_tool_call and AsyncHook.abefore_model",
        "flow",
        {"middleware": [SyncLayer(), AsyncHook()]},
    ),
    (UnknownJump, "JumpsAway.before_model", "'end'", {"middleware": [JumpsAway()]}),
    (JumpToNowhere, "JumpsToTools.after_model", "tool", {"middleware": [JumpsToTools()]}),
    (InvalidTool, "tools", "docstring", {"tools": [3]}),
    (InvalidTool, "handle_tool_errors", "True", {"handle_tool_errors": 3}),
    (ToolNameTaken, "add", "Rename", {"tools": [add], "middleware": [BringsAdd()]}),
    (ToolNameTaken, "add", "Rename", {"tools": [add, other_add]}),
    (
        ToolNameTaken,
        "add",
        "Rename",
        {"tools": [add], "response_format": {"title": "add", "type": "object"}},
    ),
    (InvalidSchema, "create_agent state_schema", "class MyState", {"state_schema": 3}),
    (InvalidSchema, "Strange state_schema", "class MyState", {"middleware": [Strange()]}),
    (InvalidSchema, "the state", "Annotated", {"state_schema": Folded}),
    (
        SchemaConflict,
        "state key 'count'",
        "two names",
        {"middleware": [Counting()], "state_schema": Count},
    ),
    (UnknownNode, "interrupt_before: 'tolos'", "model", {"interrupt_before": ["tolos"]}),
    (InvalidResponseFormat, "response_format", "TypedDict", {"response_format": 3}),
]


def refused(arguments: dict[str, Any]) -> SpecError:
    with pytest.raises(SpecError) as caught:
        create_agent(**{"model": ScriptedChatModel([]), **arguments})
    return caught.value


def ids(value: Any) -> str | None:
    return value.__name__ if isinstance(value, type) else None


@pytest.mark.parametrize(("kind", "subject", "hint", "arguments"), MISTAKES, ids=ids)
def test_an_invalid_argument_is_refused_by_name(
    kind: type[SpecError], subject: str, hint: str, arguments: dict[str, Any]
) -> None:
    error = refused(arguments)
    assert type(error) is kind
    assert error.errors == (error,)
    assert error.subject == subject
    assert hint in error.hint
    assert str(error) == f"[{kind.code}] {error.subject}: {error.reason} {error.hint}"


def test_every_kind_of_spec_error_is_tested() -> None:
    kinds = {
        value
        for value in vars(errors_module).values()
        if isinstance(value, type) and issubclass(value, SpecError) and value.code < "AF200"
    }
    ordering = {
        ConflictingMiddleware,
        CyclicOrder,
        MissingMiddleware,
    }  # tested in test_factory_warnings
    assert kinds - {SpecError, SpecErrors} - ordering == {kind for kind, *_ in MISTAKES}


PLANNED = ["tools", "middleware", "response_format", "state_schema"]


@pytest.mark.parametrize(
    ("kind", "subject", "arguments"),
    # The reducers of "the state" are LangGraph's to judge, when it makes its channels.
    [(k, c, a) for k, c, _, a in MISTAKES if set(a) <= set(PLANNED) and c != "the state"],
    ids=ids,
)
def test_plan_agent_refuses_what_create_agent_refuses(
    kind: type[SpecError], subject: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(kind) as caught:
        plan_agent(**arguments)
    assert caught.value.subject == subject


# Several at once


def test_all_mistakes_of_a_build_arrive_together() -> None:
    error = refused(
        {
            "tools": [3, add, other_add],
            "middleware": [Misspelt(), ShortOfArguments(), JumpsAway(), Counting()],
            "state_schema": Count,
            "response_format": 3,
            "interrupt_before": ["tolos"],
        }
    )
    assert isinstance(error, SpecErrors)
    assert sorted(type(single).__name__ for single in error.errors) == [
        "HookSignature",
        "InvalidResponseFormat",
        "InvalidTool",
        "SchemaConflict",
        "ToolNameTaken",
        "UnknownHook",
        "UnknownJump",
        "UnknownNode",
    ]
    for single in error.errors:
        assert str(single) in str(error)


def test_arguments_of_wrong_types_are_reported_together() -> None:
    """They come before the others: nothing could be looked into without them."""
    error = refused({"tools": 3, "name": 3, "middleware": [Plain, Misspelt()]})
    assert [single.subject for single in error.errors] == ["tools", "name", "middleware[0]"]


# Nothing half built


def test_the_model_is_not_loaded_for_a_build_that_fails() -> None:
    assert type(refused({"model": "provider:name", "tools": [3]})) is InvalidTool


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
