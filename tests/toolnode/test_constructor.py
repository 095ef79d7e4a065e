"""Making a ToolNode: C1 to C6."""

from __future__ import annotations

import asyncio
import inspect
from typing import Annotated, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore

from agent_factory import ToolNode, create_agent
from agent_factory.errors import SpecError, SpecErrors, UnknownStateKey
from agent_factory.testing import ScriptedChatModel
from samples import add, undocumented
from tables import each


@tool("add")
def other(a: int, b: int) -> int:
    """Add in another way."""
    return b + a


def test_c1_the_parameters_and_their_defaults(kind: Any) -> None:
    parameters = inspect.signature(kind).parameters
    assert list(parameters) == [
        "tools",
        "name",
        "tags",
        "handle_tool_errors",
        "messages_key",
        "wrap_tool_call",
        "awrap_tool_call",
    ]
    assert {name: parameters[name].default for name in ("name", "tags", "messages_key")} == {
        "name": "tools",
        "tags": None,
        "messages_key": "messages",
    }
    assert parameters["wrap_tool_call"].default is parameters["awrap_tool_call"].default is None
    optional = list(parameters.values())[1:]
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in optional)


def test_c2_functions_become_tools_and_tools_stay_what_they_are(kind: Any) -> None:
    node = kind([add, tool("more")(add)])
    assert list(node.tools_by_name) == ["add", "more"]
    assert all(isinstance(known, BaseTool) for known in node.tools_by_name.values())
    assert kind([other]).tools_by_name["add"] is other


def test_c2_a_function_without_a_docstring_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="Function must have a docstring if description not"):
        kind([undocumented])


def test_c2_two_tools_of_a_name_are_refused() -> None:
    """LangGraph takes the last."""
    with pytest.raises(SpecError, match=r"^\[AF113\] .*could reach only one"):
        ToolNode([add, other])
    assert list(ToolNode([other, other]).tools_by_name) == ["add"], "the same tool may come twice"
    assert LangGraphToolNode([add, other]).tools_by_name["add"] is other


def test_c2_all_tools_that_cannot_be_are_named_at_once_here() -> None:
    with pytest.raises(SpecErrors) as caught:
        ToolNode([undocumented, 5, {"type": "web_search"}])  # type: ignore[list-item]  # for show
    assert [error.code for error in caught.value.errors] == ["AF112"] * 3


def test_c3_a_tool_is_read_once(
    kind: Any, run: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = kind([add])
    read: list[Any] = []
    monkeypatch.setattr(BaseTool, "get_input_schema", lambda *_, **__: read.append(1))
    run(node, ask(("add", {"a": 1, "b": 2})))
    assert read == []


class Names(BaseCallbackHandler):
    """Notes what chains and tools are traced under."""

    def __init__(self) -> None:
        self.chains: list[Any] = []
        self.tools: list[Any] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **known: Any) -> None:
        self.chains.append(known.get("name"))

    def on_tool_start(self, serialized: Any, input_str: Any, **known: Any) -> None:
        self.tools.append(known.get("name") or serialized["name"])


def test_c4_it_has_no_span(kind: Any, run: Any, ask: Any) -> None:
    names = Names()
    run(kind([add]), ask(("add", {"a": 1, "b": 2})), {"callbacks": [names]})
    assert (names.chains, names.tools) == ([], ["add"])


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


def test_c6_outside_of_a_graph_langgraphs_alone_needs_a_runtime(ask: Any) -> None:
    calls = ask(("add", {"a": 1, "b": 2}))
    with pytest.raises(ValueError, match="Missing required config key 'N/A' for 'tools'"):
        LangGraphToolNode([add]).invoke(calls)
    (message,) = ToolNode([add]).invoke(calls)
    (other,) = asyncio.run(ToolNode([add]).ainvoke(calls))
    assert (message.text, other.text) == ("3", "3")


def test_outside_of_a_graph_a_tool_gets_what_the_input_has(ask: Any) -> None:
    @tool
    def look(runtime: ToolRuntime, place: Annotated[str, InjectedState("place")]) -> str:
        """Look around."""
        return f"{runtime.tool_call_id} {sorted(runtime.state)} {runtime.context} {place}"

    given = {"messages": ask(("look", {})), "place": "Rome"}
    for result in (ToolNode([look]).invoke(given), asyncio.run(ToolNode([look]).ainvoke(given))):
        assert result["messages"][0].text == "1 ['messages', 'place'] None Rome"


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


@each("fused", [True, False])
def test_the_node_of_an_agent_runs_outside_of_it(fused: bool, ask: Any) -> None:
    node = create_agent(ScriptedChatModel([]), [add], fused=fused).nodes["tools"].bound
    result: Any = node.invoke({"messages": ask(("add", {"a": 1, "b": 2}))})
    assert result["messages"][0].text == "3"
