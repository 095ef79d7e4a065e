"""What a structured answer must look like: a schema of any kind, read in one way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from functools import cached_property, reduce
from operator import or_
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, PydanticUserError, TypeAdapter
from pydantic_core import to_json
from typing_extensions import TypedDict, is_typeddict

from agent_factory.errors import ArgumentError, describe
from agent_factory.structured_output.json_schema import schema_errors, validation_errors

SchemaKind = Literal["pydantic", "dataclass", "typeddict", "json_schema"]


@dataclass(frozen=True)
class SchemaSpec:
    """One schema, whatever its kind, as the engine uses it.

    Raises:
        ArgumentError: It is no schema.
    """

    schema: Any

    @cached_property
    def kind(self) -> SchemaKind:
        """Which of the four kinds of schema it is."""
        schema = self.schema
        if isinstance(schema, dict):
            return "json_schema"
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            return "pydantic"
        if is_typeddict(schema):
            return "typeddict"
        if isinstance(schema, type) and is_dataclass(schema):
            return "dataclass"
        raise ArgumentError(
            "response_format",
            f"{describe(schema)} is no schema.",
            "Give a pydantic model, a dataclass, a TypedDict, a JSON schema dict or a strategy.",
            code="AF117",
        )

    @cached_property
    def name(self) -> str:
        """The name the model is given: the class name or the JSON schema's title."""
        schema = self.schema
        raw = schema.get("title") if self.kind == "json_schema" else schema.__name__
        return re.sub(r"[^a-zA-Z0-9_-]", "_", raw or "response_format")

    @cached_property
    def description(self) -> str:
        """What the model is told of it: the docstring or the JSON schema's description."""
        if self.kind == "json_schema":
            return str(self.schema.get("description") or "")
        text = vars(self.schema).get("__doc__") or ""
        # A dataclass without a docstring gets its signature as one, which says nothing.
        return "" if text.startswith(f"{self.schema.__name__}(") else str(text).strip()

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The schema as JSON schema."""
        if self.kind != "json_schema":
            return self._adapter.json_schema()
        if found := schema_errors(self.schema):
            raise ArgumentError(
                f"response_format {self.name}",
                f"no value could be checked against it: {'; '.join(found)}.",
                "Mend the JSON schema.",
                code="AF117",
            )
        return dict(self.schema)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        try:
            return _adapter(self.schema)
        except Exception as error:
            raise ArgumentError(
                f"response_format {self.name}",
                f"pydantic cannot read it: {error}.",
                "On Python 3.11 import TypedDict from typing_extensions.",
                code="AF117",
            ) from error

    def parse(self, value: Any) -> Any:
        """A plain value, as JSON has it, as an instance of the schema.

        Raises:
            ValueError: It does not fit; the text says where.
        """
        if self.kind != "json_schema":
            # By way of JSON: a strict model takes a date as text from JSON only.
            return self._adapter.validate_json(to_json(value))
        if found := validation_errors(value, self.schema):
            raise ValueError("; ".join(found))
        return value


def specs_of(schema: Any) -> tuple[SchemaSpec, ...]:
    """The schemas of a union, or the one there is, each known to be usable.

    Raises:
        ArgumentError: One is no schema, or two have one name.
    """
    specs = tuple(SchemaSpec(member) for member in _members(schema))
    for spec in specs:
        _ = spec.kind, spec.json_schema
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(
                f"response_format {name}",
                "names several members of the union, and the model could give only one of them.",
                "Rename a class, or give each JSON schema a title.",
                code="AF117",
            )
    return specs


def _members(schema: Any) -> Iterator[Any]:
    if get_origin(schema) in (Union, UnionType):
        for member in get_args(schema):
            yield from _members(member)
    elif isinstance(schema, dict) and "oneOf" in schema and "properties" not in schema:
        yield from schema["oneOf"]
    else:
        yield schema


def _adapter(schema: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(schema)
    except PydanticUserError as error:
        if error.code != "typed-dict-version":
            raise
        return TypeAdapter(_modern(schema))


def _modern(schema: Any) -> Any:
    """A TypedDict as pydantic wants it: before Python 3.12 it refuses the one of `typing`."""
    hints = {
        key: _presence(schema, key, hint)[_modern_hint(hint)]
        for key, hint in get_type_hints(schema, include_extras=True).items()
    }
    make: Any = TypedDict
    made = make(schema.__name__, hints)
    made.__doc__ = schema.__doc__
    return made


def _presence(schema: Any, key: str, hint: Any) -> Any:
    # The mark itself comes first: with postponed annotations the class has not seen it.
    if get_origin(hint) in (Required, NotRequired):
        return get_origin(hint)
    return Required if key in schema.__required_keys__ else NotRequired


def _modern_hint(hint: Any) -> Any:
    """A hint with every TypedDict in it made modern."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        return _modern(hint)
    if origin in (Required, NotRequired):
        return _modern_hint(arguments[0])
    if origin is Annotated:
        return Annotated[(_modern_hint(arguments[0]), *hint.__metadata__)]
    if origin in (None, Literal):
        return hint
    inner = tuple(map(_modern_hint, arguments))
    return reduce(or_, inner) if origin is UnionType else origin[inner]
