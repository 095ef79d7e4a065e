"""Metrics of a service, by OpenTelemetry where it is installed: runs, takeovers, queue, waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Table, func, select

from agent_factory.service.database import Database
from agent_factory.service.errors import DatabaseUnavailable
from agent_factory.service.tables import threads, waits, workers

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

Measure = Callable[["CallbackOptions"], Iterable["Observation"]]


class Metrics:
    """Counts what a worker does, and lets OpenTelemetry observe the tables.

    Without opentelemetry-api, or without an SDK, nothing is measured.

    - `agent_factory.service.runs` (counter): jobs that have ended, by `agent` and `status`.
    - `agent_factory.service.run.duration` (histogram, seconds): how long a job ran.
    - `agent_factory.service.takeovers` (counter): jobs taken over from dead workers.
    - `agent_factory.service.threads` (gauge): threads by `status`; "queued" is the queue.
    - `agent_factory.service.waits` (gauge): undecided waits, by `agent`.
    - `agent_factory.service.workers` (gauge): workers that are alive.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        try:
            from agent_factory.telemetry import meter
        except ImportError:
            # OpenTelemetry comes with an extra.
            self._runs = self._seconds = self._takeovers = None
            return
        otel_meter = meter()
        name = "agent_factory.service"
        self._runs = otel_meter.create_counter(f"{name}.runs", "{run}", "Jobs that have ended")
        self._seconds = otel_meter.create_histogram(
            f"{name}.run.duration", "s", "How long a job ran"
        )
        self._takeovers = otel_meter.create_counter(
            f"{name}.takeovers", "{run}", "Jobs taken over from workers that have died"
        )
        gauges = {
            "threads": (threads, "status", threads.c.status, None),
            "waits": (waits, "agent", waits.c.agent, waits.c.decided_at.is_(None)),
            "workers": (workers, "draining", workers.c.draining, None),
        }
        for kind, arguments in gauges.items():
            otel_meter.create_observable_gauge(f"{name}.{kind}", [self._counted(*arguments)], "1")

    def ended(self, agent: str, status: str, seconds: float) -> None:
        """Count a job that has ended."""
        if self._runs is not None and self._seconds is not None:
            attributes = {"agent": agent, "status": status}
            self._runs.add(1, attributes)
            self._seconds.record(seconds, attributes)

    def taken_over(self, jobs: int) -> None:
        """Count jobs that were taken over."""
        if self._takeovers is not None:
            self._takeovers.add(jobs)

    def _counted(
        self,
        table: Table,
        label: str,
        column: ColumnElement[str],
        where: ColumnElement[bool] | None,
    ) -> Measure:
        from opentelemetry.metrics import Observation

        query = select(column, func.count()).select_from(table).group_by(column)
        if where is not None:
            query = query.where(where)

        def observe(options: CallbackOptions) -> Iterable[Observation]:
            try:
                with self._database.read() as connection:
                    rows = connection.execute(query).all()
            except DatabaseUnavailable:
                # A gap in a gauge, rather than an error in the thread of the exporter.
                return []
            return [Observation(number, {label: value}) for value, number in rows]

        return observe


def traceparent() -> str | None:
    """The current span in the form of W3C Trace Context, so that a run can continue its trace."""
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return None
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")
