"""Runtime of a tool that runs once, as the tool and the layers around it see it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from langgraph.prebuilt import ToolRuntime

from agent_factory import Flow
from agent_factory.types import graph_namespace

OnUnknown = Literal["rerun", "ask", "fail"]
"""What happens if an earlier attempt of a call was started and its outcome is unknown."""


@dataclass
class EffectRuntime(ToolRuntime[Any, Any]):
    """The runtime of a call whose effect is recorded."""

    idempotency_key: str = ""  # of the record
    on_unknown: OnUnknown = "fail"


@dataclass(slots=True)
class OpenEffect:
    """Effect of a call that runs. A job in the background may take it, and record how it ends."""

    call: object
    end: Callable[[object, BaseException | None], Flow[None]]  # by a result or an exception
    is_taken: bool = False


open_effect: ContextVar[OpenEffect | None] = ContextVar("open_effect", default=None)


def call_of(runtime: ToolRuntime[Any, Any]) -> object:
    """Return what tells a call from others: its agent's namespace, and its id."""
    return graph_namespace(runtime.config), runtime.tool_call_id


def take_effect(runtime: ToolRuntime[Any, Any]) -> OpenEffect | None:
    """Return the effect of a call, which its job ends; None if no effect is recorded."""
    effect = open_effect.get()
    if effect is None or effect.call != call_of(runtime):
        return None
    effect.is_taken = True
    return effect


def on_unknown(runtime: object) -> OnUnknown | None:
    """Policy for an attempt whose outcome is unknown; None if no effect is recorded."""
    return runtime.on_unknown if isinstance(runtime, EffectRuntime) else None
