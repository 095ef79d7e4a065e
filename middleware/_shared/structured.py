"""Structured answers, also of models that only write text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage

from agent_factory.types import configured


def structured_model(model: Any, schema: dict[str, object]) -> tuple[Any, bool]:
    """The model with structured output, or the same model and False without structured output.

    To be called in the run: a configurable model would bind the schema to its default.
    """
    model = configured(model)
    try:
        # With the raw message, a model without the structure raises nothing.
        return model.with_structured_output(schema, include_raw=True), True
    except (AttributeError, NotImplementedError):
        return model, False


def object_schema(title: str, description: str, properties: dict[str, Any]) -> dict[str, object]:
    """The JSON schema of an object with all of these properties, and no others."""
    return {
        "title": title,
        "description": description,
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def read_answer(answer: object) -> object:
    """The parsed value of an answer; the message of the model without a parsed value."""
    if isinstance(answer, Mapping) and "raw" in answer:
        parsed = answer.get("parsed")
        return answer["raw"] if parsed is None else parsed
    return answer


def structured_answer(answer: object, brackets: str) -> Any:
    """The value in an answer, not validated; None without a value.

    If the model has ignored the structure, the value is read from the text, from the first bracket
    ("{}" or "[]") to the last.
    """
    value = read_answer(answer)
    if not isinstance(value, BaseMessage):
        return value
    text = str(value.text)
    start, end = text.find(brackets[0]), text.rfind(brackets[1])
    try:
        return json.loads(text[start : end + 1]) if 0 <= start < end else None
    # `json` recurses, and a model at a loss may write thousands of brackets.
    except (ValueError, RecursionError):
        return None
