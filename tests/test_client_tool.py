"""Client tools: a call waits for its client, who sends the result."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.types import Command
from pydantic import BaseModel

from agent_factory import (
    ToolNode,
    agent_tool,
    client_tool,
    create_agent,
    create_react_agent,
    tools_condition,
)
from agent_factory.errors import ArgumentError, NothingPending
from agent_factory.middleware import (
    HumanInTheLoopMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from agent_factory.review import DecisionNotAllowed, InvalidAnswer, approve, pending, respond
from agent_factory.testing import ScriptedChatModel
from samples import add, call_of, last_text
from tables import each

HI: Any = {"messages": [("user", "Go")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
TITLE = client_tool("title", "The title of the page.")
GO = client_tool(
    "go",
    "Go to a page.",
    {"type": "object", "properties": {"page": {"type": "string"}}, "required": ["page"]},
)


def agent_of(steps: list[Any], *tools: Any, saver: Any = None, **options: Any) -> Any:
    saver = saver or InMemorySaver()
    return create_agent(ScriptedChatModel(steps), tools, checkpointer=saver, **options)


def waiting(result: Any) -> list[dict[str, Any]]:
    """The values of the interrupts of a result."""
    return [interrupt.value for interrupt in result["__interrupt__"]]


def results_of(result: Any) -> dict[str, tuple[Any, str]]:
    """The results of calls, by the ids of the calls."""
    messages = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    return {message.tool_call_id: (message.content, message.status) for message in messages}


@each(
    "answer, content, status",
    [
        ("Orders", "Orders", "success"),
        ("", "", "success"),
        ([{"type": "text", "text": "Orders"}],) * 2 + ("success",),
        ({"error": "No page."}, "No page.", "error"),
        ({"content": "Orders"}, "Orders", "success"),
    ],
)
@each("fused", [True, False])
def test_the_result_of_the_client_is_that_of_the_call(
    call: Any, fused: bool, answer: Any, content: Any, status: str
) -> None:
    agent = agent_of([[call_of("go", page="home")], "There."], GO, fused=fused)
    first = call(agent, HI, THREAD)
    value = {"type": "client_tool_call", "id": "call_1", "name": "go", "args": {"page": "home"}}
    assert waiting(first) == [value]
    result = call(agent, Command(resume=answer), THREAD)
    assert results_of(result) == {"call_1": (content, status)}
    assert last_text(result) == "There."


@each("answer", [None, 5, {"title": "x"}, [], ["x"], {}, {"content": None},
    {"content": "x", "error": "y"}, {"error": 5}, [{"text": "x"}]])  # fmt: skip
def test_another_answer_is_refused_and_can_be_given_again(call: Any, answer: Any) -> None:
    agent = agent_of([[call_of("title")], "Done."], TITLE)
    first = call(agent, HI, THREAD)
    (interrupt,) = first["__interrupt__"]
    with pytest.raises(InvalidAnswer, match="must be a text, content blocks or an error, got"):
        call(agent, Command(resume={interrupt.id: answer}), THREAD)
    assert last_text(call(agent, Command(resume="Orders"), THREAD)) == "Done."


LAYERS: dict[str, dict[str, Any]] = {
    "errors": {"handle_tool_errors": True},
    "error layer": {"middleware": [ToolErrorMiddleware()]},
    "retries": {"middleware": [ToolRetryMiddleware(max_retries=2, initial_delay=0)]},
}


@each("options", LAYERS)
def test_no_handler_of_errors_takes_a_refusal(call: Any, options: str) -> None:
    agent = agent_of([[call_of("title")], "Done."], TITLE, **LAYERS[options])
    call(agent, HI, THREAD)
    with pytest.raises(InvalidAnswer):
        call(agent, Command(resume=5), THREAD)
    result = call(agent, Command(resume={"error": "No page."}), THREAD)
    assert results_of(result) == {"call_1": ("No page.", "error")}


def react(model: Any, saver: Any) -> Any:
    return create_react_agent(model, [TITLE], checkpointer=saver)


def langgraphs(model: Any, saver: Any, node: Any = LangGraphToolNode) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", node([TITLE]))
    graph.set_entry_point("model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def with_our_node(model: Any, saver: Any) -> Any:
    return langgraphs(model, saver, ToolNode)


@each("build", [react, langgraphs, with_our_node])
def test_other_graphs_with_a_client_tool(call: Any, build: Any) -> None:
    graph = build(ScriptedChatModel([[call_of("title")], "Done."]), InMemorySaver())
    assert waiting(call(graph, HI, THREAD))[0]["id"] == "call_1"
    (wait,) = pending(graph, THREAD).calls
    assert (wait.id, wait.kind) == ("call_1", "client")
    result = call(graph, Command(resume="Orders"), THREAD)
    assert results_of(result) == {"call_1": ("Orders", "success")}


@each("fused", [True, False])
def test_calls_with_server_tools_and_reviews(call: Any, fused: bool) -> None:
    calls = [
        call_of("title", 1),
        call_of("add", 2, a=1, b=2),
        call_of("go", 3, page="home"),
        call_of("add", 4, a=5, b=5),
    ]
    review = HumanInTheLoopMiddleware({"go": True}, interrupt_mode="per_call")
    layers = [review, ToolErrorMiddleware()]
    agent = agent_of([calls, "Done."], TITLE, GO, add, middleware=layers, fused=fused)
    first = call(agent, HI, THREAD)
    kinds = {call.name: call.kind for call in pending(agent, THREAD).calls}
    assert kinds == {"title": "client", "go": "review"}
    titles = {i.value["name"]: i.id for i in first["__interrupt__"]}
    resume = {titles["title"]: "Orders", titles["go"]: {"type": "approve"}}
    second = call(agent, Command(resume=resume), THREAD)
    assert [value["name"] for value in waiting(second)] == ["go"]
    result = call(agent, Command(resume={"error": "lost"}), THREAD)
    assert results_of(result) == {
        "call_1": ("Orders", "success"),
        "call_2": ("3", "success"),
        "call_3": ("lost", "error"),
        "call_4": ("10", "success"),
    }


def in_graph(inner: Any) -> Any:
    graph = StateGraph(MessagesState).add_node("inner", inner).set_entry_point("inner")
    return graph.compile(checkpointer=InMemorySaver())


def as_tool(inner: Any) -> Any:
    tool = agent_tool(inner, name="helper", description="Helps.")
    steps = [[call_of("helper", 7, request="Help")], "Outer done."]
    return agent_of(steps, tool)


@each("around", [in_graph, as_tool])
@each("fused", [True, False])
def test_an_agent_inside(call: Any, fused: bool, around: Any) -> None:
    model = ScriptedChatModel([[call_of("title")], "Inner done."])
    outer = around(create_agent(model, [TITLE], name="inner", fused=fused))
    assert [value["id"] for value in waiting(call(outer, HI, THREAD))] == ["call_1"]
    (wait,) = pending(outer, THREAD).calls
    assert (wait.id, wait.name, wait.kind) == ("call_1", "title", "client")
    result = call(outer, Command(resume="Orders"), THREAD)
    assert "done." in last_text(result)
    assert "__interrupt__" not in result


def test_a_thread_goes_on_in_another_process(call: Any) -> None:
    saver = InMemorySaver()
    call(agent_of([[call_of("title")]], TITLE, saver=saver), HI, THREAD)
    agent = agent_of(["Done."], TITLE, saver=saver)
    (wait,) = pending(agent, THREAD).calls
    assert (wait.id, wait.name, wait.args, wait.allowed) == ("call_1", "title", {}, ("respond",))
    with pytest.raises(DecisionNotAllowed, match="The client runs this call"):
        approve(agent, THREAD)
    with pytest.raises(InvalidAnswer, match="must be a text"):
        respond(agent, THREAD, {"x": 1})
    assert results_of(respond(agent, THREAD, "Orders")) == {"call_1": ("Orders", "success")}
    with pytest.raises(NothingPending):
        respond(agent, THREAD, "Orders")
    with pytest.raises(NothingPending):
        call(agent, Command(resume="Orders"), THREAD)


def test_arguments_that_do_not_fit_are_reported_to_the_model(call: Any) -> None:
    agent = agent_of([[call_of("go", page=5)], [call_of("go", 2, page="a")], "Done."], GO)
    first = call(agent, HI, THREAD)
    assert [value["id"] for value in waiting(first)] == ["call_2"]
    (content, status) = results_of(first)["call_1"]
    assert "page: 5 is not of type 'string'" in content
    assert status == "error"


def test_a_parameter_may_have_any_name(call: Any) -> None:
    names = ["self", "input", "config", "run_manager", "runtime", "state", "args", "tool_input"]
    properties = {name: {"type": "string"} for name in names}
    tool = client_tool("any", "Takes any.", {"type": "object", "properties": properties})
    args = dict.fromkeys(names, "x")
    agent = agent_of([[{"name": "any", "args": args, "id": "call_1"}], "Done."], tool)
    assert waiting(call(agent, HI, THREAD))[0]["args"] == args


class Page(BaseModel):
    page: str


def test_a_schema_may_be_a_model() -> None:
    assert client_tool("go", "Go.", Page).args_schema["required"] == ["page"]
    assert client_tool("go", "Go.").args == {}


@each(
    "arguments, text",
    [
        (("a b", "x"), "name: must have 1 to 64 letters"),
        (("", "x"), "name: must have 1 to 64 letters"),
        (("n" * 65, "x"), "name: must have 1 to 64 letters"),
        ((5, "x"), "name: must have 1 to 64 letters"),
        (("a", None), "description: must be a string, got None"),
        (("a", "x", []), "schema: must be a JSON schema"),
        (("a", "x", {"type": "string"}), "must be of the type 'object'"),
        (("a", "x", {"properties": {"p": {"type": "strin"}}}), "is not a JSON schema"),
        (("a", "x", {"properties": {"p": {"$ref": "http://x"}}}), "is not a JSON schema"),
        (("a", "x", {"description": "x" * 70_000}), "at most 65,536"),
        (("a", "x" * 70_000), "at most 65,536"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(arguments: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        client_tool(*arguments)
