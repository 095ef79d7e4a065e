"""Metrics: the meter of this library, and the histograms of operations and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter, MeterProvider, get_meter

NAME: Final = "agent_factory"
SCHEMA: Final = "https://opentelemetry.io/schemas/1.41.0"
"""The version of the semantic conventions that names of spans and attributes follow."""

try:
    VERSION = version("agent-factory")
except PackageNotFoundError:  # run from source
    VERSION = ""

# The boundaries by recommendation of the conventions.
_CALL = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_RUN = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6]
_TOKENS = [4**power for power in range(14)]

_OF_MODELS = (
    "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model",
    "gen_ai.response.model", "error.type",
)  # fmt: skip


def meter(meter_provider: MeterProvider | None = None) -> Meter:
    """Return the meter of this library, for more metrics of the same scope.

    Args:
        meter_provider: The provider; None for OpenTelemetry's global one. Without an SDK, the meter
            records nothing.

    >>> waiting = meter().create_up_down_counter("shop.reviews.waiting", unit="{review}")
    >>> waiting.add(1)
    """
    return get_meter(NAME, VERSION, meter_provider, SCHEMA)


class Instruments:
    """The histograms of `Telemetry`, by the attributes of spans."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, description: str, boundaries: list[float]) -> Histogram:
            return meter.create_histogram(
                name, "s", description, explicit_bucket_boundaries_advisory=boundaries
            )

        models = seconds("gen_ai.client.operation.duration", "Duration of a model call.", _CALL)
        tools = seconds("gen_ai.execute_tool.duration", "Duration of a tool call.", _CALL)
        agents = seconds("gen_ai.invoke_agent.duration", "Duration of a run of an agent.", _RUN)
        self._durations = {
            "chat": (models, _OF_MODELS),
            "text_completion": (models, _OF_MODELS),
            "execute_tool": (tools, ("gen_ai.tool.name", "gen_ai.agent.name", "error.type")),
            "invoke_agent": (agents, ("gen_ai.agent.name", "error.type")),
        }
        self._first_chunk = seconds(
            "gen_ai.client.operation.time_to_first_chunk",
            "Time until a streaming model sends its first chunk.",
            _CALL,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens that a model call read or wrote.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )

    def record_end(self, attributes: Mapping[str, Any], seconds: float, context: Context) -> None:
        """Record the duration of an operation, and its tokens; nothing for hooks and the like."""
        operation = attributes.get("gen_ai.operation.name")
        if operation not in self._durations:
            return
        histogram, names = self._durations[operation]
        histogram.record(seconds, _only(names, attributes), context)
        for kind in ("input", "output"):
            tokens = attributes.get(f"gen_ai.usage.{kind}_tokens")
            if tokens is not None:
                labels = {**_only(_OF_MODELS, attributes), "gen_ai.token.type": kind}
                self._tokens.record(tokens, labels, context)

    def record_first_chunk(
        self, attributes: Mapping[str, object], seconds: float, context: Context
    ) -> None:
        """Record the time to a model's first chunk."""
        self._first_chunk.record(seconds, _only(_OF_MODELS, attributes), context)


def _only(names: tuple[str, ...], attributes: Mapping[str, object]) -> dict[str, Any]:
    return {name: attributes[name] for name in names if name in attributes}
