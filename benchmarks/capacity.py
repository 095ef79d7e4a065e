"""Capacity of one database and its workers: the needs of a load, and the first limit that breaks.

A model, not a measurement: it multiplies a load with the costs of a message.

    python -m benchmarks.capacity --messages-per-second 40 --seconds-per-message 30

>>> from benchmarks.capacity import Load, capacity
>>> result = capacity(Load(messages_per_second=40, seconds_per_message=30, tool_calls=5))
>>> result.workers
38
>>> result.first.name
'connections'
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from inspect import getdoc
from typing import TypeVar

from agent_factory.errors import ArgumentError

__all__ = ["Capacity", "Costs", "Limit", "Limits", "Load", "capacity"]

T = TypeVar("T")

_CORES_A_WORKER = 0.7  # threads share one interpreter lock: beyond this, runs wait for each other
_FLUSHES_A_SECOND = 20  # a worker gathers events for 50 ms
_BUDGET_WRITES = 2  # reserve before a call of the model, settle after it
_DIVISORS = ("busiest_over_average", "slots_per_worker")


class _Numbers:
    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            # A bool is an int, so `one_budget` passes.
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ArgumentError(name, f"must be a number, 0 or more, got {value!r}.")
            if name in _DIVISORS and value < 1:
                raise ArgumentError(name, f"must be 1 or more, got {value!r}.")


@dataclass(frozen=True, kw_only=True)
class Load(_Numbers):
    """Work that users ask for.

    Args:
        messages_per_second: Messages that are submitted in a second of the busiest hour.
        seconds_per_message: Seconds that one is worked on: models and tools, without the queue.
        tool_calls: Tool calls of a message, one a turn.
        retention_days: Days until a thread is deleted, by `Service.forget`.
        busiest_over_average: How many times the average the busiest hour is.
        one_budget: Whether all messages share one budget.

    Raises:
        ArgumentError: A number is negative or not finite.
    """

    messages_per_second: float
    seconds_per_message: float
    tool_calls: float = 5
    retention_days: float = 30
    busiest_over_average: float = 3
    one_budget: bool = False


@dataclass(frozen=True, kw_only=True)
class Costs(_Numbers):
    """Costs of a message: the defaults are those of short messages, measured by `benchmarks/`.

    Args:
        commits: Commits of a message without tool calls. It is one less where a message is
            submitted in the process of a worker with a free slot.
        commits_per_call: Commits that a tool call adds.
        wal_kb: kB of write-ahead log of a message without tool calls.
        wal_kb_per_call: kB of write-ahead log that a tool call adds.
        stored_kb: kB that a message without tool calls leaves in the database.
        stored_kb_per_call: kB that a tool call leaves in the database.
        cpu_ms: CPU milliseconds in a worker of a message without tool calls.
        cpu_ms_per_call: CPU milliseconds in a worker that a tool call adds.
        database_cpu_ms: CPU milliseconds in the database of a message without tool calls.
        database_cpu_ms_per_call: CPU milliseconds in the database that a tool call adds.
        polls: Commits a second of each worker, for its signs of life.

    Raises:
        ArgumentError: A number is negative or not finite.
    """

    commits: float = 3
    commits_per_call: float = 3.1
    wal_kb: float = 17
    wal_kb_per_call: float = 13
    stored_kb: float = 15
    stored_kb_per_call: float = 10
    cpu_ms: float = 8.5
    cpu_ms_per_call: float = 4.5
    database_cpu_ms: float = 4.8
    database_cpu_ms_per_call: float = 1.0
    polls: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Limits(_Numbers):
    """Limits of the database and its workers: the defaults are one Postgres on 16 cores with NVMe.

    Args:
        commits_per_second: Commits that the database can take; pgbench measures them.
        wal_mb_per_second: MB of write-ahead log that its disk, archive and replicas can take.
        connections: Connections that it takes: `max_connections`, or those behind PgBouncer.
        storage_gb: GB for the database.
        workers: Worker processes, one for each core; 0 for as many as the load needs.
        database_cores: Processor cores of the database.
        slots_per_worker: Runs that a worker has at once, 1 or more: `Service.start(slots=...)`.
        connections_per_worker: Connections of a worker: `Service(connections=...)`, and one more.
        notifications_per_second: Notifications that the database can send.
        budget_writes_per_second: Updates that one row can take.

    Raises:
        ArgumentError: A number is negative or not finite.
    """

    commits_per_second: float = 20_000
    wal_mb_per_second: float = 200
    connections: int = 500
    storage_gb: float = 2_000
    workers: int = 0
    database_cores: float = 16
    slots_per_worker: int = 32
    connections_per_worker: int = 17
    notifications_per_second: float = 6_000
    budget_writes_per_second: float = 3_000


_KINDS = {
    "commits": (
        "/s",
        "messages/s x (commits + calls x commits_per_call) + workers x polls",
        "assumed; measure yours with pgbench -N",
        "Use a faster disk, or cells.",
    ),
    "WAL": (
        "MB/s",
        "messages/s x (wal_kb + calls x wal_kb_per_call)",
        "assumed; the slowest of disk, archive and replicas",
        "Keep large results out of messages, or use cells.",
    ),
    "database CPU": (
        "cores",
        "messages/s x (database_cpu_ms + calls x database_cpu_ms_per_call)",
        "the machine of the database",
        "Use a larger machine, or cells.",
    ),
    "connections": (
        "",
        "workers x connections_per_worker",
        "max_connections of Postgres, or max_client_conn of PgBouncer",
        "Use PgBouncer, or fewer connections for each worker.",
    ),
    "storage": (
        "GB",
        "messages in retention_days x (stored_kb + calls x stored_kb_per_call)",
        "the disk of the database",
        "Forget threads earlier, or use cells.",
    ),
    "notifications": (
        "/s",
        f"workers x {_FLUSHES_A_SECOND}, if all of them stream tokens",
        "measured on two cores; commits with a notification wait for one lock",
        "Record fewer stream modes, or use cells.",
    ),
    "slots": (
        "",
        "messages/s x seconds_per_message",
        "workers x slots_per_worker",
        "Start more workers, or give each more slots.",
    ),
    "worker CPU": (
        "cores",
        "messages/s x (cpu_ms + calls x cpu_ms_per_call)",
        f"workers x {_CORES_A_WORKER}: runs of a worker share one interpreter lock",
        "Start more workers.",
    ),
    "budget row": (
        "/s",
        f"messages/s x (calls + 1) x {_BUDGET_WRITES}",
        "measured on two cores, with 16 clients",
        "Give each tenant or each worker a slice of the budget.",
    ),
}
"""The unit, formula, source and remedy of each limit."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Something there is only so much of.

    Args:
        name: What it is.
        needs: How much of it the load needs.
        has: How much there is.
        unit: The unit of both.
        formula: How `needs` is computed.
        source: Where `has` comes from.
        remedy: What to do when it is used up.
    """

    name: str
    needs: float
    has: float
    unit: str
    formula: str
    source: str
    remedy: str

    @property
    def used(self) -> float:
        """The part of it that is used; above 1, the load is too much."""
        return self.needs / self.has if self.has else math.inf


@dataclass(frozen=True, slots=True)
class Capacity:
    """Needs of a load.

    Args:
        runs_at_once: Messages that are worked on at the same time.
        workers: Worker processes: one for each processor core.
        limits: What is used most comes first.
    """

    runs_at_once: float
    workers: int
    limits: tuple[Limit, ...]

    @property
    def first(self) -> Limit:
        """Limit that breaks first as the load grows."""
        return self.limits[0]

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("limit", "needs", "has", "used", "needs is")]
        for limit in self.limits:
            amounts = (
                f"{amount:,.0f} {limit.unit}" if amount >= 10 else f"{amount:.2g} {limit.unit}"
                for amount in (limit.needs, limit.has)
            )
            rows.append((limit.name, *amounts, f"{limit.used:.0%}", limit.formula))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        first = self.first
        verb = "breaks" if first.used > 1 else "would break"
        return "\n".join(
            [
                f"{self.runs_at_once:,.0f} runs at once, in {self.workers:,} workers",
                *table,
                f"First {verb}: {first.name} ({first.source}). {first.remedy}",
            ]
        )


def capacity(load: Load, costs: Costs | None = None, limits: Limits | None = None) -> Capacity:
    """Compute what a load needs of one database and its workers.

    Args:
        load: What users ask for.
        costs: What a message costs.
        limits: What there is.
    """
    costs, limits = costs or Costs(), limits or Limits()
    rate, calls = load.messages_per_second, load.tool_calls
    at_once = rate * load.seconds_per_message
    cpu_seconds = rate * (costs.cpu_ms + calls * costs.cpu_ms_per_call) / 1000
    # Runs that wait use up slots, and runs that compute the interpreter lock: what comes first.
    minimum = math.ceil(max(at_once / limits.slots_per_worker, cpu_seconds / _CORES_A_WORKER))
    workers = int(limits.workers) or max(1, minimum)
    commits = rate * (costs.commits + calls * costs.commits_per_call) + workers * costs.polls
    wal_kb = rate * (costs.wal_kb + calls * costs.wal_kb_per_call)
    database_cpu_ms = rate * (costs.database_cpu_ms + calls * costs.database_cpu_ms_per_call)
    # `rate` is that of the busiest hour, and what is stored grows with the average.
    messages = rate / load.busiest_over_average * load.retention_days * 86_400
    stored_kb = messages * (costs.stored_kb + calls * costs.stored_kb_per_call)
    amounts: dict[str, tuple[float, float]] = {
        "commits": (commits, limits.commits_per_second),
        "WAL": (wal_kb / 1000, limits.wal_mb_per_second),
        "database CPU": (database_cpu_ms / 1000, limits.database_cores),
        "connections": (workers * limits.connections_per_worker, limits.connections),
        "storage": (stored_kb / 1e6, limits.storage_gb),
        "notifications": (workers * _FLUSHES_A_SECOND, limits.notifications_per_second),
    }
    # Otherwise there are as many workers as these two need.
    if limits.workers:
        amounts["slots"] = (at_once, workers * limits.slots_per_worker)
        amounts["worker CPU"] = (cpu_seconds, workers * _CORES_A_WORKER)
    if load.one_budget:
        # The model is called once more than tools: for the last answer.
        updates = rate * (calls + 1) * _BUDGET_WRITES
        amounts["budget row"] = (updates, limits.budget_writes_per_second)
    all_limits = [Limit(name, *both, *_KINDS[name]) for name, both in amounts.items()]
    return Capacity(at_once, workers, tuple(sorted(all_limits, key=lambda limit: -limit.used)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what a load needs, as a table or as JSON."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.capacity",
        description="Compute what a load needs of one database, and what breaks first.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    for kind in (Load, Costs, Limits):
        group = parser.add_argument_group(kind.__name__)
        # The help of a flag is the line about it in the docstring.
        # `getdoc` removes the indentation, as the compiler of Python 3.13 does.
        meanings = dict(re.findall(r"^    (\w+): (.+)$", getdoc(kind) or "", flags=re.M))
        for field in fields(kind):
            flag, default = f"--{field.name.replace('_', '-')}", field.default
            text = meanings.get(field.name, "")
            if isinstance(default, bool):
                group.add_argument(flag, action="store_true", help=text)
                continue
            is_required = default is MISSING
            suffix = "" if is_required else f" (default: {default})"
            group.add_argument(
                flag,
                type=float,
                metavar="N",
                required=is_required,
                default=None if is_required else default,
                help=f"{text}{suffix}",
            )
    options = vars(parser.parse_args(arguments))

    def build(kind: type[T]) -> T:
        return kind(**{field.name: options[field.name] for field in fields(kind)})  # type: ignore[arg-type]

    try:
        result = capacity(build(Load), build(Costs), build(Limits))
    except ArgumentError as error:
        parser.error(str(error))
    if not options["json"]:
        print(result)
        return
    limits = [{**asdict(limit), "used": limit.used} for limit in result.limits]
    report = {"runs_at_once": result.runs_at_once, "workers": result.workers, "limits": limits}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
