"""A plan as a Mermaid flowchart and in words."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agent_factory import plan_agent
from agent_factory.topology.transitions import paths_between
from samples import Guard, Review, find, full_plan


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
