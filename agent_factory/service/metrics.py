"""Metrics of a service, by OpenTelemetry where it is installed: runs, takeovers, queue, waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from sqlalchemy import Column, func, select, true

from agent_factory.service.database import Database
from agent_factory.service.rows import logger
from agent_factory.service.tables import threads, waits, workers

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation

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
        self._instruments: tuple[Counter, Histogram, Counter] | None = None
        try:
            from agent_factory.telemetry import meter
        except ImportError:
            return  # OpenTelemetry comes with an extra
        otel_meter = meter()
        name = "agent_factory.service"
        takeovers = "Jobs taken over from workers that have died"
        edges: dict[str, Any] = {"explicit_bucket_boundaries_advisory": _BOUNDARIES}
        self._instruments = (
            otel_meter.create_counter(f"{name}.runs", "{run}", "Jobs that have ended"),
            otel_meter.create_histogram(f"{name}.run.duration", "s", "How long a job ran", **edges),
            otel_meter.create_counter(f"{name}.takeovers", "{run}", takeovers),
        )
        is_open = waits.c.decided_at.is_(None)
        for part, unit, description, column, values, condition in (
            ("threads", "{thread}", "Threads", threads.c.status, get_args(ThreadStatus), true()),
            ("waits", "{wait}", "Undecided waits", waits.c.agent, (), is_open),
            ("workers", "{worker}", "Workers alive", workers.c.draining, (False, True), true()),
        ):
            observe = self._observer(part, column, values, condition)
            otel_meter.create_observable_gauge(f"{name}.{part}", [observe], unit, description)

    def ended(self, agent: str, status: str, seconds: float) -> None:
        """Count a job that has ended."""
        if self._instruments is not None:
            attributes, (runs, durations, _) = {"agent": agent, "status": status}, self._instruments
            runs.add(1, attributes)
            durations.record(seconds, attributes)

    def taken_over(self, jobs: int) -> None:
        """Count jobs that were taken over."""
        if self._instruments is not None:
            self._instruments[2].add(jobs)

    def _observer(
        self, name: str, column: Column[Any], values: Sequence[object], condition: Any
    ) -> Measure:
        """Count rows by the values of a column, its attribute; values without a row count as 0."""
        from opentelemetry.metrics import Observation

        query = select(column, func.count()).group_by(column).where(condition)

        def observe(options: CallbackOptions) -> Iterable[Observation]:
            try:
                rows = self._database.rows(query)
            except Exception as error:
                # A gap in a gauge, rather than an error in the thread of the exporter. Creating the
                # tables has errors of its drivers.
                logger.warning("The %s cannot be counted: %s", name, error)
                return []
            numbers = dict.fromkeys(values, 0) | {row[0]: row[1] for row in rows}
            return [Observation(count, {column.name: value}) for value, count in numbers.items()]

        return observe


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
