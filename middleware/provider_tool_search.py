"""Offer many tools that the provider keeps out of the prompt until its model searches for them.

The marks and the search tools are the providers' own:

- Anthropic: tools with `defer_loading`, and a tool of type `tool_search_tool_regex_20251119`
  (platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool).
- OpenAI's Responses API: functions with `defer_loading`, and a tool of type `tool_search`
  (developers.openai.com/api/docs/guides/tools-tool-search).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final, Literal

from langchain_core.tools import BaseTool

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Flow,
    ModelRequest,
    ModelResponse,
    Ordering,
    TurnError,
)
from agent_factory.types import unbound

from ._shared.messages import tool_names
from ._shared.models import Provider, forced_tool, is_search_tool, known_provider
from ._shared.provider_marks import mark_of, marked_tools
from ._shared.validation import check_choice

__all__ = ["ProviderToolSearchMiddleware"]

SEARCH_TOOLS: Final[dict[str, dict[str, str]]] = {
    "anthropic": {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
    "openai": {"type": "tool_search"},
}
"""The tool by which each provider searches among deferred tools."""

_MARK = "defer_loading"


class ProviderToolSearchMiddleware(AgentMiddleware[AgentState, Any]):
    """Marks tools for deferred loading and adds the search tool of the model's provider.

    The provider keeps deferred tools out of the prompt until its model has searched for them. The
    search runs on the provider's side; tool calls and their results look as usual. The tools that
    you passed are not changed: the request gets marked copies.

    The mark of a tool takes precedence: `extras={"defer_loading": True}` defers it, False never
    does. A tool named by the request's `tool_choice` is not deferred, because providers refuse to
    force a tool that is not loaded. Without deferred tools, the request passes unchanged. If the
    request has a search tool already (a dict whose type starts with "tool_search"), none is added.

    Args:
        searchable_tools: The tools to defer, as names or BaseTool instances. None: the tools with
            the mark, or all client tools if none has a mark.
        provider: "anthropic" or "openai". None: derived from the class of the model, which is
            `ChatAnthropic`, `ChatOpenAI`, `AzureChatOpenAI` or a subclass, bound or not.
        on_unsupported: The effect with a model of another provider. "warn": the request passes
            unchanged, with one warning for each class of models. "error": the call raises
            TurnError.
        name: The name of this instance, if a stack has several.

    Raises:
        ValueError: `searchable_tools` is empty, or `provider` or `on_unsupported` is unknown; at a
            model call: the request has no tool of a name in `searchable_tools`.
        TypeError: `searchable_tools` is not a list of names and tools.

    >>> ProviderToolSearchMiddleware(searchable_tools=["search_mail"], provider="openai").provider
    'openai'
    """

    ordering = Ordering(extends=("tools",))

    def __init__(
        self,
        *,
        searchable_tools: Sequence[str | BaseTool] | None = None,
        provider: Provider | None = None,
        on_unsupported: Literal["warn", "error"] = "warn",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if provider is not None:
            check_choice("provider", provider, tuple(SEARCH_TOOLS))
        check_choice("on_unsupported", on_unsupported, ("warn", "error"))
        self.searchable_tool_names = tool_names(searchable_tools, "searchable_tools") or frozenset()
        self.expected_tools = self.searchable_tool_names
        self.provider, self.on_unsupported = provider, on_unsupported
        self._copies = marked_tools(_MARK, True)
        self._warned_models: set[str] = set()

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelResponse]:
        """Offer the tools in the form in which the provider searches among them."""
        marks = {
            name: mark_of(tool, _MARK)
            for tool in request.tools
            # A tool of the provider is a dict.
            if (name := getattr(tool, "name", None)) is not None
        }
        searchable = self.searchable_tool_names
        # Without any tool, the request is for a last answer.
        if marks and (missing := sorted(searchable - marks.keys())):
            close = [match for name in missing for match in get_close_matches(name, marks, n=1)]
            hint = f"Did you mean {close[0]!r}?" if close else "Correct the name."
            raise ValueError(
                f"{self.name}: searchable_tools must name tools of the request, got "
                f"{', '.join(map(repr, missing))}; the tools are {', '.join(sorted(marks))}. "
                f"{hint} For a tool that another layer hides or adds, write "
                '@tool(extras={"defer_loading": True}) instead.'
            )
        with_mark = {name for name, mark in marks.items() if mark}
        without_mark = {name for name, mark in marks.items() if mark is None}
        hidden_names = (
            with_mark | (without_mark & searchable) if searchable else with_mark or without_mark
        )
        if hidden_names:
            # A provider refuses to force a tool outside of the prompt.
            hidden_names.discard(forced_tool(request.tool_choice))
        provider = self._provider_of(request.model) if hidden_names else None
        if provider is not None:
            tools: list[Any] = [
                self._copies.of(tool)
                if isinstance(tool, BaseTool)
                and tool.name in hidden_names
                and not mark_of(tool, _MARK)
                else tool
                for tool in request.tools
            ]
            # The user may pass a search tool of the provider, perhaps another version.
            if not any(map(is_search_tool, tools)):
                # The same object each time, because models are bound again for other tools.
                tools.append(SEARCH_TOOLS[provider])
            request = request.override(tools=tools)
        response: ModelResponse = yield request
        return response

    def _provider_of(self, model: object) -> str | None:
        """The provider whose search is used; None if the model has no supported provider."""
        if self.provider is not None:
            return self.provider
        if (provider := known_provider(model)) in SEARCH_TOOLS:
            return provider
        cls = type(unbound(model))
        reason = f"knows no tool search of the provider of {cls.__name__}, so no tool is deferred."
        hint = (
            "Use a model of Anthropic or OpenAI, name the provider whose API the model has "
            '(provider="anthropic" or "openai"), or let a model choose: LLMToolSelectorMiddleware.'
        )
        if self.on_unsupported == "error":
            raise TurnError(self.name, reason, hint)
        # Once for each kind of model, and not at each call.
        if cls.__name__ not in self._warned_models:
            self._warned_models.add(cls.__name__)
            warnings.warn(f"{self.name} {reason} {hint}", stacklevel=2)
        return None
