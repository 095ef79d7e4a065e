"""State of a budget: amounts spent in a run and in a thread, and additions by a call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from time import monotonic
from typing import Annotated, Any, Literal, NotRequired

from langgraph.channels.untracked_value import UntrackedValue

from agent_factory import AgentState, PrivateStateAttr
from agent_factory.counts import COUNTS, count, counted_keys

from .limits import Account, Limits, Record

# A record holds the fields of Spent, and these keys:
#   warned    the highest mark of `warn_at` with a warning
#   over      1 if the middleware has ended the run
#   slowest   seconds of the slowest call of the model
#   refused   the number of refused tool calls
#   extra_run_turns, extra_thread_usd, ...   additions to a limit by people
_MAXIMA = ("warned", "over", "slowest")
_RUN_ONLY = ("warned", "over", "refused", "slowest", "extra_run_")


def extra_key(scope: str, name: str) -> str:
    """The key of a record for additions to a limit by people."""
    return f"extra_{scope}_{name}"


def add_records(record: Mapping[str, float], more: Mapping[str, float]) -> Record:
    """The sum of two records, without zero additions; of some keys the larger value."""
    result = dict(record)
    for key, amount in more.items():
        if not amount:
            continue
        if key not in result or (key in _MAXIMA and amount > result[key]):
            result[key] = amount
        elif key not in _MAXIMA:
            result[key] += amount
    return result


def thread_part(record: Mapping[str, float]) -> Record:
    """The part of a run's record for its thread, after the run."""
    return {key: amount for key, amount in record.items() if not key.startswith(_RUN_ONLY)}


def add_named_records(
    records: dict[str, Record] | None, more: dict[str, Record | None] | None
) -> dict[str, Record]:
    """State reducer: adds the records of each middleware; None resets a record."""
    # A copy: LangGraph passes the state itself to a reducer.
    result = dict(records or {})
    for name, record in (more or {}).items():
        if record is None:
            result[name] = {}
        else:
            result[name] = add_records(result[name], record) if name in result else record
    return result


counted_keys.update(("budget_run", "budget_thread"))

RunClock = tuple[str, float]
"""The name of a middleware, and when it started a run with an empty record.

The seconds in that record say until when time is recorded, so the clock need not be written at each
call. Records of other middleware may be older, because a jump can pass their `before_agent`.
"""


class BudgetState(AgentState):
    """State of an agent with a budget.

    Attributes:
        budget_run: Amounts spent in this run, by the name of the BudgetMiddleware. A run
            after an interrupt or a failure continues with the same record.
        budget_thread: Amounts spent in this thread before this run, by the name of the
            middleware. Written once a run instead of at each call.
        budget_clock: Time up to which seconds are recorded in this process, by `time.monotonic`.
            In a new run, the name of the middleware and the time of the start.
    """

    budget_run: NotRequired[Annotated[dict[str, Record], add_named_records, PrivateStateAttr]]
    budget_thread: NotRequired[Annotated[dict[str, Record], add_named_records, PrivateStateAttr]]
    budget_clock: NotRequired[
        Annotated[float | RunClock, UntrackedValue(object, guard=False), PrivateStateAttr]
    ]


class LastUpdates:
    """The last update of each thread, in case LangGraph does not write it to the state.

    A cancelled task writes nothing. The last write of an abandoned sync stream is dropped
    when another message starts a new run. Kept in this process only.
    """

    MAX_THREADS = 4096  # a few hundred bytes each

    def __init__(self) -> None:
        self._updates: OrderedDict[str | None, tuple[Record, Record, bool]] = OrderedDict()

    def keep(self, runtime: object, before: Record, update: Record, *, is_end: bool) -> None:
        """Keep a node's addition to the record; `is_end` unless the node was cancelled."""
        info = getattr(runtime, "execution_info", None)
        if info is not None and info.thread_id is not None:
            self._updates[info.thread_id] = before, update, is_end
            self._updates.move_to_end(info.thread_id)
            if len(self._updates) > self.MAX_THREADS:
                self._updates.popitem(last=False)

    def missing(self, runtime: object, record: Record, *, new_run: bool = False) -> Record:
        """Return the part that the record in the state lacks; a new run takes the part out."""
        info = getattr(runtime, "execution_info", None)
        thread = info.thread_id if info else None
        before, update, is_end = self._updates.get(thread, ({}, {}, True))
        if new_run:
            self._updates.pop(thread, None)
        # An ended node is not missing in the same run: after time travel the node runs again.
        return update if before == record and (new_run or not is_end) else {}


def thread_record(name: str, values: Mapping[str, Any]) -> Record:
    """Amounts spent by a BudgetMiddleware in a thread, the last run included."""
    earlier = run_record(name, values, "budget_thread")
    return add_records(earlier, thread_part(run_record(name, values)))


def run_record(name: str, state: Mapping[str, Any], key: str = "budget_run") -> Record:
    """Record of a BudgetMiddleware under a key of the state; by default, of this run."""
    records: dict[str, Record] | None = state.get(key)
    return records[name] if records and name in records else {}


class CallAccounting:
    """Accounts of a BudgetMiddleware during a call of a model or a tool."""

    def __init__(
        self,
        name: str,
        state: Mapping[str, Any],
        runtime: object = None,
        updates: LastUpdates | None = None,
    ) -> None:
        self._name, self._state = name, state
        self._runtime, self._updates = runtime, updates
        self._before = run_record(name, state)
        # A layer further out may call several times in the node of a model. A tool has no
        # updates, and leaves room for earlier attempts.
        counts = (COUNTS.get() or {}) if updates else {}
        self._counted: Record = counts.get("budget_run", {}).get(name, {})
        self.added: Record = {}
        if updates and not self._counted:
            self.added = updates.missing(runtime, self._before)
        # The record of this run at the start of the call, with earlier additions of this node.
        earlier = self._counted or self.added
        self.run = add_records(self._before, earlier) if earlier else self._before
        clock: float | RunClock | None = counts.get("budget_clock", state.get("budget_clock"))
        is_timed = clock is not None
        self._has_run_clock = False
        if isinstance(clock, tuple):
            starter, clock = clock
            if starter == name:
                self._has_run_clock = True
                # This clock is written once a run; the recorded seconds complete it.
                clock += self.run.get("seconds", 0)
        self._since = monotonic() if clock is None else clock
        # A tool starts the clock if a resumed run has none yet.
        self.tool_clock = None if is_timed else self._since

    @property
    def unrecorded_seconds(self) -> float:
        return monotonic() - self._since

    def accounts(self, run: Limits, thread: Limits) -> tuple[Account, Account]:
        """The limits of the run and of the thread, with the amounts spent up to now."""
        of_run = add_records(self._before, add_records(self._counted, self.added))
        of_run["seconds"] = of_run.get("seconds", 0) + self.unrecorded_seconds
        before = run_record(self._name, self._state, "budget_thread")
        of_thread = add_records(before, of_run)
        return _account("run", run, of_run), _account("thread", thread, of_thread)

    def is_far_from(self, run: Limits, thread: Limits, share: float) -> bool:
        """Return True if only turns and tool calls are limited, and two more stay below a share.

        No clock is read, and no estimate is made.
        """
        scopes = [(run, self.run)]
        if thread.amounts:
            before = run_record(self._name, self._state, "budget_thread")
            scopes.append((thread, add_records(before, self.run)))
        for limits, record in scopes:
            for name, limit in limits.amounts.items():
                if name not in ("turns", "tool_calls") or not limit:
                    return False
                if (record.get(name, 0) + 2) / limit >= share:
                    return False
        return True

    def add(self, amounts: Mapping[str, float]) -> None:
        """Add some amounts; zero amounts are left out."""
        self.added = add_records(self.added, amounts)

    def update(self) -> dict[str, object]:
        """The state update with all additions."""
        return {"budget_run": {self._name: self.added}}

    def model_update(
        self, amounts: Mapping[str, float], *, now: float | None = None, is_end: bool = True
    ) -> dict[str, object]:
        """Count some amounts and the time up to now, once for each call of the model.

        `is_end` is false for a call that raised: the node may write nothing. A layer without a
        node for the counts returns the state update.
        """
        now = monotonic() if now is None else now
        self.add({**amounts, "seconds": now - self._since})
        self._since = now
        if self._updates is not None:
            total = add_records(self._counted, self.added)
            self._updates.keep(self._runtime, self._before, total, is_end=is_end)
        return self.count(None if self._has_run_clock else now)

    def count(self, clock: float | None = None) -> dict[str, object]:
        """Write the additions, and a clock, even if the node fails.

        Outside of a node, return the update.
        """
        clocks = {} if clock is None else {"budget_clock": clock}
        if not count("budget_run", {self._name: self.added}, add_named_records):
            return {**self.update(), **clocks}
        for key, time in clocks.items():
            count(key, time, max)
        return {}


def _account(scope: Literal["run", "thread"], limits: Limits, record: Record) -> Account:
    if amounts := limits.amounts:
        extra = {n: more for n in amounts if (more := record.get(extra_key(scope, n)))}
        limits = limits.raised(extra) if extra else limits
    return Account(scope, limits, record)
