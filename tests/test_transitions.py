"""Each edge of a plan has its reasons, and a reason names its middleware or tools."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from agent_factory import AgentMiddleware, create_agent, hook_config, plan_agent, topology_of
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import Topology, plan
from agent_factory.topology.model import (
    END,
    MODEL,
    TOOLS,
    Hook,
    Phase,
    Shape,
    Tool,
)
from agent_factory.topology.model import ToolKind as Kind
from agent_factory.topology.transitions import Reason, TransitionReason
from samples import find, shapes


def why(plan: Topology, source: str, target: str) -> list[str]:
    (edge,) = (e for e in plan.transitions if (e.source, e.target) == (source, target))
    return [str(reason) for reason in edge.reasons]


class Guard(AgentMiddleware):
    @hook_config(can_jump_to=["end", "model"])
    def after_model(self, state: Any, runtime: Any) -> None:
        """Look at it."""

    def around_model(self, request: Any) -> Any:
        return (yield request)


def test_the_loop_of_tools_gives_the_reasons_of_each_edge() -> None:
    planned = plan_agent(tools=[find])
    assert why(planned, MODEL, TOOLS) == ["pending calls"]
    assert why(planned, MODEL, END) == ["no calls left", "only errors"]
    assert why(planned, TOOLS, MODEL) == ["tool results"]
    assert why(planned, TOOLS, END) == ["stopped by a tool"]
    planned = plan_agent(tools=[find], middleware=[Guard()])
    assert why(planned, "Guard.after_model", MODEL) == [
        "calls already answered",
        "jump: Guard",
    ]
    assert why(planned, "Guard.after_model", END) == [
        "no calls left",
        "only errors",
        "jump: Guard",
    ]


def test_structured_answers_and_tools_whose_result_is_the_answer_are_named() -> None:
    schema = {"title": "Ticket", "type": "object", "properties": {"desk": {"type": "string"}}}
    planned = plan_agent(response_format=schema)
    assert why(planned, MODEL, MODEL) == ["asked again"]
    assert why(planned, MODEL, END) == ["structured answer"]
    planned = plan_agent(tools=[find], response_format=schema)
    assert why(planned, MODEL, MODEL) == ["asked again: Ticket"]
    assert why(planned, MODEL, END) == [
        "no calls left",
        "only errors",
        "structured answer: Ticket",
    ]
    tools = (Tool("a", return_direct=True), Tool("b"), Tool("c", return_direct=True))
    planned = plan(Shape(tools=tools, has_tools=True))
    assert why(planned, TOOLS, END) == ["return_direct: a, c", "stopped by a tool"]


def test_a_plan_lists_the_tools_and_their_middleware() -> None:
    class Searcher(AgentMiddleware):
        tools = (find,)

    def own(text: str) -> str:
        """Do it."""
        return text

    planned = plan_agent(
        tools=[own, {"type": "web_search"}],
        middleware=[Searcher()],
        response_format={"title": "Answer", "type": "object"},
    )
    assert planned.tools == (
        Tool("own"),
        Tool("find", owner="Searcher"),
        Tool("web_search", Kind.PROVIDER),
        Tool("Answer", Kind.OUTPUT),
    )
    assert planned.render().splitlines()[-4:] == [
        "tool: own",
        "tool: find  [by Searcher]",
        "tool: web_search  [provider]",
        "tool: Answer  [output]",
    ]


def test_the_edge_to_the_next_node_is_rendered_without_a_reason() -> None:
    planned = plan(Shape((Hook("A", Phase.BEFORE_MODEL, frozenset({"end"})),)))
    assert planned.render().splitlines()[1:3] == [
        "A.before_model -> model",
        "A.before_model -> __end__  [jump: A]",
    ]


@given(shapes())
def test_every_transition_has_a_reason_and_every_target_its_transition(shape: Shape) -> None:
    planned = plan(shape)
    assert [(t.source, t.target) for t in planned.transitions] == [
        (edge.source, target) for edge in planned.edges for target in edge.targets
    ]
    for edge in planned.transitions:
        assert edge.reasons, edge
    jumps = [
        reason
        for edge in planned.transitions
        for reason in edge.reasons
        if reason.why is TransitionReason.JUMP
    ]
    assert {name for reason in jumps for name in reason.by} <= {h.owner for h in shape.hooks}


@given(shapes())
def test_a_declared_jump_is_a_reason_of_an_edge(shape: Shape) -> None:
    planned = plan(shape)
    for hook in shape.hooks:
        transitions = [edge for edge in planned.transitions if edge.source == hook.node]
        targets = {
            edge.target
            for edge in transitions
            if Reason(TransitionReason.JUMP, (hook.owner,)) in edge.reasons
        }
        assert bool(targets) == bool(hook.can_jump_to - _to_itself(planned, hook))


def _to_itself(planned: Topology, hook: Hook) -> set[str]:
    return {"model"} if hook.node == planned.loop_entry else set()


def test_the_plan_of_a_built_agent_is_the_same() -> None:
    built = topology_of(create_agent(ScriptedChatModel([]), [find], middleware=[Guard()]))
    assert built == plan_agent(tools=[find], middleware=[Guard()])
    assert hash(built) == hash(plan_agent(tools=[find], middleware=[Guard()]))
