"""SharedLedger: a Ledger in a database, over threads, processes, workers and days."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from threading import Barrier
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command
from sqlalchemy import Column, Float, MetaData, Table, delete, insert, select, text, update
from stack_agents import agent_of, kept_agent

from agent_factory import AgentMiddleware, Invoke, create_agent
from agent_factory import middleware as m
from agent_factory.errors import ArgumentError
from agent_factory.service import Service, SharedLedger
from agent_factory.service.database import Database
from agent_factory.service.errors import DatabaseLost, DatabaseUnavailable
from agent_factory.service.ledger import end_of_window
from agent_factory.service.reservations import expire_reservations
from agent_factory.service.tables import ledger as ledger_table
from agent_factory.service.tables import reservations, workers
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, look
from service.stored import Tables
from tables import each
from waiting import until

PRICES = {"ScriptedChatModel": m.Price(input=1000, output=1000)}  # a dollar for 1000 tokens

Make = Callable[..., SharedLedger]


@pytest.fixture
def make() -> Iterator[Make]:
    """Make ledgers with connections of their own, as processes have."""
    made: list[SharedLedger] = []

    def make(url: str, limits: m.Limits, scope: str = "all", **options: Any) -> SharedLedger:
        made.append(SharedLedger(url, scope=scope, limits=limits, **options))
        return made[-1]

    yield make
    for ledger in made:
        ledger.close()


def response(content: str = "", *, calls: int = 0, read: int = 90, written: int = 10) -> AIMessage:
    usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    asked = [{"name": "look", "args": {}, "id": uuid4().hex} for _ in range(calls)]
    return AIMessage(content, tool_calls=asked, usage_metadata=usage)


def go() -> Any:
    return {"messages": [HumanMessage("Go on")]}


def numbers(spent: m.Spent) -> list[float]:
    return [getattr(spent, name) for name in m.Spent.__slots__]


def total(ledger: SharedLedger) -> m.Spent:
    """The sum of the breakdown."""
    return sum((part.spent for part in ledger.breakdown()), m.Spent())


def test_the_last_of_an_amount_is_reserved_once(url: str, make: Make) -> None:
    """Threads with connections of their own race for one row."""
    limits = m.Limits(turns=20, usd=0.31, total_tokens=10_000)
    ledgers = [make(url, limits) for _ in range(4)]
    together = Barrier(4)

    def spend(ledger: SharedLedger) -> int:
        together.wait(10)
        for calls in range(30):
            try:
                with ledger.reserve(m.Spent(turns=1, usd=0.01, input_tokens=7)) as reservation:
                    account = ledger.account()
                    assert account.used.turns <= 20
                    reservation.commit(m.Spent(turns=1, usd=0.01, input_tokens=9))
            except m.BudgetExceededError as error:
                assert error.reached == {"ledger": {"turns": 1}}  # noqa: PT017
                return calls
        raise AssertionError

    with ThreadPoolExecutor(4) as pool:
        made = [*pool.map(spend, ledgers)]
    spent = ledgers[0].spent
    assert (sum(made), spent.turns, spent.input_tokens) == (20, 20, 180)
    assert spent.usd == pytest.approx(0.2)
    assert ledgers[0].reserved == m.Spent()
    assert numbers(total(ledgers[0])) == pytest.approx(numbers(spent))


def test_agents_of_several_processes_exceed_a_limit_by_a_call_each(url: str, make: Make) -> None:
    """All ask before one is answered, and there is room for the least cost of three calls."""
    ledgers = [make(url, m.Limits(usd=0.3)) for _ in range(5)]
    everyone_has_come = Barrier(5)

    def answer(_: list[Any]) -> AIMessage:
        everyone_has_come.wait(10)
        return response("done", read=90, written=30)

    def spend(ledger: SharedLedger) -> bool:
        budget = m.BudgetMiddleware(
            ledger=ledger, prices=PRICES, token_counter=lambda _: 90, exit_behavior="end"
        )
        model = ScriptedChatModel([answer])
        create_agent(model, middleware=[budget]).invoke(go())
        if not model.requests:
            everyone_has_come.wait(10)
        return bool(model.requests)

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(spend, ledgers)) == 3
    assert ledgers[0].spent.usd == pytest.approx(0.36)  # three calls of 0.12, reserved as 0.091
    assert ledgers[0].reserved == m.Spent()


def test_limits_that_are_raised_are_so_for_all_processes(url: str, make: Make, call: Any) -> None:
    asks, other = (make(url, m.Limits(turns=1)) for _ in range(2))
    budget = m.BudgetMiddleware(ledger=asks, exit_behavior="ask")
    agent = kept_agent([response(calls=1), response("done")], budget, tools=[look])
    assert call(agent, go(), THREAD)["__interrupt__"][0].value["needed"] == {"turns": 1}
    resume: Any = Command(resume={"type": "raise", "extra": {"turns": 3, "tool_calls": 1}})
    with pytest.raises(ValueError, match="tool_calls"):
        call(agent, resume, THREAD)
    call(agent, Command(resume={"type": "raise", "extra": {"turns": 3}}), THREAD)
    assert (other.limits, other.spent.turns, other.reserved) == (m.Limits(turns=4), 2, m.Spent())
    with pytest.raises(ValueError, match="turns must be a whole number"):
        other.raise_limits({"turns": 0.5})
    assert asks.limits == m.Limits(turns=4)


def test_what_a_dead_worker_reserved_is_given_back(url: str, make: Make, tables: Tables) -> None:
    ledger = make(url, m.Limits(usd=1))
    reservation = ledger.reserve(m.Spent(usd=0.8))
    tables.write(
        insert(workers).values(id="w-1", beat=0, draining=False, detail="{}"),
        update(reservations).values(owner="w-1"),
    )
    assert expire_reservations(tables.database) == 0
    tables.write(delete(workers))  # as others do once it gives no sign of life
    assert (expire_reservations(tables.database), ledger.reserved) == (1, m.Spent())
    with ledger.reserve(m.Spent(usd=0.8)) as other:
        other.commit(m.Spent(usd=0.5))
        # It was only slow: what it has spent is recorded, and nothing is given back twice.
        reservation.commit(m.Spent(usd=0.7))
    assert ledger.spent.usd == pytest.approx(1.2)
    assert ledger.reserved == m.Spent()
    assert tables.rows(select(reservations)) == []


@pytest.mark.long
@pytest.mark.parametrize("table", [reservations, ledger_table], ids=["reservation", "ledger"])
def test_a_locked_row_keeps_no_other_reservation_from_its_end(
    postgres_url: str, make: Make, table: Table
) -> None:
    """A process that was stopped in a transaction holds it. The next look gives it back."""
    scopes, limits = ("locked", "free"), m.Limits(turns=2)
    ledgers = [make(postgres_url, limits, scope, expires_after=0.001) for scope in scopes]
    for ledger in ledgers:
        ledger.reserve(m.Spent(turns=1))
    with closing(Database(postgres_url)) as database:
        with database.begin() as stopped:
            stopped.execute(select(1).where(table.c.scope == "locked").with_for_update())
            assert expire_reservations(database, skip_locked=True) == 1
            assert [ledger.reserved for ledger in ledgers] == [m.Spent(turns=1), m.Spent()]
        assert expire_reservations(database, skip_locked=True) == 1
    assert [ledger.reserved for ledger in ledgers] == [m.Spent(), m.Spent()]


@pytest.mark.long
def test_workers_give_back_what_a_dead_one_has_reserved(url: str, tables: Tables) -> None:
    with Service(url) as service:
        ledger = SharedLedger(service, scope="all", limits=m.Limits(usd=1))
        ledger.reserve(m.Spent(usd=0.8))
        owner = tables.value(select(reservations.c.owner))
        tables.write(delete(workers).where(workers.c.id == owner))
        until(lambda: ledger.reserved == m.Spent())  # the worker goes on under a new id


def test_reservations_expire_when_amounts_are_needed(url: str, make: Make, tables: Tables) -> None:
    dies, lives = (make(url, m.Limits(turns=1), expires_after=60) for _ in range(2))
    dies.reserve(m.Spent(turns=1))
    with pytest.raises(m.BudgetExceededError):
        lives.reserve(m.Spent(turns=1))
    tables.write(update(reservations).values(expires=0))
    with lives.reserve(m.Spent(turns=1)) as reservation:
        assert lives.reserved.turns == 1
        reservation.commit(m.Spent(turns=1))
    assert (lives.spent.turns, lives.reserved) == (1, m.Spent())


@pytest.fixture
def clock(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the clock of the database: `clock("2026-03-29 00:30+01:00")`."""
    database = Database(url)
    table = Table("test_clock", MetaData(), Column("at", Float))
    with database.begin() as connection:
        table.create(connection)
        connection.execute(table.insert().values(at=0))
    monkeypatch.setattr(Database, "now", select(table.c.at).scalar_subquery())

    def set_clock(at: str) -> None:
        database.write(table.update().values(at=datetime.fromisoformat(at).timestamp()))

    yield set_clock
    database.close()


@pytest.mark.parametrize(
    ("per", "last", "next"),
    [
        ("hour", "2026-03-28 22:59:59+00:00", "2026-03-28 23:00:01+00:00"),
        ("day", "2026-03-28 22:59:59+00:00", "2026-03-28 23:00:01+00:00"),  # midnight in Berlin
        ("month", "2026-03-31 21:59:59+00:00", "2026-03-31 22:00:01+00:00"),  # summer time
    ],
)
def test_spending_starts_again_with_each_window(
    per: Any, last: str, next: str, url: str, make: Make, clock: Callable[[str], None]
) -> None:
    clock("2026-03-28 22:10:00+00:00")
    first, second = (
        make(url, m.Limits(usd=1), per=per, timezone="Europe/Berlin") for _ in range(2)
    )
    first.record(m.Spent(usd=0.9))
    first.raise_limits({"usd": 0.5})
    clock(last)
    running = second.reserve(m.Spent(usd=0.6))
    with pytest.raises(m.BudgetExceededError):
        first.reserve(m.Spent(usd=0.1))
    clock(next)
    # The call that is running counts in the new window, before and after it has ended.
    for one in (first, second):
        assert (one.limits.usd, one.spent.usd, one.reserved.usd) == (1, 0, 0.6)
    assert first.breakdown() == []
    with pytest.raises(m.BudgetExceededError):
        first.reserve(m.Spent(usd=0.5))
    running.commit(m.Spent(usd=0.7))
    with first.reserve(m.Spent(usd=0.3)) as reservation:
        reservation.commit(m.Spent(usd=0.2))
    assert second.spent.usd == total(second).usd == pytest.approx(0.9)
    assert second.limits == m.Limits(usd=1)


def test_scopes_and_windows_are_separate(sqlite_url: str, make: Make) -> None:
    daily = make(sqlite_url, m.Limits(turns=2), per="day")
    others = [
        make(sqlite_url, m.Limits(turns=2)),
        make(sqlite_url, m.Limits(turns=2), per="month"),
        make(sqlite_url, m.Limits(turns=2), per="day", timezone="Asia/Tokyo"),
        make(sqlite_url, m.Limits(turns=2), scope="other", per="day"),
    ]
    daily.record(m.Spent(turns=2))
    for number, one in enumerate(others):
        one.record(m.Spent(turns=number))
    assert daily.spent.turns == 2
    assert [one.spent.turns for one in others] == [0, 1, 2, 3]


ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/Havana", "Asia/Kathmandu", "Australia/Lord_Howe"]
)
MOMENTS = st.integers(1_700_000_000, 1_900_000_000)


@given(zone=ZONES, per=st.sampled_from(["day", "month"]), moment=MOMENTS)
def test_windows_follow_each_other(zone: str, per: Any, moment: int) -> None:
    """One ends at the beginning of a day, and lasts until then wherever it is asked."""
    place = ZoneInfo(zone)
    ends = end_of_window(moment, per, place)
    assert 0 < ends - moment <= (25 * 3600 if per == "day" else 32 * 86400)
    assert end_of_window(ends - 1, per, place) == ends
    first = datetime.fromtimestamp(ends, place)
    assert first.date() > datetime.fromtimestamp(ends - 1, place).date()
    assert per == "day" or first.day == 1


@each("zone, minute", [("UTC", 0), ("Asia/Kathmandu", 15)])
def test_hours_begin_as_clocks_on_the_wall_do(zone: str, minute: int) -> None:
    ends = end_of_window(1_800_000_000.5, "hour", ZoneInfo(zone))
    assert datetime.fromtimestamp(ends, UTC).minute == minute
    assert 0 < ends - 1_800_000_000 <= 3600


def test_runs_of_a_service_spend_from_the_ledger_of_their_tenant(service: Service) -> None:
    ledger = SharedLedger(
        service, scope="tenant:{tenant}", limits=m.Limits(turns=3, tool_calls=9), per="day"
    )
    all_of_it = SharedLedger(service, scope="{agent}", limits=m.Limits())
    stack: list[Any] = [
        m.BudgetMiddleware(ledger=ledger, exit_behavior="end", name="tenant"),
        m.BudgetMiddleware(ledger=all_of_it, name="agent"),
    ]
    script: list[Any] = [lambda _: response(calls=1)] * 20
    service.add("desk", create_agent(ScriptedChatModel(script), [look], middleware=stack))
    service.start()
    given = [("t1", "acme"), ("t2", "acme"), ("t3", "other")]
    runs = [service.submit("desk", thread=t, message="Go", tenant=of) for t, of in given]
    for run in runs:
        assert "3 of 3 turns in the shared" in run.result(60)["messages"][-1].text
    for tenant in ("acme", "other"):
        known = SharedLedger(service, scope=f"tenant:{tenant}", limits=m.Limits(), per="day")
        assert (known.spent.turns, known.reserved) == (3, m.Spent())
    known = SharedLedger(service, scope="desk", limits=m.Limits())
    assert known.spent.turns == 6
    parts = {(one.agent, one.part) for one in known.breakdown()}
    assert parts == {("desk", "model"), ("desk", "tools")}
    with pytest.raises(ArgumentError, match="only be used in runs of a service"):
        _ = ledger.spent


def test_a_breakdown_names_agents_and_middleware(sqlite_url: str, make: Make, call: Any) -> None:
    ledger = make(sqlite_url, m.Limits(usd=100))
    budget = m.BudgetMiddleware(ledger=ledger, prices=PRICES)
    inner = agent_of([response("inner", read=20, written=5)], budget, name="helper")

    def delegate() -> str:
        """Let another agent look."""
        ScriptedChatModel([response(read=3, written=1)]).invoke("in a tool")
        return str(inner.invoke(go())["messages"][-1].text)

    class Selects(AgentMiddleware[Any, Any]):
        def around_model(self, request: Any) -> Any:
            yield Invoke(ScriptedChatModel([response(read=40, written=2)]), "in a layer")
            return (yield request)

    class Plans(AgentMiddleware[Any, Any]):
        def before_agent(self, state: Any, runtime: Any) -> None:
            ScriptedChatModel([response(read=60, written=2)]).invoke("in a hook")

    class Wraps(AgentMiddleware[Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            ScriptedChatModel([response(read=2, written=1)]).invoke("in a function")
            return handler(request)

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            await ScriptedChatModel([response(read=2, written=1)]).ainvoke("in a function")
            return await handler(request)

    stack: list[Any] = [Plans(), Selects(), Wraps(), budget]
    model = ScriptedChatModel([[{"name": "delegate"}], response("outer")])
    agent = create_agent(model, [delegate], middleware=stack, name="desk")
    call(agent, go(), {"callbacks": [ledger.handler(PRICES)]})
    parts = {(one.agent, one.part): one.spent for one in ledger.breakdown()}
    shown = {key: (spent.turns, spent.tool_calls) for key, spent in parts.items()}
    assert shown == {
        ("desk", "Plans"): (0, 0),
        ("desk", "Selects"): (0, 0),
        ("desk", "middleware"): (0, 0),  # a layer that is a function: the engine cannot tell
        ("desk", "model"): (2, 0),
        ("desk", "tools"): (0, 1),
        ("helper", "model"): (1, 0),
    }
    tokens = {part: spent.total_tokens for (agent, part), spent in parts.items() if agent == "desk"}
    del tokens["model"]
    assert tokens == {"Plans": 62, "Selects": 2 * 42, "middleware": 2 * 3, "tools": 4}
    assert parts["helper", "model"].total_tokens == 25
    assert numbers(total(ledger)) == pytest.approx(numbers(ledger.spent))
    assert [one.part for one in ledger.breakdown()[:2]] == ["model", "Selects"]


def test_a_breakdown_has_a_bounded_number_of_rows(
    url: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_factory.service.ledger.MAX_PARTS", 3)
    ledger = make(url, m.Limits())
    for number in (0, 1, 2, 3, 4, 0, 4):
        stack = [m.BudgetMiddleware(ledger=ledger)]
        agent_of([response("done")], *stack, name=f"a{number}").invoke(go())
    turns = {(one.agent, one.part): one.spent.turns for one in ledger.breakdown()}
    models = {(f"a{number}", "model"): 2 if number == 0 else 1 for number in range(3)}
    assert turns == {**models, ("", "other"): 3}


class Broken(Database):
    """A database that is restarting."""

    @contextmanager
    def begin(self) -> Iterator[Any]:
        raise DatabaseUnavailable("the database", "is restarting.")
        yield


@pytest.mark.parametrize("at", ["reserve", "commit"])
def test_a_run_of_a_service_is_aborted_if_the_database_is_not_available(
    at: str, sqlite_url: str, make: Make, call: Any
) -> None:
    """No retry takes it for an error of the model; outside of a service it is an ordinary error."""
    broken = Broken(sqlite_url)

    def fail(config: Any, error: type[BaseException]) -> int:
        ledger = make(sqlite_url, m.Limits(turns=5))
        assert ledger.spent == m.Spent()  # the tables exist

        def answer(_: list[Any]) -> AIMessage:
            vars(ledger)["_database"] = broken
            return response("done")

        if at == "reserve":
            vars(ledger)["_database"] = broken
        model = ScriptedChatModel([answer] * 3)
        stack: list[Any] = [
            m.ModelRetryMiddleware(initial_delay=0, max_retries=1, on_failure="error"),
            m.BudgetMiddleware(ledger=ledger),
        ]
        with pytest.raises(error):
            call(create_agent(model, middleware=stack), go(), config)
        return len(model.requests)

    in_service = {"metadata": {"agent_factory_run": "r-1"}}
    assert fail(in_service, DatabaseLost) == (at == "commit")
    assert fail({}, DatabaseUnavailable) == (at == "commit")
    broken.close()


def test_building_an_agent_needs_no_database(make: Make) -> None:
    ledger = make("postgresql://nobody@127.0.0.1:9/none", m.Limits(usd=1), scope="{tenant}")
    agent = agent_of(["never"], m.BudgetMiddleware(ledger=ledger, prices=PRICES))
    assert ledger.handler(PRICES) is not None
    with pytest.raises(ArgumentError, match="only be used in runs of a service"):
        agent.invoke(go())


@each(
    "options, problem",
    [
        ({"limits": 1}, "limits must be Limits"),
        ({"service": 1}, "must be a Service or the URL of a database, got int"),
        ({"service": "mysql://db"}, "must be SQLite or Postgres"),
        ({"scope": "{user}"}, "has the field 'user'.*{tenant} and {agent}"),
        ({"scope": "{"}, "must be a template, got '{'"),
        ({"per": "week"}, "must be 'hour', 'day', 'month' or None, got 'week'"),
        ({"per": "day", "timezone": "Berlin"}, "the time zone 'Berlin': is not known"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(options: Any, problem: str) -> None:
    given = {"service": "sqlite:///never.db", "scope": "all", "limits": m.Limits(), **options}
    with pytest.raises(TypeError, match=problem):
        SharedLedger(given.pop("service"), **given)


def test_a_reservation_that_never_settles_ends_with_an_error(sqlite_url: str) -> None:
    """A row that cannot be changed, and of which there is enough left."""
    with Service(sqlite_url) as service:
        shared = SharedLedger(service, limits=m.Limits(turns=2), scope="team")
        shared.reserve(m.Spent(turns=1)).commit(m.Spent(turns=1))
        with closing(Database(sqlite_url)) as database:
            still = "CREATE TRIGGER still BEFORE UPDATE ON service_ledger "
            Tables(database).write(text(f"{still} BEGIN SELECT RAISE(IGNORE); END"))
        with pytest.raises(DatabaseUnavailable, match="changed 100 times while an amount"):
            shared.reserve(m.Spent(turns=1))
