"""A built-in keeps no list, dict or set of its caller, who may change it afterwards."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from agent_factory import middleware
from agent_factory.middleware import (
    ClearToolUsesEdit,
    Limits,
    ModelChoice,
    Price,
    RedactionRule,
)
from agent_factory.testing import ScriptedChatModel
from samples import add_tool
from tables import each

Arguments = dict[str, Any]


def model() -> ScriptedChatModel:
    return ScriptedChatModel()


ARGUMENTS: dict[str, Callable[[], Arguments]] = {
    "AutoModeMiddleware": lambda: {
        "classifier": model(),
        "tools": ["add"],
        "criteria": {"true": {"mail": ["abroad"]}},
    },
    "BudgetMiddleware": lambda: {
        "run": Limits(turns=9),
        "warn_at": [0.5, 0.8],
        "prices": {"scripted": Price(input=1.0, output=2.0)},
    },
    "ClearToolUsesEdit": lambda: {"exclude_tools": ["add"]},
    "ContextEditingMiddleware": lambda: {"edits": [ClearToolUsesEdit()]},
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
    "ModelFallbackMiddleware": lambda: {"first_model": (model(), {"stop": ["x"]})},
    "ModelRefusalMiddleware": lambda: {"models": [(model(), {"stop": ["x"]})]},
    "ModelRouterMiddleware": lambda: {
        "choices": {"one": ModelChoice((model(), {"stop": ["x"]}), "all")},
        "classifier": lambda request: "one",
    },
    "OnceMiddleware": lambda: {"effects": {"add": "ask"}, "undo": {"add": lambda effect: None}},
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
        "redaction_rules": [RedactionRule("email")],
        "shell_command": ["/bin/sh"],
        "env": {"A": "1"},
    },
    "SummarizationMiddleware": lambda: {
        "model": model(),
        "trigger": [("messages", 9), {"tokens": 100, "messages": 2}],
    },
    "ToolErrorMiddleware": lambda: {"tools": ["add"]},
    "ToolResultOffloadMiddleware": lambda: {"namespace": ["results"]},
    "ToolRetryMiddleware": lambda: {"tools": ["add"], "idempotent_tools": ["add"]},
}
"""Every argument of a built-in, or of a value for one, that takes a list, a dict or a set."""

NO_CONTAINERS = {
    *("AnswerGuardMiddleware", "BackgroundMiddleware", "FilesystemFileSearchMiddleware"),
    "ModelCallLimitMiddleware",
    *("ModelRetryMiddleware", "PIIMiddleware", "PromptCachingMiddleware", "TodoListMiddleware"),
    *("ClientToolsMiddleware", "SteeringMiddleware", "ToolCallLimitMiddleware"),
}
"""Built-ins without such an argument."""


def built(name: str, arguments: Arguments) -> Any:
    make = getattr(middleware, name)
    if name == "ModelRefusalMiddleware":
        return make(*arguments["models"])
    return make(**arguments)


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
    arguments = ARGUMENTS[name]()
    callers = {id(c): c for c in containers(list(arguments.values()), set())}
    shared = [c for c in containers(built(name, arguments), set()) if id(c) in callers]
    assert shared == []


def test_every_built_in_is_covered() -> None:
    names = {n for n in middleware.__all__ if n.endswith("Middleware") or n == "LLMToolEmulator"}
    assert names - {"AgentMiddleware"} == {
        name for name in {*ARGUMENTS, *NO_CONTAINERS} if name in names
    }
