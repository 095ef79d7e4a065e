"""Values in a message for the parameters of a tool: numbers, codes and words.

The model never writes an argument freely, but chooses among these values. Pure functions on text
and JSON schemas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from langchain_core.utils.json_schema import dereference_refs

Schema = Mapping[str, Any]
Function = Mapping[str, Any]
"""A function as OpenAI's tools describe it: name, description, parameters."""

REPLY: Function = {"name": "reply", "description": "Greetings, thanks and small talk."}
"""The action of answering without a tool."""

# 20, $20, 49.90, 49,90, 1,200.50, 20kg, -5; not the digits of a code, a date, a time or a version.
NUMBER = re.compile(
    r"(?<![\w.,:/#-])(-?)[$€£¥]?\s?"
    r"(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+|,\d{1,2}(?!\d))?)"
    r"(?!\w*\d)(?!-?\d|[.:/]\d)"
)
# A word with inner signs (A-1001, bob@example.com, don't), a space, or a single sign.
PIECE = re.compile(r"\w+(?:[-./@:'&+]\w+)*|\s+|.", re.DOTALL)
EDGE_SIGNS = " \t\n.,;:!?\"'()[]{}\\"
LONGEST_MATCH = 12  # pieces (words, spaces and signs) in a value with a pattern

# Evidence added to the model's likelihoods, in nats, chosen on 55 messages to seven tools.
NOTHING_TO_FILL_IN = -2.0
CODE_WITHOUT_USE = -4.0
ITS_OWN_WORD = 3.0
STOP_WORDS = frozenset(  # as words, they read better than as a list: SIM905
    "the and for with from that this what your you have has was is are all can".split()  # noqa: SIM905
)


def pieces(text: str) -> list[str]:
    """Words, spaces and signs, in order; joined, they are the text."""
    return PIECE.findall(text)


def has_words(text: str) -> bool:
    """Return True if the text has more than spaces and signs."""
    return any(piece.strip(EDGE_SIGNS) for piece in pieces(text))


def numbers(text: str) -> list[str]:
    """The numbers in the text as JSON writes them, each once.

    >>> numbers("$1,200.50 for A-1001 and 007, please")
    ['1200.50', '7']
    """
    matches = []
    for sign, digits in NUMBER.findall(text):
        point = "." if re.fullmatch(r"\d+,\d{1,2}", digits) else ""  # a decimal comma
        matches.append(f"{sign}{Decimal(digits.replace(',', point)):f}")
    return list(dict.fromkeys(matches))


def codes(text: str) -> list[str]:
    """Words like keys; plain numbers only in a text without better words.

    >>> codes("refund 20 dollars for A-1001")
    ['A-1001']
    >>> codes("refund $20 for order 4711")
    ['4711']
    """
    return marked_codes(text) or [
        word for word in _words(text) if word.isdigit() and f"${word}" not in text
    ]


def marked_codes(text: str) -> list[str]:
    """Words with a letter before a digit, and numbers after a #."""
    after_hash = re.findall(r"(?<=#)\w*\d\w*", text)
    with_digits = [
        word for word in _words(text) if re.search(r"[^\W\d].*\d", word) and "@" not in word
    ]
    return list(dict.fromkeys(after_hash + with_digits))


def _words(text: str) -> list[str]:
    return [piece for piece in pieces(text) if piece[0].isalnum()]


def required(function: Function) -> dict[str, Schema]:
    """The required parameters, in their order; `X | None` counts as `X`."""
    # References within the schema are those of pydantic to a nested model.
    parameters = dereference_refs(dict(function.get("parameters") or {}))
    names = parameters.get("required") or ()
    properties = parameters.get("properties") or {}
    return {name: _plain_schema(properties[name]) for name in properties if name in names}


def _plain_schema(schema: Schema) -> Schema:
    rest = dict(schema)
    kinds = [option for option in rest.get("anyOf", ()) if option.get("type") != "null"]
    # An optional parameter: pydantic writes `X | None` as two options.
    if len(kinds) == 1:
        del rest["anyOf"]
        return _plain_schema({**kinds[0], **rest})
    # Other writers of schemas put both types into a list.
    if isinstance(rest.get("type"), list):
        types = [kind for kind in rest["type"] if kind != "null"]
        rest["type"] = types[0] if len(types) == 1 else rest["type"]
    return rest


def candidates(name: str, schema: Schema, text: str) -> list[str] | None:
    """The values of a text for a parameter, as JSON; None where any words will do."""
    if "const" in schema or schema.get("enum"):
        return _quoted(schema.get("enum") or [schema["const"]])
    match schema.get("type"):
        case "boolean":
            return ["true", "false"]
        case "number":
            return numbers(text)
        case "integer":
            return [number for number in numbers(text) if "." not in number]
        case "string" if schema.get("pattern"):
            return _quoted(_matches(name, str(schema["pattern"]), text))
        case "string" if schema.get("format") == "email" or name.lower().endswith("email"):
            return _quoted(word for word in _words(text) if "@" in word)
        case "string" if is_key(name) and not schema.get("format"):
            return _quoted(codes(text))
    return None


def is_key(name: str) -> bool:
    """Return True if a parameter is a key: id, order_id, orderId."""
    return name == "id" or name.endswith(("_id", "Id"))


def _quoted(values: Iterable[object]) -> list[str]:
    return [json.dumps(value, ensure_ascii=False) for value in values]


def _matches(name: str, pattern: str, text: str) -> list[str]:
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"The parameter {name!r} has an invalid pattern {pattern!r}: {error}. Correct it in "
            "the schema of the tool."
        ) from error
    parts = pieces(text)
    words = [at for at, part in enumerate(parts) if part.strip(EDGE_SIGNS)]
    # Every run of neighbouring pieces that starts and ends with a word.
    runs = (
        "".join(parts[start : end + 1])
        for first, start in enumerate(words)
        for end in words[first : first + LONGEST_MATCH]
        if end < start + LONGEST_MATCH
    )
    # `search`, because patterns of JSON Schema are not anchored.
    return list(dict.fromkeys(run for run in runs if regex.search(run)))


def missing(function: Function, text: str) -> list[str]:
    """The required parameters for which the text has no value."""
    return [
        name for name, schema in required(function).items() if candidates(name, schema, text) == []
    ]


def fallback_arguments(function: Function, text: str) -> dict[str, object]:
    """Arguments of the right types without the model: the first values in the text."""
    arguments: dict[str, object] = {}
    for name, schema in required(function).items():
        values = candidates(name, schema, text)
        match schema.get("type"):
            case _ if values:
                arguments[name] = json.loads(values[0])
            case "integer" | "number":
                arguments[name] = 0
            case "array":
                arguments[name] = []
            case "object":
                arguments[name] = fallback_arguments({"parameters": schema}, text)
            case _:
                arguments[name] = text
    return arguments


def evidence(action: Function, others: Iterable[Function], text: str) -> float:
    """The evidence for an action, in nats (mostly negative), to add to the model's likelihood.

    Against it: the message lacks a required number or key, or names a key that the action does not
    take. For it, if it is a tool: a word that occurs in its name and description alone.
    """
    weight = 0.0
    if missing(action, text):
        weight += NOTHING_TO_FILL_IN
    if marked_codes(text) and not takes_codes(action):
        weight += CODE_WITHOUT_USE
    own_words = _stems(action).difference(*map(_stems, others))
    if action is not REPLY and own_words & word_stems(text):
        weight += ITS_OWN_WORD
    return weight


def takes_codes(function: Function) -> bool:
    """Return True if a call must name a key."""
    return any(is_key(name) or schema.get("pattern") for name, schema in required(function).items())


def _stems(function: Function) -> set[str]:
    return word_stems(f"{function['name']} {headline(function)}".replace("_", " "))


def word_stems(text: str) -> set[str]:
    """The first five letters of each word of three or more: `refund` and `refunded` are one."""
    words = re.findall(r"[^\W\d_]{3,}", text.lower())
    return {word[:5] for word in words if word not in STOP_WORDS}


def headline(function: Function) -> str:
    """The first line of a tool's description, or its name in words."""
    description = str(function.get("description") or "").strip()
    return description.split("\n")[0] or str(function["name"]).replace("_", " ")
