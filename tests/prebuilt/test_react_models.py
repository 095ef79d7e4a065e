"""The models of create_react_agent, and what they read: prompts and histories (B12, B17-B36)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.runtime import Runtime

from agent_factory import create_react_agent
from agent_factory.errors import BadReturn, HistoryError
from agent_factory.prebuilt import AgentStatePydantic
from agent_factory.prebuilt.react_errors import ModelTakesNoTools
from agent_factory.prebuilt.react_models import chat_model_of, takes_tools
from agent_factory.testing import ScriptedChatModel
from samples import Answer, scripted
from samples import add_tool as add
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}


@tool
def show(text: str) -> str:
    """Show a text."""
    return text


ADD = [{"name": "add", "args": {"a": 2, "b": 3}}]
WEB = {"type": "web_search", "name": "web_search"}


def test_a_model_that_knows_its_tools_is_asked_as_it_is(call: Any) -> None:
    """B24, B26"""
    asked = scripted(ADD, "It is 5.")
    agent = create_react_agent(asked.bind_tools([add], tool_choice="any"), [add])
    assert call(agent, ASK)["messages"][-1].text == "It is 5."
    assert [r.kwargs["tool_choice"] for r in asked.requests] == ["any", "any"]


def test_what_else_was_bound_is_kept_when_tools_are(call: Any) -> None:
    """B24: a binding without tools gets them, and keeps its stop words."""
    asked = scripted()
    call(create_react_agent(asked.bind(stop=["."]), [add]), ASK)
    assert asked.requests[0].tools == ["add"]
    assert asked.requests[0].kwargs["stop"] == ["."]


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


class Odd:
    """A tool in a form nobody knows."""


@each(
    "bound, tools, provided",
    [
        ([named("add")], [add], 0),
        ([{"name": "add"}], [add], 0),
        ([named("add"), {"name": "show"}], [show, add], 0),
        ([named("add"), {"type": "web_search"}], [add], 1),
        ([named("add"), Odd()], [add], 1),
        ([], [], 0),
    ],
)
def test_bound_tools_in_forms_of_providers_are_known(bound: Any, tools: Any, provided: int) -> None:
    """B24-B27"""
    assert not takes_tools(scripted().bind(tools=bound), tools, provided)


@each(
    "bound, tools, provided, message",
    [
        ([named("add")], [], 0, "Got 0 tools, expected 1"),
        ([named("add")], [add, show], 0, "Got 2 tools, expected 1"),
        ([named("add")], [add], 1, "Got 1 tools, expected 0"),
    ],
)
def test_other_bound_tools_are_refused(bound: Any, tools: Any, provided: int, message: str) -> None:
    """B25"""
    with pytest.raises(ValueError, match="Number of tools") as caught:
        create_react_agent(scripted().bind(tools=bound), [*tools, *[WEB] * provided])
    assert str(caught.value) == (
        "Number of tools in the model.bind_tools() and tools passed to create_react_agent must "
        f"match {message}"
    )


@each("bound", [[named("show")], [{"name": "show"}], [{"type": "x"}], [Odd()]])
def test_a_bound_tool_of_another_name_is_refused(bound: Any) -> None:
    """B26"""
    with pytest.raises(ValueError, match="Missing tools") as caught:
        create_react_agent(scripted().bind(tools=bound), [add])
    assert str(caught.value) == "Missing tools '{'add'}' in the model.bind_tools()"


def instructions(messages: Any) -> list[Any]:
    return [SystemMessage("Be brief."), *messages]


def test_a_chain_that_ends_in_a_bound_model_is_asked_as_it_is(call: Any) -> None:
    """B23"""
    asked = scripted(ADD, "It is 5.")
    chain = RunnableLambda(instructions) | asked.bind_tools([add])
    assert call(create_react_agent(chain, [add]), ASK)["messages"][-1].text == "It is 5."
    assert [m.text for m in asked.requests[0].messages] == ["Be brief.", "2 + 3?"]


def test_the_tools_of_a_chain_are_looked_at_too() -> None:
    """B23, B25"""
    chain = RunnableLambda(instructions) | scripted().bind_tools([add])
    with pytest.raises(ValueError, match="Number of tools"):
        create_react_agent(chain, [add, show])


@each(
    "given",
    [
        RunnableLambda(instructions) | scripted(),
        FakeListChatModel(responses=[]),
        RunnableLambda(instructions),
    ],
)
@each("tools", [[add], [WEB]])
def test_a_model_without_bind_tools_is_refused_with_a_hint(given: Any, tools: Any) -> None:
    """B28, E38: by the types known for it, when the agent is built."""
    with pytest.raises(ModelTakesNoTools, match="has no attribute 'bind_tools'") as caught:
        create_react_agent(given, tools)
    assert "prompt | model.bind_tools" in caught.value.hint
    assert isinstance(caught.value, NotImplementedError)
    assert isinstance(caught.value, AttributeError)


@each(
    "model", [RunnableLambda(lambda _: AIMessage("Hello")), FakeListChatModel(responses=["Hello"])]
)
def test_any_runnable_answers_where_there_are_no_tools(call: Any, model: Any) -> None:
    """B19, E38: nothing is bound to it."""
    assert call(create_react_agent(model, []), ASK)["messages"][-1].text == "Hello"


def test_what_answers_no_message_is_named(call: Any) -> None:
    wrong: Any = RunnableLambda(lambda _: "Hello")
    agent = create_react_agent(wrong, [])
    with pytest.raises(BadReturn, match="the model: must return an AIMessage, got str"):
        call(agent, ASK)


def test_the_chat_model_is_found_in_chains_and_bindings() -> None:
    """B22"""
    inside = scripted()
    for given in (inside, inside.bind(stop=["."]), inside.bind_tools([add]).bind(seed=1)):
        assert chat_model_of(given) is inside
        assert chat_model_of(RunnableLambda(instructions) | given) is inside


def test_a_structured_answer_needs_a_chat_model() -> None:
    """B22: refused when the agent is built."""
    wrong: Any = RunnableLambda(instructions)
    with pytest.raises(TypeError, match="Expected `model` to be a ChatModel") as caught:
        create_react_agent(wrong, [], response_format=Answer)
    assert str(caught.value).endswith(f"got {RunnableLambda}")


def test_a_function_chooses_the_model_of_each_call(call: Any) -> None:
    """B17, B20: from the state and the runtime; it binds its own tools."""
    small, large = scripted(ADD), scripted("It is 5.")
    seen = []

    def choose(state: Any, runtime: Runtime[Any]) -> Runnable[Any, Any]:
        seen.append((len(state["messages"]), runtime.context))
        return (small if len(state["messages"]) == 1 else large).bind_tools([add])

    agent = create_react_agent(choose, [add, show])
    assert call(agent, ASK, context={"user": "ada"})["messages"][-1].text == "It is 5."
    assert seen == [(1, {"user": "ada"}), (3, {"user": "ada"})]
    assert small.requests[0].tools == ["add"]


def test_a_chosen_model_reads_the_prompt_and_nothing_is_bound_to_it(call: Any) -> None:
    """B20"""
    asked = scripted()
    call(create_react_agent(lambda state, runtime: asked, [add], prompt="Be brief."), ASK)
    assert asked.requests[0].tools == []
    assert [m.text for m in asked.requests[0].messages] == ["Be brief.", "2 + 3?"]


async def choose_later(state: Any, runtime: Any) -> BaseChatModel:
    return scripted("Hello", [{"name": "Answer", "args": {"number": 5}}])


class Chooser:
    """An object that is called and awaited."""

    async def __call__(self, state: Any, runtime: Any) -> BaseChatModel:
        return scripted("Hello")


@each("choose", [choose_later, Chooser()])
def test_the_choice_may_be_awaited_in_an_asynchronous_run_alone(choose: Any) -> None:
    """B17, B21"""
    agent = create_react_agent(choose, [])
    assert asyncio.run(agent.ainvoke(ASK))["messages"][-1].text == "Hello"
    with pytest.raises(RuntimeError) as caught:
        agent.invoke(ASK)
    assert str(caught.value) == ASYNC_MODEL


ASYNC_MODEL = (
    "Async model callable provided but agent invoked synchronously. Use agent.ainvoke() or "
    "agent.astream(), or provide a sync model callable."
)


def test_a_choice_serves_the_structured_answer_too(call: Any) -> None:
    """B21, B42"""
    answering = scripted([{"name": "Answer", "args": {"number": 5}}])
    turns = iter([scripted("Hello"), answering])
    agent = create_react_agent(lambda state, runtime: next(turns), [], response_format=Answer)
    assert call(agent, ASK)["structured_response"] == Answer(number=5)


@each("chosen", [None, "openai:gpt-4o", [scripted]])
def test_a_choice_that_is_not_a_model_is_refused(chosen: Any, call: Any) -> None:
    agent = create_react_agent(lambda state, runtime: chosen, [])
    with pytest.raises(BadReturn, match="the function given as model: must return"):
        call(agent, ASK)


def shown(asked: ScriptedChatModel, index: int = 0) -> list[tuple[str, str]]:
    return [(m.type, m.text) for m in asked.requests[index].messages]


BRIEF = SystemMessage("Be brief.")


def first(state: Any) -> list[BaseMessage]:
    return [BRIEF, *state["messages"]]


TEMPLATE = ChatPromptTemplate([("system", "Be brief."), ("placeholder", "{messages}")])


class Prompter:
    """An object that is called."""

    def __call__(self, state: Any) -> list[BaseMessage]:
        return first(state)


@each(
    "prompt",
    [
        "Be brief.",
        BRIEF,
        first,
        Prompter(),
        RunnableLambda(first),
        TEMPLATE,
        TEMPLATE | RunnableLambda(lambda value: value.to_messages()),
        lambda state: BRIEF + state["messages"],  # core makes it a template
        lambda state: TEMPLATE,
        lambda state: TEMPLATE.invoke(state),
        lambda state: RunnableLambda(first),
    ],
)
def test_every_form_of_prompt_comes_first(prompt: Any, call: Any) -> None:
    """B29"""
    asked = scripted()
    call(create_react_agent(asked, [], prompt=prompt), ASK)
    assert shown(asked) == [("system", "Be brief."), ("human", "2 + 3?")]


@each("prompt", [3, ["Be brief."], {"system": "x"}, HumanMessage("x")])
def test_another_type_is_refused_as_a_prompt(prompt: Any) -> None:
    """B29"""
    with pytest.raises(ValueError, match="Got unexpected type") as caught:
        create_react_agent(scripted(), [], prompt=prompt)
    assert str(caught.value) == f"Got unexpected type for `prompt`: {type(prompt)}"


def test_a_sum_of_messages_may_hold_braces(call: Any) -> None:
    asked = scripted()
    agent = create_react_agent(asked, [], prompt=lambda state: BRIEF + state["messages"])
    call(agent, {"messages": [("user", "{x}")]})
    assert shown(asked) == [("system", "Be brief."), ("human", "{x}")]


async def test_a_coroutine_function_prompts_an_asynchronous_run() -> None:
    """B29"""
    asked = scripted()

    async def later(state: Any) -> list[BaseMessage]:
        return first(state)

    agent = create_react_agent(asked, [], prompt=later)
    await agent.ainvoke(ASK)
    assert shown(asked)[0] == ("system", "Be brief.")
    with pytest.raises(TypeError) as caught:
        agent.invoke(ASK)
    assert str(caught.value).startswith('No synchronous function provided to "Prompt".')


@each("given", [[("user", "Only this")], "Only this", HumanMessage("Only this")])
def test_a_prompt_gives_all_that_the_model_sees(given: Any, call: Any) -> None:
    """B30: also what is not in the state, and one message without a list."""
    asked = scripted()
    result = call(create_react_agent(asked, [], prompt=lambda state: given), ASK)
    assert shown(asked) == [("human", "Only this")]
    assert [m.text for m in result["messages"]] == ["2 + 3?", "Hello"]


@each("given", [None, 3, {"a": 1}])
def test_what_a_prompt_gives_must_be_messages(given: Any, call: Any) -> None:
    agent = create_react_agent(scripted(), [], prompt=lambda state: given)
    with pytest.raises(BadReturn, match="prompt: must return messages"):
        call(agent, ASK)


def test_a_prompt_may_ask_for_more_by_name(call: Any) -> None:
    """B29: as LangGraph gives it to any function of a node."""

    def instructions(
        state: Any, config: RunnableConfig, *, runtime: Runtime[Any], **_: Any
    ) -> list[BaseMessage]:
        user = config["configurable"]["user"]
        return [SystemMessage(f"{user}, {runtime.context['at']}"), *state["messages"]]

    asked = scripted()
    agent = create_react_agent(asked, [], prompt=instructions)
    call(agent, ASK, {"configurable": {"user": "Ada"}}, context={"at": "home"})
    assert shown(asked)[0] == ("system", "Ada, home")


def test_tokens_of_models_that_a_prompt_calls_are_not_streamed(collect: Any) -> None:
    """Their words are not the agent's."""

    def instructions(state: Any) -> Any:
        return [("system", scripted("Aside.").invoke("Hm?").text), *state["messages"]]

    agent = create_react_agent(scripted(), [], prompt=instructions)
    assert "".join(c.text for c, _ in collect(agent, ASK, stream_mode="messages")) == "Hello"


@each("schema", [None, AgentStatePydantic])
@each("chosen", [{}, {"llm_input_messages": []}])
def test_without_a_choice_the_state_is_shown(schema: Any, chosen: Any, call: Any) -> None:
    """B31: an empty choice is none."""
    asked = scripted()
    hook = {"pre_model_hook": lambda state: chosen, "state_schema": schema}
    call(create_react_agent(asked, [], prompt="Be brief.", **hook), ASK)
    assert shown(asked) == [("system", "Be brief."), ("human", "2 + 3?")]


def test_a_choice_holds_for_one_call(call: Any) -> None:
    """B32: what was chosen before is not shown again."""
    asked = scripted(ADD, "It is 5.")
    choices = iter([{"llm_input_messages": [("user", "Short")]}, {}])
    call(create_react_agent(asked, [add], pre_model_hook=lambda state: next(choices)), ASK)
    assert shown(asked) == [("human", "Short")]
    assert [kind for kind, _ in shown(asked, 1)] == ["human", "ai", "tool"]


def test_a_prompt_and_a_choice_of_models_see_what_was_chosen(call: Any) -> None:
    """B12: the schema of the model's input is that of the state, and this."""
    seen = []

    def choose(state: Any, runtime: Any) -> Any:
        seen.append([m.text for m in state.llm_input_messages])
        return scripted()

    def instructions(state: Any) -> Any:
        seen.append([m.text for m in state.messages])
        return state.messages

    agent = create_react_agent(
        choose,
        [],
        state_schema=AgentStatePydantic,
        pre_model_hook=lambda state: {"llm_input_messages": [HumanMessage("Short")]},
        prompt=instructions,
    )
    call(agent, ASK)
    assert seen == [["Short"], ["Short"]]


def asking(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": id} for id in ids])


KNOWN = (
    "Found AIMessages with tool_calls that do not have a corresponding ToolMessage. Here are the "
    "first few of those tool calls: {calls}.\n\n"
    "Every tool call (LLM requesting to call a tool) in the message history MUST have a "
    "corresponding ToolMessage (result of a tool invocation to return to the LLM) - this is "
    "required by most LLM providers."
)


def test_a_call_without_an_answer_is_named_before_the_model_is_asked(call: Any) -> None:
    """B33, B34, G6: the first three."""
    asked = scripted()
    broken = asking("1", "2", "3", "4", "5")
    history = [broken, ToolMessage("5", tool_call_id="2")]
    with pytest.raises(ValueError, match="Found AIMessages") as caught:
        call(create_react_agent(asked, [add]), {"messages": history})
    first_three = [c for c in broken.tool_calls if c["id"] in ("1", "3", "4")]
    text = str(caught.value)
    assert text.startswith(KNOWN.format(calls=first_three))
    assert text.endswith("INVALID_CHAT_HISTORY")
    assert isinstance(caught.value, HistoryError)
    assert not asked.requests


@each(
    "history",
    [
        [asking("1"), ToolMessage("5", tool_call_id="1")],
        [asking("1"), HumanMessage("Well?"), ToolMessage("5", tool_call_id="1")],
        [ToolMessage("5", tool_call_id="9"), HumanMessage("Well?")],
    ],
)
def test_a_history_whose_calls_are_answered_is_shown_as_it_is(history: Any, call: Any) -> None:
    """B33: nothing is repaired here, and nothing moved."""
    asked = scripted()
    call(create_react_agent(asked, [add]), {"messages": history})
    assert shown(asked) == [(m.type, m.text) for m in history]


def test_chosen_messages_are_looked_at_and_those_of_the_state_are_not(call: Any) -> None:
    """B33"""
    broken = {"messages": [("user", "Hi"), asking("1")]}
    healthy = {"pre_model_hook": lambda state: {"llm_input_messages": state["messages"][:1]}}
    agent = create_react_agent(scripted(), [add], **healthy)  # type: ignore[arg-type]
    assert call(agent, broken)["messages"][-1].text == "Hello"
    breaking: Any = {"pre_model_hook": lambda state: {"llm_input_messages": [asking("1")]}}
    with pytest.raises(ValueError, match="Found AIMessages"):
        call(create_react_agent(scripted(), [add], **breaking), ASK)
