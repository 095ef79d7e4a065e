"""The text of a plan is read back as the plan it shows; what was changed by hand is refused."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_factory import TopologyFileError
from agent_factory.topology import (
    JUMPS,
    Call,
    Hook,
    Layer,
    Phase,
    Shape,
    Tool,
    ToolKind,
    plan,
)
from agent_factory.topology.load import read_topology


@st.composite
def shapes(draw: Any) -> Shape:
    owners = st.sampled_from(["A", "b-2", "my.middle ware", "tools", "model"])
    hooks = st.builds(
        Hook, owners, st.sampled_from(Phase), st.frozensets(st.sampled_from(JUMPS), max_size=2)
    )
    layers = st.builds(Layer, owners, st.sampled_from(Call), st.sampled_from(["around", "wrap_x"]))
    tools = st.builds(
        Tool,
        st.sampled_from(["find", "web search", "Answer"]),
        st.sampled_from(ToolKind),
        st.booleans(),
        st.sampled_from(["", "A", "by b"]),
    )
    found = draw(st.lists(tools, unique_by=lambda tool: tool.name))
    kinds = {tool.kind for tool in found}
    wrapped = draw(st.lists(layers, unique=True, max_size=5))
    structured = ToolKind.OUTPUT in kinds or draw(st.booleans())
    has_tools = ToolKind.CLIENT in kinds
    made = draw(st.lists(hooks, unique_by=lambda hook: hook.node, max_size=6))
    if not has_tools:
        made = [Hook(h.owner, h.phase, h.can_jump_to - {"tools"}) for h in made]
    skips = structured or any(layer.call is Call.MODEL for layer in wrapped)
    return Shape(tuple(made), tuple(wrapped), has_tools, skips, structured, tuple(found))


@given(shapes())
def test_a_text_is_read_back_as_the_plan_it_shows(shape: Shape) -> None:
    written = plan(shape)
    read = read_topology(written.render())
    assert read.render() == written.render()
    # Hooks and edges also know of jumps that make no difference to where a run may go.
    for part in ("nodes", "transitions", "layers", "tools", "retries_output", "exit", "loop_entry"):
        assert getattr(read, part) == getattr(written, part)


@given(shapes(), shapes())
def test_what_differs_between_plans_differs_between_their_texts(a: Shape, b: Shape) -> None:
    one, other = plan(a), plan(b)
    read = read_topology(one.render()).diff(read_topology(other.render()))
    assert bool(read) == (one.render() != other.render())
    plain = [change for change in one.diff(other).changes if "may jump to" not in change.detail]
    assert [c for c in read.changes if "may jump to" not in c.detail] == plain


SMALL = plan(
    Shape(
        (Hook("A", Phase.BEFORE_MODEL, frozenset({"end"})), Hook("B", Phase.AFTER_MODEL)),
        (Layer("C", Call.TOOL, "around_tool"),),
        has_tools=True,
        tools=(Tool("find"),),
    )
)


def test_how_lines_end_does_not_matter() -> None:
    assert read_topology(SMALL.render().replace("\n", "\r\n") + "\r\n\r\n") == SMALL


LINES = SMALL.render().splitlines()


@pytest.mark.parametrize("index", range(len(LINES)))
def test_a_text_without_one_of_its_lines_is_refused_or_another_plan(index: int) -> None:
    assert read_or_none("\n".join([*LINES[:index], *LINES[index + 1 :]])) != SMALL


def read_or_none(text: str) -> Any:
    try:
        return read_topology(text)
    except TopologyFileError:
        return None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no plan"),
        ("hello", "holds no plan"),
        ('{"format": 1}', "holds no plan"),
        ("\n".join([*LINES, "tool find"]), r"contradicts itself in line 12: it says 'tool find'"),
        (SMALL.render().replace("[pending calls]", "[why not]"), "where its plan says"),
        (SMALL.render().replace("A.before_model", "A.before_lunch"), "'A.before_lunch', which no"),
        ("<<<<<<< ours\n" + SMALL.render(), "contradicts itself in line 1"),
        (
            "__start__ -> A.before_model\nA.before_model -> model\n"
            "A.before_model -> tools  [jump: A]\nmodel -> __end__",
            "leads to tools, and nothing leads on",
        ),
    ],
)
def test_a_text_that_was_changed_by_hand_is_refused(text: str, words: str) -> None:
    with pytest.raises(TopologyFileError, match=words) as caught:
        read_topology(text, "plan.topology")
    assert caught.value.subject == "plan.topology"
    assert "snapshot-update" in caught.value.hint


def test_lines_that_changed_places_are_refused_or_another_plan() -> None:
    for order in permutations(LINES[:4]):
        text = "\n".join([*order, *LINES[4:]])
        assert (read_or_none(text) == SMALL) == (text == SMALL.render())
