"""Digests of requests: of their parts, and of their messages.

Only digests of requests are kept: Python's own hashes, without a meaning in another
process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import is_
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables.base import RunnableBinding
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent_factory.models import model_name, unbound
from agent_factory.structured_output.strategies import ProviderStrategy, Strategy, ToolStrategy
from agent_factory.types import ModelRequest

V = TypeVar("V")

Part = Literal["model", "tools", "response_format", "system_prompt", "settings", "messages"]
"""Part of a request, in the order in which providers read them."""

BLOCK: Final = 64
"""Bytes of the system prompt that share a digest, so that a change is found within them."""

_IMAGE: Final = 6_000
"""The most characters that a block other than text counts for: about 1,500 tokens, as an image."""

_MARKS: Final = frozenset({"cache_control", "cachePoint", "cache_point"})
"""Keys that mark where a provider should cache; they are not part of what it reads."""

_NOT_READ: Final = frozenset(
    {
        "max_completion_tokens", "max_output_tokens", "max_tokens", "metadata", "n", "seed", "stop",
        "stop_sequences", "stream", "stream_options", "temperature", "timeout", "top_k", "top_p",
        "user",
    }
)  # fmt: skip
"""Settings of a call that do not change what the model reads."""


Digest = tuple[int, int]
"""Digest of a message: its hash, and its size in characters. A class would take as long to make."""


class ToolDigest(NamedTuple):
    """Digest of the schema of a tool."""

    name: str
    hash: int
    size: int


class PromptDigest(NamedTuple):
    """Digest of a system prompt, with the data to find the byte of a change."""

    hash: int
    size: int
    blocks: Sequence[int]  # digests of blocks, or the bytes themselves
    block: int  # bytes of a block


NO_PROMPT: Final = PromptDigest(0, 0, (), 1)


class Head(NamedTuple):
    """Digests of the parts before the messages."""

    model: str
    tools: tuple[ToolDigest, ...]
    response_format: int
    system_prompt: PromptDigest
    settings: tuple[tuple[str, int], ...]


class Prefix(NamedTuple):
    """Digests of the parts of a request."""

    head: Head
    messages: tuple[Digest, ...]

    def part(self, name: Part) -> Any:
        """Return the digests of a part."""
        return self.messages if name == "messages" else getattr(self.head, name)

    def sizes(self) -> list[int]:
        """Return the characters of the tools, the system prompt and the messages."""
        tools = sum(tool.size for tool in self.head.tools)
        return [tools, self.head.system_prompt.size, sum(size for _, size in self.messages)]


def digest_of(message: Any) -> Digest:
    """Return the digest of a message as a provider reads it, without marks for the cache."""
    # By the written type: an `isinstance` takes as long as all the rest.
    kind = getattr(message, "type", None)
    if kind is None:  # a layer may pass a dict or a pair
        text = repr(message)
        return hash(text), len(text)
    content = message.content
    text, size = (content, len(content)) if type(content) is str else _text_of(content)
    more = ""
    if kind == "tool":
        more = f"{message.tool_call_id} {message.status}"
    elif kind == "ai" or kind == "AIMessageChunk":
        # A message from a stream is an AIMessageChunk; a provider reads it as the same answer.
        kind, calls = "ai", message.tool_calls
        if message.invalid_tool_calls:
            calls = [*calls, *message.invalid_tool_calls]
        if calls:
            more = repr([(call["name"], call["args"], call["id"]) for call in calls])
    return hash((kind, text, message.name, more)), size + len(more)


def _text_of(content: Any) -> tuple[str, int]:
    """Return content as a text, and the size; a single block of text equals the plain text."""
    parts, size = [], 0
    for block in content:
        most = None
        if isinstance(block, dict):
            block = {key: value for key, value in block.items() if key not in _MARKS}
            if block.keys() == {"type", "text"}:
                block = block["text"]
            elif block:
                block, most = repr(block), _IMAGE
        if block:
            parts.append(block)
            size += len(block[:most])
    return "\0".join(parts), size


def _digests_of_tools(*tools: Any) -> tuple[ToolDigest, ...]:
    digests = []
    for tool in tools:
        is_own = isinstance(tool, dict) and tool.get("type") != "function"
        try:
            schema = tool if is_own else convert_to_openai_tool(tool)
        except Exception:  # a form for the model's own `bind_tools` alone
            schema = {"name": getattr(tool, "name", type(tool).__name__), "tool": repr(tool)}
        schema = {key: value for key, value in schema.items() if key not in _MARKS}
        text = json.dumps(schema, default=str)
        name = schema.get("function", schema).get("name") or schema.get("type")
        # Data for the provider besides the schema, such as a mark for deferred loading.
        extras = {k: v for k, v in (getattr(tool, "extras", None) or {}).items() if k not in _MARKS}
        digests.append(ToolDigest(str(name), hash((text, repr(extras or ""))), len(text)))
    return tuple(digests)


def _name_of_model(model: object) -> str:
    """Return the name of a model, with bound arguments."""
    inner, bound = model, ""
    while isinstance(inner, RunnableBinding):
        read = {key: value for key, value in inner.kwargs.items() if key not in _NOT_READ}
        bound += f" with {', '.join(read)} ({hash(repr(read)) & 0xFFFF:04x})" if read else ""
        inner = inner.bound
    return f"{model_name(inner) or type(unbound(inner)).__name__}{bound}"


def _digest_of_format(strategy: object) -> int:
    if isinstance(strategy, ProviderStrategy):
        return hash(repr(strategy.to_model_kwargs()))
    if isinstance(strategy, ToolStrategy):
        return hash(_digests_of_tools(*(binding.tool for binding in strategy.bindings.values())))
    # The request of a layer may hold a schema, or a strategy for several models.
    return hash(repr(getattr(strategy, "schema", strategy)))


class _ByIdentity(tuple[Any, ...]):
    """Key of objects, compared by identity; the key keeps them, so no id is used again."""

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and len(self) == len(other) and all(map(is_, self, other))


class IdentityCache(Generic[V]):
    """Function of objects with a memory of the last results, by the identity of the objects.

    Args:
        read: The function.
        size: How many results are kept.

    >>> names = IdentityCache(lambda tool: tool["name"], size=16)
    >>> names({"name": "search"})
    'search'
    """

    def __init__(self, read: Callable[..., V], size: int) -> None:
        self._read = lru_cache(size)(lambda objects: read(*objects))

    def __call__(self, *objects: Any) -> V:
        return self._read(_ByIdentity(objects))


class PrefixReader:
    """Reads requests into digests; the same objects are read once.

    Args:
        exact: Keep the bytes of system prompts, to find the very byte of a change.
    """

    SIZE = 64
    """How many models, lists of tools, formats and system prompts are remembered."""

    def __init__(self, *, exact: bool) -> None:
        def prompt(message: BaseMessage | None) -> PromptDigest:
            if message is None:
                return NO_PROMPT
            content = message.content
            text: str = content if type(content) is str else _text_of(content)[0]
            # Half of a surrogate pair, as a cut in JSON may leave, cannot be encoded.
            data = text.encode(errors="replace")
            if exact:
                return PromptDigest(hash(text), len(text), data, 1)
            blocks = [hash(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]
            return PromptDigest(hash(text), len(text), blocks, BLOCK)

        self._model = IdentityCache(_name_of_model, self.SIZE)
        self._tools = IdentityCache(_digests_of_tools, self.SIZE)
        self._format = IdentityCache(_digest_of_format, self.SIZE)
        self._prompt = IdentityCache(prompt, self.SIZE)

    def read(self, request: ModelRequest[Any], messages: tuple[Digest, ...]) -> Prefix:
        """Return the digests of a request, whose messages have these."""
        head = Head(
            self._model(request.model),
            self._tools(*request.tools),
            self._format(request.response_format),
            self._prompt(request.system_message),
            _digest_of_settings(request),
        )
        return Prefix(head, messages)

    def read_inner(
        self, request: ModelRequest[Any], around: ModelRequest[Any], prefix: Prefix
    ) -> Prefix:
        """Return the digests of a layer's request, made of a request with known digests."""
        digests, head = prefix.messages, prefix.head
        if request.messages is not around.messages:
            digests = digests_among(request.messages, around.messages, digests)
        if request.system_message is not around.system_message:
            prompt = self._prompt(request.system_message)
            head = Head(*head[:3], prompt, head.settings)
        if (
            request.model is around.model
            and request.tools is around.tools
            and request.response_format is around.response_format
            and request.tool_choice is around.tool_choice
            and request.model_settings is around.model_settings
        ):
            return Prefix(head, digests)
        return self.read(request, digests)

    def read_sent(self, prefix: Prefix, strategy: Strategy, messages: tuple[Digest, ...]) -> Prefix:
        """Return the digests of the sent request, with the strategy for the model."""
        if strategy is None and messages is prefix.messages:
            return prefix
        response_format = self._format(strategy)
        return Prefix(prefix.head._replace(response_format=response_format), messages)


def _digest_of_settings(request: ModelRequest[Any]) -> tuple[tuple[str, int], ...]:
    if request.tool_choice is None and not request.model_settings:
        return ()
    settings = {k: v for k, v in request.model_settings.items() if k not in _NOT_READ}
    if request.tool_choice is not None:
        settings["tool_choice"] = request.tool_choice
    return tuple(sorted((str(key), hash(repr(value))) for key, value in settings.items()))


def digests_among(
    messages: Sequence[BaseMessage], previous: Sequence[BaseMessage], digests: tuple[Digest, ...]
) -> tuple[Digest, ...]:
    """Return digests of messages, many of which may be known objects."""
    count = len(previous)
    if not count:
        return tuple(map(digest_of, messages))
    if begins_with(messages, previous):
        return digests + tuple(map(digest_of, messages[count:]))
    same = list(map(is_, messages, previous))
    at = same.index(False) if False in same else len(same)
    # By ids of objects, not of messages: both lists are alive, so no id is used twice.
    by_id = dict(zip(map(id, previous[at:]), digests[at:], strict=True))
    rest = [by_id.get(id(message)) or digest_of(message) for message in messages[at:]]
    return digests[:at] + tuple(rest)


def begins_with(messages: Sequence[BaseMessage], previous: Sequence[BaseMessage]) -> bool:
    """Return True if a list begins with known messages; False where the comparison takes long."""
    count = len(previous)
    # Lists of the same objects are compared fast. With other ends, the objects are likely to
    # differ, and would be compared by value.
    return (
        len(messages) >= count
        and messages[count - 1] is previous[-1]
        and messages[0] is previous[0]
        and messages[:count] == previous
    )
