"""Many tools, of which the provider shows its model only those it searches for.

The marks and the search tools are the providers' own:

- Anthropic: tools with `defer_loading`, beside a tool of type `tool_search_tool_regex_20251119`
  (platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool).
- OpenAI's Responses API: functions with `defer_loading`, beside a tool of type `tool_search`
  (developers.openai.com/api/docs/guides/tools-tool-search).

A LangChain tool carries such a mark in its public field `extras`, which `langchain-anthropic` and
`langchain-openai` hand to their providers (seen with 1.7.7 and 1.7.3).
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, Literal

from langchain_core.runnables.base import RunnableBinding
from langchain_core.tools import BaseTool

from agent_factory import AgentMiddleware, AgentState, ModelRequest, ModelResponse, TurnError
from agent_factory.middleware._shared.messages import tool_names
from agent_factory.middleware._shared.portable_request import forced_tool
from agent_factory.middleware._shared.validation import check_choice

__all__ = ["ProviderToolSearchMiddleware"]

Provider = Literal["anthropic", "openai"]

SEARCH_TOOLS: Final[dict[str, dict[str, Any]]] = {
    "anthropic": {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
    "openai": {"type": "tool_search"},
}
"""The tool by which each provider searches among deferred tools."""

_PROVIDER_OF = {
    "ChatAnthropic": "anthropic",
    "ChatOpenAI": "openai",
    "AzureChatOpenAI": "openai",
}

_MARK = "defer_loading"


class ProviderToolSearchMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Marks tools for deferred loading and adds the search tool of the model's provider.

    The provider keeps deferred tools out of the prompt until its model has searched for them. The
    search runs on the provider's side; calls and results look as ever, so nothing else changes.
    The tools you gave stay as they are: the request gets marked copies.

    A tool's own mark decides: `extras={"defer_loading": True}` defers it, False never does. A tool
    that the request's `tool_choice` names is not deferred, since providers refuse to force a tool
    that is not loaded. Where no tool is deferred, the request passes unchanged. A search tool that
    is there already (a dict whose type starts with "tool_search") stays, and none is added.

    Args:
        searchable_tools: The tools to defer, as names or BaseTool instances. None: those that
            carry the mark; where none does, all client tools.
        provider: "anthropic" or "openai". None: told from the class of the model, which is
            `ChatAnthropic`, `ChatOpenAI`, `AzureChatOpenAI` or a subclass, bound or not.
        on_unsupported: What to do with a model of another provider. "warn": the request passes
            unchanged, with one warning for each class of models. "error": the call raises
            TurnError.
        name: Tells several instances apart.

    Raises:
        ValueError: `searchable_tools` is empty, or a word is unknown.
        TypeError: `searchable_tools` is no list of names and tools.

    >>> ProviderToolSearchMiddleware(searchable_tools=["search_mail"], provider="openai").provider
    'openai'
    """

    SIZE = 1024
    """How many marked copies are kept: the same tool gets the same copy in each turn."""

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
        self.searchable_tools = tool_names(searchable_tools, "searchable_tools")
        self.provider = provider
        self.on_unsupported = on_unsupported
        self._copies: OrderedDict[int, tuple[BaseTool, BaseTool]] = OrderedDict()
        self._warned: set[str] = set()

    def around_model(self, request: ModelRequest[Any]) -> Generator[Any, Any, ModelResponse[Any]]:
        """Offers the tools in the form in which the provider searches among them."""
        deferred = self._deferred(request)
        provider = self._provider_of(request.model) if deferred else None
        if provider is not None:
            tools = [self._offered(tool, deferred) for tool in request.tools]
            request = request.override(tools=[*tools, *_search_tool(provider, tools)])
        response: ModelResponse[Any] = yield request
        return response

    def _deferred(self, request: ModelRequest[Any]) -> set[str]:
        tools = [tool for tool in request.tools if isinstance(tool, BaseTool)]
        marked = [tool for tool in tools if tool.extras]  # hardly any
        deferred = {tool.name for tool in marked if _mark(tool)}
        wanted = self.searchable_tools
        if wanted is not None:
            deferred |= {t.name for t in tools if t.name in wanted and _mark(t) is None}
        elif not deferred:
            deferred = {tool.name for tool in tools if _mark(tool) is None}
        return deferred - {forced_tool(request.tool_choice)} if deferred else deferred

    def _provider_of(self, model: Any) -> str | None:
        """The provider whose search is used; None where there is none to use.

        Raises:
            TurnError: There is none, and that should be an error.
        """
        model = _unbound(model)
        names = (cls.__name__ for cls in type(model).__mro__)
        told = next((_PROVIDER_OF[name] for name in names if name in _PROVIDER_OF), None)
        provider = told if self.provider is None else self.provider
        if provider is None:
            self._refuse(type(model).__name__)
        return provider

    def _refuse(self, kind: str) -> None:
        reason = f"knows no tool search of the provider of {kind}, so its tools stay undeferred."
        hint = (
            "Take a model of Anthropic or OpenAI, name the provider whose interface it speaks "
            '(provider="anthropic" or "openai"), or let a model choose: LLMToolSelectorMiddleware.'
        )
        if self.on_unsupported == "error":
            raise TurnError(self.name, reason, hint)
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(f"{self.name} {reason} {hint}", stacklevel=2)

    def _offered(self, tool: Any, deferred: set[str]) -> Any:
        """The tool, or a marked copy; the same one each time, as models are bound to objects."""
        if not isinstance(tool, BaseTool) or tool.name not in deferred or _mark(tool):
            return tool
        if known := self._copies.get(id(tool)):
            return known[1]
        copy = tool.model_copy(update={"extras": {**(tool.extras or {}), _MARK: True}})
        self._copies[id(tool)] = (tool, copy)  # held, so that no other tool gets its id
        if len(self._copies) > self.SIZE:
            self._copies.popitem(last=False)
        return copy


def _mark(tool: BaseTool) -> bool | None:
    mark = (tool.extras or {}).get(_MARK)
    return None if mark is None else bool(mark)


def _unbound(model: Any) -> Any:
    while isinstance(model, RunnableBinding):
        model = model.bound
    return model


def _search_tool(provider: str, tools: Sequence[Any]) -> list[dict[str, Any]]:
    """The provider's search tool, unless one is there already."""
    types = [str(tool.get("type")) for tool in tools if isinstance(tool, Mapping)]
    there = any(kind.startswith("tool_search") for kind in types)
    # The same object each time: models are bound anew for other tools.
    return [] if there else [SEARCH_TOOLS[provider]]
