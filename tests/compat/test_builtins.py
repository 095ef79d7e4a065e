"""langchain's own middleware in both agents: the same messages, state, requests and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from built_in_cases import ADDING, ASK, CASES

from agent_factory import plan_agent
from samples import add_tool as add
from samples import broken, call_of
from tables import each

theirs = pytest.importorskip("langchain.agents.middleware", reason="the extra peer is missing")


def message(seen: Any, number: int) -> Any:
    """A message of the thread."""
    return seen["state"]["messages"][number]


FACTS: list[tuple[str, Callable[[Any], bool]]] = [
    ("to-dos", lambda seen: seen["state"]["todos"][0]["content"] == "'Add'"),
    ("summaries", lambda seen: "They counted." in message(seen, 0)["content"]),
    ("private data", lambda seen: "@example.org" not in str([seen["seen"], seen["state"]])),
    ("fallback", lambda seen: message(seen, -1)["content"] == "Second."),
    ("retry", lambda seen: len(seen["seen"]) == 2),
    ("retry, given up", lambda seen: len(seen["seen"]) == 2),
    ("tool retry", lambda seen: message(seen, 2)["status"] == "error"),
    ("tool error", lambda seen: message(seen, 2)["content"] == "Sadly broken by 1"),
    ("tool selection", lambda seen: [tools for _, tools, _ in seen["seen"]] == [["add"]] * 2),
    ("context editing", lambda seen: seen["seen"][1][0][2]["content"] == "[cleared]"),
    ("emulator", lambda seen: message(seen, 2)["content"] == "12"),
    *(
        (name, lambda seen: "'add'" in str(seen["outcomes"][0][1]))
        for name in CASES
        if name.startswith("review")
    ),
]


@each("name, fact", FACTS)
def test_a_built_in_does_its_work_in_both_agents(alike: Any, name: str, fact: Any) -> None:
    stack, steps, inputs = CASES[name]
    assert fact(alike(lambda: stack(theirs), steps, *inputs, tools=[add, broken]))


def model_limit(limit: str, behaviour: Any) -> Any:
    return lambda: [theirs.ModelCallLimitMiddleware(**{limit: 1}, exit_behavior=behaviour)]


def tool_limits(behaviour: Any) -> Any:
    return lambda: [
        theirs.ToolCallLimitMiddleware(run_limit=1, exit_behavior=behaviour),
        theirs.ToolCallLimitMiddleware(tool_name="add", thread_limit=3),
    ]


BLOCK = lambda: [theirs.PIIMiddleware("ip", strategy="block")]  # noqa: E731
SEARCH = lambda: [theirs.ProviderToolSearchMiddleware(searchable_tools=["add"])]  # noqa: E731
TWICE = [call_of("write_todos", 1, todos=[]), call_of("write_todos", 2, todos=[])]
ADDED = [ADDING[0], [call_of("add", 2, a=3, b=4)], "Done.", "Again."]


@each(
    "stack, steps, inputs, words",
    [
        (
            lambda: [theirs.TodoListMiddleware()],
            [TWICE, "Done."],
            [ASK],
            "never be called",
        ),
        (BLOCK, ["Hi."], [{"messages": [("user", "I am at 10.0.0.1")]}], "PIIDetectionError"),
        (tool_limits("continue"), ADDED, [ASK, ASK], "limit"),
        (tool_limits("end"), ADDED, [ASK, ASK], "limit"),
        (tool_limits("error"), ADDED, [ASK], "ToolCallLimitExceededError"),
        *(
            (model_limit(limit, behaviour), [*ADDING, "Again."], [ASK, ASK], "imit")
            for limit in ("run_limit", "thread_limit")
            for behaviour in ("end", "error")
        ),
        (SEARCH, ADDING, [ASK], "server-side tool search"),
    ],
)
def test_it_refuses_alike(alike: Any, stack: Any, steps: Any, inputs: Any, words: str) -> None:
    assert words in str(alike(stack, steps, *inputs, tools=[add])["outcomes"])


@pytest.mark.filterwarnings("ignore:.*AF212:agent_factory.AgentFactoryWarning")
def test_a_base_class_alone_changes_nothing(alike: Any) -> None:
    alike(lambda: [theirs.AgentMiddleware()], ADDING, tools=[add])


def test_many_at_once(alike: Any) -> None:
    def stack() -> list[Any]:
        return [
            theirs.PIIMiddleware("email"),
            theirs.TodoListMiddleware(),
            theirs.ModelCallLimitMiddleware(run_limit=5),
            theirs.ModelRetryMiddleware(initial_delay=0, jitter=False),
            theirs.ToolCallLimitMiddleware(run_limit=5),
            theirs.ToolRetryMiddleware(initial_delay=0, jitter=False),
            theirs.ContextEditingMiddleware(),
        ]

    steps = [ValueError("once"), [call_of("add", 1, a=1, b=1), call_of("add", 2, a=2, b=2)], "4"]
    alike(stack, steps, tools=[add])


SLIPS: dict[str, tuple[Any, Any, str]] = {
    "a tool without a review": (
        lambda: theirs.HumanInTheLoopMiddleware({"add": True, "broken": True}),
        lambda: theirs.HumanInTheLoopMiddleware({"add": True}),
        "removed guard of broken by HumanInTheLoopMiddleware: it was: a person decides about",
    ),
    "a higher limit": (
        lambda: theirs.ModelCallLimitMiddleware(run_limit=5),
        lambda: theirs.ModelCallLimitMiddleware(run_limit=500),
        "changed setting ModelCallLimitMiddleware.run_limit: 5 -> 500",
    ),
    "a higher limit of tools": (
        lambda: theirs.ToolCallLimitMiddleware(run_limit=5),
        lambda: theirs.ToolCallLimitMiddleware(run_limit=500),
        "changed setting ToolCallLimitMiddleware.run_limit: 5 -> 500",
    ),
    "data that is not blocked": (
        lambda: theirs.PIIMiddleware("email", strategy="block"),
        lambda: theirs.PIIMiddleware("email"),
        "changed setting PIIMiddleware[email].strategy: 'block' -> 'redact'",
    ),
    "more attempts": (
        lambda: theirs.ToolRetryMiddleware(max_retries=1),
        lambda: theirs.ToolRetryMiddleware(max_retries=9),
        "changed setting ToolRetryMiddleware.max_retries: 1 -> 9",
    ),
    "more attempts of the model": (
        lambda: theirs.ModelRetryMiddleware(max_retries=1),
        lambda: theirs.ModelRetryMiddleware(max_retries=9),
        "changed setting ModelRetryMiddleware.max_retries: 1 -> 9",
    ),
    "a wider folder": (
        lambda: theirs.FilesystemFileSearchMiddleware(root_path=str(Path(__file__).parent)),
        lambda: theirs.FilesystemFileSearchMiddleware(root_path=str(Path(__file__).parents[1])),
        "changed setting FilesystemFileSearchMiddleware.root_path: .../compat -> .../tests",
    ),
}


@each("slip", SLIPS)
def test_a_weaker_guard_or_limit_of_theirs_is_red_with_a_line_that_names_it(slip: str) -> None:
    strict, weak, line = SLIPS[slip]
    plans = [plan_agent(tools=[add, broken], middleware=[make()]) for make in (strict, weak)]
    (change,) = str(plans[0].diff(plans[1])).splitlines()
    assert change.startswith(line)
    assert plans[0].to_snapshot() != plans[1].to_snapshot()


def test_a_subclass_of_theirs_has_the_settings_of_its_base() -> None:
    class Limit(theirs.ModelCallLimitMiddleware):  # type: ignore[misc, name-defined]
        """Their limit under another name."""

    plan = plan_agent(tools=[add], middleware=[Limit(run_limit=5)])
    assert ("Limit", "run_limit", "5") in [(s.owner, s.name, s.value) for s in plan.settings]
