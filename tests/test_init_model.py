"""A model given by its name (B18), and what is not a model."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from agent_factory import SpecError, create_agent, init_model
from agent_factory.testing import ScriptedChatModel
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}


@pytest.fixture
def langchain(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A stand-in for the package that may not be installed."""
    package, models = types.ModuleType("langchain"), types.ModuleType("langchain.chat_models")
    monkeypatch.setitem(sys.modules, "langchain", package)
    monkeypatch.setitem(sys.modules, "langchain.chat_models", models)
    return models


def test_a_name_is_made_a_model_by_langchain(langchain: Any, call: Any) -> None:
    asked: list[Any] = []

    def init_chat_model(name: str, **settings: Any) -> Any:
        asked.append((name, settings))
        return ScriptedChatModel(["Hi."])

    langchain.init_chat_model = init_chat_model
    assert call(create_agent("openai:gpt-5"), ASK)["messages"][-1].text == "Hi."
    init_model("openai:gpt-5", temperature=0)
    assert asked == [("openai:gpt-5", {}), ("openai:gpt-5", {"temperature": 0})]


def test_without_langchain_a_name_is_refused_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B18: the exact text."""
    monkeypatch.setitem(sys.modules, "langchain", None)
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(ImportError) as caught:
        create_agent("openai:gpt-5")
    assert str(caught.value) == (
        "Please install langchain (`pip install langchain`) to use '<provider>:<model>' string "
        "syntax for `model` parameter."
    )


@each("junk", [None, 5, object(), len, ScriptedChatModel])
def test_something_other_than_a_model_is_refused_at_build(junk: Any) -> None:
    with pytest.raises(SpecError, match="model"):
        create_agent(junk)
