"""The innermost call: tools are bound once, settings passed, the answer named and read."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from stack_agents import agent_of

from agent_factory import (
    HistoryError,
    SpecError,
    create_agent,
    init_model,
    wrap_model_call,
    wrap_tool_call,
)
from agent_factory.errors import BadReturn, ModelCannotCallTools, UnknownTool
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import OwnModel
from samples import add_tool as add
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


class Counting(ScriptedChatModel):
    """Counts how often tools are bound to it."""

    bound: list[Any] = []  # noqa: RUF012  # a pydantic field: each instance has its own

    def bind_tools(self, tools: Any, *, tool_choice: Any = None, **kwargs: Any) -> Any:
        self.bound.append([getattr(tool, "name", tool) for tool in tools])
        return super().bind_tools(tools, tool_choice=tool_choice, **kwargs)


def test_sets_that_take_turns_are_bound_once_each(call: Any) -> None:
    sets = iter([[add], [multiply], [add, multiply]] * 2)

    @wrap_model_call
    def turns(request: Any) -> Any:
        return (yield request.override(tools=next(sets)))

    model = Counting(steps=["1", "2", "3", "4", "5", "6"])
    agent = create_agent(model, [add, multiply], middleware=[turns])
    for _ in range(6):
        call(agent, ASK)
    assert model.bound == [["add"], ["multiply"], ["add", "multiply"]]
    offered = [record.tools for record in model.requests]
    assert offered == [["add"], ["multiply"], ["add", "multiply"]] * 2


def test_another_model_is_bound_for_itself(call: Any) -> None:
    other = Counting(steps=["From the other one."])

    @wrap_model_call
    def switch(request: Any) -> Any:
        yield request
        return (yield request.override(model=other))

    model = Counting(steps=["From the first."])
    result = call(create_agent(model, [add], middleware=[switch]), ASK)
    assert result["messages"][-1].text == "From the other one."
    assert (model.bound, other.bound) == ([["add"]], [["add"]])


@each("tools", [[], [add]])
def test_a_choice_and_settings_of_a_call_are_passed(call: Any, tools: Any) -> None:
    """Another choice is bound again, and none is sent without tools."""
    choices: list[Any] = [{"tool_choice": choice} for choice in ("any", "auto", "any")]
    settings: list[Any] = [{"temperature": 0.1}, {"temperature": 0.9}]
    changes = iter([*choices, *({"model_settings": one} for one in settings)])

    @wrap_model_call
    def choose(request: Any) -> Any:
        return (yield request.override(**next(changes)))

    model = Counting(steps=["1", "2", "3", "4", "5"])
    agent = create_agent(model, tools, middleware=[choose])
    for _ in range(5):
        call(agent, ASK)
    kwargs = [record.kwargs for record in model.requests]
    assert kwargs == [*(choices if tools else [{}] * 3), *settings]
    assert len(model.bound) == (4 if tools else 0)


@pytest.mark.usefixtures("quick_gc")
def test_the_cache_of_bound_models_is_bounded(call: Any) -> None:
    """A new set for every call, as of MCP, must not fill the memory."""

    class Described(dict[str, Any]):
        """A dict that can be watched."""

    offered: list[weakref.ref[Described]] = []

    @wrap_model_call
    def fresh(request: Any) -> Any:
        described = Described(type="web_search")
        offered.append(weakref.ref(described))
        return (yield request.override(tools=[described]))

    agent = create_agent(ScriptedChatModel(["Hi."] * 50), middleware=[fresh])
    for _ in range(50):
        call(agent, ASK)
    gc.collect()
    assert sum(ref() is not None for ref in offered) <= 20


@each("format_", [None, ToolStrategy({"title": "Answer"})])
def test_a_model_that_cannot_call_tools_is_named(call: Any, format_: Any) -> None:
    """E38: a clear message in place of an empty NotImplementedError; without tools it works."""
    model = FakeListChatModel(responses=["Hi."])
    with pytest.raises(NotImplementedError, match="has no bind_tools") as caught:
        call(create_agent(model, [] if format_ else [add], response_format=format_), ASK)
    assert isinstance(caught.value, ModelCannotCallTools)
    assert caught.value.subject == "FakeListChatModel"
    assert call(create_agent(model), ASK)["messages"][-1].text == "Hi."


def test_an_error_inside_bind_tools_is_not_taken_for_a_missing_method(call: Any) -> None:
    class Broken(ScriptedChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return tools.no_such_attribute

    with pytest.raises(AttributeError, match="no_such_attribute"):
        call(create_agent(Broken(), [add]), ASK)


@each("tools", [[], [add]])
def test_settings_and_a_config_bound_to_the_model_are_kept(call: Any, tools: Any) -> None:
    """B24: a model with bound settings is bound to the tools on top of them."""
    seen: list[Any] = []

    class Watching(BaseCallbackHandler):
        def on_chat_model_start(self, *args: Any, tags: Any = None, **kwargs: Any) -> None:
            seen.extend(tags)

    model = ScriptedChatModel(["Hi."])
    bound: Any = model.bind(temperature=0).with_config(tags=["mine"], callbacks=[Watching()])
    call(create_agent(bound, tools), ASK)
    assert model.requests[0].kwargs == {"temperature": 0}
    assert model.requests[0].tools == [tool.name for tool in tools]
    assert "mine" in seen


def test_a_tool_offered_at_run_time_must_be_one_that_a_layer_can_run(call: Any) -> None:
    """wanted 13."""

    @wrap_model_call
    def offer(request: Any) -> Any:
        return (yield request.override(tools=[*request.tools, multiply]))

    @wrap_tool_call
    def execute(request: Any) -> Any:
        return (yield request)

    with pytest.raises(UnknownTool, match=r"multiply.*nothing in this agent can run it"):
        call(create_agent(ScriptedChatModel(["Hi."]), [add], middleware=[offer]), ASK)
    model = ScriptedChatModel(["Hi."])
    call(create_agent(model, [add], middleware=[offer, execute]), ASK)
    assert model.requests[0].tools == ["add", "multiply"]


def test_no_messages_and_no_prompt_is_an_error(call: Any) -> None:
    with pytest.raises(HistoryError, match="Pass a message to the run"):
        call(create_agent(ScriptedChatModel(["Hi."])), {"messages": []})
    greeting = create_agent(ScriptedChatModel(["Hi."]), system_prompt="Greet.")
    assert [m.text for m in call(greeting, {"messages": []})["messages"]] == ["Hi."]


class Same(OwnModel):
    """Gives the very same message each time, as a cache does."""

    message: AIMessage

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.message)])


def test_an_answer_of_a_cache_is_a_message_of_its_own(call: Any) -> None:
    """It has the id of the first answer, in whose place it would be."""

    @wrap_model_call
    def the_last(request: Any) -> Any:
        return (yield request.override(messages=request.messages[-1:]))

    model = FakeListChatModel(responses=["5."], cache=InMemoryCache())
    agent = create_agent(model, middleware=[the_last])
    first = call(agent, ASK)["messages"]
    result = call(agent, {"messages": [*first, *ASK["messages"]]})
    assert [message.text for message in result["messages"]] == ["2 + 3?", "5."] * 2


def test_the_name_is_not_written_on_the_models_own_object(call: Any) -> None:
    model = Same(message=AIMessage("Hi."))
    results = [call(create_agent(model, name=name), ASK) for name in ("one", "two")]
    assert [result["messages"][-1].name for result in results] == ["one", "two"]


def test_a_call_without_an_id_gets_one_so_that_it_can_be_answered(call: Any) -> None:
    calls: Any = [{"name": "add", "args": {"a": n, "b": 0}, "id": None} for n in (1, 2)]
    model = Same(message=AIMessage("", tool_calls=calls))
    result = call(agent_of([lambda _: model.message, "Done."], tools=[add]), ASK)
    answers = [m for m in result["messages"] if m.type == "tool"]
    assert [m.text for m in answers] == ["1", "2"]
    asked = [c["id"] for c in result["messages"][1].tool_calls]
    assert [m.tool_call_id for m in answers] == asked
    assert len(set(asked)) == 2


def test_calls_that_share_an_id_get_distinct_ids_in_every_form(call: Any) -> None:
    blocks = [
        {"type": "tool_use", "id": "1", "name": "add", "input": {"a": n, "b": 1}} for n in (1, 2)
    ]
    openai = {"type": "function_call", "id": "f", "call_id": "1", "name": "add", "arguments": "{}"}
    calls = [{"name": "add", "args": block["input"], "id": "1"} for block in blocks]
    other = {"name": "add", "args": {"a": 0, "b": 0}, "id": "1_2"}
    message = AIMessage([*blocks, openai, "text"], tool_calls=[*calls, other])
    said = call(agent_of([message, "done"], tools=[add]), {"messages": "hi"})["messages"]
    assert [c["id"] for c in said[1].tool_calls] == ["1", "1_3", "1_2"]
    assert [b["id"] for b in said[1].content[:2]] == ["1", "1_3"]
    assert said[1].content[2:] == [openai, "text"]
    assert [(m.tool_call_id, m.text) for m in said[2:5]] == [("1", "2"), ("1_3", "3"), ("1_2", "0")]
    assert message.tool_calls[1]["id"] == "1"


def test_an_invalid_call_without_an_id_is_answered_too(call: Any) -> None:
    broken: Any = {"name": "add", "args": "{a:", "id": None, "error": "no JSON"}
    model = ScriptedChatModel([AIMessage("", invalid_tool_calls=[broken]), "Sorry."])
    result = call(create_agent(model, [add]), ASK)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert "no JSON" in result["messages"][2].text


@each("output", ["text", HumanMessage("not mine"), None])
def test_a_model_that_does_not_return_a_message_is_refused(call: Any, output: Any) -> None:
    class Odd(ScriptedChatModel):
        def invoke(self, *args: Any, **kwargs: Any) -> Any:
            return output

        async def ainvoke(self, *args: Any, **kwargs: Any) -> Any:
            return output

    with pytest.raises(BadReturn, match="the model"):
        call(create_agent(Odd()), ASK)


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


@each("junk", [None, 5, object(), len, ScriptedChatModel])
def test_something_other_than_a_model_is_refused_at_build(junk: Any) -> None:
    with pytest.raises(SpecError, match="model"):
        create_agent(junk)
