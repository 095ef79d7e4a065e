"""A stack as a TOML file and back, and a stack that is changed by name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_factory import (
    AgentMiddleware,
    create_agent,
    dump_stack,
    load_stack,
    plan_agent,
    stack,
    topology_of,
    wrap_model_call,
)
from agent_factory import middleware as m
from agent_factory.errors import ArgumentError
from agent_factory.stack import UnknownMember
from agent_factory.testing import ScriptedChatModel
from samples import find
from tables import each

HEAD = 'format = "agent_factory.stack"\nversion = 1\n'
MODEL = ScriptedChatModel([])
SECRET = "s3cret-value"


def is_cheap(request: Any) -> bool:
    return bool(request.tool_call["args"].get("cheap"))


def choose(request: Any) -> str:
    return "fast"


@wrap_model_call
def passing(request: Any, handler: Any) -> Any:
    return handler(request.override(tools=request.tools))


class Configured(AgentMiddleware):
    """A middleware of a user, with a setting of any kind."""

    def __init__(self, value: Any = None, *more: Any, api_key: str = "") -> None:
        super().__init__()
        self.value, self.more, self.api_key = value, more, api_key


class Hidden(AgentMiddleware):
    """A middleware whose plan depends on what no attribute holds."""

    def __init__(self, phase: str = "used") -> None:
        super().__init__()
        self.unused = () if phase == "used" else ("before_model",)

    unused: Collection[str] = ()

    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""


class Closed(AgentMiddleware):
    """A middleware that shows nothing of what it takes."""

    def __init__(self, number: int = 1) -> None:
        super().__init__()
        self._number = number


class Changing(AgentMiddleware):
    """A middleware that keeps another value than it takes."""

    built = 0

    def __init__(self, number: int = 1, names: Any = None) -> None:
        super().__init__()
        Changing.built += 1
        self.number, self.names = number + 1, list(names or ())


STACKS: dict[str, Callable[[], Any]] = {
    "answers": lambda: m.AnswerGuardMiddleware(max_retries=1, on_cut="continue", keep_failed=True),
    "auto mode": lambda: m.AutoModeMiddleware(classifier=MODEL, tools=["b", "a"], threshold=0.7),
    "budget": lambda: m.BudgetMiddleware(
        run=m.Limits(usd=0.5, turns=9),
        thread=m.Limits(total_tokens=10_000),
        warn_at=(0.5, 0.9),
        cheaper=MODEL,
        exit_behavior="ask",
        prices={
            "a.b": m.Price(input=1, output=2.5),
            "ScriptedChatModel": m.Price(input=1, output=1),
        },
    ),
    "no warnings": lambda: m.BudgetMiddleware(run=m.Limits(turns=9), warn_at=None),
    "ledger": lambda: m.BudgetMiddleware(ledger=m.Ledger(m.Limits(turns=9)), warn_at=[0.2, 0.5]),
    "client tools": lambda: m.ClientToolsMiddleware(max_tools=3),
    "edits": lambda: m.ContextEditingMiddleware(
        edits=[m.ClearToolUsesEdit(keep=9, exclude_tools=["find"])], keep_thread=False
    ),
    "files": lambda: m.FilesystemFileSearchMiddleware(root_path=Path(__file__).parent, timeout=2.5),
    "reviews": lambda: m.HumanInTheLoopMiddleware(
        {"a": True, "b": {"allowed_decisions": ["edit"]}}
    ),
    "policy": lambda: m.HumanInTheLoopMiddleware(
        m.ToolPolicy(
            m.Rule("a", "allow", when={"euros": {"<=": 50}, "to": "Ann"}),
            m.Rule("a", "judge", otherwise="deny", reviewers=["finance"], remember=60),
            m.Rule("b", "ask", when=is_cheap, description='Look at "this"\nand that.'),
            m.Rule("*", "deny", reason="No."),
            judge=MODEL,
        ),
        edit_notice=None,
        interrupt_mode="per_call",
    ),
    "model calls": lambda: m.ModelCallLimitMiddleware(run_limit=3, thread_limit=9, name="First"),
    "fallback": lambda: m.ModelFallbackMiddleware(
        (MODEL, {"temperature": 0}), MODEL, handle=(ConnectionError, TimeoutError)
    ),
    "refusals": lambda: m.ModelRefusalMiddleware(MODEL, MODEL, on_refusal="error"),
    "retries": lambda: m.ModelRetryMiddleware(
        max_retries=4, jitter=False, retry_on=ConnectionError
    ),
    "router": lambda: m.ModelRouterMiddleware(
        choices={"fast": m.ModelChoice(MODEL, "short"), "deep": m.ModelChoice(MODEL, "long")},
        classifier=choose,
        default="deep",
    ),
    "once": lambda: m.OnceMiddleware({"pay": "ask", "look": None}, store=m.InMemoryEffects()),
    "data": lambda: m.PIIMiddleware("email", strategy="mask", apply_to_output=True),
    "default data": lambda: m.PIIMiddleware("email"),
    "own data": lambda: m.PIIMiddleware("order", detector="A-[0-9]{8}"),
    "keyed data": lambda: m.PIIMiddleware("email", strategy="hash", hash_key=SECRET),
    "progress": lambda: m.ProgressGuardMiddleware(
        polling_tools={"find": 3}, ignore_arguments=["t"]
    ),
    "caching": lambda: m.PromptCachingMiddleware(ttl="1h", min_tokens=2048),
    "search": lambda: m.ProviderToolSearchMiddleware(searchable_tools=["find"], provider="openai"),
    "shell": lambda: m.ShellToolMiddleware(
        "/tmp",
        startup_commands=["a", "b"],
        execution_policy=m.DockerExecutionPolicy(command_timeout=5.0),
        redaction_rules=[m.RedactionRule("email", "mask")],
    ),
    "summaries": lambda: m.SummarizationMiddleware(
        MODEL,
        trigger=[("messages", 50), {"tokens": 1000}],
        keep=("messages", 3),
        summary_prompt='Keep:\n\\n "all" of\tit\x7f\n{messages}',
    ),
    "plans": lambda: m.TodoListMiddleware(system_prompt="Plan."),
    "tool calls": lambda: m.ToolCallLimitMiddleware(tool_name="a:b", run_limit=3),
    "emulator": lambda: m.LLMToolEmulator(tools=["find"], model=MODEL),
    "emulator of all": lambda: m.LLMToolEmulator(),
    "emulator of none": lambda: m.LLMToolEmulator(tools=[]),
    "errors": lambda: m.ToolErrorMiddleware(tools=["find"]),
    "results": lambda: m.ToolResultOffloadMiddleware(threshold=None, namespace=("a", "b")),
    "tool retries": lambda: m.ToolRetryMiddleware(tools=["find"], idempotent_tools=["find"]),
    "selection": lambda: m.LLMToolSelectorMiddleware(max_tools=3, always_include=["find"]),
    "a function": lambda: passing,
    "hidden": lambda: Hidden("unused"),
    "changing": lambda: Changing(3),
}


def code_of(stack: list[Any], text: str) -> dict[str, Any]:
    """What a file names, from the stack that was written."""
    members = {member.name: member for member in stack}
    code: dict[str, Any] = {}
    data = tomllib.loads(text)
    for key in re.findall(r'code = "([^"]+)"', text):
        module, colon, name = key.partition(":")
        if colon and module.isidentifier() | ("." in module and "[" not in module):
            code[key] = getattr(import_module(module), name)
        elif key in members:
            code[key] = members[key]
        else:
            owner = max((name for name in members if key.startswith(f"{name}.")), key=len)
            value: Any = members[owner]
            for part in key.removeprefix(f"{owner}.").split("."):
                if isinstance(value, list | tuple | dict):
                    value = value[part if isinstance(value, dict) else int(part)]
                else:
                    value = getattr(value, part)
            code[key] = value
    for entry in data.get("middleware", ()):
        code |= dict.fromkeys(entry.get("unread", {}).values())
    return code


def plan_of(stack: list[Any]) -> Any:
    ignore = ["AF124", "AF210", "AF204", "AF211", "AF213"]
    return plan_agent(tools=[find], middleware=stack, settings=True, ignore=ignore)


WHOLE = {"a function", "hidden", "changing"}
"""What settings cannot build, and is code as a whole."""


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@each("name", STACKS)
def test_a_built_in_is_written_and_read_with_the_same_settings(name: str) -> None:
    stack = [STACKS[name]()]
    text = dump_stack(stack)
    again = load_stack(text, code_of(stack, text))
    before, after = plan_of(stack), plan_of(again)
    assert after == before
    assert after.digest == before.digest
    assert dump_stack(again) == text
    (entry,) = tomllib.loads(text)["middleware"]
    assert ("class" not in entry) == (name in WHOLE)


@pytest.mark.law
@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@given(st.lists(st.sampled_from(sorted(STACKS)), unique=True, max_size=4))
def test_stacks_come_back_in_their_order(names: list[str]) -> None:
    by_name = {member.name: member for member in (STACKS[name]() for name in names)}
    stack = list(by_name.values())
    text = dump_stack(stack)
    assert plan_of(load_stack(text, code_of(stack, text))) == plan_of(stack)


PLAIN: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(
            st.sampled_from(["a", "b c", "tuple", "class", "code", "none", "dict"]), inner
        )
    ),
    max_leaves=8,
)


@pytest.mark.law
@given(PLAIN)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    text = dump_stack([Configured(value)])
    (again,) = load_stack(text)
    assert isinstance(again, Configured)
    assert (again.value, type(again.value)) == (value, type(value))


def test_a_secret_is_never_written() -> None:
    stack: list[Any] = [
        Configured({"password": SECRET, "nested": [{"auth_token": SECRET}]}, api_key=SECRET),
        m.PIIMiddleware("email", strategy="hash", hash_key=SECRET),
        m.ShellToolMiddleware(
            env={"A": SECRET}, redaction_rules=[m.RedactionRule("email", "hash", hash_key=SECRET)]
        ),
    ]
    text = dump_stack(stack)
    assert SECRET not in text
    with pytest.raises(ArgumentError, match=r"needs 'Configured\.value\.password'"):
        load_stack(text)
    code: dict[str, Any] = dict.fromkeys(code_of(stack, text), "other") | {
        "ShellToolMiddleware.env": {"A": "b"}
    }
    assert load_stack(text, code)[0].api_key == "other"  # type: ignore[attr-defined]


def test_writing_builds_a_middleware_once_and_says_why_it_is_code() -> None:
    stack, before = [Changing(3)], Changing.built
    assert "# Not written by its settings, which build another middleware.\n" in dump_stack(stack)
    assert Changing.built == before + 1
    stack[0].number = "three"  # type: ignore[assignment]
    assert "settings, which build TypeError" in dump_stack(stack)


def test_tools_of_a_set_are_in_one_order() -> None:
    names = [f"tool_{number}" for number in range(9)]
    for order in (names, names[::-1]):
        guards = m.AutoModeMiddleware(classifier=MODEL, tools=order).guards
        assert [guard.tool for guard in guards] == names


def test_functions_are_named_by_where_they_can_be_imported_from() -> None:
    text = dump_stack([Configured(pow), Configured(lambda: 1)], [find])
    assert 'value = { code = "builtins:pow" }' in text
    assert 'value = { code = "Configured.value", is = "function" }' in text
    assert f'name = "find"\nfunction = "{find.__module__}:find"' in text


def test_arguments_come_back_by_place_and_as_code_where_a_file_cannot_hold_them() -> None:
    again: Any
    (again,) = load_stack(dump_stack([Configured(1, 2, "three")]))
    assert (again.value, again.more) == (1, (2, "three"))
    text = dump_stack([Configured("half \ud83d")])
    (again,) = load_stack(text, {"Configured.value": 1})
    assert again.value == 1
    assert text.encode()


def test_a_file_is_read_from_its_path_if_it_is_there_and_text(tmp_path: Path) -> None:
    file = tmp_path / "stack.toml"
    file.write_text(dump_stack([m.ModelCallLimitMiddleware(run_limit=3)]), encoding="utf-8")
    assert load_stack(file)[0].run_limit == 3  # type: ignore[attr-defined]
    assert load_stack(str(file))[0].run_limit == 3  # type: ignore[attr-defined]
    with pytest.raises(FileNotFoundError):
        load_stack(tmp_path / "other.toml")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ArgumentError, match="is not valid TOML"):
        load_stack(file)


def entry(text: str) -> str:
    return f"{HEAD}[[middleware]]\n{text}"


LIMIT = 'class = "agent_factory.middleware:ModelCallLimitMiddleware"'


@each(
    "text, words",
    [
        ("a = \n", "is not valid TOML"),
        (HEAD.replace("1", "2"), "has version 2"),
        (f"{HEAD}middleware = 3\n", "must have tables named middleware, got int (3)"),
        (entry(f"{LIMIT}\nsettings = 3"), "must have a table as settings, got int (3)"),
        (entry(f"{LIMIT}\nunread = {{ name = 3 }}"), "names code by int (3), expected a text"),
        (entry("name = 'x'"), "names neither a class nor code"),
        (entry('class = "agent_factory.middleware:Missing"'), "cannot be imported"),
        (entry('class = "no colon"'), "cannot be imported"),
        (entry('class = "pathlib:Path"'), "is not a class of middleware, so it is not called"),
        (f"{HEAD}[[Middleware]]\n{LIMIT}", "has 'Middleware', which is unknown. Did you mean mid"),
        (f"{HEAD}tools = 3", "must have tables named tools, got int (3)"),
        (f"{HEAD}[[tools]]\nnam = 'a'", "tools: has 'nam', which is unknown. Did you mean name"),
        (f"{HEAD}tools = ['a']", "tools: must be a table, got str ('a')"),
        (entry(f"{LIMIT}\nwhen = 1"), "has 'when', which is unknown"),
        (entry(f"class = '{__name__}:Hidden'\nname = 'a'"), "has the name 'a', and its class"),
        (entry(f"{LIMIT}\nunread = {{ a = 'a' }}"), "settings: has 'a', which is unknown"),
        (entry(f"{LIMIT}\n[middleware.settings]\nrun_limt = 3"), "Did you mean run_limit"),
        (entry(f"{LIMIT}\n[middleware.settings]\nself = 3"), "has 'self', which is unknown"),
        (entry(f"{LIMIT}\n[middleware.settings]\nname = {{ none = false }}"), "has 'none' with"),
        (entry(f"{LIMIT}\n[middleware.settings]\nname = {{ code = 'a', x = 1 }}"), "has 'code' w"),
        (entry(f"{LIMIT}\n[middleware.settings]\nrun_limit = -1"), "cannot be built: run_limit"),
        (
            entry(f'{LIMIT}\n[middleware.settings]\nrun_limit = {{ class = "Path" }}'),
            "A file may hold BubblewrapExecutionPolicy, ",
        ),
        (
            entry(f'{LIMIT}\n[middleware.settings]\nrun_limit = {{ class = "Limits", turn = 1 }}'),
            "run_limit: has 'turn', which is unknown. Did you mean turns?",
        ),
        (
            entry(f'{LIMIT}\n[middleware.settings]\nrun_limit = {{ code = "m:f" }}'),
            "needs 'm:f', which is code",
        ),
        (entry('code = "Mine"'), "needs 'Mine', which is code. Pass code={'Mine': ...}."),
        (
            entry(
                'class = "agent_factory.middleware:ModelFallbackMiddleware"\n'
                "[middleware.settings]\nadditional_models = []"
            ),
            "lacks the setting 'first_model'",
        ),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        load_stack(text)
    assert words in str(caught.value)
    if "[[middleware]]" in text:
        assert "middleware 1" in str(caught.value)


def test_code_that_is_no_middleware_or_missing_is_refused() -> None:
    with pytest.raises(ArgumentError, match="needs a middleware as code"):
        load_stack(entry('code = "Mine"'), {"Mine": 5})
    with pytest.raises(ArgumentError, match="Did you mean 'Mine'"):
        load_stack(entry('code = "Mine"'), {"Mine": passing, "Mime": 5})
    with pytest.raises(ArgumentError, match="or None for the default"):
        load_stack(dump_stack([Closed(3)]))  # no attribute holds its argument


def test_the_command_writes_the_stack_of_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("typer", reason="the extra cli is not installed")
    from commands import run

    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(
        "from agent_factory import create_agent\n"
        "from agent_factory.middleware import ModelCallLimitMiddleware, TodoListMiddleware\n"
        "from agent_factory.testing import ScriptedChatModel\n"
        "def refund() -> str:\n    'Refund.'\n"
        "stack = [ModelCallLimitMiddleware(run_limit=3), TodoListMiddleware()]\n"
        "agent = create_agent(ScriptedChatModel([]), [refund], middleware=stack)\n",
        encoding="utf-8",
    )
    result = run("show", "shop:agent", "--format", "toml")
    assert result.exit_code == 0, result.output
    stack: list[Any] = [m.ModelCallLimitMiddleware(run_limit=3), m.TodoListMiddleware()]

    def refund() -> str:
        """Refund."""
        return ""

    agent = create_agent(ScriptedChatModel([]), [refund], middleware=stack)
    loaded = load_stack(result.output)
    assert plan_agent(tools=[refund], middleware=loaded).digest == topology_of(agent).digest
    assert [tool["name"] for tool in tomllib.loads(result.output)["tools"]] == ["refund"]
    assert run("show", "shop:stack", "-o", "stack.toml").exit_code == 0
    assert len(load_stack("stack.toml")) == 2
    assert run("show", "shop:stack", "-o", "plan.json").exit_code == 0
    refused = run("show", "plan.json", "--format", "toml")
    assert (refused.exit_code, "Name the agent" in refused.output) == (2, True)


class Retry(AgentMiddleware):
    pass


class Slow(Retry):
    pass


class Guard(AgentMiddleware):
    pass


A, B, G = Retry(name="a"), Retry(name="b"), Guard()


def names(members: list[Any]) -> list[str]:
    return [member.name for member in members]


def test_members_are_found_by_name_by_class_and_by_the_name_of_a_class() -> None:
    assert stack.find([A, B, G], "b") is B
    assert stack.find([A, G], Guard) is G
    assert stack.find([A, G], "Retry") is A
    slow = Slow()
    assert stack.find([slow, G], Retry) is slow
    named = Guard(name="Retry")  # the name of a member takes precedence over a class
    assert stack.find([A, named], "Retry") is named
    assert stack.find([A, named], Retry) is A


def test_every_change_is_a_new_list() -> None:
    before = [A, B]
    assert names(stack.insert_before(before, "b", G)) == ["a", "Guard", "b"]
    assert names(stack.insert_after(before, "b", G)) == ["a", "b", "Guard"]
    assert names(stack.replace(before, "a", G)) == ["Guard", "b"]
    assert names(stack.replace(before, "a", G, Slow())) == ["Guard", "Slow", "b"]
    assert names(stack.remove(before, "a")) == ["b"]
    assert before == [A, B]


@each(
    "which, hint",
    [
        ("zebra", "The members are a, b, Guard."),
        ("Gaurd", "Did you mean Guard?"),
        (Slow, "The members are a, b"),
    ],
)
def test_a_name_that_is_not_there_is_an_error_that_helps(which: Any, hint: str) -> None:
    with pytest.raises(UnknownMember) as caught:
        stack.remove([A, B, G], which)
    assert caught.value.hint.startswith(hint)
    with pytest.raises(LookupError, match="The stack is empty"):
        stack.find([], which)


@pytest.mark.parametrize("which", ["Retry", Retry])
def test_a_class_with_several_members_lists_them(which: Any) -> None:
    with pytest.raises(UnknownMember, match="Use one of their names: a, b"):
        stack.insert_before([A, B, G], which, Guard(name="other"))
