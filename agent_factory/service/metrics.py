"""Metrics of a service, by OpenTelemetry where it is installed: runs, takeovers, queue, waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from sqlalchemy import Column, ColumnElement, func, select

from agent_factory.service.database import Database
from agent_factory.service.tables import threads, waits, workers

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation

logger = logging.getLogger("agent_factory.service")

ThreadStatus = Literal["idle", "queued", "running", "waiting", "failed"]
"""The statuses of threads."""

Measure = Callable[["CallbackOptions"], Iterable["Observation"]]


class Metrics:
    """Counts what a worker does, and lets OpenTelemetry observe the tables.

    Without opentelemetry-api, or without an SDK, nothing is measured. No metric names a tenant, a
    thread or a person.

    - `agent_factory.service.runs` (counter): jobs that have ended, by `agent` and `status`.
    - `agent_factory.service.run.duration` (histogram, seconds): how long a job ran, by the same.
    - `agent_factory.service.takeovers` (counter): jobs taken over from dead workers.
    - `agent_factory.service.threads` (gauge): threads by `status`; "queued" is the queue.
    - `agent_factory.service.waits` (gauge): undecided waits, by `agent`.
    - `agent_factory.service.workers` (gauge): workers that are alive, by `draining`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._instruments: Instruments | None = None
        try:
            from agent_factory.telemetry import meter
        except ImportError:
            return  # OpenTelemetry comes with an extra
        otel_meter = meter()
        name = "agent_factory.service"
        self._instruments = Instruments(
            otel_meter.create_counter(f"{name}.runs", "{run}", "Jobs that have ended"),
            otel_meter.create_histogram(
                f"{name}.run.duration",
                "s",
                "How long a job ran",
                explicit_bucket_boundaries_advisory=_BOUNDARIES,
            ),
            otel_meter.create_counter(
                f"{name}.takeovers", "{run}", "Jobs taken over from workers that have died"
            ),
        )
        for gauge in _GAUGES:
            otel_meter.create_observable_gauge(
                f"{name}.{gauge.name}", [self._observer(gauge)], gauge.unit, gauge.description
            )

    def ended(self, agent: str, status: str, seconds: float) -> None:
        """Count a job that has ended."""
        if self._instruments is not None:
            attributes = {"agent": agent, "status": status}
            self._instruments.runs.add(1, attributes)
            self._instruments.seconds.record(seconds, attributes)

    def taken_over(self, jobs: int) -> None:
        """Count jobs that were taken over."""
        if self._instruments is not None:
            self._instruments.takeovers.add(jobs)

    def _observer(self, gauge: Gauge) -> Measure:
        from opentelemetry.metrics import Observation

        query = select(gauge.column, func.count()).group_by(gauge.column)
        if gauge.condition is not None:
            query = query.where(gauge.condition)

        def observe(options: CallbackOptions) -> Iterable[Observation]:
            try:
                with self._database.read() as connection:
                    rows = connection.execute(query).all()
            except Exception as error:
                # A gap in a gauge, rather than an error in the thread of the exporter. Creating the
                # tables has errors of its drivers.
                logger.warning("The %s cannot be counted: %s", gauge.name, error)
                return []
            numbers = dict.fromkeys(gauge.values, 0) | {row[0]: row[1] for row in rows}
            return [
                Observation(number, {gauge.column.name: value}) for value, number in numbers.items()
            ]

        return observe


@dataclass(frozen=True, slots=True)
class Instruments:
    """Instruments of OpenTelemetry.

    Args:
        runs: Counts jobs that have ended.
        seconds: Takes how long they ran.
        takeovers: Counts jobs that were taken over.
    """

    runs: Counter
    seconds: Histogram
    takeovers: Counter


@dataclass(frozen=True, slots=True)
class Gauge:
    """Rows of a table that are counted by the values of a column, whose name is the attribute.

    Args:
        name: The last part of the metric's name.
        unit: The unit.
        description: The description.
        column: The column.
        values: Values that are observed as 0 if no row has them, so that their series stay.
        condition: Which rows count; None counts all.
    """

    name: str
    unit: str
    description: str
    column: Column[Any]
    values: Sequence[object] = ()
    condition: ColumnElement[bool] | None = None


_GAUGES = (
    Gauge("threads", "{thread}", "Threads", threads.c.status, get_args(ThreadStatus)),
    Gauge("waits", "{wait}", "Undecided waits", waits.c.agent, (), waits.c.decided_at.is_(None)),
    Gauge("workers", "{worker}", "Workers alive", workers.c.draining, (False, True)),
)

_BOUNDARIES = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]
"""Upper ends of the histogram's buckets, in seconds: a run may take an hour."""


def traceparent() -> str | None:
    """The current span in the form of W3C Trace Context, so that a run can continue its trace."""
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return None
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")
