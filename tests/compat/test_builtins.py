"""langchain's own middleware in both agents, and the built-ins of both libraries side by side.

Texts of our built-ins that a model or a person reads differ. Where anything else does, a test says
how.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from built_in_cases import ADDING, ASK, CASES
from families import OURS, THEIRS
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent_factory import plan_agent
from agent_factory.testing import ScriptedChatModel
from reviews import Mailbox
from samples import THREAD, broken, call_of, tool_call, tool_messages
from samples import add_tool as add
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
        (lambda: [theirs.TodoListMiddleware()], [TWICE, "Done."], [ASK], "never be called"),
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


LIMIT = "changed setting {}.run_limit: 5 -> 500"
ATTEMPTS = "changed layer {{}}.wrap_{}_call: was up to 2 attempts, now 10"
FOLDER = Path(__file__).parent
SLIPS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "HumanInTheLoopMiddleware",
        {"interrupt_on": {"add": True, "broken": True}},
        {"interrupt_on": {"add": True}},
        "removed guard of broken by {}: it was: a person decides about",
    ),
    ("ModelCallLimitMiddleware", {"run_limit": 5}, {"run_limit": 500}, LIMIT),
    ("ToolCallLimitMiddleware", {"run_limit": 5}, {"run_limit": 500}, LIMIT),
    (
        "PIIMiddleware",
        {"pii_type": "email", "strategy": "block"},
        {"pii_type": "email"},
        "changed setting {}[email].strategy: 'block' -> 'redact'",
    ),
    ("ToolRetryMiddleware", {"max_retries": 1}, {"max_retries": 9}, ATTEMPTS.format("tool")),
    ("ModelRetryMiddleware", {"max_retries": 1}, {"max_retries": 9}, ATTEMPTS.format("model")),
    (
        "FilesystemFileSearchMiddleware",
        {"root_path": str(FOLDER)},
        {"root_path": str(FOLDER.parent)},
        "changed setting {}.root_path: .../compat -> .../tests",
    ),
]


@each("name, strict, weak, line", SLIPS)
def test_a_weaker_guard_or_limit_of_theirs_is_red_with_a_line_that_names_it(
    name: str, strict: Any, weak: Any, line: str
) -> None:
    make = getattr(theirs, name)
    plans = [plan_agent(tools=[add, broken], middleware=[make(**args)]) for args in (strict, weak)]
    (change,) = str(plans[0].diff(plans[1])).splitlines()
    assert change.startswith(line.format(name))
    assert plans[0].to_snapshot() != plans[1].to_snapshot()


def test_a_subclass_of_theirs_has_the_settings_of_its_base() -> None:
    class Limit(theirs.ModelCallLimitMiddleware):  # type: ignore[misc, name-defined]
        """Their limit under another name."""

    plan = plan_agent(tools=[add], middleware=[Limit(run_limit=5)])
    assert ("Limit", "run_limit", "5") in [(s.owner, s.name, s.value) for s in plan.settings]


GO: Any = {"messages": [("user", "Go")]}
KEYS = ("type", "tool_call_id", "name", "args")
"""What a front end reads of a request about one call, in addition to its description."""


def outcome(f: Any, call: Any, member: Any, *turns: Any, mail: Mailbox | None = None) -> Any:
    """What ran, the results by their calls, and how the run ended."""
    mail = mail or Mailbox()
    agent = f.create_agent(ScriptedChatModel([*turns]), mail.tools(), middleware=[member(f)])
    try:
        result = call(agent, GO)
    except Exception as error:
        return sorted(mail.ran), type(error).__name__
    results = {m.tool_call_id: m.status for m in tool_messages(result)}
    return sorted(mail.ran), results, result["messages"][-1].type, bool(result["messages"][-1].text)


CALLS = [tool_call("send", "s", to="Ann"), tool_call("delete", "d", number=1)]
DECISIONS: dict[str, Any] = {
    "approve": {"type": "approve"},
    "reject": {"type": "reject", "message": "No."},
    "respond": {"type": "respond", "message": "Later."},
    "edit": {"type": "edit", "edited_action": {"name": "send", "args": {"to": "Bob"}}},
}


def reviewed(f: Any, call: Any, mode: str, decision: Any, allowed: Any = True) -> Any:
    """The requests of a review, what ran after the decisions, and the results."""
    mail = Mailbox()
    review = f.HumanInTheLoopMiddleware({"send": allowed, "delete": True}, interrupt_mode=mode)
    agent = f.create_agent(
        ScriptedChatModel([CALLS, "Done."]),
        mail.tools(),
        middleware=[review],
        checkpointer=InMemorySaver(),
    )
    interrupts = call(agent, GO, THREAD)["__interrupt__"]
    other, requests = {"type": "reject"}, list[Any]()
    if mode == "batched":
        (asked,) = interrupts
        pairs = zip(asked.value["action_requests"], asked.value["review_configs"], strict=True)
        requests = [(a["name"], a["args"], c["allowed_decisions"]) for a, c in pairs]
        resume: Any = {"decisions": [decision, other]}
    else:
        by_call = {item.value["tool_call_id"]: item for item in interrupts}
        requests = [
            ([by_call[id].value[key] for key in KEYS], answers_to(by_call[id].response_schema))
            for id in ("s", "d")
        ]
        resume = {by_call["s"].id: decision, by_call["d"].id: other}
    try:
        result = call(agent, Command(resume=resume), THREAD)
    except ValueError:
        return requests, mail.ran, "ValueError"
    found = {m.tool_call_id: (m.name, m.status, m.additional_kwargs) for m in tool_messages(result)}
    return requests, mail.ran, found, result["messages"][-1].text


def answers_to(schema: Any) -> Any:
    """The types of decision in a schema, and the arguments that an edit may have."""
    definitions = schema["$defs"]
    action = definitions.get("EditedAction", {}).get("properties", {})
    arguments = definitions[action["args"]["$ref"].split("/")[-1]] if action else {}
    kinds = schema.get("discriminator", {}).get("mapping", schema.get("properties"))
    return list(kinds), action.get("name", {}).get("const"), arguments.get("properties")


@each("mode", ["batched", "per_call"])
def test_reviews_ask_and_decide_alike(same: Any, mode: str) -> None:
    """A decision that is not allowed is a ValueError."""
    for decision in DECISIONS.values():
        same(lambda f, call: reviewed(f, call, mode, decision))  # noqa: B023
    allowed = {"allowed_decisions": ["approve", "edit"]}
    outcome = same(lambda f, call: reviewed(f, call, mode, DECISIONS["reject"], allowed))
    assert outcome[1:] == [[], "ValueError"]


@each("config", [{}, {"description": "x"}, {"when": lambda request: True}])
def test_a_review_without_decisions_is_refused(config: Any) -> None:
    for f in (THEIRS, OURS):
        with pytest.raises(ValueError, match="allowed_decisions"):
            f.HumanInTheLoopMiddleware({"send": config})


ONE = tool_call("send", "1", to="Ann")
TWO = tool_call("send", "2", to="Bob")
ENDS = ("continue", "end", "error")


@each("ends", ENDS)
@each("name", [None, "send"])
def test_limits_refuse_alike(same: Any, ends: str, name: str | None) -> None:
    def member(f: Any) -> Any:
        return f.ToolCallLimitMiddleware(tool_name=name, run_limit=1, exit_behavior=ends)

    def model_limit(f: Any) -> Any:
        return f.ModelCallLimitMiddleware(run_limit=1, exit_behavior=ends)

    same(lambda f, call: outcome(f, call, member, [ONE], [TWO], "Done."))
    if ends != "continue":
        same(lambda f, call: outcome(f, call, model_limit, [ONE], "Done."))


@each("ends", ENDS)
def test_of_parallel_calls_those_within_the_limit_run_here(call: Any, ends: str) -> None:
    """Langchain's run as long as the run goes on."""

    def member(f: Any) -> Any:
        return f.ToolCallLimitMiddleware(run_limit=1, exit_behavior=ends)

    ran = [outcome(f, call, member, [ONE, TWO], "Done.")[0] for f in (THEIRS, OURS)]
    assert ran == [[("send", "Ann")] if ends == "continue" else [], [("send", "Ann")]]


SEARCHES: dict[str, Any] = {
    "all": ("glob_search", {"pattern": "**/*.py"}),
    "top": ("glob_search", {"pattern": "*.py"}),
    "folder": ("glob_search", {"pattern": "*.py", "path": "/b"}),
    "files": ("grep_search", {"pattern": "print"}),
    "lines": ("grep_search", {"pattern": "pr.nt", "output_mode": "content"}),
    "counts": ("grep_search", {"pattern": "print", "output_mode": "count"}),
    "include": ("grep_search", {"pattern": "print", "include": "a.*"}),
}


@each("search", SEARCHES)
@each("use_ripgrep", [True, False])
def test_files_are_found_alike(same: Any, tmp_path: Path, search: str, use_ripgrep: bool) -> None:
    (tmp_path / "b").mkdir(exist_ok=True)
    (tmp_path / "a.py").write_text("print(1)\n# print\n")
    (tmp_path / "b" / "c.py").write_text("print(2)\n")
    name, args = SEARCHES[search]

    def scenario(f: Any, call: Any) -> Any:
        member = f.FilesystemFileSearchMiddleware(root_path=tmp_path, use_ripgrep=use_ripgrep)
        model = ScriptedChatModel([[{"name": name, "args": args, "id": "1"}], "Done."])
        (message,) = tool_messages(call(f.create_agent(model, middleware=[member]), GO))
        return sorted(message.text.splitlines()), message.status

    lines, _ = same(scenario)
    assert lines != []


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # theirs leaves the shell's pipes open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_shell_keeps_its_session_and_reports_failures_alike(same: Any, tmp_path: Path) -> None:
    commands = ["cd /; X=1", "pwd; echo $X $N", "echo oh; false"]

    def scenario(f: Any, call: Any) -> Any:
        steps: list[Any] = [
            [{"name": "shell", "args": {"command": command}, "id": str(number)}]
            for number, command in enumerate(commands)
        ]
        policy = f.HostExecutionPolicy(create_process_group=False)
        member = f.ShellToolMiddleware(tmp_path, env={"N": 7}, execution_policy=policy)
        result = call(f.create_agent(ScriptedChatModel([*steps, "Done."]), middleware=[member]), GO)
        return [(m.text.split("\n")[0], m.status) for m in tool_messages(result)][1:]

    assert same(scenario) == [["/", "success"], ["oh", "error"]]
