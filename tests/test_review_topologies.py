"""Reviews of agents with hooks around the tools, and of agents that run fused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent, review
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.prebuilt import create_react_agent
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from reviews import Till, payments

Act = Callable[..., Any]

THREAD: Any = {"configurable": {"thread_id": "1"}}


@pytest.fixture(params=["sync", "async"])
def act(request: pytest.FixtureRequest) -> Act:
    """Call a helper, or its asynchronous twin: `act("approve", agent, ...)`."""

    def sync(name: str, agent: Any, /, *args: Any) -> Any:
        return getattr(review, name)(agent, THREAD, *args)

    def a(name: str, agent: Any, /, *args: Any) -> Any:
        return asyncio.run(getattr(review, f"a{name}")(agent, THREAD, *args))

    return sync if request.param == "sync" else a


def asking(agent: Any) -> Any:
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


@pytest.mark.parametrize("stop", ["tools", "post_model_hook"])
def test_a_react_agent_with_hooks_is_reviewed_before_and_after_them(act: Act, stop: str) -> None:
    till = Till()
    agent = asking(
        create_react_agent(
            ScriptedChatModel([payments(1, 2, 3), "Done."]),
            [till.pay],
            pre_model_hook=lambda state: {"llm_input_messages": state["messages"]},
            post_model_hook=lambda state: {},
            checkpointer=InMemorySaver(),
            interrupt_before=[stop],
        )
    )
    act("reject", agent, "no", "call_1")
    act("edit", agent, {"euros": 20}, "call_2")
    act("approve", agent)
    to_the_end(act, agent)
    assert sorted(till.paid) == [3, 20]
    assert ends_well(agent)


@pytest.mark.parametrize("stop", ["tools", "post_model_hook"])
def test_all_calls_of_a_react_agent_with_hooks_are_rejected(act: Act, stop: str) -> None:
    till = Till()
    agent = asking(
        create_react_agent(
            ScriptedChatModel([payments(1, 2), "Done."]),
            [till.pay],
            post_model_hook=lambda state: {},
            checkpointer=InMemorySaver(),
            interrupt_before=[stop],
        )
    )
    act("reject", agent, "no")
    to_the_end(act, agent)
    assert not till.paid
    assert ends_well(agent)


def test_an_id_that_the_model_reuses_is_a_separate_call(act: Act) -> None:
    till = Till()
    agent = asking(
        create_react_agent(
            ScriptedChatModel([payments(1), payments(1), "Done."]),
            [till.pay],
            checkpointer=InMemorySaver(),
            interrupt_before=["tools"],
        )
    )
    act("reject", agent)
    act("approve", agent)
    assert till.paid == [1]
    assert ends_well(agent)


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_fused_agent_is_reviewed_like_any_other(act: Act, mode: Any) -> None:
    till = Till()
    agent = asking(
        create_agent(
            ScriptedChatModel([payments(1, 2), "Done."]),
            [till.pay],
            middleware=[HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)],
            checkpointer=InMemorySaver(),
            fused=True,
        )
    )
    act("approve", agent, "call_1")
    act("reject", agent, "no", "call_2")
    assert till.paid == [1]
    assert ends_well(agent)
