"""Tables of the service. LangGraph's checkpoints and its store have tables, too.

The checkpoint is the truth about a thread. Rows of `threads` and `waits` are an index of the
checkpoints, which `Service.reindex` writes again. A thread whose status is "queued" has a job for a
worker: no other table has jobs. All times are seconds since 1970 by the clock of the database.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    column,
    event,
    table,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement

metadata = MetaData()

# SQLite counts up only in a column of the type INTEGER.
_Serial = BigInteger().with_variant(Integer, "sqlite")


def _table(name: str, *parts: Any) -> Table:
    # The prefix keeps a table such as service_threads apart from the tables of the product.
    return Table(f"service_{name}", metadata, *parts)


def _columns(kind: Any, *names: str, **options: Any) -> list[Column[Any]]:
    """Columns of one kind, each with a value in every row."""
    return [Column(name, kind, **{"nullable": False, **options}) for name in names]


class clock(FunctionElement[float]):
    """The time by the clock of the database, in seconds since 1970."""

    inherit_cache = True
    type = Float()


def _partial_index(name: str, condition: ColumnElement[bool], *columns: Any) -> None:
    Index(name, *columns, postgresql_where=condition, sqlite_where=condition)


@compiles(clock, "sqlite")
def _sqlite_clock(_: object, __: object, **___: object) -> str:
    # 2440587.5 is the Julian day of 1970-01-01. `unixepoch` has no fractions before SQLite 3.42.
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(clock, "postgresql")
def _postgres_clock(_: object, __: object, **___: object) -> str:
    # Not `now()`, which stays at the time when the transaction began.
    return "extract(epoch from clock_timestamp())::double precision"


threads = _table(
    "threads",
    Column("thread_id", String, primary_key=True),
    *_columns(String, "tenant", "agent"),
    Column("status", String, nullable=False),  # idle, queued, running, waiting, failed
    # Grows with each lease, from a random number, and fences writes.
    Column("epoch", BigInteger, nullable=False),
    Column("owner", String),  # the worker with the lease
    Column("run", String),  # the present or last run
    Column("jobs", BigInteger, nullable=False),  # the number of the newest job; the first is random
    Column("plan", String),  # the digest of the agent's topology at the last run
    Column("title", String),  # the beginning of its first message
    Column("metadata", JSON, nullable=False, default=dict),  # notes of the product
    Column("error", Text),
    *_columns(Float, "created_at", "updated_at"),
    Column("due", Float),  # not before, of its job; none for at once, whatever the clock says
    Column("turn", BigInteger),  # of its job: the seq of its run, so that older messages are first
    Column("priority", Integer, nullable=False, server_default="0"),  # of its job
    Index("service_threads_tenant", "tenant", "updated_at"),
    Index("service_threads_status", "status"),
)
# Threads for workers, without idle threads, which grow in number.
_partial_index(
    "service_threads_due", threads.c.status == "queued", threads.c.priority.desc(), threads.c.turn
)

waits = _table(
    "waits",
    Column("wait_id", String, primary_key=True),
    *_columns(String, "thread_id", "tenant", "agent", "run"),
    Column("job", String, nullable=False),  # that led here: its waits are decided together
    *_columns(String, "call_id", "digest", "tool"),
    Column("kind", String, nullable=False),  # as PendingCall.kind
    Column("args", Text, nullable=False),  # JSON
    Column("question", Text),  # JSON
    Column("allowed", String, nullable=False),  # separated by commas
    Column("call_digest", String, nullable=False, server_default=""),  # what an approval names
    Column("reviewers", JSON, nullable=False, default=list),  # who may decide; everybody if empty
    Column("remember", Float),  # the longest standing approval, in seconds
    Column("priority", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("deadline", Float),
    Column("late", String, nullable=False),  # at the deadline: reject, escalate
    Column("claimed_by", String),
    Column("claimed_until", Float),
    Column("decided_at", Float),
    Column("decided_by", String),
    Column("decision", Text),  # JSON
    Column("checkpoint_id", String),
    Column("notice_due", Float),  # the next call of `on_wait`; none after it
    Column("notice_attempts", Integer, nullable=False, server_default="0"),
)
Index("service_waits_thread", waits.c.thread_id)
_is_open = waits.c.decided_at.is_(None)
_has_deadline = _is_open & waits.c.deadline.is_not(None)
_partial_index("service_waits_deadline", _has_deadline, waits.c.deadline)
_partial_index("service_waits_notice", waits.c.notice_due.is_not(None), waits.c.notice_due)
# Without decided waits, which are kept and grow in number.
_by_urgency = (waits.c.tenant, waits.c.priority.desc(), waits.c.created_at)
_partial_index("service_waits_open", _is_open, *_by_urgency)

runs = _table(
    "runs",
    Column("seq", _Serial, primary_key=True, autoincrement=True),
    Column("run_id", String, nullable=False, unique=True),
    Column("thread_id", String, nullable=False, index=True),
    *_columns(String, "tenant", "agent"),
    Column("priority", Integer, nullable=False),
    Column("payload", Text, nullable=False),  # the message, as JSON
    Column("status", String, nullable=False),  # as Run.status; "queued" for "held"
    Column("job", String),  # its newest job; none while it is held or behind another run
    Column("checkpoint_id", String),  # of its end or pause
    Column("metadata", JSON, nullable=False, default=dict),
    Column("usage", JSON, nullable=False, default=list),  # lines of usage.total
    Column("error", Text),
    Column("created_at", Float, nullable=False),
    # Each statement that changes a run sets the time.
    Column("updated_at", Float, nullable=False, default=clock(), onupdate=clock()),
    Column("decision", Text),  # its newest job if that is a DecisionJob, as JSON
    Column("started_at", Float),  # the first claim of a worker
    Column("reader", String),  # the run that has read its message: see `steering`
    Column("steps", Text),  # JSON: see `steps`
    Column("question", Text),  # the beginning of MessageJob.question
    Index("service_runs_started", "tenant", "started_at"),
    Index("service_runs_newest", "tenant", "seq"),  # the list of runs begins with the newest
)

approvals = _table(  # the fields of a StandingApproval, and the thread in which it was given
    "approvals",
    Column("id", String, primary_key=True),
    *_columns(String, "tenant", "agent", "tool", "schema"),
    Column("args", JSON, nullable=False),
    Column("when", JSON(none_as_null=True)),
    Column("seconds", Float, nullable=False),
    Column("by", String, nullable=False),
    Column("thread", String),
    Column("given_in", String, nullable=False),
    *_columns(Float, "given_at", "expires_at"),
    Column("revoked_at", Float),
    Column("revoked_by", String),
    Column("uses", BigInteger, nullable=False, server_default="0"),
    Index("service_approvals_tool", "tenant", "agent", "tool"),
)

audit = _table(  # agent_factory.service.audit alone writes to it
    "audit",
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    *_columns(String, "tenant", "thread_id"),
    Column("wait_id", String),
    *_columns(String, "who", "what"),
    Column("detail", Text),  # JSON
    Column("hash", String, nullable=False),
    Index("service_audit_thread", "thread_id", "id"),
    Index("service_audit_tenant", "tenant", "id"),
)
_REFUSE = "BEGIN SELECT RAISE(ABORT, 'service_audit is append-only'); END"
_REFUSE_CHANGES = {
    "sqlite": (
        f"CREATE TRIGGER service_audit_update BEFORE UPDATE ON service_audit {_REFUSE}",
        f"CREATE TRIGGER service_audit_delete BEFORE DELETE ON service_audit {_REFUSE}",
        # INSERT OR REPLACE deletes an entry without the trigger for deletions.
        f"""CREATE TRIGGER service_audit_replace BEFORE INSERT ON service_audit
        WHEN EXISTS (SELECT 1 FROM service_audit WHERE id = NEW.id) {_REFUSE}""",
    ),
    "postgresql": (
        """CREATE FUNCTION service_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'service_audit is append-only'; END $$""",
        """CREATE TRIGGER service_audit_refuse BEFORE UPDATE OR DELETE OR TRUNCATE
        ON service_audit FOR EACH STATEMENT EXECUTE FUNCTION service_audit_refuse()""",
    ),
}


@event.listens_for(audit, "after_create")
def _make_append_only(_: Table, connection: Connection, **__: object) -> None:
    # Against mistakes. The owner of the table may remove triggers; the hashes show changes.
    for statement in _REFUSE_CHANGES[connection.dialect.name]:
        connection.exec_driver_sql(statement)


schedules = _table(  # the fields of a Cron; a schedule of the product has no assistant
    "schedules",
    Column("id", String, primary_key=True),  # the name of a schedule
    Column("tenant", String, nullable=False, index=True),
    *_columns(String, "agent", "assistant"),
    Column("thread_id", String, index=True),
    Column("schedule", String, nullable=False),
    Column("timezone", String),
    Column("ends_at", Float),
    *_columns(Boolean, "enabled", "keeps_threads"),
    Column("by", String, nullable=False),
    *_columns(JSON, "options", "request", "metadata"),
    *_columns(Float, "created_at", "updated_at"),
    Column("next_at", Float, index=True),  # workers look for it
)

limits = _table(  # of tenants
    "limits",
    Column("tenant", String, primary_key=True),
    Column("concurrency", Integer),
    Column("per_minute", Integer),
)


def _amounts(suffix: str, *names: str) -> list[Column[Any]]:
    """A column for each amount of a ledger, 0 at first."""
    kinds = {"usd": Float, "seconds": Float}
    return [
        Column(name + suffix, kinds.get(name, BigInteger), nullable=False, server_default="0")
        for name in names
    ]


AMOUNTS = ("usd", "input_tokens", "output_tokens", "seconds", "turns", "tool_calls")
"""The amounts that a ledger counts: the fields of Spent."""

LIMIT_NAMES = (*AMOUNTS, "total_tokens")
"""The amounts that can be limited: the fields of Limits."""

ledger = _table(
    "ledger",
    Column("scope", String, primary_key=True),
    Column("per", String, primary_key=True),  # "", or such as "day Europe/Berlin"
    Column("ends", Float, nullable=False),  # when spending starts from 0 again; infinity if never
    *_amounts("", *AMOUNTS),  # spent
    *_amounts("_reserved", *AMOUNTS),  # the sum of the scope's reservations
    *_amounts("_raised", *LIMIT_NAMES),  # additions to the limits
)

reservations = _table(
    "reservations",
    Column("id", String, primary_key=True),
    *_columns(String, "scope", "per"),
    Column("owner", String),  # the worker; none for another process, which has no heartbeat
    Column("expires", Float, nullable=False, index=True),
    *_amounts("", *AMOUNTS),
)

breakdown = _table(  # spent amounts of a scope, by agent and part
    "ledger_breakdown",
    *_columns(String, "scope", "per", "agent", "part", primary_key=True),
    *_amounts("", *AMOUNTS),
)

effects = _table(  # the fields of an Effect, in their order
    "effects",
    Column("number", _Serial, primary_key=True, autoincrement=True),
    Column("key", String, nullable=False, unique=True),
    Column("run", String, nullable=False, index=True),
    Column("tool", String, nullable=False),
    Column("args_data", LargeBinary, nullable=False),
    *_columns(String, "attempt", "started_at"),
    Column("result_data", LargeBinary),
)

questions = _table(  # interrupts that a job has raised: its decisions about these are used
    "questions", *_columns(String, "thread_id", "job", "interrupt_id", primary_key=True)
)

events = _table(
    "events",
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("job", String, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("at", Float, nullable=False, index=True),
    Index("service_events_job", "job", "id"),
)

background_jobs = _table(  # background work of a worker for a thread
    "background_jobs",
    Column("id", String, primary_key=True),
    Column("thread_id", String, nullable=False, index=True),
    Column("run", String, nullable=False),  # the run that began it
    Column("worker", String, nullable=False),
    Column("lost", LargeBinary, nullable=False),  # the message after a loss
    Column("call", LargeBinary),  # the call for a repeat; none without repeats
    Column("attempt", Integer, nullable=False, server_default="1"),
    Column("deadline", Float),  # of all attempts
    # Attempts whose worker was stopped: unlike deaths, these do not count.
    Column("handovers", Integer, nullable=False, server_default="0"),
)

workers = _table(
    "workers",
    Column("id", String, primary_key=True),
    Column("beat", Float, nullable=False),
    Column("draining", Boolean, nullable=False),
    Column("detail", Text, nullable=False),  # JSON: host, process, slots, tables, agents
)

assistants = _table(  # agents under an id of their tenant, with settings
    "assistants",
    *_columns(String, "tenant", "assistant_id", primary_key=True),
    Column("version", Integer, nullable=False),  # of runs
    *_columns(Float, "created_at", "updated_at"),
)

assistant_versions = _table(
    "assistant_versions",
    *_columns(String, "tenant", "assistant_id", primary_key=True),
    Column("version", Integer, primary_key=True),
    *_columns(String, "agent", "name"),
    Column("description", Text),
    *_columns(JSON, "config", "context", "metadata"),
    Column("created_at", Float, nullable=False),
)

webhooks = _table(  # requests that a server makes when a run ends or pauses
    "webhooks",
    Column("id", String, primary_key=True),
    Column("run_id", String, nullable=False, index=True),
    Column("url", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due", Float, nullable=False, index=True),  # not before
    Column("created_at", Float, nullable=False),
)

rates = _table(  # of requests
    "request_rates",
    # A digest: the names of principals and their addresses are not stored.
    Column("key", String, primary_key=True),
    Column("full_at", Float, nullable=False, index=True),  # when a whole minute may come again
)

_OF_CHECKPOINTS = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id")
CHECKPOINTS = table("checkpoints", *map(column, _OF_CHECKPOINTS))  # of LangGraph's savers
