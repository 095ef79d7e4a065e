"""The engine request for an answer in prose or in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from agent_factory.local_model import grammar, prompts
from agent_factory.local_model.engine import Request
from agent_factory.local_model.messages import Turn, wire
from agent_factory.local_model.slots import required

LONGEST_RESULT = 1500  # characters of tool results that an answer is copied from
LONGEST_QUESTION = 500  # characters of the question in front of a tool's result


def chat(
    messages: Sequence[BaseMessage],
    turn: Turn,
    schema: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
) -> Request:
    """A request that lets the model write: prose, or JSON that fits the schema."""
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
    """A request that lets the model copy from tool results; None where nothing can be copied."""
    result = prompts.one_line(" ".join(map(prompts.in_words, turn.results)), LONGEST_RESULT)
    if not turn.results:
        return None
    if schema is None:
        result = result or "Nothing."
        question = prompts.one_line(turn.text, LONGEST_QUESTION)
        prose = {
            "prompt": prompts.grounded_answer(question, result),
            "grammar": grammar.copying(result),
            **settings,
            "stop": [*settings.get("stop", ()), "\n"],
        }
        return Request("completion", prose)
    # JSON is written like the arguments of a function that has the name of the schema.
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
