"""A tool of agents of `create_react_agent` that notes its calls."""

from __future__ import annotations

import pytest
from langchain_core.tools import tool

ran: list[str] = []
"""The tools that have run in this test."""


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    ran.append("add")
    return a + b
