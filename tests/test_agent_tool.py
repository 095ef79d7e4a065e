"""A subagent as a tool: its answer is the result, and its reviews reach the outer thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from agent_factory import agent_tool, create_agent
from agent_factory.errors import ArgumentError, TurnError
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from reviews import payments
from samples import last_text, tool_results
from tables import each

Run = Callable[..., Any]

ONE: Any = {"configurable": {"thread_id": "1"}, "metadata": {"user": "Ann"}}
HI: Any = {"messages": [("user", "Pay!")]}


class Till:
    """A tool that has an effect, and sees the metadata of its run."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.metadata: list[dict[str, Any]] = []

    def pay(self, euros: int, config: RunnableConfig) -> str:
        """Pay money."""
        self.paid.append(euros)
        self.metadata.append(dict(config["metadata"]))
        return f"paid {euros}"


def asks(*requests: str) -> list[dict[str, Any]]:
    return [{"name": "clerk", "args": {"request": r}, "id": f"outer_{r}"} for r in requests]


def clerk_tool(
    till: Till, *script: Any, mode: Any = "batched", max_requests: Any = None, **options: Any
) -> Any:
    clerk = create_agent(
        ScriptedChatModel([*script]),
        [till.pay],
        middleware=[HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)],
        **{"name": "clerk", "ignore": ["AF211"], **options},
    )
    return agent_tool(clerk, description="Pays money.", max_requests=max_requests)


def boss(tools: list[Any], *script: Any, **options: Any) -> Any:
    model = ScriptedChatModel(script)
    return create_agent(model, tools, **{"checkpointer": InMemorySaver(), **options})


def test_a_structured_answer_is_the_result_as_json(call: Run) -> None:
    class Bill(BaseModel):
        euros: int

    model = ScriptedChatModel([[{"name": "Bill", "args": {"euros": 3}}]])
    tool = agent_tool(create_agent(model, response_format=Bill), name="clerk", description="Bills.")
    result = call(boss([tool], asks("a"), "Done."), HI, ONE)
    assert tool_results(result) == [('{"euros":3}', "success")]


@each(
    "agent_name, tool_name, seen",
    [("clerk", None, "clerk"), (None, "clerk", "clerk"), ("Cara", "clerk", "Cara")],
)
def test_the_name_of_the_subagent_is_in_the_metadata_of_its_run(
    call: Run, agent_name: Any, tool_name: Any, seen: str
) -> None:
    till, model = Till(), ScriptedChatModel([payments(1), "Ann has it."])
    clerk = create_agent(model, [till.pay], name=agent_name)
    tool = agent_tool(clerk, name=tool_name, description="Pays money.")
    assert (tool.name, tool.description, list(tool.args)) == ("clerk", "Pays money.", ["request"])
    result = call(boss([tool], asks("Well?"), "Done."), HI, ONE)
    assert [m.text for m in model.requests[0].messages] == ["Well?"]  # the request alone
    assert tool_results(result) == [("Ann has it.", "success")]
    assert result["messages"][2].name == "clerk"
    (metadata,) = till.metadata
    assert (metadata["lc_agent_name"], metadata["user"]) == (seen, "Ann")


@each("checkpointer", [None, InMemorySaver()])
def test_a_review_in_the_subagent_is_answered_through_the_outer_thread(
    call: Run, mode: Any, fused: Any, checkpointer: Any
) -> None:
    till = Till()
    tool = clerk_tool(till, payments(1), "Paid.", mode=mode, fused=fused, checkpointer=checkpointer)
    agent = boss([tool], asks("a"), "Done.", fused=fused)
    (asked,) = call(agent, HI, ONE)["__interrupt__"]
    assert till.paid == []
    approval = {"type": "approve"}
    answer = {"decisions": [approval]} if mode == "batched" else approval
    result = call(agent, Command(resume={asked.id: answer}), ONE)
    assert till.paid == [1]
    assert tool_results(result) == [("Paid.", "success")]
    assert_valid_history(result["messages"])


def test_reviews_in_one_run_of_the_subagent_are_decided_one_after_the_other(
    act: Run, mode: Any, fused: Any
) -> None:
    till = Till()
    tool = clerk_tool(till, payments(1), payments(200), payments(3), "Paid.", mode=mode)
    agent = boss([tool], asks("a"), "Done.", fused=fused)
    agent.invoke(HI, ONE)
    act("approve", agent)
    assert till.paid == [1]
    assert [call.args for call in act("pending", agent).calls] == [{"euros": 200}]
    act("edit", agent, {"euros": 20})
    result = act("reject", agent, "Enough.")
    assert till.paid == [1, 20]
    assert tool_results(result) == [("Paid.", "success")]
    assert last_text(result) == "Done."


def test_an_interrupt_outside_of_a_run_is_refused_with_the_reason() -> None:
    for number, argument in ((None, {"request": "Pay!"}), (9, {"requests": ["1", "2"]})):
        script = [payments(1)] * 2
        tool = clerk_tool(Till(), *script, max_requests=number, checkpointer=InMemorySaver())
        with pytest.raises(TurnError, match=r"clerk: was interrupted, and no outer agent"):
            tool.invoke(argument, {"configurable": {"thread_id": "1"}})


@each(
    "arguments, problem",
    [
        ({"agent": "clerk"}, r"agent must be a compiled agent, got str"),
        ({"name": ""}, r"name must be a non-empty string, got str \(''\)"),
        ({"name": None}, r"name is required: .* has no name"),
        ({"description": " "}, r"description must be a non-empty string"),
        ({"description": None}, r"description must be a non-empty string"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, problem: str) -> None:
    given: Any = {"name": "clerk", "description": "Pays.", "agent": None, **arguments}
    agent = given.pop("agent") or create_agent(ScriptedChatModel([]))
    with pytest.raises(ArgumentError, match=problem.replace(" ", r"\W+", 1)):
        agent_tool(agent, **given)
