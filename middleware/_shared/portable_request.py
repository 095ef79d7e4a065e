"""A request made for one model, turned into one that a model of another provider accepts.

Layers, and the people who write them, put things into a request that only the agent's own
provider understands. Dropping what is known to hurt would need a list of every provider's words;
so the rule is the other way round: what every provider understands goes along, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables.base import RunnableBinding
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent_factory import ModelRequest
from agent_factory.middleware._shared.portable_messages import portable_message, portable_messages
from agent_factory.structured_output.strategies import AutoStrategy, ProviderStrategy, ToolStrategy

__all__ = ["WRITER", "portable_request", "provider_of", "same_provider"]

WRITER = "lc_written_by"
"""`response_metadata[WRITER]` of what a model of another provider said, in the agent's stead."""

_SETTINGS = frozenset({"temperature", "top_p", "max_tokens", "stop"})
"""What LangChain's chat models take under one name, whatever their provider."""

_NAMES = ("model", "model_name", "model_id")

_ENDPOINTS = ("openai_api_base", "base_url", "anthropic_api_url", "endpoint_url", "azure_endpoint")
"""Where chat models keep the address they ask: one class may serve several providers."""


def bare(model: Any) -> Any:
    """The chat model inside its bindings."""
    while isinstance(model, RunnableBinding):
        model = model.bound
    return model


def provider_of(model: Any) -> str | None:
    """A name for a model's provider; None where the model names none.

    It is the chat model's class, with a digest of the address where one is set: addresses may
    hold secrets, and the name is written into the thread.
    """
    model = bare(model)
    if not any(isinstance(getattr(model, name, None), str) for name in _NAMES):
        return None
    cls = type(model)
    addresses = [str(value) for name in _ENDPOINTS if (value := getattr(model, name, None))]
    digest = f"#{sha256(' '.join(addresses).encode()).hexdigest()[:8]}" if addresses else ""
    return f"{cls.__module__}.{cls.__qualname__}{digest}"


def same_provider(one: Any, other: Any) -> bool:
    """Whether what was meant for one model may go to the other as it is.

    Models are of one provider if they are of one class, say which model they are, and ask the same
    address. A class that does not say it, such as a model for tests, stands for any provider.
    """
    if one is other or bare(one) is bare(other):
        return True
    return provider_of(one) is not None and provider_of(one) == provider_of(other)


def portable_request(request: ModelRequest[Any], model: Any) -> ModelRequest[Any]:
    """The request for another model, without what only the first one's provider understands.

    Where both are of one provider, all goes along as it is. Otherwise:

    - of `model_settings` go along temperature, top_p, max_tokens and stop;
    - tools stay, without a provider's extras; tools that the first provider runs are dropped;
    - `tool_choice` becomes "auto", "any", "none" or the name of a tool that is still there;
    - a `ProviderStrategy` becomes an `AutoStrategy`, decided for the new model, without `strict`;
    - messages and system message lose cache marks, thoughts, provider's tool calls, ids of
      responses. Attachments stay, save files that lie at the provider: these are named in words.

    In either case, what a model said goes back as it was to its own provider alone.

    Args:
        request: The call as it was meant for `request.model`.
        model: The chat model to ask instead.

    >>> from langchain_core.language_models import FakeListChatModel as Fake
    >>> mine, other = Fake(responses=["a"]), Fake(responses=["b"])
    >>> settings = {"temperature": 0, "cache_control": {"type": "ephemeral"}}
    >>> request = ModelRequest(model=mine, messages=[], model_settings=settings)
    >>> portable_request(request, other).model_settings
    {'temperature': 0}
    """
    at_home = same_provider(request.model, model)
    messages = readable(request, model, at_home=at_home)
    if at_home:
        same = model is request.model and messages is request.messages
        return request if same else request.override(model=model, messages=messages)
    system = request.system_message and portable_message(request.system_message)
    tools = list(_portable_tools(request.tools))
    strategy = request.response_format
    if isinstance(strategy, ProviderStrategy):
        strategy = _auto(strategy)
    names = {*map(_name, tools), *_output_tools(strategy, model)}
    return request.override(
        model=model,
        messages=messages,
        system_message=system,
        tools=tools,
        tool_choice=_portable_choice(request.tool_choice, names),
        response_format=strategy,
        model_settings={k: v for k, v in request.model_settings.items() if k in _SETTINGS},
    )


def readable(request: ModelRequest[Any], model: Any, *, at_home: bool) -> list[Any]:
    """The messages, each answer in its own form only for the provider that wrote it."""
    messages: list[Any] = request.messages
    # At each call of a model all that was said is looked through, so without calls.
    signed = [message for message in messages if WRITER in message.response_metadata]
    if at_home and not signed:
        return messages
    provider = provider_of(model)
    native = [_is_native(message, provider, at_home) for message in messages]
    if all(native):
        return messages
    found: list[Any] = []
    for message, as_it_is in zip(messages, native, strict=True):
        found += [message] if as_it_is else portable_messages([message])
    return found


def _is_native(message: BaseMessage, provider: str | None, at_home: bool) -> bool:
    writer = message.response_metadata.get(WRITER) if isinstance(message, AIMessage) else None
    return at_home if writer is None else writer == provider


@lru_cache(maxsize=64)  # one object a strategy, so that what is bound to it can be remembered
def _auto(strategy: ProviderStrategy[Any]) -> AutoStrategy[Any]:
    return AutoStrategy(strategy.schema)


def _output_tools(strategy: Any, model: Any) -> Collection[str]:
    if isinstance(strategy, AutoStrategy):
        strategy = strategy.resolve(model)
    return strategy.bindings if isinstance(strategy, ToolStrategy) else ()


def _portable_tools(tools: Sequence[Any]) -> Iterator[Any]:
    for tool in tools:
        if isinstance(tool, BaseTool):
            yield tool.model_copy(update={"extras": None}) if tool.extras else tool
        elif not isinstance(tool, Mapping):
            yield tool
        elif (function := _function(tool)) is not None:
            yield {"type": "function", "function": function}


def _function(tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """A tool of the agent's that is given as a dict; None for one that a provider runs."""
    kind = tool.get("type", "function")
    if kind != "function" and not (kind == "custom" and "input_schema" in tool):
        return None
    # "custom" is Anthropic's word for a tool with a schema; LangChain reads it without the word.
    untyped = {k: v for k, v in tool.items() if not (k == "type" and v == "custom")}
    try:
        function = convert_to_openai_tool(untyped)["function"]
    except Exception:  # no form of a function that LangChain knows: it is the provider's
        return None
    keys = ("name", "description", "parameters")
    return {key: function[key] for key in keys if key in function}


def _name(tool: Any) -> str:
    if isinstance(tool, dict):
        return str(tool["function"]["name"])
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", ""))


def _portable_choice(choice: Any, names: Collection[str]) -> str | None:
    if isinstance(choice, bool):
        return "any" if choice else None
    word = _choice_in(choice) if isinstance(choice, Mapping) else choice
    if word in ("any", "required"):
        return "any"
    return word if word in ("auto", "none") or word in names else None


def _choice_in(choice: Mapping[str, Any]) -> Any:
    """What a provider's dict chooses: a tool's name, or one of the general words."""
    for part in (choice, choice.get("function"), choice.get("tool")):
        if isinstance(part, Mapping) and isinstance(part.get("name"), str):
            return part["name"]
    return choice.get("type") or next(iter(choice), None)


def forced_tool(tool_choice: Any) -> Any:
    """The tool that a request forces to be called, in the forms providers know; or None."""
    if not isinstance(tool_choice, Mapping):
        return tool_choice if isinstance(tool_choice, str) else None
    function = tool_choice.get("function")
    return (function if isinstance(function, Mapping) else tool_choice).get("name")
