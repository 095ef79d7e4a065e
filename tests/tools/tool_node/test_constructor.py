"""Making a ToolNode, its inputs, outputs and route: C1 to C15, C53 to C55, D1 to D3."""

from __future__ import annotations

import asyncio
import inspect
import math
from typing import Annotated, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.prebuilt import tools_condition as langgraph_tools_condition
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from agent_factory import ToolNode, tools_condition
from agent_factory.errors import SpecError, SpecErrors, UnknownStateKey
from samples import Thread, ThreadModel, add, undocumented
from tables import each


@tool("add")
def other(a: int, b: int) -> int:
    """Add in another way."""
    return b + a


def test_c1_the_parameters_and_their_defaults(kind: Any) -> None:
    tools, *optional = inspect.signature(kind).parameters.values()
    known = {parameter.name: parameter.default for parameter in optional}
    del known["handle_tool_errors"]
    assert (tools.name, known) == (
        "tools",
        {
            "name": "tools",
            "tags": None,
            "messages_key": "messages",
            "wrap_tool_call": None,
            "awrap_tool_call": None,
        },
    )
    assert {parameter.kind for parameter in optional} == {inspect.Parameter.KEYWORD_ONLY}


def test_c2_functions_become_tools_and_tools_stay_what_they_are(kind: Any) -> None:
    node = kind([add, tool("more")(add)])
    assert list(node.tools_by_name) == ["add", "more"]
    assert all(isinstance(known, BaseTool) for known in node.tools_by_name.values())
    assert kind([other]).tools_by_name["add"] is other
    with pytest.raises(ValueError, match="Function must have a docstring if description not"):
        kind([undocumented])


def test_c2_tools_that_cannot_be_are_refused_here() -> None:
    """All at once; of two tools with one name, LangGraph takes the last."""
    with pytest.raises(SpecError, match=r"^\[AF113\] .*could reach only one"):
        ToolNode([add, other])
    assert list(ToolNode([other, other]).tools_by_name) == ["add"], "the same tool may come twice"
    assert LangGraphToolNode([add, other]).tools_by_name["add"] is other
    with pytest.raises(SpecErrors) as caught:
        ToolNode([undocumented, 5, {"type": "web_search"}])  # type: ignore[list-item]  # for show
    assert [error.code for error in caught.value.errors] == ["AF112"] * 3


def test_c3_c4_a_tool_is_read_once_and_the_node_has_no_span(
    kind: Any, run: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, names = kind([add]), Names()
    read: list[Any] = []
    monkeypatch.setattr(BaseTool, "get_input_schema", lambda *_, **__: read.append(1))
    run(node, ask(("add", {"a": 1, "b": 2})), {"callbacks": [names]})
    assert (names.chains, names.tools, read) == ([], ["add"], [])


class Names(BaseCallbackHandler):
    """Notes what chains and tools are traced under."""

    def __init__(self) -> None:
        self.chains: list[Any] = []
        self.tools: list[Any] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **known: Any) -> None:
        self.chains.append(known.get("name"))

    def on_tool_start(self, serialized: Any, input_str: Any, **known: Any) -> None:
        self.tools.append(known.get("name") or serialized["name"])


def test_c4_as_a_node_it_reads_the_whole_state(kind: Any, call: Any, ask: Any) -> None:
    class Office(MessagesState):
        user: str

    seen: list[Any] = []

    def look(request: Any, execute: Any) -> Any:
        seen.append(sorted(request.state))
        return execute(request)

    graph = StateGraph(Office).add_node("tools", kind([add], wrap_tool_call=look))
    agent: Any = graph.add_edge(START, "tools").compile()
    result = call(agent, {"messages": ask(("add", {"a": 1, "b": 2})), "user": "Ada"})
    assert result["messages"][-1].text == "3"
    assert seen == [["messages", "user"]]


def test_c5_a_name_and_tags_are_kept(kind: Any) -> None:
    node = kind([add], name="workers", tags=["langchain:tool"])
    assert (node.get_name(), node.tags) == ("workers", ["langchain:tool"])
    assert "workers" in StateGraph(MessagesState).add_node(node).nodes
    assert kind([add]).get_name() == "tools"
    assert isinstance(node, LangGraphToolNode)


def test_c6_outside_of_a_graph_a_tool_gets_what_the_input_has(ask: Any) -> None:
    """LangGraph's node needs a runtime there."""

    @tool
    def look(runtime: ToolRuntime, place: Annotated[str, InjectedState("place")]) -> str:
        """Look around."""
        return f"{runtime.tool_call_id} {sorted(runtime.state)} {runtime.context} {place}"

    given = {"messages": ask(("look", {})), "place": "Rome"}
    for result in (ToolNode([look]).invoke(given), asyncio.run(ToolNode([look]).ainvoke(given))):
        assert result["messages"][0].text == "1 ['messages', 'place'] None Rome"
    with pytest.raises(ValueError, match="Missing required config key 'N/A' for 'tools'"):
        LangGraphToolNode([look]).invoke(given)


def test_outside_of_a_graph_an_error_says_what_is_missing(ask: Any) -> None:
    @tool
    def buy(
        shelf: Annotated[Any, InjectedStore()], place: Annotated[str, InjectedState("place")] = "-"
    ) -> str:
        """Buy something."""
        return f"{type(shelf).__name__} {place}"

    @tool
    def visit(place: Annotated[str, InjectedState("place")]) -> str:
        """Visit a place."""
        return place

    node = ToolNode([buy, visit])
    with pytest.raises(ValueError, match=r"Outside of a graph, .*runtime=Runtime\(store=store\)"):
        node.invoke({"messages": ask(("buy", {}))})
    (message,) = node.invoke(ask(("buy", {})), runtime=Runtime(store=InMemoryStore()))
    assert message.text == "InMemoryStore -"
    call = {"name": "visit", "args": {}, "id": "1", "type": "tool_call"}
    for given in ({"messages": ask(("visit", {}))}, [call]):
        with pytest.raises(UnknownStateKey, match="takes 'place' of the state") as caught:
            node.invoke(given)
        assert caught.value.subject == "visit"
        assert "takes a dict with messages and this key" in caught.value.hint


def calling(a: int, id_: str = "1") -> dict[str, Any]:
    return {"name": "add", "args": {"a": a, "b": 0}, "id": id_, "type": "tool_call"}


def message(a: int) -> AIMessage:
    return AIMessage("", tool_calls=[calling(a)])


def texts(messages: list[Any]) -> list[str]:
    return [report.text for report in messages]


def test_c7_c9_a_list_has_calls_or_messages(kind: Any, run: Any) -> None:
    """C9: the last message of the model counts, wherever it stands."""
    assert texts(run(kind([add]), [calling(1), calling(2, "2")])["messages"]) == ["1", "2"]
    history = [message(1), message(2), ToolMessage("9", tool_call_id="0"), HumanMessage("Well?")]
    assert texts(run(kind([add]), history)) == ["2"]
    for given in ([HumanMessage("Go")], {"messages": [HumanMessage("Go")]}):
        with pytest.raises(ValueError, match="No AIMessage found in input"):
            run(kind([add]), given)


@each("more", [{}, {"messages": [message(8)]}])
def test_c7_c8_a_call_with_its_context_is_one_call(kind: Any, run: Any, more: Any) -> None:
    """C8: this form comes before that of a state."""
    given = {"__type": "tool_call_with_context", "tool_call": calling(4), "state": {}, **more}
    assert texts(run(kind([add]), given)["messages"]) == ["4"]


@each("wrap", [None, lambda request, execute: execute(request.override())])
def test_c7_a_call_with_a_list_as_context_has_a_dict(kind: Any, run: Any, wrap: Any) -> None:
    @tool("add")
    def answer(tool_call_id: Annotated[str, InjectedToolCallId], as_list: bool) -> Any:
        """Add."""
        messages = [ToolMessage("4", tool_call_id=tool_call_id)]
        return Command(update=messages if as_list else {"messages": messages})

    def given(as_list: bool) -> Any:
        call = {**calling(4), "args": {"as_list": as_list}}
        return {"__type": "tool_call_with_context", "tool_call": call, "state": [message(4)]}

    node = kind([answer], wrap_tool_call=wrap)
    (command,) = run(node, given(False))
    assert texts(command.update["messages"]) == ["4"]
    with pytest.raises(ValueError, match="can provide a list of messages"):
        run(node, given(True))


@each("state", [dict, Thread, ThreadModel])
def test_c7_a_state_holds_messages(kind: Any, run: Any, state: Any) -> None:
    assert texts(run(kind([add]), state(messages=[message(5)]))["messages"]) == ["5"]


def test_c7_c8_keys_of_a_state(kind: Any, run: Any) -> None:
    """The messages may have another key, and a key named `type` has no special meaning."""
    given = {"type": "tool_call_with_context", "messages": [message(8)]}
    assert texts(run(kind([add]), given)["messages"]) == ["8"]
    node = kind([add], messages_key="talk")
    assert texts(run(node, {"talk": [message(6)]})["talk"]) == ["6"]
    with pytest.raises(ValueError, match="No message found in input"):
        run(node, {"messages": [message(6)]})


@each(
    "given",
    [
        {},
        {"other": [message(1)]},
        None,
        5,
        message(1),
        *(state(messages=[]) for state in (dict, Thread, ThreadModel)),
    ],
)
def test_c7_c11_anything_else_holds_no_message(kind: Any, run: Any, given: Any) -> None:
    with pytest.raises(ValueError, match="No message found in input"):
        run(kind([add]), given)


def test_c10_a_message_without_calls_gives_an_empty_result(kind: Any, run: Any) -> None:
    """An empty list holds no message, and is an IndexError in LangGraph."""
    assert run(kind([add]), {"messages": [AIMessage("Done.")]}) == {"messages": []}
    assert run(kind([add]), [AIMessage("Done.")]) == []
    with pytest.raises(ValueError if kind is ToolNode else IndexError):
        run(kind([add]), [])


def show(n: int) -> str:
    """Show a number."""
    return str(n)


@tool
def note(n: int) -> Any:
    """Note a number in the state."""
    said = ToolMessage(f"noted {n}", tool_call_id=str(n))
    return Command(update={"messages": [said], "noted": n})


@tool
def note_in_a_list(n: int) -> Any:
    """Note a number in a history that is the whole state."""
    return Command(update=[ToolMessage(f"noted {n}", tool_call_id=str(n))])


def giving(value: Any) -> BaseTool:
    @tool
    def give() -> Any:
        """Give something."""
        return value

    return give


def result_content(kind: Any, run: Any, ask: Any, value: Any) -> Any:
    """What the model reads of a value that a tool returned."""
    (message,) = run(kind([giving(value)]), ask(("give", {})))
    return message.content


def test_c12_c15_a_list_gives_a_list_and_a_state_gives_an_update(
    kind: Any, run: Any, ask: Any
) -> None:
    """C15: a message names its tool and its call."""
    node, calls = kind([show]), ask(("show", {"n": 1}))
    (message,) = run(node, calls)
    known = (message.content, message.name, message.tool_call_id, message.status)
    assert known == ("1", "show", "1", "success")
    assert [m.text for m in run(node, {"messages": calls})["messages"]] == ["1"]
    direct = [{**calls[0].tool_calls[0], "type": "tool_call"}]
    assert [m.text for m in run(node, direct)["messages"]] == ["1"]
    assert [m.text for m in run(kind([show], messages_key="talk"), direct)["talk"]] == ["1"]


def test_c14_next_to_a_command_each_message_is_an_update(kind: Any, run: Any, ask: Any) -> None:
    """Or a list, where the history is the whole state."""
    calls = ask(("note", {"n": 1}), ("show", {"n": 2}), ("show", {"n": 3}))
    command, second, third = run(kind([note, show]), {"messages": calls})
    assert command.update["noted"] == 1
    assert [m.text for m in second["messages"] + third["messages"]] == ["2", "3"]
    calls = ask(("note_in_a_list", {"n": 1}), ("show", {"n": 2}))
    command, (second,) = run(kind([note_in_a_list, show]), calls)
    assert (type(command), second.text) == (Command, "2")


class Thing:
    """An object that JSON cannot encode."""

    def __str__(self) -> str:
        return "a thing"


BLOCKS = ["text", "image_url", "image", "json", "search_result", "document", "file"]


@each(
    "value, content",
    [
        ("a text", "a text"),
        ({"city": "北京"}, '{"city": "北京"}'),
        (None, "null"),
        ([], []),
        (["a", "b"], '["a", "b"]'),
        ({1, 2}, "{1, 2}"),
        (math.nan, "NaN"),
        (True, "true"),
        (Thing(), "a thing"),
        *(([{"type": block}], [{"type": block}]) for block in BLOCKS),
        ([{"type": "custom_tool_call_output"}], [{"type": "custom_tool_call_output"}]),
        ([{"type": "text", "text": "a"}], [{"type": "text", "text": "a"}]),
        ([{"type": "tool_use", "id": "1"}], '[{"type": "tool_use", "id": "1"}]'),
        ([{"type": "text", "text": "a"}, "b"], '[{"type": "text", "text": "a"}, "b"]'),
    ],
)
def test_c53_c54_a_result_becomes_a_text_or_stays_a_list_of_blocks(
    kind: Any, run: Any, ask: Any, value: Any, content: Any
) -> None:
    """C54: a list of texts does not pass, and no character is escaped."""
    assert result_content(kind, run, ask, value) == content


def test_c55_a_tool_may_write_its_message_itself(kind: Any, run: Any, ask: Any) -> None:
    message = ToolMessage(["a", "b"], tool_call_id="1", status="error", artifact=7)
    (given,) = run(kind([giving(message)]), ask(("give", {})))
    assert (given.content, given.status, given.artifact) == ('["a", "b"]', "error", 7)


class Raw(BaseTool):
    """A tool that answers without BaseTool's formatting."""

    name: str = "raw"
    description: str = "Answer with a value."
    value: Any = 5

    def _run(self) -> Any:
        return self.value

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return self._run()

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return self._run()


@each("value", [5, None, {"a": 1}, [5], [{"a": 1}], [[]]])
def test_c55_any_other_answer_of_a_tool_is_a_mistake(value: Any, run: Any, ask: Any) -> None:
    """Here, the error says what to return."""
    with pytest.raises(TypeError, match=r"^Tool raw returned .* Return a string, a list of conten"):
        run(ToolNode([Raw(value=value)]), ask(("raw", {})))
    with pytest.raises(TypeError, match="Tool raw returned unexpected type: <class '"):
        run(LangGraphToolNode([Raw()]), ask(("raw", {})))


BLOCK = {"type": "text", "text": "A page."}


@each(
    "value, content",
    [
        ("text", "text"),
        ([BLOCK], [BLOCK]),
        (["a", BLOCK], '["a", {"type": "text", "text": "A page."}]'),
        (
            [{"type": "image_url", "image_url": {"url": "u"}}],
            [{"type": "image_url", "image_url": {"url": "u"}}],
        ),
    ],
)
def test_content_of_such_a_tool_is_the_content_of_its_message(
    value: Any, content: Any, run: Any, ask: Any
) -> None:
    (message,) = run(ToolNode([Raw(value=value)]), ask(("raw", {})))
    assert (message.content, message.name, message.tool_call_id) == (content, "raw", "1")
    # As for a tool that leaves the formatting to BaseTool.
    assert result_content(ToolNode, run, ask, value) == (value if value == "text" else content)


CALL = {"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}
ASKS = AIMessage("", tool_calls=[CALL])
SAYS = AIMessage("Done.")


@pytest.fixture(params=[langgraph_tools_condition, tools_condition], ids=["langgraph", "ours"])
def condition(request: pytest.FixtureRequest) -> Any:
    return request.param


@each("state", [lambda messages: messages, Thread, lambda m: ThreadModel(messages=m)])
def test_d1_d2_the_last_message_decides(condition: Any, state: Any) -> None:
    """D3: and the state stays as it was."""
    assert condition(state([ASKS])) == "tools"
    assert condition(state([ASKS, SAYS])) == "__end__"
    assert condition(state([ASKS, HumanMessage("Well?")])) == "__end__"
    messages = [SAYS, ASKS]
    assert condition(state(messages)) == "tools"
    assert messages == [SAYS, ASKS]


def test_d1_the_messages_may_have_another_key(condition: Any) -> None:
    assert condition({"talk": [ASKS]}, messages_key="talk") == "tools"
    assert condition({"talk": [SAYS], "messages": [ASKS]}, "talk") == "__end__"


@each("state", [[], {}, {"messages": []}, Thread([]), ThreadModel(messages=[]), None, 5])
def test_d1_without_a_message_there_is_nothing_to_decide(condition: Any, state: Any) -> None:
    """E19: an empty list is an IndexError in LangGraph."""
    if state == [] and condition is langgraph_tools_condition:
        with pytest.raises(IndexError):
            condition(state)
        return
    with pytest.raises(ValueError, match="No messages found in input state to tool_edge: "):
        condition(state)


def test_d3_it_serves_as_a_route(condition: Any, call: Any) -> None:
    def model(state: Any) -> Any:
        asked = any(isinstance(m, AIMessage) for m in state["messages"])
        return {"messages": [SAYS if asked else ASKS]}

    graph = StateGraph(MessagesState).add_node("model", model)
    graph.add_node("tools", ToolNode([add])).add_edge(START, "model").add_edge("tools", "model")
    agent: Any = graph.add_conditional_edges("model", condition).compile()
    edges = {(edge.source, edge.target) for edge in agent.get_graph().edges if edge.conditional}
    assert edges == {("model", "tools"), ("model", "__end__")}
    result = call(agent, {"messages": "Go"})
    assert [m.text for m in result["messages"]] == ["Go", "", "3", "Done."]
