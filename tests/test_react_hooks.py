"""The hooks of create_react_agent, and where a run goes after them (B46, B50-B52, B55-B57, B60)."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, StreamWriter, interrupt
from pydantic import Field

from agent_factory import create_react_agent
from agent_factory.errors import BadReturn, CommandNotSupported, UnknownStateKey
from agent_factory.prebuilt import AgentState, AgentStatePydantic
from react_tools import add, forget, ran  # noqa: F401  forget is a fixture
from samples import Answer, nothing, scripted, texts
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


@tool
def mul(a: int, b: int) -> int:
    """Multiply two numbers."""
    ran.append("mul")
    return a * b


ARGS = {"a": 2, "b": 3}
ADD = [{"name": "add", "args": ARGS, "id": "1"}]
BOTH = [*ADD, {"name": "mul", "args": ARGS, "id": "2"}]
STRUCTURED = [{"name": "Answer", "args": {"number": 5}}]


def order(agent: Any, ask: Any = ASK) -> list[str]:
    return [next(iter(chunk)) for chunk in agent.stream(ask, stream_mode="updates")]


# The order of a run


HOOKS: dict[str, Any] = {"pre_model_hook": nothing, "post_model_hook": nothing}


@each(
    "tools, options, nodes",
    [
        # B55: the hook before the model runs before every call.
        (
            [add],
            {"pre_model_hook": nothing},
            ["pre_model_hook", "agent", "tools", "pre_model_hook", "agent"],
        ),
        # B51, B57: the hook after the model runs after every call and before tools.
        (
            [add],
            {"post_model_hook": nothing},
            ["agent", "post_model_hook", "tools", "agent", "post_model_hook"],
        ),
        # B56: without tools there is no router, so a call leads nowhere.
        (
            [],
            {**HOOKS, "response_format": Answer},
            ["pre_model_hook", "agent", "post_model_hook", "generate_structured_response"],
        ),
    ],
)
def test_hooks_run_in_their_order(tools: Any, options: Any, nodes: list[str]) -> None:
    last = "It is 5." if tools else STRUCTURED
    assert order(create_react_agent(scripted(ADD, last), tools, **options)) == nodes


# After the hook


@each("name", ["calls wait", "one waits"])
def test_calls_that_nothing_answers_are_run(name: str, call: Any) -> None:
    """B50, B51: the pending ones, and those alone."""
    ran.clear()
    done = [ToolMessage("by the hook", tool_call_id="1")] if name == "one waits" else []

    def answer(state: Any) -> Any:
        return {"messages": done} if len(state["messages"]) == 2 else {}

    agent = create_react_agent(scripted(BOTH, "Done."), [add, mul], post_model_hook=answer)
    assert texts(call(agent, ASK))[-1] == "Done."
    assert sorted(ran) == (["mul"] if done else ["add", "mul"])


@each("pre", [None, nothing])
def test_where_the_hook_answers_all_calls_the_model_goes_on(pre: Any) -> None:
    """B50: by way of the entry point."""

    def answer(state: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage("no", tool_call_id=c["id"]) for c in calls]}

    agent = create_react_agent(
        scripted(ADD, "Done."), [add], pre_model_hook=pre, post_model_hook=answer
    )
    once = [*(["pre_model_hook"] if pre else []), "agent", "post_model_hook"]
    assert order(agent) == once * 2
    assert not ran


@each("structured", [False, True])
def test_an_answer_that_is_not_the_last_word_ends_the_run(structured: bool) -> None:
    """B50: the calls are answered, and the last message is not a ToolMessage."""

    def answer(state: Any) -> Any:
        return {"messages": [ToolMessage("no", tool_call_id="1"), HumanMessage("Stop.")]}

    agent = create_react_agent(
        scripted(ADD, STRUCTURED),
        [add],
        post_model_hook=answer,
        response_format=Answer if structured else None,
    )
    end = ["generate_structured_response"] if structured else []
    assert order(agent) == ["agent", "post_model_hook", *end]


def test_an_answer_counts_wherever_it_stands() -> None:
    """B50"""

    def rewrite(state: Any) -> Any:
        *before, asked = state["messages"]
        everything = [*before, ToolMessage("no", tool_call_id="1"), asked]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *everything]}

    agent = create_react_agent(scripted(ADD), [add], post_model_hook=rewrite)
    assert order(agent) == ["agent", "post_model_hook"]


def test_a_hook_edits_calls_before_they_are_run(call: Any) -> None:
    """B51: by the same id."""

    def edit(state: Any) -> Any:
        said = state["messages"][-1]
        calls = [{**c, "name": "mul"} for c in said.tool_calls]
        return {"messages": [AIMessage("", id=said.id, tool_calls=calls)]}

    agent = create_react_agent(scripted(ADD, "Done."), [add, mul], post_model_hook=edit)
    call(agent, ASK)
    assert ran == ["mul"]


def test_a_hook_asks_a_person_about_calls(call: Any) -> None:
    """B60, D29"""

    def approve(state: Any) -> Any:
        said = state["messages"][-1]
        if said.tool_calls and interrupt("May I?") != "yes":
            return {"messages": [ToolMessage("no", tool_call_id="1")]}
        return {}

    agent = create_react_agent(
        scripted(ADD, "Done."), [add], post_model_hook=approve, checkpointer=InMemorySaver()
    )
    assert call(agent, ASK, THREAD)["__interrupt__"][0].value == "May I?"
    assert not ran
    call(agent, Command(resume="yes"), THREAD)
    assert ran == ["add"]


# What a hook is given and gives


class Noting(AgentState):
    notes: NotRequired[Annotated[list[str], lambda old, new: [*old, *new]]]


class NotingModel(AgentStatePydantic):
    notes: list[str] = Field(default_factory=list)


@each("name", ["pre_model_hook", "post_model_hook"])
def test_a_hook_writes_the_state(name: str, call: Any) -> None:
    """B60"""
    hook: Any = {name: lambda state: {"notes": ["seen"]}}
    agent = create_react_agent(scripted(), [], state_schema=Noting, **hook)
    assert call(agent, ASK)["notes"] == ["seen"]


@each("name", ["pre_model_hook", "post_model_hook"])
def test_a_hook_sees_an_instance_of_a_model_and_may_give_one_back(name: str, call: Any) -> None:
    """B11"""

    def note(state: NotingModel) -> NotingModel:
        return state.model_copy(update={"notes": [*state.notes, type(state).__name__]})

    hook: Any = {name: note}
    agent = create_react_agent(scripted(), [add], state_schema=NotingModel, **hook)
    result = call(agent, ASK)
    assert result["notes"] == ["NotingModel"]
    assert len(result["messages"]) == 2


def test_a_hook_may_give_the_whole_state_back(call: Any) -> None:
    """What is counted elsewhere is not written by it."""

    def echo(state: Any) -> Any:
        assert set(state) == {"messages", "remaining_steps"}
        return dict(state)

    hooks: Any = {"pre_model_hook": echo, "post_model_hook": echo}
    agent = create_react_agent(scripted(ADD, "It is 5."), [add], **hooks)
    assert len(call(agent, ASK)["messages"]) == 4


def test_a_hook_replaces_the_history(call: Any) -> None:
    """B60: for good, where it writes messages."""

    def trim(state: Any) -> Any:
        last = state["messages"][-1:]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *last]}

    asked = scripted()
    agent = create_react_agent(asked, [], pre_model_hook=trim)
    result = call(agent, {"messages": [("user", "One"), ("ai", "Two"), ("user", "Three")]})
    assert texts(result) == ["Three", "Hello"]


async def test_a_coroutine_function_is_a_hook_of_asynchronous_runs() -> None:
    seen = []

    async def hook(state: Any) -> None:
        seen.append("ran")

    agent = create_react_agent(scripted(), [], pre_model_hook=hook)
    await agent.ainvoke(ASK)
    assert seen == ["ran"]
    with pytest.raises(TypeError) as caught:
        agent.invoke(ASK)
    assert str(caught.value) == (
        'No synchronous function provided to "pre_model_hook".\nEither initialize with a '
        "synchronous function or invoke via the async API (ainvoke, astream, etc.)"
    )


def test_a_hook_may_speak_in_the_stream(collect: Any) -> None:
    def hook(state: Any, *, writer: StreamWriter) -> None:
        writer("here")

    agent = create_react_agent(scripted(), [], post_model_hook=hook)
    assert collect(agent, ASK, stream_mode="custom") == ["here"]


def test_tokens_of_models_that_a_hook_calls_are_streamed(collect: Any) -> None:
    """As in any node of a graph: listeners go by the name of the node."""

    def hook(state: Any) -> None:
        scripted("Aside.").invoke("Hm?")

    agent = create_react_agent(scripted(), [], pre_model_hook=hook)
    chunks = collect(agent, ASK, stream_mode="messages")
    spoken: dict[str, str] = {}
    for chunk, about in chunks:
        node = about["langgraph_node"]
        spoken[node] = spoken.get(node, "") + chunk.text
    assert spoken == {"pre_model_hook": "Aside.", "agent": "Hello"}


@each(
    "given, error, text",
    [
        ({"mood": "calm"}, UnknownStateKey, "pre_model_hook: wrote 'mood'"),
        ("calm", BadReturn, "pre_model_hook: must return a dict of updates or None, got str"),
        (Command(goto="tools"), CommandNotSupported, "returned a Command with goto"),
    ],
)
def test_what_a_hook_may_not_give_is_named(given: Any, error: Any, text: str, call: Any) -> None:
    agent = create_react_agent(scripted(), [add], pre_model_hook=lambda state: given)
    with pytest.raises(error, match=text):
        call(agent, ASK)


def test_a_hook_may_give_a_command_that_updates(call: Any) -> None:
    give: Command[Any] = Command(update={"messages": [HumanMessage("And 4?")]})
    agent = create_react_agent(scripted(), [], pre_model_hook=lambda state: give)
    assert texts(call(agent, ASK)) == ["2 + 3?", "And 4?", "Hello"]
