"""Marks that providers read on tools."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_core.tools import BaseTool

from .identity import IdentityMap


class MarkedTools:
    """Copies of tools with a mark, the same for the same tool, because models are bound to objects.

    A BaseTool carries the mark in its public field `extras`, which `langchain-anthropic` and
    `langchain-openai` pass to their providers (seen with 1.7.7 and 1.7.3); a dict has it as a key.
    """

    SIZE = 1024
    """How many copies are kept."""

    def __init__(self, key: str, value: object) -> None:
        self._key, self._value = key, value
        self._copies: IdentityMap[object] = IdentityMap(self.SIZE)

    def __len__(self) -> int:
        return len(self._copies)

    def copy_of(self, tool: BaseTool | Mapping[str, object]) -> object:
        """The marked copy of a tool."""
        if (previous := self._copies.get(tool)) is not None:
            return previous
        mark = {self._key: self._value}
        copy: object = {**tool, **mark} if isinstance(tool, Mapping) else None
        if isinstance(tool, BaseTool):
            copy = tool.model_copy(update={"extras": {**(tool.extras or {}), **mark}})
        return self._copies.add(tool, copy)


def mark_of(tool: object, key: str) -> object:
    """The value of a mark of a tool; None without one."""
    marks = tool if isinstance(tool, dict) else getattr(tool, "extras", None)
    return marks.get(key) if marks else None
