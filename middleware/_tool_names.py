"""Which tools a middleware is about: names, or the tools themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.tools import BaseTool


def tool_names(
    tools: Iterable[str | BaseTool] | None, argument: str = "tools"
) -> frozenset[str] | None:
    """The names of some tools; None where all are meant. Errors call them by `argument`.

    Raises:
        TypeError: It is no list of names and tools.
        ValueError: It is empty.

    >>> sorted(tool_names(["search", "fetch"]))
    ['fetch', 'search']
    """
    if tools is None:
        return None
    if isinstance(tools, str | BaseTool | dict) or not isinstance(tools, Iterable):
        raise TypeError(f"{argument} must be a list, not {tools!r}: write {argument}=['search'].")
    names = frozenset(_name(tool, argument) for tool in tools)
    if not names:
        raise ValueError(
            f"{argument} is empty, so no call would be covered. Leave it out for all tools."
        )
    return names


def _name(tool: Any, argument: str) -> str:
    name = tool.name if isinstance(tool, BaseTool) else tool
    if not isinstance(name, str) or not name:
        raise TypeError(
            f"{argument} must hold names of tools, or BaseTool instances, not {tool!r}. A function "
            f"becomes a tool of its own name: write {argument}=['search'] for `def search(...)`."
        )
    return name
