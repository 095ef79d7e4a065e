"""Public names, signatures, attributes: those of langchain's agents are here, and migrate."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
import typing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from decision_models import ScriptedDecisionModel

import agent_factory.middleware as ours
from agent_factory.testing import ScriptedChatModel
from tables import each

theirs = pytest.importorskip("langchain.agents.middleware", reason="the extra peer is missing")

MODULES = {
    "langchain.agents": "agent_factory",
    "langchain.agents.structured_output": "agent_factory.structured_output",
    "langchain.agents.middleware": "agent_factory.middleware",
} | {
    f"langchain.agents.middleware.{module.name}": f"agent_factory.middleware.{module.name}"
    for module in pkgutil.iter_modules(theirs.__path__)
    if not module.name.startswith("_")
}
"""Each module and its counterpart."""

ABSENT = {
    "ShellToolState": "the key of its state is private, and another one here",
    "StateT_co": "states are not covariant here; StateT serves",
    "WriteTodosInput": "the schema of the tool, which `write_todos.args_schema` is as well",
}
"""Names without a counterpart, and why."""

OTHER_SIGNATURES = {
    "OutputToolBinding": "holds one `spec` in place of its parts",
    "ProviderStrategyBinding": "holds one `spec` in place of its parts",
    "StructuredOutputError": "is a base class, which nobody makes",
    "HostExecutionPolicy": "its keyword is after those of the base class",
    "DockerExecutionPolicy": "keywords in another order, after those of the base class",
    "CodexSandboxExecutionPolicy": "keywords in another order, after those of the base class",
    "SummarizationMiddleware": "deprecated keywords are named, so that misspelt ones are refused",
}
"""Classes whose parameters differ, and why."""

ATTRIBUTES_ABSENT = {
    ("AutoModeMiddleware", "config"): "its parts are attributes: `tool_names`, `instructions`",
    ("ModelRouterMiddleware", "config"): "its parts are attributes: `choices`, `instructions`",
    ("OutputToolBinding", "from_schema_spec"): "its constructor takes the spec",
    ("ProviderStrategyBinding", "from_schema_spec"): "its constructor takes the spec",
}


MARKS = ["JumpTo", "OmitFromInput", "OmitFromOutput", "PrivateStateAttr", "StateT"]
"""What people import from `types`, although its `__all__` lacks it."""


def own_names(module: str) -> list[str]:
    """What a module exports, or else defines."""
    package = import_module(module)
    if exported := getattr(package, "__all__", None):
        return [*exported, *(MARKS if module.endswith(".types") else [])]
    values = vars(package).items()
    return [n for n, v in values if n[0] != "_" and getattr(v, "__module__", "") == module]


PAIRS = sorted({(name, m) for m in MODULES for name in own_names(m) if name not in ABSENT})


@each("module", MODULES)
def test_every_public_name_is_in_the_module_of_the_same_name(module: str) -> None:
    here = import_module(MODULES[module])
    missing = [n for n in own_names(module) if not hasattr(here, n) and n not in ABSENT]
    assert missing == []


def accepts(ours: Any, theirs: Any) -> list[str]:
    """How the calls that fit one signature do not fit the other."""
    here, there = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = []
    for name, parameter in there.items():
        if parameter.kind in kinds:
            if not any(p.kind is parameter.kind for p in here.values()):
                found.append(f"no {parameter}")
        elif name not in here:
            found.append(f"no {name}")
        elif here[name].kind is not parameter.kind:
            found.append(f"{name} is {here[name].kind.description}")
        elif parameter.default is not parameter.empty and here[name].default is parameter.empty:
            found.append(f"{name} has no default")
    required = [p.name for p in here.values() if p.default is p.empty and p.kind not in kinds]
    found += [f"requires {name}" for name in required if name not in there]
    positional = [
        [n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        for parameters in (there, here)
    ]
    if positional[1][: len(positional[0])] != positional[0]:
        found.append(f"order {positional[1]}")
    return found


def test_signatures_accept_the_same_calls() -> None:
    found: dict[str, list[str]] = {}
    for name, module in PAIRS:
        there, here = (getattr(import_module(m), name) for m in (module, MODULES[module]))
        if there is here or not callable(there) or typing.is_typeddict(there):
            continue
        methods = [("", there, here)]
        if inspect.isclass(there):
            public = [n for n, v in vars(there).items() if not n.startswith("_") and callable(v)]
            methods += [(n, getattr(there, n), getattr(here, n, None)) for n in public]
        for method, expected, given in methods:
            if (name, method) in ATTRIBUTES_ABSENT or (not method and name in OTHER_SIGNATURES):
                continue
            if inspect.isclass(expected) and method:
                continue
            try:
                problems = accepts(given, expected) if given is not None else ["missing"]
            except ValueError:  # a type, which cannot be called
                continue
            if problems and not (name == "ProviderStrategyBinding" and method == "parse"):
                found[f"{name}.{method}"] = problems
    assert found == {}


def test_typed_dicts_have_the_same_keys() -> None:
    found = []
    for name, module in PAIRS:
        there, here = (getattr(import_module(m), name) for m in (module, MODULES[module]))
        if typing.is_typeddict(there) and "State" not in name:
            same = there.__required_keys__ == here.__required_keys__
            found += [] if same and there.__optional_keys__ <= here.__optional_keys__ else [name]
    assert found == []


def instances(package: Any, folder: Path) -> list[Any]:
    model, judge = ScriptedChatModel([]), ScriptedDecisionModel(answers=[])
    prompts = {"system_prompt": "Choose.", "max_tools": 2, "on_parsing_failure": "error"}
    choices = {"same": package.ModelChoice(model, "all")}
    summary = {"trigger": ("messages", 4), "summary_prompt": "{messages}"}
    return [
        package.AgentMiddleware(),
        package.AutoModeMiddleware(tools=["add"], instructions="Risky?", classifier=judge),
        package.ClearToolUsesEdit(trigger=10),
        package.CodexSandboxExecutionPolicy(),
        package.ContextEditingMiddleware(token_count_method="model"),
        package.DockerExecutionPolicy(),
        package.FilesystemFileSearchMiddleware(root_path=str(folder), use_ripgrep=False),
        package.HostExecutionPolicy(),
        package.HumanInTheLoopMiddleware({"add": True, "look": False}, edit_notice="Edited."),
        package.LLMToolEmulator(tools=["add"], model=model),
        package.LLMToolSelectorMiddleware(model=model, **prompts),
        package.ModelCallLimitMiddleware(run_limit=3),
        package.ModelFallbackMiddleware(model),
        package.ModelRefusalMiddleware(),
        package.ModelRetryMiddleware(retry_on=(ValueError,)),
        package.ModelRouterMiddleware(choices=choices, instructions="Which?", classifier=judge),
        package.PIIMiddleware("email", strategy="mask", apply_to_output=True),
        package.ProviderToolSearchMiddleware(searchable_tools=["add"]),
        package.RedactionRule("email"),
        package.ShellToolMiddleware(),
        package.SummarizationMiddleware(model, **summary),
        package.TodoListMiddleware(system_prompt="Plan.", tool_description="Plan."),
        package.ToolCallLimitMiddleware(tool_name="add", thread_limit=3),
        package.ToolErrorMiddleware(on_error=print),
        package.ToolRetryMiddleware(tools=["add"], retry_on=(ValueError,)),
    ]


OTHER_VALUES = {
    "AgentMiddleware.state_schema": "every library has its own AgentState",
    "DockerExecutionPolicy.extra_run_args": "an empty tuple in place of None",
    "DockerExecutionPolicy.image": "a Python image with glibc",
    "FilesystemFileSearchMiddleware.glob_search": "the descriptions of tools",
    "FilesystemFileSearchMiddleware.grep_search": "the descriptions of tools",
    "PIIMiddleware.detector": "a method",
    "SummarizationMiddleware.token_counter": "the tokens of tools are counted with the request",
}
"""Attributes with other values, and why. `tools` and `transformers` are compared by tests of what
they do."""


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
def test_instances_have_the_same_public_attributes(tmp_path: Path) -> None:
    found = []
    pairs = zip(instances(theirs, tmp_path), instances(ours, tmp_path), strict=True)
    there: Any
    here: Any
    for there, here in pairs:
        kind = type(there).__name__
        names = set(getattr(there, "__dict__", ()))
        if dataclasses.is_dataclass(there):
            names |= {field.name for field in dataclasses.fields(there)}
        names -= {"tools", "transformers"}
        for name in sorted(name for name in names if not name.startswith("_")):
            subject = f"{kind}.{name}"
            if subject in OTHER_VALUES or (kind, name) in ATTRIBUTES_ABSENT:
                continue
            expected, given = getattr(there, name), getattr(here, name, "missing")
            if isinstance(expected, set | frozenset):
                given = set(given)
            if repr(given) != repr(expected):
                found.append(f"{subject}: {given!r} for {expected!r}")
        if isinstance(here, ours.AgentMiddleware):
            assert here.name == there.name
            tools = [[tool.name for tool in getattr(m, "tools", ())] for m in (there, here)]
            assert tools[0] == tools[1]
    assert found == []


def test_declared_differences_are_still_there() -> None:
    """So that none of the tables above excuses what has become the same."""
    names = {name: module for module in MODULES for name in vars(import_module(module))}
    for name in ABSENT:
        assert not hasattr(import_module(MODULES[names[name]]), name), name
    for name in OTHER_SIGNATURES:
        there, here = (getattr(import_module(m), name) for m in (names[name], MODULES[names[name]]))
        if name != "StructuredOutputError":  # langchain's has no signature
            assert accepts(here, there), name
    for kind, name in ATTRIBUTES_ABSENT:
        assert not hasattr(getattr(import_module(MODULES[names[kind]]), kind), name), kind


@each("module", [*MODULES][:3])
def test_migrate_knows_a_counterpart_of_each_name_that_can_be_imported(module: str) -> None:
    pytest.importorskip("libcst", reason="the extra cli is not installed")
    from agent_factory.migrate import migrate_source

    names = own_names(module)
    assert names
    for name in names:
        migration = migrate_source(f"from {module} import {name}\n")
        assert not migration.findings, name
        assert "langchain" not in migration.text
        namespace: dict[str, object] = {}
        exec(migration.text, namespace)
        assert name in namespace
