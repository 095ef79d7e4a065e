"""Reviews and limits of langchain say to the plan which tools they are about."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import (
    AgentFactoryWarning,
    ToolGuard,
    before_model,
    create_agent,
    plan_agent,
    tool_labels,
)
from agent_factory.errors import SpecError
from agent_factory.guarantees import counterexamples
from agent_factory.testing import ScriptedChatModel
from samples import call_of, find, refund
from tables import each

theirs = pytest.importorskip("langchain.agents.middleware", reason="the extra peer is missing")
reviews = pytest.importorskip("langchain.agents.middleware.human_in_the_loop")

MODES = ["batched", "per_call"]
PLACES = {"batched": "after_model", "per_call": "around_tool"}


def is_large(request: Any) -> bool:
    return bool(request.tool_call["args"]["euros"] > 50)


@before_model(can_jump_to=["tools"])
def shortcut(state: Any, runtime: Any) -> dict[str, Any] | None:
    """Pay at once, around the model."""
    if len(state["messages"]) > 1:
        return None
    return {
        "messages": [AIMessage("", tool_calls=[call_of("refund", euros=60)])],
        "jump_to": "tools",
    }


@each("mode", MODES)
def test_a_review_says_what_it_decides_about(mode: str) -> None:
    config = {"allowed_decisions": ["reject", "approve"], "when": is_large}
    review = theirs.HumanInTheLoopMiddleware(
        {"refund": config, "search": False, "pay": True}, interrupt_mode=mode
    )
    place: Any = PLACES[mode]
    owner = "HumanInTheLoopMiddleware"
    assert plan_agent(tools=[refund], middleware=[review], ignore=["AF210"]).guards == (
        ToolGuard(
            *("refund", "ask", "is_large()"),
            place=place,
            owner=owner,
            decisions=("approve", "reject"),
        ),
        ToolGuard("pay", "ask", place=place, owner=owner),
    )
    # All decisions of langchain are all of ours.
    every = [*get_args(reviews.DecisionType)]
    review = theirs.HumanInTheLoopMiddleware({"refund": {"allowed_decisions": every}})
    (guard,) = plan_agent(tools=[refund], middleware=[review]).guards
    assert guard.decisions == ()


@each("mode", MODES)
def test_guarantees_rely_on_a_review_and_it_closes_the_way_out(mode: str) -> None:
    """A build warns where text of others can send private data out."""
    review = theirs.HumanInTheLoopMiddleware({"refund": True}, interrupt_mode=mode)
    plan = plan_agent(tools=[refund], middleware=[review])
    sentences = ["tool refund passes a person", "tool refund passes HumanInTheLoopMiddleware"]
    assert counterexamples(plan, sentences) == ()
    bring = tool_labels("untrusted", "private")(tool(find))
    send = tool_labels("outside")(tool(refund))
    with pytest.warns(AgentFactoryWarning, match="AF219"):
        plan_agent(tools=[bring, send])
    plan_agent(tools=[bring, send], middleware=[review])  # a warning would be an error


def test_a_build_refuses_a_jump_around_a_review_of_turns() -> None:
    review = theirs.HumanInTheLoopMiddleware({"refund": True})
    with pytest.raises(SpecError, match="in a hook that a jump bypasses") as error:
        plan_agent(tools=[refund], middleware=[shortcut, review])
    assert error.value.code == "AF129"


@each("mode", MODES)
def test_what_a_review_says_is_what_it_does(mode: str) -> None:
    """After a jump to the tools: it asks where it has said that no call bypasses it."""
    review = theirs.HumanInTheLoopMiddleware({"refund": True}, interrupt_mode=mode)
    agent = create_agent(
        ScriptedChatModel(["Done."]),
        [refund],
        middleware=[shortcut, review],
        checkpointer=InMemorySaver(),
        ignore=["AF129"],
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": [("user", "Pay.")]}, config)
    asked = bool(agent.get_state(config).interrupts)
    assert asked == (PLACES[mode] == "around_tool")


@each(
    "make",
    [
        lambda name: theirs.HumanInTheLoopMiddleware({name: True}),
        lambda name: theirs.ToolCallLimitMiddleware(tool_name=name, run_limit=1),
    ],
)
def test_a_misspelt_tool_is_refused(make: Any) -> None:
    with pytest.raises(SpecError, match="Write 'refund'") as error:
        plan_agent(tools=[refund], middleware=[make("refnud")])
    assert error.value.code == "AF124"
    with pytest.warns(AgentFactoryWarning, match="AF210.*has no such tool"):
        plan_agent(tools=[refund], middleware=[make("send_email")])


@each("base", [theirs.HumanInTheLoopMiddleware, theirs.ToolCallLimitMiddleware])
def test_a_subclass_with_a_constructor_of_its_own_says_nothing(base: Any) -> None:
    subclass: Any = type("Own", (base,), {"__init__": lambda self: None, "name": "Own"})
    assert plan_agent(tools=[refund], middleware=[subclass()]).guards == ()
