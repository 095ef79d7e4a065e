"""Injected arguments, which a model cannot forge: C23 to C31, C36 to C40."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.runtime import Runtime
from langgraph.types import Send
from pydantic import BaseModel

from agent_factory import ToolNode
from agent_factory.errors import ArgumentError
from samples import ThreadModel, prices, two_stores
from tables import each


def whole(state: Annotated[Any, InjectedState]) -> str:
    """Say what the state is."""
    return type(state).__name__


def whole_by_call(state: Annotated[Any, InjectedState()]) -> str:
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


def stored(shelf: Annotated[Any, InjectedStore()]) -> str:
    """Look into the store."""
    return str(shelf.get(("prices",), "lamp").value)


def stored_by_class(shelf: Annotated[Any, InjectedStore]) -> str:
    """Look into the store."""
    return str(shelf.get(("prices",), "lamp").value)


@dataclass
class Thread:
    messages: list[Any]
    user: str


class Model(BaseModel):
    messages: list[Any]
    user: str


def said(run: Any, ask: Any, node: Any, args: dict[str, Any] | None = None, **known: Any) -> str:
    """What the node's one tool says of a state with a user."""
    (name,) = node.tools_by_name
    state = {"messages": ask((name, args or {})), "user": "Ada"}
    (message,) = run(node, state, **known)["messages"]
    return str(message.text)


@each("given", [whole, whole_by_call])
def test_c23_the_whole_state_is_injected(kind: Any, run: Any, ask: Any, given: Any) -> None:
    assert said(run, ask, kind([given])) == "dict"


@each("given", [user, user_by_key])
@each("state", [dict, Thread, Model])
def test_c23_fields_of_states_are_injected(
    kind: Any, run: Any, ask: Any, given: Any, state: Any
) -> None:
    node = kind([given])
    (name,) = node.tools_by_name
    (message,) = run(node, state(messages=ask((name, {})), user="Ada"))["messages"]
    assert message.text.endswith("Ada")


@each("given", [stored, stored_by_class])
def test_c24_the_store_is_injected_by_any_name(kind: Any, run: Any, ask: Any, given: Any) -> None:
    assert said(run, ask, kind([given]), store=prices()) == "{'price': 39}"


def test_c25_the_model_does_not_see_what_is_injected(kind: Any) -> None:
    for given, shown in ((user, ["greeting"]), (whole, []), (stored, [])):
        (known,) = kind([given]).tools_by_name.values()
        assert list(known.tool_call_schema.model_json_schema()["properties"]) == shown


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
    def only(given: Any) -> Any:
        node = kind([given])
        (name,) = node.tools_by_name
        return run(node, ask((name, {})))[0].text

    assert only(talk) == "1"
    assert only(whole) == "dict"
    for given, fields in ((user, "user"), (two_fields, "user, place")):
        text = f"requires graph state dict as input. State should contain fields {fields}"
        with pytest.raises(ValueError, match=text):
            only(given)


def test_c28_the_whole_of_a_list_has_it_at_the_messages_key(kind: Any, run: Any, ask: Any) -> None:
    @tool
    def keys(state: Annotated[dict[str, Any], InjectedState]) -> str:
        """List the keys."""
        return ",".join(state)

    (message,) = run(kind([keys], messages_key="talk"), ask(("keys", {})))
    assert message.text == "talk"


def test_c29_a_call_with_its_context_brings_its_state(kind: Any, run: Any) -> None:
    call = {"name": "user", "args": {}, "id": "1", "type": "tool_call"}
    given = {"__type": "tool_call_with_context", "tool_call": call, "state": {"user": "Eve"}}
    assert run(kind([user]), given)["messages"][0].text == "Hi Eve"


def test_c29_calls_alone_read_the_state_of_their_graph(kind: Any, call: Any, ask: Any) -> None:
    """E9: and outside a graph they have none."""

    class Office(MessagesState):
        user: str

    def send(state: Any) -> list[Send]:
        (asked,) = state["messages"][-1].tool_calls
        return [Send("tools", [{**asked, "type": "tool_call"}])]

    graph = StateGraph(Office).add_node("tools", kind([user]))
    agent: Any = graph.add_conditional_edges(START, send, ["tools"]).compile()
    result = call(agent, {"messages": ask(("user", {})), "user": "Ada"})
    assert result["messages"][-1].text == "Hi Ada"


def test_c29_calls_alone_have_no_state_outside_a_graph(kind: Any, run: Any) -> None:
    call = {"name": "user_or", "args": {}, "id": "1", "type": "tool_call"}
    assert run(kind([user_or]), [call])["messages"][0].text == "nobody"


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


def wrapped(request: Any, execute: Any) -> Any:
    return execute(request)


def test_c30_with_a_wrapper_langgraph_reports_a_missing_store_to_the_model(ask: Any) -> None:
    """The model could not fix it, with a wrapper or without."""
    calls = {"messages": ask(("stored", {}))}
    options: Any = {"handle_tool_errors": True, "wrap_tool_call": wrapped}
    report = LangGraphToolNode([stored], **options).invoke(calls, runtime=Runtime())
    assert report["messages"][0].status == "error"
    with pytest.raises(ValueError, match="Cannot inject store"):
        ToolNode([stored], **options).invoke(calls, runtime=Runtime())


def test_c31_without_a_field_the_run_always_ends(kind: Any, run: Any, ask: Any) -> None:
    calls = ask(("user", {}))
    for handle in (True, "No."):
        node = kind([user], handle_tool_errors=handle)
        with pytest.raises(KeyError, match="user"):
            run(node, {"messages": calls})
        with pytest.raises(AttributeError, match="user"):
            run(node, ThreadModel(messages=calls))


def test_c31_a_parameter_with_a_default_keeps_it(kind: Any, run: Any, ask: Any) -> None:
    """E33"""
    calls = ask(("user_or", {}))
    for state in ({"messages": calls}, ThreadModel(messages=calls)):
        assert run(kind([user_or]), state)["messages"][0].text == "nobody"


def test_c36_the_model_cannot_forge_what_is_injected(kind: Any, run: Any, ask: Any) -> None:
    """E29"""
    assert said(run, ask, kind([user]), {"who": "Eve", "greeting": "Hello"}) == "Hello Ada"
    forged = ask(("user_or", {"who": "Eve"}))
    assert run(kind([user_or]), {"messages": forged})["messages"][0].text == "nobody"


class Secret(InjectedToolArg):
    """A mark of one's own."""


def test_c36_every_mark_of_injection_keeps_the_model_out(kind: Any, run: Any, ask: Any) -> None:
    @tool
    def show(key: Annotated[str, Secret()] = "none", n: int = 0) -> str:
        """Show the key."""
        return f"{key} {n}"

    assert said(run, ask, kind([show]), {"key": "stolen", "n": 1}) == "none 1"


def test_c37_a_choice_is_an_ordinary_parameter(kind: Any, run: Any, ask: Any) -> None:
    @tool
    def price(shop: str, shelf: Annotated[Any, InjectedStore()]) -> str:
        """Look up a price in one of the shops."""
        return str(shelf.get(({"town": "prices"}[shop],), "lamp").value["price"])

    assert said(run, ask, kind([price]), {"shop": "town"}, store=prices()) == "39"


def test_c38_the_tool_itself_injects_the_id_of_the_call(kind: Any, run: Any, ask: Any) -> None:
    @tool
    def id_of(mine: Annotated[str, InjectedToolCallId]) -> str:
        """Say the id."""
        return mine

    assert said(run, ask, kind([id_of])) == "1"
    call = {"name": "id_of", "args": {}, "id": "7", "type": "tool_call"}
    assert id_of.invoke(call).text == "7", "without any node"


def test_c40_what_no_model_could_pass_is_injected(kind: Any, run: Any, ask: Any) -> None:
    """A message object of the state, as it is."""

    @tool
    def last(messages: Annotated[list[Any], InjectedState("messages")], word: str) -> str:
        """Say who spoke first."""
        return f"{word} {type(messages[0]).__name__}"

    state = {"messages": [HumanMessage("Go"), *ask(("last", {"word": "a"}))]}
    assert run(kind([last]), state)["messages"][0].text == "a HumanMessage"
