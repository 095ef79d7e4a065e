"""Forms: the arguments of a tool as fields, by the schema, and fields as arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jsonschema import Draft202012Validator

Kind = Literal["text", "lines", "number", "integer", "boolean", "choice", "json"]

_PREFIX = "arg."


@dataclass(slots=True)
class Field:
    """Field of a form.

    Args:
        value: The present text.
        choices: The values of a choice, as JSON.
        error: The fault of the text.
        before: The original text.
        cut: Number of characters after these: a longer text is not edited.
    """

    name: str
    kind: Kind
    value: str
    description: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    error: str = ""
    before: str = ""
    cut: int = 0

    @property
    def input(self) -> str:
        """The name of the field in a form."""
        return _PREFIX + self.name


class FormError(Exception):
    """Arguments of a form do not fit the schema; `args_read` has texts for unreadable ones."""

    def __init__(self, fields: list[Field], args_read: Mapping[str, object]) -> None:
        super().__init__("Some arguments are not valid.")
        self.fields, self.args_read = fields, args_read


def fields_of(schema: Mapping[str, Any] | None, args: Mapping[str, object]) -> list[Field]:
    """The fields for the arguments of a call; without a schema, by the values."""
    properties = (schema or {}).get("properties") or {}
    names = [*properties, *(name for name in args if name not in properties)]
    return [_field(name, schema or {}, args.get(name, _MISSING)) for name in names]


def has_args(form: Mapping[str, object]) -> bool:
    """Return True if a form has fields of arguments."""
    return any(name.startswith(_PREFIX) for name in form)


def read_args(
    schema: Mapping[str, object] | None, args: Mapping[str, object], form: Mapping[str, object]
) -> dict[str, object]:
    """The arguments of a form. A field that nobody changed keeps its argument.

    Raises:
        FormError: An argument does not fit the schema.
    """
    fields, values, errors = fields_of(schema, args), dict[str, object](), dict[str, str]()
    for field in fields:
        text = str(form.get(field.input, ""))
        # Browsers change the ends of lines: an unchanged text keeps the argument.
        if field.name in args and _lines(text) == _lines(field.value):
            values[field.name] = args[field.name]
            continue
        field.value = text
        try:
            value = _value(field) if field.input in form else _MISSING
        except ValueError as error:
            errors[field.name], value = str(error), text
        if value is not _MISSING:
            values[field.name] = value
        elif field.required:
            errors[field.name] = "This is required."
    if schema is not None and not errors:
        # Pydantic writes schemas of this draft.
        for violation in Draft202012Validator(schema).iter_errors(values):
            # An error about the whole has no path, and is shown at the first field.
            path = violation.absolute_path
            place = str(path[0]) if path else fields[0].name
            errors.setdefault(place, f"{violation.message}.")
    for field in fields:
        field.error = errors.get(field.name, "")
    if any(field.error for field in fields):
        raise FormError(fields, values)
    # Unknown fields, which no page sends, are refused with the decision.
    names = {field.input for field in fields}
    others = (name for name in form if name.startswith(_PREFIX) and name not in names)
    return values | {name.removeprefix(_PREFIX): form[name] for name in others}


# None may be the value of an argument.
_MISSING = object()

_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "number", float: "number"}


def _field(name: str, schema: Mapping[str, Any], value: object) -> Field:
    part = _resolved((schema.get("properties") or {}).get(name) or {}, schema)
    required = name in (schema.get("required") or ())
    # Without a schema, by the value.
    kind: Any = part.get("type") if part else _TYPES.get(type(value))
    choices: tuple[str, ...] = ()
    if "enum" in part:
        kind, choices = "choice", tuple(json.dumps(c, ensure_ascii=False) for c in part["enum"])
    elif kind == "string":
        is_long = isinstance(value, str) and (len(value) > 60 or len(value.splitlines()) > 1)
        kind = "lines" if is_long else "text"
    elif kind not in ("integer", "number", "boolean"):
        kind = "json"
    content = part.get("default", _MISSING) if value is _MISSING else value
    if content is _MISSING or (content is None and kind != "json"):
        text = ""
    elif kind in ("text", "lines"):
        text = str(content)
    else:
        indent = 2 if kind == "json" else None
        text = json.dumps(content, ensure_ascii=False, indent=indent, default=str)
    about = part.get("description", "")
    return Field(name, kind, text, about, required, choices, before=text)


def _resolved(part: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a schema without references, and without the variant of null."""
    name = str(part.get("$ref", "")).rpartition("/")[2]
    if name and name in (schema.get("$defs") or {}):
        # Parts next to a reference, such as a description, are about this argument.
        part = {**schema["$defs"][name], **part}
    # Pydantic writes `X | None` as a union with null.
    variants = [variant for variant in part.get("anyOf", ()) if variant.get("type") != "null"]
    if len(variants) == 1:
        rest = {key: value for key, value in part.items() if key != "anyOf"}
        return {**_resolved(variants[0], schema), **rest}
    return part


def _lines(text: str) -> str:
    """A text with the ends of lines of Python."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _value(field: Field) -> object:
    """Read the value of a field; _MISSING without a text."""
    text = field.value
    if field.kind in ("text", "lines"):
        return _lines(text) if text or field.required else _MISSING
    if not text.strip():
        return _MISSING
    try:
        if field.kind == "integer":
            return int(text)
        if field.kind == "number":
            number = float(text)
            # A whole number stays whole: 5 is not 5.0 to a tool.
            return int(number) if number.is_integer() and "." not in text else number
        return json.loads(text)
    except ValueError as error:
        kind = {"integer": "a whole number", "number": "a number"}.get(field.kind)
        problem = f"Enter {kind}, not {text!r}." if kind else f"This is not JSON: {error}."
        raise ValueError(problem) from None
