"""Subagents in the background that share a budget: it is never passed, and each costs its own."""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import agent_tool, background, create_agent
from agent_factory.middleware import (
    BackgroundMiddleware,
    BudgetMiddleware,
    Ledger,
    Limits,
    Spent,
)
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from samples import look
from tables import each
from waiting import until

ONE: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 100_000}
MANY = 100

Child = tuple[int, bool]
"""How often a subagent calls its tool before it answers, and whether it fails in place of that."""


class Office:
    """An agent that starts subagents all at once, and reads how each has ended.

    Args:
        children: The subagents.
        limit: How many answers of models all of them may have together; None for no limit.
        exit_behavior: What a subagent does that has no budget left.

    Attributes:
        answers: How many answers the models of the subagents have given.
    """

    def __init__(
        self, children: list[Child], limit: int | None, exit_behavior: Any, *, shared: bool
    ) -> None:
        self.answers, self._lock = 0, Lock()
        self.ledger = Ledger(Limits(turns=limit))
        budget = BudgetMiddleware(ledger=self.ledger, exit_behavior=exit_behavior, warn_at=None)
        clerk = create_agent(
            ScriptedChatModel([self._answer] * 100_000), [look], middleware=[budget], name="clerk"
        )
        calls = [
            {"name": "clerk", "args": {"request": f"{number} {turns} {int(fails)}"}}
            for number, (turns, fails) in enumerate(children)
        ]
        stack: list[Any] = [BackgroundMiddleware(max_running=len(children))]
        if shared:
            stack.append(BudgetMiddleware(ledger=self.ledger, exit_behavior="end", warn_at=None))
        self.agent: Any = create_agent(
            ScriptedChatModel([calls, *["I wait."] * 1000]),
            [background(agent_tool(clerk, description="Does work."), timeout=100)],
            middleware=stack,
            checkpointer=InMemorySaver(),
        )

    def _answer(self, messages: Any) -> Any:
        number, turns, fails = map(int, messages[0].text.split())
        works = sum(isinstance(message, AIMessage) for message in messages) < turns
        if fails and not works:
            raise OSError(f"{number} is down")
        with self._lock:
            self.answers += 1
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


def demand(children: list[Child]) -> int:
    return sum(turns + 1 for turns, _ in children)


def check(children: list[Child], limit: int | None, exit_behavior: str, mode: str) -> None:
    """Run subagents, and check what they have spent and how each has ended."""
    office = Office(children, limit, exit_behavior, shared=False)
    endings = office.run(mode)
    assert endings.keys() == {*range(len(children))}
    assert limit is None or office.answers <= limit
    assert office.ledger.spent.turns == office.answers
    assert office.ledger.reserved == Spent()
    if limit is None or limit >= demand(children):
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
    children = [(number % 4, number % 7 == 0) for number in range(MANY)]
    check(children, limit, "end", mode)


@each("mode", ["sync", "async"])
def test_an_agent_and_its_subagents_never_pass_the_budget_that_they_share(mode: str) -> None:
    office = Office([(2, False)] * 20, 30, "end", shared=True)
    office.run(mode)
    # Where subagents have reserved the last turns, the agent ends before they are answered.
    until(lambda: office.ledger.spent.turns >= 30)
    assert office.ledger.spent.turns == 30
    assert office.answers < 30
