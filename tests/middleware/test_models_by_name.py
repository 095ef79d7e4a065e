"""A model that a built-in gets by its name is made when the built-in is, not when it is needed."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from agent_factory import create_agent, create_react_agent
from agent_factory import middleware as mw
from agent_factory.testing import ScriptedChatModel
from tables import each

NAME = "openai:gpt-5"


def pick(request: object) -> str:
    return "one"


MAKERS: dict[str, Callable[[], Any]] = {
    "create_agent": lambda: create_agent(NAME),
    "create_react_agent": lambda: create_react_agent(NAME, []),
    "fallback": lambda: mw.ModelFallbackMiddleware(NAME),
    "second fallback": lambda: mw.ModelFallbackMiddleware(ScriptedChatModel(), NAME),
    "fallback with settings": lambda: mw.ModelFallbackMiddleware((NAME, {"temperature": 0})),
    "refusal": lambda: mw.ModelRefusalMiddleware(NAME),
    "choice": lambda: mw.ModelRouterMiddleware(
        choices={"one": mw.ModelChoice(NAME)}, classifier=pick
    ),
    "classifier": lambda: mw.ModelRouterMiddleware(
        choices={"one": mw.ModelChoice(ScriptedChatModel(), "all")}, classifier=NAME
    ),
    "auto mode": lambda: mw.AutoModeMiddleware(classifier=NAME),
    "judge": lambda: mw.HumanInTheLoopMiddleware(mw.ToolPolicy(mw.Rule("*", "judge"), judge=NAME)),
    "summaries": lambda: mw.SummarizationMiddleware(NAME),
    "summarizer": lambda: mw.SummarizationMiddleware(ScriptedChatModel(), summarizer=NAME),
    "selection": lambda: mw.LLMToolSelectorMiddleware(model=NAME),
    "emulator": lambda: mw.LLMToolEmulator(model=NAME),
    "budget": lambda: mw.BudgetMiddleware(run=mw.Limits(total_tokens=9), cheaper=NAME),
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
    assert names == [NAME]
    monkeypatch.setitem(sys.modules, "langchain", None)
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(ImportError, match="pip install langchain"):
        MAKERS[maker]()


def test_the_error_names_the_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(ImportError) as caught:
        MAKERS["second fallback"]()
    assert caught.value.__notes__ == [
        "Raised while making ModelFallbackMiddleware model 2, 'openai:gpt-5'."
    ]


def test_a_name_is_made_into_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedChatModel(["one"])
    names = fake_langchain(monkeypatch, model)
    fallback = mw.ModelFallbackMiddleware(NAME)
    assert (fallback.models, names) == ([model], [NAME])
    agent = create_agent(ScriptedChatModel([ConnectionError()]), middleware=[fallback])
    assert agent.invoke({"messages": [("user", "Hi")]})["messages"][-1].text == "one"
    assert names == [NAME]
