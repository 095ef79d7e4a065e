"""ThreadQueue: the next job of a thread, and the next threads of a worker.

The row of a thread is the lease that fences its writes, so the row changes when a run begins and
ends. The row also names the next job: a separate queue would need two more transactions for each
message.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, bindparam, exists, func, select, update

from agent_factory.service.arguments import check_name
from agent_factory.service.audit import append_entry
from agent_factory.service.database import Database
from agent_factory.service.engines.engine import Engine, JobRef, Outcome
from agent_factory.service.errors import LeaseLost
from agent_factory.service.jobs import DecisionJob, MessageJob, ThreadJob, UndoJob, read_job
from agent_factory.service.leases import Lease, take_lease
from agent_factory.service.rows import logged
from agent_factory.service.signals import Signals
from agent_factory.service.tables import clock, limits, runs, threads, waits, workers
from agent_factory.state import storable_text

BUSY = frozenset({"queued", "running", "waiting"})
"""States of a thread that takes no message now."""

HIGHEST_PRIORITY = 1000
"""The highest priority of a run, and the priority of a job to undo a run."""

_MINUTE = 60.0

_QUESTION_CHARACTERS = 1000
"""Characters of a question that are kept for searches: a search reads 5,000 questions."""

# SQLAlchemy takes longer to build a statement than SQLite to carry it out: built once.
_THREAD = select(threads).where(threads.c.thread_id == bindparam("id"))
_LOCKED, _UNLOCKED = _THREAD.with_for_update(), _THREAD.with_for_update(skip_locked=True)
_END_RUN = update(runs).where(runs.c.run_id == bindparam("id"))
_QUEUED_RUN = _END_RUN.values(
    status="queued", job=bindparam("its_job"), decision=bindparam("its_decision")
)
_FOLLOWING = (
    select(runs.c.run_id, runs.c.payload)
    .where(runs.c.thread_id == bindparam("id"), runs.c.job.is_(None), runs.c.status == "queued")
    # A job to undo a run comes before the messages behind the run.
    .order_by(runs.c.priority != HIGHEST_PRIORITY, runs.c.seq)
    .limit(1)
)

_IS_QUEUED = (threads.c.status == "queued") & threads.c.tenant.not_in(
    bindparam("full", expanding=True)
)
_IS_QUEUED &= threads.c.agent.in_(bindparam("agents", expanding=True))
_IS_LIMITED = select(limits.c.tenant).where(limits.c.tenant == threads.c.tenant).exists()
_HAS_LIMIT = select(limits.c.tenant).where(limits.c.tenant == bindparam("its_tenant")).exists()
_IS_DUE = func.coalesce(threads.c.due, 0.0) <= clock()
_LOOK = select(
    func.count().filter(_IS_DUE).label("due"),
    (func.min(threads.c.due).filter(~_IS_DUE) - clock()).label("delay"),
).where(_IS_QUEUED)
_DUE = (
    select(threads.c.thread_id, threads.c.tenant, _IS_LIMITED.label("is_limited"))
    .where(_IS_QUEUED, _IS_DUE, threads.c.thread_id.not_in(bindparam("taken", expanding=True)))
    .order_by(threads.c.priority.desc(), threads.c.turn)
    .limit(bindparam("most"))
    # Without threads that another worker takes now.
    .with_for_update(skip_locked=True, of=threads)
)
_TAKEN: dict[str, Any] = {
    "status": "running",
    "owner": bindparam("worker"),
    "epoch": threads.c.epoch + 1,
    "updated_at": clock(),
}
_TAKE_ANY = (
    update(threads)
    .values(_TAKEN)
    .returning(threads.c.run, threads.c.thread_id, threads.c.epoch, threads.c.plan)
)
_TAKE = _TAKE_ANY.where(threads.c.thread_id.in_(bindparam("ids", expanding=True)))
_IS_JOB = (runs.c.run_id == threads.c.run) & (runs.c.job == bindparam("its_job"))
# A due job without a limit is taken in one statement. By its thread: jobs have no index.
_TAKE_JOB = _TAKE_ANY.where(
    threads.c.thread_id == bindparam("id"),
    threads.c.status == "queued",
    _IS_DUE,
    ~_IS_LIMITED,
    exists().where(_IS_JOB),
)
_HAS_JOB = (
    select(runs.c.run_id).join(threads, _IS_JOB).where(threads.c.thread_id == bindparam("id"))
)
_BEGIN = (
    update(runs)
    .where(runs.c.run_id.in_(bindparam("ids", expanding=True)))
    # Limits count a run once: after a decision, it has begun before.
    .values(status="running", started_at=func.coalesce(runs.c.started_at, clock()))
    .returning(runs)
)
_CHANGE = update(threads).where(threads.c.thread_id == bindparam("id"))
_NEXT = _CHANGE.values(
    jobs=threads.c.jobs + 1,
    run=bindparam("its_run"),
    agent=bindparam("its_agent"),
    priority=bindparam("its_priority"),
    due=bindparam("begins_at", type_=threads.c.due.type),
    turn=select(runs.c.seq).where(runs.c.run_id == bindparam("its_run")).scalar_subquery(),
)
_DELAY = func.coalesce(threads.c.due - clock(), 0.0).label("delay")
_QUEUE = _NEXT.values(status="queued", updated_at=clock()).returning(threads.c.jobs, _DELAY)
_REF = threads.c["thread_id", "tenant", "agent", "priority"]
_REFS = select(runs.c.job, *_REF, _DELAY, threads.c.turn)
_REFS = _REFS.join(runs, runs.c.run_id == threads.c.run)
_TAKE_NEXT = _NEXT.values(_TAKEN)
_END = _CHANGE.values(
    status=bindparam("its_status"),
    error=bindparam("its_error"),
    plan=func.coalesce(bindparam("its_plan"), threads.c.plan),
    owner=None,
    updated_at=clock(),
).returning(_FOLLOWING.with_only_columns(runs.c.payload).scalar_subquery())


def lock_thread(
    connection: Connection, thread_id: str, *, skip_locked: bool = False
) -> Row[Any] | None:
    """The row of a thread, locked until the transaction ends; None if there is no row.

    With `skip_locked`, a row with a lock of another transaction counts as missing.
    """
    return connection.execute(_UNLOCKED if skip_locked else _LOCKED, {"id": thread_id}).first()


def _job_id(thread: str, number: int) -> str:
    # With leading zeros, since jobs of a thread are compared as text.
    return f"{thread}/{number:08d}"


def thread_of(job: str) -> str:
    """The thread of a job.

    >>> thread_of("t-1/00000007")
    't-1'
    """
    return job.rpartition("/")[0]


def _row_of(job: ThreadJob) -> dict[str, object]:
    question = job.question if isinstance(job, MessageJob) else ""
    return {
        "run_id": job.run,
        "thread_id": job.thread,
        "tenant": job.tenant,
        "agent": job.agent,
        "priority": job.priority,
        "payload": job.to_text(),
        "question": storable_text(question[:_QUESTION_CHARACTERS]),
    }


def _turn_of(job: ThreadJob) -> dict[str, object]:
    """Parameters of a thread whose next job is this one."""
    return {
        "id": job.thread,
        "its_run": job.run,
        "its_agent": job.agent,
        "its_priority": job.priority,
        "begins_at": job.begins_at if isinstance(job, MessageJob) else None,
    }


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A job of a worker, with the digest of the agent's plan when the thread ran last."""

    lease: Lease
    plan: str | None
    run: Row[Any]

    @property
    def job(self) -> str:
        """The id of the job."""
        job: str = self.run.job
        return job

    def work(self) -> ThreadJob:
        """The job itself; ServiceError if a newer version has stored it."""
        work = read_job(self.run.decision or self.run.payload)
        assert work is not None  # only the rows of runs may be empty
        return work


class Claims(NamedTuple):
    """Jobs that a worker has taken.

    Args:
        taken: The jobs.
        may_be_more: Whether more may be due: the most were taken, or a tenant has a limit.
        is_contended: Whether another worker counts the jobs of a tenant with a limit now, or each
            due job has a thread that another transaction has locked.
    """

    taken: list[Claim]
    may_be_more: bool
    is_contended: bool


@dataclass(slots=True, eq=False)
class Slot:
    """A slot that a worker keeps for a run of its process, and the claim once the run has begun."""

    worker: str
    claim: Claim | None = None


class ThreadQueue:
    """Queues, holds, takes and cancels the work of threads, and keeps the rows in step.

    Methods with a connection need a transaction that has locked the row of the thread. Messages of
    a busy thread have no job yet: each is queued when the run before it has ended. So the messages
    of a thread keep their order.
    """

    def __init__(self, database: Database, signals: Signals, engine: Engine) -> None:
        self._database, self._signals = database, signals
        careful = logged("The engine %s did not take an order.", engine.name)
        self._start, self._cancel = careful(engine.start), careful(engine.cancel)
        new = database.insert(threads)
        self.insert_thread = (
            new.values(status="idle", created_at=clock(), updated_at=clock())
            # Changes nothing, and locks the row of an existing thread.
            .on_conflict_do_update(
                index_elements=[threads.c.thread_id], set_={"thread_id": new.excluded.thread_id}
            )
            .returning(threads, _HAS_LIMIT.label("is_limited"))
        )
        """Creates a missing thread, and locks its row."""
        insert_run = (
            database.insert(runs)
            .values(created_at=clock())
            .on_conflict_do_nothing(index_elements=[runs.c.run_id])
        )
        self._insert_run = insert_run.values(status="queued").returning(runs.c.run_id)
        self._begin_run = insert_run.values(status="running", started_at=clock()).returning(runs)

    def queue(self, connection: Connection, job: ThreadJob) -> None:
        """Let workers take a job of a run, whose thread is not busy."""
        job_id = _job_id(job.thread, self._take_turn(connection, job))
        decision = job.to_text() if isinstance(job, DecisionJob) else None
        of_run = {"id": job.run, "its_job": job_id, "its_decision": decision}
        connection.execute(_QUEUED_RUN, of_run)

    def queue_new(
        self,
        connection: Connection,
        thread: Row[Any],
        job: MessageJob,
        slot: Slot | None = None,
        **values: object,
    ) -> bool:
        """Write the run of a job and let workers take the job; False if the run is known.

        The row of an idle thread comes from `insert_thread`. In a slot, the run begins at once,
        unless it has to wait.
        """
        # In one statement, since the row of the thread has the last number.
        values |= {"job": _job_id(job.thread, thread.jobs + 1)}
        if slot is not None and job.begins_at is None and not thread.is_limited:
            run = connection.execute(self._begin_run, _row_of(job) | values).first()
            if run is None:
                return False
            connection.execute(_TAKE_NEXT, _turn_of(job) | {"worker": slot.worker})
            slot.claim = Claim(Lease(job.thread, thread.epoch + 1), thread.plan, run)
            return True
        is_new = self.add_run(connection, job, **values)
        if is_new:
            self._take_turn(connection, job)
        return is_new

    def _take_turn(self, connection: Connection, job: ThreadJob) -> int:
        """Let a thread be queued for a job, and return the number of the job."""
        number, delay = connection.execute(_QUEUE, _turn_of(job)).one()
        place = (job.thread, job.tenant, job.agent, job.priority)
        self._give_out(connection, [JobRef(_job_id(job.thread, number), *place, delay)])
        return int(number)

    def _give_out(self, connection: Connection, jobs: Iterable[JobRef]) -> None:
        """Let the engine and the processes of the database know jobs, once they are committed."""
        for job in jobs:
            self._database.after_commit(partial(self._start, job))
        self._signals.send(connection, {"jobs": ()})

    def give_out_again(self, after: int, most: int) -> int:
        """Let the engine know queued jobs that it may have forgotten; return the last turn."""
        query = _REFS.where(threads.c.status == "queued", threads.c.turn > after)
        rows = self._database.rows(query.order_by(threads.c.turn).limit(most))
        for row in rows:
            self._start(JobRef(*row[:-1]))
        return rows[-1].turn if len(rows) == most else 0

    def add_run(self, connection: Connection, work: ThreadJob, **values: object) -> bool:
        """Write the run of a job that waits for its turn; False if the run is known."""
        return connection.execute(self._insert_run, _row_of(work) | values).first() is not None

    def look(self, agents: Collection[str]) -> tuple[bool, float]:
        """Whether a job of these agents is due, and the seconds until the next job.

        A limit of the tenant may hold the job longer.
        """
        ((due, delay),) = self._database.rows(_LOOK, {"agents": [*agents], "full": []})
        return due > 0, math.inf if delay is None else max(0.0, delay)

    def claim(self, worker: str, agents: Collection[str], most: int) -> Claims:
        """Take at most so many due jobs, the most urgent first, and then the oldest messages."""
        with self._database.begin() as connection:
            ids, room = self._choose(connection, agents, most)
            may_be_more, is_contended = len(ids) == most or bool(room), None in room.values()
            if not ids:
                rest = {"agents": [*agents], "full": [*room]}
                is_contended |= connection.execute(_LOOK, rest).one().due > 0
            return Claims(self._take(connection, worker, ids), may_be_more, is_contended)

    def _choose(
        self, connection: Connection, agents: Collection[str], most: int
    ) -> tuple[list[str], dict[str, int | None]]:
        """The next threads, and the room of tenants with limits, as `_room`."""
        ids: list[str] = []
        room: dict[str, int | None] = {}
        while len(ids) < most:
            full = [tenant for tenant, number in room.items() if not number]
            rest = most - len(ids)
            place = {"agents": [*agents], "full": full, "taken": ids, "most": rest}
            rows = connection.execute(_DUE, place).all()
            for row in rows:
                if row.is_limited:
                    if row.tenant not in room:
                        room[row.tenant] = self._room(connection, row.tenant)
                    number = room[row.tenant]
                    if not number:
                        continue
                    room[row.tenant] = number - 1
                ids.append(row.thread_id)
            if len(rows) < rest or not room:
                break
        return ids, room

    def _take(self, connection: Connection, worker: str, ids: Sequence[str]) -> list[Claim]:
        if not ids:
            return []
        return self._begin(connection, connection.execute(_TAKE, {"ids": ids, "worker": worker}))

    def _begin(self, connection: Connection, taken: Iterable[Row[Any]]) -> list[Claim]:
        leases = {row.run: (Lease(row.thread_id, row.epoch), row.plan) for row in taken}
        begun = connection.execute(_BEGIN, {"ids": [*leases]}).all()
        return [Claim(*leases[run.run_id], run) for run in begun]

    def lock_claim(self, connection: Connection, claim: Claim) -> Row[Any]:
        """The row of a claim's run, with its thread locked; LeaseLost without the job.

        The worker is not compared: it may have claimed the thread again while its earlier attempt
        still runs.
        """
        thread, run_id = lock_thread(connection, claim.lease.thread_id), claim.run.run_id
        if (
            thread is not None
            and (thread.status, thread.run) == ("running", run_id)
            and thread.epoch in claim.lease.epochs
        ):
            of_job = select(runs).filter_by(run_id=run_id, job=claim.job)
            run = connection.execute(of_job).first()
            if run is not None:
                return run
        raise LeaseLost(f"Run {run_id!r} was ended, or taken over.")

    def claim_again(self, claim: Claim) -> Claim:
        """Take a job again after an error of the database; LeaseLost as in `lock_claim`."""
        lease = replace(claim.lease, epoch=claim.lease.epoch + 1)
        of_thread = update(threads).where(threads.c.thread_id == lease.thread_id)
        with self._database.begin() as connection:
            run = self.lock_claim(connection, claim)
            connection.execute(of_thread.values(epoch=lease.epoch))
        return replace(claim, lease=lease, run=run)

    def take(self, job: str, worker: str, patience: float) -> Claim | Outcome:
        """Take one job, as `Work.carry_out` promises.

        The engine calls again where a process has died. If that process has given no sign of life
        for `patience` seconds, its job is taken over, else a later call decides.
        """
        thread_id, later = thread_of(job), Outcome("later", patience / 4)
        place = {"id": thread_id, "its_job": job}
        with self._database.begin() as connection:
            taken = connection.execute(_TAKE_JOB, {**place, "worker": worker}).all()
            if taken:
                return self._begin(connection, taken)[0]
            thread = lock_thread(connection, thread_id)
            if thread is None or connection.execute(_HAS_JOB, place).first() is None:
                return Outcome("lost")
            if thread.status == "running":
                of_owner = select(workers.c.id).where(workers.c.id == thread.owner)
                is_alive = of_owner.where(workers.c.beat > clock() - patience)
                if connection.execute(is_alive).first() is not None:
                    return later
            elif thread.status != "queued":
                return Outcome("lost")
            query = select(_DELAY, _IS_LIMITED.label("is_limited"))
            row = connection.execute(query.where(threads.c.thread_id == thread_id)).one()
            if row.delay > 0:
                return Outcome("later", row.delay)
            is_new = thread.status == "queued"  # limits count a running job
            if is_new and row.is_limited and not self._room(connection, thread.tenant):
                return later
            (claim,) = self._take(connection, worker, [thread_id])
        return claim

    def give_back(self, worker: str, which: ColumnElement[bool] | None = None) -> int:
        """Let other workers take the threads of a worker, all or some; return their number."""
        owned = threads.c.owner == worker
        return self._give_back(owned if which is None else owned & which, skip_locked=False)

    def take_over(self, dead: Collection[str] = ()) -> int:
        """Let workers take the jobs of dead or unknown workers; return the number of jobs.

        A locked thread comes later: a process that was stopped in the middle of a transaction holds
        its lock, and must not delay other workers. A dead worker may still have a row.
        """
        lost = threads.c.owner.in_(dead) | threads.c.owner.not_in(select(workers.c.id))
        query = select(threads.c.thread_id).where(threads.c.status == "running", lost).limit(1)
        if self._database.row(query) is None:
            return 0
        return self._give_back(lost, skip_locked=True)

    def _give_back(self, lost: ColumnElement[bool], *, skip_locked: bool) -> int:
        query = select(threads.c.thread_id).where(threads.c.status == "running", lost)
        # A worker that still runs such a job cannot write from here on.
        values = {"status": "queued", "owner": None, "epoch": threads.c.epoch + 1}
        with self._database.begin() as connection:
            found = connection.execute(query.with_for_update(skip_locked=skip_locked))
            ids = found.scalars().all()
            of_found = update(threads).where(threads.c.thread_id.in_(ids))
            connection.execute(of_found.values(values))
            rows = connection.execute(_REFS.where(threads.c.thread_id.in_(ids)))
            self._give_out(connection, [JobRef(*row[:-1]) for row in rows])
        return len(ids)

    def _room(self, connection: Connection, tenant: str) -> int | None:
        """Number of jobs of a tenant that may begin now; None while another worker counts."""
        query = select(limits).where(limits.c.tenant == tenant).with_for_update(skip_locked=True)
        limit = connection.execute(query).first()
        if limit is None:
            return None
        room = []
        if limit.concurrency is not None:
            busy = select(func.count()).select_from(threads)
            busy = busy.filter_by(tenant=tenant, status="running")
            room.append(limit.concurrency - connection.execute(busy).scalar_one())
        if limit.per_minute is not None:
            # To now: a clock that was set back has written later times.
            within = runs.c.started_at.between(clock() - _MINUTE, clock())
            begun = select(func.count()).where(runs.c.tenant == tenant, within)
            room.append(limit.per_minute - connection.execute(begun).scalar_one())
        return max(0, min(room, default=HIGHEST_PRIORITY))

    def settle(
        self,
        connection: Connection,
        thread_id: str,
        run_id: str,
        status: Literal["done", "failed", "cancelled"],
        plan: str | None = None,
        **values: object,
    ) -> None:
        """Write the end of a run, and queue the next message of its thread.

        The transaction has locked the thread, so that it sees each message behind the run.
        """
        connection.execute(_END_RUN, {"id": run_id, "status": status, **values})
        ended = {
            "id": thread_id,
            "its_status": "failed" if status == "failed" else "idle",
            "its_error": values.get("error"),
            "its_plan": plan,
        }
        following = connection.execute(_END, ended).scalar()
        if following is not None:
            job = read_job(following)
            assert job is not None  # a run that `reindex` has found is not queued
            self.queue(connection, job)

    def following(self, connection: Connection, thread_id: str) -> Row[Any, Any] | None:
        """The id and the payload of the next run of a busy thread."""
        return connection.execute(_FOLLOWING, {"id": thread_id}).first()

    def end_run(
        self, connection: Connection, row: Row[Any], by: str, *, undo: bool = False
    ) -> None:
        """End the queued, running or waiting run of a thread; with `undo`, undo its effects next.

        Its writes stay. The worker of the run cannot write any more. `row` is the row of the
        thread, or of one of its waits.
        """
        self.withdraw(connection, row, by)
        for ended in connection.execute(_REFS.where(threads.c.thread_id == row.thread_id)).all():
            self._database.after_commit(partial(self._cancel, JobRef(*ended[:-1])))
        # A worker of the run cannot write from here on.
        take_lease(connection, row.thread_id)
        self.record(connection, row, by, "cancel")
        if undo:
            undo_run = {"run": f"undo-{row.run}", "of": row.run, "priority": HIGHEST_PRIORITY}
            self.add_run(connection, UndoJob.for_run(row, **undo_run))
        self.settle(connection, row.thread_id, row.run, "cancelled")
        self.send_end(connection)

    def send_end(self, connection: Connection) -> None:
        """Wake callers that wait for cancelled runs: for results, events, or their turn."""
        self._signals.send(connection, {"jobs": (), "events": (), "ends": ()})

    def withdraw(self, connection: Connection, row: Row[Any], by: str) -> None:
        """Withdraw the open waits of a thread, with entries in the audit."""
        open_waits = update(waits).filter_by(thread_id=row.thread_id, decided_at=None)
        end = {"decided_at": self._database.now, "decided_by": by, "decision": '{"type": "cancel"}'}
        for wait in connection.execute(open_waits.values(end).returning(waits)).all():
            call = {"tool": wait.tool, "args": json.loads(wait.args)}
            self.record(connection, wait, by, "withdraw", call)

    def end_runs(self, connection: Connection, thread: Row[Any], by: str) -> list[Row[Any]]:
        """End the run of a busy thread and the runs behind it; return their rows."""
        query = select(runs).where(runs.c.thread_id == thread.thread_id, runs.c.status.in_(BUSY))
        rows = [*connection.execute(query.order_by(runs.c.seq)).all()]
        # All runs first: `settle` queues the next run that is not cancelled.
        of_rows = runs.c.run_id.in_([run.run_id for run in rows])
        connection.execute(update(runs).where(of_rows).values(status="cancelled"))
        self.end_run(connection, thread, by)
        return rows

    def record(
        self, connection: Connection, row: Row[Any], who: str, what: str, detail: object = None
    ) -> None:
        """Add an entry to the audit, about the row of a thread or of a wait."""
        check_name(who)
        append_entry(self._database, connection, row, who, what, detail)
