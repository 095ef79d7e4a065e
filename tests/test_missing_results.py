"""A thread says that a call did not run only where that is known."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agent_factory import AgentMiddleware, create_agent, review
from agent_factory.middleware import (
    BudgetMiddleware,
    HumanInTheLoopMiddleware,
    Ledger,
    Limits,
    ModelCallLimitMiddleware,
    ToolRetryMiddleware,
)
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from tables import each

GO: Any = {"messages": "Go"}
THREAD: Any = {"configurable": {"thread_id": "1"}}


class Killed(BaseException):
    """Simulates a kill."""


class Bank:
    """A tool that pays, and then meets with what is set."""

    def __init__(self, trouble: Any) -> None:
        self.trouble = trouble
        self.paid = 0

    def pay(self) -> Any:
        """Pay."""
        self.paid += 1
        if self.trouble == "ask":
            return interrupt("Which account?")
        if self.trouble == "no result":
            return Command(goto="__end__")
        raise self.trouble


def agent_of(bank: Bank, **options: Any) -> Any:
    model = ScriptedChatModel([[{"name": "pay", "id": "1"}], "Done."])
    return create_agent(model, [bank.pay], checkpointer=InMemorySaver(), **options)


def result_of(values: Any) -> str:
    assert_valid_history(values["messages"])
    (result,) = [m for m in values["messages"] if m.type == "tool"]
    return str(result.text)


@each("fused", [True, False, "turn"])
@each("way", ["add_input", "invoke"])
@each("trouble", ["ask", "no result", ValueError("It failed."), Killed()])
def test_a_call_that_began_may_have_run(call: Any, fused: Any, way: str, trouble: Any) -> None:
    bank = Bank(trouble)
    agent = agent_of(bank, fused=fused)
    with suppress(ValueError, Killed):
        call(agent, GO, THREAD, durability="sync")
    if way == "invoke" or not review.pending(agent, THREAD):
        values = call(agent, {"messages": "Well?"}, THREAD)
    else:
        values = review.add_input(agent, THREAD, "Well?")
    assert "may have run" in result_of(values)
    assert bank.paid == 1


@each("mode", ["batched", "per_call"])
def test_a_call_that_was_approved_and_began_may_have_run(call: Any, mode: Any) -> None:
    bank = Bank(Killed())
    guard = HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)
    agent = agent_of(bank, middleware=[guard])
    call(agent, GO, THREAD, durability="sync")
    with pytest.raises(Killed):
        review.approve(agent, THREAD, durability="sync")
    assert "may have run" in result_of(review.add_input(agent, THREAD, "Stop."))


def test_a_run_that_ends_at_a_limit_does_not_know_of_calls_without_a_result(call: Any) -> None:
    class Drop(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            yield request
            return Command(update={"messages": []})

    bank = Bank("no result")
    limit = ModelCallLimitMiddleware(run_limit=1)
    values = call(agent_of(bank, middleware=[limit, Drop()]), GO, THREAD)
    assert "not known whether the call ran" in result_of(values)
    assert bank.paid == 1


def test_a_budget_does_not_say_of_an_attempt_before_that_it_did_not_run(call: Any) -> None:
    """A retry further out makes a second attempt, which the budget refuses."""
    bank = Bank(ConnectionError("Lost."))
    stack = [
        ToolRetryMiddleware(initial_delay=0, jitter=False),
        BudgetMiddleware(ledger=Ledger(Limits(tool_calls=1))),
    ]
    text = result_of(call(agent_of(bank, middleware=stack), GO, THREAD))
    assert "the budget refused this call of pay" in text
    assert "did not run" not in text
    assert bank.paid == 1
