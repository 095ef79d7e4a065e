"""Tools and schemas that many tests use, and short ways to read a result.

Test files import it as `samples`: pytest puts this folder on the path (`pythonpath` in
pyproject.toml).
"""

from __future__ import annotations

from typing import Any

from langchain_core.tools import tool
from pydantic import BaseModel


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


add_tool = tool(add)


class Answer(BaseModel):
    number: int


def last_text(result: Any) -> str:
    """The text of the last message."""
    return str(result["messages"][-1].text)


def tool_results(result: Any) -> list[tuple[str, str]]:
    """The text and the status of each tool message."""
    return [(m.text, m.status) for m in result["messages"] if m.type == "tool"]
