"""Grammars that limit the local model to arguments and answers that can be true.

They are in the notation of LLGuidance: Lark rules, JSON Schema, runs of given pieces. The engine
*silently* drops a grammar that it can't read, so doubtful keywords are left out here.
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
# Formats with a fixed end; with others (uri, duration) a small model may write on and on.
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

    Numbers, keys and values with a pattern come from the text; other strings are runs of its
    words; enums are alternatives; nested values follow their schema.
    """
    root = function.get("parameters") or {}
    definitions = {key: root[key] for key in ("$defs", "definitions") if key in root}
    # A code that is the key of something is not a name, a reason or a state.
    keys = marked_codes(text) if takes_codes(function) else []
    if not has_words(" ".join(piece for piece in pieces(text) if piece not in keys)):
        keys = []
    source = _Source(text, keys, definitions)
    sequence = ['"{"']
    rules = []
    for at, (name, schema) in enumerate(required(function).items()):
        separator = ", " if at else ""
        sequence += [_quote(f"{separator}{_quote(name)}: "), f"v{at}"]
        rules.append(source.rules(at, name, schema))
    return "\n".join([f'{HEADER}start: {" ".join(sequence)} "}}"', *rules])


@dataclass(frozen=True)
class _Source:
    """The source of the values of an object."""

    text: str
    keys: Sequence[str]
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
        other_than = f" & ~({' | '.join(map(_quote, self.keys))})" if self.keys else ""
        return (
            f'v{at}: "\\"" W{at} "\\""\n'
            f"S{at}: {_runs_of([_quote(piece)[1:-1] for piece in pieces(self.text)])}\n"
            f"W{at}: S{at} & /{end}(.{{0,{max(longest - 2, 0)}}}{end})?/"
            f"{other_than}"
        )


def copying(result: str) -> str:
    """An answer made of a run of the result's words, with a short lead or none."""
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
    kinds = schema.get("type", ())
    unknown = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind not in TYPES]
    if unknown:
        raise ValueError(f"JSON Schema has no type {unknown[0]!r}; it has {', '.join(TYPES)}.")
    kept = {key: value for key, value in schema.items() if key in KEPT}
    if "(?" in str(kept.get("pattern", "")).replace("(?:", ""):
        del kept["pattern"]  # the engine knows no look-around
    if schema.get("oneOf"):
        kept["anyOf"] = schema["oneOf"]
    for key in SUBSCHEMAS:
        if isinstance(kept.get(key), Mapping):
            kept[key] = bounded(kept[key])
    for key in SUBSCHEMA_LISTS:
        if key in kept:
            kept[key] = [bounded(option) for option in kept[key]]
    for key in SUBSCHEMA_MAPS:
        if key in kept:
            kept[key] = {name: bounded(value) for name, value in kept[key].items()}
    if schema.get("format") in FORMATS:
        kept["format"] = schema["format"]
    return kept | _bounds(kept)


def _bounds(schema: Schema) -> dict[str, Any]:
    """Limits for a value that has none: a small model may never close it."""
    if "enum" in schema or "const" in schema:
        return {}
    match schema.get("type"):
        case "string" if not {"maxLength", "pattern"} & schema.keys():
            return {"maxLength": max(LONGEST_STRING, schema.get("minLength", 0))}
        case "array" if "maxItems" not in schema:
            return {"maxItems": max(LONGEST_LIST, schema.get("minItems", 0))}
        case "number" | "integer":
            step = {"multipleOf": NUMBER_STEP} if schema["type"] == "number" else {}
            low = {} if "exclusiveMinimum" in schema else {"minimum": -LARGEST_NUMBER}
            high = {} if "exclusiveMaximum" in schema else {"maximum": LARGEST_NUMBER}
            given = {
                key: schema[key] for key in ("multipleOf", "minimum", "maximum") if key in schema
            }
            return {**step, **low, **high, **given}
        case "object" if "properties" in schema and "additionalProperties" not in schema:
            return {"additionalProperties": False}
    return {}


def _runs_of(parts: Sequence[str]) -> str:
    return "%regex " + json.dumps({"substring_chunks": list(parts)}, ensure_ascii=False)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
