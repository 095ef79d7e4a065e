"""Runtime of a tool that runs once, for the tool and the layers around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from langgraph.prebuilt import ToolRuntime

from agent_factory import Flow
from agent_factory.types import graph_namespace, run_services

OnUnknown = Literal["rerun", "ask", "fail"]
"""What happens if an earlier attempt of a call was started and its outcome is unknown."""


@dataclass
class EffectRuntime(ToolRuntime[Any, Any]):
    """The runtime of a call whose effect is recorded."""

    idempotency_key: str = ""  # of the record
    on_unknown: OnUnknown = "fail"
    end: Callable[..., Flow[None]] | None = None  # records a result, or None and an exception
    is_left: bool = False  # to the job of a background tool, which records its own end


class Recording(NamedTuple):
    """Store for the effects of a run; `run` is None if each thread names its run."""

    store: Any  # an EffectStore
    run: str | None
    call: EffectRuntime | None = None
    """Runtime of the innermost call around that is recorded."""


def recording_here() -> Recording | None:
    """Return the recording of `effects_of_run`, or of a call, in this context."""
    recording: Recording | None = run_services.get().effects
    return recording


def leave_effect(runtime: ToolRuntime[Any, Any]) -> Callable[..., Flow[None]] | None:
    """Return a function that records the end of a call, for a job; None without a record."""
    recording = recording_here()
    effect = recording and recording.call
    if effect is None or _place(effect) != _place(runtime):
        return None
    effect.is_left = True
    return effect.end


def _place(runtime: ToolRuntime[Any, Any]) -> object:
    # A job is a thread by itself, and models give ids again.
    thread = (runtime.config.get("configurable") or {}).get("thread_id")
    return thread, graph_namespace(runtime.config), runtime.tool_call_id


def on_unknown(runtime: object) -> OnUnknown | None:
    """Policy for an attempt whose outcome is unknown; None if no effect is recorded."""
    return runtime.on_unknown if isinstance(runtime, EffectRuntime) else None
