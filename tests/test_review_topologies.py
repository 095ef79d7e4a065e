"""Reviews of agents with hooks around the tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from agent_factory.prebuilt import create_react_agent
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from reviews import Till, payments
from tables import each

Act = Callable[..., Any]

THREAD: Any = {"configurable": {"thread_id": "1"}}


def asking(till: Till, *script: Any, **options: Any) -> Any:
    """An agent of create_react_agent that waits for a review."""
    model, saver = ScriptedChatModel(script), InMemorySaver()
    agent: Any = create_react_agent(model, [till.pay], checkpointer=saver, **options)
    agent.invoke({"messages": [("user", "Pay!")]}, THREAD)
    return agent


def to_the_end(act: Act, agent: Any) -> None:
    """A stop before the hook holds the answer up as well, with no call to decide about."""
    while waiting := act("pending", agent):
        assert not waiting.calls
        act("approve", agent)


def ends_well(agent: Any) -> bool:
    state = agent.get_state(THREAD)
    assert_valid_history(state.values["messages"])
    return bool(state.next == () and state.values["messages"][-1].text == "Done.")


@each("stop", ["tools", "post_model_hook"])
def test_a_react_agent_with_hooks_is_reviewed_before_and_after_them(act: Act, stop: str) -> None:
    till = Till()
    agent = asking(
        till,
        payments(1, 2, 3),
        "Done.",
        pre_model_hook=lambda state: {"llm_input_messages": state["messages"]},
        post_model_hook=lambda state: {},
        interrupt_before=[stop],
    )
    act("reject", agent, "no", "call_1")
    act("edit", agent, {"euros": 20}, "call_2")
    act("approve", agent)
    to_the_end(act, agent)
    assert sorted(till.paid) == [3, 20]
    assert ends_well(agent)


@each("stop", ["tools", "post_model_hook"])
def test_all_calls_of_a_react_agent_with_hooks_are_rejected(act: Act, stop: str) -> None:
    till = Till()
    hook: Any = lambda state: {}  # noqa: E731
    agent = asking(till, payments(1, 2), "Done.", post_model_hook=hook, interrupt_before=[stop])
    act("reject", agent, "no")
    to_the_end(act, agent)
    assert not till.paid
    assert ends_well(agent)


def test_an_id_that_the_model_reuses_is_a_separate_call(act: Act) -> None:
    till = Till()
    agent = asking(till, payments(1), payments(1), "Done.", interrupt_before=["tools"])
    act("reject", agent)
    act("approve", agent)
    assert till.paid == [1]
    assert ends_well(agent)
