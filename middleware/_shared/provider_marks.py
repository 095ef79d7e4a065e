"""Marks that providers read on tools."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_core.tools import BaseTool

from .identity import IdentityCache


def marked_tools(key: str, value: object) -> IdentityCache[object]:
    """Copies of tools with a mark, the same for the same tool, because models are bound to objects.

    A BaseTool carries the mark in its public field `extras`, which `langchain-anthropic` and
    `langchain-openai` pass to their providers (seen with 1.7.7 and 1.7.3); a dict has it as a key.
    """

    def marked(tool: BaseTool | Mapping[str, object]) -> object:
        if isinstance(tool, BaseTool):
            return tool.model_copy(update={"extras": {**(tool.extras or {}), key: value}})
        return {**tool, key: value}

    return IdentityCache(marked)


def mark_of(tool: object, key: str) -> object:
    """The value of a mark of a tool; None without one."""
    marks = tool if isinstance(tool, dict) else getattr(tool, "extras", None)
    return marks.get(key) if marks else None
