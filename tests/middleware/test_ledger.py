"""Ledger: several agents share a budget, and no amount is counted twice or lost."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from stack_agents import kept_agent

from agent_factory import agent_tool, background, create_agent
from agent_factory import middleware as m
from agent_factory.middleware import BackgroundMiddleware
from agent_factory.middleware.summarization import SummarizationMiddleware
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from samples import look
from tables import each
from waiting import until

PRICES = {"ScriptedChatModel": m.Price(input=1000, output=1000)}  # a dollar for 1000 tokens


def response(text: str = "", *, calls: int = 0, read: int = 90, written: int = 10) -> AIMessage:
    usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    made = [{"name": "look", "args": {}, "id": uuid4().hex} for _ in range(calls)]
    return AIMessage(text, tool_calls=made, usage_metadata=usage)


def test_a_reservation_is_committed_once_or_released() -> None:
    ledger = m.Ledger(m.Limits(usd=1))
    with ledger.reserve(m.Spent(usd=0.4)) as reservation:
        assert ledger.reserved.usd == 0.4
        reservation.commit(m.Spent(usd=0.25, turns=1))
        with pytest.raises(RuntimeError, match="has ended"):
            reservation.commit(m.Spent(turns=1))
    with pytest.raises(OSError, match="down"), ledger.reserve(m.Spent(usd=0.5)):
        raise OSError("down")
    assert (ledger.spent.usd, ledger.spent.turns, ledger.reserved) == (0.25, 1, m.Spent())


@each("signal", [asyncio.CancelledError, KeyboardInterrupt, TimeoutError])
def test_what_was_reserved_is_spent_if_nobody_knows_whether_the_call_ran(signal: Any) -> None:
    ledger = m.Ledger(m.Limits(usd=1))
    with pytest.raises(signal), ledger.reserve(m.Spent(usd=0.4)):
        raise signal
    assert (ledger.spent.usd, ledger.reserved) == (0.4, m.Spent())


def test_an_amount_that_does_not_fit_with_the_reservations_raises() -> None:
    ledger = m.Ledger(m.Limits(usd=1))
    with ledger.reserve(m.Spent(usd=0.6)):
        with pytest.raises(m.BudgetExceededError, match=r"0\.6 of 1 USD in the shared budget"):
            ledger.reserve(m.Spent(usd=0.6))
        with pytest.raises(m.BudgetExceededError):
            ledger.reserve(m.Spent(usd=0.3), keep=m.Spent(usd=0.3))
        ledger.raise_limits({"usd": 1, "turns": 5})
        with ledger.reserve(m.Spent(usd=0.6)):
            assert ledger.limits == m.Limits(usd=2)


def test_dollars_add_up_to_the_limit() -> None:
    ledger = m.Ledger(m.Limits(usd=0.3))
    for _ in range(3):
        with ledger.reserve(m.Spent(usd=0.1)) as reservation:
            reservation.commit(m.Spent(usd=0.1))
    with pytest.raises(m.BudgetExceededError):
        ledger.reserve(m.Spent(usd=0.000001))


def test_time_counts_while_a_call_is_running_and_parallel_calls_count_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("agent_factory.middleware.budget.ledger.monotonic", lambda: now)
    ledger = m.Ledger(m.Limits(seconds=50))
    now += 100
    assert ledger.spent.seconds == 0
    with ledger.reserve(m.Spent()):
        now += 10
        with ledger.reserve(m.Spent()):
            now += 20
        now += 10
    now += 100
    assert ledger.spent.seconds == 40
    with ledger.reserve(m.Spent()):
        now += 10
        with pytest.raises(m.BudgetExceededError, match="50 of 50 seconds"):
            ledger.reserve(m.Spent())


def test_a_ledger_continues_from_a_snapshot() -> None:
    ledger = m.Ledger(m.Limits(turns=2), spent=m.Spent(turns=1, seconds=3.0))
    with ledger.reserve(m.Spent(turns=1)) as reservation:
        reservation.commit(m.Spent(turns=1))
    assert ledger.spent.turns == 2
    assert ledger.spent.seconds >= 3
    copy = pickle.loads(pickle.dumps(ledger.spent))
    with pytest.raises(m.BudgetExceededError):
        m.Ledger(m.Limits(turns=2), spent=copy).reserve(m.Spent(turns=1))


def test_a_ledger_needs_limits_and_spent_and_its_errors_can_be_pickled() -> None:
    with pytest.raises(TypeError, match="limits must be Limits"):
        m.Ledger(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="spent must be Spent"):
        m.Ledger(m.Limits(), spent={"usd": 1})  # type: ignore[arg-type]
    with pytest.raises(m.BudgetExceededError) as caught:
        m.Ledger(m.Limits(turns=0)).reserve(m.Spent(turns=1))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.reached) == (str(caught.value), {"ledger": {"turns": 1}})
    unknown = pickle.loads(pickle.dumps(m.UnknownPriceError("gpt-9", "openai")))
    assert (unknown.model, unknown.provider) == ("gpt-9", "openai")


ANY_NUMBER = st.floats() | st.integers() | st.booleans() | st.none()
FIELDS = ("usd", "seconds", "input_tokens", "output_tokens", "turns", "tool_calls")


@given(st.sampled_from(FIELDS), ANY_NUMBER)
def test_what_is_spent_is_a_finite_amount_that_is_not_negative(name: str, value: Any) -> None:
    """NaN fits into every limit, and a negative amount gives back what was spent."""
    kinds = (int, float) if name in ("usd", "seconds") else (int,)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if is_number and 0 <= value < float("inf"):
        assert getattr(m.Spent(**{name: value}), name) == value
        return
    with pytest.raises(ValueError, match=f"{name} must be a .* of at least 0, got"):
        m.Spent(**{name: value})


def test_a_ledger_cannot_be_switched_off_by_what_is_committed_or_recorded() -> None:
    ledger = m.Ledger(m.Limits(usd=1))
    for amount in (float("nan"), -5.0, float("-inf"), float("inf")):
        with pytest.raises(ValueError, match="usd must be a number"):
            ledger.record(m.Spent(usd=amount))
        with (
            pytest.raises(ValueError, match="usd must be a number"),
            ledger.reserve(m.Spent()) as r,
        ):
            r.commit(m.Spent(usd=amount))
    assert (ledger.spent.usd, ledger.reserved) == (0, m.Spent())


COUNT = st.integers(-(10**6), 10**6) | st.sampled_from([float("nan"), float("inf"), 2.5, "9", None])
USAGE = st.fixed_dictionaries(
    {"input_tokens": COUNT, "output_tokens": COUNT, "total_tokens": COUNT},
    optional={
        "input_token_details": st.dictionaries(
            st.sampled_from(["cache_read", "cache_creation", "audio"]), COUNT
        )
    },
)


@settings.get_profile("costly")
@given(usage=USAGE, watched=st.booleans())
def test_no_usage_that_a_model_reports_gives_money_back_or_makes_a_call_free(
    usage: Any, watched: bool
) -> None:
    def answer(_: list[Any]) -> AIMessage:
        message = AIMessage("done")
        message.usage_metadata = usage  # as a model's integration could set it
        return message

    before = m.Spent(usd=1, input_tokens=100, output_tokens=100)
    ledger = m.Ledger(m.Limits(usd=10**4), spent=before)
    budget = m.BudgetMiddleware(ledger=ledger, prices=PRICES)
    agent = create_agent(ScriptedChatModel([answer]), middleware=[budget])
    callbacks = [ledger.handler(PRICES)] if watched else []
    agent.invoke({"messages": [HumanMessage("Go on")]}, {"callbacks": callbacks})
    spent = ledger.spent
    assert spent.turns == 1
    assert spent.input_tokens > before.input_tokens
    assert spent.output_tokens > before.output_tokens
    assert spent.usd > before.usd


AGENTS = 8


def test_agents_in_threads_exceed_a_limit_by_at_most_a_call_each() -> None:
    """All ask before one is answered, and there is room for the least cost of three calls."""
    ledger = m.Ledger(m.Limits(usd=0.3))
    everyone_has_come = Barrier(AGENTS)
    asked: list[str] = []

    def answer(_: list[Any]) -> AIMessage:
        asked.append("asked")
        everyone_has_come.wait(60)
        return response("done", read=90, written=30)

    def spend(_: int) -> None:
        budget = m.BudgetMiddleware(
            ledger=ledger, prices=PRICES, token_counter=lambda _: 90, exit_behavior="end"
        )
        model = ScriptedChatModel([answer])
        create_agent(model, middleware=[budget]).invoke({"messages": [HumanMessage("Go on")]})
        if not model.requests:
            everyone_has_come.wait(60)

    with ThreadPoolExecutor(AGENTS) as pool:
        list(pool.map(spend, range(AGENTS)))
    assert len(asked) == 3
    assert ledger.spent.usd == pytest.approx(0.36)  # three calls of 0.12, reserved as 0.091
    assert ledger.reserved == m.Spent()


def test_a_handler_records_every_call_once(call: Any) -> None:
    """The summary is seen by the handler alone, the agent's own call by both."""
    ledger = m.Ledger(m.Limits(usd=10))
    summary = ScriptedChatModel([response("They met.", read=200, written=20)])
    stack: list[Any] = [
        SummarizationMiddleware(summary, trigger=("messages", 3), keep=("messages", 1)),
        m.BudgetMiddleware(ledger=ledger, prices=PRICES),
    ]
    agent = create_agent(ScriptedChatModel([response("done")]), middleware=stack)
    history = [HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("Go on")]
    call(agent, {"messages": history}, {"callbacks": [ledger.handler(PRICES)]})
    assert (ledger.spent.total_tokens, ledger.spent.turns) == (320, 1)
    assert ledger.spent.usd == pytest.approx(0.32)


def test_a_handler_stops_a_call_whose_price_is_unknown(call: Any) -> None:
    ledger = m.Ledger(m.Limits(usd=10))
    model = ScriptedChatModel(["never"])
    go = {"messages": [HumanMessage("Go")]}
    with pytest.raises(m.UnknownPriceError, match="ScriptedChatModel"):
        call(create_agent(model), go, {"callbacks": [ledger.handler()]})
    assert not model.requests


def test_a_handler_without_a_limit_in_dollars_needs_no_prices_and_records_no_failures() -> None:
    ledger = m.Ledger(m.Limits(total_tokens=1000))
    handler = ledger.handler()
    model = ScriptedChatModel([OSError("down"), response("done")])
    with pytest.raises(OSError, match="down"):
        model.invoke("Hi", {"callbacks": [handler]})
    model.invoke("Hi", {"callbacks": [handler]})
    assert ledger.spent == m.Spent(input_tokens=90, output_tokens=10)


STEP = st.tuples(st.integers(0, 3), st.integers(1, 60), st.sampled_from([False, False, True]))
SCRIPT = st.lists(STEP, max_size=4)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "usd": st.floats(0, 1),
        "total_tokens": st.integers(0, 900),
        "output_tokens": st.integers(0, 200),
        "turns": st.integers(0, 8),
        "tool_calls": st.integers(0, 6),
    },
)


class Fails(Exception):
    """A model that is down."""


class Costs:
    """Usage as the text would have it, and the dearest call so far."""

    def __init__(self) -> None:
        self.dearest = 0

    def step(self, calls: int, written: int, fails: bool) -> Callable[[list[Any]], Any]:
        def answer(messages: list[Any]) -> Any:
            if fails:
                return Fails()
            read = count_tokens_approximately(messages) + 40
            self.dearest = max(self.dearest, read + written)
            return response("so", calls=calls, read=read, written=written)

        return answer


@settings(max_examples=settings().max_examples // 2)  # each builds agents and runs them
@given(
    limits=LIMITS,
    scripts=st.lists(SCRIPT, min_size=1, max_size=3),
    exit_behavior=st.sampled_from(["answer", "end", "error"]),
)
def test_a_shared_budget_is_exceeded_by_at_most_a_call_of_each_agent(
    limits: Any, scripts: list[Any], exit_behavior: Any
) -> None:
    """Runs end, with a valid history; nothing stays reserved; turns and tool calls are exact."""
    ledger, costs = m.Ledger(m.Limits(**limits)), Costs()

    async def run(script: list[Any]) -> None:
        steps = [costs.step(*step) for step in script]
        model = ScriptedChatModel([*steps, costs.step(0, 5, False)])
        budget = m.BudgetMiddleware(ledger=ledger, prices=PRICES, exit_behavior=exit_behavior)
        agent = create_agent(model, [look], middleware=[budget])
        try:
            result = await agent.ainvoke({"messages": [HumanMessage("Go on")]})
        except (Fails, m.BudgetExceededError):
            return
        assert_valid_history(result["messages"])
        assert result["messages"][-1].type == "ai"

    async def all_at_once() -> None:
        await asyncio.gather(*map(run, scripts))

    asyncio.run(all_at_once())
    spent, over = ledger.spent, costs.dearest * len(scripts)
    assert ledger.reserved == m.Spent()
    assert spent.turns <= limits.get("turns", 10**6)
    assert spent.tool_calls <= limits.get("tool_calls", 10**6)
    assert spent.total_tokens <= limits.get("total_tokens", 10**6) + over
    assert spent.output_tokens <= limits.get("output_tokens", 10**6) + over
    assert spent.usd <= limits.get("usd", 10**6) + over / 1000


# Subagents in the background that share a budget


ONE: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 100_000}

Child = tuple[int, bool]
"""How often a subagent calls its tool before it answers, and whether it fails in place of that."""


class Office:
    """An agent that starts subagents all at once, and reads how each has ended.

    Args:
        children: The subagents.
        limit: How many answers of models all of them may have together; None for no limit.
        exit_behavior: What a subagent does that has no budget left.

    Attributes:
        answers: How often the models of the subagents were asked.
    """

    def __init__(
        self, children: list[Child], limit: int | None, exit_behavior: Any, *, shared: bool
    ) -> None:
        self.answers, self._lock = 0, Lock()
        self.ledger = m.Ledger(m.Limits(turns=limit))
        budget = m.BudgetMiddleware(ledger=self.ledger, exit_behavior=exit_behavior, warn_at=None)
        clerk = create_agent(
            ScriptedChatModel([self._answer] * 100_000), [look], middleware=[budget], name="clerk"
        )
        calls = [
            {"name": "clerk", "args": {"request": f"{number} {turns} {int(fails)}"}}
            for number, (turns, fails) in enumerate(children)
        ]
        stack: list[Any] = [BackgroundMiddleware(max_running=len(children))]
        if shared:
            stack.append(m.BudgetMiddleware(ledger=self.ledger, exit_behavior="end", warn_at=None))
        self.agent: Any = kept_agent(
            [calls, *["I wait."] * 1000],
            *stack,
            tools=[background(agent_tool(clerk, description="Does work."), timeout=100)],
        )

    def _answer(self, messages: Any) -> Any:
        number, turns, fails = map(int, messages[0].text.split())
        works = sum(isinstance(message, AIMessage) for message in messages) < turns
        with self._lock:
            self.answers += 1
        if fails and not works:
            raise OSError(f"{number} is down")
        return [{"name": "look", "args": {}}] if works else f"{number} is done"

    def run(self, mode: str) -> dict[int, tuple[str, str]]:
        """Return how the job of each subagent has ended, and the last line of its message."""
        messages: Any = {"messages": "Go"}
        if mode == "sync":
            result = self.agent.invoke(messages, ONE)
        else:
            result = asyncio.run(self.agent.ainvoke(messages, ONE))
        assert_valid_history(result["messages"])
        endings: dict[int, tuple[str, str]] = {}
        for message in result["messages"]:
            if message.name == "background":
                number = int(message.text.partition('"request": "')[2].split()[0])
                assert number not in endings, "a result was read twice"
                last = message.text.splitlines()[-1]
                endings[number] = message.additional_kwargs["background"]["ending"], last
        return endings


def check(children: list[Child], limit: int | None, exit_behavior: str, mode: str) -> None:
    """Run subagents, and check what they have spent and how each has ended."""
    office = Office(children, limit, exit_behavior, shared=False)
    endings = office.run(mode)
    assert endings.keys() == {*range(len(children))}
    assert limit is None or office.answers <= limit
    assert office.ledger.spent.turns == office.answers
    assert office.ledger.reserved == m.Spent()
    if limit is None or limit >= sum(turns + 1 for turns, _ in children):
        expected = {
            number: ("failed", f"OSError: {number} is down")
            if fails
            else ("done", f"{number} is done")
            for number, (_, fails) in enumerate(children)
        }
        assert endings == expected


@pytest.mark.long
@pytest.mark.law
@settings(settings.get_profile("costly"))
@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8),
    st.none() | st.integers(0, 20),
    st.sampled_from(["answer", "end", "error"]),
    st.sampled_from(["sync", "async"]),
)
def test_subagents_never_pass_their_budget_and_each_costs_its_own(
    children: list[Child], limit: int | None, exit_behavior: str, mode: str
) -> None:
    check(children, limit, exit_behavior, mode)


@pytest.mark.long
@each("mode, limit", [("sync", 150), ("async", 150), ("async", None)])
def test_a_hundred_subagents_never_pass_their_budget(mode: str, limit: int | None) -> None:
    check([(number % 4, number % 7 == 0) for number in range(100)], limit, "end", mode)


@each("mode", ["sync", "async"])
def test_an_agent_and_its_subagents_never_pass_the_budget_that_they_share(mode: str) -> None:
    office = Office([(2, False)] * 20, 30, "end", shared=True)
    office.run(mode)
    # Where subagents have reserved the last turns, the agent ends before they are answered.
    until(lambda: office.ledger.spent.turns >= 30)
    assert office.ledger.spent.turns == 30
    assert office.answers < 30
