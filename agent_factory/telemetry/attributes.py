"""Attributes of spans for model calls, tools and messages, by OpenTelemetry's conventions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
from langchain_core.outputs import LLMResult
from langgraph.types import Command

from agent_factory.providers import reasons_in, refusal_text

Attributes = dict[str, Any]

AGENT = "invoke_agent"
"""The operation that is a run of an agent or of another graph."""

_PROVIDERS = {
    "amazon_bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "ibm": "ibm.watsonx.ai",
    "mistral": "mistral_ai",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
}
"""Providers that OpenTelemetry calls otherwise than LangChain."""

_FOLLOWING = ("text", "tool_use", "tool_call", "refusal")

_ROLES = {"human": "user", "ai": "assistant"}


def given(attributes: Mapping[str, object]) -> Attributes:
    """Return the attributes with a value."""
    # 0 stays, as a temperature or a number of tokens.
    return {name: value for name, value in attributes.items() if value not in (None, "", [], ())}


def error_type(error: BaseException) -> str:
    """Return the name of an exception's class, with the module unless the class is built in."""
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


def of_operation(operation: str, metadata: Mapping[str, object], agent: str = "") -> Attributes:
    """Return the attributes of all operations: operation, agent, thread."""
    common = {
        "gen_ai.operation.name": operation,
        "gen_ai.agent.name": agent or metadata.get("lc_agent_name"),
        "gen_ai.conversation.id": metadata.get("thread_id"),
    }
    run = {"agent_factory.run.id": metadata.get("agent_factory_run")} if operation == AGENT else {}
    return {name: str(value) for name, value in given({**common, **run}).items()}


def of_model(metadata: Mapping[str, Any], params: Mapping[str, object]) -> Attributes:
    """Return which model is called, and with which settings."""
    provider = metadata.get("ls_provider")
    return given(
        {
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider) if provider else None,
            "gen_ai.request.model": metadata.get("ls_model_name")
            or params.get("model")
            or params.get("model_name"),
            "gen_ai.request.temperature": metadata.get("ls_temperature"),
            "gen_ai.request.max_tokens": metadata.get("ls_max_tokens"),
            "gen_ai.request.stop_sequences": metadata.get("ls_stop"),
        }
    )


def of_response(result: LLMResult) -> Attributes:
    """Return the model's data about a response: names, reasons and numbers."""
    attributes: Attributes = {}
    reasons: list[str] = []
    # LangChain has a list for each prompt, with a list of the choices of the model.
    for generation in chain.from_iterable(result.generations):
        message = getattr(generation, "message", None)
        metadata = {
            **(generation.generation_info or {}),
            **getattr(message, "response_metadata", {}),
        }
        # Some clients write an enum. A choice has one reason.
        names = (getattr(reason, "name", reason) for _, reason in reasons_in(metadata))
        reasons += [str(name) for name in names if name][:1]
        usage: Any = getattr(message, "usage_metadata", None) or {}
        read, output = (usage.get(f"{side}_token_details") or {} for side in ("input", "output"))
        attributes |= given(
            {
                "gen_ai.response.id": metadata.get("id"),
                "gen_ai.response.model": metadata.get("model_name") or metadata.get("model"),
                "gen_ai.usage.input_tokens": usage.get("input_tokens"),
                "gen_ai.usage.output_tokens": usage.get("output_tokens"),
                "gen_ai.usage.cache_read.input_tokens": read.get("cache_read"),
                "gen_ai.usage.cache_creation.input_tokens": read.get("cache_creation"),
                "gen_ai.usage.reasoning.output_tokens": output.get("reasoning"),
            }
        )
    return {**attributes, **given({"gen_ai.response.finish_reasons": reasons})}


# Contents


def as_json(value: object) -> str:
    """Return a value as JSON; values outside of JSON are written as text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def input_messages(messages: Iterable[BaseMessage]) -> Attributes:
    """Return the input of a model: system messages, and the rest."""
    system: list[object] = []
    others: list[object] = []
    for message in messages:
        if message.type == "system":
            system += _parts(message)
        else:
            others.append(_as_data(message))
    texts = {"gen_ai.system_instructions": system, "gen_ai.input.messages": others}
    return {name: as_json(value) for name, value in texts.items() if value}


def output_messages(messages: Sequence[BaseMessage]) -> Attributes:
    """Return the answer of a model or an agent."""
    return {"gen_ai.output.messages": as_json([_as_data(message) for message in messages])}


def generated(result: LLMResult) -> Attributes:
    """Return the messages of a response; a completion of text is a message too."""
    generations = chain.from_iterable(result.generations)
    return output_messages([getattr(g, "message", AIMessage(g.text)) for g in generations])


def messages_in(state: object) -> list[BaseMessage]:
    """Return the messages of a state or an input alone."""
    messages = state.get("messages", []) if isinstance(state, Mapping) else []
    try:
        return convert_to_messages(messages if isinstance(messages, list) else [messages])
    except Exception:
        return []  # an invalid input, about which the run raises


def tool_result(output: object) -> object:
    """Return a tool's result for the model; other updates of a command are left out."""
    if isinstance(output, Command):
        update = output.update
        return tool_result(update.get("messages") if isinstance(update, Mapping) else None)
    if isinstance(output, list | tuple):
        return [tool_result(item) for item in output]
    return output.content if isinstance(output, ToolMessage) else output


def _as_data(message: BaseMessage) -> dict[str, object]:
    return {"role": _ROLES.get(message.type, message.type), "parts": _parts(message)}


def _parts(message: BaseMessage) -> list[dict[str, object]]:
    """Return the parts of a message; of images and the like only the type."""
    if isinstance(message, ToolMessage):
        answer = {"id": message.tool_call_id, "response": message.content}
        return [{"type": "tool_call_response", **answer}]
    content = message.content
    blocks = [content] if isinstance(content, str) else content
    parts: list[dict[str, object]] = []
    for block in blocks:
        text = block if isinstance(block, str) else block.get("text")
        if text:
            parts.append({"type": "text", "content": text})
        # Left out, since they follow: calls, from `tool_calls`, and the words of a refusal.
        elif isinstance(block, dict) and block.get("type") not in _FOLLOWING:
            parts.append({"type": block.get("type", "unknown")})
    if words := refusal_text(message):
        parts.append({"type": "refusal", "content": words})
    calls = message.tool_calls if isinstance(message, AIMessage) else ()
    for call in calls:
        request = {"id": call["id"], "name": call["name"], "arguments": call["args"]}
        parts.append({"type": "tool_call", **request})
    return parts
