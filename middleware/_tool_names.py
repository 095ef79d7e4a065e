"""Which tools a middleware is about: names, or the tools themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.tools import BaseTool


def tool_names(tools: Iterable[str | BaseTool] | None) -> frozenset[str] | None:
    """The names of some tools; None where all are meant.

    Raises:
        TypeError: It is no list of names and tools.
        ValueError: It is empty.

    >>> sorted(tool_names(["search", "fetch"]))
    ['fetch', 'search']
    """
    if tools is None:
        return None
    if isinstance(tools, str | BaseTool | dict) or not isinstance(tools, Iterable):
        raise TypeError(f"tools must be a list, not {tools!r}: write tools=['search'].")
    names = frozenset(map(_name, tools))
    if not names:
        raise ValueError("tools is empty, so no call would be covered. Leave it out for all tools.")
    return names


def _name(tool: Any) -> str:
    name = tool.name if isinstance(tool, BaseTool) else tool
    if not isinstance(name, str) or not name:
        raise TypeError(
            f"tools must hold names of tools, or BaseTool instances, not {tool!r}. A function "
            "becomes a tool of its own name: write tools=['search'] for `def search(...)`."
        )
    return name
