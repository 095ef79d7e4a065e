"""The copy of the state that a tool gets: C39. The runtime: C32 to C35."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from agent_factory import ToolNode
from agent_factory.errors import ArgumentError
from samples import timed
from tables import each


class Shop(MessagesState):
    cart: dict[str, Any]


@tool
def spoil(state: Annotated[Any, InjectedState]) -> str:
    """Change all that can be reached."""
    state["messages"].append(HumanMessage("forged"))
    state["cart"]["lamps"].append(2)
    state["cart"]["modes"].add("red")
    state["cart"]["extra"] = True
    state["new"] = True
    return "spoilt"


@tool
def spoil_a_field(cart: Annotated[Any, InjectedState("cart")]) -> str:
    """Change a field."""
    cart["lamps"].append(2)
    cart["modes"].add("red")
    return "spoilt"


@tool
def spoil_at_run_time(runtime: ToolRuntime[Any, Any]) -> str:
    """Change what the runtime holds."""
    runtime.state["cart"]["lamps"].append(2)
    runtime.state["cart"]["modes"].add("red")
    return "spoilt"


def after(kind: Any, call: Any, ask: Any, given: Any, **options: Any) -> Any:
    """The state of a thread in which a tool changed what it was given."""
    graph = StateGraph(Shop).add_node("tools", kind([given], **options))
    agent: Any = graph.add_edge(START, "tools").compile()
    cart = {"lamps": [1], "modes": {"blue"}}
    return call(agent, {"messages": ask((given.name, {})), "cart": cart})


@each("given", [spoil, spoil_a_field, spoil_at_run_time])
def test_c39_changes_of_a_tool_stay_in_its_copy(call: Any, ask: Any, given: Any) -> None:
    """E21: in LangGraph they leak into the state, where only the outermost dict is fresh."""
    result = after(ToolNode, call, ask, given)
    assert result["cart"] == {"lamps": [1], "modes": {"blue"}}
    assert [m.text for m in result["messages"]] == ["", "spoilt"]
    cart = after(LangGraphToolNode, call, ask, given)["cart"]
    assert (cart["lamps"], cart["modes"]) == ([1, 2], {"blue", "red"})


def test_c39_each_parallel_call_has_its_own_copy_here(run: Any, ask: Any) -> None:
    @tool
    def push(numbers: Annotated[list[int], InjectedState("numbers")]) -> int:
        """Push a number."""
        numbers.append(1)
        return len(numbers)

    state = {"messages": ask(("push", {}), ("push", {})), "numbers": [0]}
    report = run(ToolNode([push]), state)["messages"]
    assert [message.text for message in report] == ["2", "2"]


class Basket(BaseModel):
    model_config = ConfigDict(frozen=True)
    messages: list[Any]
    cart: dict[str, Any]


@dataclass(frozen=True)
class Trolley:
    messages: list[Any]
    cart: dict[str, Any] = field(default_factory=dict)


@each("state", [Basket, Trolley])
def test_c39_a_state_keeps_the_type_of_its_object(
    kind: Any, run: Any, ask: Any, state: Any
) -> None:
    @tool
    def spoil_it(whole: Annotated[Any, InjectedState]) -> str:
        """Change the state."""
        whole.cart["lamps"].append(2)
        return type(whole).__name__

    given = state(messages=ask(("spoil_it", {})), cart={"lamps": [1]})
    (message,) = run(kind([spoil_it]), given)["messages"]
    assert message.text == state.__name__
    assert given.cart["lamps"] == ([1] if kind is ToolNode else [1, 2])


def test_c39_objects_in_the_state_are_the_threads_own(kind: Any, run: Any, ask: Any) -> None:
    """Messages, and containers of one's own making: to copy them would cost more than it is worth.

    What was one object in two places is one in both again.
    """
    seen: list[Any] = []

    @tool
    def look(state: Annotated[Any, InjectedState]) -> str:
        """Look at the state."""
        seen.append(state)
        return "looked"

    both: list[Any] = [1]
    both.append(both)
    cart: Any = UserDict()
    calls = ask(("look", {}))
    run(kind([look]), {"messages": calls, "cart": cart, "a": both, "b": both})
    (state,) = seen
    assert state["messages"][0] is calls[0]
    assert state["cart"] is cart
    assert state["a"] is state["b"]
    assert state["a"][1] is state["a"]


def test_c39_a_tool_that_takes_no_state_costs_nothing(
    run: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(state: Any) -> Any:
        pytest.fail("the state was copied")

    monkeypatch.setattr("agent_factory.tools.injection.copy_containers", never)

    @tool
    def plain(store: Annotated[Any, InjectedStore()], n: int = 1) -> int:
        """Give a number."""
        return n

    node = ToolNode([plain])
    report = run(node, {"messages": ask(("plain", {}))}, store=InMemoryStore())
    assert report["messages"][0].text == "1"


# The runtime


def holding(seen: list[Any]) -> Any:
    @tool
    def hold(n: int, mine: ToolRuntime[Any, Any]) -> str:
        """Hold the runtime."""
        seen.append(mine)
        return "held"

    return hold


def test_c32_a_parameter_of_its_type_is_given_the_runtime(kind: Any, run: Any, ask: Any) -> None:
    """By any name, without Annotated; the model does not see it."""
    seen: list[Any] = []
    hold = holding(seen)
    assert list(hold.tool_call_schema.model_json_schema()["properties"]) == ["n"]
    run(kind([hold]), ask(("hold", {"n": 1, "mine": "forged"})))
    assert [type(runtime) for runtime in seen] == [ToolRuntime]


@each("annotation", [Any, object, ToolRuntime, ToolRuntime[Any, Any] | None])
def test_c32_a_parameter_named_runtime_gets_it(
    kind: Any, run: Any, ask: Any, annotation: Any
) -> None:
    def look(runtime: Any) -> str:
        """Look at the runtime."""
        return type(runtime).__name__

    look.__annotations__["runtime"] = annotation
    (message,) = run(kind([look]), {"messages": ask(("look", {}))})["messages"]
    assert message.text == "ToolRuntime"


def test_c32_a_text_named_runtime_is_refused(run: Any, ask: Any) -> None:
    """In LangGraph, such a tool cannot be called, and the model reads a blank."""

    def states(runtime: Annotated[Any, InjectedState]) -> str:
        """Take the state by the runtime's name."""
        return "never"

    for given in (timed, states):
        with pytest.raises(ArgumentError, match=r"^\[AF112\] .*Rename the parameter"):
            ToolNode([given])
    (message,) = run(LangGraphToolNode([timed]), ask(("timed", {"runtime": "90 minutes"})))
    assert message.status == "error"
    assert message.text.endswith("with error:\n \n Please fix the error and try again.")


class Till(TypedDict):
    currency: str


def test_c33_the_runtime_has_nine_fields(kind: Any, call: Any, ask: Any) -> None:
    """E13: `tools` came after the eight of the documents; execution_info is there locally too."""
    assert [known.name for known in fields(ToolRuntime)] == [
        "state",
        "context",
        "config",
        "stream_writer",
        "tool_call_id",
        "store",
        "tools",
        "execution_info",
        "server_info",
    ]
    seen: list[Any] = []
    store = InMemoryStore()
    graph = StateGraph(MessagesState, Till).add_node("tools", kind([holding(seen)]))
    agent: Any = graph.add_edge(START, "tools").compile(store=store)
    calls = ask(("hold", {"n": 1}))
    call(agent, {"messages": calls}, {"metadata": {"who": "Ada"}}, context={"currency": "EUR"})
    (runtime,) = seen
    assert [m.id for m in runtime.state["messages"]] == [calls[0].id]
    assert runtime.context == {"currency": "EUR"}
    assert runtime.config["metadata"]["who"] == "Ada"
    assert callable(runtime.stream_writer)
    assert (runtime.tool_call_id, runtime.store, runtime.server_info) == ("1", store, None)
    assert [known.name for known in runtime.tools] == ["hold"]
    assert runtime.execution_info.task_id
    runtime.emit_output_delta("nobody listens")


def test_c34_each_call_has_its_own_runtime(kind: Any, run: Any, ask: Any) -> None:
    seen: list[Any] = []
    run(kind([holding(seen)]), ask(("hold", {"n": 1}), ("hold", {"n": 2})))
    assert {runtime.tool_call_id for runtime in seen} == {"1", "2"}


def test_c35_calls_share_what_belongs_to_the_run_alone(kind: Any, call: Any, ask: Any) -> None:
    seen: list[Any] = []
    node: Any = Runtime(context={"a": 1}, store=InMemoryStore(), stream_writer=print)
    call(kind([holding(seen)]), ask(*[("hold", {"n": 1})] * 2), {}, runtime=node)
    for runtime in seen:
        assert runtime.context is node.context
        assert runtime.store is node.store
        assert runtime.stream_writer is node.stream_writer
    first, second = seen
    assert first.config is not second.config
