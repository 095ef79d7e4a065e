"""OpenTelemetry for runs: spans of agents, model calls, tools, hooks and layers, and metrics.

>>> from agent_factory.telemetry import Telemetry, meter

Nothing is imported or recorded unless `Telemetry` is among the callbacks of a run. Names of spans,
attributes and metrics are those of OpenTelemetry's semantic conventions for generative AI.
"""

from __future__ import annotations

try:
    import opentelemetry.trace  # noqa: F401
except ImportError as error:
    raise ImportError(
        "agent_factory.telemetry needs opentelemetry-api: pip install 'agent-factory[otel]'"
    ) from error

from agent_factory.telemetry.metrics import meter
from agent_factory.telemetry.tracing import Telemetry

__all__ = ["Telemetry", "meter"]
