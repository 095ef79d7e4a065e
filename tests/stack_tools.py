"""Tools of the stacks of built-in middleware that tests draw."""

from __future__ import annotations


def find(query: str) -> str:
    """Find something."""
    return f"found {query} for ada@example.com"


def break_down(query: str) -> str:
    """Fail."""
    raise ConnectionError(query)


def look(word: str) -> str:
    """Look a word up."""
    return f"{word}: " + "long " * 40
