"""Layers around the model in agents: what they see, what they may change, what they write."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command
from stack_agents import agent_of

from agent_factory import AgentMiddleware, create_agent, wrap_model_call
from agent_factory.errors import ArgumentError, BadReturn, UndeclaredJump, UnknownStateKey
from agent_factory.testing import ScriptedChatModel
from agent_factory.types import AgentState, ExtendedModelResponse, ModelRequest
from samples import add, add_tool, through
from tables import each

ASK = {"messages": [("user", "Hello")]}


class Diary(AgentState[Any]):
    note: NotRequired[str]
    pages: NotRequired[Annotated[list[str], operator.add]]


class Layer(AgentMiddleware):
    """A model layer of one flow."""

    state_schema = Diary

    def __init__(self, flow: Any, name: str = "Layer") -> None:
        super().__init__(name=name)
        self.flow = flow

    def around_model(self, request: Any) -> Any:
        return (yield from self.flow(request))


def agent(*flows: Any, model: Any = None, tools: Sequence[Any] = (), **options: Any) -> Any:
    members = [Layer(flow, f"L{index}") for index, flow in enumerate(flows)]
    return agent_of(model or ScriptedChatModel(["Hi."]), *members, tools=list(tools), **options)


def commanding(*arguments: Any, **fields: Any) -> Any:
    def flow(request: Any) -> Any:
        return ExtendedModelResponse((yield request), Command(*arguments, **fields))

    return flow


def writing(**update: Any) -> Any:
    return commanding(update=update)


def test_a_layer_sees_the_state_the_system_prompt_and_the_context(call: Any) -> None:
    seen: list[ModelRequest[Any]] = []

    def flow(request: Any) -> Any:
        seen.append(request)
        return (yield request)

    built = agent(flow, system_prompt="Be brief.", context_schema=dict, tools=[add])
    call(built, {**ASK, "note": "kept"}, context={"user": "Ada"})
    (request,) = seen
    assert request.state["note"] == "kept"  # type: ignore[typeddict-item]
    assert [m.text for m in request.messages] == ["Hello"]
    assert request.system_prompt == "Be brief."
    assert request.runtime.context == {"user": "Ada"}
    assert [tool.name for tool in request.tools if not isinstance(tool, dict)] == ["add"]


def test_what_one_call_changed_is_forgotten_by_the_next(call: Any) -> None:
    """Also a list that a layer of old habits appends to."""
    calls = iter([1, 2])

    def flow(request: Any) -> Any:
        if next(calls) == 1:
            request.tools.append({"type": "web_search"})
            request = request.override(system_prompt="Once.")
        return (yield request)

    model = ScriptedChatModel([[{"name": "add", "args": {"a": 1, "b": 2}}], "3"])
    call(agent(flow, model=model, tools=[add], system_prompt="Always."), ASK)
    assert [record.messages[0].text for record in model.requests] == ["Once.", "Always."]
    assert [record.tools for record in model.requests] == [["add", "web_search"], ["add"]]


def test_what_layers_write_reaches_the_state(call: Any) -> None:
    """The outermost wins a single value, a reducer gets the inner first; others lose nothing."""
    outer = writing(note="outer", pages=["outer"])
    inner = writing(note="inner", pages=["inner"], messages=[HumanMessage("P.S.")])
    result = call(agent(through, outer, through, inner, through), ASK)
    assert (result["note"], result["pages"]) == ("outer", ["inner", "outer"])
    assert [m.text for m in result["messages"]] == ["Hello", "Hi.", "P.S."]


OLD: Any = [HumanMessage("one", id="1"), HumanMessage("two", id="2"), HumanMessage("three", id="3")]


@each(
    "outer, inner, left",
    [
        ([HumanMessage("outer", id="1")], [RemoveMessage(id="1")], ["two", "three"]),
        ([RemoveMessage(id="1")], [HumanMessage("inner", id="1")], ["inner", "two", "three"]),
        (
            [HumanMessage("outer", id="1"), HumanMessage("outer", id="2")],
            [HumanMessage("inner", id="1")],
            ["inner", "outer", "three"],
        ),
        (
            [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("outer", id="9")],
            [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("inner", id="8")],
            ["outer"],
        ),
    ],
)
def test_inner_updates_win(call: Any, outer: list[Any], inner: list[Any], left: list[str]) -> None:
    """The inner layer saw what the outer one had changed; brought back, it would end up last."""
    result = call(agent(writing(messages=outer), writing(messages=inner)), {"messages": OLD})
    assert [m.text for m in result["messages"] if m.text != "Hi."] == left


def test_a_command_may_write_pairs_or_nothing(call: Any) -> None:
    update = [("pages", ["one"]), ("pages", ["two"])]
    result = call(agent(commanding(update=update), commanding()), ASK)
    assert (result["pages"], result["messages"][-1].text) == (["one", "two"], "Hi.")


@each("junk", ["text", 3, ["text"], [("key",)]])
def test_an_update_of_another_type_is_refused(call: Any, junk: Any) -> None:
    with pytest.raises(BadReturn, match="whose update is"):
        call(agent(commanding(update=junk)), ASK)


def test_a_layer_writes_no_jump_and_no_key_that_no_schema_has(call: Any) -> None:
    with pytest.raises(UndeclaredJump, match="after_model hook"):
        call(agent(writing(jump_to="end")), ASK)
    with pytest.raises(UnknownStateKey, match="nokey"):
        call(agent(writing(nokey=1)), ASK)


@each("field", [{"goto": "model"}, {"resume": 1}, {"graph": Command.PARENT}])
def test_a_command_of_a_layer_is_for_updates_only(call: Any, field: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"L0\.around_model"):
        call(agent(commanding(update={}, **field)), ASK)


def test_flows_and_wraps_stand_in_one_order(call: Any) -> None:
    """wanted 10: names distinguish layers of one class."""
    log: list[str] = []

    class Wrap(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            log.append(f"{self.name}<")
            response = handler(request)
            log.append(f"{self.name}>")
            return response

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            log.append(f"{self.name}<")
            response = await handler(request)
            log.append(f"{self.name}>")
            return response

    class Around(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            log.append(f"{self.name}<")
            response = yield request
            log.append(f"{self.name}>")
            return response

    members = [Around(name="a"), Wrap(name="b"), Around(name="c"), Wrap(name="d")]
    call(create_agent(ScriptedChatModel(["Hi."]), middleware=members), ASK)
    assert log == ["a<", "b<", "c<", "d<", "d>", "c>", "b>", "a>"]


def overridden(request: ModelRequest[Any], name: str, value: object) -> ModelRequest[Any]:
    change: Any = {name: value}
    return request.override(**change)


def constructed(request: ModelRequest[Any], name: str, value: object) -> ModelRequest[Any]:
    fields = ("model", "messages", "tools", "state", "runtime")
    return ModelRequest(**{**{key: getattr(request, key) for key in fields}, name: value})


def assigned(request: ModelRequest[Any], name: str, value: object) -> ModelRequest[Any]:
    setattr(request, name, value)
    return request


BY_NAME = (
    "must be tools, or provider tools as dicts, got str ('{}'). "
    "Pass the tool, not its name: [tool for tool in request.tools if tool.name == 'add']."
)


@pytest.mark.filterwarnings("ignore:Setting ModelRequest:DeprecationWarning")
@each("change", [overridden, constructed, assigned])
@each(
    "name, value, message",
    [
        (
            "model",
            "openai:gpt-5",
            "[AF101] model of a request: must be a chat model, got str ('openai:gpt-5'). "
            "Pass init_model('openai:gpt-5').",
        ),
        ("tools", ["add"], f"[AF101] tools of a request: {BY_NAME.format('add')}"),
        (
            "tools",
            [add_tool, "search"],
            "[AF101] tools of a request: must be tools, or provider tools as dicts, got str "
            "('search'). The tools are: add.",
        ),
        (
            "tools",
            "add",
            "[AF101] tools of a request: must be a list, got str ('add'). "
            "Pass tools=[*request.tools, tool].",
        ),
    ],
)
def test_a_name_is_refused(call: Any, change: Any, name: str, value: Any, message: str) -> None:
    @wrap_model_call
    def by_name(request: Any) -> Any:
        return (yield change(request, name, value))

    model = ScriptedChatModel([])
    with pytest.raises(ArgumentError) as caught:
        call(create_agent(model, [add], middleware=[by_name]), ASK)
    assert str(caught.value) == message
    assert model.requests == []


def test_a_tool_without_its_list_is_refused() -> None:
    request: ModelRequest[Any] = ModelRequest(model=ScriptedChatModel(), messages=[])
    with pytest.raises(ArgumentError, match=r"must be a list, got StructuredTool"):
        request.override(tools=add_tool)  # type: ignore[arg-type]


@each("tools", [[add_tool], [add], (add_tool,), {"a": add_tool}.values()])
def test_tools_of_every_form_are_accepted(call: Any, tools: Any) -> None:
    @wrap_model_call
    def again(request: Any) -> Any:
        return (yield request.override(tools=tools, model=request.model))

    model = ScriptedChatModel(["ok"])
    call(create_agent(model, [add], middleware=[again]), ASK)
    assert model.requests[0].tools == ["add"]
