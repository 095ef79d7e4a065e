"""JSON that every database stores as it is, and what a model writes instead of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.state.history import with_valid_calls
from agent_factory.state.json_values import check_json, check_storable, json_fault
from agent_factory.testing import ScriptedChatModel
from tables import each


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


WRONG: list[tuple[Any, str]] = [
    ({"k": float("nan")}, "x.k: must be a finite number, got nan"),
    ({"k": [1, float("-inf")]}, "x.k.1: must be a finite number, got -inf"),
    ({"k": 2**63}, "x.k: must be a number of at most 64 bits"),
    ([-(2**63) - 1], "x.0: must be a number of at most 64 bits"),
    ("a\0b", r"x: must not have the character U\+0000"),
    ({"a\0b": 1}, r"x.a\\x00b: must not have the character U\+0000"),
    ({"k": {"n": "\ud83d"}}, r"x.k.n: must not have U\+D83D, half of a character"),
    ({"\ude00": 1}, r"x.\\ude00: must not have U\+DE00"),
    ({1: 2}, "x: must have strings as keys, got int"),
    ({"k": b"bytes"}, "x.k: must be JSON, got bytes"),
    (nested(102), "x.0.0.*: must not be nested more than 100 levels deep"),
]


@each("value, text", WRONG)
def test_what_a_database_would_not_store_is_refused(value: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        check_json("x", value)


def test_what_databases_store_is_json() -> None:
    assert json_fault({"k": [None, True, 2**63 - 1, -(2**63), 1e308, "Grüße 😀", (1,)]}) is None
    assert json_fault(nested(100)) is None


@each(
    "value",
    [
        {"messages": [HumanMessage("a\0b")]},
        {"messages": [ToolMessage([{"type": "text", "text": "\ud83d"}], tool_call_id="1")]},
        {"messages": [AIMessage("", tool_calls=[{"name": "a", "args": {"n": 2**64}, "id": "1"}])]},
        {"messages": [HumanMessage("a", additional_kwargs={"n": {"\0": 1}})]},
    ],
)
def test_values_of_a_state_are_looked_into(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"values\.messages\.0"):
        check_storable("values", value)


def test_a_state_may_hold_objects() -> None:
    check_storable("values", {"a": b"bytes", "b": object(), "c": float("nan"), 1: {2}})


# What a model writes

ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**63) - 1, 2**63 - 1, 10**40])
    | st.floats()
    | st.text(st.characters(codec=None), max_size=4)
    | st.sampled_from(["\ud83d", "\ude00", "\ud83d\ude00", "a\udfffb", "😀"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
SERIALIZER = JsonPlusSerializer()


@given(st.dictionaries(st.text(st.characters(codec=None), max_size=3), ODD))
def test_a_storable_message_is_the_same_after_it_was_stored(args: Any) -> None:
    block = {"type": "tool_use", "id": "1", "name": "look", "input": args}
    calls: Any = [{"name": "look", "args": args, "id": "1", "type": "tool_call"}]
    message = with_valid_calls(
        AIMessage([block], tool_calls=calls, additional_kwargs={"raw": args})
    )
    assert SERIALIZER.loads_typed(SERIALIZER.dumps_typed(message)) == message
    assert with_valid_calls(message) is message


def test_a_message_that_can_be_stored_is_not_copied() -> None:
    calls: Any = [{"name": "look", "args": {"order": 7, "tags": ["ü", {"x": True}]}, "id": "1"}]
    message = AIMessage("Grüße 😀", tool_calls=calls)
    assert with_valid_calls(message) is message
    pair = AIMessage("\ud83d\ude00")
    assert with_valid_calls(pair).content == "😀"


VALUES = [2**70, -(2**64), float("nan"), "half \ud83d", {"deep": [2**64, "\ude00", float("inf")]}]


@each("value", VALUES)
@each("reviewed", ["batched", "per_call", None])
def test_a_call_with_a_value_that_no_checkpointer_stores_runs_once(
    act: Any, value: Any, reviewed: Any
) -> None:
    seen: list[Any] = []

    def look(order: Any) -> str:
        """Look an order up."""
        seen.append(order)
        return "There."

    args = {"order": value}
    steps: list[Any] = [
        AIMessage("", tool_calls=[{"name": "look", "args": args, "id": "1"}]),
        "Done.",
    ]
    review = [HumanInTheLoopMiddleware({"look": True}, interrupt_mode=reviewed)] if reviewed else []
    pauses = None if reviewed else ["tools"]
    agent = create_agent(
        ScriptedChatModel(steps),
        [look],
        middleware=review,
        checkpointer=InMemorySaver(),
        interrupt_before=pauses,
    )
    agent.invoke({"messages": "Look."}, {"configurable": {"thread_id": "1"}})
    (waiting,) = act("pending", agent).calls
    assert seen == []
    result = act("approve", agent, waiting.digest)
    assert (result["messages"][-1].text, len(seen)) == ("Done.", 1)
    assert waiting.args == {"order": seen[0]}


@each("order", [2**70, 99999999999999999999, float("-inf")])
def test_a_tool_that_takes_a_number_gets_the_number(order: float) -> None:
    seen: list[float] = []

    def look(order: int | float) -> str:
        """Look an order up."""
        seen.append(order)
        return "There."

    call: Any = [{"name": "look", "args": {"order": order}, "id": "1"}]
    model = ScriptedChatModel([AIMessage("", tool_calls=call), "Done."])
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    agent.invoke({"messages": "Look."}, {"configurable": {"thread_id": "t"}})
    assert seen == [order]
