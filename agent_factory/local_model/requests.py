"""Requests to the engine: prompts, and grammars for answers.

Grammars are in the notation of LLGuidance: Lark rules, JSON Schema, runs of given pieces. The
engine *silently* drops an unreadable grammar, so doubtful keywords are left out here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from langchain_core.messages import BaseMessage

from agent_factory.local_model.messages import Turn, in_words, one_line, wire
from agent_factory.local_model.slots import (
    Function,
    Schema,
    candidates,
    has_words,
    headline,
    marked_codes,
    pieces,
    required,
    takes_codes,
)

LONGEST_RESULT = 1500  # characters of tool results to copy an answer from
LONGEST_QUESTION = 500  # characters of the question in front of a tool's result
LONGEST_ROUTED_TOKENS = 100

HEADER = "%llguidance {}\n"
TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
# Formats with a fixed end; with others (uri, duration) a small model may write on and on.
FORMATS = ("date", "date-time", "uuid", "ipv4")
KEYWORDS = frozenset(  # as words, they read better than as a list: SIM905
    "type properties required items prefixItems enum const anyOf allOf $ref $defs definitions "  # noqa: SIM905
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern "
    "minItems maxItems additionalProperties".split()
)

# A small model at temperature 0 may never close a string or a list by itself.
LONGEST_STRING = 160  # characters
LONGEST_LIST = 5  # items
NUMBER_STEP = 0.000001  # ends 0.33333...; a millionth of a degree is a tenth of a metre
LARGEST_NUMBER = 1_000_000_000_000

COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}

ARGUMENT_SHOTS = (files("agent_factory.local_model") / "arguments.txt").read_text(encoding="utf-8")
ANSWER_SHOTS = (files("agent_factory.local_model") / "answers.txt").read_text(encoding="utf-8")


def routing(action: Function, samples: Sequence[str], line: str) -> dict[str, object]:
    """Write the line after messages of an action: the likelihood of the line is the answer."""
    needs = ", ".join(parameter.replace("_", " ") for parameter in required(action))
    lines = [
        "Messages that users write to an assistant.\n",
        f"Action: {action['name']}",
        f"Description: {headline(action)}",
        *([f"Needs: {needs}"] if needs else []),
        *(f'Message: "{one_line(sample)}"' for sample in samples),
        'Message: "',
    ]
    return {
        "prompt": "\n".join(lines),
        "grammar": literal(f'{line}"'),
        "max_tokens": LONGEST_ROUTED_TOKENS,
        # Asks for the likelihood of each written token.
        "n_probs": 1,
    }


def argument_filling(function: Function, text: str) -> dict[str, object]:
    """Fill in the required parameters of a function from a text."""
    lines = [
        f"Action: {function['name']}: {headline(function)}",
        *(f"  {field}" for field in _fields(required(function))),
        f'Message: "{text}"',
        "Arguments: ",
    ]
    return {"prompt": ARGUMENT_SHOTS + "\n".join(lines), "grammar": arguments(function, text)}


def grounded_answer(turn: Turn, schema: Schema | None) -> dict[str, Any] | None:
    """Copy an answer from the tool results; None where nothing can be copied."""
    if not turn.results:
        return None
    result = one_line(" ".join(map(in_words, turn.results)), LONGEST_RESULT)
    if schema is None:
        result = result or "Nothing."
        question = one_line(turn.text, LONGEST_QUESTION)
        prompt = f"{ANSWER_SHOTS}Customer: {question}\nTool result: {result}\nAnswer:"
        # Like the examples of the prompt, the model would go on with the next customer.
        return {"prompt": prompt, "grammar": copying(result), "stop": ["\n"]}
    # JSON is written like the arguments of a function that has the name of the schema.
    function = {
        "name": str(schema.get("title", "answer")),
        "description": schema.get("description"),
        "parameters": schema,
    }
    return argument_filling(function, result) if required(function) else None


def free_answer(
    messages: Sequence[BaseMessage], turn: Turn, schema: Schema | None
) -> dict[str, Any]:
    """Write an answer in the chat: prose, or JSON that fits the schema."""
    instructions, rules = [], {}
    if turn.results:
        instructions.append(
            f"Using only the tool results, answer in one short sentence: {turn.text}"
        )
    if schema is not None:
        fields = (f"- {field}" for field in _fields(schema.get("properties") or {}))
        instructions.append("\n".join(["Answer with a JSON object only.", *fields]))
        rules["grammar"] = f"{HEADER}start: {_json(schema)}"
    return {"messages": wire(messages, "\n\n".join(instructions)), **rules}


def _fields(schemas: Mapping[str, Schema]) -> list[str]:
    """Names of fields, each with its description."""
    return [f"{n}: {s.get('description') or n.replace('_', ' ')}" for n, s in schemas.items()]


def literal(text: str) -> str:
    """The grammar of exactly this text."""
    return f"{HEADER}start: {_quote(text)}"


def arguments(function: Function, text: str) -> str:
    """A JSON object with the function's required parameters, filled from the text.

    Numbers, keys and values with a pattern come from the text; other strings are runs of its
    words; enums are alternatives; nested values follow their schema.
    """
    root = function.get("parameters") or {}
    definitions = {key: root[key] for key in ("$defs", "definitions") if key in root}
    # A key is not a name, a reason or a state.
    keys = marked_codes(text) if takes_codes(function) else []
    # In a text of codes alone, a code is the value.
    if not has_words(" ".join(piece for piece in pieces(text) if piece not in keys)):
        keys = []
    sequence, rules = ['"{"'], []
    for at, (name, schema) in enumerate(required(function).items()):
        separator = ", " if at else ""
        sequence += [_quote(f"{separator}{_quote(name)}: "), f"v{at}"]
        values = candidates(name, schema, text)
        if values:
            rule = " | ".join(map(_quote, values))
        elif values is not None or schema.get("type") != "string" or schema.get("format"):
            rule = _json({**definitions, **schema})
        elif has_words(text):
            longest = min(int(schema.get("maxLength", LONGEST_STRING)), LONGEST_STRING)
            # A value neither begins nor ends with a sign.
            end = r'[^ .,;:!?"\\]'
            other_than = f" & ~({' | '.join(map(_quote, keys))})" if keys else ""
            rule = (
                f'"\\"" W{at} "\\""\n'
                f"S{at}: {_runs_of([_quote(piece)[1:-1] for piece in pieces(text)])}\n"
                f"W{at}: S{at} & /{end}(.{{0,{max(longest - 2, 0)}}}{end})?/{other_than}"
            )
        else:
            rule = _quote(_quote(text))
        rules.append(f"v{at}: {rule}")
    return "\n".join([f'{HEADER}start: {" ".join(sequence)} "}}"', *rules])


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


def _runs_of(parts: Sequence[str]) -> str:
    return "%regex " + json.dumps({"substring_chunks": list(parts)}, ensure_ascii=False)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json(schema: Schema) -> str:
    return "%json " + json.dumps({**bounded(schema), "x-guidance": COMPACT}, ensure_ascii=False)


def bounded(schema: Schema) -> dict[str, Any]:
    """The schema without unknown keywords, and with an end to every value."""
    kinds = schema.get("type", ())
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in TYPES:
            raise ValueError(f"JSON Schema has no type {kind!r}; it has {', '.join(TYPES)}.")
    keywords = {key: value for key, value in schema.items() if key in KEYWORDS}
    if "(?" in str(keywords.get("pattern", "")).replace("(?:", ""):
        del keywords["pattern"]  # the engine knows no look-around
    # A grammar cannot express "exactly one schema".
    if schema.get("oneOf"):
        keywords["anyOf"] = schema["oneOf"]
    if schema.get("format") in FORMATS:
        keywords["format"] = schema["format"]
    for key, value in keywords.items():
        match key:
            case "items" | "additionalProperties" if isinstance(value, Mapping):
                keywords[key] = bounded(value)
            case "anyOf" | "allOf" | "prefixItems":
                keywords[key] = [bounded(option) for option in value]
            case "properties" | "$defs" | "definitions":
                keywords[key] = {name: bounded(field) for name, field in value.items()}
    return keywords | _bounds(keywords)


def _bounds(schema: Schema) -> dict[str, object]:
    """Limits for an unlimited value, which a small model may never close."""
    if "enum" in schema or "const" in schema:
        return {}
    match schema.get("type"):
        case "string" if not {"maxLength", "pattern"} & schema.keys():
            return {"maxLength": max(LONGEST_STRING, schema.get("minLength", 0))}
        case "array" if "maxItems" not in schema:
            return {"maxItems": max(LONGEST_LIST, schema.get("minItems", 0))}
        case "number" | "integer" as kind:
            bounds: dict[str, float] = {"multipleOf": NUMBER_STEP} if kind == "number" else {}
            if "exclusiveMinimum" not in schema:
                bounds["minimum"] = -LARGEST_NUMBER
            if "exclusiveMaximum" not in schema:
                bounds["maximum"] = LARGEST_NUMBER
            return {key: value for key, value in bounds.items() if key not in schema}
        case "object" if "properties" in schema and "additionalProperties" not in schema:
            return {"additionalProperties": False}
    return {}
