"""Laws that hold for every built-in middleware."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_factory import AgentMiddleware, middleware
from agent_factory.middleware import Limits, ModelChoice
from agent_factory.testing import ScriptedChatModel

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


def test_the_tools_of_a_built_in_are_a_list_of_its_own(make: Make) -> None:
    """Code written for LangChain adds to it."""
    tools = make().tools
    assert isinstance(tools, list)
    tools.append({"name": "another"})
    assert tools[-1] not in make().tools


NOT_SETTINGS: dict[str, set[str]] = {
    "PIIMiddleware": {"hash_key"},  # a secret
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
