"""The plan: its nodes, its edges and its corners."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from tables import each

BEFORE_AGENT, BEFORE_MODEL = Phase.BEFORE_AGENT, Phase.BEFORE_MODEL
AFTER_MODEL, AFTER_AGENT = Phase.AFTER_MODEL, Phase.AFTER_AGENT


def hooks(*facts: tuple[str, Phase]) -> tuple[Hook, ...]:
    return tuple(Hook(owner, phase) for owner, phase in facts)


def every_hook(*owners: str) -> tuple[Hook, ...]:
    return tuple(Hook(owner, phase) for owner in owners for phase in Phase)


def jumping(phase: Phase, *jumps: str, owner: str = "A") -> Hook:
    return Hook(owner, phase, frozenset(jumps))


# Corners


def test_without_middleware_every_corner_is_the_model_or_the_end() -> None:
    """A9-A12, A14"""
    planned = plan(Shape())
    assert planned.nodes == (MODEL,)
    assert (planned.entry, planned.loop_entry, planned.loop_exit) == (MODEL, MODEL, MODEL)
    assert planned.exit == END
    assert planned.edges == (Edge(START, (MODEL,)), Edge(MODEL, (END,)))


def test_the_corners_of_a_full_stack() -> None:
    """A9-A13: first before_agent, first before_model, first after_model, last after_agent."""
    planned = plan(Shape(every_hook("A", "B", "C")))
    assert planned.entry == "A.before_agent"
    assert planned.loop_entry == "A.before_model"
    assert planned.loop_exit == "A.after_model"
    assert planned.exit == "C.after_agent"


@each(
    "phase, corner, name",
    [
        (BEFORE_AGENT, "entry", "B.before_agent"),
        (BEFORE_MODEL, "entry", "B.before_model"),
        (BEFORE_MODEL, "loop_entry", "B.before_model"),
        (AFTER_MODEL, "loop_exit", "B.after_model"),
        (AFTER_AGENT, "exit", "C.after_agent"),
    ],
)
def test_first_and_last_count_among_those_that_have_the_hook(
    phase: Phase, corner: str, name: str
) -> None:
    """A13: A and D have other hooks, and do not count."""
    other = AFTER_MODEL if phase is not AFTER_MODEL else AFTER_AGENT
    shape = Shape(hooks(("A", other), ("B", phase), ("C", phase), ("D", other)))
    assert getattr(plan(shape), corner) == name


def test_hooks_around_the_agent_are_outside_the_loop() -> None:
    """A10, A11: tools return to the model, not to the run's start."""
    planned = plan(Shape(hooks(("A", BEFORE_AGENT)), has_tools=True))
    assert (planned.entry, planned.loop_entry) == ("A.before_agent", MODEL)
    planned = plan(Shape(hooks(("A", AFTER_AGENT)), has_tools=True))
    assert (planned.loop_exit, planned.exit) == (MODEL, "A.after_agent")


# Edges of the loop


@each("may_skip", [False, True])
@each("stack", [(), every_hook("A")])
def test_tools_lead_back_into_the_loop_or_out(stack: tuple[Hook, ...], may_skip: bool) -> None:
    """A15, E12: any tool may stop the run, so the edge out is always declared."""
    planned = plan(Shape(stack, has_tools=True, may_skip_tools=may_skip))
    edge = planned.edge_from(TOOLS)
    assert edge == Edge(TOOLS, (planned.loop_entry, planned.exit), Route.AFTER_TOOLS)


def test_a_model_goes_to_tools_or_out_and_back_where_others_may_answer() -> None:
    """A19: structured output, a layer around the model, or a hook after it."""
    edge = plan(Shape(has_tools=True)).edge_from(MODEL)
    assert edge == Edge(MODEL, (TOOLS, END), Route.AFTER_MODEL)
    edge = plan(Shape(has_tools=True, may_skip_tools=True)).edge_from(MODEL)
    assert edge.targets == (TOOLS, END, MODEL)
    edge = plan(Shape(every_hook("A"), has_tools=True)).edge_from("A.after_model")
    assert edge.targets == (TOOLS, "A.after_agent", "A.before_model")


def test_structured_output_without_tools_can_ask_again() -> None:
    """A24"""
    planned = plan(Shape(hooks(("A", BEFORE_MODEL)), retries_output=True))
    assert planned.edge_from(MODEL) == Edge(MODEL, ("A.before_model", END), Route.RETRY)


def test_without_tools_or_structured_output_the_loop_ends_after_one_turn() -> None:
    """A25: from the model, or from the first after_model hook."""
    assert plan(Shape()).edge_from(MODEL) == Edge(MODEL, (END,))
    hooked = plan(Shape(hooks(("A", AFTER_MODEL), ("B", AFTER_MODEL))))
    assert hooked.edge_from("A.after_model") == Edge("A.after_model", (END,))


def test_the_chains_of_a_full_stack() -> None:
    """A26"""
    planned = plan(Shape(every_hook("A", "B")))
    chain = [
        START,
        "A.before_agent",
        "B.before_agent",
        "A.before_model",
        "B.before_model",
        MODEL,
        "B.after_model",
        "A.after_model",
        "B.after_agent",
        "A.after_agent",
        END,
    ]
    assert planned.edges == tuple(Edge(a, (b,)) for a, b in pairwise(chain))
    assert planned.nodes == tuple(chain[1:-1])


# Jumps


def test_jump_targets_are_declared_in_a_fixed_order() -> None:
    """A28-A30: the default, then end, tools, model."""
    hook = jumping(BEFORE_MODEL, "model", "tools", "end", owner="B")
    stack = (*hooks(("A", BEFORE_MODEL), ("Z", AFTER_AGENT)), hook)
    edge = plan(Shape(stack, has_tools=True)).edge_from("B.before_model")
    assert edge.targets == (MODEL, "Z.after_agent", TOOLS, "A.before_model")
    assert edge.route is Route.JUMP


def test_without_a_declared_jump_or_with_that_to_the_next_node_the_edge_is_plain() -> None:
    """A29, A30, A34a: from the loop entry to itself, the run goes anyway."""
    edge = plan(Shape(hooks(("A", BEFORE_MODEL)))).edge_from("A.before_model")
    assert edge == Edge("A.before_model", (MODEL,))
    edge = plan(Shape((jumping(BEFORE_MODEL, "model"),))).edge_from("A.before_model")
    assert edge.targets == (MODEL,)
    edge = plan(Shape((jumping(BEFORE_AGENT, "model"),))).edge_from("A.before_agent")
    assert edge.targets == (MODEL,)
    edge = plan(Shape((jumping(AFTER_MODEL, "end"),))).edge_from("A.after_model")
    assert edge.targets == (END,)


def test_an_after_agent_hook_jumps_to_the_very_end() -> None:
    """A34e: the exit is where those hooks begin, so it would loop for ever."""
    stack = (
        jumping(AFTER_AGENT, "end", owner="A"),
        jumping(AFTER_AGENT, "end", owner="B"),
        jumping(AFTER_AGENT, "end", owner="C"),
    )
    planned = plan(Shape(stack))
    assert planned.edge_from("C.after_agent").targets == ("B.after_agent", END)
    assert planned.edge_from("A.after_agent").targets == (END,)


def test_jumps_of_the_hook_at_the_loop_exit_use_the_edge_of_the_loop() -> None:
    """A20 rule 1: the loop's own edge follows them."""
    stack = (jumping(AFTER_MODEL, "model", "end"), Hook("Z", AFTER_AGENT))
    planned = plan(Shape(stack, has_tools=True))
    edge = planned.edge_from("A.after_model")
    assert edge == Edge("A.after_model", (TOOLS, "Z.after_agent", MODEL), Route.AFTER_MODEL)


def test_without_tools_the_hook_at_the_loop_exit_jumps_by_its_own_edge() -> None:
    """A25, A30"""
    edge = plan(Shape((jumping(AFTER_MODEL, "model"),))).edge_from("A.after_model")
    assert edge == Edge("A.after_model", (END, MODEL), Route.JUMP)


# As text


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


# Laws over any shape


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    has_tools = draw(st.booleans())
    jumps = st.frozensets(st.sampled_from(["end", "model", *(["tools"] if has_tools else [])]))
    owners = [f"M{index}" for index in range(draw(st.integers(0, 5)))]
    stack = [
        Hook(owner, phase, draw(jumps))
        for owner in owners
        for phase in Phase
        if draw(st.booleans())
    ]
    layers = [
        Layer(owner, call, "wrap") for owner in owners for call in Call if draw(st.booleans())
    ]
    return Shape(tuple(stack), tuple(layers), has_tools, draw(st.booleans()), draw(st.booleans()))


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
    """A26, A27"""
    planned = plan(shape)
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


@given(shapes())
def test_the_plan_of_a_shape_is_always_the_same(shape: Shape) -> None:
    """B5"""
    assert plan(shape) == plan(shape)
    assert plan(shape).render() == plan(shape).render()
    assert sorted(plan(shape).layers, key=repr) == sorted(shape.layers, key=repr)
