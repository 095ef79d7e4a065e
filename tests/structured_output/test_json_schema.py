"""Values against JSON schemas: each keyword by example, and laws over any schema and value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.structured_output.json_schema import JsonSchema
from tables import each


def validation_errors(value: Any, schema: Any) -> list[str]:
    return JsonSchema(schema).errors(value)


FITS: list[tuple[Any, Any]] = [
    ({}, object),
    ({"type": "null"}, None),
    ({"type": "boolean"}, False),
    ({"type": "integer"}, 3),
    ({"type": "integer"}, 3.0),
    ({"type": "integer"}, 10**400),
    ({"type": "number"}, 3),
    ({"type": "number"}, 3.5),
    ({"type": "string"}, ""),
    ({"type": "array"}, []),
    ({"type": "object"}, {}),
    ({"type": ["string", "null"]}, None),
    ({"enum": ["a", 1, None]}, None),
    ({"enum": [1]}, 1.0),
    ({"const": {"a": [1]}}, {"a": [1]}),
    ({"minimum": 1}, 1),
    ({"maximum": 1}, 1),
    ({"exclusiveMinimum": 1}, 1.1),
    ({"exclusiveMaximum": 1}, 0.9),
    ({"minimum": 1}, "a text has no size"),
    ({"minimum": 1}, True),
    ({"minLength": 2}, "ab"),
    ({"maxLength": 1}, "😀"),
    ({"minLength": 2}, [1]),
    ({"pattern": "b"}, "abc"),
    ({"pattern": "b"}, 5),
    ({"minItems": 1}, [1]),
    ({"maxItems": 1}, [1]),
    ({"items": {"type": "integer"}}, [1, 2]),
    ({"items": {"type": "integer"}}, "no array"),
    ({"items": False}, []),
    ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1]),
    ({"prefixItems": [{"type": "string"}], "items": False}, ["a"]),
    ({"items": [{"type": "string"}, {"type": "integer"}]}, ["a", 1]),
    ({"required": ["a"]}, {"a": None}),
    ({"required": ["a"]}, "no object"),
    ({"properties": {"a": {"type": "integer"}}}, {"a": 1, "b": "any"}),
    ({"properties": {"a": {"type": "integer"}}}, {}),
    ({"additionalProperties": {"type": "integer"}}, {"a": 1}),
    ({"properties": {"a": True}, "additionalProperties": False}, {"a": 1}),
    ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"x1": 1}),
    ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, 5),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, 5),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2),
    ({"$defs": {"A": {"type": "integer"}}, "$ref": "#/$defs/A"}, 1),
    ({"$defs": {"a/b~c": {"type": "integer"}}, "$ref": "#/$defs/a~1b~0c"}, 1),
    ({"title": "T", "description": "D", "format": "date", "x-mine": 1}, 5),
    (True, 5),
]

FAILS: list[tuple[Any, Any, str]] = [
    ({"type": "null"}, 0, "0 is not of type 'null'"),
    ({"type": "boolean"}, 0, "0 is not of type 'boolean'"),
    ({"type": "integer"}, 3.5, "3.5 is not of type 'integer'"),
    ({"type": "integer"}, True, "True is not of type 'integer'"),
    ({"type": "integer"}, "3", "'3' is not of type 'integer'"),
    ({"type": "integer"}, float("inf"), "inf is not of type 'integer'"),
    ({"type": "number"}, False, "False is not of type 'number'"),
    ({"type": "string"}, 3, "3 is not of type 'string'"),
    ({"type": "array"}, {}, "{} is not of type 'array'"),
    ({"type": "object"}, [], "[] is not of type 'object'"),
    ({"type": ["string", "null"]}, 3, "3 is not of type 'string', 'null'"),
    ({"enum": ["a", "b"]}, "c", "'c' is not one of ['a', 'b']"),
    ({"const": "a"}, "b", "'a' was expected"),
    # Python says that true and 1 are equal, JSON says that they are not.
    ({"enum": [1]}, True, "True is not one of [1]"),
    ({"const": 0}, False, "0 was expected"),
    ({"const": [1]}, [True], "[1] was expected"),
    ({"minimum": 1}, 0, "0 is less than the minimum of 1"),
    ({"maximum": 1}, 2, "2 is greater than the maximum of 1"),
    ({"exclusiveMinimum": 1}, 1, "1 is less than or equal to the minimum of 1"),
    ({"exclusiveMaximum": 1}, 1, "1 is greater than or equal to the maximum of 1"),
    ({"minLength": 2}, "a", "'a' is too short (minLength is 2)"),
    ({"maxLength": 2}, "abc", "'abc' is too long (maxLength is 2)"),
    ({"pattern": "^b"}, "abc", "'abc' does not match '^b'"),
    ({"minItems": 1}, [], "[] should be non-empty (minItems is 1)"),
    ({"maxItems": 1}, [1, 2], "[1, 2] is too long (maxItems is 1)"),
    ({"items": {"type": "integer"}}, [1, "a"], "[1]: 'a' is not of type 'integer'"),
    ({"items": False}, [1], "Expected at most 0 items but found 1 extra: 1"),
    ({"prefixItems": [{"type": "string"}]}, [1], "[0]: 1 is not of type 'string'"),
    (
        {"prefixItems": [True], "items": False},
        [1, 2],
        "Expected at most 1 item but found 1 extra: 2",
    ),
    ({"required": ["a", "b"]}, {"a": 1}, "'b' is a required property"),
    ({"properties": {"a": {"type": "integer"}}}, {"a": "x"}, "a: 'x' is not of type 'integer'"),
    (
        {"properties": {"a": {"properties": {"b": {"items": {"type": "null"}}}}}},
        {"a": {"b": [None, 1]}},
        "a.b[1]: 1 is not of type 'null'",
    ),
    ({"properties": {"a": {"required": ["b"]}}}, {"a": {}}, "a: 'b' is a required property"),
    (
        {"additionalProperties": False},
        {"a": 1},
        "Additional properties are not allowed ('a' was unexpected)",
    ),
    ({"additionalProperties": {"type": "null"}}, {"a": 1}, "a: 1 is not of type 'null'"),
    ({"patternProperties": {"^x": {"type": "null"}}}, {"x1": 1}, "x1: 1 is not of type 'null'"),
    (
        {"anyOf": [{"type": "null"}, {"minimum": 5}]},
        1,
        "1 is not valid under any of the given schemas",
    ),
    (
        {"oneOf": [{"minimum": 0}, {"minimum": 5}]},
        7,
        "7 is valid under each of {'minimum': 5}, {'minimum': 0}",
    ),
    ({"oneOf": [{"minimum": 6}]}, 1, "1 is not valid under any of the given schemas"),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 4, "4 is greater than the maximum of 3"),
    (
        {"$defs": {"A": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/A"}}},
        {"a": "x"},
        "a: 'x' is not of type 'integer'",
    ),
    ({"$defs": {"A": {}}, "$ref": "#/$defs/A", "type": "null"}, 1, "1 is not of type 'null'"),
    (False, 1, "False schema does not allow 1"),
]


@each("schema, value", FITS)
def test_a_value_that_fits(schema: Any, value: Any) -> None:
    assert validation_errors(value, schema) == []


@each("schema, value, line", FAILS)
def test_a_value_that_does_not_fit_and_why(schema: Any, value: Any, line: str) -> None:
    assert validation_errors(value, schema) == [line]


def test_every_error_is_reported_not_only_the_first() -> None:
    schema = {
        "required": ["a", "b"],
        "properties": {"c": {"type": "integer"}, "d": {"maxLength": 1, "pattern": "^z"}},
    }
    assert validation_errors({"c": "x", "d": "abc"}, schema) == [
        "'a' is a required property",
        "'b' is a required property",
        "c: 'x' is not of type 'integer'",
        "d: 'abc' is too long (maxLength is 1)",
        "d: 'abc' does not match '^z'",
    ]


def test_a_long_value_is_shown_short() -> None:
    (line,) = validation_errors("x" * 500, {"type": "null"})
    assert len(line) < 100


def test_a_schema_may_refer_to_itself() -> None:
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["children"],
    }
    assert validation_errors({"children": [{"children": []}]}, tree) == []
    assert validation_errors({"children": [{}]}, tree) == [
        "children[0]: 'children' is a required property"
    ]


BROKEN: dict[str, Any] = {
    "no type": {"type": []},
    "unknown reference": {"$ref": "#/$defs/Nope"},
    "remote reference": {"$ref": "https://example.org/schema.json"},
    "endless reference": {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
    "pattern": {"pattern": "("},
    "type": {"type": "objekt"},
    "properties": {"properties": ["a"]},
    "required": {"required": 5},
    "no schema": {"properties": {"a": 5}},
}


@each("strategy", [ToolStrategy, ProviderStrategy])
@each("schema", BROKEN.values())
def test_an_invalid_schema_is_refused_at_build(strategy: Any, schema: Any) -> None:
    """wanted 17: not by a KeyError in the middle of a run."""
    with pytest.raises(ValueError, match="Broken"):
        strategy({"title": "Broken", **schema})


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet="abc", max_size=4)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES)
            | st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True),
            "enum": st.lists(scalars, min_size=1, max_size=3),
            "const": scalars,
            "minimum": st.integers(-3, 3),
            "maximum": st.integers(-3, 3),
            "exclusiveMinimum": st.integers(-3, 3),
            "exclusiveMaximum": st.integers(-3, 3),
            "minLength": st.integers(0, 3),
            "maxLength": st.integers(0, 3),
            "minItems": st.integers(0, 3),
            "maxItems": st.integers(0, 3),
            "pattern": st.sampled_from(["a", "^b", "c$", "[ab]+"]),
            "items": inner,
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "additionalProperties": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
        },
    )


schemas = st.recursive(st.booleans() | _objects(st.booleans()), _objects, max_leaves=4)


@given(value=values, schema=schemas)
def test_a_mistake_is_a_line_of_text_and_no_check_changes_anything(value: Any, schema: Any) -> None:
    before = repr((value, schema))
    assert all(isinstance(line, str) and line for line in validation_errors(value, schema))
    assert repr((value, schema)) == before


@given(value=values, schema=schemas)
def test_all_of_one_is_that_one(value: Any, schema: Any) -> None:
    assert validation_errors(value, {"allOf": [schema]}) == validation_errors(value, schema)


@given(value=values, schema=schemas)
def test_any_of_and_one_of_agree_with_the_one_that_can_fit(value: Any, schema: Any) -> None:
    fits = not validation_errors(value, schema)
    assert (not validation_errors(value, {"anyOf": [schema, False]})) is fits
    assert (not validation_errors(value, {"oneOf": [False, schema]})) is fits
    assert validation_errors(value, {"oneOf": [schema, schema]}) != []


@given(value=values, schema=schemas)
def test_a_reference_means_what_it_refers_to(value: Any, schema: Any) -> None:
    referring = {"$defs": {"it": schema}, "$ref": "#/$defs/it"}
    assert validation_errors(value, referring) == validation_errors(value, schema)


@given(value=values, schema=schemas, other=schemas)
def test_another_condition_never_makes_a_value_valid(value: Any, schema: Any, other: Any) -> None:
    together = validation_errors(value, {"allOf": [schema, other]})
    assert together == [*validation_errors(value, schema), *validation_errors(value, other)]


@given(value=values, schema=schemas)
def test_a_member_and_an_item_are_judged_as_they_would_be_alone(value: Any, schema: Any) -> None:
    alone = not validation_errors(value, schema)
    assert (not validation_errors({"a": value}, {"properties": {"a": schema}})) is alone
    assert (not validation_errors([value], {"items": schema})) is alone


@given(value=values)
def test_a_value_fits_its_own_enumeration(value: Any) -> None:
    assert validation_errors(value, {"enum": [value], "const": value}) == []
