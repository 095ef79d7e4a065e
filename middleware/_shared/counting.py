"""Attempts of calls: each counts once, with any number of limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock
from typing import Any

from langchain_core.messages import AIMessage, ToolCall

from agent_factory import ToolCallRequest
from agent_factory.errors import sentence
from agent_factory.types import run_of_node

from .errors import format_error

Notes = dict[str, Any]
"""What the limits around an attempt note about it, for those further in."""

_under_way: ContextVar[tuple[object, Notes] | None] = ContextVar("attempt", default=None)


@contextmanager
def attempt(runtime: object) -> Iterator[Notes]:
    """Begin an attempt, and yield its notes: empty for the outermost limit."""
    outer = _under_way.get()
    notes: Notes = outer[1] if outer and outer[0] is runtime else {}
    token = _under_way.set((runtime, notes))
    try:
        yield notes
    finally:
        _under_way.reset(token)


@contextmanager
def tool_attempt(request: ToolCallRequest, message: AIMessage | None) -> Iterator[Notes]:
    """Begin an attempt of a call in a message.

    Of its notes, "again" are the repeated attempts in the turn, and "before" says how the last
    attempt of this call ended, for the text of a refusal. A limit sets "has_run" if the attempt has
    run a tool; otherwise the attempt is forgotten.
    """
    call, run = request.tool_call, run_of_node(getattr(request.runtime, "config", None))
    with attempt(request.runtime) as notes:
        if notes:
            yield notes
            return
        turn = _turn(run, message.id) if run and message and message.id else _Turn()
        notes["again"] = again = turn.begin(call)
        notes["before"] = turn.ends.get(call["id"], " It has run before.") if call in again else ""
        try:
            yield notes
        except Exception as error:
            turn.ends[call["id"]] = f" It has failed before, with {sentence(format_error(error))}"
            raise
        finally:
            if "has_run" not in notes:
                turn.cancel(call)


class _Turn:
    """The attempts of the calls of a turn, whose tasks run in one process."""

    def __init__(self) -> None:
        self.ends: dict[str | None, str] = {}
        self._attempts: list[ToolCall] = []
        self._lock = Lock()

    def begin(self, call: ToolCall) -> list[ToolCall]:
        """Note an attempt, and return the repeated attempts."""
        with self._lock:
            self._attempts.append(call)
            ids = [each["id"] for each in self._attempts]
            return [each for i, each in enumerate(self._attempts) if each["id"] in ids[:i]]

    def cancel(self, call: ToolCall) -> None:
        """Forget an attempt."""
        with self._lock:
            self._attempts.remove(call)


@lru_cache(256)
def _turn(run: object, message: str) -> _Turn:
    return _Turn()
