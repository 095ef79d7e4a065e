"""What the model of create_react_agent reads: prompts and histories (B29-B36, B12, B32)."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime

from agent_factory import create_react_agent
from agent_factory.errors import BadReturn, HistoryError
from agent_factory.prebuilt import AgentStatePydantic
from agent_factory.testing import ScriptedChatModel
from samples import add_tool as add
from samples import scripted
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}


ADD = [{"name": "add", "args": {"a": 2, "b": 3}}]


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


def test_a_hook_may_return_a_runnable_as_well(call: Any) -> None:
    asked = scripted()
    hook: Any = RunnableLambda(lambda state: {"llm_input_messages": first(state)})
    call(create_react_agent(asked, [], pre_model_hook=lambda state: hook), ASK)
    assert shown(asked) == [("system", "Be brief."), ("human", "2 + 3?")]


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


def test_a_prompt_sees_the_full_state(call: Any) -> None:
    """B29, B11: as its schema makes it."""

    class Moody(AgentStatePydantic):
        mood: str = "calm"

    def instructions(state: Moody) -> list[Any]:
        return [SystemMessage(f"Be {state.mood}: {state.remaining_steps}."), *state.messages]

    asked = scripted()
    agent = create_react_agent(asked, [], prompt=instructions, state_schema=Moody)
    call(agent, {**ASK, "mood": "kind"}, {"recursion_limit": 10})
    assert shown(asked)[0] == ("system", "Be kind: 9.")


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


def test_an_empty_prompt_is_an_error(call: Any) -> None:
    with pytest.raises(
        HistoryError, match="must not be empty for an agent without a system prompt"
    ):
        call(create_react_agent(scripted(), []), {"messages": []})
    agent = create_react_agent(scripted(), [], prompt="Begin.")
    assert call(agent, {"messages": []})["messages"][-1].text == "Hello"


# What a hook chooses


@each("prompt", [None, "Be brief.", first])
def test_chosen_messages_are_shown_in_place_of_the_states(prompt: Any, call: Any) -> None:
    """B12, B31, B32: and under `messages` to the prompt; the state keeps its own."""
    asked = scripted()

    def choose(state: Any) -> dict[str, Any]:
        return {"llm_input_messages": [HumanMessage("Short")]}

    agent = create_react_agent(asked, [], prompt=prompt, pre_model_hook=choose)
    result = call(agent, ASK)
    assert shown(asked) == [*([("system", "Be brief.")] if prompt else []), ("human", "Short")]
    assert [m.text for m in result["messages"]] == ["2 + 3?", "Hello"]
    assert "llm_input_messages" not in result


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
    agent = create_react_agent(asked, [add], pre_model_hook=lambda state: next(choices))
    call(agent, ASK)
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


# Histories


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


def test_a_hook_may_repair_the_history(call: Any) -> None:
    """B33, B60"""
    answer = {"messages": [ToolMessage("5", tool_call_id="1")]}
    agent = create_react_agent(scripted(), [add], pre_model_hook=lambda state: answer)
    assert call(agent, {"messages": [asking("1")]})["messages"][-1].text == "Hello"


def test_a_thread_whose_turn_was_left_says_so_in_the_next(call: Any) -> None:
    """B33, D23"""
    agent = create_react_agent(
        scripted(ADD, "Hello"), [add], checkpointer=InMemorySaver(), interrupt_before=["tools"]
    )
    thread: Any = {"configurable": {"thread_id": "1"}}
    call(agent, ASK, thread)
    with pytest.raises(ValueError, match="Found AIMessages"):
        call(agent, ASK, thread)


# The answer


def test_the_models_own_message_is_left_alone(call: Any) -> None:
    said = AIMessage("Hello")
    call(create_react_agent(scripted(said), [], name="counter"), ASK)
    assert said.name is None
