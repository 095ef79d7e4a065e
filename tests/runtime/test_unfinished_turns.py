"""Turns that wait or have failed, and what a new message or an update keeps of them."""

from __future__ import annotations

from operator import add
from threading import Event
from typing import Annotated, Any

import pytest
from langchain_core.messages import RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError, is_invalid_resume
from langgraph.types import Command

from agent_factory import AgentState, create_agent
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from reviews import Till, ask, payments
from samples import results_by_id
from tables import each

PAGE = {"name": "page", "description": "Its title."}
THREAD: Any = {"configurable": {"thread_id": "1", "client_tools": [PAGE]}}
ASK: Any = {"messages": [("user", "Pay!")]}
CALLS: dict[str, dict[str, Any]] = {
    "review": {"name": "look", "args": {}, "id": "other"},
    "client": {"name": "page", "args": {}, "id": "other"},
    "question": {"name": "ask", "args": {"question": "Well?"}, "id": "other"},
    "error": {"name": "fail", "args": {}, "id": "other"},
}


def look() -> str:
    """Look into the till."""
    return "all there"


def fail() -> str:
    """Fail."""
    raise ConnectionError("down")


class Counting(AgentState[Any]):
    sum: Annotated[int, add]


def waiting(call: Any, kind: str, fused: Any = True, **options: Any) -> tuple[Any, Till]:
    """An agent that has paid in a turn with a call that waits or fails, and asks for that again."""
    till = Till()
    stack: list[Any] = [
        m.ToolCallLimitMiddleware(tool_name="pay", thread_limit=2),
        m.BudgetMiddleware(thread=m.Limits(tool_calls=9)),
        m.HumanInTheLoopMiddleware({"look": True}, interrupt_mode="per_call"),
        m.ClientToolsMiddleware(),
    ]
    script = [[*payments(1), CALLS[kind]], [*payments(2), CALLS[kind]], [*payments(3)], "Done."]
    options["state_schema"] = Counting
    options = {"checkpointer": InMemorySaver(), "fused": fused, **options}
    tools: list[Any] = [till.pay, look, ask, fail]
    agent = create_agent(ScriptedChatModel(script), tools, middleware=stack, **options)
    turn(call, agent, kind)
    assert till.paid == [1]
    return agent, till


def turn(call: Any, agent: Any, kind: str, value: Any = ASK) -> None:
    if kind != "error":
        call(agent, value, THREAD)
        return
    with pytest.raises(ConnectionError) as caught:
        call(agent, value, THREAD)
    assert not is_invalid_resume(caught.value)


@each("kind", CALLS)
@each("fused", [True, False])
@each("checkpoints", ["delta", "full"])
def test_a_new_message_keeps_results_and_counts(
    call: Any, kind: str, fused: bool, checkpoints: str
) -> None:
    agent, till = waiting(call, kind, fused, checkpoints=checkpoints)
    turn(call, agent, kind, Command(update={"sum": 1}))
    turn(call, agent, kind)
    result = call(agent, ASK, THREAD)
    assert (till.paid, result["sum"]) == ([1, 2], 1)
    assert_valid_history(result["messages"])
    texts = [m.text for m in result["messages"] if isinstance(m, ToolMessage)]
    assert [text for text in texts if text.startswith("paid")] == ["paid 1", "paid 2"]
    known = [text for text in texts if "did not run: the user sent a new message" in text]
    assert len(known) == (2 if kind == "review" else 0)
    assert "Limit reached" in texts[-1]


@each("kind", ["batched", "paused", "answered"])
def test_a_new_message_says_that_a_call_has_not_run_if_that_is_known(call: Any, kind: str) -> None:
    till = Till()
    mode: Any = "per_call" if kind == "answered" else "batched"
    reviewed = {"ask": True, "pay": True} if kind != "paused" else {}
    agent: Any = create_agent(
        ScriptedChatModel([[*payments(1), CALLS["question"]], "Stopped."]),
        [till.pay, ask],
        middleware=[m.HumanInTheLoopMiddleware(reviewed, interrupt_mode=mode)],
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"] if kind == "paused" else None,
        ignore=["AF212"],
    )
    paused = call(agent, ASK, THREAD)
    if kind == "answered":  # the tool asks, too: it has begun
        answers = {i.id: {"type": "approve"} for i in paused["__interrupt__"]}
        call(agent, Command(resume=answers), THREAD)
    results = results_by_id(call(agent, ASK, THREAD))
    has_not_run = kind == "batched"
    assert ("did not run" in results["other"], "may have run" in results["other"]) == (
        (True, False) if has_not_run else (False, True)
    )
    assert till.paid == ([1] if kind == "answered" else [])


@each("kind", CALLS)
@each("fused", [True, False])
@each("node", [None, "tools"])
@each("place", ["thread", "newest", "earlier"])
def test_an_update_keeps_results_and_counts_except_in_a_branch(
    call: Any, kind: str, fused: bool, node: str | None, place: str
) -> None:
    agent, till = waiting(call, kind, fused)
    states = [s for s in agent.get_state_history(THREAD) if s.next and "tools" in s.next]
    config = THREAD if place == "thread" else states[0].config
    if place == "earlier":
        turn(call, agent, kind)
    with pytest.raises(InvalidUpdateError):
        agent.update_state(config, {"messages": []}, as_node="nobody")
    update = {"messages": [ToolMessage("no", tool_call_id="other")] if node else []}
    place_of_update = agent.update_state(config, update, as_node=node)
    agent.update_state(place_of_update, {"messages": []}) if node is None else None
    if place == "earlier":
        return
    values = agent.get_state(THREAD).values
    assert values["thread_tool_call_count"]["pay"] == 1
    assert ("paid 1" in results_by_id(values).values(), till.paid) == (True, [1])
    if node is None:
        turn(call, agent, kind, None)
        assert till.paid == [1]


def test_results_of_calls_that_end_after_one_has_failed_are_kept(call: Any) -> None:
    failed = Event()

    def fail() -> str:
        """Fail."""
        failed.set()
        raise ConnectionError("down")

    def pay(euros: int) -> str:
        """Pay."""
        failed.wait()
        return f"paid {euros}"

    calls = [[CALLS["error"], *payments(1, 2)], "Done."]
    agent: Any = create_agent(ScriptedChatModel(calls), [pay, fail], checkpointer=InMemorySaver())
    turn(call, agent, "error")
    texts = [m.text for m in call(agent, ASK, THREAD)["messages"]]
    assert {"paid 1", "paid 2"} <= {*texts}


@each("fused", [True, False])
@each("updated", [True, False])
def test_a_write_that_cannot_be_merged_does_not_block_its_thread(
    call: Any, fused: bool, updated: bool
) -> None:
    def clear() -> Any:
        """Clear."""
        removals = [RemoveMessage("nobody"), ToolMessage("ok", tool_call_id="n")]
        return Command(update={"messages": removals})

    calls = [[*payments(1), {"name": "clear", "args": {}, "id": "n"}, CALLS["question"]], "Done."]
    model = ScriptedChatModel(calls)
    tools: list[Any] = [Till().pay, clear, ask]
    agent: Any = create_agent(model, tools, checkpointer=InMemorySaver(), fused=fused)
    with pytest.raises(ValueError, match="nobody"):
        call(agent, ASK, THREAD)
    if updated:
        agent.update_state(THREAD, {"messages": [("user", "Wait.")]}, as_node="tools")
    assert call(agent, ASK, THREAD)["messages"][-1].text == "Done."
