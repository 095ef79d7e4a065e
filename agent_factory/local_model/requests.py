"""The request for an answer of the local model, in words or in JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from agent_factory.local_model import grammar, prompts
from agent_factory.local_model.engine import Request
from agent_factory.local_model.messages import Turn, wire
from agent_factory.local_model.slots import required

LONGEST_RESULT = 1500  # characters of tool results that an answer is copied from
LONGEST_QUESTION = 500  # characters of the user's question beside a tool's result


def chat(
    messages: Sequence[BaseMessage],
    turn: Turn,
    schema: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
) -> Request:
    """Let the model write: in words, or in JSON that fits the schema."""
    instructions = [prompts.free_answer(turn.text)] if turn.results else []
    rules = {}
    if schema is not None:
        instructions.append(prompts.json_answer(schema))
        rules = {"grammar": grammar.json_value(schema)}
    talk = wire(messages, "\n\n".join(instructions))
    return Request("chat", {"messages": talk, **rules, **settings})


def grounded(
    turn: Turn, schema: Mapping[str, Any] | None, settings: Mapping[str, Any]
) -> Request | None:
    """Let the model copy from the tools' results; None where nothing can be copied."""
    result = prompts.one_line(" ".join(map(prompts.in_words, turn.results)), LONGEST_RESULT)
    if not turn.results:
        return None
    if schema is None:
        return _copied_words(turn, result or "Nothing.", settings)
    return _copied_values(schema, result, settings)


def _copied_words(turn: Turn, result: str, settings: Mapping[str, Any]) -> Request:
    question = prompts.one_line(turn.text, LONGEST_QUESTION)
    body = {
        "prompt": prompts.grounded_answer(question, result),
        "grammar": grammar.copying(result),
        **settings,
        "stop": [*settings.get("stop", ()), "\n"],
    }
    return Request("completion", body)


def _copied_values(
    schema: Mapping[str, Any], result: str, settings: Mapping[str, Any]
) -> Request | None:
    """The answer as the arguments of a function that is named like the schema."""
    function = {
        "name": str(schema.get("title", "answer")),
        "description": schema.get("description"),
        "parameters": schema,
    }
    if not required(function):
        return None
    body = {
        "prompt": prompts.argument_filling(function, result),
        "grammar": grammar.arguments(function, result),
        **settings,
    }
    return Request("completion", body)
