"""The settings of middleware in plans: on request, in one line each, and without secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent_factory import AgentMiddleware, create_agent, load_topology, plan_agent, topology_of
from agent_factory.middleware import (
    ModelRetryMiddleware,
    ToolCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from agent_factory.testing import ScriptedChatModel
from samples import add_tool, find
from tables import each


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
    stack = [ModelRetryMiddleware(initial_delay=seconds)]
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
    stack = [ModelRetryMiddleware()]
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
    one: list[Any] = [ToolCallLimitMiddleware(run_limit=3)]
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
    stack = [ToolCallLimitMiddleware(run_limit=3)]
    agent = create_agent(ScriptedChatModel([]), [find], middleware=stack)
    assert agent == topology_snapshot(settings=True)
    assert agent == topology_snapshot(name="without")


def test_the_tools_that_a_built_in_is_for_are_its_setting() -> None:
    """Its attribute `tools` holds the tools that it adds."""
    stack = [ToolErrorMiddleware(tools=["find"]), ToolRetryMiddleware()]
    plan = plan_agent(tools=[find], middleware=stack, settings=True)
    found = {(s.owner, s.value) for s in plan.settings if s.name == "tools"}
    assert found == {("ToolErrorMiddleware", "{'find'}"), ("ToolRetryMiddleware", "None")}
