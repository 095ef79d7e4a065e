"""The plan: its nodes, its edges, its corners and their reasons, as a flowchart and in words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from agent_factory import AgentMiddleware, create_agent, hook_config, plan_agent, topology_of
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import (
    END,
    MODEL,
    START,
    TOOLS,
    Call,
    Edge,
    Hook,
    Layer,
    Phase,
    Route,
    Shape,
    Topology,
    plan,
)
from agent_factory.topology.model import Tool
from agent_factory.topology.model import ToolKind as Kind
from agent_factory.topology.transitions import TransitionReason, paths_between
from samples import Guard, Review, find, full_plan, shapes
from tables import each

BEFORE_AGENT, BEFORE_MODEL = Phase.BEFORE_AGENT, Phase.BEFORE_MODEL
AFTER_MODEL, AFTER_AGENT = Phase.AFTER_MODEL, Phase.AFTER_AGENT


def hooks(*facts: tuple[str, Phase]) -> tuple[Hook, ...]:
    return tuple(Hook(owner, phase) for owner, phase in facts)


def every_hook(*owners: str) -> tuple[Hook, ...]:
    return tuple(Hook(owner, phase) for owner in owners for phase in Phase)


def jumping(phase: Phase, *jumps: str, owner: str = "A") -> Hook:
    return Hook(owner, phase, frozenset(jumps))


FULL = every_hook("A")
AFTERS = hooks(("A", AFTER_MODEL), ("B", AFTER_MODEL))
ORDERED = jumping(BEFORE_MODEL, "model", "tools", "end", owner="B")


@each(
    "shape, edge",
    [
        (Shape(), Edge(START, (MODEL,))),
        (Shape(), Edge(MODEL, (END,))),
        # A15, E12: any tool may stop the run, so the edge out is always declared.
        (Shape(has_tools=True), Edge(TOOLS, (MODEL, END), Route.AFTER_TOOLS)),
        (
            Shape(FULL, has_tools=True, may_skip_tools=True),
            Edge(TOOLS, ("A.before_model", "A.after_agent"), Route.AFTER_TOOLS),
        ),
        # A19: the model is asked again after structured output, a layer around it, or a hook.
        (Shape(has_tools=True), Edge(MODEL, (TOOLS, END), Route.AFTER_MODEL)),
        (
            Shape(has_tools=True, may_skip_tools=True),
            Edge(MODEL, (TOOLS, END, MODEL), Route.AFTER_MODEL),
        ),
        (
            Shape(FULL, has_tools=True),
            Edge("A.after_model", (TOOLS, "A.after_agent", "A.before_model"), Route.AFTER_MODEL),
        ),
        # A24, A25: without tools only structured output asks again.
        (
            Shape(hooks(("A", BEFORE_MODEL)), retries_output=True),
            Edge(MODEL, ("A.before_model", END), Route.RETRY),
        ),
        (Shape(AFTERS), Edge("A.after_model", (END,))),
        # A28-A30: the default of a jump comes first, then end, tools, model.
        (
            Shape((*hooks(("A", BEFORE_MODEL), ("Z", AFTER_AGENT)), ORDERED), has_tools=True),
            Edge("B.before_model", (MODEL, "Z.after_agent", TOOLS, "A.before_model"), Route.JUMP),
        ),
        # A29, A30, A34a: a jump to the next node, or from the loop entry to itself, adds no edge.
        (Shape((jumping(BEFORE_MODEL, "model"),)), Edge("A.before_model", (MODEL,), Route.JUMP)),
        (Shape((jumping(BEFORE_AGENT, "model"),)), Edge("A.before_agent", (MODEL,), Route.JUMP)),
        (Shape((jumping(AFTER_MODEL, "end"),)), Edge("A.after_model", (END,), Route.JUMP)),
        # A20, A25: a jump from the loop exit uses the edge of the loop where there is one.
        (
            Shape((jumping(AFTER_MODEL, "model", "end"), Hook("Z", AFTER_AGENT)), has_tools=True),
            Edge("A.after_model", (TOOLS, "Z.after_agent", MODEL), Route.AFTER_MODEL),
        ),
        (Shape((jumping(AFTER_MODEL, "model"),)), Edge("A.after_model", (END, MODEL), Route.JUMP)),
    ],
)
def test_an_edge_leads_to_its_targets_in_a_fixed_order(shape: Shape, edge: Edge) -> None:
    assert plan(shape).edge_from(edge.source) == edge


def test_a_plan_reads_line_by_line() -> None:
    stack = (jumping(BEFORE_MODEL, "end"), Hook("B", AFTER_MODEL), Hook("B", AFTER_AGENT))
    layers = (
        Layer("A", Call.TOOL, "around_tool"),
        Layer("A", Call.MODEL, "wrap_model_call"),
        Layer("B", Call.MODEL, "wrap_model_call"),
    )
    assert plan(Shape(stack, layers, has_tools=True)).render() == "\n".join(
        [
            "__start__ -> A.before_model",
            "A.before_model -> model",
            "A.before_model -> B.after_agent  [jump: A]",
            "model -> B.after_model",
            "B.after_model -> tools  [pending calls]",
            "B.after_model -> B.after_agent  [no calls left; only errors]",
            "B.after_model -> A.before_model  [calls already answered]",
            "tools -> A.before_model  [tool results]",
            "tools -> B.after_agent  [stopped by a tool]",
            "B.after_agent -> __end__",
            "around each model call: A.wrap_model_call",
            "around each model call: B.wrap_model_call",
            "around each tool call: A.around_tool",
        ]
    )


def test_an_edge_that_does_not_exist_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        plan(Shape()).edge_from("nowhere")


def reachable(planned: Topology, start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead.extend(() if node == END else planned.edge_from(node).targets)
    return found


def defaults(planned: Topology, start: str, stop: str) -> Iterable[str]:
    """The nodes on the default path between two corners, both included."""
    node = start
    while node != stop:
        yield node
        node = planned.edge_from(node).targets[0]
    yield node


def names(shape: Shape, phase: Phase) -> list[str]:
    return [hook.node for hook in shape.hooks if hook.phase is phase]


@given(shapes())
def test_a_plan_has_a_node_for_each_hook_with_one_edge_and_each_is_reached_and_left(
    shape: Shape,
) -> None:
    """A1-A3, A5, A35"""
    planned = plan(shape)
    tools = [TOOLS] if shape.has_tools else []
    expected = [MODEL, *tools, *(f"{hook.owner}.{hook.phase}" for hook in shape.hooks)]
    assert sorted(planned.nodes) == sorted(expected)
    assert sorted(edge.source for edge in planned.edges) == sorted([START, *planned.nodes])
    for edge in planned.edges:
        assert set(edge.targets) <= {*planned.nodes, END}
        assert len(set(edge.targets)) == len(edge.targets)
    assert reachable(planned, START) == {START, *planned.nodes, END}
    for node in planned.nodes:
        assert END in reachable(planned, node)


@given(shapes())
def test_before_hooks_run_in_order_and_after_hooks_in_reverse(shape: Shape) -> None:
    """A9-A14, A26, A27: which hook is at a corner depends on no hook of another phase."""
    planned = plan(shape)
    assert planned.loop_entry == [*names(shape, BEFORE_MODEL), MODEL][0]
    assert list(defaults(planned, planned.entry, planned.loop_exit)) == [
        *names(shape, BEFORE_AGENT),
        *names(shape, BEFORE_MODEL),
        MODEL,
        *reversed(names(shape, AFTER_MODEL)),
    ]
    tail = [*reversed(names(shape, AFTER_AGENT)), END]
    assert list(defaults(planned, planned.exit, END)) == tail


@given(shapes())
def test_a_declared_jump_always_has_its_edge_and_nothing_else_adds_one(shape: Shape) -> None:
    """A28, A29, A30, A34a, A34e: "model" from the loop entry is the one that needs none."""
    planned = plan(shape)
    for edge in planned.edges:
        assert edge.route is not None or len(edge.targets) == 1
        assert edge.route is not Route.JUMP or edge.source not in edge.targets
    for hook in shape.hooks:
        edge = planned.edge_from(hook.node)
        assert hook.can_jump_to or edge.source == planned.loop_exit or edge.route is None
        end = END if hook.phase is AFTER_AGENT else planned.exit
        leads = {"end": end, "tools": TOOLS, "model": planned.loop_entry}
        wanted = {leads[jump] for jump in hook.can_jump_to} - {hook.node}
        assert wanted <= set(edge.targets)


def why(plan: Topology, source: str, target: str) -> list[str]:
    (edge,) = (e for e in plan.transitions if (e.source, e.target) == (source, target))
    return [str(reason) for reason in edge.reasons]


class Judging(AgentMiddleware):
    @hook_config(can_jump_to=["end", "model"])
    def after_model(self, state: Any, runtime: Any) -> None:
        """Look at it."""

    def around_model(self, request: Any) -> Any:
        return (yield request)


def test_structured_answers_and_tools_whose_result_is_the_answer_are_named() -> None:
    schema = {"title": "Ticket", "type": "object", "properties": {"desk": {"type": "string"}}}
    planned = plan_agent(response_format=schema)
    assert why(planned, MODEL, MODEL) == ["asked again"]
    assert why(planned, MODEL, END) == ["structured answer"]
    planned = plan_agent(tools=[find], response_format=schema)
    assert why(planned, MODEL, MODEL) == ["asked again: Ticket"]
    assert why(planned, MODEL, END) == ["no calls left", "only errors", "structured answer: Ticket"]
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


def test_the_plan_of_a_built_agent_is_the_same() -> None:
    built = topology_of(create_agent(ScriptedChatModel([]), [find], middleware=[Judging()]))
    assert built == plan_agent(tools=[find], middleware=[Judging()])
    assert hash(built) == hash(plan_agent(tools=[find], middleware=[Judging()]))


class Judge(Review):
    """Has another name."""


def test_mermaid_shows_nodes_edges_reasons_layers_and_tools_and_no_name_breaks_it() -> None:
    lines = [line.strip() for line in full_plan().to_mermaid().splitlines()]
    assert lines[0] == "flowchart TD"
    layers = "in Guard.around_model #gt; other.around_model"
    provided = "web_search (run by the provider)<br/>Answer (structured answer)"
    assert f'n3["model<br/>{layers}<br/>{provided}"]' in lines
    assert 'n4["tools<br/>in Guard.wrap_tool_call #gt; other.wrap_tool_call<br/>find"]' in lines
    assert 'n1 -->|"jump: Guard"| n5' in lines
    assert 'n3 -->|"pending calls"| n4' in lines
    text = plan_agent(middleware=[Guard(name='a"]; click <b>#1')]).to_mermaid()
    assert "a#quot;]; click #lt;b#gt;#35;1.before_model" in text


def test_an_explanation_gives_every_order_and_its_reason() -> None:
    text = full_plan().explain()
    assert "before each model call; in the order of the list:\n  1. Guard\n  2. other" in text
    assert "once, when a run ends; in reverse order of the list:\n  1. other\n  2. Guard" in text
    assert "the outermost" in text
    assert "1. Guard.wrap_tool_call\n  2. other.wrap_tool_call" in text
    assert "enters at Guard.before_model" in text


def test_an_edge_is_explained_with_all_its_reasons() -> None:
    text = full_plan().explain("model", "Guard.before_model")
    assert "A layer around the model call or a hook after it answered the model's calls" in text
    assert "missing or invalid" in text


def test_a_path_over_other_nodes_is_explained_edge_by_edge() -> None:
    plan = plan_agent(tools=[find], middleware=[Judge()])
    assert plan.explain("model", "tools").splitlines() == [
        "No edge leads from model to tools, but a path does; the shortest first:",
        "model -> Judge.after_model -> tools",
        "- model -> Judge.after_model: It is the next node; nothing decides.",
        "- Judge.after_model -> tools: The model called tools, and the calls have no results yet; "
        "each call is run on its own.",
    ]
    assert "model -> Judge.after_model -> model" in plan.explain("model", "model")


def test_the_shortest_of_several_paths_comes_first_and_three_are_listed() -> None:
    lines = full_plan().explain("__start__", "other.after_agent").splitlines()
    paths = [line for line in lines if not line.startswith("- ")][1:]
    assert paths[0] == "__start__ -> Guard.before_model -> other.after_agent"
    assert len(paths) == 3
    assert paths == sorted(paths, key=lambda path: path.count(" -> "))


def test_every_node_that_a_run_can_reach_has_a_path() -> None:
    plan = full_plan()
    for target in [*plan.nodes, "__end__"]:
        path = next(paths_between(plan, "__start__", target))
        assert [path[0].source, path[-1].target] == ["__start__", target]
        assert all(one.target == next_.source for one, next_ in pairwise(path))
        assert set(path) <= set(plan.transitions)


def test_nodes_without_a_path_are_answered_with_the_edges_that_exist() -> None:
    text = plan_agent(tools=[find], middleware=[Judge()]).explain("model", "__start__")
    assert text.splitlines() == [
        "No path leads from model to __start__.",
        "- model -> Judge.after_model",
    ]
    assert "is where a run ends" in full_plan().explain("__end__", "model")


def test_names_that_are_not_nodes_are_refused() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        full_plan().explain("model", "nowhere")
    with pytest.raises(TypeError, match="two nodes"):
        full_plan().explain("model")
