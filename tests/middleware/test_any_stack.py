"""Laws of every built-in middleware, and of random stacks of them."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.exceptions import ModelAuthenticationError
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from stack_agents import kept_agent

from agent_factory import (
    AgentMiddleware,
    ModelRequest,
    ModelResponse,
    OutputError,
    SpecError,
    ToolCallRequest,
    arun,
    create_agent,
    create_react_agent,
    omit_payload,
    plan_agent,
    run,
)
from agent_factory import middleware as mw
from agent_factory.testing import ScriptedChatModel, assert_valid_history, check_middleware
from samples import THREAD, add, add_tool
from stack_tools import break_down, find
from tables import each

Member = AgentMiddleware[Any, Any]
TOOLS = ("find", "break_down", "write_todos", "nobody")


class Talker(FakeListChatModel):
    """Never calls a tool."""

    def bind_tools(self, tools: Any, **_: Any) -> Talker:
        return self


def words() -> Talker:
    return Talker(responses=["In short."])


BUILT_INS: dict[str, Callable[[], Member]] = {
    "answers": lambda: mw.AnswerGuardMiddleware(max_retries=1),
    "auto_mode": lambda: mw.AutoModeMiddleware(tools=["find"], classifier=words()),
    "background": lambda: mw.BackgroundMiddleware(),
    "budget": lambda: mw.BudgetMiddleware(run=mw.Limits(turns=4, tool_calls=3)),
    "budget_end": lambda: mw.BudgetMiddleware(
        run=mw.Limits(total_tokens=4000), exit_behavior="end", name="tokens"
    ),
    "caching": lambda: mw.PromptCachingMiddleware(min_tokens=0, provider="anthropic"),
    "clearing": lambda: mw.ContextEditingMiddleware(
        edits=[mw.ClearToolUsesEdit(trigger=30, keep=1)]
    ),
    "clearing_thread": lambda: mw.ContextEditingMiddleware(
        edits=[mw.ClearToolUsesEdit(trigger=40, keep=1)],
        keep_thread=False,
        name="clears the thread",
    ),
    "client_tools": lambda: mw.ClientToolsMiddleware(),
    "emulator": lambda: mw.LLMToolEmulator(tools=["find"], model=words()),
    "fallback": lambda: mw.ModelFallbackMiddleware(words()),
    "flow_guard": lambda: mw.FlowGuardMiddleware(action="deny"),
    "guard": lambda: mw.GuardMiddleware(lambda _: None),
    "guard_answer": lambda: mw.GuardMiddleware(lambda _: None, on="answer", name="answers"),
    "guard_result": lambda: mw.GuardMiddleware(lambda _: None, on="result", name="results"),
    "limit": lambda: mw.ModelCallLimitMiddleware(run_limit=3),
    "limit_answer": lambda: mw.ModelCallLimitMiddleware(
        run_limit=2, exit_behavior="answer", name="answering"
    ),
    "once": lambda: mw.OnceMiddleware(
        {}, default="fail", store=mw.InMemoryEffects(), undo={"x": print}
    ),
    "pii": lambda: mw.PIIMiddleware(
        "email", apply_to_output=True, apply_to_tool_results=True, apply_to_tool_calls=True
    ),
    "progress": lambda: mw.ProgressGuardMiddleware(
        remark_after=1, withhold_after=1, answer_after=2, error_after=1
    ),
    "provider": lambda: mw.ProviderToolSearchMiddleware(provider="anthropic"),
    "refusal": lambda: mw.ModelRefusalMiddleware(words()),
    "retry": lambda: mw.ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False),
    "review": lambda: mw.HumanInTheLoopMiddleware({"find": True, "break_down": True}),
    "router": lambda: mw.ModelRouterMiddleware(
        choices={"same": mw.ModelChoice(words(), "always")}, classifier=lambda request: "same"
    ),
    "selector": lambda: mw.LLMToolSelectorMiddleware(
        model=words(), max_tools=1, max_retries=0, on_parsing_failure="all"
    ),
    "steering": lambda: mw.SteeringMiddleware(),
    "summary": lambda: mw.SummarizationMiddleware(
        words(), trigger=("messages", 5), keep=("messages", 2)
    ),
    "summary_thread": lambda: mw.SummarizationMiddleware(
        words(), trigger=("messages", 6), keep=("messages", 2), keep_thread=False, name="thread"
    ),
    "todo": lambda: mw.TodoListMiddleware(),
    "tool_error": lambda: mw.ToolErrorMiddleware(),
    "tool_limit": lambda: mw.ToolCallLimitMiddleware(run_limit=3),
    "tool_limit_end": lambda: mw.ToolCallLimitMiddleware(
        tool_name="find", run_limit=1, exit_behavior="end"
    ),
    "tool_offload": lambda: mw.ToolResultOffloadMiddleware(threshold=10, preview=5),
    "tool_retry": lambda: mw.ToolRetryMiddleware(max_retries=1, initial_delay=0, jitter=False),
}
"""Each built-in, set up so that it acts soon. The shell and file search only bring tools."""


def built_in_classes() -> set[type[Member]]:
    classes = {getattr(mw, name) for name in mw.__all__} - {AgentMiddleware}
    return {c for c in classes if isinstance(c, type) and issubclass(c, AgentMiddleware)}


def test_every_built_in_takes_part(tmp_path: Path) -> None:
    made = [make() for make in BUILT_INS.values()]
    made += [mw.ShellToolMiddleware(), mw.FilesystemFileSearchMiddleware(root_path=tmp_path)]
    assert {type(member) for member in made} == built_in_classes()


LASTING = ("thread", "interrupt_")
"""How the parameters begin that only make sense with what is kept between runs of a thread."""

NEED_A_CHECKPOINTER: dict[type[Member], list[dict[str, Any]]] = {
    mw.BudgetMiddleware: [
        {"thread": mw.Limits(turns=4)},
        {"run": mw.Limits(turns=4), "exit_behavior": "ask"},
    ],
    mw.BackgroundMiddleware: [{}],
    mw.ClientToolsMiddleware: [{}],
    mw.FlowGuardMiddleware: [{}],
    mw.HumanInTheLoopMiddleware: [
        {"interrupt_on": {"find": True}, "interrupt_mode": mode} for mode in ("batched", "per_call")
    ],
    mw.OnceMiddleware: [{"effects": {"find": "ask"}}],
    mw.ModelCallLimitMiddleware: [{"thread_limit": 3}, {"thread_limit": 3, "run_limit": 1}],
    mw.SteeringMiddleware: [{}],
    mw.ToolCallLimitMiddleware: [{"thread_limit": 3}, {"tool_name": "find", "thread_limit": 3}],
}
"""Arguments with which a built-in depends on what is kept between runs of a thread."""

NEED_NONE: list[Callable[[], Member]] = [
    lambda: mw.BudgetMiddleware(run=mw.Limits(turns=4), thread=mw.Limits()),
    *(
        make
        for name, make in BUILT_INS.items()
        if name not in ("background", "client_tools", "once", "review", "steering")
    ),
    mw.ShellToolMiddleware,
    lambda: mw.FilesystemFileSearchMiddleware(root_path="."),
]


def checkpointer_warnings(member: Member) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        create_agent(model([]), [find, break_down], middleware=[member])
    return [str(one.message) for one in caught if "[AF211]" in str(one.message)]


@each("kind", NEED_A_CHECKPOINTER)
def test_what_depends_on_earlier_runs_asks_for_a_checkpointer(kind: type[Member]) -> None:
    for arguments in NEED_A_CHECKPOINTER[kind]:
        (warning,) = checkpointer_warnings(kind(**arguments))
        assert "needs a checkpointer" in warning


@each("make", NEED_NONE)
def test_what_depends_on_one_run_asks_for_no_checkpointer(make: Callable[[], Member]) -> None:
    assert checkpointer_warnings(make()) == []


def test_every_argument_about_a_thread_is_tested_for_its_checkpointer() -> None:
    for kind in built_in_classes():
        lasting = {n for n in inspect.signature(kind).parameters if n.startswith(LASTING)}
        tested = {name for given in NEED_A_CHECKPOINTER.get(kind, []) for name in given}
        assert lasting <= tested, kind


@each("mode", ["sync", "async"])
@each(
    "name",
    [
        *("answers", "budget", "fallback", "limit", "progress", "refusal", "retry", "router"),
        *("tool_error", "tool_limit", "tool_retry"),
    ],
)
def test_the_flows_of_a_built_in_run_outside_of_an_agent(name: str, mode: str) -> None:
    """As tests of products call them; retries call a handler again that has failed."""
    member: Any = BUILT_INS[name]()
    asked = ToolCall(name="find", args={"query": "x"}, id="1", type="tool_call")
    state: Any = {"messages": [AIMessage("", tool_calls=[asked])]}
    model_request = ModelRequest(model=words(), messages=[HumanMessage("Hi")], state=state)
    tool_request = ToolCallRequest(asked, tool(find), state, cast("Any", None))
    answer = AIMessage("so")
    for flow, request, result in (
        ("around_model", model_request, ModelResponse([answer])),
        ("around_tool", tool_request, ToolMessage("so", tool_call_id="1", name="find")),
    ):
        if getattr(type(member), flow, None) in (None, getattr(AgentMiddleware, flow, None)):
            continue
        results: list[Any] = [ConnectionError("down"), result]

        def handler(_: Any, results: list[Any] = results) -> Any:
            given = results.pop(0 if "retry" in name else -1)
            if isinstance(given, Exception):
                raise given
            return given

        async def ahandler(request: Any, handler: Any = handler) -> Any:
            return handler(request)

        steps = getattr(member, flow)(request)
        if mode == "sync":
            returned: Any = run(steps, handler)
        else:
            returned = asyncio.run(arun(steps, ahandler))
        assert "so" in str(returned)


Answer = list[tuple[str, int]] | str


def answers() -> st.SearchStrategy[list[Answer]]:
    calls = st.lists(st.tuples(st.sampled_from(TOOLS), st.integers(0, 3)), min_size=1, max_size=3)
    return st.lists(calls | st.sampled_from(["Done.", "Write to ada@example.com."]), max_size=5)


def model(script: Sequence[Answer]) -> ScriptedChatModel:
    """Says what the script says, however often it is asked, and then that it is done."""
    steps: list[Any] = [_step(answer) for answer in script]
    return ScriptedChatModel([*steps, *["Done."] * 40])


def _step(answer: Answer) -> Any:
    if isinstance(answer, str):
        return answer
    return [{"name": name, "args": _args(name, number)} for name, number in answer]


def _args(name: str, number: int) -> dict[str, Any]:
    if name != "write_todos":
        return {"query": f"{number} ada@example.com"}
    return {"todos": [{"content": str(number), "status": "pending"}] * (number % 3)}


def assert_valid(messages: Sequence[AnyMessage]) -> None:
    assert_valid_history(messages)
    ids = [message.id for message in messages]
    assert len(ids) == len(set(ids))


def decisions(question: Any) -> dict[str, Any]:
    kinds = cycle([{"type": "approve"}, {"type": "reject"}])
    return {"decisions": [next(kinds) for _ in question["action_requests"]]}


@pytest.mark.long
@pytest.mark.parametrize("mode", ["sync", "async"])
@settings.get_profile("costly")
@given(
    names=st.lists(st.sampled_from(sorted(BUILT_INS)), unique=True, max_size=6),
    script=answers(),
    structured=st.booleans(),
)
def test_any_stack_keeps_histories_valid_and_ends(
    mode: str, names: list[str], script: list[Answer], structured: bool
) -> None:
    schema = {"title": "Report", "type": "object", "properties": {"text": {"type": "string"}}}
    report = [{"name": "Report", "args": {"text": "all done"}}]
    chat = model(script)
    if structured:
        chat = ScriptedChatModel([*map(_step, script), *[report] * 40])
    agent: Any = kept_agent(
        chat,
        *(BUILT_INS[name]() for name in names),
        tools=[find, break_down],
        response_format=schema if structured else None,
        handle_tool_errors=True,
    )
    config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 400}

    def answer(value: Any) -> Any:
        if mode == "sync":
            return agent.invoke(value, config)
        return asyncio.run(agent.ainvoke(value, config))

    for line in ("I am ada@example.com", "And now?"):
        try:
            result = answer({"messages": [("user", line)]})
            while "__interrupt__" in result:
                result = answer(Command(resume=decisions(result["__interrupt__"][0].value)))
            assert agent.get_state(config).next == ()
        except OutputError:  # a Talker gives no structured answer, however often it is asked
            assert structured
        assert_valid(agent.get_state(config).values["messages"])


# Each built-in


Arguments = dict[str, Any]

KINDS = {kind.__name__: kind for kind in built_in_classes()}

ARGUMENTS: dict[str, Callable[[], Arguments]] = {
    "AutoModeMiddleware": lambda: {
        "classifier": ScriptedChatModel(),
        "tools": ["add"],
        "criteria": {"true": {"mail": ["abroad"]}},
    },
    "BudgetMiddleware": lambda: {
        "run": mw.Limits(turns=9),
        "warn_at": [0.5, 0.8],
        "prices": {"scripted": mw.Price(input=1.0, output=2.0)},
    },
    "ClearToolUsesEdit": lambda: {"exclude_tools": ["add"]},
    "ContextEditingMiddleware": lambda: {"edits": [mw.ClearToolUsesEdit()]},
    "FilesystemFileSearchMiddleware": lambda: {"root_path": Path(__file__).parent},
    "FlowGuardMiddleware": lambda: {"seen": ["private"], "reviewers": ["finance"]},
    "GuardMiddleware": lambda: {"check": lambda _: None, "on": "call", "tools": ["add"]},
    "HumanInTheLoopMiddleware": lambda: {
        "interrupt_on": {
            "add": {"allowed_decisions": ["approve"], "args_schema": {"properties": {"a": {}}}}
        }
    },
    "LLMToolEmulator": lambda: {"tools": ["add", add_tool]},
    "LLMToolSelectorMiddleware": lambda: {"always_include": ["add"], "on_parsing_failure": ["add"]},
    "ModelCallLimitMiddleware": lambda: {"run_limit": 3},
    "ModelFallbackMiddleware": lambda: {"first_model": (ScriptedChatModel(), {"stop": ["x"]})},
    "ModelRefusalMiddleware": lambda: {"*": [(ScriptedChatModel(), {"stop": ["x"]})]},
    "ModelRouterMiddleware": lambda: {
        "choices": {"one": mw.ModelChoice((ScriptedChatModel(), {"stop": ["x"]}), "all")},
        "classifier": lambda request: "one",
    },
    "OnceMiddleware": lambda: {"effects": {"add": "ask"}, "undo": {"add": lambda effect: None}},
    "PIIMiddleware": lambda: {"pii_type": "email"},
    "ProgressGuardMiddleware": lambda: {
        "polling_tools": {"add": 9},
        "ignore_tools": ["add"],
        "ignore_arguments": ["page"],
    },
    "ProviderToolSearchMiddleware": lambda: {"searchable_tools": ["add"]},
    "Rule": lambda: {
        "tool": "add",
        "action": "ask",
        "when": {"a": {"in": [1, 2]}},
        "reviewers": ["ann"],
        "allowed_decisions": ["approve"],
        "args_schema": {"properties": {"a": {}}},
    },
    "ShellToolMiddleware": lambda: {
        "startup_commands": ["ls"],
        "shutdown_commands": ["ls"],
        "redaction_rules": [mw.RedactionRule("email")],
        "shell_command": ["/bin/sh"],
        "env": {"A": "1"},
    },
    "SummarizationMiddleware": lambda: {
        "model": ScriptedChatModel(),
        "trigger": [("messages", 9), {"tokens": 100, "messages": 2}],
    },
    "ToolCallLimitMiddleware": lambda: {"run_limit": 3},
    "ToolErrorMiddleware": lambda: {"tools": ["add"]},
    "ToolResultOffloadMiddleware": lambda: {"namespace": ["results"]},
    "ToolRetryMiddleware": lambda: {"tools": ["add"], "idempotent_tools": ["add"]},
}
"""Every argument of a built-in, or of a value for one, that takes a list, a dict or a set, and what
a built-in cannot be made without."""

NO_CONTAINERS = {
    *("AnswerGuardMiddleware", "BackgroundMiddleware", "ClientToolsMiddleware"),
    *("ModelRetryMiddleware", "PromptCachingMiddleware", "SteeringMiddleware"),
    "TodoListMiddleware",
}
"""Built-ins that are made without arguments, and take no list, dict or set."""


def built(name: str, arguments: Arguments | None = None) -> Any:
    """A built-in, or a value for one, with its arguments."""
    arguments = ARGUMENTS.get(name, dict)() if arguments is None else arguments
    return getattr(mw, name)(*arguments.pop("*", ()), **arguments)


HERE = [name for name in KINDS if name != "ShellToolMiddleware" or os.name == "posix"]
"""The built-ins that work on this system."""


LAWFUL: dict[str, Callable[[], Member]] = {
    **BUILT_INS,
    "labels that are asked about": mw.FlowGuardMiddleware,
    "labels with a policy": lambda: mw.FlowGuardMiddleware(
        mw.ToolPolicy(mw.Rule("search", "deny", when={"seen": "untrusted"})), action="deny"
    ),
    "caching of OpenAI": lambda: mw.PromptCachingMiddleware(
        provider="openai", openai_cache_key=True
    ),
    "effects that are asked about": lambda: mw.OnceMiddleware(
        {}, default="ask", store=mw.InMemoryEffects()
    ),
    "results in the store": lambda: mw.ToolResultOffloadMiddleware(place="store", threshold=3),
}
"""Each built-in, and other settings."""

SAME = ["sync_equals_async", "idempotent"]
WITHOUT = {
    "budget": SAME,  # a moment is recorded
    "budget_end": SAME,
    "guard": SAME[:1],  # an id is recorded, which is new in each run
    "guard_result": SAME[:1],
    "router": ["leaves_agents_alone"],  # another model answers
    "results in the store": ["leaves_agents_alone"],  # its agent has no store
}
"""Laws that a built-in does not keep."""


MANY = pytest.param(20, marks=[pytest.mark.night, pytest.mark.timeout(600)])


@pytest.mark.long
@pytest.mark.parametrize("examples", [5, MANY])
@each("name", LAWFUL)
def test_each_built_in_keeps_the_laws_of_middleware(name: str, examples: int) -> None:
    store = InMemoryStore() if name == "results in the store" else None
    laws: Any = {"without": WITHOUT.get(name, ()), "max_examples": examples, "store": store}
    check_middleware(LAWFUL[name], config=THREAD, **laws)


NOT_SETTINGS: dict[str, set[str]] = {
    # Deprecated names of `trigger` and `keep`, which hold their values.
    "SummarizationMiddleware": {"max_tokens_before_summary", "messages_to_keep", "summary_prefix"}
}
"""Parameters that are not attributes, for a reason."""


@each("name", HERE)
def test_a_built_in_has_its_own_list_of_tools_and_an_attribute_for_each_parameter(
    name: str,
) -> None:
    """Code written for LangChain adds to the list. Plans show parameters as settings."""
    built_in = built(name)
    assert isinstance(built_in.tools, list)
    names = inspect.signature(type(built_in).__init__).parameters.keys() - {"self"}
    held = {f"{name.removesuffix('s')}_names": name for name in names if name.endswith("tools")}
    attributes = dir(built_in)
    missing = names - {held.get(name, name) for name in attributes} - set(attributes)
    assert missing == NOT_SETTINGS.get(type(built_in).__name__, set())
    built_in.tools.append({"name": "another"})
    assert built_in.tools[-1] not in built(name).tools


@each("name", HERE)
def test_no_built_in_waits_for_files_in_an_event_loop(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may be slow, and all other tasks of the loop would wait."""
    built(name)  # imports what it needs

    def refuse(*args: object, **options: object) -> object:
        raise AssertionError(f"waits for {args}")

    async def make_it() -> Member:
        with monkeypatch.context() as patch:
            for function in ("getcwd", "stat", "lstat", "readlink", "scandir", "mkdir", "access"):
                patch.setattr(os, function, refuse)
            patch.setattr("builtins.open", refuse)
            patch.setattr("time.sleep", refuse)
            return cast("Member", built(name))

    assert asyncio.run(make_it()).name == built(name).name


def containers(value: object, seen: set[int]) -> Iterator[object]:
    """The lists, dicts and sets that can be reached from a value, through objects of ours too."""
    if id(value) in seen or isinstance(value, BaseChatModel | BaseTool | type):
        return
    seen.add(id(value))
    inner: list[object] = []
    if isinstance(value, Mapping):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = list(value)
    elif type(value).__module__.startswith("agent_factory"):
        inner = list(getattr(value, "__dict__", {}).values())
        if dataclasses.is_dataclass(value):
            inner += [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, list | dict | set):
        yield value
    for part in inner:
        yield from containers(part, seen)


@each("name", ARGUMENTS)
def test_no_container_of_the_caller_is_kept(name: str) -> None:
    """The caller may change it afterwards."""
    arguments = ARGUMENTS[name]()
    callers = {id(c): c for c in containers(list(arguments.values()), set())}
    assert [c for c in containers(built(name, arguments), set()) if id(c) in callers] == []


def test_the_arguments_of_every_built_in_are_known() -> None:
    assert KINDS.keys() <= ARGUMENTS.keys() | NO_CONTAINERS


NAMING: dict[str, Callable[[str], Arguments]] = {
    "AutoModeMiddleware.tools": lambda n: {"classifier": ScriptedChatModel(), "tools": [n]},
    "ContextEditingMiddleware.edits": lambda n: {
        "edits": [mw.ClearToolUsesEdit(exclude_tools=[n])]
    },
    "GuardMiddleware.tools": lambda n: {"check": lambda _: None, "on": "call", "tools": [n]},
    "HumanInTheLoopMiddleware.interrupt_on": lambda n: {"interrupt_on": {n: True}},
    "LLMToolEmulator.tools": lambda n: {"tools": [n]},
    "LLMToolSelectorMiddleware.always_include": lambda n: {"always_include": [n]},
    "LLMToolSelectorMiddleware.on_parsing_failure": lambda n: {"on_parsing_failure": [n]},
    "OnceMiddleware.effects": lambda n: {"effects": {n: "ask"}},
    "ProgressGuardMiddleware.ignore_tools": lambda n: {"ignore_tools": [n]},
    "ProgressGuardMiddleware.polling_tools": lambda n: {"polling_tools": {n: 9}},
    "ProviderToolSearchMiddleware.searchable_tools": lambda n: {"searchable_tools": [n]},
    "ToolCallLimitMiddleware.tool_name": lambda n: {"tool_name": n, "run_limit": 1},
    "ToolErrorMiddleware.tools": lambda n: {"tools": [n]},
    "ToolRetryMiddleware.idempotent_tools": lambda n: {"idempotent_tools": [n]},
    "ToolRetryMiddleware.tools": lambda n: {"tools": [n]},
}
"""Each argument of a built-in that names tools."""

OTHERS = {
    "ClientToolsMiddleware.max_tools",
    "FilesystemFileSearchMiddleware.tool_prefix",
    "LLMToolSelectorMiddleware.max_tools",
    "ShellToolMiddleware.tool_description",
    "ShellToolMiddleware.tool_name",
    "TodoListMiddleware.tool_description",
    "ToolResultOffloadMiddleware.tool_name",
}
"""Arguments about tools that name none, or one that the built-in brings."""


@each("argument", NAMING)
def test_a_built_in_is_not_built_for_a_misspelt_tool(argument: str) -> None:
    def refund(order: str) -> str:
        """Pay the money back."""
        return order

    wrong, right = (
        built(argument.partition(".")[0], NAMING[argument](name)) for name in ("refnd", "refund")
    )
    with pytest.raises(SpecError, match=r"AF124.* Write 'refund'") as caught:
        plan_agent(tools=[refund], middleware=[wrong], checkpointer=True)
    assert [error.code for error in caught.value.errors] == ["AF124"]
    assert "refund" in right.expected_tools


def test_each_argument_that_names_tools_is_known() -> None:
    arguments = {
        f"{name}.{parameter}"
        for name, kind in KINDS.items()
        for parameter in inspect.signature(kind).parameters
        if "tool" in parameter and not parameter.startswith("apply_to_")
    }
    assert arguments <= NAMING.keys() | OTHERS


@each("name", KINDS)
def test_spans_of_a_built_in_leave_out_the_request_unless_those_of_langchains_have_it(
    name: str,
) -> None:
    theirs: Any = pytest.importorskip("langchain.agents.middleware", reason="the extra peer")
    policy, other = KINDS[name].trace_policy, getattr(theirs, name, None)
    if other is not None and other.trace_policy is None and name != "PIIMiddleware":
        assert policy is None
    else:
        assert policy is not None
        assert (policy.process_inputs, policy.process_outputs) == (omit_payload, None)


ASKING: dict[str, Callable[[ScriptedChatModel], Member]] = {
    "auto mode": lambda model: mw.AutoModeMiddleware(classifier=model),
    "emulator": lambda model: mw.LLMToolEmulator(model=model),
    "router": lambda model: mw.ModelRouterMiddleware(
        choices={"same": mw.ModelChoice(ScriptedChatModel([]), "all")}, classifier=model
    ),
    "selector": lambda model: mw.LLMToolSelectorMiddleware(model=model, max_tools=1),
    "summary": lambda model: mw.SummarizationMiddleware(
        model, trigger=("messages", 2), keep=("messages", 1)
    ),
}


@each("name", ASKING)
def test_a_model_that_a_built_in_asks_is_asked_once_with_an_invalid_key(
    call: Any, name: str
) -> None:
    asked = ScriptedChatModel([ModelAuthenticationError("invalid key")] * 9)
    steps = [[{"name": "add", "args": {"a": 1, "b": 2}}], "3."]
    agent = create_agent(ScriptedChatModel(steps), [add, find], middleware=[ASKING[name](asked)])
    messages = [("user", "Hello"), ("ai", "Hello."), ("user", "1 + 2?")]
    with suppress(ModelAuthenticationError):  # a judge that fails blocks the call instead
        call(agent, {"messages": messages})
    assert len(asked.requests) == 1


# A model that a built-in gets by its name is made when the built-in is, not when it is needed


GPT = "openai:gpt-5"


MAKERS: dict[str, Callable[[], Any]] = {
    "create_agent": lambda: create_agent(GPT),
    "create_react_agent": lambda: create_react_agent(GPT, []),
    "fallback": lambda: mw.ModelFallbackMiddleware(GPT),
    "second fallback": lambda: mw.ModelFallbackMiddleware(ScriptedChatModel(), GPT),
    "fallback with settings": lambda: mw.ModelFallbackMiddleware((GPT, {"temperature": 0})),
    "refusal": lambda: mw.ModelRefusalMiddleware(GPT),
    "choice": lambda: mw.ModelRouterMiddleware(
        choices={"one": mw.ModelChoice(GPT)}, classifier=lambda request: "one"
    ),
    "classifier": lambda: mw.ModelRouterMiddleware(
        choices={"one": mw.ModelChoice(ScriptedChatModel(), "all")}, classifier=GPT
    ),
    "auto mode": lambda: mw.AutoModeMiddleware(classifier=GPT),
    "judge": lambda: mw.HumanInTheLoopMiddleware(mw.ToolPolicy(mw.Rule("*", "judge"), judge=GPT)),
    "summaries": lambda: mw.SummarizationMiddleware(GPT),
    "summarizer": lambda: mw.SummarizationMiddleware(ScriptedChatModel(), summarizer=GPT),
    "selection": lambda: mw.LLMToolSelectorMiddleware(model=GPT),
    "emulator": lambda: mw.LLMToolEmulator(model=GPT),
    "budget": lambda: mw.BudgetMiddleware(run=mw.Limits(total_tokens=9), cheaper=GPT),
}
"""Everything that takes a model by name."""


def fake_langchain(monkeypatch: pytest.MonkeyPatch, outcome: Any) -> list[str]:
    """Install a langchain whose function returns or raises something; the names it is given."""
    names: list[str] = []

    def init_chat_model(name: str) -> Any:
        names.append(name)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    models = types.ModuleType("langchain.chat_models")
    models.init_chat_model = init_chat_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain", types.ModuleType("langchain"))
    monkeypatch.setitem(sys.modules, "langchain.chat_models", models)
    return names


@each("maker", MAKERS)
def test_without_langchain_or_the_package_of_the_provider_the_build_fails(
    maker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = fake_langchain(monkeypatch, ImportError("pip install langchain-openai"))
    with pytest.raises(ImportError, match="langchain-openai"):
        MAKERS[maker]()
    assert names == [GPT]
    monkeypatch.setitem(sys.modules, "langchain", None)
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(ImportError) as caught:
        MAKERS[maker]()
    assert str(caught.value) == (
        "Please install langchain (`pip install langchain`) to use '<provider>:<model>' string "
        "syntax for `model` parameter."
    )
    if maker == "second fallback":
        making = "Raised while making ModelFallbackMiddleware model 2, 'openai:gpt-5'."
        assert caught.value.__notes__ == [making]


def test_a_name_is_made_into_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedChatModel(["one"])
    names = fake_langchain(monkeypatch, model)
    fallback = mw.ModelFallbackMiddleware(GPT)
    assert (fallback.models, names) == ([model], [GPT])
    agent = create_agent(ScriptedChatModel([ConnectionError()]), middleware=[fallback])
    assert agent.invoke({"messages": [("user", "Hi")]})["messages"][-1].text == "one"
    assert names == [GPT]
