"""ValidationNode answers tool calls with what is right or wrong about them, and runs none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pydantic.v1
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool, Tool, tool
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel, Field, field_validator

from agent_factory.errors import ArgumentError, SpecError
from agent_factory.prebuilt.validation_node import NothingToValidate, ValidationNode
from agent_factory.testing import assert_valid_history
from samples import Thread
from tables import each

Run = Callable[..., Any]


class Add(BaseModel):
    """Add two numbers."""

    a: int
    b: int = Field(3, alias="bee")


class Old(pydantic.v1.BaseModel):
    """A model of pydantic 1."""

    a: int


@tool
def multiply(x: int, y: int = 2) -> int:
    """Multiply two numbers."""
    raise AssertionError("a validation runs no tool")


def search(query: str, limit: int = 5) -> str:
    """Search for something."""
    raise AssertionError("a validation runs no function")


Asked = tuple[str, dict[str, Any]]

SCHEMAS: list[Any] = [Add, Old, multiply, search]


def asking(*calls: Asked) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": args, "id": f"call_{number}"}
            for number, (name, args) in enumerate(calls)
        ],
    )


GOOD: list[tuple[Asked, str]] = [
    (("Add", {"a": "1", "bee": 2}), '{"a":1,"b":2}'),
    (("Old", {"a": "3"}), '{"a": 3}'),
    (("multiply", {"x": "4"}), '{"x":4,"y":2}'),
    (("search", {"query": "k"}), '{"query":"k","limit":5}'),
]
BAD: list[Asked] = [
    ("Add", {"bee": 1}),
    ("Old", {"a": "x"}),
    ("multiply", {"x": "x"}),
    ("search", {"limit": 1}),
]


@each("asked, content", GOOD)
def test_d4_d7_d11_what_fits_is_answered_with_the_validated_json(
    call: Run, asked: Any, content: str
) -> None:
    (answer,) = call(ValidationNode(SCHEMAS), [asking(asked)])
    assert (answer.content, answer.name, answer.tool_call_id) == (content, asked[0], "call_0")
    assert answer.additional_kwargs == {}


def test_d4_d7_an_own_text_is_made_of_the_error_the_call_and_the_schema(call: Run) -> None:
    seen: list[Any] = []

    def write(error: BaseException, call: Any, schema: Any) -> str:
        seen.append((type(error), call["id"], schema))
        return "Try harder."

    node = ValidationNode(SCHEMAS, format_error=write)
    first, second = call(node, [asking(BAD[0], BAD[1])])
    assert first.text == second.text == "Try harder."
    assert seen == [
        (pydantic.ValidationError, "call_0", Add),
        (pydantic.v1.ValidationError, "call_1", Old),
    ]


@each(
    "schema, words",
    [
        (Tool("t", str, "d"), "Tool t does not have an args_schema defined."),
        (
            StructuredTool.from_function(
                lambda: 1, name="js", description="d", args_schema={"type": "object"}
            ),
            "Got js with args_schema: {'type': 'object'}.",
        ),
        (3, "Expected BaseModel, tool or function. Got: <class 'int'>."),
        (str, "Expected BaseModel, tool or function. Got: <class 'type'>."),
    ],
)
def test_d5_what_is_not_a_schema_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(ValueError, match="AF101") as caught:
        ValidationNode([schema])
    assert words in str(caught.value)


def test_d5_a_function_without_a_usable_signature_and_what_is_not_a_list_are_refused() -> None:
    def broken(x: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
        """Use a type that does not exist."""
        return ""

    with pytest.raises(ArgumentError, match="No schema can be made of function"):
        ValidationNode([broken])
    no_lists: Any = ["Add", 3, None]
    for schemas in no_lists:
        with pytest.raises(ArgumentError, match="schemas"):
            ValidationNode(schemas)


def test_two_schemas_of_one_name_are_refused_and_one_given_twice_is_not() -> None:
    other = type("Add", (BaseModel,), {})
    with pytest.raises(SpecError, match=r"^\[AF113\] .*Add"):
        ValidationNode([Add, other])
    assert list(ValidationNode([Add, Add]).schemas_by_name) == ["Add"]


def test_d6_an_input_whose_last_message_is_not_the_models_is_refused(call: Run) -> None:
    inputs: Any = ([], {}, {"messages": []}, Thread(), "text", None)
    for empty in inputs:
        with pytest.raises(NothingToValidate, match="No message found in input"):
            call(ValidationNode(SCHEMAS), empty)
    with pytest.raises(ValueError, match="Last message is not an AIMessage"):
        call(ValidationNode(SCHEMAS), {"messages": [asking(BAD[0]), HumanMessage("Well?")]})


def test_d9_a_list_gives_a_list_and_a_state_gives_an_update(call: Run) -> None:
    node = ValidationNode(SCHEMAS)
    asked = asking(*BAD, *(good for good, _ in GOOD))
    listed = call(node, [asked])
    assert [m.tool_call_id for m in listed] == [f"call_{n}" for n in range(8)]
    assert call(node, {"messages": [asked]}) == {"messages": listed}
    assert call(node, Thread([asked])) == {"messages": listed}
    assert call(node, [AIMessage("Hi")]) == []
    assert call(node, {"messages": [AIMessage("Hi")]}) == {"messages": []}


def test_d9_an_unknown_name_is_answered_and_not_raised(call: Run) -> None:
    good, answer = call(ValidationNode([Add]), [asking(GOOD[0][0], ("Ad", {}))])
    assert good.additional_kwargs == {}
    assert answer.text.startswith("Error: Ad is not a valid tool, try one of [Add].")
    assert (answer.name, answer.tool_call_id) == ("Ad", "call_1")
    assert answer.additional_kwargs == {"is_error": True}


def test_unreadable_arguments_are_answered_too_so_that_the_history_stays_valid(call: Run) -> None:
    asked = asking(GOOD[0][0])
    asked.invalid_tool_calls = [
        {"type": "invalid_tool_call", "name": "Add", "args": "{", "id": "x", "error": None}
    ]
    answers = call(ValidationNode([Add]), [asked])
    assert answers[1].text.startswith("Error: the arguments cannot be read: they are not valid")
    assert answers[1].additional_kwargs == {"is_error": True}
    assert_valid_history([asked, *answers])


def test_arguments_that_are_injected_are_not_asked_of_the_model(call: Run) -> None:
    @tool
    def note(
        x: int,
        state: Annotated[dict[str, Any], InjectedState],
        id_: Annotated[str, InjectedToolCallId],
    ) -> str:
        """Note a number."""
        return ""

    def plain(x: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Note a number."""
        return ""

    answers = call(ValidationNode([note, plain]), [asking(("note", {"x": 1}), ("plain", {"x": 2}))])
    assert [answer.text for answer in answers] == ['{"x":1}', '{"x":2}']


def test_an_exception_of_a_validator_that_is_not_a_validation_error_arrives(call: Run) -> None:
    class Broken(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def fail(cls, value: int) -> int:
            raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        call(ValidationNode([Broken]), [asking(("Broken", {"a": 1}))])


@pytest.mark.filterwarnings("ignore:ValidationNode is deprecated")
def test_e20_it_answers_as_the_deprecated_node_does(call: Run) -> None:
    from langgraph.prebuilt import ValidationNode as Deprecated

    asked = asking(*BAD, *(good for good, _ in GOOD))
    theirs = call(Deprecated(SCHEMAS), {"messages": [asked]})
    assert call(ValidationNode(SCHEMAS), {"messages": [asked]}) == theirs
