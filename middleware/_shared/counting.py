"""Attempts of calls: each one counts once, however many limits count it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_under_way: ContextVar[tuple[object, dict[str, Any]]] = ContextVar("attempt", default=(None, {}))


@contextmanager
def attempt(runtime: object) -> Iterator[dict[str, Any]]:
    """Begin an attempt; yield what limits further out note about it, empty for the first limit."""
    outer, notes = _under_way.get()
    token = _under_way.set((runtime, notes if outer is runtime else {}))
    try:
        yield _under_way.get()[1]
    finally:
        _under_way.reset(token)
