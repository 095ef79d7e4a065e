"""Values against JSON schemas: the lines of errors, the drafts, and schemas that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.structured_output.json_schema import JsonSchema
from tables import each


def validation_errors(value: Any, schema: Any) -> list[str]:
    return JsonSchema(schema).errors(value)


@each(
    "schema, value",
    [
        ({"type": "integer"}, 10**400),
        ({"minLength": 2}, [1]),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1]),
        # Before draft 2020-12, `items` lists the first items.
        ({"items": [{"type": "string"}, {"type": "integer"}]}, ["a", 1]),
        ({"$defs": {"a/b~c": {"type": "integer"}}, "$ref": "#/$defs/a~1b~0c"}, 1),
        ({"title": "T", "description": "D", "format": "date", "x-mine": 1}, 5),
        (True, 5),
    ],
)
def test_a_value_that_fits(schema: Any, value: Any) -> None:
    assert validation_errors(value, schema) == []


@each(
    "schema, value, line",
    [
        ({"type": ["string", "null"]}, 3, "3 is not of type 'string', 'null'"),
        # Python says that true and 1 are equal, JSON says that they are not.
        ({"enum": [1]}, True, "True is not one of [1]"),
        ({"minLength": 2}, "a", "'a' is too short (minLength is 2)"),
        ({"maxLength": 2}, "abc", "'abc' is too long (maxLength is 2)"),
        ({"minItems": 1}, [], "[] should be non-empty (minItems is 1)"),
        ({"maxItems": 1}, [1, 2], "[1, 2] is too long (maxItems is 1)"),
        ({"items": {"type": "integer"}}, [1, "a"], "[1]: 'a' is not of type 'integer'"),
        ({"properties": {"a": {"items": {"type": "null"}}}}, {"a": [None, 1]}, "a[1]: 1 is not"),
        ({"properties": {"a": {"required": ["b"]}}}, {"a": {}}, "a: 'b' is a required property"),
        ({"$defs": {"A": {}}, "$ref": "#/$defs/A", "type": "null"}, 1, "1 is not of type 'null'"),
        (False, 1, "False schema does not allow 1"),
    ],
)
def test_a_value_that_does_not_fit_and_why(schema: Any, value: Any, line: str) -> None:
    """The texts are those of jsonschema, with the path, and the limit of a length."""
    (problem,) = validation_errors(value, schema)
    assert problem.startswith(line)


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
