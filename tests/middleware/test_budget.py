"""BudgetMiddleware: limits hold, and a run that reaches one ends well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import stack_agents
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agent_factory import TurnError, after_model, create_agent, wrap_model_call
from agent_factory import middleware as m
from agent_factory.middleware import ModelCallLimitMiddleware, ModelRetryMiddleware
from agent_factory.review import InvalidAnswer
from agent_factory.testing import Reply, ScriptedChatModel
from samples import Answer, AsksTwice, PassingWraps, in_memory, last_text, look, tool_results, types
from tables import each
from waiting import auntil, cancel

PRICES = {"ScriptedChatModel": m.Price(input=1000, output=1000)}  # a dollar for 1000 tokens
ONE: Any = {"configurable": {"thread_id": "1"}}
TWO: Any = {"configurable": {"thread_id": "2"}}


_numbers: Iterator[int] = iter(range(10**9))


def response(text: str = "", *, looks: int = 0, read: int = 90, written: int = 10) -> AIMessage:
    """An answer with its usage, which may call `look`."""
    calls = [{"name": "look", "args": {}, "id": f"call_{next(_numbers)}"} for _ in range(looks)]
    usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    return AIMessage(text, tool_calls=calls, usage_metadata=usage)


def turns(count: int, **usage: int) -> list[Any]:
    return [lambda _, n=n: response(f"look {n}", looks=1, **usage) for n in range(count)]


class Clock:
    """Time that passes only when a test says so; loads of the machine do not count."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("middleware", "state", "ledger"):
        monkeypatch.setattr(f"agent_factory.middleware.budget.{module}.monotonic", clock)
    return clock


agent_of = partial(stack_agents.agent_of, tools=[look])


def last_texts(model: ScriptedChatModel) -> list[str]:
    """What each request ended with."""
    return [request.messages[-1].text for request in model.requests]


@each(
    "limits",
    [m.Limits(turns=3), m.Limits(total_tokens=360), m.Limits(usd=0.36), m.Limits(input_tokens=340)],
)
def test_the_last_call_that_fits_answers_from_the_work_so_far(send: Any, limits: m.Limits) -> None:
    steps = [response(looks=1, read=90), response(looks=1, read=110), response("A tree.", read=128)]
    model = ScriptedChatModel(steps)
    result = send(agent_of(model, m.BudgetMiddleware(run=limits, prices=PRICES, warn_at=None)))
    assert types(result) == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert last_text(result) == "A tree."
    assert [request.tools for request in model.requests] == [["look"], ["look"], []]
    assert "too little is left for more" in last_texts(model)[-1]
    assert set(result) == {"messages"}
    model.assert_done()


@given(
    run=st.tuples(st.none() | st.integers(0, 9), st.integers(0, 9) | st.just(99)),
    in_thread=st.tuples(st.none() | st.integers(0, 9), st.none() | st.integers(0, 9)),
    warn_at=st.none() | st.lists(st.sampled_from([0.1, 0.5, 0.8, 1.0]), max_size=2),
    exit_behavior=st.sampled_from(["answer", "end", "error"]),
    looks=st.lists(st.integers(1, 3), max_size=5),
)
@settings.get_profile("costly")
def test_far_limits_choose_calls_as_near_ones_do(
    run: tuple[Any, Any], in_thread: tuple[Any, Any], looks: list[int], **choices: Any
) -> None:
    """With a ledger, even one without limits, all amounts are added up before each call."""
    limits: Any = {
        "run": m.Limits(turns=run[0], tool_calls=run[1]),
        "thread": m.Limits(turns=in_thread[0], tool_calls=in_thread[1]),
    }
    seen = []
    for ledger in (None, m.Ledger(m.Limits())):
        steps = [
            *(
                [{"name": "look", "args": {}, "id": f"{turn}_{n}"} for n in range(count)]
                for turn, count in enumerate(looks)
            ),
            "done",
        ]
        model = ScriptedChatModel(steps * 2)
        budget = m.BudgetMiddleware(**limits, **choices, ledger=ledger)
        agent = create_agent(model, [look], middleware=[budget], **in_memory())
        for _ in range(2):
            with suppress(m.BudgetExceededError):
                agent.invoke({"messages": [HumanMessage("Go on")]}, ONE)
        state = agent.get_state(ONE).values
        requests = [[m.text for m in request.messages] for request in model.requests]
        records = [
            {name: n for name, n in record.items() if name not in ("seconds", "slowest")}
            for key in ("budget_run", "budget_thread")
            for record in state.get(key, {}).values()
        ]
        seen.append((requests, [m.text for m in state["messages"]], records))
    assert seen[0] == seen[1]


@each("shared", [False, True])
@each(
    "limits, numbers",
    [
        (m.Limits(turns=2), "2 of 2 turns"),
        (m.Limits(total_tokens=250), "200 of 250 tokens"),
        (m.Limits(usd=0.25), "0.2 of 0.25 USD"),
    ],
)
def test_the_last_words_of_a_run_name_what_its_last_call_has_spent_too(
    send: Any, limits: m.Limits, numbers: str, shared: bool
) -> None:
    steps = [response(looks=1), response(looks=1, read=95, written=5)]
    where: Any = {"ledger": m.Ledger(limits)} if shared else {"run": limits}
    budget = m.BudgetMiddleware(**where, prices=PRICES, warn_at=None)
    last = last_text(send(agent_of(steps, budget)))
    assert last.startswith(f"I had to stop here: {numbers} in ")


def test_a_subclass_that_wraps_calls_keeps_the_budget(send: Any) -> None:
    class Mine(PassingWraps, m.BudgetMiddleware):
        pass

    budget = Mine(run=m.Limits(turns=2, tool_calls=1))
    result = send(agent_of([response(looks=2), response("Half a tree.")], budget))
    assert [status for _, status in tool_results(result)] == ["success", "error"]
    send(agent_of(model := ScriptedChatModel(turns(2)), budget))
    assert len(model.requests) == 2


def test_if_no_call_fits_the_run_ends_with_the_numbers(send: Any) -> None:
    budget = m.BudgetMiddleware(run=m.Limits(total_tokens=400))
    result = send(agent_of(turns(1, read=500), budget))
    assert types(result) == ["human", "ai", "tool", "ai"]
    assert "510 of 400 tokens in this run are used up" in last_text(result)


def test_input_that_a_provider_does_not_report_is_estimated_for_limits_of_tokens(send: Any) -> None:
    """Some streams of Anthropic's API say 0."""
    budget = m.BudgetMiddleware(run=m.Limits(total_tokens=500), exit_behavior="end", warn_at=None)
    result = send(agent_of(turns(9, read=0), budget), [HumanMessage("word " * 100)])
    assert types(result) == ["human", *(["ai", "tool"] * 2), "ai"]


def test_settings_may_be_changed_after_a_budget_is_made(send: Any) -> None:
    budget = m.BudgetMiddleware(run=m.Limits(turns=5), exit_behavior="end")
    agent = agent_of(turns(8), budget)
    budget.run = m.Limits(turns=1)
    assert types(send(agent)) == ["human", "ai", "tool", "ai"]
    budget.exit_behavior = "error"
    with pytest.raises(m.BudgetExceededError, match="1 of 1 turns"):
        send(agent)
    for name, value in {"cheaper_at": 0.5, "cap_output": True, "thread": m.Limits(turns=9)}.items():
        setattr(budget, name, value)
        assert getattr(budget, name) == value
    assert budget.run == m.Limits(turns=1)


def test_an_error_carries_the_numbers_and_the_work_is_kept(send: Any) -> None:
    budget = m.BudgetMiddleware(run=m.Limits(turns=1), exit_behavior="error")
    agent = agent_of(turns(1), budget, **in_memory())
    with pytest.raises(m.BudgetExceededError, match=r"\[AF342\].* 1 of 1 turns") as caught:
        send(agent, config=ONE)
    assert isinstance(caught.value, TurnError)
    assert caught.value.reached == {"run": {"turns": 1}}
    assert caught.value.spent["run"].total_tokens == 100
    assert [m.type for m in agent.get_state(ONE).values["messages"]] == ["human", "ai", "tool"]


def test_every_run_has_its_budget_and_a_thread_has_one_for_all(send: Any) -> None:
    steps = [response("a"), response("b"), response("c")]
    budget = m.BudgetMiddleware(run=m.Limits(total_tokens=150), thread=m.Limits(total_tokens=250))
    agent = agent_of(steps, budget, tools=(), **in_memory())
    assert [last_text(send(agent, config=ONE)) for _ in range(2)] == ["a", "b"]
    assert "200 of 250 tokens in this thread" in last_text(send(agent, config=ONE))
    assert last_text(send(agent, config=TWO)) == "c"


def test_the_model_is_warned_once_for_each_mark_in_results_of_the_thread(send: Any) -> None:
    """A warning in one call only would change the beginning of the next request."""
    model = ScriptedChatModel([*turns(9), response("done")])
    result = send(agent_of(model, m.BudgetMiddleware(run=m.Limits(turns=20), warn_at=[0.2, 0.4])))
    warned = [n for n, text in enumerate(last_texts(model)) if "[Of the budget" in text]
    assert warned == [4, 8]
    assert "4 of 20 turns in this run are used" in last_texts(model)[4]
    for earlier, later in pairwise(request.messages for request in model.requests):
        assert later[: len(earlier)] == earlier
    assert [m.type for m in result["messages"] if "[Of the budget" in m.text] == ["tool", "tool"]


def test_a_cheaper_model_takes_over_at_its_mark(send: Any) -> None:
    usual, cheap = ScriptedChatModel(turns(2)), ScriptedChatModel([response("done")])
    budget = m.BudgetMiddleware(
        run=m.Limits(total_tokens=1000), cheaper=cheap, cheaper_at=0.2, warn_at=None
    )
    assert last_text(send(agent_of(usual, budget))) == "done"
    assert cheap.requests[0].tools == ["look"]
    usual.assert_done()


class Cheap(ScriptedChatModel):
    """Has its own name, and so its own price."""


def test_a_cheaper_model_is_used_if_the_usual_one_does_not_fit(send: Any) -> None:
    usual, cheap = ScriptedChatModel([]), Cheap(steps=[response("done", read=10)])
    prices = {**PRICES, "Cheap": m.Price(input=1, output=1)}
    budget = m.BudgetMiddleware(run=m.Limits(usd=0.001), cheaper=cheap, prices=prices)
    assert last_text(send(agent_of(usual, budget))) == "done"
    assert cheap.requests[0].tools == ["look"]


def test_parallel_calls_over_the_limit_get_one_error_each(send: Any) -> None:
    model = ScriptedChatModel([response(looks=2), response(looks=3), response("done")])
    result = send(agent_of(model, m.BudgetMiddleware(run=m.Limits(tool_calls=3))))
    answers = [m for m in result["messages"] if m.type == "tool"]
    assert [m.status for m in answers] == ["success"] * 3 + ["error"] * 2
    assert "refused this call of look: 2 of 3 tool calls" in answers[-1].text
    asked = [c["id"] for m in result["messages"] if m.type == "ai" for c in m.tool_calls]
    assert [m.tool_call_id for m in answers] == asked
    assert model.requests[-1].tools == []


@each("shared", [False, True])
def test_a_run_that_may_call_no_more_tools_still_reads_their_results(
    send: Any, shared: bool
) -> None:
    limits = m.Limits(tool_calls=1)
    where: Any = {"ledger": m.Ledger(limits)} if shared else {"run": limits}
    budget = m.BudgetMiddleware(**where, exit_behavior="end")
    assert last_text(send(agent_of([*turns(1), response("A tree.")], budget))) == "A tree."
    refused = send(agent_of(turns(2), budget))["messages"]
    assert refused[-2].status == "error"
    assert "1 of 1 tool calls" in refused[-1].text


def test_a_tool_that_raised_counts_as_called() -> None:
    def fall() -> str:
        """Fall."""
        raise OSError("ouch")

    ledger = m.Ledger(m.Limits(tool_calls=5))
    agent = agent_of([[{"name": "fall"}]], m.BudgetMiddleware(ledger=ledger), tools=[fall])
    with pytest.raises(OSError, match="ouch"):
        agent.invoke({"messages": "Go"})
    assert (ledger.spent.tool_calls, ledger.reserved) == (1, m.Spent())


@each("first", [True, False])
@each("exit_behavior", ["answer", "end"])
def test_a_hook_that_always_jumps_back_does_not_bypass_the_budget(
    send: Any, first: bool, exit_behavior: Any
) -> None:
    @after_model(can_jump_to=["model"])
    def never_content(state: Any, runtime: Any) -> Any:
        return {"jump_to": "model", "messages": [HumanMessage("More!")]}

    budget = m.BudgetMiddleware(run=m.Limits(turns=3), exit_behavior=exit_behavior)
    stack = [budget, never_content] if first else [never_content, budget]
    model = ScriptedChatModel(["1", "2", "3"])
    assert last_text(send(agent_of(model, *stack, tools=()))) == (
        "I had to stop here: the budget of this run is used up: 3 of 3 turns in this run."
    )
    model.assert_done()


def test_a_run_that_bypasses_the_hook_still_ends(send: Any, call: Any) -> None:
    agent = agent_of(["Hi."], m.BudgetMiddleware(run=m.Limits(turns=1)), **in_memory())
    send(agent, config=ONE)
    update = {"messages": [HumanMessage("Hurry!")]}
    agent.update_state(ONE, update, as_node="BudgetMiddleware.before_model")
    assert "used up" in last_text(call(agent, None, ONE))


def test_each_attempt_counts_wherever_the_budget_stands(send: Any) -> None:
    for order in (1, -1):
        stack = [AsksTwice(), m.BudgetMiddleware(run=m.Limits(turns=9))][::order]
        agent = agent_of(["a", "b"], *stack, **in_memory())
        send(agent, config=ONE)
        assert agent.get_state(ONE).values["budget_run"]["BudgetMiddleware"]["turns"] == 2


def test_a_structured_answer_is_a_turn_and_not_a_tool_call(send: Any) -> None:
    fits, wrong = ([{"name": "Answer", "args": {"number": n}}] for n in (1, "many"))
    agent = agent_of([fits], m.BudgetMiddleware(run=m.Limits(tool_calls=0)), response_format=Answer)
    assert send(agent)["structured_response"] == Answer(number=1)
    budget = m.BudgetMiddleware(run=m.Limits(turns=2))
    result = send(agent_of([wrong, wrong], budget, tools=(), response_format=Answer))
    assert "used up" in last_text(result)
    assert result.get("structured_response") is None


def wait() -> str:
    """Wait for a person."""
    return str(interrupt("Well?"))


def seconds_of(agent: Any) -> dict[str, float]:
    """What each middleware has recorded of a run."""
    records = agent.get_state(ONE).values["budget_run"]
    return {name: record["seconds"] for name, record in records.items()}


def test_each_instance_records_the_time_of_a_run_that_is_resumed(
    send: Any, call: Any, clock: Clock
) -> None:
    """One of them is new, so their records differ when the run goes on."""

    def slow(_: Any) -> Any:
        clock.sleep(10)
        return [{"name": "wait"}]

    def agent(*names: str) -> Any:
        stack = [m.BudgetMiddleware(run=m.Limits(turns=9), name=name) for name in names]
        return agent_of([slow] * 4, *stack, tools=[wait], checkpointer=saver)

    saver = InMemorySaver()
    send(agent("old"), config=ONE)
    clock.sleep(1000)
    both = agent("old", "new")
    call(both, Command(resume="yes"), ONE)
    assert seconds_of(both) == {"old": 20, "new": 10}
    clock.sleep(1000)
    call(both, Command(resume="yes"), ONE)
    assert seconds_of(both) == {"old": 30, "new": 20}
    send(both, config=ONE)
    assert seconds_of(both) == {"old": 10, "new": 10}


def test_the_time_of_a_call_that_timed_out_counts_once(send: Any, clock: Clock) -> None:
    def late(_: Any) -> AIMessage:
        clock.sleep(10)
        raise TimeoutError

    def slow(_: Any) -> AIMessage:
        clock.sleep(5)
        return response("done")

    @wrap_model_call
    def answers_after_timeouts(request: Any) -> Any:
        try:
            return (yield request)
        except TimeoutError:
            return response(looks=1)

    budget = m.BudgetMiddleware(run=m.Limits(turns=9))
    agent = agent_of([late, slow], answers_after_timeouts, budget, **in_memory())
    send(agent, config=ONE)
    assert seconds_of(agent) == {"BudgetMiddleware": 15}


def test_time_is_reserved_for_the_last_answer(send: Any, clock: Clock) -> None:
    def slow() -> str:
        """Be slow."""
        clock.sleep(10)
        return "done"

    def answer(_: Any) -> Any:
        clock.sleep(10)
        return [{"name": "slow"}]

    model = ScriptedChatModel([answer] * 3)
    send(agent_of(model, m.BudgetMiddleware(run=m.Limits(seconds=60)), tools=[slow]))
    assert [request.tools for request in model.requests] == [["slow"], ["slow"], []]
    assert clock.now == 1050


def test_seconds_count_while_the_run_works_and_not_while_it_waits(
    send: Any, call: Any, clock: Clock
) -> None:
    def wait_and_work() -> str:
        """Wait for a person, then work."""
        interrupt("Well?")
        clock.sleep(60)
        return "done"

    budget = m.BudgetMiddleware(run=m.Limits(seconds=50), exit_behavior="end")
    model = ScriptedChatModel([[{"name": "wait_and_work"}]])
    agent = agent_of(model, budget, tools=[wait_and_work], **in_memory())
    send(agent, config=ONE)
    clock.sleep(60)
    result = call(agent, Command(resume="yes"), ONE)
    assert "60 of 50 seconds in this run are used up" in last_text(result)


def test_a_tool_does_not_start_when_the_time_is_used_up(send: Any, clock: Clock) -> None:
    def late(_: Any) -> AIMessage:
        clock.sleep(30)
        return response(looks=1)

    budget = m.BudgetMiddleware(run=m.Limits(seconds=20), exit_behavior="end")
    result = send(agent_of([late], budget))
    assert result["messages"][-2].status == "error"
    assert "seconds in this run are used up" in last_text(result)


def test_people_raise_the_limits_and_the_run_continues_or_stop_it(send: Any, call: Any) -> None:
    budget = m.BudgetMiddleware(
        run=m.Limits(turns=1), thread=m.Limits(usd=5), prices=PRICES, exit_behavior="ask"
    )
    agent = agent_of([*turns(2), response("done"), *turns(1)], budget, **in_memory())
    question = send(agent, config=ONE)["__interrupt__"][0]
    assert question.value["reason"] == "1 of 1 turns in this run are used up."
    assert question.value["needed"] == {"turns": 1}
    assert question.value["limits"] == {"run": {"turns": 1}, "thread": {"usd": 5}, "ledger": {}}
    result = call(agent, Command(resume={"type": "raise", "extra": {"turns": 1}}), ONE)
    assert "2 of 2 turns" in result["__interrupt__"][0].value["reason"]
    result = call(agent, Command(resume={"type": "raise", "extra": {"turns": 5}}), ONE)
    assert last_text(result) == "done"
    send(agent, config=TWO)
    assert "1 of 1 turns" in last_text(call(agent, Command(resume={"type": "stop"}), TWO))


@each(
    "answer, problem",
    [
        ("more", "BudgetResponse"),
        ({"type": "raise", "extra": {}}, "extra\\['turns'\\] must be at least 1"),
        ({"type": "raise", "extra": {"turns": 0.5}}, "must be at least 1"),
        ({"type": "raise", "extra": {"turns": 1.5}}, "must be a whole number"),
        ({"type": "raise", "extra": {"turns": -1}}, "greater than 0"),
        ({"type": "raise", "extra": {"turns": 1, "usd": 1}}, "extra has usd, of which no limit is"),
    ],
)
def test_an_invalid_answer_raises_and_the_interrupt_can_be_answered_again(
    send: Any, call: Any, answer: Any, problem: str
) -> None:
    budget = m.BudgetMiddleware(run=m.Limits(turns=1), exit_behavior="ask")
    agent = agent_of([*turns(1), response("done")], budget, **in_memory())
    send(agent, config=ONE)
    with pytest.raises(InvalidAnswer, match=problem):
        call(agent, Command(resume=answer), ONE)
    result = call(agent, Command(resume={"type": "raise", "extra": {"turns": 1}}), ONE)
    assert last_text(result) == "done"


def test_people_may_raise_a_shared_ledger(send: Any, call: Any) -> None:
    ledger = m.Ledger(m.Limits(turns=1))
    budget = m.BudgetMiddleware(ledger=ledger, exit_behavior="ask")
    agent = agent_of([*turns(1), response("done")], budget, **in_memory())
    send(agent, config=ONE)
    result = call(agent, Command(resume={"type": "raise", "extra": {"turns": 2}}), ONE)
    assert last_text(result) == "done"
    assert (ledger.limits.turns, ledger.spent.turns, ledger.reserved) == (3, 2, m.Spent())


def test_a_model_without_a_known_price_is_not_called(send: Any) -> None:
    model = ScriptedChatModel(["never"])
    agent = agent_of(model, m.BudgetMiddleware(run=m.Limits(usd=1)))
    with pytest.raises(m.UnknownPriceError, match=r"prices=\{'ScriptedChatModel': Price") as caught:
        send(agent)
    assert caught.value.model == "ScriptedChatModel"
    assert not model.requests


def test_a_model_that_reports_no_usage_is_recorded_by_estimate(send: Any) -> None:
    ledger = m.Ledger(m.Limits(usd=10))
    budget = m.BudgetMiddleware(ledger=ledger, prices=PRICES, token_counter=len)
    send(agent_of(["Hi."], budget, tools=(), system_prompt="Be brief."))
    assert (ledger.spent.input_tokens, ledger.spent.output_tokens) == (2, 1)
    assert ledger.spent.usd == pytest.approx(0.003)


@each("count", [-1, 2.5, float("nan"), None, True])
def test_a_token_counter_that_returns_no_amount_is_named(send: Any, count: Any) -> None:
    budget = m.BudgetMiddleware(run=m.Limits(total_tokens=100), token_counter=lambda _: count)
    model = ScriptedChatModel(["never"])
    with pytest.raises(ValueError, match="result of token_counter must be a whole number"):
        send(agent_of(model, budget))
    assert not model.requests


def test_only_what_came_since_the_last_answer_is_counted(send: Any) -> None:
    counted: list[int] = []

    def count(messages: Any) -> int:
        counted.append(len(messages))
        return len(messages)

    budget = m.BudgetMiddleware(run=m.Limits(total_tokens=10**6), token_counter=count)
    send(agent_of([*turns(6), response("done")], budget))
    assert max(counted[1:]) == 1


def test_an_answer_is_capped_at_the_limits(send: Any) -> None:
    model = ScriptedChatModel([response("done", read=100, written=20)])
    budget = m.BudgetMiddleware(
        run=m.Limits(total_tokens=150, usd=0.130),
        prices=PRICES,
        cap_output=True,
        token_counter=lambda _: 100,
        exit_behavior="end",
    )
    send(agent_of(model, budget))
    assert model.requests[0].kwargs == {"max_tokens": 30}


class Talks(ScriptedChatModel):
    """Streams ten words, and lets others go on between them."""

    def __init__(self) -> None:
        super().__init__([Reply(chunks=["so "] * 10, usage=(50, 10))] * 9)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for chunk in super()._astream(*args, **kwargs):
            await asyncio.sleep(0)
            yield chunk


async def begin(agent: Any, given: Any, config: Any = None) -> None:
    """Read the first token of a stream, and close it."""
    stream = agent.astream(given, config, stream_mode="messages")
    await anext(stream)
    await stream.aclose()


GO_ON: Any = {"messages": [HumanMessage("Go on")]}


@each("mode", ["sync", "async"])
def test_a_stream_that_nobody_reads_to_its_end_is_recorded(mode: str) -> None:
    """A sync run goes on and is recorded whole; of an async one, what was reserved."""
    ledger = m.Ledger(m.Limits(usd=1))
    budget = m.BudgetMiddleware(
        ledger=ledger,
        prices={"Talks": m.Price(input=1000, output=1000)},
        token_counter=lambda _: 50,
    )
    agent = agent_of(Talks(), budget, tools=())
    if mode == "sync":
        stream = agent.stream(GO_ON, stream_mode="messages")
        next(stream)
        stream.close()
    else:
        asyncio.run(begin(agent, GO_ON))
    assert ledger.reserved == m.Spent()
    assert (ledger.spent.turns, ledger.spent.input_tokens) == (1, 50)
    assert 1 <= ledger.spent.output_tokens <= 10
    assert 0.051 <= ledger.spent.usd <= 0.060


def test_a_thread_without_a_checkpointer_keeps_no_record(send: Any) -> None:
    budget = m.BudgetMiddleware(thread=m.Limits(turns=1), exit_behavior="end")
    agent = agent_of(["a", "b", "c"], budget)
    assert [last_text(send(agent, config=ONE)) for _ in range(3)] == ["a", "b", "c"]


def test_an_abandoned_run_that_goes_on_has_spent_its_first_attempt(call: Any) -> None:
    budget = m.BudgetMiddleware(run=m.Limits(turns=9))
    agent = agent_of(Talks(), budget, tools=(), **in_memory())

    for messages in (GO_ON, None):
        asyncio.run(begin(agent, messages, ONE))
    call(agent, None, ONE)
    records = agent.get_state(ONE).values
    assert records["budget_run"]["BudgetMiddleware"]["turns"] == 3
    call(agent, GO_ON, ONE)
    records = agent.get_state(ONE).values
    assert records["budget_thread"]["BudgetMiddleware"]["turns"] == 3
    assert records["budget_run"]["BudgetMiddleware"]["turns"] == 1


def test_tools_of_a_cancelled_turn_count_because_they_have_begun(send: Any) -> None:
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return "never"

    ledger = m.Ledger(m.Limits(turns=9))
    budget = m.BudgetMiddleware(thread=m.Limits(tool_calls=2), ledger=ledger, exit_behavior="end")
    steps = [[{"name": "hang"}] * 2, [{"name": "look"}], "Done."]
    agent = agent_of(steps, budget, tools=[hang, look], **in_memory())

    async def abandon() -> None:
        task = asyncio.create_task(agent.ainvoke(GO_ON, ONE))
        await auntil(lambda: ledger.reserved.tool_calls == 2)
        await cancel(task)

    asyncio.run(abandon())
    assert (ledger.spent.tool_calls, ledger.reserved) == (2, m.Spent())
    refused = [m for m in send(agent, config=ONE)["messages"] if m.type == "tool"][-1]
    assert "refused this call of look: 2 of 2 tool calls in this thread are used up" in refused.text


def test_what_abandoned_streams_spent_is_kept_for_a_bounded_number_of_threads(
    send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_factory.middleware.budget.state.LastUpdates.MAX_THREADS", 1)
    budget = m.BudgetMiddleware(thread=m.Limits(turns=1), exit_behavior="end")
    agent = agent_of(Talks(), budget, tools=(), **in_memory())
    for thread in (ONE, TWO):
        asyncio.run(begin(agent, GO_ON, thread))
    assert "used up" in last_text(send(agent, config=TWO))
    assert "used up" not in last_text(send(agent, config=ONE))


@each("error", [TimeoutError("slow"), ConnectionError("down")])
def test_a_call_that_timed_out_or_failed_is_a_turn(send: Any, error: Exception) -> None:
    ledger = m.Ledger(m.Limits(turns=9))
    retry = ModelRetryMiddleware(initial_delay=0, jitter=False)
    budget = m.BudgetMiddleware(run=m.Limits(turns=9), ledger=ledger)
    agent = agent_of([error, "up"], retry, budget, **in_memory())
    send(agent, config=ONE)
    assert (ledger.spent.turns, ledger.reserved) == (2, m.Spent())
    assert agent.get_state(ONE).values["budget_run"]["BudgetMiddleware"]["turns"] == 2


def test_an_answer_whose_price_cannot_be_computed_was_paid_for(send: Any) -> None:
    ledger = m.Ledger(m.Limits(usd=9))

    def price(model: str, usage: Any) -> float:
        return float("nan") if usage["output_tokens"] == 10 else 0.25

    agent = agent_of([response("so")], m.BudgetMiddleware(ledger=ledger, prices=price))
    with pytest.raises(ValueError, match="must return US dollars or None, got nan"):
        send(agent)
    assert (ledger.spent.turns, ledger.spent.usd, ledger.reserved) == (1, 0.25, m.Spent())


def test_an_interrupt_is_no_call_and_releases_what_was_reserved(send: Any, call: Any) -> None:
    @wrap_model_call
    def asks_first(request: Any) -> Any:
        interrupt("May I?")
        return (yield request)

    ledger = m.Ledger(m.Limits(turns=9, tool_calls=1))
    stack = [m.BudgetMiddleware(ledger=ledger), asks_first]
    agent = agent_of([[{"name": "wait"}], "done"], *stack, tools=[wait], **in_memory())
    send(agent, config=ONE)
    for counts in ((0, 0), (1, 0), (1, 1)):
        spent = ledger.spent
        assert ((spent.turns, spent.tool_calls), ledger.reserved) == (counts, m.Spent())
        result = call(agent, Command(resume="yes"), ONE)
    assert last_text(result) == "done"


@each("settings", [{}, {"fused": False}])
def test_a_fork_has_spent_what_its_thread_has(send: Any, call: Any, settings: Any) -> None:
    budget = m.BudgetMiddleware(thread=m.Limits(turns=3), exit_behavior="end")
    limit = ModelCallLimitMiddleware(thread_limit=4)
    model = ScriptedChatModel(["a"] * 9)
    other = m.BudgetMiddleware(thread=m.Limits(turns=9), name="other")
    agent = agent_of(model, budget, other, limit, **in_memory(), **settings)
    send(agent, config=ONE)
    first = next(agent.get_state_history(ONE, filter={"source": "input"})).config
    for value in (None, {"messages": "Again."}, None, {"messages": "Again."}):
        call(agent, value, first)
    assert len(model.requests) == 3
    assert agent.get_state(ONE).values["thread_model_call_count"] == 3
    send(agent, config=ONE)
    assert len(model.requests) == 3
