"""Marks that providers read on tools, and which provider a model belongs to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from langchain_core.tools import BaseTool

from .models import unbound

Provider = Literal["anthropic", "openai"]

_PROVIDERS: Final[dict[str, Provider]] = {
    "ChatAnthropic": "anthropic",
    "ChatOpenAI": "openai",
    "AzureChatOpenAI": "openai",
}
"""The provider of each class of chat models, by the name of the class."""


def known_provider(model: Any) -> Provider | None:
    """The provider of a model, bound or not, by the names of its classes; None for others."""
    # mypy takes no class for hashable.
    return _provider_of_class(type(unbound(model)))  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _provider_of_class(cls: type[Any]) -> Provider | None:
    found = (_PROVIDERS[base.__name__] for base in cls.__mro__ if base.__name__ in _PROVIDERS)
    return next(found, None)


class MarkedTools:
    """Copies of tools with a mark, the same for the same tool, because models are bound to objects.

    A BaseTool carries the mark in its public field `extras`, which `langchain-anthropic` and
    `langchain-openai` pass to their providers (seen with 1.7.7 and 1.7.3); a dict has it as a key.
    """

    SIZE = 1024
    """How many copies are kept."""

    def __init__(self, key: str, value: Any) -> None:
        self._key = key
        self._value = value
        self._copies: OrderedDict[int, tuple[Any, Any]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._copies)

    def copy_of(self, tool: BaseTool | Mapping[str, Any]) -> Any:
        """The marked copy of a tool."""
        if known := self._copies.get(id(tool)):
            return known[1]
        mark = {self._key: self._value}
        copy: Any = {**tool, **mark} if isinstance(tool, Mapping) else None
        if isinstance(tool, BaseTool):
            copy = tool.model_copy(update={"extras": {**(tool.extras or {}), **mark}})
        # The entry holds the tool, so that its id is not reused for another tool.
        self._copies[id(tool)] = (tool, copy)
        if len(self._copies) > self.SIZE:
            self._copies.popitem(last=False)
        return copy


def mark_of(tool: Any, key: str) -> Any:
    """The value of a mark of a tool; None without one."""
    marks = tool if isinstance(tool, dict) else getattr(tool, "extras", None)
    return marks.get(key) if marks else None
