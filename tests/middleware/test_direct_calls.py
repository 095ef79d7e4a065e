"""Methods of built-ins are called outside of an agent, as unit tests of products do."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from agent_factory import ModelRequest, ModelResponse, ToolRuntime
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel
from samples import mail
from tables import each

CHAT = [HumanMessage("a", id="1"), AIMessage("b", id="2"), HumanMessage("c", id="3")]
ANSWER = ModelResponse(result=[AIMessage("answer")])


@tool
def search(query: str) -> str:
    """Search."""
    return "found"


def summarizing(**settings: Any) -> Any:
    defaults: dict[str, Any] = {"trigger": ("messages", 3), "keep": ("messages", 1)}
    return m.SummarizationMiddleware(ScriptedChatModel(["S"] * 3), **{**defaults, **settings})


def before_model(middleware: Any, state: Any, mode: str) -> Any:
    if mode == "sync":
        return middleware.before_model(state, None)
    return asyncio.run(middleware.abefore_model(state, None))


@each("mode", ["sync", "async"])
def test_before_model_returns_the_shorter_conversation(mode: str) -> None:
    update = before_model(summarizing(), {"messages": CHAT}, mode)
    first, summary, last = update["messages"]
    assert first == RemoveMessage(id=REMOVE_ALL_MESSAGES)
    assert summary.text.endswith("S")
    assert summary.additional_kwargs == {"lc_source": "summarization"}
    assert last == CHAT[2]
    waiting = summarizing(trigger=("messages", 4))
    assert before_model(waiting, {"messages": CHAT}, mode) is None
    earlier = HumanMessage("Before.", additional_kwargs={"lc_source": "summarization"})
    given = [earlier, AIMessage("b"), HumanMessage("c")]
    update = before_model(summarizing(), {"messages": given}, mode)
    assert [message.text for message in update["messages"][2:]] == ["c"]
    assert all(message.id for message in update["messages"])
    assert given[2].id is None


def request(messages: Any = CHAT, **more: Any) -> ModelRequest[Any]:
    model = FakeListChatModel(responses=[])
    return ModelRequest(model=model, messages=messages, tools=[search, mail], **more)


def long_history() -> list[Any]:
    calls: Any = [{"name": "search", "args": {"query": "x"}, "id": "1"}]
    result = ToolMessage("long " * 500, tool_call_id="1", id="r")
    return [AIMessage("", tool_calls=calls, id="c"), result, AIMessage("so", id="s"), *CHAT]


PLANNED, WITH_PROMPT = "Be kind.\n\nPlan.", {"system_prompt": "Be kind.", "state": {}}
CHOOSER = [[{"name": "ToolSelection", "args": {"tools": ["mail"]}}]] * 2


@each(
    "make, given, shown, expected",
    [
        (summarizing, {}, lambda r: [m.text[-1] for m in r.messages], ["S", "c"]),
        (
            lambda: m.TodoListMiddleware(system_prompt="Plan."),
            WITH_PROMPT,
            lambda r: (r.system_prompt, r.messages),
            (PLANNED, CHAT),
        ),
        (
            lambda: m.ContextEditingMiddleware(edits=[m.ClearToolUsesEdit(trigger=50, keep=0)]),
            {"messages": long_history()},
            lambda r: r.messages[1].text,
            "[cleared]",
        ),
        (
            lambda: m.LLMToolSelectorMiddleware(model=ScriptedChatModel(CHOOSER)),
            {},
            lambda r: r.tools,
            [mail],
        ),
        (
            lambda: m.ProviderToolSearchMiddleware(provider="openai"),
            {},
            lambda r: r.tools[-1],
            {"type": "tool_search"},
        ),
    ],
)
@each("mode", ["sync", "async"])
def test_a_model_layer_changes_the_request_of_its_handler(
    mode: str, make: Any, given: Any, shown: Any, expected: Any
) -> None:
    received: list[Any] = []

    def handler(inner: Any) -> Any:
        received.append(inner)
        return ANSWER

    async def ahandler(inner: Any) -> Any:
        return handler(inner)

    if mode == "sync":
        result = make().wrap_model_call(request(**given), handler)
    else:
        result = asyncio.run(make().awrap_model_call(request(**given), ahandler))
    assert result is ANSWER
    assert [shown(inner) for inner in received] == [expected]


def test_an_edit_changes_the_list_it_is_given_and_returns_it() -> None:
    messages = long_history()
    _, result, *_ = messages
    edit = m.ClearToolUsesEdit(trigger=50, keep=0)
    assert edit.apply(messages, count_tokens=lambda some: 999) is messages
    assert messages[1].text == "[cleared]"
    assert result.text != "[cleared]"


@each("state", [{}, {"messages": []}, {"messages": CHAT}])
def test_the_tool_of_a_todo_list(state: Any) -> None:
    write_todos: Any = m.TodoListMiddleware().tools[0]
    runtime: Any = ToolRuntime(
        state=state, context=None, config={}, stream_writer=print, tool_call_id="1", store=None
    )
    todos = [{"content": "x", "status": "pending"}]
    for made in (
        write_todos.func(todos=todos, runtime=runtime),
        asyncio.run(write_todos.coroutine(todos=todos, runtime=runtime)),
        write_todos.invoke({"todos": todos, "runtime": runtime}),
    ):
        assert isinstance(made, Command)
        assert made.update is not None
        assert made.update["todos"] == todos
        assert made.update["messages"][0].tool_call_id == "1"
