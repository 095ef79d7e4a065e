"""Whatever happened before, the model sees a valid history and the thread keeps it (wanted 3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import interrupt

from agent_factory import AgentMiddleware, before_model, create_agent, wrap_model_call
from agent_factory.state import history
from agent_factory.state.history import UNANSWERED, is_valid
from agent_factory.testing import ScriptedChatModel
from samples import add
from tables import each

THREAD: Any = {"configurable": {"thread_id": "1"}}


def ask(text: str = "2 + 3?") -> Any:
    return {"messages": [("user", text)]}


def calls(*ids: str, name: str = "add") -> list[dict[str, Any]]:
    return [{"name": name, "args": {"a": 2, "b": 3}, "id": id} for id in ids]


def kinds(messages: Any) -> list[str]:
    return [m.type for m in messages]


def careful(*steps: Any) -> ScriptedChatModel:
    """A model that refuses what a provider would refuse."""

    def checked(step: Any) -> Any:
        def answer(messages: Any) -> Any:
            assert is_valid(messages), kinds(messages)
            return step

        return answer

    return ScriptedChatModel([checked(step) for step in steps])


def test_a_new_question_while_calls_are_pending(call: Any) -> None:
    model = careful(calls("a", "b"), "Something else.")
    agent = create_agent(model, [add], checkpointer=InMemorySaver(), interrupt_before=["tools"])
    call(agent, ask(), THREAD)
    result = call(agent, ask("Never mind."), THREAD)
    assert kinds(result["messages"]) == ["human", "ai", "tool", "tool", "human", "ai"]
    assert [m.text for m in result["messages"][2:4]] == [UNANSWERED] * 2
    assert kinds(model.requests[1].messages) == ["human", "ai", "tool", "tool", "human"]


def test_a_new_question_after_a_tool_crashed(call: Any) -> None:
    @tool("add")
    def crashing(a: int, b: int) -> int:
        """Add two numbers."""
        raise RuntimeError("crash")

    model = careful(calls("a"), "Let us go on.")
    agent = create_agent(model, [crashing], checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError, match="crash"):
        call(agent, ask(), THREAD)
    result = call(agent, ask("Still there?"), THREAD)
    assert kinds(result["messages"]) == ["human", "ai", "tool", "human", "ai"]
    assert result["messages"][2].status == "error"


def test_the_results_of_siblings_of_a_crashed_tool_are_kept_on_retry(call: Any) -> None:
    attempts: list[str] = []

    @tool
    def flaky() -> str:
        """Fail once."""
        attempts.append("flaky")
        if len(attempts) == 1:
            raise RuntimeError("crash")
        return "worked"

    model = careful([{"name": "flaky"}], "Done.")
    agent = create_agent(model, [flaky], checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError, match="crash"):
        call(agent, ask(), THREAD)
    result = call(agent, None, THREAD)
    assert [m.text for m in result["messages"]][-2:] == ["worked", "Done."]


def test_a_new_question_in_place_of_the_answer_to_an_interrupt(call: Any) -> None:
    @tool("add")
    def asking(a: int, b: int) -> str:
        """Add two numbers."""
        return str(interrupt("Sure?"))

    model = careful(calls("a"), "As you like.")
    agent = create_agent(model, [asking], checkpointer=InMemorySaver())
    call(agent, ask(), THREAD)
    result = call(agent, ask("Forget it."), THREAD)
    assert kinds(result["messages"]) == ["human", "ai", "tool", "human", "ai"]


async def test_a_new_question_after_a_cancelled_run() -> None:
    started = asyncio.Event()

    @tool("add")
    async def slow(a: int, b: int) -> int:
        """Add two numbers."""
        started.set()
        await asyncio.Event().wait()
        return a + b

    model = careful(calls("a"), "Here.")
    agent = create_agent(model, [slow], checkpointer=InMemorySaver())
    task = asyncio.create_task(agent.ainvoke(ask(), THREAD))
    await asyncio.wait_for(started.wait(), timeout=60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await agent.ainvoke(ask("Are you there?"), THREAD)
    assert kinds(result["messages"]) == ["human", "ai", "tool", "human", "ai"]


BROKEN: dict[str, list[Any]] = {
    "open call": [HumanMessage("q"), AIMessage("", tool_calls=calls("a"))],
    "orphan": [HumanMessage("q"), ToolMessage("5", tool_call_id="x")],
    "doubled": [
        AIMessage("", tool_calls=calls("a")),
        ToolMessage("5", tool_call_id="a"),
        ToolMessage("5", tool_call_id="a"),
    ],
    "moved": [
        AIMessage("", tool_calls=calls("a")),
        HumanMessage("q"),
        ToolMessage("5", tool_call_id="a"),
    ],
}


@each("broken", BROKEN.values())
@each("tools", [[], [add]])
def test_an_invalid_history_that_is_passed_in_is_repaired_in_the_thread_too(
    call: Any, broken: list[AnyMessage], tools: Any
) -> None:
    model = careful("One.", "Two.")
    agent = create_agent(model, tools, checkpointer=InMemorySaver())
    first = call(agent, {"messages": [m.model_copy() for m in broken]}, THREAD)
    assert first["messages"][:-1] == model.requests[0].messages
    second = call(agent, ask("And?"), THREAD)
    assert is_valid(second["messages"])
    assert second["messages"][: len(first["messages"])] == first["messages"], "repaired once"


def test_a_call_that_a_repair_answered_is_not_sent_to_the_tool_again(call: Any) -> None:
    ran: list[str] = []

    @tool("add")
    def counted(a: int, b: int) -> int:
        """Add two numbers."""
        ran.append("add")
        return a + b

    agent = create_agent(careful("Fine."), [counted])
    broken = BROKEN["open call"]
    call(agent, {"messages": [m.model_copy() for m in broken]})
    assert ran == []


@each("keep", range(1, 6))
def test_a_layer_may_cut_the_history_anywhere(call: Any, keep: int) -> None:
    """And the thread keeps all of it."""

    @wrap_model_call
    def short(request: Any) -> Any:
        return (yield request.override(messages=request.messages[-keep:]))

    model = careful(calls("a", "b"), calls("c"), "Done.")
    result = call(create_agent(model, [add], middleware=[short], system_prompt="Sum."), ask())
    assert kinds(result["messages"]) == ["human", "ai", "tool", "tool", "ai", "tool", "ai"]
    assert UNANSWERED not in [m.text for m in result["messages"]]


@each("keep", range(1, 6))
def test_a_hook_may_cut_the_history_anywhere(call: Any, keep: int) -> None:
    @before_model
    def short(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *state["messages"][-keep:]]}

    model = careful(calls("a", "b"), calls("c"), "Done.")
    result = call(create_agent(model, [add], middleware=[short], system_prompt="Sum."), ask())
    assert is_valid(result["messages"])
    model.assert_done()


@each("gone", ["answer", "call"])
def test_a_hook_that_removes_half_of_a_pair_leaves_a_valid_history(call: Any, gone: str) -> None:
    class Forgetful(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            pick = ToolMessage if gone == "answer" else AIMessage
            found = [m for m in state["messages"] if isinstance(m, pick)]
            return {"messages": [RemoveMessage(id=str(found[0].id))]} if len(found) == 2 else None

    model = careful(calls("a"), calls("b"), "Done.")
    result = call(create_agent(model, [add], middleware=[Forgetful()]), ask())
    assert is_valid(result["messages"])


@each("turn", [2, 3])
def test_a_hook_that_replaces_a_message_leaves_a_valid_history(call: Any, turn: int) -> None:
    """The message keeps its id and its place, and loses its calls."""

    class Replacing(AgentMiddleware):
        times = 0

        def before_model(self, state: Any, runtime: Any) -> Any:
            self.times += 1
            if self.times != turn:
                return None
            old = next(m for m in state["messages"] if m.type == "ai")
            return {"messages": [AIMessage("(shortened)", id=old.id)]}

    model = careful(calls("a"), calls("b"), "Done.")
    result = call(create_agent(model, [add], middleware=[Replacing()]), ask())
    assert is_valid(result["messages"])


def test_a_hook_that_writes_a_call_without_an_answer_leaves_a_valid_history(call: Any) -> None:
    @before_model
    def inventing(state: Any, runtime: Any) -> Any:
        made: Any = calls("made-up")
        return (
            {"messages": [AIMessage("", tool_calls=made)]} if len(state["messages"]) == 1 else None
        )

    result = call(create_agent(careful("Hi."), [add], middleware=[inventing]), ask())
    assert kinds(result["messages"]) == ["human", "ai", "tool", "ai"]


def test_an_answer_given_for_a_pending_call_is_kept(call: Any) -> None:
    """A person answers in the tool's place, and asks on."""
    model = careful(calls("a"), "Fine.")
    agent = create_agent(model, [add], checkpointer=InMemorySaver(), interrupt_before=["tools"])
    call(agent, ask(), THREAD)
    answer = ToolMessage("It is 5, I know.", tool_call_id="a")
    result = call(agent, {"messages": [answer, HumanMessage("Go on.")]}, THREAD)
    assert kinds(result["messages"]) == ["human", "ai", "tool", "human", "ai"]
    assert result["messages"][2].text == "It is 5, I know."


def test_a_long_run_validates_each_message_once(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """wanted 12: what one turn has looked at is not looked at again by the next."""
    looked: list[int] = []
    really = history.is_valid

    def counting(messages: Any, start: int = 0) -> bool:
        looked.append(len(messages) - start)
        return really(messages, start)

    monkeypatch.setattr(history, "is_valid", counting)
    model = careful(*(calls(f"c{n}") for n in range(20)), "Done.")
    result = call(create_agent(model, [add]), ask())
    assert sum(looked) <= len(result["messages"])


any_id = st.sampled_from("abc")
any_history = st.lists(
    st.one_of(
        st.builds(lambda: HumanMessage("u")),
        st.builds(lambda: SystemMessage("s")),
        st.builds(lambda ids: AIMessage("", tool_calls=calls(*ids)), st.lists(any_id, max_size=2)),
        st.builds(lambda id: ToolMessage("r", tool_call_id=id), any_id),
    ),
    min_size=1,
    max_size=8,
)


@given(first=any_history, second=any_history)
def test_any_messages_lead_to_a_valid_thread(
    first: list[AnyMessage], second: list[AnyMessage]
) -> None:
    model = careful("One.", "Two.")
    agent: Any = create_agent(model, [add], checkpointer=InMemorySaver(), system_prompt="s")
    for number, messages in enumerate((first, second)):
        result = agent.invoke({"messages": messages}, THREAD)
        assert result["messages"][:-1] == model.requests[number].messages[1:]
        assert is_valid(result["messages"])
    assert agent.get_state(THREAD).values["messages"] == result["messages"]
