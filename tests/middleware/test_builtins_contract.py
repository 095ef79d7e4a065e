"""Laws that hold for every built-in middleware."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.exceptions import ModelAuthenticationError

from agent_factory import (
    AgentMiddleware,
    SpecError,
    create_agent,
    middleware,
    omit_payload,
    plan_agent,
)
from agent_factory.middleware import (
    AutoModeMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    GuardMiddleware,
    HumanInTheLoopMiddleware,
    Limits,
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    ModelChoice,
    ModelRouterMiddleware,
    OnceMiddleware,
    ProgressGuardMiddleware,
    ProviderToolSearchMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from agent_factory.testing import ScriptedChatModel
from samples import add, find
from tables import each

Member = AgentMiddleware[Any, Any]
Make = Callable[[], Member]

BUILT_INS: dict[str, type[Member]] = {
    name: built_in
    for name in middleware.__all__
    if inspect.isclass(built_in := getattr(middleware, name))
    and issubclass(built_in, AgentMiddleware)
    and built_in is not AgentMiddleware
}

ARGUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "AutoModeMiddleware": lambda: {"classifier": ScriptedChatModel()},
    "BudgetMiddleware": lambda: {"run": Limits(turns=9)},
    "FilesystemFileSearchMiddleware": lambda: {"root_path": Path(__file__).parent},
    "GuardMiddleware": lambda: {"check": lambda _: None},
    "HumanInTheLoopMiddleware": lambda: {"interrupt_on": {"add": True}},
    "ModelCallLimitMiddleware": lambda: {"run_limit": 3},
    "ModelFallbackMiddleware": lambda: {"first_model": ScriptedChatModel()},
    "ModelRefusalMiddleware": lambda: {"on_refusal": "error"},
    "ModelRouterMiddleware": lambda: {
        "choices": {"one": ModelChoice(ScriptedChatModel(), "all")},
        "classifier": lambda request: "one",
    },
    "OnceMiddleware": lambda: {"effects": {"pay": "ask"}},
    "PIIMiddleware": lambda: {"pii_type": "email"},
    "SummarizationMiddleware": lambda: {"model": ScriptedChatModel()},
    "ToolCallLimitMiddleware": lambda: {"run_limit": 3},
}
"""What a built-in cannot be made without."""


@pytest.fixture(params=sorted(BUILT_INS))
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a built-in with few arguments."""
    if request.param == "ShellToolMiddleware" and os.name != "posix":
        pytest.skip("the shell needs a POSIX system")
    return lambda: BUILT_INS[request.param](**ARGUMENTS.get(request.param, dict)())


def test_each_built_in_has_its_own_list_of_tools(make: Make) -> None:
    """Code written for LangChain adds to it."""
    tools = make().tools
    assert isinstance(tools, list)
    tools.append({"name": "another"})
    assert tools[-1] not in make().tools


def test_no_built_in_waits_for_files_in_an_event_loop(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may be slow, and all other tasks of the loop would wait."""
    make()  # imports what it needs

    def refuse(*args: object, **options: object) -> object:
        raise AssertionError(f"waits for {args}")

    async def make_it() -> Member:
        with monkeypatch.context() as patch:
            for name in ("getcwd", "stat", "lstat", "readlink", "scandir", "mkdir", "access"):
                patch.setattr(os, name, refuse)
            patch.setattr("builtins.open", refuse)
            patch.setattr("time.sleep", refuse)
            return make()

    assert asyncio.run(make_it()).name == make().name


NOT_SETTINGS: dict[str, set[str]] = {
    # Deprecated names of `trigger` and `keep`, which hold their values.
    "SummarizationMiddleware": {"max_tokens_before_summary", "messages_to_keep", "summary_prefix"},
}
"""Parameters that are not attributes, for a reason."""


def test_each_parameter_of_a_built_in_is_an_attribute(make: Make) -> None:
    """Plans show such parameters as settings."""
    built_in = make()
    names = inspect.signature(type(built_in).__init__).parameters.keys() - {"self"}
    held = {f"{name.removesuffix('s')}_names": name for name in names if name.endswith("tools")}
    attributes = dir(built_in)
    missing = names - {held.get(name, name) for name in attributes} - set(attributes)
    assert missing == NOT_SETTINGS.get(type(built_in).__name__, set())


NAMING: dict[str, Callable[[str], Member]] = {
    "AutoModeMiddleware.tools": lambda name: AutoModeMiddleware(
        classifier=ScriptedChatModel(), tools=[name]
    ),
    "ContextEditingMiddleware.edits": lambda name: ContextEditingMiddleware(
        edits=[ClearToolUsesEdit(exclude_tools=[name])]
    ),
    "GuardMiddleware.tools": lambda name: GuardMiddleware(lambda _: None, on="call", tools=[name]),
    "HumanInTheLoopMiddleware.interrupt_on": lambda name: HumanInTheLoopMiddleware({name: True}),
    "LLMToolEmulator.tools": lambda name: LLMToolEmulator(tools=[name]),
    "LLMToolSelectorMiddleware.always_include": lambda name: LLMToolSelectorMiddleware(
        always_include=[name]
    ),
    "LLMToolSelectorMiddleware.on_parsing_failure": lambda name: LLMToolSelectorMiddleware(
        on_parsing_failure=[name]
    ),
    "OnceMiddleware.effects": lambda name: OnceMiddleware({name: "ask"}),
    "ProgressGuardMiddleware.ignore_tools": lambda name: ProgressGuardMiddleware(
        ignore_tools=[name]
    ),
    "ProgressGuardMiddleware.polling_tools": lambda name: ProgressGuardMiddleware(
        polling_tools={name: 9}
    ),
    "ProviderToolSearchMiddleware.searchable_tools": lambda name: ProviderToolSearchMiddleware(
        searchable_tools=[name]
    ),
    "ToolCallLimitMiddleware.tool_name": lambda name: ToolCallLimitMiddleware(
        tool_name=name, run_limit=1
    ),
    "ToolErrorMiddleware.tools": lambda name: ToolErrorMiddleware(tools=[name]),
    "ToolRetryMiddleware.idempotent_tools": lambda name: ToolRetryMiddleware(
        idempotent_tools=[name]
    ),
    "ToolRetryMiddleware.tools": lambda name: ToolRetryMiddleware(tools=[name]),
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
    "auto mode": lambda model: AutoModeMiddleware(classifier=model),
    "emulator": lambda model: LLMToolEmulator(model=model),
    "router": lambda model: ModelRouterMiddleware(
        choices={"same": ModelChoice(ScriptedChatModel([]), "all")}, classifier=model
    ),
    "selector": lambda model: LLMToolSelectorMiddleware(model=model, max_tools=1),
    "summary": lambda model: SummarizationMiddleware(
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
