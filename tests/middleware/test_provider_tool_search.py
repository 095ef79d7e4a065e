"""Tools are marked for the provider's own search, in the provider's own form."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from bound_models import Bound, ChatAnthropic, ChatOpenAI, made
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import BaseTool, tool

from agent_factory import TurnError, create_agent, wrap_model_call
from agent_factory.middleware import ProviderToolSearchMiddleware
from agent_factory.middleware._shared.provider_marks import MarkedTools
from agent_factory.testing import ScriptedChatModel
from samples import mail
from tables import each

Run = Callable[..., Any]
GO: Any = {"messages": "Go"}
ANTHROPIC = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
OPENAI = {"type": "tool_search"}


class MyOpenAI(ChatOpenAI):
    """A product's own subclass."""


@tool
def weather(city: str) -> str:
    """The weather."""
    return city


def offer(
    call: Run, model: Bound, *stack: Any, tools: Any = (mail, weather)
) -> tuple[list[str], list[dict[str, Any]]]:
    """The names of the deferred tools, and the provider tools, of the first call of a model."""
    call(create_agent(model, tools, middleware=stack), GO)
    bound = model.bound[0]
    client = [t for t in bound if isinstance(t, BaseTool)]
    deferred = [t.name for t in client if (t.extras or {}).get("defer_loading")]
    return deferred, [t for t in bound if isinstance(t, dict)]


class Typed(Bound):
    """Known by its type alone."""

    type_name: str

    @property
    def _llm_type(self) -> str:
        return self.type_name


@each(
    "model, settings, search",
    [
        (made(ChatAnthropic, ["ok", "ok"]), {}, ANTHROPIC),
        (made(ChatOpenAI, ["ok", "ok"]), {}, OPENAI),
        (made(MyOpenAI, ["ok", "ok"]), {}, OPENAI),
        (made(Typed, ["ok", "ok"], type_name="openai-chat"), {}, OPENAI),
        (made(Typed, ["ok", "ok"], type_name="azure-openai-chat"), {}, OPENAI),
        (made(Typed, ["ok", "ok"], type_name="anthropic-chat"), {}, ANTHROPIC),
        (made(Bound, ["ok", "ok"]), {"provider": "anthropic"}, ANTHROPIC),
    ],
)
def test_all_tools_are_deferred_and_the_models_provider_searches(
    call: Run, model: Any, settings: Any, search: Any
) -> None:
    middleware = ProviderToolSearchMiddleware(**settings)
    assert offer(call, model, middleware) == (["mail", "weather"], [search])


def marked(original: BaseTool, mark: bool) -> BaseTool:
    return original.model_copy(update={"extras": {"defer_loading": mark, "strict": True}})


@each(
    "tools, chosen, deferred",
    [
        ([marked(mail, True), weather], None, ["mail"]),
        ([marked(mail, True), weather], ["weather"], ["mail", "weather"]),
        ([marked(mail, False), weather], None, ["weather"]),
        ([marked(mail, False), weather], ["mail", "weather"], ["weather"]),
        ([mail, weather], ["mail"], ["mail"]),
        ([mail, weather], [mail], ["mail"]),
    ],
)
def test_the_chosen_tools_are_deferred_and_the_mark_of_a_tool_takes_precedence(
    call: Run, tools: list[BaseTool], chosen: Any, deferred: list[str]
) -> None:
    middleware = ProviderToolSearchMiddleware(searchable_tools=chosen)
    model = made(ChatOpenAI, ["ok"])
    assert offer(call, model, middleware, tools=tools) == (deferred, [OPENAI])


def test_a_found_tool_is_called_and_the_model_is_bound_once(call: Run) -> None:
    """The original tools are not changed, and copies keep other extras."""
    strict = mail.model_copy(update={"extras": {"strict": True}})
    model = made(ChatOpenAI, [[{"name": "mail", "args": {"to": "Ada"}}], "ok"])
    agent = create_agent(model, [strict, weather], middleware=[ProviderToolSearchMiddleware()])
    assert call(agent, GO)["messages"][2].text == "sent to Ada"
    ((offered, *_),) = model.bound
    assert offered.extras == {"strict": True, "defer_loading": True}
    assert (strict.extras, weather.extras) == ({"strict": True}, None)


def test_a_tool_that_must_be_called_is_not_deferred(call: Run) -> None:
    @wrap_model_call
    def force(request: Any) -> Any:
        return (yield request.override(tool_choice="mail"))

    model = made(ChatOpenAI, ["ok"])
    assert offer(call, model, force, ProviderToolSearchMiddleware()) == (["weather"], [OPENAI])


def test_an_existing_search_tool_is_the_only_one(call: Run) -> None:
    mine = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    model = made(ChatAnthropic, ["ok"])
    found = offer(call, model, ProviderToolSearchMiddleware(), tools=[mail, mine])
    assert found == (["mail"], [mine])


def test_without_a_deferred_tool_the_request_passes_unchanged(call: Run) -> None:
    model = ScriptedChatModel(["ok"])
    mine = {"type": "web_search"}
    stay = marked(mail, False)
    call(create_agent(model, [stay, mine], middleware=[ProviderToolSearchMiddleware()]), GO)
    assert model.requests[0].tools == ["mail", "web_search"]


def test_a_model_of_another_provider_is_warned_of_once_or_an_error(call: Run) -> None:
    model = ScriptedChatModel([[{"name": "mail", "args": {"to": "Ada"}}], "ok"])
    agent = create_agent(model, [mail], middleware=[ProviderToolSearchMiddleware()])
    with pytest.warns(UserWarning, match="provider of ScriptedChatModel") as caught:
        call(agent, GO)
    assert len(caught) == 1
    assert model.requests[0].tools == ["mail"]
    middleware = ProviderToolSearchMiddleware(on_unsupported="error")
    with pytest.raises(TurnError, match=r'provider="anthropic" or "openai"'):
        call(create_agent(ScriptedChatModel([]), [mail], middleware=[middleware]), GO)


@pytest.mark.long
def test_the_number_of_copies_is_limited(call: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    tools: list[Any] = []

    @wrap_model_call
    def fresh(request: Any) -> Any:
        """Make new tools for each call, as from a server."""
        tools.extend([mail.model_copy(), weather.model_copy()])
        return (yield request.override(tools=tools[-2:]))

    monkeypatch.setattr(MarkedTools, "SIZE", 3)
    middleware = ProviderToolSearchMiddleware()
    model = made(ChatOpenAI, ["ok"] * 5)
    agent = create_agent(model, [mail, weather], middleware=[fresh, middleware])
    for _ in range(5):
        call(agent, GO)
    assert len(middleware._copies) == 3
    assert all(t.extras["defer_loading"] for offered in model.bound for t in offered[:2])
    tools.clear()
    gc.collect()
    assert len(middleware._copies) == 0


@each(
    "settings, error, problem",
    [
        ({"searchable_tools": "mail"}, TypeError, "searchable_tools must be a list"),
        ({"searchable_tools": [3]}, TypeError, "searchable_tools must hold names"),
        ({"searchable_tools": []}, ValueError, "searchable_tools is empty"),
        ({"provider": "google"}, ValueError, "provider must be 'anthropic' or 'openai'"),
        ({"on_unsupported": "ignore"}, ValueError, "on_unsupported must be 'warn' or 'error'"),
    ],
)
def test_invalid_arguments_are_refused(
    settings: dict[str, Any], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        ProviderToolSearchMiddleware(**settings)


def test_a_configurable_model_is_recognised(call: Run) -> None:
    openai, claude = made(ChatOpenAI, ["ok"]), made(ChatAnthropic, ["ok"])
    model = openai.configurable_alternatives(
        ConfigurableField(id="model"), default_key="openai", claude=claude
    )
    agent = create_agent(model, [mail], middleware=[ProviderToolSearchMiddleware()])
    call(agent, GO)
    call(agent, GO, {"configurable": {"model": "claude"}})
    assert (openai.bound[0][-1], claude.bound[0][-1]) == (OPENAI, ANTHROPIC)


@pytest.mark.filterwarnings("ignore:.*AF210:agent_factory.AgentFactoryWarning")
@each(
    "names, hint",
    [
        (["mail", "nope"], "got 'nope'; the tools are mail, weather. Correct the name."),
        (["wether"], "got 'wether'; the tools are mail, weather. Did you mean 'weather'?"),
    ],
)
def test_a_name_that_no_tool_has_is_an_error(call: Run, names: list[str], hint: str) -> None:
    """At the build if it is nearly right, unless that is allowed; else at the first call."""
    middleware = ProviderToolSearchMiddleware(searchable_tools=names)
    options: Any = {"middleware": [middleware], "ignore": ["AF124"]}
    agent = create_agent(made(ChatOpenAI, ["ok"]), [mail, weather], **options)
    with pytest.raises(ValueError, match="searchable_tools must name tools") as caught:
        call(agent, GO)
    assert hint in str(caught.value)


def test_a_request_without_tools_is_not_checked(call: Run) -> None:
    """A layer asks for a last answer so."""

    @wrap_model_call
    def last(request: Any) -> Any:
        return (yield request.override(tools=[]))

    stack = [last, ProviderToolSearchMiddleware(searchable_tools=["mail"])]
    model = made(ChatOpenAI, ["ok"])
    call(create_agent(model, [mail], middleware=stack), GO)
    assert model.bound == []
