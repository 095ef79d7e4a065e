"""Models other than the request's model, and requests in a form for any of them.

A list of everything that other providers refuse could never be complete. So the rule is the
reverse: keep the common parts of all providers, drop the rest, and name in the text the parts that
a reader would miss.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from operator import is_
from typing import Any, Final, Literal, cast
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.constants import TAG_NOSTREAM
from langgraph.types import Command

from agent_factory import (
    ContextT,
    ExtendedModelResponse,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    init_model,
)
from agent_factory.errors import describe, example_of
from agent_factory.providers.thoughts import THOUGHT_BLOCKS
from agent_factory.structured_output.strategies import (
    AutoStrategy,
    ProviderStrategy,
    ToolStrategy,
    strategy_for,
)
from agent_factory.types import bound_tools, model_name, unbound

from .errors import is_sync_function
from .messages import CALL_BLOCKS
from .validation import copied

Provider = Literal["anthropic", "openai", "bedrock"]
"""Provider whose own marks and settings the built-ins know."""

Model = str | BaseChatModel | Runnable[Any, Any]
"""A chat model, perhaps with arguments bound to it, or "provider:name"."""

RequestChange = Mapping[str, Any] | Callable[[ModelRequest[Any]], ModelRequest[Any]]
"""`model_settings` that replace those of the request, or a function that makes the request."""

ModelEntry = Model | tuple[Model, RequestChange]
"""A model, alone or with its own settings."""

WRITTEN_BY = "lc_written_by"
"""Key of `response_metadata` that names the provider of an answer that another one's model gave."""

_COMMON_SETTINGS = frozenset({"temperature", "top_p", "max_tokens", "stop"})
"""Settings that LangChain's chat models take under one name, whatever their provider."""

_AFFINITY = "x-session-affinity"
"""Header by which a gateway sends the calls of a conversation to one server of one model."""

_KINDS: Final[dict[str, Provider]] = {
    **dict.fromkeys(("ChatAnthropic", "anthropic-chat"), "anthropic"),
    **dict.fromkeys(("ChatOpenAI", "openai-chat"), "openai"),
    **dict.fromkeys(("AzureChatOpenAI", "azure-openai-chat"), "openai"),
    "ChatBedrockConverse": "bedrock",
}
"""The provider of each kind of chat models, by the name of the class and by `_llm_type`."""

_TAKE_NONE: Final = frozenset(
    {"ChatAnthropic", "ChatOpenAI", "openai-chat", "AzureChatOpenAI", "azure-openai-chat"}
    | {"ChatGoogleGenerativeAI", "ChatMistralAI", "ChatGroq", "ChatDeepSeek", "ChatXAI"}
)
"""Kinds of models whose provider documents a `tool_choice` of no call."""

_ENDPOINTS = ("openai_api_base", "base_url", "anthropic_api_url", "endpoint_url", "azure_endpoint")
"""Fields of chat models that hold the address they call: one class may serve several providers."""

# `tool_calls` holds the calls in the form for every model. Cache marks are named by their
# type or by their only key.
_DROPPED_BLOCKS = THOUGHT_BLOCKS | CALL_BLOCKS | {"cachePoint", "cache_point", "cache_control"}

_DATA_KEYS = {
    **dict.fromkeys(("image", "audio", "video", "file"), ("base64", "url")),
    "text-plain": ("text", "base64", "url"),
}
"""LangChain's standard blocks, each with the keys of which one holds the data itself.

`file_id` is not among them: it names a file that one provider stores.
"""


def given_model(
    argument: str, model: object, kinds: str = "a chat model or 'provider:name'"
) -> Any:
    """The chat model in an `argument` of the user, which may be a "provider:name".

    A name becomes a model when the middleware is built: a missing package or key
    should not be found out when the model is needed.
    """
    if not isinstance(model, str | Runnable):
        hint = f" Pass {example_of(model)}." if isinstance(model, type) else ""
        raise TypeError(f"{argument} must be {kinds}, got {describe(model)}.{hint}")
    try:
        return init_model(model)  # type: ignore[arg-type]  # a bound model is a Runnable
    except Exception as error:
        error.add_note(f"Raised while making {argument}, {model!r}.")
        raise


def quiet(source: str) -> RunnableConfig:
    """The config of a layer's model: with the layer's mark, and without streaming."""
    # LangGraph streams the answers of all models in a node, except of models with this tag.
    return {"tags": [TAG_NOSTREAM], "metadata": {"lc_source": source}}


def is_model(runnable: object) -> bool:
    """Return True for a chat model, also with retries or fallbacks, bound or configurable."""
    # A configurable model is of another class, and has the methods of its default.
    model = _innermost(runnable)
    return isinstance(model, BaseLanguageModel) or hasattr(model, "bind_tools")


def is_decision_model(runnable: object) -> bool:
    """Return True for a decision model, also with retries, fallbacks or bound arguments."""
    from langchain_core.decisions import BaseDecisionModel  # only where one may be passed

    return isinstance(_innermost(runnable), BaseDecisionModel)


def _innermost(runnable: object) -> object:
    """The runnable inside its retries, fallbacks and bound arguments."""
    while not isinstance(runnable, BaseLanguageModel):
        inner = getattr(runnable, "bound", None) or getattr(runnable, "runnable", None)
        if not isinstance(inner, Runnable):
            break
        runnable = inner
    return runnable


def text_of(answer: object) -> str:
    """The text of a summarizer, without reasoning."""
    if isinstance(answer, BaseMessage):
        answer = str(answer.text)
    if not isinstance(answer, str):
        raise TypeError(f"The summarizer must return a string or a message, got {answer!r}.")
    return answer.strip()


def known_provider(model: object) -> Provider | None:
    """The provider of a model, bound or not, by its kind; None for other models."""
    return next((_KINDS[name] for name in _kinds(model) if name in _KINDS), None)


def no_call_choice(model: object) -> str | dict[str, str] | None:
    """The `tool_choice` by which a model is offered its tools and calls none; None without one."""
    names = _kinds(model)
    # A subclass of ChatAnthropic, and Bedrock documents no such choice.
    if _TAKE_NONE.isdisjoint(names) or "ChatAnthropicBedrock" in names:
        return None
    # langchain-anthropic takes a string for the name of a tool (seen with 1.7.10).
    return {"type": "none"} if "ChatAnthropic" in names else "none"


def _kinds(model: object) -> list[str]:
    model = unbound(model)
    # langchain-core: every chat model has this property; a subclass inherits it.
    kind = str(getattr(model, "_llm_type", ""))
    return [*(base.__name__ for base in type(model).__mro__), kind]


def provider_of(model: object) -> str | None:
    """The class of a model, with a digest of a set address; None without a name."""
    model = unbound(model)
    if model_name(model) is None:
        return None
    cls = type(model)
    addresses = [str(value) for name in _ENDPOINTS if (value := getattr(model, name, None))]
    # The address itself may hold secrets, and the result is written into the thread.
    digest = f"#{sha256(' '.join(addresses).encode()).hexdigest()[:8]}" if addresses else ""
    return f"{cls.__module__}.{cls.__qualname__}{digest}"


def same_provider(first: object, other: object) -> bool:
    """Return True if a request for one model may go to the other unchanged."""
    # The provider of a model without a name, such as one for tests, is not known.
    if first is other or unbound(first) is unbound(other):
        return True
    return provider_of(first) is not None and provider_of(first) == provider_of(other)


def same_family(first: object, other: object) -> bool:
    """Return True if both models take the same settings: of one provider, or OpenAI's and Azure's.

    A model of a provider's class at an address of the user's, such as a gateway, may be any model.
    """
    if same_provider(first, other):
        return True
    family = known_provider(first)
    return family == "openai" == known_provider(other) and not any(
        getattr(unbound(model), "openai_api_base", None) for model in (first, other)
    )


def model_label(model: object) -> str:
    """The class of a model, and the name if any, for messages."""
    if isinstance(model, AlternateModel):
        model = model.model
    model = unbound(model)
    return f"{type(model).__name__} {model_name(model) or ''}".strip()


class AlternateModel:
    """A model other than the request's model, and the form of its requests."""

    def __init__(self, owner: str, entry: ModelEntry) -> None:
        model, change = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None)
        is_name = isinstance(model, str) and model.strip()
        binds_tools = isinstance(model, Runnable) and callable(getattr(model, "bind_tools", None))
        if not (is_name or isinstance(model, BaseChatModel) or binds_tools):
            raise TypeError(
                f"{owner} must be a chat model or 'provider:name', or a pair of one and its "
                f"settings, got {describe(model)}."
            )
        is_settings = isinstance(change, Mapping) and all(isinstance(key, str) for key in change)
        if not (change is None or is_settings or is_sync_function(change)):
            raise TypeError(
                f"{owner} must come with a dict of model_settings, or with a plain function of the "
                f"request that returns a request, got {change!r}."
            )
        self.owner = owner  # the argument of the model: "ModelFallbackMiddleware model 1"
        self.model = given_model(owner, model)
        # A copy: the caller may change the dict.
        self.change = copied(change)


def alternates(owner: str, entries: Sequence[ModelEntry]) -> list[AlternateModel]:
    """The models of a middleware, by their numbers in errors."""
    return [AlternateModel(f"{owner} model {n}", entry) for n, entry in enumerate(entries, start=1)]


def request_to(model: object, request: ModelRequest[Any]) -> ModelRequest[Any]:
    """The request to send to the request's own model, or to an AlternateModel."""
    if not isinstance(model, AlternateModel):
        return portable_request(request, model)
    change = model.change
    if not callable(change):
        portable = portable_request(request, model.model)
        return portable if change is None else portable.override(model_settings={**change})
    changed = change(request.override(model=model.model))
    if isinstance(changed, ModelRequest):
        return changed
    raise TypeError(
        f"The function paired with {model.owner} must return a ModelRequest, got {changed!r}. "
        "Return the request it was passed, or request.override(...)."
    )


def mark_writer(
    response: ModelResponse, request: ModelRequest[Any], model: object
) -> ModelResponse:
    """The response, marked if its model has another provider than the request's model."""
    if model is request.model:
        return response
    model = model.model if isinstance(model, AlternateModel) else model
    if same_provider(request.model, model):
        return response
    writer = provider_of(model) or "unknown"
    # A layer further in, with knowledge of the answering model, may have marked it before.
    return with_metadata(response, lambda data: {**data, WRITTEN_BY: data.get(WRITTEN_BY, writer)})


def with_update(
    request: ModelRequest[Any], response: ModelResponse, update: Mapping[str, object]
) -> ModelCallResult:
    """The response with a state update; alone for an empty update, or outside of a run."""
    if request.runtime is None or not update:
        return response
    return ExtendedModelResponse(response, Command(update=update))


def with_metadata(
    response: ModelResponse, change: Callable[[dict[str, object]], dict[str, object]]
) -> ModelResponse:
    """The response with the metadata of its answers changed."""
    result: list[BaseMessage] = []
    for message in response.result:
        if isinstance(message, AIMessage):
            metadata = change(message.response_metadata)
            message = message.model_copy(update={"response_metadata": metadata})
        result.append(message)
    return replace(response, result=result)


def portable_request(request: ModelRequest[ContextT], model: object) -> ModelRequest[ContextT]:
    """The request for another model, without the parts for the first model's provider only.

    docs/middleware/model_fallback.md lists the kept and the dropped parts. If both models have
    the same provider, only answers of other providers change, and the header that binds a
    conversation to a server of the first model is dropped.
    """
    is_same = model is request.model or same_provider(request.model, model)
    messages, runnable = request.messages, cast("Runnable[Any, Any]", model)
    # The whole history is scanned at each model call, so the scan calls no function.
    if not is_same or [m for m in messages if WRITTEN_BY in m.response_metadata]:
        provider = provider_of(model)
        copies: list[Any] = []
        for message in messages:
            is_answer = isinstance(message, AIMessage)
            writer = message.response_metadata.get(WRITTEN_BY) if is_answer else None
            is_native = is_same if writer is None else writer == provider
            portable = message if is_native else portable_message(message)
            if portable is not None:
                copies.append(portable)
        if len(copies) != len(messages) or not all(map(is_, copies, messages)):
            messages = copies
    if model is request.model:
        return request if messages is request.messages else request.override(messages=messages)
    settings = without_affinity(request.model_settings)
    if is_same or same_family(request.model, model):
        return request.override(model=runnable, messages=messages, model_settings=settings)
    tools = portable_tools(request.tools, known_provider(model))
    strategy = request.response_format
    if isinstance(strategy, ProviderStrategy):
        if strategy not in _auto_strategies:
            _auto_strategies[strategy] = AutoStrategy(strategy.schema_spec.schema)
        strategy = _auto_strategies[strategy]
    # A strategy may add tools for the answer, which `tool_choice` may name as well.
    output = strategy_for(strategy, model, with_tools=bool(tools or bound_tools(model)))
    names = names_of(tools).union(output.bindings if isinstance(output, ToolStrategy) else ())
    choice = request.tool_choice
    # Some integrations take True for "any".
    if isinstance(choice, bool):
        choice = "any" if choice else None
    word = forced_tool(choice)
    # Bedrock has the word as the only key: {"any": {}}.
    if not word and isinstance(choice, Mapping):
        word = choice.get("type") or next(iter(choice), None)
    word = "any" if word == "required" else word
    choice = word if word in ("any", "auto") or word in names else None
    if word == "none":
        choice = no_call_choice(model)
        tools = tools if choice else []
    # Of a message of a kind, the copy is of the same kind.
    system: Any = request.system_message and portable_message(request.system_message)
    return request.override(
        model=runnable,
        messages=messages,
        system_message=system,
        tools=tools,
        tool_choice=choice,
        response_format=strategy,
        model_settings={key: value for key, value in settings.items() if key in _COMMON_SETTINGS},
    )


def without_affinity(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a request without the header that binds a conversation to a server."""
    headers = settings.get("extra_headers")
    if not isinstance(headers, Mapping) or _AFFINITY not in map(str.lower, headers):
        return settings
    kept_headers = {name: value for name, value in headers.items() if name.lower() != _AFFINITY}
    others = {key: value for key, value in settings.items() if key != "extra_headers"}
    return {**others, "extra_headers": kept_headers} if kept_headers else others


def portable_message(message: BaseMessage) -> BaseMessage | None:
    """A message, or a copy, for every provider; None if nothing is left."""
    content: Any = message.content
    if not isinstance(content, str):
        content = [part for block in content if (part := _portable_block(block)) is not None]
    if isinstance(message, AIMessage):
        if not isinstance(content, str):
            # Pictures and sound of a model cannot be shown to others as an assistant's message.
            texts = (p if p["type"] == "text" else _omitted(p["type"]) for p in content)
            content = "".join(str(part["text"]) for part in texts)
        if not (content or message.tool_calls or message.invalid_tool_calls):
            return None  # providers refuse an empty message of the assistant
    elif not content and message.content and not isinstance(message, ToolMessage):
        return None  # nothing but marks; a tool message stays, because a call needs a result
    # Marks of LangChain and of middleware; the first provider's client keeps the rest.
    kwargs = {k: v for k, v in message.additional_kwargs.items() if k.startswith("lc_")}
    update = {"content": content, "additional_kwargs": kwargs, "response_metadata": {}}
    if all(getattr(message, field) == value for field, value in update.items()):
        return message
    return message.model_copy(update=update)


def _portable_block(block: Any) -> dict[str, object] | None:
    """A block of content in LangChain's standard form; None for a block without a meaning."""
    if isinstance(block, str):
        block = {"type": "text", "text": block}
    kind = str(block.get("type") or next(iter(block), ""))
    if kind == "text":
        return {"type": "text", "text": block["text"]} if block.get("text") else None
    if kind == "image_url":  # accepted nearly everywhere, also by older integrations
        return {"type": "image_url", "image_url": block.get("image_url")}
    # The endings of calls by a provider itself, and of their results.
    is_server_tool = kind.startswith("server_tool") or kind.endswith(
        ("_tool_result", "_call", "_tool_use")
    )
    if kind in _DROPPED_BLOCKS or is_server_tool:
        return None
    try:
        # `content_blocks` of a message reads the forms of all providers.
        (standard,) = HumanMessage([dict(block)]).content_blocks
    except Exception:  # LangChain's readers raise various errors for a malformed block
        return _omitted(kind)
    data: Mapping[str, Any] = standard
    for key in _DATA_KEYS.get(data["type"], ()):
        if data.get(key):
            names = ("type", "mime_type", "title", key)
            return {name: data[name] for name in names if name in data}
    return _omitted(kind)


def _omitted(kind: str) -> dict[str, object]:
    text = f"[Left out here: a {kind} block, which only another provider's model can read.]"
    return {"type": "text", "text": text}


_auto_strategies: WeakKeyDictionary[ProviderStrategy[object], AutoStrategy[object]] = (
    WeakKeyDictionary()
)
"""The same object each time, because models are bound to strategies."""


def portable_tools(tools: Sequence[object], provider: Provider | None) -> list[Any]:
    """Tools for a provider, without the tools and the marks of the first provider."""
    pairs = [(tool, _portable_tool(tool)) for tool in tools]
    marks = set() if provider == "anthropic" else {"cache_control"}
    if any(is_search_tool(tool) for tool, converted in pairs if converted is None):
        marks.add("defer_loading")  # without a search tool, a deferred tool is never found
    portable = (tool for _, tool in pairs if tool is not None)
    return [without_marks(t, marks) if isinstance(t, BaseTool) else t for t in portable]


def without_marks(tool: BaseTool, marks: Collection[str]) -> BaseTool:
    """The tool, or a copy without some of its extras."""
    extras = tool.extras or {}
    kept_extras = {key: value for key, value in extras.items() if key not in marks}
    if len(kept_extras) == len(extras):
        return tool
    return tool.model_copy(update={"extras": kept_extras or None})


def _portable_tool(tool: object) -> object:
    """A tool in the common form; None for a tool of the provider."""
    if not isinstance(tool, Mapping):
        return tool
    kind = tool.get("type", "function")
    if kind != "function" and not (kind == "custom" and "input_schema" in tool):
        return None
    # Anthropic types a tool with a schema as "custom"; LangChain reads it only without that type.
    definition = {k: v for k, v in tool.items() if not (k == "type" and v == "custom")}
    try:
        function = convert_to_openai_tool(definition)["function"]
    except Exception:  # not a form of a function known to LangChain, so the provider's own
        return None
    keys = ("name", "description", "parameters")
    return {"type": "function", "function": {key: function[key] for key in keys if key in function}}


def names_of(tools: Sequence[Any]) -> set[str]:
    """The names of tools, in any form."""
    names = set()
    for tool in tools:
        if isinstance(tool, dict):
            names.add(str({**tool, **(tool.get("function") or {})}.get("name", "")))
        else:  # a layer may also offer a plain function
            names.add(str(getattr(tool, "name", None) or getattr(tool, "__name__", "")))
    return names


def is_search_tool(tool: object) -> bool:
    """Return True for a tool by which a provider searches among deferred tools."""
    return isinstance(tool, Mapping) and str(tool.get("type")).startswith("tool_search")


def forced_tool(tool_choice: object) -> str | None:
    """The name of the tool forced by a `tool_choice`, in any provider's form; None if none."""
    if not isinstance(tool_choice, Mapping):
        return tool_choice if isinstance(tool_choice, str) else None
    parts = (tool_choice, tool_choice.get("function"), tool_choice.get("tool"))
    names = (part.get("name") for part in parts if isinstance(part, Mapping))
    return next((name for name in names if isinstance(name, str)), None)
