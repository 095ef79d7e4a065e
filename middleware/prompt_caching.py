"""Mark the positions in each request that the provider should cache.

Sources: platform.claude.com/docs/en/build-with-claude/prompt-caching,
developers.openai.com/api/docs/guides/prompt-caching,
docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html.

As the innermost layer the middleware sees the changes of all layers. A message that is not the
thread's own object was changed for this call alone, and is not marked: the next request will lack
the message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, get_args

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.tools import BaseTool

from agent_factory import AgentState, Flow, ModelRequest, ModelResponse, Ordering
from agent_factory.types import model_name, unbound

from ._shared.models import Provider, known_provider
from ._shared.payload_free import PayloadFree
from ._shared.provider_marks import mark_of, marked_tools
from ._shared.token_counter import tokens_sent
from ._shared.validation import check_bool, check_choice, check_count

__all__ = ["PromptCachingMiddleware"]

_MARK: Final = "cache_control"
_MOST_MARKS: Final = 4  # the most in a request that Anthropic accepts
_CACHED_AT_BEDROCK: Final = re.compile("anthropic|claude|nova")  # other models refuse cache points


class PromptCachingMiddleware(PayloadFree[AgentState]):
    """Marks the tools, the system prompt and the messages for the cache of Anthropic's models.

    The marks are at the last tool, at the end of the constant part of the system prompt, at the
    last message of the request before, from which the provider reads, and at the newest message, up
    to which the provider writes. Messages and blocks that another layer changes in each call are
    not marked. Marks that a request has already stay, and count: there are 4 at most. Only copies
    are marked: the thread and your tools are not changed.

    Claude and Nova by `ChatBedrockConverse` get `cache_control` as a setting. Requests to other
    models pass unchanged, except for the key of `openai_cache_key`.

    Put it as far inside (after) as possible, so that it sees the final request; only retries and
    budgets may follow.

    Args:
        ttl: How long the provider keeps a cached prompt after its last use: "5m" or "1h". An hour
            costs more to write.
        min_tokens: The least tokens up to a mark, by an estimate, because providers ignore marks
            after fewer. The default is the least that most of Anthropic's models cache.
        openai_cache_key: Send models of OpenAI a digest of the thread's id, as `prompt_cache_key`.
        provider: "anthropic", "openai" or "bedrock". None: by the class of the model, which is
            `ChatAnthropic`, `ChatOpenAI`, `AzureChatOpenAI`, `ChatBedrockConverse` or a subclass.
        name: The name of this instance, if a stack has several.

    Raises:
        ValueError: `ttl` or `provider` is unknown, or `min_tokens` is negative.
        TypeError: `min_tokens` is not a whole number, or `openai_cache_key` not a bool.

    >>> PromptCachingMiddleware(ttl="1h").ttl
    '1h'
    """

    ordering = Ordering(
        after=(
            "LLMToolSelectorMiddleware",
            "ContextEditingMiddleware",
            "SummarizationMiddleware",
            "TodoListMiddleware",
            "ModelRouterMiddleware",
            "ModelRefusalMiddleware",
            "ModelFallbackMiddleware",
            "ProviderToolSearchMiddleware",
        )
    )

    def __init__(
        self,
        *,
        ttl: Literal["5m", "1h"] = "5m",
        min_tokens: int = 1024,
        openai_cache_key: bool = False,
        provider: Provider | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        check_choice("ttl", ttl, ("5m", "1h"))
        check_count("min_tokens", min_tokens, required=True)
        check_bool("openai_cache_key", openai_cache_key)
        if provider is not None:
            check_choice("provider", provider, get_args(Provider))
        self.ttl, self.min_tokens = ttl, min_tokens
        self.openai_cache_key, self.provider = openai_cache_key, provider
        self._mark = {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}
        self._tools = marked_tools(_MARK, self._mark)
        self._last_prompt: Sequence[object] | None = None

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelResponse]:
        """Call the model with a marked request."""
        provider = self.provider or known_provider(request.model)
        if provider == "anthropic":
            request = self._marked(request)
        elif provider == "bedrock" and _CACHED_AT_BEDROCK.search(model_name(request.model) or ""):
            # langchain-aws makes cache points of this setting (seen with 1.9.1).
            settings = {_MARK: self._mark, **request.model_settings}
            request = request.override(model_settings=settings)
        elif provider == "openai" and self.openai_cache_key:
            info = request.runtime.execution_info if request.runtime else None
            if info is not None and info.thread_id is not None:
                # The id itself may be personal data.
                key = sha256(info.thread_id.encode()).hexdigest()[:32]
                settings = {"prompt_cache_key": key, **request.model_settings}
                request = request.override(model_settings=settings)
        response: ModelResponse = yield request
        return response

    def _marked(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request with marks, the most useful first if there are few left."""
        # Marks of the user and of layers further out count as well.
        parts = [request.system_message] if request.system_message else []
        contents = [message.content for message in [*parts, *request.messages]]
        several = [block for c in contents if not isinstance(c, str) for block in c]
        in_blocks = sum(isinstance(block, Mapping) and _MARK in block for block in several)
        marks = in_blocks + sum(mark_of(tool, _MARK) is not None for tool in request.tools)
        # The setting of automatic caching takes a mark, too.
        model = request.model
        bound, own = getattr(model, "kwargs", {}), getattr(unbound(model), "model_kwargs", None)
        marks += any(s.get(_MARK) for s in (request.model_settings, bound, own or {}))
        left = _MOST_MARKS - marks

        def is_long(messages: Sequence[AnyMessage], system: SystemMessage | None) -> bool:
            part = request.override(system_message=system)
            return tokens_sent(part, messages, count_tokens_approximately) >= self.min_tokens

        system, messages = request.system_message, list(request.messages)
        changes: dict[str, Any] = {}
        for index in message_marks(request)[: max(0, left)]:
            if is_long(messages[: index + 1], system):
                changes["messages"] = messages
                content = self._blocks(messages[index].content)
                messages[index] = messages[index].model_copy(update={"content": content})
                left -= 1
        if system is not None:
            blocks = _as_blocks(system.content)
            # Only the common beginning of both prompts can be in the cache.
            last, self._last_prompt = self._last_prompt, blocks
            same = [a == b for a, b in zip(last or blocks, blocks, strict=False)]
            stays = same.index(False) if False in same else len(same)
            if left > 0 and stays and _can_be_marked(blocks[stays - 1]) and is_long([], system):
                content = [*self._blocks(blocks[:stays]), *blocks[stays:]]
                changes["system_message"] = system.model_copy(update={"content": content})
                left -= 1
        tools = request.tools
        # A provider loads a deferred tool when it is searched for, and refuses to cache it.
        loaded = (tool for tool in reversed(tools) if not mark_of(tool, "defer_loading"))
        last_tool = next(filter(_takes_mark, loaded), None)
        has_mark = any(mark_of(tool, _MARK) for tool in tools)
        if left > 0 and last_tool is not None and not has_mark and is_long([], None):
            tool_with_mark = self._tools.of(last_tool)
            changes["tools"] = [tool_with_mark if tool is last_tool else tool for tool in tools]
        return request.override(**changes) if changes else request

    def _blocks(self, content: object) -> list[object]:
        """Content as blocks, with a mark at the last block."""
        *before, last = _as_blocks(content)
        return [*before, {**last, _MARK: self._mark}]


def message_marks(request: ModelRequest[Any]) -> list[int]:
    """The messages to mark: the newest that lasts, and the last of the request before."""
    thread_ids = {id(message) for message in request.state.get("messages", ())}
    messages = request.messages
    can = [
        index
        for index, message in enumerate(messages)
        if message.type in ("human", "tool")
        and message.content
        and _can_be_marked(_as_blocks(message.content)[-1])
    ]
    answers = [index for index, message in enumerate(messages) if isinstance(message, AIMessage)]
    before = [index for index in can if answers and index < answers[-1]]
    newest = [index for index in can if id(messages[index]) in thread_ids]
    # A layer may rewrite all messages, the same way each time.
    indexes = [*newest[-1:], *before[-1:]]
    return list(dict.fromkeys(indexes))


def _as_blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        content = [content]
    return [{"type": "text", "text": b} if isinstance(b, str) else b for b in content]


def _can_be_marked(block: Mapping[str, object]) -> bool:
    text = block.get("text") if block.get("type") == "text" else None
    return isinstance(text, str) and bool(text.strip()) and _MARK not in block


def _takes_mark(tool: object) -> bool:
    """Return True unless a tool is converted to the provider's form, without a mark."""
    is_dict = isinstance(tool, Mapping) and tool.get("type") != "function"
    return is_dict or isinstance(tool, BaseTool)
