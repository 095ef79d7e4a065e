"""Schemas of every kind become a tool and read the model's arguments."""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
import typing
from datetime import date
from typing import Annotated, Any, Literal, NotRequired, Optional, Union

import pytest
import typing_extensions
from langchain_core.messages import AIMessageChunk
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator
from pydantic import dataclasses as pydantic_dataclasses
from pydantic_core import to_jsonable_python

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from agent_factory.structured_output.partial import PartialAnswerReader
from agent_factory.testing import ScriptedChatModel
from samples import Gpt
from tables import each

ASK: Any = {"messages": [("user", "Who?")]}


class Address(BaseModel):
    city: str


class Person(BaseModel):
    """A person."""

    name: str = Field(description="How they are called.")
    age: int = Field(ge=0)
    home: Address | None = None

    @field_validator("name")
    @classmethod
    def _not_empty(cls, name: str) -> str:
        if not name:
            raise ValueError("a name has letters")
        return name


@dataclasses.dataclass
class Point:
    """A point."""

    x: int
    y: int = 0


@pydantic_dataclasses.dataclass
class Checked:
    x: int = Field(gt=0)


class InnerNew(typing_extensions.TypedDict):
    city: str


class OldStyle(typing.TypedDict):
    """Of typing."""

    name: str
    age: NotRequired[Annotated[int, Field(ge=0)]]


class NewStyle(typing_extensions.TypedDict, total=False):
    """Of typing_extensions."""

    name: typing_extensions.Required[str]
    home: InnerNew


class OldInner(typing.TypedDict):
    city: str


class OldOuter(typing.TypedDict):
    home: OldInner
    others: NotRequired[list[OldInner]]


class Base(typing_extensions.TypedDict):
    a: int


class SubOptional(Base, total=False):
    b: int


class Lines(BaseModel):
    """Several lines.

    An example:
        indented
    """


class BaseOptional(typing.TypedDict, total=False):
    a: int


class SubRequired(BaseOptional):
    b: int


class Tree(typing_extensions.TypedDict):
    """It holds itself."""

    name: str
    children: list[Tree]


class OldTree(typing.TypedDict):
    children: list[OldTree]


JSON = {
    "title": "Person",
    "description": "A person as JSON schema.",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}

FITTING: list[tuple[Any, Any, Any]] = [
    (Person, {"name": "Ada", "age": 36}, Person(name="Ada", age=36)),
    (Point, {"x": 1}, Point(1)),
    (Checked, {"x": 1}, Checked(1)),
    (OldStyle, {"name": "Ada", "age": 36}, {"name": "Ada", "age": 36}),
    (NewStyle, {"name": "Ada", "home": {"city": "X"}}, {"name": "Ada", "home": {"city": "X"}}),
    (OldOuter, {"home": {"city": "X"}}, {"home": {"city": "X"}}),
    (SubOptional, {"a": 1}, {"a": 1}),
    (SubRequired, {"b": 1}, {"b": 1}),
    (
        Tree,
        {"name": "a", "children": [{"name": "b", "children": []}]},
        {"name": "a", "children": [{"name": "b", "children": []}]},
    ),
    (JSON, {"name": "Ada", "age": 36}, {"name": "Ada", "age": 36}),
]

FAILING: list[tuple[Any, Any, str]] = [
    (Person, {"name": "Ada"}, "age"),
    (Person, {"name": "", "age": 1}, "a name has letters"),
    (Person, {"name": "Ada", "age": 1, "home": {}}, "home.city"),
    (Point, {"y": 1}, "x"),
    (Checked, {"x": 0}, "greater than 0"),
    (OldStyle, {"name": "Ada", "age": -1}, "greater than or equal to 0"),
    (NewStyle, {"name": "Ada", "home": {}}, "home.city"),
    (OldOuter, {"home": {}}, "home.city"),
    (SubOptional, {"b": 1}, "a"),
    (SubRequired, {"a": 1}, "b"),
    (Tree, {"name": "a", "children": [{"name": "b"}]}, "children.0.children"),
    (JSON, {"age": 1}, "'name' is a required property"),
    (JSON, {"name": "Ada", "age": -1}, "age: -1 is less than the minimum of 0"),
]


def _only(schema: Any) -> Any:
    (binding,) = ToolStrategy(schema).bindings.values()
    return binding


@each("schema, args, value", FITTING)
def test_an_agent_answers_in_a_schema_of_any_kind(
    call: Any, schema: Any, args: Any, value: Any
) -> None:
    """A38."""
    name = _only(schema).spec.name
    model = ScriptedChatModel([[{"name": name, "args": args}]])
    result = call(create_agent(model, response_format=schema), ASK)
    for answer in (_only(schema).parse(args), result["structured_response"]):
        assert answer == value
        assert type(answer) is type(value)
    assert model.requests[0].tools == [name]


@each("schema, args, reason", FAILING)
def test_arguments_that_do_not_fit_are_refused_with_the_reason_and_asked_for_again(
    call: Any, schema: Any, args: Any, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        _only(schema).parse(args)
    name = _only(schema).spec.name
    good = next(fit for other, fit, _ in FITTING if other is schema)
    model = ScriptedChatModel([[{"name": name, "args": args}], [{"name": name, "args": good}]])
    result = call(create_agent(model, response_format=schema), ASK)
    assert result["structured_response"] is not None
    assert reason in model.requests[1].messages[-1].text.replace("\n", ".")


@each(
    "schema, name, description",
    [
        (Person, "Person", "A person."),
        (Address, "Address", "Give the answer as Address."),
        (Point, "Point", "A point."),
        (dataclasses.make_dataclass("Bare", [("x", int)]), "Bare", "Give the answer as Bare."),
        (Lines, "Lines", "Several lines.\n\nAn example:\n    indented"),
        (OldStyle, "OldStyle", "Of typing."),
        (NewStyle, "NewStyle", "Of typing_extensions."),
        (JSON, "Person", "A person as JSON schema."),
        ({"type": "object"}, "response_format", "Give the answer as response_format."),
        ({"title": "My answer!"}, "My_answer_", "Give the answer as My_answer_."),
    ],
)
def test_a_schema_names_and_describes_its_tool(schema: Any, name: str, description: str) -> None:
    tool = _only(schema).tool
    assert (tool.name, tool.description) == (name, description)


def test_the_model_sees_descriptions_of_fields_and_the_binding_has_the_schema_as_it_was() -> None:
    before = {**JSON}
    assert _only(JSON).schema is JSON
    assert before == JSON
    assert _only(Person).schema is Person
    properties = _only(Person).tool.args_schema["properties"]
    assert properties["name"]["description"] == "How they are called."


class Color(enum.Enum):
    RED = "red"


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date
    color: Color
    pair: tuple[int, int]


def test_a_strict_model_reads_json_as_json() -> None:
    """The arguments of a call are JSON: a date, an enum and a tuple come as text and lists."""
    args = {"day": "2026-01-02", "color": "red", "pair": [1, 2]}
    assert _only(Strict).parse(args) == Strict(day=date(2026, 1, 2), color=Color.RED, pair=(1, 2))
    with pytest.raises(ValueError, match="pair"):
        _only(Strict).parse({**args, "pair": ["1", 2]})


ONE_OF = {"oneOf": [JSON, {"title": "City", "type": "object", "required": ["city"]}]}


@each(
    "schema, names",
    [
        (Person | Point, ["Person", "Point"]),
        (Union[Person, Point], ["Person", "Point"]),  # noqa: UP007  # both spellings count
        (Person | Point | OldStyle, ["Person", "Point", "OldStyle"]),
        (ONE_OF, ["Person", "City"]),
    ],
)
def test_a_union_is_one_tool_for_each_member(schema: Any, names: list[str]) -> None:
    assert list(ToolStrategy(schema).bindings) == names


def test_members_of_a_union_with_one_name_or_without_any_are_refused() -> None:
    """Both would be called response_format, and the model could only ever give one of them."""
    other: Any = type("Person", (BaseModel,), {})
    untitled = [{"type": "object", "required": [key]} for key in "ab"]
    for schema, name in ((Person | other, "Person"), ({"oneOf": untitled}, "title")):
        with pytest.raises(ArgumentError, match=rf"^\[AF117\] .*{name}"):
            ToolStrategy(schema)


NO_SCHEMAS = [
    5,
    "Person",
    int,
    list[int],
    Literal["a"],
    object(),
    Person(name="A", age=1),
    Optional[Person],  # noqa: UP045
    Person | int,
]


def _kind(value: Any) -> str:
    """An id that is the same in each process."""
    return type(value).__name__


@each("junk", NO_SCHEMAS, ids=_kind)
@each("wrap", [lambda schema: schema, ToolStrategy, AutoStrategy])
def test_something_other_than_a_schema_is_refused_at_build(junk: Any, wrap: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF117\] .*must be a schema or a strategy"):
        create_agent(ScriptedChatModel(), response_format=wrap(junk))


@each("junk", [*NO_SCHEMAS[:6], Person | Point], ids=_kind)
def test_a_provider_strategy_takes_one_schema(junk: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF117\] .*must be a schema or a strategy"):
        ProviderStrategy(junk)


def test_a_schema_that_pydantic_cannot_read_is_refused_with_its_reason() -> None:
    class Odd(typing_extensions.TypedDict):
        value: _NoSchema

    globals()["Odd"] = Odd
    with pytest.raises(ArgumentError, match=r"^\[AF117\] .*Odd"):
        ToolStrategy(Odd)


class _NoSchema:
    """Pydantic makes no schema for a class of no known kind."""


def test_a_recursive_typed_dict_of_typing_is_refused_with_a_hint_before_python_3_12() -> None:
    """Before Python 3.12 pydantic reads only those of typing_extensions."""
    if sys.version_info >= (3, 12):
        tree: dict[str, Any] = {"children": [{"children": []}]}
        assert ToolStrategy(OldTree).bindings["OldTree"].parse(tree) == tree
        return
    with pytest.raises(ArgumentError, match=r"^\[AF117\] .*typing_extensions"):
        ToolStrategy(OldTree)


@each("strategy", [ToolStrategy, ProviderStrategy, AutoStrategy])
@each("retries", [-1, 1.5, "3", None, True])
def test_max_retries_is_a_count(strategy: Any, retries: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF117\] max_retries"):
        strategy(Person, max_retries=retries)


@each("handle", [5, None, [ValueError], (ValueError, "x"), int, object()])
def test_handle_errors_takes_its_forms_only(handle: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF117\] .*handle_errors"):
        ToolStrategy(Person, handle_errors=handle)


POINT: Any = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}
ENVELOPES: dict[str, Any] = {
    "chat completions": {
        "type": "json_schema",
        "json_schema": {
            "name": "point",
            "schema": POINT,
            "strict": True,
            "description": "A point.",
        },
    },
    "responses": {
        "type": "json_schema",
        "name": "point",
        "schema": {**POINT, "title": "Another"},
        "strict": True,
        "description": "A point.",
    },
    "the type alone": {**POINT, "type": "json_schema", "title": "point", "description": "A point."},
}


@each("envelope", ENVELOPES.values())
@each(
    "wrap, by_provider",
    [(lambda s: s, True), (AutoStrategy, True), (ProviderStrategy, True), (ToolStrategy, False)],
)
def test_a_schema_in_openais_envelope_is_read(
    call: Any, envelope: Any, wrap: Any, by_provider: bool
) -> None:
    before = repr(envelope)
    answers: Any = [{"x": "many"}, {"x": 1}]
    calls = [[{"name": "point", "args": args}] for args in answers]
    model = Gpt(steps=list(map(json.dumps, answers)) if by_provider else calls)
    agent = create_agent(model, response_format=wrap(envelope))
    assert call(agent, ASK)["structured_response"] == {"x": 1}
    assert repr(envelope) == before
    if not by_provider:
        assert model.requests[0].tools == ["point"]
        return
    spec = model.requests[0].kwargs["response_format"]["json_schema"]
    assert (spec["name"], spec["schema"]["description"]) == ("point", "A point.")
    assert {**spec["schema"], "title": None, "description": None} == {
        **POINT,
        "title": None,
        "description": None,
    }
    assert spec.get("strict") is (True if "strict" in str(envelope) else None)


@each(
    "envelope",
    [
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": None},
        {"type": "json_schema", "json_schema": {"name": "point"}},
        {"type": "json_schema", "schema": "point"},
    ],
)
@each("wrap", [lambda s: s, AutoStrategy, ProviderStrategy, ToolStrategy])
def test_an_envelope_without_a_schema_is_refused(envelope: Any, wrap: Any) -> None:
    with pytest.raises(ArgumentError, match="must hold a JSON schema in its envelope"):
        create_agent(ScriptedChatModel(), response_format=wrap(envelope))


def test_strict_is_that_of_the_argument_or_else_of_the_envelope() -> None:
    for strict in (None, True, False):
        strategy = ProviderStrategy(Person, strict=strict)
        assert (strategy.schema_spec.strict, strategy.strict) == (strict, strict)
    assert ProviderStrategy(ENVELOPES["responses"], strict=False).strict is False
    assert ProviderStrategy(ENVELOPES["responses"]).strict is True


class Branch(BaseModel):
    children: list[Branch] = []


ROOTS: list[tuple[Any, Any, bool]] = [
    (RootModel[list[int]], [1, 2], True),
    (RootModel[Point | Address], {"city": "Rome"}, True),
    ({"title": "Many", "type": "array"}, [1, 2], True),
    ({"title": "Either", "anyOf": [{"type": "object"}, {"type": "null"}]}, {"a": 1}, True),
    (Branch, {"children": [{"children": []}]}, False),
    ({"title": "Bare", "properties": {"a": {"type": "integer"}}}, {"a": 1}, False),
]


@each("by", [ToolStrategy, ProviderStrategy])
@each("schema, value, wraps", ROOTS)
def test_a_schema_is_sent_as_an_object(
    call: Any, by: Any, schema: Any, value: Any, wraps: bool
) -> None:
    """Providers refuse a list or alternatives at the top."""
    answer = {"value": value} if wraps else value
    strategy = by(schema)
    spec = strategy.schema_spec if by is ProviderStrategy else strategy.schema_specs[0]
    sent = spec.json_schema
    assert sent["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$ref"} & sent.keys()
    text, is_text = json.dumps(answer), by is ProviderStrategy
    model = ScriptedChatModel([text if is_text else [{"name": spec.name, "args": answer}]])
    agent = create_agent(model, response_format=strategy)
    result = call(agent, ASK)["structured_response"]
    plain = result.model_dump() if isinstance(result, BaseModel) else result
    assert to_jsonable_python(plain) == value
    part = AIMessageChunk(content=text, id="1"), {"langgraph_node": "model"}
    partial = PartialAnswerReader(ProviderStrategy(schema)).read(("messages", part))
    assert partial == (value if isinstance(value, dict) else None)
