"""What changed between two plans, and what the other plan does with stored threads."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from agent_factory import AgentMiddleware, Topology, hook_config, load_topology, plan_agent
from agent_factory.topology import StoppingPoint, Tool, Verdict, plan
from agent_factory.topology.model import AgentStyle, Call, Hook, Layer, Move, Phase, Shape, ToolKind
from samples import Review, find, shapes
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


AROUND = "around each model call"


def layers(*names: str) -> list[Any]:
    return [layer(name) for name in names]


@each(
    "before, after, changes",
    [
        (layers("A"), layers("A"), ["No differences."]),
        (
            layers("A", "B"),
            layers("B", "C"),
            [
                "renamed middleware A -> C",
                f"moved layer B.around_model: now {AROUND}, before C.around_model",
            ],
        ),
        (  # which of two equal ones was renamed is not guessed
            layers("A", "B"),
            layers("C"),
            [
                f"removed layer A.around_model: it was {AROUND}, before B.around_model",
                f"removed layer B.around_model: it was {AROUND}, after A.around_model",
                f"added layer C.around_model: {AROUND}, alone",
            ],
        ),
        (
            [],
            [Stopper()],
            ["added node Stopper.before_model: before model; may go to __end__ [jump: Stopper]"],
        ),
        ([Stopper()], [], ["removed node Stopper.before_model: it was before model"]),
    ],
)
def test_a_change_is_reported_once(before: list[Any], after: list[Any], changes: Any) -> None:
    assert words(before, after) == changes


def test_swapped_layers_are_one_move() -> None:
    lines = words(layers("Retry", "Fallback"), layers("Fallback", "Retry"))
    assert [line for line in lines if line.startswith(("moved", "added", "removed"))] == [
        "moved layer Fallback.around_model: now around each model call, before Retry.around_model"
    ]


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


def test_a_tool_of_the_agent_that_a_middleware_adds_now_is_not_renamed() -> None:
    own, added = (plan(Shape(tools=(Tool("find", owner=owner),))) for owner in ("", "Finder"))
    assert str(own.diff(added)) == "changed tool find: was plain, now by Finder"


def test_another_middleware_in_the_place_of_one_is_not_a_new_name() -> None:
    lines = words([Stopper(name="Old")], [layer("New")])
    assert not [line for line in lines if line.startswith("renamed")]
    assert "removed node Old.before_model: it was before model" in lines


def test_tools_are_reported_with_what_distinguishes_them() -> None:
    was = plan(Shape(has_tools=True, tools=(Tool("a"), Tool("b"), Tool("c", owner="M"))))
    now = plan(
        Shape(
            has_tools=True,
            tools=(Tool("d", ToolKind.PROVIDER), Tool("b"), Tool("a", return_direct=True)),
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


REVIEW = Hook("Review", Phase.AFTER_MODEL)
PAY = Tool("pay")


def planned(*hooks: Hook, tools: tuple[Tool, ...] = (PAY,), **how: Any) -> Topology:
    return plan(Shape(hooks, has_tools=bool(tools), tools=tools, **how))


def point(old: Topology, new: Topology, name: str) -> StoppingPoint:
    (found,) = [one for one in old.stopping_points(new) if one.name == name]
    return found


def test_there_is_a_point_for_each_node_and_each_tool() -> None:
    old = planned(REVIEW, Hook("Log", Phase.AFTER_AGENT))
    points = old.stopping_points(old)
    assert [(one.part, one.name) for one in points] == [
        ("node", "model"),
        ("node", "Review.after_model"),
        ("node", "tools"),
        ("node", "Log.after_agent"),
        ("tool", "pay"),
    ]
    assert {one.verdict for one in points} == {Verdict.STANDS}
    assert str(points[1]) == "stands node Review.after_model: resumes there"


@each(
    "new, effect",
    [
        (planned(), "raises MissingNode; if Review was renamed, pass moved={'Review': ...}"),
        (
            planned(Hook("Review", Phase.BEFORE_MODEL)),
            "raises MissingNode; Review has only the hooks before_model",
        ),
        (
            planned(Hook("New", Phase.BEFORE_AGENT), moved=(Move("Review", "New"),)),
            "raises MissingNode; New has only the hooks before_agent",
        ),
    ],
)
def test_a_hook_that_is_gone_breaks(new: Topology, effect: str) -> None:
    found = point(planned(REVIEW), new, "Review.after_model")
    assert (found.verdict, found.effect, found.now) == (Verdict.BREAKS, effect, "")


def test_a_middleware_that_was_renamed_is_found_if_it_says_so() -> None:
    """Also by threads that wait at former nodes of the old plan."""
    new = planned(Hook("Check", Phase.AFTER_MODEL), moved=(Move("Review", "Check"),))
    found = point(planned(REVIEW), new, "Review.after_model")
    assert (found.verdict, found.now) == (Verdict.MOVED, "Check.after_model")
    assert found.effect == "resumes at Check.after_model"
    old = planned(REVIEW, moved=(Move("Older", "Review"),))
    assert point(old, planned(REVIEW), "Older.after_model").verdict is Verdict.BREAKS
    assert point(old, old, "Older.after_model").verdict is Verdict.MOVED


def test_hooks_in_another_order_run_twice_or_not_at_all_as_do_those_that_were_added() -> None:
    first, second = Hook("First", Phase.BEFORE_MODEL), Hook("Second", Phase.BEFORE_MODEL)
    old, new = planned(first, second), planned(second, first)
    found = point(old, new, "Second.before_model")
    assert (found.skipped, found.repeated) == ((), ("First.before_model",))
    assert found.effect == "resumes there; First.before_model runs once more"
    found = point(old, new, "First.before_model")
    assert (found.skipped, found.repeated) == (("Second.before_model",), ())
    assert found.effect == "resumes there; Second.before_model does not run before it"
    found = point(planned(), planned(REVIEW), "tools")
    assert (found.verdict, found.skipped) == (Verdict.STANDS, ("Review.after_model",))


def test_a_layer_that_asked_and_is_gone_is_named() -> None:
    layers = (Layer("Review", Call.TOOL, "around_tool"), Layer("Retry", Call.MODEL, "around_model"))
    old = planned(layers=layers)
    effects = {one.name: one.effect for one in old.stopping_points(planned())}
    without = "resumes there; runs without {}, and an answer to a question of it is not read"
    assert effects["tools"] == without.format("Review.around_tool")
    assert effects["model"] == without.format("Retry.around_model")
    renamed = planned(
        layers=tuple(replace(layer, owner=f"New{layer.owner}") for layer in layers),
        moved=(Move("Review", "NewReview"), Move("Retry", "NewRetry")),
    )
    assert point(old, renamed, "tools").effect == "resumes there"


def test_the_calls_of_a_tool_that_is_gone_get_an_error() -> None:
    new = planned(tools=(Tool("refund"), Tool("pay", ToolKind.OUTPUT)))
    found = point(planned(), new, "pay")
    assert (found.part, found.verdict) == ("tool", Verdict.BREAKS)
    assert "gets an error that the model reads, if it is approved" in found.effect
    layered = planned(tools=(Tool("refund"),), layers=(Layer("Late", Call.TOOL, "around_tool"),))
    assert point(planned(), layered, "pay").effect.endswith("unless Late.around_tool runs it")


def test_an_agent_without_tools_breaks_the_calls_that_wait() -> None:
    new = planned(tools=())
    assert point(planned(), new, "tools").effect == "raises MissingNode; it is gone"
    assert point(planned(), new, "pay").verdict is Verdict.BREAKS
    only_output = planned(tools=(Tool("Answer", ToolKind.OUTPUT),))
    assert [one.name for one in only_output.stopping_points(new)] == ["model", "tools"]


def test_a_point_is_plain_data() -> None:
    data = point(planned(REVIEW), planned(), "Review.after_model").to_data()
    assert list(data) == ["part", "name", "verdict", "effect", "now", "skipped", "repeated"]
    assert json.loads(json.dumps(data))["verdict"] == "breaks"


def test_former_names_are_part_of_a_plan_and_of_its_files() -> None:
    with_names = plan_agent(middleware=[Review()], moved={"Older": "Old", "Old": "Review"})
    assert with_names.moved == (Move("Older", "Review"), Move("Old", "Review"))
    assert with_names.former_nodes == {
        "Older.after_model": "Review.after_model",
        "Old.after_model": "Review.after_model",
    }
    assert with_names.render().splitlines()[-1] == "moved: Old -> Review"
    assert load_topology(with_names.to_snapshot()) == with_names
    without = plan_agent(middleware=[Review()])
    assert without != with_names
    assert "moved" not in without.to_snapshot()


def test_a_diff_tells_former_names() -> None:
    plans = [plan_agent(middleware=[Review()], moved=m) for m in (None, {"Old": "Review"})]
    assert str(plans[0].diff(plans[1])) == "added former name Old: of Review"
    assert str(plans[1].diff(plans[0])) == "removed former name Old: of Review"
    renamed = plan_agent(middleware=[Review(name="New")], moved={"Old": "New"})
    assert "changed former name Old: of Review -> New" in str(plans[1].diff(renamed))


BASE = Shape((REVIEW,), (), has_tools=True, tools=(PAY, Tool("find")))


def test_what_no_thread_depends_on_is_not_in_the_digest() -> None:
    """It is the same in every process."""
    for same in (
        plan(BASE),
        plan(replace(BASE, tools=BASE.tools[::-1])),
        plan(replace(BASE, tools=(Tool("pay", owner="Desk"), Tool("find")))),
        plan(replace(BASE, moved=(Move("Old", "Review"),))),
        replace(plan(BASE), name="desk"),
    ):
        assert same.digest == "f76ea62aa0ca5017"


@each(
    "other",
    [
        replace(BASE, hooks=(Hook("Check", Phase.AFTER_MODEL),)),
        replace(BASE, hooks=(Hook("Review", Phase.BEFORE_MODEL),)),
        replace(BASE, hooks=(REVIEW, Hook("Review", Phase.BEFORE_MODEL, frozenset({"end"})))),
        replace(BASE, tools=(PAY,)),
        replace(BASE, tools=(PAY, Tool("find", return_direct=True))),
        replace(BASE, layers=(Layer("Review", Call.TOOL, "around_tool"),)),
        replace(BASE, style=AgentStyle.REACT),
        replace(BASE, may_skip_tools=True, hooks=()),
    ],
)
def test_what_threads_depend_on_is_in_the_digest(other: Shape) -> None:
    assert plan(other).digest != plan(BASE).digest
