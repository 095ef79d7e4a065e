"""Several reviews in one stack, and calls that change after somebody has decided about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent_factory import AgentMiddleware, create_agent
from agent_factory.errors import EndlessLoop
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.testing import ScriptedChatModel
from tables import each

Ask = Callable[..., Any]
ONE: Any = {"configurable": {"thread_id": "1"}}
APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "message": "No."}
Pause = tuple[str, dict[str, Any]]


class Desk:
    """Tools that write down what ran, and a model that calls one of them."""

    def __init__(self) -> None:
        self.ran: list[Pause] = []

    def agent(self, *middleware: Any, **args: Any) -> Any:
        def note(text: str) -> str:
            """Take a note."""
            self.ran.append(("note", {"text": text}))
            return "noted"

        def wire(text: str) -> str:
            """Wire money."""
            self.ran.append(("wire", {"text": text}))
            return "wired"

        call = {"name": "note", "args": args or {"text": "x"}, "id": "c"}
        return create_agent(
            ScriptedChatModel([[call], "done"]),
            [note, wire],
            middleware=middleware,
            checkpointer=InMemorySaver(),
        )


def review(*tools: str, name: str, mode: Any = "per_call") -> HumanInTheLoopMiddleware:
    return HumanInTheLoopMiddleware(dict.fromkeys(tools, True), interrupt_mode=mode, name=name)


def edit(name: str, text: str) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": {"text": text}}}


def talk(call: Ask, agent: Any, *answers: Any) -> list[Pause]:
    """What is asked in turn, each time answered with the next decision, until the run ends."""
    asked: list[Pause] = []
    result = call(agent, {"messages": "Hi"}, ONE)
    for answer in answers:
        (waiting,) = result["__interrupt__"]
        request = waiting.value
        batched = "action_requests" in request
        action = request["action_requests"][0] if batched else request
        asked.append((action["name"], action["args"]))
        resume = {"decisions": [answer]} if batched else answer
        result = call(agent, Command(resume={waiting.id: resume}), ONE)
    assert "__interrupt__" not in result, result["__interrupt__"]
    return asked


NOTE, WIRE = ("note", {"text": "x"}), ("wire", {"text": "1000"})


@each("outer", ["batched", "per_call"])
@each("decision, ran", [(APPROVE, [WIRE]), (REJECT, [])])
def test_the_outer_review_decides_about_what_the_inner_one_has_edited(
    call: Ask, outer: Any, decision: Any, ran: Any
) -> None:
    desk = Desk()
    stack = review("wire", name="outer", mode=outer), review("note", name="inner")
    agent = desk.agent(*stack)
    assert talk(call, agent, edit("wire", "1000"), decision) == [NOTE, WIRE]
    assert desk.ran == ran
    if ran:
        assert "You asked for note" in agent.get_state(ONE).values["messages"][2].text


def test_both_reviews_are_asked_about_a_call_that_a_layer_changes(call: Ask) -> None:
    class Swap(AgentMiddleware[Any, Any]):
        def around_tool(self, request: Any) -> Any:
            return (yield replace(request, tool_call={**request.tool_call, "args": WIRE[1]}))

    desk = Desk()
    agent = desk.agent(review("note", name="outer"), review("note", name="inner"), Swap())
    changed = ("note", WIRE[1])
    asked = talk(call, agent, APPROVE, APPROVE, APPROVE, APPROVE)
    assert asked == [NOTE, NOTE, changed, changed]
    assert desk.ran == [changed]


def test_an_edit_of_both_reviews_is_kept_when_the_call_begins_again(call: Ask) -> None:
    desk = Desk()
    stack = review("note", "wire", name="outer"), review("note", "wire", name="inner")
    agent = desk.agent(*stack)
    asked = talk(
        call,
        agent,
        edit("note", "outer"),  # the outer one decides first
        edit("note", "inner"),
        APPROVE,  # the outer one, about what the inner one has made of it
    )
    assert asked == [NOTE, ("note", {"text": "outer"}), ("note", {"text": "inner"})]
    assert desk.ran == [("note", {"text": "inner"})]


@each("mode", ["batched", "per_call"])
def test_a_call_that_changes_each_time_ends_with_an_error(call: Ask, mode: Any) -> None:
    numbers = count()

    class Number(AgentMiddleware[Any, Any]):
        def around_tool(self, request: Any) -> Any:
            args = {"text": str(next(numbers))}
            return (yield replace(request, tool_call={**request.tool_call, "args": args}))

    desk = Desk()
    judged: list[str] = []

    def judge(messages: Any) -> str:
        judged.append("a call")
        return '{"reason": "It is harmless.", "probability": 0.0}'

    policy = ToolPolicy(Rule("*", "judge"), judge=ScriptedChatModel([judge] * 100))
    agent = desk.agent(HumanInTheLoopMiddleware(policy, interrupt_mode=mode), Number())
    with pytest.raises(EndlessLoop, match="layers changed this call 10 times"):
        call(agent, {"messages": "Hi"}, ONE)
    assert len(judged) == 10
    assert desk.ran == []
