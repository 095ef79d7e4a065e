"""Grammars that hold the local model to what can be true.

In the notation of LLGuidance (Lark rules, JSON Schema, runs of given pieces). The engine drops a
grammar that it can't read *without a word*: whatever is not surely understood is left out here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_factory.local_model.slots import (
    Function,
    Schema,
    candidates,
    has_words,
    marked_codes,
    pieces,
    required,
    takes_codes,
)

HEADER = "%llguidance {}\n"
TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
# Formats with an end of their own; others (uri, duration) would let a small model run on.
FORMATS = ("date", "date-time", "uuid", "ipv4")
KEPT = frozenset(  # as words, they read better than as a list: SIM905
    "type properties required items prefixItems enum const anyOf allOf $ref $defs definitions "  # noqa: SIM905
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern "
    "minItems maxItems additionalProperties".split()
)
SUBSCHEMAS = ("items", "additionalProperties")
SUBSCHEMA_LISTS = ("anyOf", "allOf", "prefixItems")
SUBSCHEMA_MAPS = ("properties", "$defs", "definitions")

# A small model at temperature 0 may never close a string or a list by itself.
LONGEST_STRING = 160  # characters
LONGEST_LIST = 5  # items
NUMBER_STEP = 0.000001  # ends 0.33333...; a millionth of a degree is a tenth of a metre
LARGEST_NUMBER = 1_000_000_000_000

COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def literal(text: str) -> str:
    """Exactly this text.

    >>> literal("yes")
    '%llguidance {}\\nstart: "yes"'
    """
    return f"{HEADER}start: {_quote(text)}"


def arguments(function: Function, text: str) -> str:
    """A JSON object with the function's required parameters, filled from the text.

    Numbers, keys and values with a pattern are those in the text; other strings are runs of its
    words; enums are alternatives; anything nested follows its schema.
    """
    root = function.get("parameters") or {}
    definitions = {key: root[key] for key in ("$defs", "definitions") if key in root}
    source = _Source(text, _spoken_for(function, text), definitions)
    sequence = ['"{"']
    rules = []
    for at, (name, schema) in enumerate(required(function).items()):
        separator = ", " if at else ""
        sequence += [_quote(f"{separator}{_quote(name)}: "), f"v{at}"]
        rules.append(source.rules(at, name, schema))
    return "\n".join([f'{HEADER}start: {" ".join(sequence)} "}}"', *rules])


def _spoken_for(function: Function, text: str) -> list[str]:
    """Codes that are the key of something here, hence no name, reason or state of it."""
    codes = marked_codes(text) if takes_codes(function) else []
    rest = " ".join(piece for piece in pieces(text) if piece not in codes)
    return codes if has_words(rest) else []


@dataclass(frozen=True)
class _Source:
    """What the values of an object are taken from."""

    text: str
    spoken_for: Sequence[str]
    definitions: Schema

    def rules(self, at: int, name: str, schema: Schema) -> str:
        offered = candidates(name, schema, self.text)
        if offered:
            return f"v{at}: {' | '.join(map(_quote, offered))}"
        if offered is None and schema.get("type") == "string" and not schema.get("format"):
            return self._copied(at, schema)
        return f"v{at}: {_json({**self.definitions, **schema})}"

    def _copied(self, at: int, schema: Schema) -> str:
        if not has_words(self.text):
            return f"v{at}: {_quote(_quote(self.text))}"
        longest = min(int(schema.get("maxLength", LONGEST_STRING)), LONGEST_STRING)
        end = r'[^ .,;:!?"\\]'
        return (
            f'v{at}: "\\"" W{at} "\\""\n'
            f"S{at}: {_runs_of([_quote(piece)[1:-1] for piece in pieces(self.text)])}\n"
            f"W{at}: S{at} & /{end}(.{{0,{max(longest - 2, 0)}}}{end})?/"
            f"{_other_than(self.spoken_for)}"
        )


def _other_than(values: Sequence[str]) -> str:
    return f" & ~({' | '.join(map(_quote, values))})" if values else ""


def copying(result: str) -> str:
    """An answer made of a run of the result's words, after a short lead at most."""
    if not has_words(result):
        return literal(f" {result}")
    lead = "The result is " if re.fullmatch(r"[-+\d.,]+", result) else "Done. "
    return (
        f'{HEADER}start: " " LEAD? SAID "."?\n'
        f"LEAD: {_quote(lead)}\n"
        f"RUN: {_runs_of(pieces(result))}\n"
        r"SAID: RUN & /[^ .,;:!?\n]([^\n]*[^ .,;:!?\n])?/"
    )


def json_value(schema: Schema) -> str:
    """JSON that fits the schema.

    Raises:
        ValueError: the schema names a type that JSON Schema does not have.
    """
    return f"{HEADER}start: {_json(schema)}"


def _json(schema: Schema) -> str:
    return "%json " + json.dumps({**bounded(schema), "x-guidance": COMPACT}, ensure_ascii=False)


def bounded(schema: Schema) -> dict[str, Any]:
    """The schema without what the engine can't follow, and with an end to every value.

    >>> bounded({"type": "string", "title": "Name"})
    {'type': 'string', 'maxLength': 160}
    """
    checked = _typed(schema)
    kept = {key: value for key, value in checked.items() if key in KEPT and _usable(key, value)}
    for key in SUBSCHEMAS:
        if isinstance(kept.get(key), Mapping):
            kept[key] = bounded(kept[key])
    for key in SUBSCHEMA_LISTS:
        if key in kept:
            kept[key] = [bounded(option) for option in kept[key]]
    for key in SUBSCHEMA_MAPS:
        if key in kept:
            kept[key] = {name: bounded(value) for name, value in kept[key].items()}
    return kept | _bounds(kept) | _known_format(schema)


def _typed(schema: Schema) -> dict[str, Any]:
    kinds = schema.get("type", ())
    unknown = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind not in TYPES]
    if unknown:
        raise ValueError(f"JSON Schema has no type {unknown[0]!r}; it has {', '.join(TYPES)}.")
    either = schema.get("oneOf")
    return {**schema, "anyOf": either} if either else dict(schema)


def _usable(key: str, value: Any) -> bool:
    look_around = key == "pattern" and "(?" in str(value).replace("(?:", "")
    return not look_around


def _known_format(schema: Schema) -> dict[str, Any]:
    return {"format": schema["format"]} if schema.get("format") in FORMATS else {}


def _bounds(schema: Schema) -> dict[str, Any]:
    if "enum" in schema or "const" in schema:
        return {}
    match schema.get("type"):
        case "string" if not {"maxLength", "pattern"} & schema.keys():
            return {"maxLength": max(LONGEST_STRING, schema.get("minLength", 0))}
        case "array" if "maxItems" not in schema:
            return {"maxItems": max(LONGEST_LIST, schema.get("minItems", 0))}
        case "number" | "integer":
            return _number_bounds(schema)
        case "object" if "properties" in schema and "additionalProperties" not in schema:
            return {"additionalProperties": False}
    return {}


def _number_bounds(schema: Schema) -> dict[str, Any]:
    step = {"multipleOf": NUMBER_STEP} if schema["type"] == "number" else {}
    low = {} if "exclusiveMinimum" in schema else {"minimum": -LARGEST_NUMBER}
    high = {} if "exclusiveMaximum" in schema else {"maximum": LARGEST_NUMBER}
    own = {key: schema[key] for key in ("multipleOf", "minimum", "maximum") if key in schema}
    return {**step, **low, **high, **own}


def _runs_of(parts: Sequence[str]) -> str:
    return "%regex " + json.dumps({"substring_chunks": list(parts)}, ensure_ascii=False)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
