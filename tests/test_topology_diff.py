"""What changed between two plans, in words that a reviewer can use."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from agent_factory import AgentMiddleware, hook_config, plan_agent
from agent_factory.topology import plan
from agent_factory.topology.model import AgentStyle, Call, Hook, Layer, Phase, Shape, Tool
from agent_factory.topology.model import ToolKind as Kind
from samples import find, shapes
from tables import each


def layer(name: str) -> AgentMiddleware[Any, Any]:
    class Layered(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            return (yield request)

    return Layered(name=name)


class Stopper(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""


def words(before: list[Any], after: list[Any], tools: Any = (find,)) -> list[str]:
    old = plan_agent(tools=list(tools), middleware=before)
    return str(old.diff(plan_agent(tools=list(tools), middleware=after))).splitlines()


def test_equal_plans_have_no_differences() -> None:
    found = plan_agent(middleware=[layer("A")]).diff(plan_agent(middleware=[layer("A")]))
    assert not found
    assert str(found) == "No differences."
    assert found.to_data() == []


def test_an_added_layer_is_reported_with_its_place_and_is_one_line_of_a_plan() -> None:
    lines = words([layer("A"), layer("B")], [layer("A"), layer("Retry"), layer("B")])
    place = "around each model call, after A.around_model and before B.around_model"
    assert lines[0] == f"added layer Retry.around_model: {place}"
    one, two = (
        plan_agent(tools=[find], middleware=[layer(name) for name in names])
        for names in ("A", "AB")
    )
    assert words([layer("A")], [layer("A"), layer("B")]) == [
        "added layer B.around_model: around each model call, after A.around_model"
    ]
    added = set(two.render().splitlines()) - set(one.render().splitlines())
    assert added == {"around each model call: B.around_model"}


def test_a_renamed_middleware_is_one_change() -> None:
    old = [Stopper(name="Old"), layer("Retry"), layer("Log")]
    new = [Stopper(name="New"), layer("Retry"), layer("Log")]
    assert words(old, new) == ["renamed middleware Old -> New"]
    found = plan_agent(middleware=old).diff(plan_agent(middleware=new))
    assert found.to_data() == [
        {"kind": "renamed", "part": "middleware", "name": "Old -> New", "detail": ""}
    ]


def test_a_middleware_that_is_renamed_and_moved_is_both() -> None:
    assert words([layer("A"), layer("B")], [layer("B"), layer("C")]) == [
        "renamed middleware A -> C",
        "moved layer B.around_model: now around each model call, before C.around_model",
    ]


def test_a_tool_of_the_agent_that_a_middleware_adds_now_is_not_renamed() -> None:
    own, added = (plan(Shape(tools=(Tool("find", owner=owner),))) for owner in ("", "Finder"))
    assert str(own.diff(added)) == "changed tool find: was plain, now by Finder"


def test_another_middleware_in_the_place_of_one_is_not_a_new_name() -> None:
    lines = words([Stopper(name="Old")], [layer("New")])
    assert not [line for line in lines if line.startswith("renamed")]
    assert "removed node Old.before_model: it was before model" in lines


def test_which_of_two_equal_middleware_was_renamed_is_not_guessed() -> None:
    lines = words([layer("A"), layer("B")], [layer("C")])
    assert [line.partition(":")[0] for line in lines] == [
        "removed layer A.around_model",
        "removed layer B.around_model",
        "added layer C.around_model",
    ]


def test_swapped_layers_are_one_move() -> None:
    lines = words([layer("Retry"), layer("Fallback")], [layer("Fallback"), layer("Retry")])
    moves = [line for line in lines if line.startswith("moved")]
    assert moves == [
        "moved layer Fallback.around_model: now around each model call, before Retry.around_model"
    ]
    assert not [line for line in lines if line.startswith(("added", "removed"))]


def test_an_added_hook_is_reported_once_and_not_as_new_edges() -> None:
    assert words([], [Stopper()]) == [
        "added node Stopper.before_model: before model; may go to __end__ [jump: Stopper]"
    ]
    assert words([Stopper()], []) == ["removed node Stopper.before_model: it was before model"]


def test_tools_are_reported_with_what_distinguishes_them() -> None:
    was = plan(Shape(has_tools=True, tools=(Tool("a"), Tool("b"), Tool("c", owner="M"))))
    now = plan(
        Shape(
            has_tools=True,
            tools=(Tool("d", Kind.PROVIDER), Tool("b"), Tool("a", return_direct=True)),
        )
    )
    assert str(was.diff(now)).splitlines() == [
        "removed tool c",
        "added tool d: provider",
        "changed tool a: was plain, now return_direct",
        "moved tool b: now after d and before a",
        "changed edge tools -> __end__: was [stopped by a tool], "
        "now [return_direct: a; stopped by a tool]",
    ]


def test_an_edge_that_leads_elsewhere_is_rerouted() -> None:
    def leaving(jump: str) -> Shape:
        return Shape(
            (Hook("A", Phase.AFTER_MODEL, frozenset({jump})), Hook("B", Phase.AFTER_AGENT)),
            (Layer("L", Call.MODEL, "around_model"),),
        )

    assert str(plan(leaving("end")).diff(plan(leaving("model")))).splitlines() == [
        "added edge A.after_model -> model: jump: A",
        "changed edge A.after_model -> B.after_agent: was [next; jump: A], now [next]",
    ]


def test_a_jump_that_adds_no_edge_is_reported_too() -> None:
    def at_entry(*jumps: str) -> Shape:
        return Shape((Hook("A", Phase.BEFORE_MODEL, frozenset(jumps)),))

    assert str(plan(at_entry()).diff(plan(at_entry("model")))) == (
        "changed node A.before_model: may jump to model, was nothing"
    )


@pytest.mark.timeout(20)  # it would follow the loop round the agent node for ever
@each("options", [{}, {"has_tools": True}, {"retries_output": True}])
def test_plans_of_different_factories_can_be_compared(options: Any) -> None:
    one, other = plan(Shape(**options)), plan(Shape(style=AgentStyle.REACT))
    assert "added node agent: alone" in map(str, one.diff(other).changes)
    assert "removed node agent: it was alone" in map(str, other.diff(one).changes)


@given(shapes(unique_layers=True), shapes(unique_layers=True))
def test_there_is_a_difference_exactly_where_plans_differ(a: Shape, b: Shape) -> None:
    old, new = plan(a), plan(b)
    assert bool(old.diff(new)) == (old != new), (old, new)
    assert bool(new.diff(old)) == (old != new)


@given(shapes(unique_layers=True), shapes(unique_layers=True))
def test_what_one_direction_adds_the_other_removes(a: Shape, b: Shape) -> None:
    there, back = plan(a).diff(plan(b)), plan(b).diff(plan(a))

    def named(found: Any, kind: str) -> set[tuple[str, str]]:
        return {(c.part, c.name) for c in found.changes if c.kind == kind and c.part != "edge"}

    assert named(there, "added") == named(back, "removed")
    assert named(there, "removed") == named(back, "added")
