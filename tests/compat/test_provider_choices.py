"""What depends on the model or its provider: the same in langchain's agents and in these."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from families import OURS, THEIRS
from langchain_core.messages import HumanMessage
from pydantic import PrivateAttr

import agent_factory
import agent_factory.middleware
from agent_factory.testing import ScriptedChatModel
from samples import Answer, add_tool, mail
from tables import each

langchain: Any = pytest.importorskip("langchain.agents", reason="the extra peer is missing")
theirs: Any = pytest.importorskip("langchain.agents.middleware")

Run = Callable[..., Any]
ASK: Any = {"messages": [HumanMessage("Hi")]}
PROFILES: list[Any] = [None, {"structured_output": True}, {"tool_calling": True}]
NAMES = [
    *("gemini-1.5-pro", "gemini-2.0-flash", "models/gemini-2.5-flash", "gemini-flash-latest"),
    *("gemini-3-pro-preview", "google/gemini-3.5-flash", "gemma-3-27b-it", "llama-3", ""),
    *("gpt-3.5-turbo", "gpt-4", "gpt-4-turbo", "gpt-4o", "gpt-4o-mini", "chatgpt-4o-latest"),
    *("gpt-4.1", "gpt-5", "gpt-5.5", "openai/gpt-5", "ft:gpt-4o:x", "my-gpt-4o", "gpt-oss-20b"),
    *("o1", "o3", "o3-mini", "o4-mini", "grok-2", "grok-3", "grok-4", "x-ai/grok-4-fast"),
    *("claude-3-opus", "claude-3-7-sonnet", "claude-sonnet-4-0", "claude-sonnet-4-5"),
    *("claude-opus-4-1", "claude-opus-4-6", "claude-haiku-4-5", "claude-sonnet-4.5"),
    *("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "Claude-Sonnet-4-5", "mistral-large"),
]


class Named(ScriptedChatModel):
    """A model with a name, which knows neither library."""

    model_name: str = ""
    model: str = ""
    model_id: str = ""


class Typed(ScriptedChatModel):
    """A model of a provider's type, which may be down."""

    kind: str = "openai-chat"
    _tools: list[Any] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return self.kind

    @property
    def tools(self) -> list[Any]:
        return self._tools

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self._tools.append(list(tools))
        return super().bind_tools(tools, **kwargs)


def both(build: Callable[[Any, Any], Any]) -> list[Any]:
    """What langchain's library and ours give."""
    return [build(langchain, theirs), build(agent_factory, agent_factory.middleware)]


class Asked(Exception):
    """Raised in place of an answer, with what the model was asked."""


class Asking(Named):
    """A model that raises what it was asked."""

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise Asked(kwargs)


@each("profile", PROFILES)
@each("tools", [[], [add_tool], [{"google_search": {}}]])
def test_the_strategy_of_a_bare_schema_is_the_same(tools: Any, profile: Any) -> None:
    """Sync alone: nothing in the choice depends on how a run is called."""

    def by_provider(library: Any, _: Any) -> list[str]:
        names = []
        for name in NAMES:
            model = Asking(model_name=name, profile=profile)
            agent = library.create_agent(model, tools, response_format=Answer)
            with pytest.raises(Asked) as caught:
                agent.invoke(ASK)
            if "response_format" in caught.value.args[0]:
                names.append(name)
        return names

    first, second = both(by_provider)
    assert first == second


SETTINGS: Any = {
    "prompt_cache_key": "k",
    "extra_headers": {"X-Session-Affinity": "s", "A": "1"},
    "temperature": 0,
    "reasoning": {"effort": "low"},
}


def layer(middleware: Any, body: Any) -> Any:
    """A layer of one of the libraries."""
    return (THEIRS if middleware is theirs else OURS).layer(body)


def fallen_back(library: Any, middleware: Any, call: Run, first: str, other: str) -> Any:
    """What a fallback is sent: its settings, and the extras of its tools."""
    seen: list[Any] = []

    def configure(request: Any) -> Any:
        return (yield request.override(model_settings=dict(SETTINGS)))

    def look(request: Any) -> Any:
        seen.append((request.model_settings, [t.extras for t in request.tools]))
        return (yield request)

    marked = mail.model_copy(
        update={"extras": {"cache_control": {"type": "ephemeral"}, "priority": 1}}
    )
    down = Typed(steps=[ConnectionError("down")], kind=first)
    up = Typed(steps=["ok"], kind=other)
    fallback = middleware.ModelFallbackMiddleware(up)
    stack = [layer(middleware, configure), fallback, layer(middleware, look)]
    call(library.create_agent(down, [marked], middleware=stack), ASK)
    return seen[-1]


@each("first, other", [("openai-chat", "azure-openai-chat"), ("azure-openai-chat", "openai-chat")])
def test_a_fallback_of_the_family_is_sent_the_same(call: Run, first: str, other: str) -> None:
    """A header that binds to a server of the first model is for that model alone."""
    settings, extras = zip(
        *both(lambda lib, mw: fallen_back(lib, mw, call, first, other)), strict=True
    )
    assert settings[0] == settings[1]
    assert settings[0] == {**SETTINGS, "extra_headers": {"A": "1"}}
    # Ours leaves tools alone within a family; `cache_control` means nothing to it.
    assert extras[0] == [{"priority": 1}]


@each("first, other", [("anthropic-chat", "openai-chat"), ("openai-chat", "anthropic-chat")])
def test_only_common_settings_are_sent_to_another_provider_and_extras_are_the_same(
    call: Run, first: str, other: str
) -> None:
    """By design: langchain sends the others, which the other provider may refuse."""
    theirs, ours = both(lambda lib, mw: fallen_back(lib, mw, call, first, other))
    assert theirs[1] == ours[1]
    assert ours[0] == {"temperature": 0}
    if first == "openai-chat":
        assert theirs[0].keys() - ours[0].keys() == {"extra_headers", "reasoning"}


bound_models: list[tuple[str, int]] = []
"""Each model that tools were bound to, with their number."""


class ChatGroq(ScriptedChatModel):
    """In place of that of langchain-groq."""

    model: str

    def __init__(self, **fields: Any) -> None:
        super().__init__(["ok"], **fields)

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        bound_models.append((self.model, len(tools)))
        return super().bind_tools(tools, **kwargs)


def test_a_model_of_init_chat_model_stays_configurable(
    call: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langchain.chat_models import init_chat_model

    # langchain keeps the class of a provider, so that of the first test is that of all.
    package: Any = ModuleType("langchain_groq")
    package.ChatGroq = ChatGroq
    monkeypatch.setitem(sys.modules, "langchain_groq", package)
    bound_models.clear()
    model: Any = init_chat_model("groq:llama", configurable_fields="any")
    for library in (langchain, agent_factory):
        agent = library.create_agent(model, [add_tool])
        call(agent, ASK)
        call(agent, ASK, {"configurable": {"model": "groq:qwen"}})
    assert bound_models == [("llama", 1), ("qwen", 1)] * 2
