"""A plan is read back from a file, with settings on request; an edited file is refused."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import pydantic
import pytest
from hypothesis import given
from packaging.version import Version

from agent_factory import (
    AgentMiddleware,
    TopologyFileError,
    create_agent,
    load_topology,
    plan_agent,
    topology_of,
)
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import Call, Hook, Layer, Move, Phase, Shape, Tool, plan
from agent_factory.topology.load import json_schema
from samples import add_tool, find, full_plan, shapes
from tables import each

ROOT = Path(__file__).resolve().parents[2]


@given(shapes())
def test_a_plan_is_read_back_from_either_file(shape: Shape) -> None:
    written = plan(shape)
    assert load_topology(written.to_json()) == written
    assert load_topology(written.to_snapshot()) == written


@given(shapes(), shapes())
def test_plans_that_differ_have_different_files(a: Shape, b: Shape) -> None:
    one, other = plan(a), plan(b)
    assert (one.to_json() == other.to_json()) == (one == other)
    read = load_topology(one.to_snapshot()).diff(load_topology(other.to_snapshot()))
    assert read == one.diff(other)


SMALL = plan(
    Shape(
        (Hook("A", Phase.BEFORE_MODEL, frozenset({"end"})), Hook("B", Phase.AFTER_MODEL)),
        (Layer("C", Call.TOOL, "around_tool"),),
        has_tools=True,
        tools=(Tool("find"),),
    )
)


EDITED = SMALL.to_snapshot()
LINES = EDITED.splitlines()


def test_a_snapshot_whose_lines_changed_places_or_that_lacks_one_is_refused() -> None:
    for index in (n for n, line in enumerate(LINES) if line):
        with pytest.raises(TopologyFileError):
            load_topology("\n".join([*LINES[:index], *LINES[index + 1 :]]))
    for order in permutations(LINES[:4]):
        text = "\n".join([*order, *LINES[4:]])
        if list(order) == LINES[:4]:
            assert load_topology(text) == SMALL
        else:
            with pytest.raises(TopologyFileError, match="contradicts itself in line"):
                load_topology(text)


def test_the_schema_is_published() -> None:
    published = json.loads((ROOT / "docs" / "topology.schema.json").read_text())
    schema = json_schema()
    # Older ones leave out the docstrings of dataclasses, and which keys they allow and require.
    if Version(pydantic.VERSION) < Version("2.14"):
        properties, expected = (
            {name: entry.get("properties") for name, entry in each["$defs"].items()}
            for each in (schema, published)
        )
        assert properties == expected
        return
    assert published == schema


def test_json_depends_on_the_plan_alone_and_has_a_line_for_each_part() -> None:
    for written in (plan_agent(), full_plan()):
        text = written.to_json()
        assert load_topology(text).to_json() == text
    assert text == full_plan().to_json()
    assert "0x" not in text
    lines = text.splitlines()
    assert '    {"source": "__start__", "targets": ["Guard.before_model"], "route": null},' in lines
    assert [line for line in lines if line.startswith('  "')][:2] == [
        '  "format": "agent_factory.topology",',
        '  "version": 1,',
    ]


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(full_plan().to_json()), **changes})


@each(
    "text, reason",
    [
        ("", "does not hold the plan"),
        ('{"format": 1}', "does not hold the plan"),
        (
            EDITED.replace("tool: find", "tool: find\ntool find"),
            "line 12: the text has 'tool find'",
        ),
        (EDITED.replace("[pending calls]", "[why not]"), "the JSON below it means"),
        (EDITED.replace("A.before_model", "A.before_lunch", 1), "in line 1"),
        ("<<<<<<< ours\n" + EDITED, "contradicts itself in line 1"),
        (EDITED.replace('  "format"', '<<<<<<< ours\n  "format"'), "is not valid JSON"),
        ("{", "is not valid JSON"),
        ("[]", "does not hold the plan"),
        (changed(version=2), "has version 2 of the format"),
        (changed(version="one"), "fields of a plan: version: Input should be 1, got 'one'"),
        (changed(nodes=[]), "edited by hand"),
        (changed(transitions=[]), "edited by hand"),
        (changed(extra=1), "extra: Unexpected"),
        (changed(layers=[{"owner": "A"}]), "fields of a plan: layers.0.call"),
        (
            changed(corners={"entry": "x", "loop_entry": "x", "loop_exit": "x", "exit": "x"}),
            "edited by hand",
        ),
    ],
)
def test_a_file_that_is_not_a_plan_or_was_edited_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(TopologyFileError) as caught:
        load_topology(text, "plan.topology")
    assert caught.value.subject == "plan.topology"
    assert reason in str(caught.value)
    assert re.search("snapshot-update|Upgrade", caught.value.hint)


NASTY = ["\x1b[31mred", "two\nlines", "a\rb", "a\x85b", "a\u2028b", "a\u2029b", "a\x9bb", "\x0cb"]
NASTY += ["a -> b", "a\n{\n", "tool: x", "around each model call: x.y", "my.own layer", "model"]


@pytest.mark.parametrize("name", NASTY)
def test_odd_characters_in_names_are_escaped_and_read_back(name: str, tmp_path: Path) -> None:
    hooks, layers = (Hook(name, Phase.BEFORE_MODEL),), (Layer(name, Call.TOOL, "around_tool"),)
    moved, tools = (Move("Old", name),), (Tool(name, owner=name),)
    odd = plan(Shape(hooks, layers, has_tools=True, tools=tools, moved=moved))
    file = tmp_path / "odd.topology"
    file.write_text(odd.to_snapshot(), encoding="utf-8")
    assert load_topology(file.read_text(encoding="utf-8")) == odd
    assert load_topology(odd.to_snapshot().replace("\n", "\r\n") + "\r\n\r\n") == odd
    assert load_topology(odd.to_json()) == odd
    escaped = repr(name)[1:-1]
    texts = [odd.render(), odd.to_mermaid(), odd.explain(), odd.to_json()]
    texts += [str(plan(Shape()).diff(odd)), odd.explain("__start__", "model")]
    for text in texts:
        assert all(line.isprintable() for line in text.split("\n")), text
    assert f"tool: {escaped}" in odd.render()
    assert f"added tool {escaped}" in str(plan(Shape()).diff(odd))


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(TopologyFileError, match="nested too deeply"):
        load_topology("[" * 200_000 + "]" * 200_000)
    with pytest.raises(TopologyFileError):
        load_topology('{"format": ' + "[" * 200_000 + "]" * 200_000 + "}")


@dataclass
class Edit:
    keep: int = 3


class Configured(AgentMiddleware):
    def __init__(self, value: Any = None, api_key: str = "", hidden: int = 0) -> None:
        super().__init__()
        self.value = value
        self.api_key = api_key
        self._hidden = hidden

    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""


def waiting(seconds: float = 1.0, **options: Any) -> Any:
    stack = [m.ModelRetryMiddleware(initial_delay=seconds)]
    return plan_agent(tools=[find], middleware=stack, **options)


def shown(value: Any) -> str:
    plan = plan_agent(middleware=[Configured(value)], settings=True)
    return next(setting.value for setting in plan.settings if setting.name == "value")


def test_a_plan_and_its_files_hold_settings_on_request_only() -> None:
    assert waiting() == waiting(5)
    assert waiting().settings == ()
    plan = waiting(settings=True)
    assert plan != waiting(5, settings=True)
    assert "setting: ModelRetryMiddleware.initial_delay = 5" in waiting(5, settings=True).render()
    stack = [m.ModelRetryMiddleware()]
    agent = create_agent(ScriptedChatModel([]), [find], middleware=stack)
    assert topology_of(agent, settings=True) == plan
    assert topology_of(agent).settings == ()
    assert load_topology(plan.to_json()) == load_topology(plan.to_snapshot()) == plan


def test_a_changed_setting_is_one_change_if_both_plans_hold_settings() -> None:
    old, new = waiting(1.5, settings=True), waiting(5, settings=True)
    name = "ModelRetryMiddleware.initial_delay"
    assert str(old.diff(new)) == f"changed setting {name}: 1.5 -> 5"
    assert not waiting().diff(new)
    assert not old.diff(waiting(5))


def test_settings_of_an_added_middleware_are_not_separate_changes() -> None:
    one: list[Any] = [m.ToolCallLimitMiddleware(run_limit=3)]
    two = [*one, Configured(1)]
    old, new = (plan_agent(tools=[find], middleware=stack, settings=True) for stack in (one, two))
    assert not [change for change in old.diff(new).changes if change.part == "setting"]


@each(
    "value, text",
    [
        (3, "3"),
        (True, "True"),
        ("a\nb", "'a\\nb'"),
        (("messages", 50), "('messages', 50)"),
        ((1,), "(1,)"),
        ({"b": [1, None]}, "{'b': [1, None]}"),
        ({"b", "a"}, "{'a', 'b'}"),
        (find, "find"),
        (ValueError, "ValueError"),
        (add_tool, "tool 'add'"),
        (ScriptedChatModel([]), "ScriptedChatModel()"),
        (Edit(), "Edit(keep=3)"),
        (object(), "object"),
        ({"api_key": "sk-1", "url": "x"}, "{'api_key': str, 'url': 'x'}"),
        ([[[[[[[["a"]]]]]]]], "[[[[[[[['a']]]]]]]]"),
        ([[[[[[[[["a"]]]]]]]]], "[[[[[[[[[str]]]]]]]]]"),
    ],
)
def test_values_are_shown_in_one_line(value: Any, text: str) -> None:
    assert shown(value) == text


def test_a_long_text_is_shortened_and_a_change_in_it_is_seen() -> None:
    one, two = shown("x" * 500 + "a"), shown("x" * 500 + "b")
    assert "(501 characters, sha256 " in one
    assert one != two
    assert len(one) < 100


def test_secrets_private_attributes_and_endless_values_are_not_shown() -> None:
    endless: list[Any] = []
    endless.append(endless)
    plan = plan_agent(middleware=[Configured(endless, "sk-123", 7)], settings=True)
    assert "sk-123" not in plan.render()
    assert [setting.name for setting in plan.settings] == ["value", "api_key"]
    assert plan.settings[1].value == "str"


def test_a_snapshot_holds_settings_on_request(topology_snapshot: Any) -> None:
    stack = [m.ToolCallLimitMiddleware(run_limit=3)]
    agent = create_agent(ScriptedChatModel([]), [find], middleware=stack)
    assert agent == topology_snapshot(settings=True)
    assert agent == topology_snapshot(name="without")


def test_the_tools_that_a_built_in_is_for_are_its_setting() -> None:
    """Its attribute `tools` holds the tools that it adds."""
    stack = [m.ToolErrorMiddleware(tools=["find"]), m.ToolRetryMiddleware()]
    plan = plan_agent(tools=[find], middleware=stack, settings=True)
    found = {(s.owner, s.value) for s in plan.settings if s.name == "tools"}
    assert found == {("ToolErrorMiddleware", "{'find'}"), ("ToolRetryMiddleware", "None")}
