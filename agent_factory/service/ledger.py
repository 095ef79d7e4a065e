"""SharedLedger: a budget for agents in many processes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta, tzinfo
from functools import cached_property
from string import Formatter
from time import monotonic
from typing import Any, Literal, get_args
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Float,
    String,
    Update,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from agent_factory.errors import ArgumentError, describe
from agent_factory.middleware.budget import (
    Account,
    BudgetExceededError,
    Ledger,
    Limits,
    Reservation,
    Spent,
)
from agent_factory.service.database import Database
from agent_factory.service.errors import DatabaseUnavailable
from agent_factory.service.jobs import AGENT_KEY, RUN_KEY, TENANT_KEY
from agent_factory.service.leases import aborting
from agent_factory.service.reservations import GIVE_BACK, end_reservation, expire_reservations
from agent_factory.service.schedules import zone_of
from agent_factory.service.service import Service
from agent_factory.service.tables import AMOUNTS, LIMIT_NAMES, breakdown, ledger, reservations
from agent_factory.service.usage import spender
from agent_factory.upstream import current_config

Per = Literal["hour", "day", "month"]
"""How often spending starts from 0 again."""

MAX_PARTS = 64
"""The most rows of a breakdown; the amounts of other parts add up in one more row."""

MOST_ATTEMPTS = 100
"""Attempts to reserve an amount while other processes change the scope."""

_FIELDS = {"tenant": TENANT_KEY, "agent": AGENT_KEY}
_ROUNDING = 1e-9  # in US dollars, as in one process
_NOTHING = Spent()


@dataclass(frozen=True, slots=True)
class SpentBy:
    """Spending of a part of an agent.

    Attributes:
        agent: The `name` of the agent or subagent, or else its name in the service. A subagent
            without a name counts as its caller.
        part: "model", "tools", or the name of the middleware that made the call; "middleware" for
            a call in a function such as `wrap_model_call`, whose middleware the engine cannot name.
            Only `handler` sees calls of middleware and calls inside tools.
        spent: The amounts.
    """

    agent: str
    part: str
    spent: Spent


@dataclass(slots=True)
class _Clock:
    """Number of running calls of this process in a scope, and the time of the last record."""

    running: int
    since: float


class SharedLedger(Ledger):
    """A `Ledger` in a database: agents in many workers, processes and machines share it.

    The methods are those of a `Ledger`. One statement of the database checks the limits and
    reserves, so the limits hold over all processes: each agent exceeds them by at most one call,
    and turns and tool calls never exceed them.

    A reservation belongs to its worker. It is given back after the death of the worker, or after
    `expires_after`. If the call ends later, its cost is recorded.

    `seconds` count in each process as in a `Ledger`: the time in which at least one call of the
    scope is running. The seconds of several processes add up, and a process knows the seconds of
    other processes once their calls have ended.

    Limits come from the code of each process. `raise_limits` stores its additions in the database.

    In async runs, a short transaction blocks the event loop; it never waits for a model.

    Args:
        service: A service whose database has the ledger; or the URL of a database.
        scope: The name of the budget, such as "research". `{tenant}` and `{agent}` in the name make
            a budget of each: in runs of a service, the tenant of the thread and the name of the
            agent in the service.
        limits: The most that may be spent.
        per: "hour", "day" or "month": spending starts from 0 with each, by the clock of the
            database, and raised limits fall back. A running call then counts as reserved, and its
            cost is recorded in the new period. None: spending never starts again.
        timezone: Such as "Europe/Berlin", for the beginning of days and months; None is UTC.
        expires_after: Seconds after which a reservation is given back.

    Raises:
        TypeError: `limits` is not a Limits.
        ArgumentError: Another argument cannot be used.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = SharedLedger(
    ...     f"sqlite:///{folder.name}/budget.db", scope="search", limits=Limits(usd=1), per="day"
    ... )
    >>> with ledger.reserve(Spent(usd=0.3)) as reservation:
    ...     reservation.commit(Spent(usd=0.25))
    >>> ledger.spent.usd, ledger.reserved.usd
    (0.25, 0.0)
    >>> ledger.close()
    >>> folder.cleanup()
    """

    def __init__(
        self,
        service: Service | str,
        *,
        scope: str,
        limits: Limits,
        per: Per | None = None,
        timezone: str | None = None,
        expires_after: float = 900.0,
    ) -> None:
        super().__init__(limits)
        if not isinstance(service, Service | str):
            reason = f"must be a Service or the URL of a database, got {describe(service)}."
            hint = "Pass Service('sqlite:///desk.db') or 'sqlite:///desk.db'."
            raise ArgumentError("service", reason, hint)
        if per not in (None, *get_args(Per)):
            raise ArgumentError("per", f"must be 'hour', 'day', 'month' or None, got {per!r}.")
        self.scope, self.per, self._expires_after = scope, per, expires_after
        self._fields = _fields_of(scope)
        self._zone = zone_of(timezone)
        self._per = "" if per is None else f"{per} {timezone or 'UTC'}"
        self._service: Service | None = None
        self._own_database: Database | None = None
        if isinstance(service, Service):
            self._service, self._database = service, service._backend.database
        else:
            self._own_database = self._database = Database(service)
        # With -inf, the first update changes no row, and `_begin_window` reads the end.
        self._ends = math.inf if per is None else -math.inf  # when the window ends, as last seen
        self._running: dict[int, tuple[str, str]] = {}  # the id and the scope of reservations
        self._clocks: dict[str, _Clock] = {}

    @property
    def limits(self) -> Limits:
        """The most that may be spent, with the additions of `raise_limits`."""
        return self._read()[0]

    @property
    def spent(self) -> Spent:
        """Amount spent up to now."""
        return self._read()[1]

    @property
    def reserved(self) -> Spent:
        """Least cost of the running calls, in all processes."""
        return self._read()[2]

    def account(self) -> Account:
        """The limits, with the spent and reserved amounts, at one moment."""
        limits, cost, reserved = self._read()
        return Account("ledger", limits, (cost + reserved).as_record())

    def breakdown(self) -> list[SpentBy]:
        """Spending of each part of the agents, the highest first."""
        same_scope = (breakdown.c.scope == ledger.c.scope) & (breakdown.c.per == ledger.c.per)
        query = select(breakdown).join(ledger, same_scope).where(ledger.c.per == self._per)
        query = query.where(ledger.c.scope == self._run_scope())
        with _outage(), self._database.read() as connection:
            rows = connection.execute(query.where(ledger.c.ends >= self._window(connection)))
            parts = [SpentBy(r["agent"], r["part"], _spent(dict(r))) for r in rows.mappings()]
        parts.sort(key=lambda part: (part.spent.usd, part.spent.total_tokens), reverse=True)
        return parts

    def reserve(self, least: Spent, *, keep: Spent = _NOTHING) -> Reservation:
        """Reserve the least cost of a call; use the result in a `with` statement.

        See `Ledger.reserve`.

        Raises:
            BudgetExceededError: It does not fit.
            DatabaseUnavailable: The database is restarting, unreachable or overloaded. In runs of
                a service DatabaseLost is raised, which no middleware takes for an error of a model.
        """
        scope, id, need = self._run_scope(), uuid4().hex, least + keep
        least = replace(least, seconds=0.0)
        database = self._database
        values = {name: getattr(least, name) for name in AMOUNTS}
        additions = {f"add_{name}": amount for name, amount in values.items()}
        needs = {f"need_{name}": getattr(need, name) for name in self._limits.given()}
        for _ in range(MOST_ATTEMPTS):
            elapsed = {"elapsed": self._elapsed(scope)} if "need_seconds" in needs else {}
            with _outage(), database.begin() as connection, connection.begin_nested() as attempt:
                # First, because the row of the scope stays locked until the transaction ends.
                owner = self._service.worker_id if self._service else None
                row = insert(reservations).values(id=id, scope=scope, per=self._per, owner=owner)
                expires = database.now + self._expires_after
                connection.execute(row.values(expires=expires, **values))
                place = {"at_scope": scope, "at_per": self._per, "at_ends": self._ends}
                result = connection.execute(self._take, {**place, **additions, **needs, **elapsed})
                if result.first():
                    break
                # Only this attempt: in SQLite, other threads may share the transaction.
                attempt.rollback()
            account = self.account()
            if not account.shortfall(need):  # a new scope, a new window, or others gave back
                with _outage(), database.begin() as connection:
                    self._begin_window(connection, scope)
                continue
            with _outage():
                # Reservations of dead workers may be in the way.
                is_over = not expire_reservations(database)
            if is_over:
                raise BudgetExceededError((account,), need)
        else:
            with _outage():
                reason = f"changed {MOST_ATTEMPTS} times while an amount was reserved."
                raise DatabaseUnavailable(f"scope {scope!r}", reason, "Try again later.")
        with self._lock:
            number = next(self._numbers)
            self._running[number] = id, scope
            self._clocks.setdefault(scope, _Clock(0, monotonic())).running += 1
        return Reservation(self, number, least)

    def raise_limits(self, extra: Mapping[str, float]) -> None:
        """Raise the limits for all processes, until the end of the hour, day or month.

        Args:
            extra: The addition to each limit, such as `{"usd": 0.5}`; amounts without a limit stay
                without a limit.
        """
        self._limits.raised(extra)  # raises if an amount cannot be added
        limits = self._limits.given()
        columns = {ledger.c[f"{n}_raised"]: more for n, more in extra.items() if n in limits}
        if columns:
            statement = self._update({column: column + more for column, more in columns.items()})
            with _outage(), self._database.begin() as connection:
                self._change(connection, statement, self._run_scope(), {})

    def record(self, amount: Spent, message_id: str | None = None) -> None:
        """Record an amount that was spent without a reservation.

        Args:
            amount: The amount. Its seconds are ignored, because the ledger measures them.
            message_id: The id of a message, whose amount is recorded only once.
        """
        scope, amount = self._run_scope(), replace(amount, seconds=0.0)
        with _outage(), self._database.begin() as connection:
            reservation = {f"{name}_held": 0 for name in AMOUNTS}
            self._add(connection, scope, amount, reservation, spender(records=True))
        super().record(_NOTHING, message_id)  # the middleware asks in the process of the handler

    def close(self) -> None:
        """Close the connections to the database of a ledger with a URL."""
        if self._own_database is not None:
            self._own_database.close()

    def _settle(self, number: int, actual: Spent) -> bool:
        """End a reservation; False if it had ended before."""
        with self._lock:
            if number not in self._running:
                return False
            id, scope = self._running.pop(number)
            clock, now = self._clocks[scope], monotonic()
            # The time since the last record of the scope, so that parallel calls count once.
            actual = replace(actual, seconds=now - clock.since)
            clock.since, clock.running = now, clock.running - 1
            if not clock.running:
                del self._clocks[scope]
        with _outage(), self._database.begin() as connection:
            reservation = end_reservation(connection, id)
            self._add(connection, scope, actual, reservation, spender(records=False))
        return True

    def _add(
        self,
        connection: Connection,
        scope: str,
        amount: Spent,
        reservation: Mapping[str, object],
        spender: tuple[str, str],
    ) -> None:
        """Add an amount to the scope and to its breakdown, and give its reservation back."""
        values = {f"add_{name}": getattr(amount, name) for name in AMOUNTS}
        self._change(connection, self._spend, scope, {**values, **reservation})
        values |= {"at_scope": scope, "at_per": self._per}
        # The second row takes amounts without room among the first rows, and is one row more.
        for (agent, part), most in ((spender, MAX_PARTS), (("", "other"), MAX_PARTS + 1)):
            row = {**values, "at_agent": agent, "at_part": part, "most": most}
            if connection.execute(self._share, row).first():
                return

    def _change(
        self, connection: Connection, statement: Update, scope: str, values: Mapping[str, object]
    ) -> None:
        """Update the row of a scope, in the present window by the clock of the database."""
        place = {"at_scope": scope, "at_per": self._per, **values}
        # No row is changed if the scope has none yet, or if its window has ended.
        while not connection.execute(statement, {**place, "at_ends": self._ends}).first():
            self._begin_window(connection, scope)

    def _begin_window(self, connection: Connection, scope: str) -> None:
        """Create the row of a scope, or start from 0 if its window has ended."""
        ends = self._window(connection)
        key = {"scope": scope, "per": self._per}
        fresh = dict.fromkeys([*AMOUNTS, *(f"{name}_raised" for name in LIMIT_NAMES)], 0)
        statement = (
            self._database.insert(ledger)
            .values(**key, ends=ends)
            .on_conflict_do_update(
                index_elements=["scope", "per"],
                set_={**fresh, "ends": ends},
                # Of two processes that begin a window at once, the second changes nothing.
                where=ledger.c.ends < ends,
            )
        )
        if connection.execute(statement.returning(ledger.c.ends)).first():
            connection.execute(delete(breakdown).filter_by(**key))
        # After the clock has been set back, the row may be in a later window.
        self._ends = connection.execute(select(ledger.c.ends).filter_by(**key)).scalar_one()

    def _window(self, connection: Connection) -> float:
        """End of the present window, by the clock of the database."""
        if self.per is None:
            return math.inf
        now = connection.execute(select(self._database.now)).scalar_one()
        return end_of_window(now, self.per, self._zone)

    def _read(self) -> tuple[Limits, Spent, Spent]:
        """The limits, the spent amount, and the reserved amount."""
        scope = self._run_scope()
        with _outage(), self._database.read() as connection:
            ends = self._window(connection)
            query = select(ledger).filter_by(scope=scope, per=self._per)
            row: dict[str, Any] = dict(connection.execute(query).mappings().first() or {})
        reserved, limits, cost = _spent(row, "_reserved"), self._limits, _NOTHING
        # When a window has ended, nothing is spent; running calls are still reserved.
        if row and row["ends"] >= ends:
            limits = limits.raised({name: row[f"{name}_raised"] for name in limits.given()})
            cost = _spent(row)
        return limits, replace(cost, seconds=cost.seconds + self._elapsed(scope)), reserved

    def _elapsed(self, scope: str) -> float:
        """Seconds of the running calls of this process, which are not recorded yet."""
        with self._lock:
            clock = self._clocks.get(scope)
            return monotonic() - clock.since if clock else 0.0

    def _run_scope(self) -> str:
        """The scope, for the present run."""
        if not self._fields:
            return self.scope
        metadata = (current_config.get() or {}).get("metadata", {})
        try:
            return self.scope.format(**{name: metadata[_FIELDS[name]] for name in self._fields})
        except KeyError:
            reason = f"{self.scope!r} can only be used in runs of a service."
            hint = "Outside of them, write it out, such as SharedLedger(..., scope='tenant:acme')."
            raise ArgumentError("scope", reason, hint) from None

    def _update(self, values: Mapping[Any, object], *conditions: ColumnElement[bool]) -> Update:
        """An update of the row of a scope, if its window has not ended."""
        if self.per is not None:
            conditions = (*conditions, self._database.now < ledger.c.ends)
        place: dict[str, Any] = {name: bindparam(f"at_{name}") for name in ("scope", "per", "ends")}
        statement = update(ledger).filter_by(**place).where(*conditions)
        return statement.values(values).returning(ledger.c.ends)

    @cached_property
    def _take(self) -> Update:
        """Reserve amounts if they fit. `Account.shortfall` is the same in Python."""
        conditions: list[ColumnElement[bool]] = []
        for name, limit in self._limits.given().items():
            parts = ("input_tokens", "output_tokens") if name == "total_tokens" else (name,)
            # In this order, because sums of floats depend on it.
            total = sum(ledger.c[part] + ledger.c[f"{part}_reserved"] for part in parts)
            need = bindparam(f"need_{name}", type_=ledger.c[f"{name}_raised"].type)
            if name == "seconds":
                total = ledger.c.seconds + bindparam("elapsed", type_=Float)
            over = total + need - (ledger.c[f"{name}_raised"] + limit)
            if name == "seconds":
                # Each call takes time, so that some of it must be left.
                conditions.append(over < 0)
            else:
                rounding = _ROUNDING if name == "usd" else 0
                # An amount that a call does not need may be exceeded already.
                conditions.append(or_(need == 0, over <= rounding))
        columns = {name: ledger.c[f"{name}_reserved"] for name in AMOUNTS}
        more = {c: c + bindparam(f"add_{name}", type_=c.type) for name, c in columns.items()}
        return self._update(more, *conditions)

    @cached_property
    def _spend(self) -> Update:
        """Add to the spent amount, and give the reserved amount back."""
        columns = [ledger.c[name] for name in AMOUNTS]
        more = {c: c + bindparam(f"add_{c.name}", type_=c.type) for c in columns}
        return self._update({**more, **GIVE_BACK})

    @cached_property
    def _share(self) -> Executable:
        """Add to a row of the breakdown; make a new one if there are not too many."""
        names = ("scope", "per", "agent", "part")
        place = {name: bindparam(f"at_{name}", type_=String) for name in names}
        rows = select(func.count()).select_from(breakdown)
        rows = rows.filter_by(scope=place["scope"], per=place["per"])
        existing = select(breakdown.c.scope).filter_by(**place)
        is_room = rows.scalar_subquery() < bindparam("most")
        columns = [breakdown.c[name] for name in AMOUNTS]
        parameters = [bindparam(f"add_{column.name}", type_=column.type) for column in columns]
        # One statement: between a count and an insert, another process could add a row.
        row = self._database.insert(breakdown).from_select(
            [*place, *AMOUNTS],
            select(*place.values(), *parameters).where(or_(existing.exists(), is_room)),
        )
        return row.on_conflict_do_update(
            index_elements=[*place],
            set_={column: column + row.excluded[column.name] for column in columns},
        ).returning(breakdown.c.agent)


def end_of_window(now: float, per: Per, zone: tzinfo) -> float:
    """End of an hour, a day or a month, in seconds since 1970.

    >>> end_of_window(0, "month", zone_of(None)) / 86400
    31.0
    """
    local = datetime.fromtimestamp(now, zone)
    if per == "hour":
        # Some zones are half an hour or 45 minutes off, and their hours begin then.
        offset = local.utcoffset() or timedelta()
        return now // 1 - (now + offset.total_seconds()) // 1 % 3600 + 3600
    following = local.date() + timedelta(days=1)
    if per == "month":
        # Four days after the 28th it is the next month, however long this one is.
        following = (local.replace(day=28) + timedelta(days=4)).date().replace(day=1)
    # By the calendar: a day on which the clock is changed has 23 or 25 hours.
    return datetime.combine(following, time(), zone).timestamp()


def _spent(row: Mapping[str, Any], suffix: str = "") -> Spent:
    return Spent(**{name: row.get(name + suffix, 0) for name in AMOUNTS})


def _outage() -> AbstractContextManager[None]:
    """Abort a run of a service if the database is not available; another attempt continues it."""
    metadata = (current_config.get() or {}).get("metadata", {})
    return aborting() if RUN_KEY in metadata else nullcontext()


def _fields_of(scope: str) -> set[str]:
    hint = f"Write text, which may contain {' and '.join(f'{{{name}}}' for name in _FIELDS)}."
    try:
        parts = [*Formatter().parse(scope)]
    except (TypeError, ValueError):
        raise ArgumentError("scope", f"must be a template, got {scope!r}.", hint) from None
    fields = {name for _, name, _, _ in parts if name is not None}
    if others := fields - _FIELDS.keys():
        raise ArgumentError("scope", f"{scope!r} has the field {min(others)!r}.", hint)
    return fields
