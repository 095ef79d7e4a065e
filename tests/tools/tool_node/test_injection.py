"""Injected arguments, which a model cannot forge, the runtime, and its state: C23 to C40."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Send
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from agent_factory import ToolNode
from agent_factory.errors import ArgumentError
from samples import ThreadModel, prices, timed, two_stores
from tables import each


def whole(state: Annotated[Any, InjectedState]) -> str:
    """Say what the state is."""
    return type(state).__name__


def user(who: Annotated[str, InjectedState("user")], greeting: str = "Hi") -> str:
    """Greet the user."""
    return f"{greeting} {who}"


def user_by_key(who: Annotated[str, InjectedState(field="user")]) -> str:
    """Name the user."""
    return who


def user_or(who: Annotated[str, InjectedState("user")] = "nobody") -> str:
    """Name the user."""
    return who


def two_fields(
    a: Annotated[str, InjectedState("user")], b: Annotated[str, InjectedState("place")]
) -> str:
    """Name two fields."""
    return a + b


def talk(messages: Annotated[list[Any], InjectedState("messages")]) -> str:
    """Count the messages."""
    return str(len(messages))


def stored(shelf: Annotated[Any, InjectedStore]) -> str:
    """Look into the store."""
    return str(shelf.get(("prices",), "lamp").value)


def said(run: Any, ask: Any, node: Any, args: dict[str, Any] | None = None, **known: Any) -> str:
    """What the node's one tool says of a state with a user."""
    (name,) = node.tools_by_name
    state = {"messages": ask((name, args or {})), "user": "Ada"}
    (message,) = run(node, state, **known)["messages"]
    return str(message.text)


class Thread(ThreadModel):
    user: str


@each("state", [dict, Thread])
def test_c23_the_whole_state_or_its_fields_are_injected(
    kind: Any, run: Any, ask: Any, state: Any
) -> None:
    for given, text in ((user, "Hi Ada"), (user_by_key, "Ada"), (whole, state.__name__)):
        node = kind([given])
        (name,) = node.tools_by_name
        (message,) = run(node, state(messages=ask((name, {})), user="Ada"))["messages"]
        assert message.text == text


def test_c24_the_store_is_injected_by_any_name(kind: Any, run: Any, ask: Any) -> None:
    assert said(run, ask, kind([stored]), store=prices()) == "{'price': 39}"


def test_c26_two_marks_of_a_kind_on_one_parameter_are_refused(kind: Any) -> None:
    def marked(x: Annotated[Any, InjectedStore(), InjectedStore()]) -> str:
        """Look."""
        return "never"

    def doubted(x: Annotated[Any, InjectedState("a"), InjectedState("b")]) -> str:
        """Look."""
        return "never"

    for given, mark in ((marked, "InjectedStore"), (doubted, "InjectedState")):
        text = f"A tool argument should not be annotated with {mark} more than once"
        with pytest.raises(ValueError, match=text):
            kind([given])


def test_c27_a_second_store_parameter_is_refused(run: Any, ask: Any) -> None:
    """E34: LangGraph fills the last; validation finds the first missing, and leaves that out."""
    with pytest.raises(
        ArgumentError, match=r"^\[AF112\] .*takes the store in 'first' and in 'second'"
    ):
        ToolNode([two_stores])
    text = said(run, ask, LangGraphToolNode([two_stores]), store=prices())
    assert "first: Field required" in text


def test_c28_a_list_has_no_fields_but_its_messages(kind: Any, run: Any, ask: Any) -> None:
    def keys(state: Annotated[dict[str, Any], InjectedState]) -> str:
        """List the keys."""
        return ",".join(state)

    def only(given: Any, **options: Any) -> Any:
        return run(kind([given], **options), ask((given.__name__, {})))[0].text

    assert (only(talk), only(keys), only(keys, messages_key="talk")) == ("1", "messages", "talk")
    for given, names in ((user, "user"), (two_fields, "user, place")):
        text = f"requires graph state dict as input. State should contain fields {names}"
        with pytest.raises(ValueError, match=text):
            only(given)


def test_c29_calls_alone_read_the_state_of_their_graph(kind: Any, run: Any, call: Any) -> None:
    """E9: outside a graph they have none, and a call with its context brings its state."""

    class Office(MessagesState):
        user: str

    asked = {"name": "user_or", "args": {}, "id": "1", "type": "tool_call"}
    graph = StateGraph(Office).add_node("tools", kind([user_or]))
    graph.add_conditional_edges(START, lambda _: [Send("tools", [asked])], ["tools"])
    agent: Any = graph.compile()
    assert call(agent, {"messages": [], "user": "Ada"})["messages"][-1].text == "Ada"
    assert run(kind([user_or]), [asked])["messages"][0].text == "nobody"
    given = {"__type": "tool_call_with_context", "tool_call": asked, "state": {"user": "Eve"}}
    assert run(kind([user_or]), given)["messages"][0].text == "Eve"


@each("handle", [True, False, "No."])
def test_c30_without_a_store_the_run_always_ends(
    kind: Any, run: Any, ask: Any, handle: Any
) -> None:
    """E17"""
    node = kind([stored], handle_tool_errors=handle)
    text = "Cannot inject store into tools with InjectedStore annotations - please compile your"
    with pytest.raises(ValueError, match=text):
        said(run, ask, node)
    with pytest.raises(ValueError, match=text):
        run(node, ask(("stored", {})), {"configurable": {"__store__": prices()}})


def test_c30_with_a_wrapper_langgraph_reports_a_missing_store_to_the_model(ask: Any) -> None:
    """The model could not fix it, with a wrapper or without."""
    calls = {"messages": ask(("stored", {}))}
    wrap = lambda request, execute: execute(request)  # noqa: E731
    options: Any = {"handle_tool_errors": True, "wrap_tool_call": wrap}
    report = LangGraphToolNode([stored], **options).invoke(calls, runtime=Runtime())
    assert report["messages"][0].status == "error"
    with pytest.raises(ValueError, match="Cannot inject store"):
        ToolNode([stored], **options).invoke(calls, runtime=Runtime())


def test_c31_without_a_field_the_run_always_ends(kind: Any, run: Any, ask: Any) -> None:
    """E33: a parameter with a default keeps it."""
    calls, errors = ask(("user", {})), {dict: KeyError, ThreadModel: AttributeError}
    for state, error in errors.items():
        for handle in (True, "No."):
            with pytest.raises(error, match="user"):
                run(kind([user], handle_tool_errors=handle), state(messages=calls))
        (message,) = run(kind([user_or]), state(messages=ask(("user_or", {}))))["messages"]
        assert message.text == "nobody"


class Secret(InjectedToolArg):
    """A mark of one's own."""


def test_c25_c36_the_model_neither_sees_nor_forges_what_is_injected(
    kind: Any, run: Any, ask: Any
) -> None:
    """E29: whatever mark of injection the argument has."""

    @tool
    def show(key: Annotated[str, Secret()] = "none", n: int = 0) -> str:
        """Show the key."""
        return f"{key} {n}"

    for given, shown in ((user, ["greeting"]), (whole, []), (stored, [])):
        (known,) = kind([given]).tools_by_name.values()
        assert list(known.tool_call_schema.model_json_schema()["properties"]) == shown
    assert said(run, ask, kind([user]), {"who": "Eve", "greeting": "Hello"}) == "Hello Ada"
    forged = ask(("user_or", {"who": "Eve"}))
    assert run(kind([user_or]), {"messages": forged})["messages"][0].text == "nobody"
    assert said(run, ask, kind([show]), {"key": "stolen", "n": 1}) == "none 1"


def test_c38_the_tool_itself_injects_the_id_of_the_call(kind: Any, run: Any, ask: Any) -> None:
    @tool
    def id_of(mine: Annotated[str, InjectedToolCallId]) -> str:
        """Say the id."""
        return mine

    assert said(run, ask, kind([id_of])) == "1"
    call = {"name": "id_of", "args": {}, "id": "7", "type": "tool_call"}
    assert id_of.invoke(call).text == "7", "without any node"


class Shop(MessagesState):
    cart: dict[str, Any]


@tool
def spoil(
    state: Annotated[Any, InjectedState],
    cart: Annotated[Any, InjectedState("cart")],
    runtime: ToolRuntime[Any, Any],
) -> str:
    """Change all that can be reached."""
    state["messages"].append(HumanMessage("forged"))
    state["new"] = state["cart"]["extra"] = True
    for reached in (state["cart"], cart, runtime.state["cart"]):
        reached["lamps"].append(2)
        reached["modes"].add("red")
    return "spoilt"


def test_c39_changes_of_a_tool_stay_in_its_copy(kind: Any, call: Any, ask: Any) -> None:
    """E21: in LangGraph they leak into the state, where only the outermost dict is fresh."""
    graph = StateGraph(Shop).add_node("tools", kind([spoil])).add_edge(START, "tools")
    agent: Any = graph.compile()
    cart = {"lamps": [1], "modes": {"blue"}}
    result = call(agent, {"messages": ask(("spoil", {})), "cart": cart})
    if kind is ToolNode:
        assert result["cart"] == {"lamps": [1], "modes": {"blue"}}
        assert [m.text for m in result["messages"]] == ["", "spoilt"]
    else:
        leaked = (result["cart"]["lamps"], result["cart"]["modes"])
        assert leaked == ([1, 2, 2, 2], {"blue", "red"})


def test_c39_each_parallel_call_has_its_own_copy_here(run: Any, ask: Any) -> None:
    @tool
    def push(numbers: Annotated[list[int], InjectedState("numbers")]) -> int:
        """Push a number."""
        numbers.append(1)
        return len(numbers)

    state = {"messages": ask(("push", {}), ("push", {})), "numbers": [0]}
    assert [message.text for message in run(ToolNode([push]), state)["messages"]] == ["2", "2"]


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


def holding(seen: list[Any]) -> Any:
    @tool
    def hold(n: int, mine: ToolRuntime[Any, Any]) -> str:
        """Hold the runtime."""
        seen.append(mine)
        return "held"

    return hold


def test_c32_a_parameter_of_its_type_is_given_the_runtime(kind: Any, run: Any, ask: Any) -> None:
    """By any name, without Annotated, unseen by the model; by its name, with any annotation."""
    seen: list[Any] = []
    hold = holding(seen)
    assert list(hold.tool_call_schema.model_json_schema()["properties"]) == ["n"]
    run(kind([hold]), ask(("hold", {"n": 1, "mine": "forged"})))
    assert [type(runtime) for runtime in seen] == [ToolRuntime]

    def look(runtime: Any) -> str:
        """Look at the runtime."""
        return type(runtime).__name__

    for annotation in (Any, object, ToolRuntime, ToolRuntime[Any, Any] | None):
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
    names = "state context config stream_writer tool_call_id store tools execution_info server_info"
    assert [known.name for known in fields(ToolRuntime)] == names.split()
    seen: list[Any] = []
    store = InMemoryStore()
    graph = StateGraph(MessagesState, Till).add_node("tools", kind([holding(seen)]))
    agent: Any = graph.add_edge(START, "tools").compile(store=store)
    calls = ask(("hold", {"n": 1}))
    call(agent, {"messages": calls}, {"metadata": {"who": "Ada"}}, context={"currency": "EUR"})
    (runtime,) = seen
    assert [m.id for m in runtime.state["messages"]] == [calls[0].id]
    assert (runtime.context, runtime.config["metadata"]["who"]) == ({"currency": "EUR"}, "Ada")
    assert callable(runtime.stream_writer)
    assert (runtime.tool_call_id, runtime.store, runtime.server_info) == ("1", store, None)
    assert [known.name for known in runtime.tools] == ["hold"]
    assert runtime.execution_info.task_id
    runtime.emit_output_delta("nobody listens")


def test_c34_c35_calls_share_what_belongs_to_the_run_alone(kind: Any, call: Any, ask: Any) -> None:
    seen: list[Any] = []
    node: Any = Runtime(context={"a": 1}, store=InMemoryStore(), stream_writer=print)
    call(kind([holding(seen)]), ask(*[("hold", {"n": 1})] * 2), {}, runtime=node)
    for runtime in seen:
        assert runtime.context is node.context
        assert runtime.store is node.store
        assert runtime.stream_writer is node.stream_writer
    first, second = seen
    assert first.config is not second.config
    assert {first.tool_call_id, second.tool_call_id} == {"1", "2"}
