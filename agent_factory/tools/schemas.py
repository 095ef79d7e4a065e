"""Schemas of tools, in the form that every provider accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.tools import BaseTool

from agent_factory.structured_output.json_schema import ALTERNATIVES, NOT_AT_TOP, is_object

Schema = Mapping[str, Any]


def as_object(schema: Schema, root: Schema | None = None, path: tuple[str, ...] = ()) -> Any:
    """Return a schema without alternatives at its top that accepts each object of a schema.

    The result is None if the schema accepts no object. `path` holds the references up to here.

    >>> keys = [{"properties": {key: {"type": "string"}}, "required": [key]} for key in "ab"]
    >>> as_object({"anyOf": keys})
    {'type': 'object', 'properties': {'a': {'type': 'string'}, 'b': {'type': 'string'}}}
    """
    root = schema if root is None else root
    if isinstance(reference := schema.get("$ref"), str):
        target: Any = {} if reference in path else root
        for key in filter(None, reference.removeprefix("#").split("/")):
            target = target.get(key, {}) if isinstance(target, Mapping) else {}
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return as_object({**target, **rest}, root, (*path, reference))
    if "object" not in schema.get("type", "object"):
        return None
    properties, required = dict(schema.get("properties") or {}), set(schema.get("required") or ())
    for keyword in (keyword for keyword in ALTERNATIVES if keyword in schema):
        objects = (as_object(item, root, path) for item in schema[keyword])
        if not (parts := [part for part in objects if part is not None]):
            return None
        for name in dict.fromkeys(name for part in parts for name in part["properties"]):
            variants = [p["properties"][name] for p in parts if name in p["properties"]]
            variants += [properties[name]] if name in properties else []
            unique = [value for n, value in enumerate(variants) if value not in variants[:n]]
            choice = {"allOf" if keyword == "allOf" else "anyOf": unique}
            properties[name] = choice if len(unique) > 1 else unique[0]
        combine = set.union if keyword == "allOf" else set.intersection
        required |= combine(*(set(part.get("required", ())) for part in parts))
    names = [name for name in properties if name in required]
    replaced = {"type", "properties", "required", "additionalProperties", "then", "else"}
    rest = {k: value for k, value in schema.items() if k not in NOT_AT_TOP | replaced}
    rest |= {"type": "object", "properties": properties}
    return {**rest, "required": names} if names else rest


def arguments_schema(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON schema of the arguments of a tool, without injected arguments."""
    schema: Any = tool.tool_call_schema
    if not isinstance(schema, dict):  # a class of pydantic 2, or of pydantic 1
        schema = (getattr(schema, "model_json_schema", None) or schema.schema)()
    return schema  # type: ignore[no-any-return]


def offered(tool: Any) -> Any:
    """Return a tool with a schema that providers accept; the tool node checks its own schema."""
    schema = tool.args_schema if isinstance(tool, BaseTool) else None
    if not isinstance(schema, dict) or is_object(schema):
        return tool
    return tool.model_copy(update={"args_schema": as_object(schema)})


_EXACT = frozenset({"any", "literal", "none", "str"})
_PLAIN = _EXACT | {"bool", "decimal", "enum", "float", "int"}
"""Types of pydantic's core schemas whose valid values equal the values of a call."""

_AROUND = {"default", "dict", "list", "model-field", "nullable", "union"}
_INSIDE = ("schema", "items_schema", "keys_schema", "values_schema")
_OPTIONS = ("strip_whitespace", "to_lower", "to_upper", "missing")
"""Types around others, their keys, and options that change a value."""


def is_plain(schema: Schema, plain: frozenset[str] = _PLAIN) -> bool:
    """Return True if a tool gets a value of a core schema unchanged from the model.

    A text in place of a number is of another kind. A text without outer spaces, a date, or a
    list of numbers from a list of texts is another value.

    >>> [is_plain({"type": "str"}), is_plain({"type": "str", "to_lower": True})]
    [True, False]
    """
    kind = schema["type"]
    parts = [schema[key] for key in _INSIDE if key in schema]
    parts += [x[0] if isinstance(x, tuple) else x for x in schema.get("choices", ())]
    inside = _EXACT if kind in ("dict", "list") else plain
    is_known = kind in plain | _AROUND and not any(map(schema.get, _OPTIONS))
    return is_known and all(is_plain(part, inside) for part in parts)


def plain_arguments(tool: BaseTool) -> set[str]:
    """Return the names of the arguments that a tool gets unchanged from the model."""
    schema: Any = getattr(tool.get_input_schema(), "__pydantic_core_schema__", None)
    schema = schema if isinstance(schema, Mapping) else {}
    schema = schema["schema"] if schema.get("type") == "definitions" else schema
    options = {"coerce_numbers_to_str", "str_strip_whitespace", "str_to_lower", "str_to_upper"}
    is_own = schema.get("post_init") or schema.get("custom_init") or schema.get("type") != "model"
    if is_own or options & schema.get("config", {}).keys():
        return set()
    fields = schema["schema"].get("fields", {}).items()
    names = [field.get("validation_alias", key) for key, field in fields if is_plain(field)]
    return {name for name in names if isinstance(name, str)}
