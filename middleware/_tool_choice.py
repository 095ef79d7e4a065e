"""A choice among tools: what a model is asked, how its answer is read, what is wrong with it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool

from ._transcript import render

_SHOWN_BEFORE = 6  # messages before the user's: enough for "yes, do that" to mean something
_LONGEST_SHOWN = 1_000  # characters of a message or of a tool's description

_IN_TEXT = '\n\nAnswer with a JSON list of names and nothing else, such as ["one", "other"].'


def schema_of(names: Sequence[str], most: int | None) -> dict[str, Any]:
    """The structured answer that is asked for; only these names fit it, and so many."""
    chosen = {
        "type": "array",
        "items": {"type": "string", "enum": list(names)},
        "description": "The names of the chosen tools, the most useful first.",
        "maxItems": len(names) if most is None else most,
    }
    return {
        "title": "ToolSelection",
        "description": "The tools that may be needed.",
        "type": "object",
        "properties": {"tools": chosen},
        "required": ["tools"],
        "additionalProperties": False,
    }


def instructions(
    prompt: str, tools: Sequence[BaseTool], most: int | None, *, structured: bool
) -> SystemMessage:
    """What the choosing model is told first: its task, the tools, and how many."""
    listed = "\n".join(f"- {tool.name}: {_cut(tool.description)}" for tool in tools)
    limit = "" if most is None else f"\n\nChoose {most} at most."
    return SystemMessage(f"{prompt}\n\nThe tools:\n{listed}{limit}{'' if structured else _IN_TEXT}")


def question(messages: Sequence[BaseMessage], asked: int) -> str:
    """The user's message at this place, with a little of what was said before it."""
    before = [m for m in messages[:asked] if m.type in ("human", "ai") and m.text]
    shown = [*before[-_SHOWN_BEFORE:], messages[asked]]
    lines = "\n".join(_cut(render(message)) for message in shown)
    return f"Choose the tools for the last message of this conversation:\n\n{lines}"


def last_asked(messages: Sequence[BaseMessage]) -> int | None:
    """Where the user last spoke; summaries and notices that are written for them don't count."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs:
            return index
    return None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]} ..."


def said(answer: Any) -> str:
    """An answer of the choosing model in words, for errors and for the model itself."""
    if isinstance(answer, Mapping) and "raw" in answer:
        parsed = answer.get("parsed")
        answer = answer["raw"] if parsed is None else parsed
    return _cut(render(answer) if isinstance(answer, BaseMessage) else repr(answer))


def names_in(answer: Any) -> Any:
    """What an answer gives as the chosen names, unchecked; None where it gives nothing."""
    parsed = answer
    if isinstance(answer, Mapping) and "raw" in answer:
        parsed = answer.get("parsed")
        answer = answer["raw"]
    if parsed is None or isinstance(parsed, BaseMessage):
        parsed = _json_in(str(getattr(answer, "text", "")))
    return parsed.get("tools") if isinstance(parsed, Mapping) else parsed


def _json_in(text: str) -> Any:
    start, end = text.find("["), text.rfind("]")
    try:
        return json.loads(text[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        return None


def problem_with(names: Any, options: Sequence[str], most: int | None) -> str:
    """Why a choice cannot be used; empty where it can."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return "it has no list of names of tools."
    if unknown := sorted(set(names) - set(options)):
        return f"there is no {', '.join(map(repr, unknown))} among {', '.join(options)}."
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        return f"{', '.join(map(repr, twice))} was chosen more than once."
    if most is not None and len(names) > most:
        return f"{len(names)} tools were chosen, and {most} at most may be."
    return ""


def forced_tool(tool_choice: Any) -> Any:
    """The tool that a request forces to be called, in the forms providers know; or None."""
    if not isinstance(tool_choice, Mapping):
        return tool_choice if isinstance(tool_choice, str) else None
    function = tool_choice.get("function")
    return (function if isinstance(function, Mapping) else tool_choice).get("name")
