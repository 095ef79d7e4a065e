"""A plan in other forms: JSON that comes back whole, Mermaid, and words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_factory import (
    AgentMiddleware,
    Topology,
    TopologyFileError,
    hook_config,
    load_topology,
    plan_agent,
)
from agent_factory.topology.load import SCHEMA

ROOT = Path(__file__).resolve().parent.parent


def find(query: str) -> str:
    """Find."""
    return query


class Guard(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Look."""

    def around_model(self, request: Any) -> Any:
        return (yield request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


def full() -> Topology:
    return plan_agent(
        tools=[find, {"type": "web_search"}],
        middleware=[Guard(), Guard(name="other")],
        response_format={"title": "Answer", "type": "object"},
    )


@pytest.mark.parametrize("plan", [plan_agent(), full()], ids=["least", "full"])
def test_json_comes_back_as_the_same_plan(plan: Topology) -> None:
    text = plan.to_json()
    assert load_topology(text) == plan
    assert load_topology(text).to_json() == text
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def test_json_knows_no_place_and_no_time() -> None:
    assert full().to_json() == full().to_json()
    assert "0x" not in full().to_json()


def test_the_schema_is_published() -> None:
    published = json.loads((ROOT / "docs" / "topology.schema.json").read_text())
    assert published == SCHEMA


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(full().to_json()), **changes})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is no JSON"),
        ("[]", "holds no plan"),
        ('{"format": "other"}', "holds no plan"),
        (changed(version=2), "has version 2 of the format"),
        (changed(version="one"), "is no plan: version"),
        (changed(nodes=[]), "changed by hand"),
        (changed(transitions=[]), "changed by hand"),
        (changed(hooks=[]), "changed by hand"),
        (changed(extra=1), "is no plan"),
        (changed(layers=[{"owner": "A"}]), "is no plan: layers"),
        (changed(edges=[{"source": "a", "targets": [], "route": None}]), "is no plan: edges"),
        (
            changed(corners={"entry": "x", "loop_entry": "x", "loop_exit": "x", "exit": "x"}),
            "changed by hand",
        ),
    ],
)
def test_what_is_no_plan_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(TopologyFileError) as caught:
        load_topology(text, "agent.json")
    assert caught.value.subject == "agent.json"
    assert reason in str(caught.value)
    assert caught.value.hint


def test_mermaid_shows_nodes_ways_reasons_layers_and_tools() -> None:
    lines = [line.strip() for line in full().to_mermaid().splitlines()]
    assert lines[0] == "flowchart TD"
    assert 'n3["model<br/>in Guard.around_model #gt; other.around_model"]' in lines
    assert 'n4["tools<br/>in Guard.wrap_tool_call #gt; other.wrap_tool_call<br/>find"]' in lines
    assert 'n1 -->|"jump: Guard"| n5' in lines
    assert 'n3 -->|"pending calls"| n4' in lines


def test_mermaid_cannot_be_broken_by_a_name() -> None:
    text = plan_agent(middleware=[Guard(name='a"]; click <b>#1')]).to_mermaid()
    assert "a#quot;]; click #lt;b#gt;#35;1.before_model" in text


def test_an_explanation_gives_every_order_and_its_reason() -> None:
    text = full().explain()
    assert (
        "before each call of the model; in the order of the list:\n  1. Guard\n  2. other" in text
    )
    assert "once, when a run ends; the list backwards:\n  1. other\n  2. Guard" in text
    assert "the outermost" in text
    assert "1. Guard.wrap_tool_call\n  2. other.wrap_tool_call" in text
    assert "enters at Guard.before_model" in text


def test_a_way_is_explained_with_all_its_reasons() -> None:
    text = full().explain("model", "Guard.before_model")
    assert "Guard, other may answer the model's calls" in text
    assert "missing or invalid" in text


def test_a_way_that_is_not_there_is_answered_with_those_that_are() -> None:
    text = full().explain("Guard.before_model", "tools")
    assert text.startswith("No way leads from Guard.before_model to tools.")
    assert "Guard.before_model -> other.before_model" in text
    assert "is where a run ends" in full().explain("__end__", "model")


def test_nodes_that_are_none_are_refused() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        full().explain("model", "nowhere")
    with pytest.raises(TypeError, match="two nodes"):
        full().explain("model")
