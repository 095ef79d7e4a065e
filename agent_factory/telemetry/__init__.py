"""OpenTelemetry for runs: spans of agents, model calls, tools, hooks and layers, and metrics.

>>> from agent_factory.telemetry import Telemetry, meter

Nothing is imported or recorded unless `Telemetry` is among the callbacks of a run. The names of
spans, attributes and metrics follow OpenTelemetry's semantic conventions for generative AI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_factory import lazy_names
from agent_factory.errors import require

if TYPE_CHECKING:
    from agent_factory.telemetry.metrics import meter as meter
    from agent_factory.telemetry.tracing import Telemetry as Telemetry

require("otel", __name__)

_HOME = {".metrics": "meter", ".tracing": "Telemetry"}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOME)
