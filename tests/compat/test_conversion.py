"""langchain's strategies for structured output, and its state schemas, in our create_agent."""

from __future__ import annotations

import operator
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from families import OURS, THEIRS
from langgraph.types import Command
from pydantic import BaseModel, Field

import agent_factory as ours
from agent_factory import AgentFactoryWarning, AgentState, create_agent
from agent_factory.errors import ArgumentError, SpecError, UnknownStateKey
from agent_factory.structured_output import StructuredOutputValidationError, ToolStrategy
from agent_factory.testing import ScriptedChatModel

pytest.importorskip("langchain.agents", reason="the extra peer is not installed")

from langchain.agents import middleware as theirs
from langchain.agents import structured_output as outputs
from langchain.agents.middleware.types import OmitFromInput, OmitFromOutput, PrivateStateAttr

from tables import each

ASK = {"messages": [("user", "Hi")]}


class Sum(BaseModel):
    """A sum."""

    value: int = Field(gt=0)


class Name(BaseModel):
    """A name."""

    name: str


def answer(schema: str, number: int = 1, **args: Any) -> dict[str, Any]:
    return {"name": schema, "args": args, "id": f"call_{number}"}


GOOD = [answer("Sum", value=1)]
BAD = [answer("Sum", value=-1)]
TWO = [answer("Sum", 1, value=1), answer("Sum", 2, value=2)]


def agent_of(*members: Any, steps: Any, **options: Any) -> Any:
    return create_agent(ScriptedChatModel(list(steps)), middleware=members, **options)


@each(
    "strategy",
    [outputs.ToolStrategy(Sum), outputs.ToolStrategy(Sum | Name), outputs.AutoStrategy(Sum), Sum],
)
def test_their_strategies_ask_by_a_tool(strategy: Any, call: Any) -> None:
    done = call(agent_of(steps=[GOOD], response_format=strategy), ASK)
    assert done["structured_response"] == Sum(value=1)


@each("strict", [None, True])
def test_their_provider_strategy_asks_the_provider(alike: Any, strict: bool | None) -> None:
    strategy = outputs.ProviderStrategy(Sum, strict=strict)
    seen = alike(lambda: [], ['{"value": 3}'], response_format=strategy)
    assert seen["state"]["structured_response"] == "Sum(value=3)"


def explain(error: Exception) -> str:
    if isinstance(error, outputs.StructuredOutputValidationError):
        return f"{error.tool_name} is wrong"
    if isinstance(error, outputs.MultipleStructuredOutputsError):
        return f"one of {len(error.tool_names)}"
    return "something else"


@each(
    "handle, steps, report",
    [
        ("Again.", [BAD, GOOD], "Again."),
        (outputs.StructuredOutputValidationError, [BAD, GOOD], "greater than 0"),
        ((KeyError, outputs.StructuredOutputError), [BAD, GOOD], "greater than 0"),
        (explain, [BAD, GOOD], "Sum is wrong"),
        (explain, [TWO, GOOD], "one of 2"),
        (explain, ["prose", GOOD], "something else"),
    ],
)
def test_handle_errors_knows_their_exceptions(
    handle: Any, steps: Any, report: str, call: Any
) -> None:
    strategy = outputs.ToolStrategy(Sum, handle_errors=handle, tool_message_content="Thanks.")
    done = call(agent_of(steps=steps, response_format=strategy), ASK)
    assert report in done["messages"][2].text
    assert done["messages"][-1].text == "Thanks."


@each("handle", [False, KeyError])
def test_an_error_that_is_not_handled_is_raised_as_our_class(handle: Any, call: Any) -> None:
    strategy = outputs.ToolStrategy(Sum, handle_errors=handle)
    with pytest.raises(StructuredOutputValidationError):
        call(agent_of(steps=[BAD], response_format=strategy), ASK)


def changes(**fields: Any) -> Any:
    """A layer on langchain's base that changes fields of the request."""

    def change(request: Any) -> Any:
        return (yield request.override(**fields))

    return THEIRS.layer(change)


@each("chosen", [outputs.ToolStrategy(Sum), outputs.AutoStrategy(Sum), Sum])
def test_a_layer_may_choose_the_format(chosen: Any, call: Any) -> None:
    agent = agent_of(changes(response_format=chosen), steps=[GOOD], response_format=Sum | Name)
    assert call(agent, ASK)["structured_response"] == Sum(value=1)


def test_a_layer_always_sees_the_same_strategy_of_langchain(call: Any) -> None:
    formats: list[Any] = []

    @THEIRS.layer
    def look(request: Any) -> Any:
        formats.append(request.response_format)
        return (yield request)

    agent = agent_of(look, steps=[GOOD, GOOD], response_format=ToolStrategy(Sum, max_retries=7))
    call(agent, ASK)
    call(agent, ASK)
    assert isinstance(formats[0], outputs.ToolStrategy)
    assert formats[0] is formats[1]


def test_a_format_that_a_layer_does_not_change_stays_ours(call: Any) -> None:
    strategy, formats = ToolStrategy(Sum, max_retries=7), []

    @OURS.layer
    def look(request: Any) -> Any:
        formats.append(request.response_format)
        return (yield request)

    stack = [changes(tool_choice=None), look]
    call(agent_of(*stack, steps=[GOOD], response_format=strategy), ASK)
    assert formats == [strategy]


class Old(TypedDict):
    """A schema that LangChain refuses on old Pythons, and we accept."""

    value: int


@each("schema", [Old, Old | Name, {"title": "Old", "type": "object"}])
def test_schemas_that_only_we_take_pass_through_their_layers(schema: Any, call: Any) -> None:
    steps, layer = [[answer("Old", value=1)]], changes(tool_choice=None)
    done = call(agent_of(layer, steps=steps, response_format=ToolStrategy(schema)), ASK)
    assert done["structured_response"] == {"value": 1}


class Marked(theirs.AgentState[Any]):
    plain: NotRequired[int]
    private: NotRequired[Annotated[str, PrivateStateAttr]]
    written: NotRequired[Annotated[str, OmitFromInput]]
    kept: NotRequired[Annotated[str, OmitFromOutput]]


GIVEN = {**ASK, "plain": 1, "private": "given", "written": "given", "kept": "given"}


class Marking(theirs.AgentMiddleware[Marked, Any]):
    state_schema = Marked

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        assert "private" not in state
        assert "written" not in state
        assert state["kept"] == "given"
        return {"plain": state["plain"] + 1, "private": "mine", "written": "mine"}


def test_their_marks_hide_keys_of_the_state(alike: Any) -> None:
    result, _ = alike(lambda: [Marking()], ["hello"], GIVEN)["outcomes"][0]
    assert result["plain"] == "2"
    assert result["written"] == "'mine'"
    assert result.keys().isdisjoint({"private", "kept", "jump_to"})


def test_schemas_of_both_families_that_disagree_are_refused() -> None:
    class Other(ours.AgentState):
        plain: NotRequired[Annotated[int, operator.add]]

    class Ours(ours.AgentMiddleware):
        state_schema = Other

    with pytest.raises(SpecError, match=r"^\[AF115\] .*'plain'"):
        agent_of(Marking(), Ours(), steps=[])


class Greedy(theirs.AgentState[Any]):
    jump_to: int  # type: ignore[misc]  # which is the mistake


class Unread(theirs.AgentState[Any]):
    lost: NotRequired[Nowhere]  # type: ignore[name-defined]  # noqa: F821


@each(
    "options, problem",
    [
        ({"response_format": outputs.ToolStrategy(Sum, handle_errors=3)}, "AF117.*handle_errors"),  # type: ignore[arg-type]
        ({"state_schema": Greedy}, "AF114.*'jump_to'"),
        ({"state_schema": Unread}, "AF114.*Unread"),
    ],
)
def test_a_strategy_or_schema_that_cannot_be_used_is_named(options: Any, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        agent_of(steps=[], **options)


HISTORY: Any = {"messages": [("user", "Hi")]}


class Noting(AgentState[Any]):
    n: NotRequired[int]


class Writes(theirs.AgentMiddleware[Any, Any]):
    def __init__(self, update: Any) -> None:
        super().__init__()
        self.update = update

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return self.update


class WritesLate(theirs.AgentMiddleware[Any, Any]):
    def after_model(self, state: Any, runtime: Any) -> Any:
        return {"rubric": "strict", "n": 7}


@each(
    "middleware",
    [
        Writes({"rubric": "strict", "n": 7}),
        Writes(Command(update={"rubric": "strict", "n": 7})),
        WritesLate(),
    ],
)
def test_a_key_that_a_hook_of_langchain_writes_and_nobody_declares_is_one_warning(
    call: Any, middleware: Any
) -> None:
    """LangChain drops it; the middleware may belong to another one that declares it."""
    agent: Any = create_agent(
        ScriptedChatModel(["Fine."] * 2), middleware=[middleware], state_schema=Noting
    )
    with pytest.warns(AgentFactoryWarning, match=r"^\[AF309\] Writes.*'rubric', which is dropped"):
        assert call(agent, HISTORY)["n"] == 7
    assert call(agent, HISTORY)["n"] == 7, "without a second warning, which would be an error"
    strict: Any = create_agent(
        ScriptedChatModel(["Fine."]), middleware=[middleware], state_schema=Noting, strict=True
    )
    with pytest.raises(UnknownStateKey):
        call(strict, HISTORY)
