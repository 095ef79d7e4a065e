"""Recover from a conversation that is too long for the model.

Each layer that can make a conversation smaller says so while it calls inward. The innermost layer
catches the error of the provider, asks all of them in the order of `LADDER`, until the request is
smaller by a quarter, and calls the model once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import AnyMessage
from langchain_core.messages.utils import count_tokens_approximately

from agent_factory import Flow, ModelRequest, ModelResponse, set_reason
from agent_factory.providers import is_overflow

from .token_counter import tokens_sent, window_of

LADDER: Final = ("clear", "offload", "summarize", "cut")
"""The steps in which a conversation is made smaller, those that cost and hide least first."""

_ENOUGH = 0.75
"""Share of the request that overflowed which is small enough for another try. A conversation mostly
overflows a little at a time, and its next turns need room too."""

_OF_WINDOW = 0.9
"""Share of the model's window that an estimate of tokens may fill."""

_MAX_ROUNDS = 4
"""Further calls for one request. Four leave less than a third of it, if each frees enough."""

Reduction = tuple[list[AnyMessage], str] | None
"""The smaller conversation, and what was done to it; None if there was nothing to do."""

Fits = Callable[[Sequence[AnyMessage]], bool]

Free = Callable[[ModelRequest[Any], Fits], Flow[Reduction]]
"""Makes the conversation of a request smaller. It may stop where its second argument, a function of
messages, returns True."""

_Steps = tuple[tuple[str, Free], ...]


@dataclass(slots=True)
class _Ladder:
    """The steps of all layers around one model call, the outermost layer's first."""

    state: object  # the state of the call: a nested agent has another state, and its own ladder
    steps: _Steps = ()
    done: tuple[str, ...] = ()
    rounds: int = 0
    is_used_up: bool = False
    is_awaited: bool = False  # a layer further in would handle the error if nothing can be freed

    def climb(self, request: ModelRequest[Any], steps: _Steps) -> Flow[ModelRequest[Any] | None]:
        """The request, made smaller by these steps; None if nothing can be freed."""

        def size(messages: Sequence[AnyMessage]) -> int:
            return tokens_sent(request, messages, count_tokens_approximately)

        goal = size(request.messages) * _ENOUGH
        if window := window_of(request.model):
            goal = min(goal, window * _OF_WINDOW)
        notes: list[str] = []
        if self.rounds < _MAX_ROUNDS:
            # The sort is stable: among steps of a kind, the outermost layer's step comes first.
            for _, free in sorted(steps, key=lambda step: LADDER.index(step[0])):
                if notes and size(request.messages) <= goal:
                    break
                reduction = yield from free(request, lambda messages: size(messages) <= goal)
                if reduction is not None:
                    request = request.override(messages=reduction[0])
                    notes.append(reduction[1])
        self.rounds += 1
        self.done += tuple(notes)
        return request if notes else None

    def add_note(self, error: Exception) -> None:
        """Add the tried steps to an error; layers further out see the same error again."""
        steps = ", ".join(self.done) or "nothing could be cleared, offloaded, summarized or cut"
        note = f"The conversation is too long for the model, and nothing is left to free: {steps}."
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


_ladder: ContextVar[_Ladder | None] = ContextVar("ladder", default=None)


def plural(count: int, noun: str) -> str:
    """A number of things: "1 message", "2 messages"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def recovers_later(request: ModelRequest[Any]) -> bool:
    """Return True if a layer further out makes a too long conversation smaller.

    A layer that asks again, or another model, lets the error of the overflow pass then, and gets
    the error once more if nothing could be freed.
    """
    ladder = _ladder.get()
    if ladder is None or ladder.state is not request.state or ladder.is_used_up:
        return False
    ladder.is_awaited = True
    return True


def call_recovering(request: ModelRequest[Any], **last_steps: Free) -> Flow[ModelResponse]:
    """Call the inner layer; make a too long conversation smaller and call once more.

    `steps` are the steps of this layer, by their names in `LADDER`. With nothing left to free, the
    error is raised with a note about the tried steps.
    """
    ladder = before = _ladder.get()
    if ladder is None or ladder.state is not request.state:
        # A nested agent inherits the context variable, and must not take the steps around it.
        ladder = _Ladder(request.state)
    outer = ladder.steps
    steps = (*outer, *last_steps.items())
    while True:
        _ladder.set(ladder)
        ladder.steps = steps
        try:
            response: ModelResponse = yield request
            return response
        except Exception as error:
            if not is_overflow(error):
                raise
            if ladder.is_used_up:
                ladder.add_note(error)
                raise
            overflow = error
        finally:
            # Not by a token: a dropped coroutine may be closed in another context.
            ladder.steps = outer
            _ladder.set(before)
        smaller = yield from ladder.climb(request, steps)
        if smaller is not None:
            set_reason(f"overflow: {', '.join(ladder.done)}")
            request = smaller
            continue
        ladder.is_used_up = True
        if not ladder.is_awaited:
            ladder.add_note(overflow)
            raise overflow
