"""Limits of a run, whichever built-in sets them: over reviews and failures, and no further."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, product
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, create_agent, review
from agent_factory.middleware import (
    BudgetMiddleware,
    HumanInTheLoopMiddleware,
    Limits,
    ModelCallLimitMiddleware,
    ToolCallLimitMiddleware,
)
from agent_factory.testing import ScriptedChatModel
from tables import each

Call = Callable[..., Any]
THREAD: Any = {"configurable": {"thread_id": "1"}}
MOST = 3

LIMITS: dict[str, Callable[[], AgentMiddleware[Any, Any]]] = {
    "model calls": lambda: ModelCallLimitMiddleware(run_limit=MOST),
    "tool calls": lambda: ToolCallLimitMiddleware(run_limit=MOST, exit_behavior="end"),
    "calls of a tool": lambda: ToolCallLimitMiddleware(tool_name="delete", run_limit=MOST),
    "turns of a budget": lambda: BudgetMiddleware(run=Limits(turns=MOST), exit_behavior="end"),
    "tools of a budget": lambda: BudgetMiddleware(run=Limits(tool_calls=MOST)),
}


class Desk:
    """An agent that deletes files one after the other, and each time a person is asked."""

    def __init__(self, limit: AgentMiddleware[Any, Any], mode: Any) -> None:
        self.deleted: list[int] = []
        self.broken = False
        numbers = count()

        def delete(number: int) -> str:
            """Delete a file."""
            if self.broken:
                raise ConnectionError("The disk is away.")
            self.deleted.append(number)
            return "Deleted."

        def answer(messages: Any) -> AIMessage:
            number = next(numbers)
            if number % 10 == 9:
                return AIMessage("I give up.")
            call = {"name": "delete", "args": {"number": number}, "id": f"call-{number}"}
            return AIMessage("", tool_calls=[call])

        self.model = ScriptedChatModel([answer] * 200)
        reviewer = HumanInTheLoopMiddleware({"delete": True}, interrupt_mode=mode)
        self.agent = create_agent(
            self.model, [delete], middleware=[limit, reviewer], checkpointer=InMemorySaver()
        )

    def approve_all(self, act: Call) -> None:
        """Approve until nothing waits."""
        for _ in range(20):
            if not review.pending(self.agent, THREAD):
                return
            act("approve", self.agent)
        raise AssertionError("The run goes on after 20 approvals.")


EVERY = each("limit, mode", list(product(LIMITS, ["batched", "per_call"])))


@EVERY
def test_a_run_that_is_reviewed_again_and_again_has_one_limit(
    act: Call, limit: str, mode: str
) -> None:
    desk = Desk(LIMITS[limit](), mode)
    desk.agent.invoke({"messages": "Delete all."}, THREAD)
    desk.approve_all(act)
    assert 0 < len(desk.deleted) <= MOST
    # The next message begins a run, which has the whole limit.
    before = len(desk.deleted)
    desk.agent.invoke({"messages": "Go on."}, THREAD)
    desk.approve_all(act)
    assert len(desk.deleted) - before == before


@EVERY
def test_a_run_that_goes_on_after_a_failure_continues_with_its_count(
    act: Call, limit: str, mode: str
) -> None:
    desk = Desk(LIMITS[limit](), mode)
    desk.agent.invoke({"messages": "Delete all."}, THREAD)
    act("approve", desk.agent)
    desk.broken = True
    with pytest.raises(ConnectionError):
        act("approve", desk.agent)
    desk.broken = False
    desk.agent.invoke(None, THREAD)
    desk.approve_all(act)
    assert 0 < len(desk.deleted) <= MOST


@EVERY
def test_a_message_in_place_of_a_decision_begins_a_run(act: Call, limit: str, mode: str) -> None:
    desk = Desk(LIMITS[limit](), mode)
    desk.agent.invoke({"messages": "Delete all."}, THREAD)
    act("approve", desk.agent)
    act("approve", desk.agent)
    assert len(desk.deleted) == 2
    act("add_input", desk.agent, "Stop. Now delete the others.")
    desk.approve_all(act)
    assert len(desk.deleted) > MOST
