"""Which tools a model is offered: another model chooses them, or its provider searches."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from bound_models import Bound, ChatAnthropic, ChatOpenAI, made
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, ModelRequest, create_agent, run, wrap_model_call
from agent_factory.errors import TurnError
from agent_factory.middleware import (
    LLMToolSelectorMiddleware,
    ProviderToolSearchMiddleware,
    ToolSelectionError,
)
from agent_factory.middleware._shared.identity import IdentityCache
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, mail
from tables import each

Run = Callable[..., Any]
GO: Any = {"messages": [HumanMessage("How warm is it in Ulm?", id="q")]}


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"12 degrees in {city}"


@tool
def translate(text: str) -> str:
    """Translate a text."""
    return text


TOOLS = [weather, mail, translate]


def choice(*names: Any) -> list[dict[str, Any]]:
    """What a model with structured output answers."""
    return [{"name": "ToolSelection", "args": {"tools": list(names)}}]


def selector(*steps: Any, **settings: Any) -> tuple[ScriptedChatModel, LLMToolSelectorMiddleware]:
    model = ScriptedChatModel(list(steps))
    return model, LLMToolSelectorMiddleware(model=model, **settings)


def test_the_model_is_offered_what_was_chosen(call: Run) -> None:
    """Tools that are always included and tools of the provider do not count."""
    chooser, select = selector(choice("weather"), max_tools=1, always_include=["mail"])
    model = ScriptedChatModel(["12"])
    call(create_agent(model, [*TOOLS, {"type": "web_search"}], middleware=[select]), GO)
    assert model.requests[0].tools == ["weather", "mail", "web_search"]
    system, asked = chooser.requests[0].messages
    assert isinstance(system, SystemMessage)
    assert "- translate: Translate a text." in system.text
    assert "mail" not in system.text
    assert "How warm is it in Ulm?" in asked.text


class Holder(AgentMiddleware):
    """Middleware that passes model calls on to another one, which writes to the state."""

    def __init__(self, *inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def around_model(self, request: Any) -> Any:
        return (yield from self.inner[0].around_model(request))


@each("is_held", [False, True])
def test_one_choice_serves_all_turns_of_a_task_and_a_new_message_asks_again(
    call: Run, is_held: bool
) -> None:
    chooser, select = selector(choice("weather"), choice("mail"))
    select = Holder(select) if is_held else select  # type: ignore[assignment]
    calls = [{"name": "weather", "args": {"city": "Ulm"}}]
    model = ScriptedChatModel([calls, calls, "12 degrees", "sent"])
    agent = create_agent(model, TOOLS, middleware=[select], checkpointer=InMemorySaver())
    call(agent, GO, THREAD)
    result = call(agent, {"messages": "Mail that to Ada"}, THREAD)
    assert [r.tools for r in model.requests] == [["weather"]] * 3 + [["mail"]]
    assert "12 degrees" in chooser.requests[1].messages[1].text
    assert "tool_selections" not in result
    chooser.assert_done()


def test_a_changed_set_of_tools_asks_again(call: Run) -> None:
    @wrap_model_call
    def fewer(request: Any) -> Any:
        """Take a tool away once a result is there."""
        tools = request.tools[:2] if request.messages[-1].type == "tool" else request.tools
        return (yield request.override(tools=tools))

    chooser, select = selector(choice("weather", "translate"), choice("weather"))
    model = ScriptedChatModel([[{"name": "weather", "args": {"city": "Ulm"}}], "12"])
    call(create_agent(model, TOOLS, middleware=[fewer, select]), GO)
    assert [r.tools for r in model.requests] == [["weather", "translate"], ["weather"]]
    chooser.assert_done()


def forcing(choice: Any) -> Any:
    """A layer that names the tool to call."""

    @wrap_model_call
    def force(request: Any) -> Any:
        return (yield request.override(tool_choice=choice))

    return force


@each(
    "forced",
    [
        {"type": "function", "function": {"name": "mail"}},
        {"type": "tool", "name": "mail"},
        {"tool": {"name": "mail"}},
    ],
)
def test_a_tool_that_must_be_called_stays(call: Run, forced: Any) -> None:
    """As OpenAI, Anthropic and Bedrock name it."""
    _, select = selector(choice("weather"))
    model = ScriptedChatModel(["ok"])
    call(create_agent(model, TOOLS, middleware=[forcing(forced), select]), GO)
    assert model.requests[0].tools == ["weather", "mail"]


def test_none_may_be_chosen_and_then_nothing_is_forced(call: Run) -> None:
    _, select = selector(choice())
    model = ScriptedChatModel(["Hello"])
    call(create_agent(model, TOOLS, middleware=[forcing("any"), select]), GO)
    assert model.requests[0].tools == []
    assert "tool_choice" not in model.requests[0].kwargs


@each(
    "tools, settings, messages",
    [
        (TOOLS, {"max_tools": 3}, [HumanMessage("Hi")]),
        (TOOLS, {"max_tools": 1, "always_include": ["mail", "weather"]}, [HumanMessage("Hi")]),
        ([mail], {}, [HumanMessage("Hi")]),
        ([], {}, [HumanMessage("Hi")]),
        (TOOLS, {}, [AIMessage("Hi")]),
        (TOOLS, {}, [HumanMessage("Hi", additional_kwargs={"lc_source": "summarization"})]),
    ],
)
def test_without_anything_to_choose_no_model_is_asked(
    call: Run, tools: Any, settings: Any, messages: Any
) -> None:
    chooser, select = selector(**settings)
    model = ScriptedChatModel(["ok"])
    call(create_agent(model, tools, middleware=[select]), {"messages": messages})
    assert model.requests[0].tools == [t.name for t in tools]
    assert chooser.requests == []


BAD = [
    (choice("wether"), "there is no 'wether' among weather, mail, translate"),
    (choice(7, "post"), "there is no 7, 'post' among weather, mail, translate"),
    ([{"name": "ToolSelection", "args": {"tools": "mail"}}], "it does not contain a list of names"),
    ([{"name": "ToolSelection", "args": {}}], "it does not contain a list of names"),
    ("I'd rather not.", "it does not contain a list of names"),
    ("", "it does not contain a list of names"),
]


@each(
    "names, offered",
    [
        (["wether", "mail"], ["mail", "translate"]),
        ([7, "mail"], ["mail", "translate"]),
        (["mail", "mail"], ["mail", "translate"]),
        (["post", "mail", "weather", "draw"], ["weather", "mail", "translate"]),
        (["draw", "mail", "weather"], ["mail", "draw", "translate"]),
        (["translate"], ["translate"]),
        (["translate", "mail"], ["mail", "translate"]),
        ([], ["translate"]),
    ],
)
def test_the_known_tools_of_a_choice_are_offered(
    call: Run, names: list[Any], offered: list[str]
) -> None:
    @tool
    def draw(what: str) -> str:
        """Draw a picture."""
        return what

    chooser, select = selector(choice(*names), max_tools=2, always_include=["translate"])
    model = ScriptedChatModel(["ok"])
    call(create_agent(model, [weather, mail, draw, translate], middleware=[select]), GO)
    assert model.requests[0].tools == offered
    chooser.assert_done()


@each("answer, problem", BAD)
def test_an_invalid_choice_is_requested_again_until_the_attempts_end(
    call: Run, answer: Any, problem: str
) -> None:
    """Then all tools are offered, or an error holds the answer."""
    chooser, select = selector(answer, choice("mail"), answer, answer, max_tools=2)
    model = ScriptedChatModel(["ok", "ok"])
    agent = create_agent(model, TOOLS, middleware=[select])
    call(agent, GO)
    assert problem in chooser.requests[1].messages[-1].text
    assert len(chooser.requests[1].messages) == 2
    assert call(agent, GO)["messages"][-1].text == "ok"
    assert [r.tools for r in model.requests] == [["mail"], ["weather", "mail", "translate"]]
    chooser.assert_done()
    settings: Any = {"max_tools": 2, "max_retries": 2, "on_parsing_failure": "error"}
    chooser, select = selector(answer, answer, answer, **settings)
    with pytest.raises(ToolSelectionError) as caught:
        call(create_agent(ScriptedChatModel([]), TOOLS, middleware=[select]), GO)
    assert isinstance(caught.value, TurnError)
    assert problem in caught.value.reason
    assert caught.value.options == ["weather", "mail", "translate"]
    assert isinstance(caught.value.answer, str)
    chooser.assert_done()


@each(
    "instead, offered",
    [
        ("all", ["weather", "mail", "translate"]),
        ("none", ["translate"]),
        (["mail", "translate"], ["mail", "translate"]),
        (["post", "mail"], ["mail", "translate"]),
        ([], ["translate"]),
        (lambda answer: ["weather"] * (answer.text == "no"), ["weather", "translate"]),
    ],
)
def test_on_parsing_failure_selects_other_tools(
    call: Run, instead: Any, offered: list[str]
) -> None:
    chooser, select = selector(
        "no", max_retries=0, on_parsing_failure=instead, always_include=["translate"]
    )
    model = ScriptedChatModel(["ok"])
    call(create_agent(model, TOOLS, middleware=[select]), GO)
    assert model.requests[0].tools == offered
    chooser.assert_done()


@each("parsed", ["junk", {"wrong": 1}, {"tools": ["nope"]}, {"tools": "mail"}])
def test_a_function_receives_the_parsed_answer(call: Run, parsed: Any) -> None:
    """As in LangChain; the message only if nothing could be parsed."""

    class Structured(ScriptedChatModel):
        def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
            return RunnableLambda(lambda _: {"raw": AIMessage(""), "parsed": parsed})

    answers: list[Any] = []

    def instead(answer: Any) -> list[str]:
        answers.append(answer)
        return ["mail"]

    pick = LLMToolSelectorMiddleware(model=Structured(), max_retries=0, on_parsing_failure=instead)
    model = ScriptedChatModel(["ok"])
    call(create_agent(model, TOOLS, middleware=[pick]), GO)
    assert (answers, model.requests[0].tools) == ([parsed], ["mail"])


@each(
    "settings, problem",
    [
        ({"max_retries": 0, "on_parsing_failure": ["post"]}, "there is no 'post'"),
        ({"always_include": ["post"]}, r"'post'.*there are weather, mail, translate"),
    ],
)
def test_a_setting_that_names_an_unknown_tool_is_an_error(
    call: Run, settings: Any, problem: str
) -> None:
    _, select = selector("no", **settings)
    with pytest.raises(ToolSelectionError, match=problem):
        call(create_agent(ScriptedChatModel([]), TOOLS, middleware=[select]), GO)


@each("answer", ['["mail"]', 'I choose:\n```json\n["mail"]\n```', '{"tools": ["mail"]}'])
def test_a_model_without_structured_output_answers_in_text(call: Run, answer: str) -> None:
    model = ScriptedChatModel(["ok"])
    select = LLMToolSelectorMiddleware(model=FakeListChatModel(responses=[answer]))
    call(create_agent(model, TOOLS, middleware=[select]), GO)
    assert model.requests[0].tools == ["mail"]


def test_two_instances_keep_their_own_choices(call: Run) -> None:
    first, outer = selector(choice("weather", "mail"), name="outer")
    second, inner = selector(choice("mail"), name="inner")
    model = ScriptedChatModel([[{"name": "mail", "args": {"to": "Ada"}}], "ok"])
    call(create_agent(model, TOOLS, middleware=[outer, inner]), GO)
    assert [r.tools for r in model.requests] == [["mail"], ["mail"]]
    first.assert_done()
    second.assert_done()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just("mail"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(answers=st.lists(ANYTHING, min_size=2, max_size=2), most=st.none() | st.integers(1, 2))
def test_any_answer_offers_at_most_max_tools_or_all(answers: list[Any], most: int | None) -> None:
    steps = [[{"name": "ToolSelection", "args": {"tools": answer}}] for answer in answers]
    model, select = selector(*steps, max_tools=most, on_parsing_failure="all")
    request: Any = ModelRequest(model=model, messages=GO["messages"], tools=list(TOOLS))
    made: list[ModelRequest[Any]] = []
    run(select.around_model(request), lambda made_now: made.append(made_now))
    offered = [t.name for t in made[0].tools if not isinstance(t, dict)]
    assert len(set(offered)) == len(offered)
    assert set(offered) <= {"weather", "mail", "translate"}
    assert most is None or len(offered) <= most or len(offered) == 3


ASK: Any = {"messages": "Go"}
ANTHROPIC = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
OPENAI = {"type": "tool_search"}


class MyOpenAI(ChatOpenAI):
    """A product's own subclass."""


def offer(
    call: Run, model: Bound, *stack: Any, tools: Any = (mail, weather)
) -> tuple[list[str], list[dict[str, Any]]]:
    """The names of the deferred tools, and the provider tools, of the first call of a model."""
    call(create_agent(model, tools, middleware=stack), ASK)
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


def marked_tool(original: BaseTool, mark: bool) -> BaseTool:
    return original.model_copy(update={"extras": {"defer_loading": mark, "strict": True}})


@each(
    "tools, chosen, deferred",
    [
        ([marked_tool(mail, True), weather], None, ["mail"]),
        ([marked_tool(mail, True), weather], ["weather"], ["mail", "weather"]),
        ([marked_tool(mail, False), weather], None, ["weather"]),
        ([marked_tool(mail, False), weather], ["mail", "weather"], ["weather"]),
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
    assert call(agent, ASK)["messages"][2].text == "sent to Ada"
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
    stay = marked_tool(mail, False)
    call(create_agent(model, [stay, mine], middleware=[ProviderToolSearchMiddleware()]), ASK)
    assert model.requests[0].tools == ["mail", "web_search"]


def test_a_model_of_another_provider_is_warned_of_once_or_an_error(call: Run) -> None:
    model = ScriptedChatModel([[{"name": "mail", "args": {"to": "Ada"}}], "ok"])
    agent = create_agent(model, [mail], middleware=[ProviderToolSearchMiddleware()])
    with pytest.warns(UserWarning, match="provider of ScriptedChatModel") as caught:
        call(agent, ASK)
    assert len(caught) == 1
    assert model.requests[0].tools == ["mail"]
    middleware = ProviderToolSearchMiddleware(on_unsupported="error")
    with pytest.raises(TurnError, match=r'provider="anthropic" or "openai"'):
        call(create_agent(ScriptedChatModel([]), [mail], middleware=[middleware]), ASK)


@pytest.mark.long
def test_the_number_of_copies_is_limited(call: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    tools: list[Any] = []

    @wrap_model_call
    def fresh(request: Any) -> Any:
        """Make new tools for each call, as from a server."""
        tools.extend([mail.model_copy(), weather.model_copy()])
        return (yield request.override(tools=tools[-2:]))

    monkeypatch.setattr(IdentityCache, "SIZE", 3)
    middleware = ProviderToolSearchMiddleware()
    model = made(ChatOpenAI, ["ok"] * 5)
    agent = create_agent(model, [mail, weather], middleware=[fresh, middleware])
    for _ in range(5):
        call(agent, ASK)
    assert len(middleware._copies) == 3
    assert all(t.extras["defer_loading"] for offered in model.bound for t in offered[:2])
    tools.clear()
    gc.collect()
    assert len(middleware._copies) == 0


def test_a_configurable_model_is_recognised(call: Run) -> None:
    openai, claude = made(ChatOpenAI, ["ok"]), made(ChatAnthropic, ["ok"])
    model = openai.configurable_alternatives(
        ConfigurableField(id="model"), default_key="openai", claude=claude
    )
    agent = create_agent(model, [mail], middleware=[ProviderToolSearchMiddleware()])
    call(agent, ASK)
    call(agent, ASK, {"configurable": {"model": "claude"}})
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
        call(agent, ASK)
    assert hint in str(caught.value)


def test_a_request_without_tools_is_not_checked(call: Run) -> None:
    """A layer asks for a last answer so."""

    @wrap_model_call
    def last(request: Any) -> Any:
        return (yield request.override(tools=[]))

    stack = [last, ProviderToolSearchMiddleware(searchable_tools=["mail"])]
    model = made(ChatOpenAI, ["ok"])
    call(create_agent(model, [mail], middleware=stack), ASK)
    assert model.bound == []
