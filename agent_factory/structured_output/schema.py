"""Schemas of structured answers: every kind of schema behind one interface."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cached_property, reduce
from inspect import cleandoc
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
from agent_factory.structured_output.json_schema import NOT_AT_TOP, JsonSchema, is_object

VALUE = "value"
"""Key of the object in which a provider gets a schema that is not one of an object."""


@dataclass(frozen=True)
class SchemaSpec:
    """Schema of a structured answer, of any kind; checked when a property is first read.

    Args:
        schema: A class, or a JSON schema.
        strict: Whether the provider is to enforce the schema; None leaves it to the provider.

    >>> schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    >>> envelope = {"name": "point", "schema": schema, "strict": True}
    >>> spec = SchemaSpec.of({"type": "json_schema", "json_schema": envelope})
    >>> spec.name, spec.strict
    ('point', True)
    """

    schema: Any
    strict: bool | None = None

    @classmethod
    def of(cls, schema: object, strict: bool | None = None) -> SchemaSpec:
        """Return the spec of a schema, or of a schema in the envelope of OpenAI's APIs.

        Args:
            schema: A class, a JSON schema, or `{"type": "json_schema", "json_schema": {"name": ...,
                "schema": {...}}}`, also with the inner keys at the top.
            strict: In place of the `strict` of an envelope, unless it is None.

        Raises:
            ArgumentError: An envelope holds no schema.
        """
        if not (isinstance(schema, dict) and schema.get("type") == "json_schema"):
            return cls(schema, strict)
        envelope = schema.get("json_schema", schema)
        inner = envelope.get("schema") if isinstance(envelope, dict) else None
        if envelope is schema and "properties" in schema:
            inner = {**schema, "type": "object"}  # a schema with the envelope's type
        if not isinstance(inner, dict):
            raise ArgumentError(
                "response_format",
                f"must hold a JSON schema in its envelope, got {describe(schema)}.",
                'Pass {"type": "json_schema", "json_schema": {"name": "answer", "schema": {...}}}.',
                code="AF117",
            )
        texts = {"title": envelope.get("name"), "description": envelope.get("description")}
        inner = {**inner, **{key: text for key, text in texts.items() if text}}
        return cls(inner, envelope.get("strict") if strict is None else strict)

    @cached_property
    def is_json(self) -> bool:
        """True for a JSON schema, False for a class."""
        schema = self.schema
        if isinstance(schema, dict):
            return True
        if is_typeddict(schema):
            return False
        if isinstance(schema, type) and (issubclass(schema, BaseModel) or is_dataclass(schema)):
            return False
        raise ArgumentError(
            "response_format",
            f"must be a schema or a strategy, got {describe(schema)}.",
            "Pass a pydantic model, a dataclass, a TypedDict, a JSON schema dict or a strategy.",
            code="AF117",
        )

    @cached_property
    def name(self) -> str:
        """Name for the model: the class name, or the title of the JSON schema."""
        schema = self.schema
        raw = schema.get("title") if self.is_json else schema.__name__
        # The characters in names of tools for OpenAI and Anthropic.
        return re.sub(r"[^a-zA-Z0-9_-]", "_", raw or "response_format")

    @cached_property
    def description(self) -> str:
        """Description for the model: the docstring, or the description in the JSON schema."""
        if self.is_json:
            return str(self.schema.get("description") or "")
        text = vars(self.schema).get("__doc__") or ""
        # Python makes a docstring of the signature for dataclasses without a docstring.
        if text.startswith(f"{self.schema.__name__}("):
            return ""
        # The compiler of Python 3.13 removes the indentation; older ones leave it.
        return cleandoc(str(text)).strip()

    @property
    def json_schema(self) -> dict[str, Any]:
        """The schema as JSON schema, in the form for providers: an object."""
        return self._object[0]

    @property
    def is_wrapped(self) -> bool:
        """True if an answer is in the key `VALUE` of an object, because it may be any value."""
        return self._object[1]

    @cached_property
    def _object(self) -> tuple[dict[str, Any], bool]:
        if self.is_json:
            # Read for its error: an invalid schema is refused now, and not at the first answer.
            _ = self._json_schema
        schema = dict(self.schema) if self.is_json else self._adapter.json_schema()
        definition = str(schema.get("$ref")).removeprefix("#/$defs/")
        if definition in schema.get("$defs", ()):  # pydantic's form of a recursive class
            schema = {**schema["$defs"][definition], "$defs": schema["$defs"]}
        if "type" not in schema and NOT_AT_TOP.isdisjoint(schema):
            schema["type"] = "object"
        if is_object(schema):
            return schema, False
        # References lead to the definitions from the top.
        definitions = {key: schema.pop(key) for key in ("$defs", "definitions") if key in schema}
        top = {"type": "object", "properties": {VALUE: schema}, "required": [VALUE]}
        return {**top, "additionalProperties": False, **definitions}, True

    @cached_property
    def _json_schema(self) -> JsonSchema:
        try:
            return JsonSchema(self.schema)
        except ValueError as error:
            raise ArgumentError(
                f"response_format {self.name}",
                f"is not a valid JSON schema: {error}.",
                "Correct the schema.",
                code="AF117",
            ) from error

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        try:
            try:
                return TypeAdapter(self.schema)
            except PydanticUserError as error:
                if error.code != "typed-dict-version":
                    raise
                return TypeAdapter(_with_typing_extensions(self.schema))
        except Exception as error:  # Evaluating annotations may raise anything.
            raise ArgumentError(
                f"response_format {self.name}",
                f"pydantic cannot read it: {error}.",
                "On Python 3.11 import TypedDict from typing_extensions.",
                code="AF117",
            ) from error

    def parse(self, value: object) -> Any:
        """Return an instance of the schema for a value from JSON, or raise a ValueError."""
        if self.is_wrapped and isinstance(value, Mapping) and value.keys() == {VALUE}:
            value = value[VALUE]
        if not self.is_json:
            # Validate as JSON: a strict model accepts a date as a string only from there.
            return self._adapter.validate_json(to_json(value))
        if not (self.is_wrapped or isinstance(value, Mapping)):
            raise ValueError(f"{value!r} is not of type 'object'")
        if errors := self._json_schema.errors(value):
            raise ValueError("; ".join(errors))
        return value


def specs_of(schema: object) -> tuple[SchemaSpec, ...]:
    """Return the schemas of a union, or the only one, each checked."""
    specs = tuple(SchemaSpec.of(member) for member in _members(schema))
    for spec in specs:
        # Pydantic reads the annotations here, so that a build fails and not a run.
        _ = spec.json_schema
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(
                f"response_format {name}",
                "is the name of several schemas in the union, so the model could use only one.",
                "Rename a class, or give each JSON schema a title.",
                code="AF117",
            )
    return specs


def _members(schema: object) -> Iterator[object]:
    if get_origin(schema) in (Union, UnionType):
        for member in get_args(schema):
            yield from _members(member)
    # A JSON schema of alternatives alone is a union. With properties it is a single object.
    elif isinstance(schema, dict) and "oneOf" in schema and "properties" not in schema:
        yield from schema["oneOf"]
    else:
        yield schema


def _with_typing_extensions(hint: Any) -> Any:
    """Replace each TypedDict in an annotation: pydantic rejects `typing.TypedDict` before 3.12."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        keys = {}
        for key, inner in get_type_hints(hint, include_extras=True).items():
            # With postponed annotations `__required_keys__` has not seen the qualifier.
            qualifier = get_origin(inner)
            if qualifier not in (Required, NotRequired):
                qualifier = Required if key in hint.__required_keys__ else NotRequired
            keys[key] = qualifier[_with_typing_extensions(inner)]
        # mypy accepts TypedDict only with literal arguments.
        make: Any = TypedDict
        result = make(hint.__name__, keys)
        result.__doc__ = hint.__doc__
        return result
    if origin in (Required, NotRequired):
        return _with_typing_extensions(arguments[0])
    if origin is Annotated:
        return Annotated[(_with_typing_extensions(arguments[0]), *hint.__metadata__)]
    if origin in (None, Literal):
        return hint
    inner_hints = tuple(map(_with_typing_extensions, arguments))
    # Before Python 3.14, the type of `int | str` takes no type arguments.
    return reduce(or_, inner_hints) if origin is UnionType else origin[inner_hints]
