"""The settings of one call of the local model, checked: tools, tool choice, format, sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool

from agent_factory.local_model.requests import bounded
from agent_factory.local_model.slots import Function

SAMPLING = {
    "frequency_penalty", "max_tokens", "min_p", "presence_penalty", "repeat_penalty", "seed",
    "temperature", "top_k", "top_p",
}  # fmt: skip
# Settings of other models that have no effect here: a turn has one tool call, arguments always fit
# their schema, and stream() streams.
WITHOUT_EFFECT = {"parallel_tool_calls", "strict", "stream", "stream_usage"}
READ_ELSEWHERE = {"tools", "tool_choice", "response_format"}


def openai_tools(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Tools of any kind as OpenAI describes them; refuse those of a provider's server."""
    converted = []
    for tool in tools:
        try:
            found = convert_to_openai_tool(tool)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"LocalChatModel can't use {tool!r} as a tool: {error} Pass a function with type "
                "hints and a docstring, a BaseTool, a class, or an OpenAI function."
            ) from error
        if found.get("type") != "function":
            raise ValueError(
                f"LocalChatModel can't run the provider tool {found!r}: it has no server to run "
                "it. Pass a function, a tool or a schema."
            )
        converted.append(found)
    return converted


def json_schema_of(schema: Any) -> dict[str, Any]:
    """The JSON schema of a class, or a JSON schema unchanged."""
    try:
        described = convert_to_json_schema(schema)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"schema must be a class or a JSON schema, got {schema!r}: {error} Pass a "
            "pydantic model, a dataclass, a TypedDict or a JSON schema with a title."
        ) from error
    bounded(described)  # refuses a type that JSON Schema does not have
    return described


def offered_tools(tools: Sequence[Any] | None, tool_choice: Any) -> tuple[Sequence[Function], bool]:
    """The functions that the model may call, and whether it must."""
    functions = [tool["function"] for tool in openai_tools(tools or ())]
    if tool_choice in ("none", False):
        return [], False
    if tool_choice in (None, "auto") or not functions:
        return functions, False
    if tool_choice in ("any", "required", True):
        return functions, True
    wanted = tool_choice
    if isinstance(wanted, Mapping):
        function = wanted.get("function")
        wanted = (function if isinstance(function, Mapping) else wanted).get("name")
    chosen = [function for function in functions if function["name"] == wanted]
    if not chosen:
        names = ", ".join(str(function["name"]) for function in functions)
        raise ValueError(
            f"tool_choice must be one of {names}, 'auto', 'any', 'required' or 'none', "
            f"got {tool_choice!r}."
        )
    return chosen, True


def response_schema(response_format: Any) -> Mapping[str, Any] | None:
    """The JSON schema in a `response_format` setting; None for plain text."""
    if response_format is None or response_format == {"type": "text"}:
        return None
    described = response_format.get("json_schema") if isinstance(response_format, Mapping) else None
    schema = described.get("schema") if isinstance(described, Mapping) else None
    if not isinstance(schema, Mapping):
        raise ValueError(
            f"response_format={response_format!r} is not supported. Pass {{'type': "
            "'json_schema', 'json_schema': {'name': ..., 'schema': {...}}}, or use "
            "with_structured_output(schema)."
        )
    return schema


def sampling(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings for the engine; refuse an unknown one."""
    known = SAMPLING | WITHOUT_EFFECT | READ_ELSEWHERE
    unknown = [name for name in options if name not in known and not name.startswith("ls_")]
    if unknown:
        raise ValueError(
            f"LocalChatModel does not know the setting {unknown[0]!r}. It takes "
            f"{', '.join(sorted(SAMPLING | READ_ELSEWHERE))} and stop."
        )
    return {name: options[name] for name in SAMPLING & options.keys() if options[name] is not None}
