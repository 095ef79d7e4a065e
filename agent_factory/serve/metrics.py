"""Metrics of this process in the text form of Prometheus."""

from __future__ import annotations

from agent_factory.errors import MissingExtra, require


def export_metrics() -> bool:
    """Let OpenTelemetry keep the metrics of this process, for `exposition`.

    A provider of metrics from the product stays. To have its metrics here as well, give it a
    `PrometheusMetricReader`.

    Returns:
        False if the extra `metrics` is not installed.
    """
    try:
        require("metrics", "The route /metrics")
    except MissingExtra:
        return False
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.metrics import get_meter_provider, set_meter_provider
    from opentelemetry.sdk.metrics import MeterProvider

    # Until a provider is set, OpenTelemetry returns a proxy, which is of another class.
    if not isinstance(get_meter_provider(), MeterProvider):
        set_meter_provider(MeterProvider([PrometheusMetricReader()]))
    return True


def exposition() -> tuple[bytes, str]:
    """Return the metrics of this process, and their content type. Needs the extra `metrics`."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    return generate_latest(), CONTENT_TYPE_LATEST
