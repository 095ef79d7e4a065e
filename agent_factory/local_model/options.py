"""The settings of one call of the local model, checked: tools, tool choice, format, sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool

from agent_factory.local_model.grammar import bounded
from agent_factory.local_model.slots import Function

SAMPLING = frozenset(
    {
        "frequency_penalty",
        "max_tokens",
        "min_p",
        "presence_penalty",
        "repeat_penalty",
        "seed",
        "temperature",
        "top_k",
        "top_p",
    }
)
# Known from other models and without meaning here: there is one tool call a turn, arguments
# always fit their schema, and streaming is chosen by calling stream().
WITHOUT_EFFECT = frozenset({"parallel_tool_calls", "strict", "stream", "stream_usage"})
READ_ELSEWHERE = frozenset({"tools", "tool_choice", "response_format"})


@dataclass(frozen=True)
class Offer:
    """The tools that the model may call, and whether it must."""

    functions: tuple[Function, ...] = ()
    forced: bool = False


def openai_tools(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Tools of any kind as OpenAI describes them.

    Raises:
        ValueError: one is no tool, or one that only a provider's server can run.
    """
    converted = [_openai_tool(tool) for tool in tools]
    for tool in converted:
        if tool.get("type") != "function":
            raise ValueError(
                f"LocalChatModel can't run the provider tool {tool!r}: it has no server to run "
                "it. Give it a function, a tool or a schema."
            )
    return converted


def _openai_tool(tool: Any) -> dict[str, Any]:
    try:
        return convert_to_openai_tool(tool)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"LocalChatModel can't use {tool!r} as a tool: {error} Give it a function with type "
            "hints and a docstring, a BaseTool, a class, or a function as OpenAI describes it."
        ) from error


def json_schema_of(schema: Any) -> dict[str, Any]:
    """The JSON schema of a class, or a JSON schema as it is.

    Raises:
        ValueError: it is no schema, or one with a type that JSON Schema does not have.
    """
    try:
        described = convert_to_json_schema(schema)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{schema!r} is no schema: {error} Give a pydantic model, a dataclass, a TypedDict "
            "or a JSON schema with a title."
        ) from error
    bounded(described)
    return described


def read_offer(tools: Sequence[Any] | None, tool_choice: Any) -> Offer:
    """Which of the tools are on offer in this call.

    Raises:
        ValueError: the choice names a tool that is not there, or is no choice.
    """
    functions = tuple(tool["function"] for tool in openai_tools(tools or ()))
    if tool_choice in ("none", False):
        return Offer()
    if tool_choice in (None, "auto") or not functions:
        return Offer(functions)
    if tool_choice in ("any", "required", True):
        return Offer(functions, forced=True)
    wanted = _chosen_name(tool_choice)
    chosen = tuple(function for function in functions if function["name"] == wanted)
    if not chosen:
        names = ", ".join(str(function["name"]) for function in functions)
        raise ValueError(
            f"tool_choice={tool_choice!r} names no tool of this call; it has {names}. Give one of "
            "these names, 'auto', 'any', 'required' or 'none'."
        )
    return Offer(chosen, forced=True)


def _chosen_name(tool_choice: Any) -> Any:
    if not isinstance(tool_choice, Mapping):
        return tool_choice
    function = tool_choice.get("function")
    return function.get("name") if isinstance(function, Mapping) else tool_choice.get("name")


def response_schema(response_format: Any) -> Mapping[str, Any] | None:
    """The JSON schema in a `response_format` setting; None where plain text is asked for.

    Raises:
        ValueError: it is neither of type text nor json_schema, or has no schema.
    """
    if response_format is None or response_format == {"type": "text"}:
        return None
    described = response_format.get("json_schema") if isinstance(response_format, Mapping) else None
    schema = described.get("schema") if isinstance(described, Mapping) else None
    if not isinstance(schema, Mapping):
        raise ValueError(
            f"response_format={response_format!r} is not understood. Write {{'type': "
            "'json_schema', 'json_schema': {'name': ..., 'schema': {...}}}, or use "
            "with_structured_output(schema)."
        )
    return schema


def sampling(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that go to the engine as they are.

    Raises:
        ValueError: there is one that this model does not know.
    """
    known = SAMPLING | WITHOUT_EFFECT | READ_ELSEWHERE
    unknown = [name for name in options if name not in known and not name.startswith("ls_")]
    if unknown:
        raise ValueError(
            f"LocalChatModel does not know the setting {unknown[0]!r}. It takes "
            f"{', '.join(sorted(SAMPLING | READ_ELSEWHERE))} and stop."
        )
    return {name: options[name] for name in SAMPLING & options.keys() if options[name] is not None}
