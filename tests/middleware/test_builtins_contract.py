"""Laws that hold for every built-in middleware."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.exceptions import ModelAuthenticationError
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from agent_factory import (
    AgentMiddleware,
    SpecError,
    create_agent,
    middleware,
    omit_payload,
    plan_agent,
)
from agent_factory.testing import ScriptedChatModel
from samples import add, add_tool, find
from tables import each

Member = AgentMiddleware[Any, Any]
Arguments = dict[str, Any]

BUILT_INS: dict[str, type[Member]] = {
    name: built_in
    for name in middleware.__all__
    if inspect.isclass(built_in := getattr(middleware, name))
    and issubclass(built_in, AgentMiddleware)
    and built_in is not AgentMiddleware
}

ARGUMENTS: dict[str, Callable[[], Arguments]] = {
    "AutoModeMiddleware": lambda: {
        "classifier": ScriptedChatModel(),
        "tools": ["add"],
        "criteria": {"true": {"mail": ["abroad"]}},
    },
    "BudgetMiddleware": lambda: {
        "run": middleware.Limits(turns=9),
        "warn_at": [0.5, 0.8],
        "prices": {"scripted": middleware.Price(input=1.0, output=2.0)},
    },
    "ClearToolUsesEdit": lambda: {"exclude_tools": ["add"]},
    "ContextEditingMiddleware": lambda: {"edits": [middleware.ClearToolUsesEdit()]},
    "FilesystemFileSearchMiddleware": lambda: {"root_path": Path(__file__).parent},
    "FlowGuardMiddleware": lambda: {"seen": ["private"], "reviewers": ["finance"]},
    "GuardMiddleware": lambda: {"check": lambda _: None, "on": "call", "tools": ["add"]},
    "HumanInTheLoopMiddleware": lambda: {
        "interrupt_on": {
            "add": {"allowed_decisions": ["approve"], "args_schema": {"properties": {"a": {}}}}
        }
    },
    "LLMToolEmulator": lambda: {"tools": ["add", add_tool]},
    "LLMToolSelectorMiddleware": lambda: {
        "always_include": ["add"],
        "on_parsing_failure": ["add"],
    },
    "ModelCallLimitMiddleware": lambda: {"run_limit": 3},
    "ModelFallbackMiddleware": lambda: {"first_model": (ScriptedChatModel(), {"stop": ["x"]})},
    "ModelRefusalMiddleware": lambda: {"*": [(ScriptedChatModel(), {"stop": ["x"]})]},
    "ModelRouterMiddleware": lambda: {
        "choices": {"one": middleware.ModelChoice((ScriptedChatModel(), {"stop": ["x"]}), "all")},
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
        "redaction_rules": [middleware.RedactionRule("email")],
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
    return getattr(middleware, name)(*arguments.pop("*", ()), **arguments)


HERE = [name for name in BUILT_INS if name != "ShellToolMiddleware" or os.name == "posix"]
"""The built-ins that work on this system."""


@each("name", HERE)
def test_each_built_in_has_its_own_list_of_tools(name: str) -> None:
    """Code written for LangChain adds to it."""
    tools = built(name).tools
    assert isinstance(tools, list)
    tools.append({"name": "another"})
    assert tools[-1] not in built(name).tools


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


NOT_SETTINGS: dict[str, set[str]] = {
    # Deprecated names of `trigger` and `keep`, which hold their values.
    "SummarizationMiddleware": {"max_tokens_before_summary", "messages_to_keep", "summary_prefix"},
}
"""Parameters that are not attributes, for a reason."""


@each("name", HERE)
def test_each_parameter_of_a_built_in_is_an_attribute(name: str) -> None:
    """Plans show such parameters as settings."""
    built_in = built(name)
    names = inspect.signature(type(built_in).__init__).parameters.keys() - {"self"}
    held = {f"{name.removesuffix('s')}_names": name for name in names if name.endswith("tools")}
    attributes = dir(built_in)
    missing = names - {held.get(name, name) for name in attributes} - set(attributes)
    assert missing == NOT_SETTINGS.get(type(built_in).__name__, set())


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
    shared = [c for c in containers(built(name, arguments), set()) if id(c) in callers]
    assert shared == []


def test_the_arguments_of_every_built_in_are_known() -> None:
    assert BUILT_INS.keys() <= ARGUMENTS.keys() | NO_CONTAINERS


NAMING: dict[str, Callable[[str], Member]] = {
    "AutoModeMiddleware.tools": lambda name: middleware.AutoModeMiddleware(
        classifier=ScriptedChatModel(), tools=[name]
    ),
    "ContextEditingMiddleware.edits": lambda name: middleware.ContextEditingMiddleware(
        edits=[middleware.ClearToolUsesEdit(exclude_tools=[name])]
    ),
    "GuardMiddleware.tools": lambda name: middleware.GuardMiddleware(
        lambda _: None, on="call", tools=[name]
    ),
    "HumanInTheLoopMiddleware.interrupt_on": lambda name: middleware.HumanInTheLoopMiddleware(
        {name: True}
    ),
    "LLMToolEmulator.tools": lambda name: middleware.LLMToolEmulator(tools=[name]),
    "LLMToolSelectorMiddleware.always_include": lambda name: middleware.LLMToolSelectorMiddleware(
        always_include=[name]
    ),
    "LLMToolSelectorMiddleware.on_parsing_failure": lambda name: (
        middleware.LLMToolSelectorMiddleware(on_parsing_failure=[name])
    ),
    "OnceMiddleware.effects": lambda name: middleware.OnceMiddleware({name: "ask"}),
    "ProgressGuardMiddleware.ignore_tools": lambda name: middleware.ProgressGuardMiddleware(
        ignore_tools=[name]
    ),
    "ProgressGuardMiddleware.polling_tools": lambda name: middleware.ProgressGuardMiddleware(
        polling_tools={name: 9}
    ),
    "ProviderToolSearchMiddleware.searchable_tools": lambda name: (
        middleware.ProviderToolSearchMiddleware(searchable_tools=[name])
    ),
    "ToolCallLimitMiddleware.tool_name": lambda name: middleware.ToolCallLimitMiddleware(
        tool_name=name, run_limit=1
    ),
    "ToolErrorMiddleware.tools": lambda name: middleware.ToolErrorMiddleware(tools=[name]),
    "ToolRetryMiddleware.idempotent_tools": lambda name: middleware.ToolRetryMiddleware(
        idempotent_tools=[name]
    ),
    "ToolRetryMiddleware.tools": lambda name: middleware.ToolRetryMiddleware(tools=[name]),
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

    with pytest.raises(SpecError, match=r"AF124.* Write 'refund'") as caught:
        plan_agent(tools=[refund], middleware=[NAMING[argument]("refnd")], checkpointer=True)
    assert [error.code for error in caught.value.errors] == ["AF124"]
    assert "refund" in NAMING[argument]("refund").expected_tools


def test_each_argument_that_names_tools_is_known() -> None:
    arguments = {
        f"{name}.{parameter}"
        for name, kind in BUILT_INS.items()
        for parameter in inspect.signature(kind).parameters
        if "tool" in parameter and not parameter.startswith("apply_to_")
    }
    assert arguments <= NAMING.keys() | OTHERS


AS_IN_LANGCHAIN = {
    "ContextEditingMiddleware",
    "FilesystemFileSearchMiddleware",
    "HumanInTheLoopMiddleware",
    "LLMToolEmulator",
    "LLMToolSelectorMiddleware",
    "ModelCallLimitMiddleware",
    "ModelFallbackMiddleware",
    "ModelRetryMiddleware",
    "ProviderToolSearchMiddleware",
    "ShellToolMiddleware",
    "SummarizationMiddleware",
    "TodoListMiddleware",
    "ToolCallLimitMiddleware",
    "ToolRetryMiddleware",
}
"""Built-ins whose spans record the whole request, because those of langchain's do."""


@each("name", BUILT_INS)
def test_spans_of_a_built_in_leave_out_the_request(name: str) -> None:
    policy = BUILT_INS[name].trace_policy
    if name in AS_IN_LANGCHAIN:
        assert policy is None
    else:
        assert policy is not None
        assert policy.process_inputs is omit_payload
        assert policy.process_outputs is None


ASKING: dict[str, Callable[[ScriptedChatModel], Member]] = {
    "auto mode": lambda model: middleware.AutoModeMiddleware(classifier=model),
    "emulator": lambda model: middleware.LLMToolEmulator(model=model),
    "router": lambda model: middleware.ModelRouterMiddleware(
        choices={"same": middleware.ModelChoice(ScriptedChatModel([]), "all")}, classifier=model
    ),
    "selector": lambda model: middleware.LLMToolSelectorMiddleware(model=model, max_tools=1),
    "summary": lambda model: middleware.SummarizationMiddleware(
        model, trigger=("messages", 2), keep=("messages", 1)
    ),
}


@each("name", ASKING)
def test_a_model_that_a_built_in_asks_is_asked_once_with_an_invalid_key(
    call: Callable[..., Any], name: str
) -> None:
    error = ModelAuthenticationError("invalid key")
    asked = ScriptedChatModel([error] * 9)
    steps = [[{"name": "add", "args": {"a": 1, "b": 2}}], "3."]
    agent = create_agent(ScriptedChatModel(steps), [add, find], middleware=[ASKING[name](asked)])
    messages = [("user", "Hello"), ("ai", "Hello."), ("user", "1 + 2?")]
    with suppress(ModelAuthenticationError):  # a judge that fails blocks the call instead
        call(agent, {"messages": messages})
    assert len(asked.requests) == 1
