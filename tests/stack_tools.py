"""TODO."""

from __future__ import annotations


def find(query: str) -> str:
    """Find something."""
    return f"found {query} for ada@example.com"


def break_down(query: str) -> str:
    """Fail."""
    raise ConnectionError(query)
