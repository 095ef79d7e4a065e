"""ClientToolsMiddleware: tools that the client of a run brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from stack_agents import calling

from agent_factory import create_agent, wrap_model_call
from agent_factory import middleware as m
from agent_factory.errors import ArgumentError
from agent_factory.middleware.client_tools import client_request
from agent_factory.testing import ScriptedChatModel
from samples import add, call_of, last_text
from tables import each

HI: Any = {"messages": [("user", "Go")]}
TITLE = {"name": "title", "description": "The title.", "parameters": {"type": "object"}}
SCROLL = {"name": "scroll", "parameters": {"properties": {"to": {"type": "integer"}}}}


def config(*tools: Any, choice: str | None = None, thread: str = "1") -> Any:
    given = {"client_tools": [*tools], "client_tool_choice": choice}
    return {"configurable": {"thread_id": thread, **given}}


def agent_of(steps: Sequence[Any], *tools: Any, layers: Sequence[Any] = (), **options: Any) -> Any:
    model = ScriptedChatModel([*steps])
    stack = [*layers, m.ClientToolsMiddleware()]
    saver = InMemorySaver()
    return create_agent(model, tools, middleware=stack, checkpointer=saver, **options), model


def offered(model: ScriptedChatModel) -> list[tuple[list[str], Any]]:
    """The names of the tools of each request, and its tool choice."""
    return [([*request.tools], request.kwargs.get("tool_choice")) for request in model.requests]


def results_of(result: Any) -> dict[str, tuple[str, str]]:
    messages = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    return {message.tool_call_id: (message.text, message.status) for message in messages}


@each("fused", [True, False])
def test_tools_of_a_run_are_offered_and_the_client_runs_them(call: Any, fused: bool) -> None:
    calls = [call_of("title", 1), call_of("add", 2, a=1, b=2), call_of("scroll", 3, to=5)]
    agent, model = agent_of([calls, "Done.", "Hello."], add, fused=fused)
    first = call(agent, HI, config(TITLE, SCROLL))
    ids = {i.value["name"]: i.id for i in first["__interrupt__"]}
    answers = {ids["title"]: "Orders", ids["scroll"]: {"error": "No."}}
    result = call(agent, Command(resume=answers), config(TITLE, SCROLL))
    assert results_of(result) == {
        "call_1": ("Orders", "success"),
        "call_2": ("3", "success"),
        "call_3": ("No.", "error"),
    }
    assert offered(model) == [(["add", "title", "scroll"], None)] * 2
    # The tools are those of the run, and not of the thread.
    assert last_text(call(agent, HI, config())) == "Hello."
    assert offered(model)[-1] == (["add"], None)
    assert "client_tools" not in result


@each("rule, fused", [("ask", True), ("ask", False), ("deny", True)])
def test_a_policy_holds_for_tools_of_the_client(call: Any, fused: bool, rule: Any) -> None:
    review = m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("title", rule), m.Rule("*", "allow")))
    agent, _ = agent_of([[call_of("title")], "Done."], layers=[review], fused=fused)
    result = call(agent, HI, config(TITLE))
    if rule == "ask":
        assert result["__interrupt__"][0].value["action_requests"][0]["name"] == "title"
        approval: Any = Command(resume={"decisions": [{"type": "approve"}]})
        assert call(agent, approval, config(TITLE))["__interrupt__"][0].value["name"] == "title"
        result = call(agent, Command(resume="Orders"), config(TITLE))
    assert results_of(result)["call_1"][1] == ("error" if rule == "deny" else "success")


@wrap_model_call
def hides(request: Any) -> Any:
    return (yield request.override(tools=[t for t in request.tools if t.name != "add"]))


@each("layers", [[], [hides]])
def test_a_tool_of_the_agent_cannot_be_replaced(call: Any, layers: Any) -> None:
    ran = []

    def add(a: int, b: int) -> int:
        """Add."""
        ran.append(a)
        return a + b

    agent, _ = agent_of([[call_of("add", a=1, b=2)]], add, layers=layers)
    with pytest.raises(ArgumentError, match="'add' is the name of a tool of the agent"):
        call(agent, HI, config({"name": "add"}))
    assert ran == []


@each(
    "choice, first",
    [
        (None, (["add", "title", "scroll"], None)),
        ("auto", (["add", "title", "scroll"], None)),
        ("required", (["title", "scroll"], "any")),
        ("title", (["title"], "title")),
    ],
)
def test_a_choice_holds_for_the_first_request(call: Any, choice: Any, first: Any) -> None:
    agent, model = agent_of([[call_of("title")], "Done."], add)
    call(agent, HI, config(TITLE, SCROLL, choice=choice))
    call(agent, Command(resume="x"), config(TITLE, SCROLL, choice=choice))
    assert offered(model) == [first, (["add", "title", "scroll"], None)]


def test_a_result_may_change_what_the_client_asks_for(call: Any) -> None:
    steps = [[call_of("title")], [call_of("add", 2, a=1, b=2)], [call_of("scroll", 3)], "Done."]
    agent, model = agent_of(steps, add)
    call(agent, HI, config(TITLE))
    asked = {"client_tools": [SCROLL], "client_tool_choice": "required"}
    second = call(agent, Command(resume={"content": "Orders", "request": asked}), config(TITLE))
    assert second["__interrupt__"][0].value["name"] == "scroll"
    assert client_request(second["messages"]) == asked
    assert offered(model)[1:] == [(["scroll"], "any"), (["add", "scroll"], None)]
    result = call(agent, Command(resume="x"), config(TITLE))
    assert last_text(result) == "Done."
    assert client_request([*result["messages"], HumanMessage("More")]) is None


def test_agents_inside_take_the_tools_of_the_run(call: Any) -> None:
    inner, _ = agent_of([[call_of("title")], "Inner."])

    outer, _ = agent_of([[call_of("helper", request="x")], "Outer."], calling(inner, "helper"))
    assert call(outer, HI, config(TITLE))["__interrupt__"][0].value["name"] == "title"
    assert last_text(call(outer, Command(resume="Orders"), config(TITLE))) == "Outer."


@each(
    "tools, text",
    [
        ("title", "must be a list of tools, got str"),
        ([5], "a tool has name, description and parameters, got int"),
        ([{}], "a tool has name, description and parameters, got dict"),
        ([{"name": "a", "run": "x"}], "a tool has name, description and parameters, got dict"),
        ([TITLE, TITLE], "two tools have the name 'title'"),
        ([{"name": "a b"}], "must have 1 to 64 letters"),
        ([{"name": "a", "parameters": {"type": "array"}}], "must be of the type 'object'"),
        ([{"name": f"a{i}"} for i in range(65)], "has 65 tools, and at most 64 are allowed"),
    ],
)
def test_tools_and_choices_that_cannot_be_used_are_refused(
    call: Any, tools: Any, text: str
) -> None:
    agent, _ = agent_of(["Hi."])
    with pytest.raises(ArgumentError, match=text):
        call(agent, HI, {"configurable": {"thread_id": "1", "client_tools": tools}})
    with pytest.raises(ArgumentError, match="must be 'auto', 'required' or a client's tool"):
        call(agent, HI, config(TITLE, choice="go"))


POINT = {"title": "point", "type": "object", "properties": {"x": {"type": "integer"}}}


@each("profile", [None, {"structured_output": True}])
@each("fused", [True, False])
def test_the_client_may_ask_for_a_format(call: Any, fused: bool, profile: Any) -> None:
    answers = ['{"x": "a"}', '{"x": 1}'] if profile else [
        [call_of("point", 1, x="a")], [call_of("point", 2, x=1)]
    ]  # fmt: skip
    agent, model = agent_of([*answers, "Hello."], fused=fused)
    model.profile = profile
    asked = {"configurable": {"thread_id": "1", "client_response_format": POINT}}
    assert call(agent, HI, asked)["structured_response"] == {"x": 1}
    assert call(agent, HI, config())["structured_response"] is None


@each(
    "schema, text",
    [
        (5, "must be a JSON schema, got int"),
        ({"type": "json_schema"}, "must hold a JSON schema in its envelope"),
        ({"title": "a", "type": "nothing"}, "response_format"),
        ({"title": "add", "type": "object"}, "has the name of a tool, 'add'"),
        ({"title": "x" * 70_000, "type": "object"}, "at most 65,536 are allowed"),
    ],
)
def test_a_format_that_cannot_be_used_is_refused(call: Any, schema: Any, text: str) -> None:
    agent, model = agent_of(["Hi."], add)
    asked = {"configurable": {"thread_id": "1", "client_response_format": schema}}
    with pytest.raises(ArgumentError, match=text):
        call(agent, HI, asked)
    assert model.requests == []
