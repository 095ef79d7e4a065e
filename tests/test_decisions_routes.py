"""The decision log: why each route was taken, and what is repaired."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from agent_factory import (
    AgentMiddleware,
    Decision,
    Jump,
    Outcome,
    ToolRuntime,
    TurnError,
    create_agent,
    hook_config,
    topology_of,
)
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import Answer, add
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}


@tool(return_direct=True)
def refund(order: str) -> str:
    """Pay back."""
    return f"paid for {order}"


@tool
def stop(runtime: ToolRuntime) -> Command[Any]:
    """Stop here."""
    said = ToolMessage("stopped", tool_call_id=runtime.tool_call_id)
    return Command(goto=END, update={"messages": [said]})


@tool
def over() -> Command[Any]:
    """Hand over."""
    return Command(graph=Command.PARENT, goto="other")


def calls(*names: str, **args: Any) -> list[Any]:
    return [{"name": n, "args": args, "id": f"{n}{i}"} for i, n in enumerate(names)]


def routed(call: Any, steps: Any, *tools: Any, **options: Any) -> list[str]:
    """The routes of a run, as source, target and reason."""
    return [
        f"{d.hook} -> {d.detail} [{d.reason}]"
        for d in recorded(call, steps, *tools, **options)
        if d.outcome is Outcome.ROUTED
    ]


def recorded(call: Any, steps: Any, *tools: Any, **options: Any) -> list[Decision]:
    log: list[Decision] = []
    agent = create_agent(ScriptedChatModel(steps), tools, decisions=log.append, **options)
    call(agent, ASK)
    return log


class Hooked(AgentMiddleware):
    """Jumps once to the target it was made with."""

    def __init__(self, to: str, *more: Any) -> None:
        super().__init__()
        self.to: str | None = to
        self.more = more

    def jump(self) -> Any:
        to, self.to = self.to, None
        return Jump(to, messages=list(self.more), reason="so it is") if to else None


class Before(Hooked):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        return self.jump()


class After(Hooked):
    @hook_config(can_jump_to=["end", "model", "tools"])
    def after_model(self, state: Any, runtime: Any) -> Any:
        return self.jump()


class Answers(AgentMiddleware):
    """Answers a call in the tool's place."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        return {"messages": [ToolMessage("5", tool_call_id=c["id"]) for c in last.tool_calls]}


class Restless(Hooked):
    @hook_config(can_jump_to=["model"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        return self.jump()


ADD = calls("add", a=1, b=2)
ANSWER = [{"name": "Answer", "args": {"number": 5}}]
ENDS, SENDS = "model -> __end__ [no calls left]", "model -> tools (1 task) [pending calls]"
RESULTS = "tools -> model [tool results]"


def test_each_route_of_a_run_has_its_reason(call: Any) -> None:
    def run(steps: Any, *tools: Any, stack: Any = (), answer: Any = None) -> list[str]:
        options: Any = {"middleware": stack, "response_format": answer, "ignore": ["AF201"]}
        return routed(call, steps, *tools, **options)

    assert run([ADD, "3"], add) == [SENDS, RESULTS, ENDS]
    jumped = "Before.before_model -> __end__ [jump to end by Before]"
    assert run([], add, stack=[Before("end")]) == [jumped]
    again = "After.after_model -> model [jump to model by After]"
    stack: list[Any] = [After("model", HumanMessage("Again."))]
    assert run(["a", "b"], add, stack=stack) == [again, f"After.after_{ENDS}"]
    to_itself = "Restless.before_model -> model [next]"
    assert run(["a"], add, stack=[Restless("model")]) == [to_itself, ENDS]
    sent = "After.after_model -> tools (1 task) [jump to tools by After]"
    assert run([ADD, "3"], add, stack=[After("tools")]) == [sent, RESULTS, f"After.after_{ENDS}"]
    answered = "Answers.after_model -> model [calls already answered]"
    assert run([ADD, "5"], add, stack=[Answers()]) == [answered, f"Answers.after_{ENDS}"]
    direct = "tools -> __end__ [return_direct: refund]"
    assert run([calls("refund", order="A-1")], refund, add) == [SENDS, direct]
    assert run([calls("stop")], stop) == [SENDS, "tools -> __end__ [stopped by a tool]"]
    by_tool, one = ToolStrategy(Answer), "model -> __end__ [structured answer]"
    assert run([ANSWER], answer=by_tool) == [one]
    assert run([ANSWER], add, answer=by_tool) == [one.replace("]", ": Answer]")]
    assert run(['{"number": 5}'], add, answer=ProviderStrategy(Answer)) == [one]


def test_a_route_to_tools_names_the_calls(call: Any) -> None:
    steps = [[*calls("add", a=1, b=2), *calls("refund", order="A")], "3"]
    log = recorded(call, steps, add, refund, middleware=[After("tools")])
    assert [d.calls for d in log if d.calls] == [("add", "refund")]
    assert all(d.to_data()["calls"] == list(d.calls) for d in log)


def test_parallel_direct_results_end_the_run_through_the_loop_entry(call: Any) -> None:
    log = recorded(call, [calls("refund", "refund", order="A-1")], refund, add)
    assert [f"{d.hook} {d.outcome} [{d.reason}]" for d in log[1:]] == [
        "tools routed [tool results]",
        "tools routed [tool results]",
        "model skipped [return_direct: refund]",
        "model routed [return_direct: refund]",
    ]


def test_a_stop_by_a_tool_is_not_attributed_to_skipped_hooks(call: Any) -> None:
    class Quiet(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state: Any, runtime: Any) -> None:
            return None

    log = recorded(call, [[*calls("stop"), *ADD]], stop, add, middleware=[Quiet()])
    assert [str(d) for d in log[-2:]] == [
        "Quiet.before_model skipped [stopped by a tool]",
        "Quiet.before_model routed: __end__ [stopped by a tool]",
    ]


def test_a_handover_to_the_parent_graph_is_recorded(call: Any) -> None:
    log: list[Decision] = []
    agent = create_agent(ScriptedChatModel([calls("over")]), [over], decisions=log.append)
    parent: Any = StateGraph(MessagesState)
    parent.add_node("agent", agent)
    parent.add_node("other", lambda state: {"messages": [("ai", "Mine.")]})
    parent.add_edge(START, "agent")
    call(parent.compile(), ASK)
    assert [str(decision) for decision in log[-2:]] == [
        "tools routed: model [handed over to the parent graph]",
        "model skipped [handed over to the parent graph]",
    ]


@each("tools", [(), (add,)])
@each("bad", ["five", [{"name": "Answer", "args": {"number": "five"}}]])
def test_an_invalid_answer_is_explained_and_requested_again(
    call: Any, tools: Any, bad: Any
) -> None:
    log = recorded(call, [bad, bad, ANSWER], *tools, response_format=ToolStrategy(Answer))
    assert [str(decision) for decision in log[:4]] == [
        "model explained: 1 time",
        "model routed: model [asked again]",
        "model explained: 2 times",
        "model routed: model [asked again]",
    ]
    assert log[-1].reason.startswith("structured answer")


def test_a_route_that_cannot_be_taken_is_recorded(call: Any) -> None:
    log: list[Decision] = []
    agent = create_agent(
        ScriptedChatModel(["a"]), [add], middleware=[After("tools")], decisions=log.append
    )
    with pytest.raises(TurnError):
        call(agent, ASK)
    assert str(log[-1]) == "After.after_model raised: JumpWithoutCalls"


# Histories


def test_a_repaired_history_is_recorded_once_with_its_changes(call: Any) -> None:
    def repaired(messages: Any, *steps: Any) -> list[str]:
        log: list[Decision] = []
        agent = create_agent(ScriptedChatModel([*steps]), [add], decisions=log.append)
        call(agent, {"messages": messages})
        return [str(decision) for decision in log if decision.outcome is Outcome.REPAIRED]

    question, unknown = HumanMessage("Well?"), ToolMessage("?", tool_call_id="unknown")
    twice = AIMessage("", tool_calls=calls("add", "add", a=1, b=2))
    changes = ["model repaired: 2 added, 1 removed"]
    assert repaired([twice, unknown, question], ADD, "3") == changes
    once, late = AIMessage("", tool_calls=ADD), ToolMessage("3", tool_call_id="add0")
    assert repaired([once, question, late], "3") == ["model repaired: reordered"]


def test_a_history_that_a_layer_broke_is_recorded_too(call: Any) -> None:
    class Forgets(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            kept = request.messages[-1:]
            return (yield request.override(messages=kept, system_prompt="Forget."))

    log = recorded(call, [calls("add", a=1, b=2), "3"], add, middleware=[Forgets()])
    assert [d.detail for d in log if d.outcome is Outcome.REPAIRED] == ["1 removed"]


# The reasons are those of the plan


@given(
    turns=st.lists(st.lists(st.sampled_from(["add", "refund", "stop"]), max_size=3), max_size=4),
    hooked=st.booleans(),
)
def test_every_recorded_route_is_in_the_plan_and_has_a_reason(
    turns: list[list[str]], hooked: bool
) -> None:
    args = {"add": {"a": 1, "b": 2}, "refund": {"order": "A"}, "stop": {}}
    steps: list[Any] = [
        [{"name": name, "args": args[name]} for name in names] or "Done." for names in turns
    ]
    log: list[Decision] = []
    options: Any = {"middleware": [After("")] if hooked else [], "decisions": log.append}
    agent = create_agent(ScriptedChatModel([*steps, "Done."]), [add, refund, stop], **options)
    agent.invoke(ASK)
    transitions = {(way.source, way.target): way.reasons for way in topology_of(agent).transitions}
    for decision in log:
        if decision.outcome is Outcome.ROUTED:
            assert (decision.hook, decision.detail.split(" ")[0]) in transitions
            assert decision.reason
