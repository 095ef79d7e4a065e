"""A plan as a Mermaid flowchart and in words."""

from __future__ import annotations

import pytest

from agent_factory import plan_agent
from samples import Guard, full_plan


def test_mermaid_shows_nodes_edges_reasons_layers_and_tools() -> None:
    lines = [line.strip() for line in full_plan().to_mermaid().splitlines()]
    assert lines[0] == "flowchart TD"
    assert 'n3["model<br/>in Guard.around_model #gt; other.around_model"]' in lines
    assert 'n4["tools<br/>in Guard.wrap_tool_call #gt; other.wrap_tool_call<br/>find"]' in lines
    assert 'n1 -->|"jump: Guard"| n5' in lines
    assert 'n3 -->|"pending calls"| n4' in lines


def test_mermaid_cannot_be_broken_by_a_name() -> None:
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
    assert "Guard, other may answer the model's calls" in text
    assert "missing or invalid" in text


def test_an_edge_that_does_not_exist_is_answered_with_those_that_do() -> None:
    text = full_plan().explain("Guard.before_model", "tools")
    assert text.startswith("No edge leads from Guard.before_model to tools.")
    assert "Guard.before_model -> other.before_model" in text
    assert "is where a run ends" in full_plan().explain("__end__", "model")


def test_names_that_are_not_nodes_are_refused() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        full_plan().explain("model", "nowhere")
    with pytest.raises(TypeError, match="two nodes"):
        full_plan().explain("model")
