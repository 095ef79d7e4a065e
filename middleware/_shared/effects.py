"""Runtime of a tool that runs once, as the tool and the layers around it see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from langgraph.prebuilt import ToolRuntime

OnUnknown = Literal["rerun", "ask", "fail"]
"""What happens if an earlier attempt of a call was started and its outcome is unknown."""


@dataclass
class EffectRuntime(ToolRuntime[Any, Any]):
    """The runtime of a call whose effect is recorded."""

    idempotency_key: str = ""  # of the record
    on_unknown: OnUnknown = "fail"


def on_unknown(runtime: object) -> OnUnknown | None:
    """Policy for an attempt whose outcome is unknown; None if no effect is recorded."""
    return runtime.on_unknown if isinstance(runtime, EffectRuntime) else None
