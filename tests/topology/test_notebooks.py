"""Notebooks display plans, differences, counterexamples and decisions; no name becomes markup."""

from __future__ import annotations

import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from agent_factory import AgentMiddleware, DecisionList, create_agent, hook_config, plan_agent
from agent_factory.decisions import Decision, Outcome
from agent_factory.guarantees import Counterexample, counterexamples
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology.render.notebook import MOST_ROWS
from samples import Review, find

pytestmark = pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")

EVIL = "<script>alert(1)</script>"
EVIL_TOOL = {"type": "function", "function": {"name": EVIL}}


class Shortcut(AgentMiddleware):
    @hook_config(can_jump_to=["tools"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """Go to the tools without the model."""


def bundle(value: Any) -> dict[str, str]:
    """What a notebook asks a value for."""
    forms: dict[str, str] = value._repr_mimebundle_(include=None, exclude=None)
    assert forms["text/plain"] == value._repr_mimebundle_()["text/plain"]
    return forms


def tags(html: str) -> list[str]:
    """The tags of a text of HTML; all of them are closed in their order."""
    names, open_tags = list[str](), list[str]()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            names.append(tag)
            open_tags.append(tag)

        def handle_startendtag(self, tag: str, attrs: Any) -> None:
            names.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Reader().feed(html)
    assert not open_tags
    return names


def bypass(tool: Any = find) -> Counterexample:
    """A review that a jump goes around."""
    plan = plan_agent(tools=[tool], middleware=[Shortcut(), Review()])
    name = plan.tools[0].name
    [counterexample] = counterexamples(plan, [f"tool {name} passes Review"])
    return counterexample


def test_a_plan_is_a_picture_with_its_text() -> None:
    pytest.importorskip("pygraphviz", reason="the extra draw is not installed")
    plan = plan_agent(tools=[EVIL_TOOL], middleware=[Review()])
    forms = bundle(plan)
    assert forms == {"text/plain": plan.render(), "image/svg+xml": plan.to_svg()}
    ElementTree.fromstring(forms["image/svg+xml"])
    assert "<script" not in forms["image/svg+xml"]
    assert "&lt;script&gt;" in forms["image/svg+xml"]


def test_without_graphviz_a_plan_and_a_path_are_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    plan = plan_agent(tools=[find])
    assert bundle(plan) == {"text/plain": plan.render()}
    forms = bundle(bypass())
    assert "svg" not in forms["text/html"]
    assert set(tags(forms["text/html"])) == {"p"}
    assert "Path: __start__ -&gt; Shortcut.before_model -&gt; tools" in forms["text/html"]


def test_a_counterexample_is_its_words_with_its_path_in_the_picture() -> None:
    pytest.importorskip("pygraphviz", reason="the extra draw is not installed")
    counterexample = bypass()
    forms = bundle(counterexample)
    assert forms["text/plain"] == str(counterexample)
    assert forms["text/html"].endswith(counterexample.to_svg())
    root = ElementTree.fromstring(counterexample.to_svg())
    path = [
        (part.findtext("{http://www.w3.org/2000/svg}title") or "").splitlines()[0]
        for part in root.iter("{http://www.w3.org/2000/svg}g")
        if "path" in (part.get("class") or "").split()
    ]
    assert path == [
        "__start__ -> Shortcut.before_model",
        "Shortcut.before_model -> tools",
        "__start__",
        "Shortcut.before_model",
        "tools",
    ]


def test_a_counterexample_without_a_path_has_no_picture() -> None:
    [counterexample] = counterexamples(plan_agent(tools=[find]), ["at most 5 USD"])
    assert set(tags(bundle(counterexample)["text/html"])) == {"p"}


def test_a_hostile_name_in_a_counterexample_is_only_a_name() -> None:
    counterexample = replace(bypass(), reason=EVIL, hint=EVIL, guarantee=EVIL)
    html = bundle(counterexample)["text/html"]
    assert "script" not in tags(html)
    assert html.count("&lt;script&gt;") >= 3


def test_a_difference_is_a_table() -> None:
    changes = plan_agent(tools=[find]).diff(plan_agent(tools=[find, EVIL_TOOL]))
    forms = bundle(changes)
    assert forms["text/plain"] == str(changes)
    assert set(tags(forms["text/html"])) == {"table", "tr", "th", "td"}
    cells = "<td>added</td><td>tool</td><td>&lt;script&gt;alert(1)&lt;/script&gt;</td>"
    assert cells in forms["text/html"]
    same = bundle(plan_agent().diff(plan_agent()))
    assert same == {"text/plain": "No differences.", "text/html": "<p>No differences.</p>"}


def test_a_list_of_decisions_is_a_sink_and_a_table() -> None:
    decisions = DecisionList()
    model = ScriptedChatModel([[{"name": "find", "args": {"query": "x"}}], "Done."])
    agent = create_agent(model, [find], middleware=[Review(name="A")], decisions=decisions)
    agent.invoke({"messages": [("user", "Hello")]})
    assert [str(decision) for decision in decisions] == str(decisions).splitlines()
    forms = bundle(decisions)
    assert forms["text/plain"] == str(decisions)
    assert tags(forms["text/html"]).count("tr") == len(decisions) + 1
    assert "<td>A.after_model</td>" in forms["text/html"]


def test_a_hostile_decision_is_only_text_and_a_long_list_is_cut() -> None:
    decision = Decision("run", None, 1, EVIL, EVIL, Outcome.WROTE, EVIL + "\n\x1b[1m", EVIL, EVIL)
    forms = bundle(DecisionList([decision] * (MOST_ROWS + 7)))
    assert set(tags(forms["text/html"])) == {"table", "tr", "th", "td", "p"}
    assert "\x1b" not in forms["text/html"]
    assert "\x1b" not in forms["text/plain"]
    assert tags(forms["text/html"]).count("tr") == MOST_ROWS + 1
    assert forms["text/html"].endswith("<p>and 7 more</p>")
