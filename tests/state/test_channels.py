"""The channels of messages, as `add_messages` is, and the JSON that every database stores."""

from __future__ import annotations

import os
import random
from copy import deepcopy
from itertools import count
from typing import Annotated, Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.channels import BinaryOperatorAggregate
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Overwrite
from stack_agents import kept_agent

from agent_factory import AgentState, DeltaMessages
from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.state.channels import (
    IndexedMessages,
    IndexedReducer,
    fold_messages,
    is_messages,
    random_id,
)
from agent_factory.state.history import with_valid_calls
from agent_factory.state.json_values import check_json, check_storable, json_fault
from agent_factory.testing import ScriptedChatModel
from tables import each

IDS = st.sampled_from("abcd")
TEXTS = st.sampled_from(["x", "y"])


def messages(ids: st.SearchStrategy[Any]) -> st.SearchStrategy[AnyMessage]:
    return st.tuples(st.integers(0, 2), TEXTS, ids).map(lambda drawn: message(*drawn))


def message(kind: int, text: str, id: str | None) -> AnyMessage:
    if kind == 0:
        return HumanMessage(text, id=id)
    return ToolMessage(text, id=id, tool_call_id="1") if kind == 1 else AIMessage(text, id=id)


MESSAGES = messages(st.none() | IDS)
ITEMS: st.SearchStrategy[Any] = st.one_of(
    MESSAGES,
    messages(IDS),
    IDS.map(lambda id: RemoveMessage(id=id)),
    st.just(REMOVE_ALL_MESSAGES).map(lambda id: RemoveMessage(id=id)),
    IDS.map(lambda id: AIMessageChunk(content="part", id=id)),
    st.tuples(st.sampled_from(["user", "ai"]), TEXTS),
    TEXTS,
    IDS.map(lambda id: {"role": "user", "content": "x", "id": id}),
)
WRITES = st.one_of(
    st.lists(ITEMS, max_size=4), ITEMS, st.lists(MESSAGES, max_size=3).map(Overwrite), st.none()
)
STEPS = st.lists(st.lists(WRITES, max_size=3), max_size=8)
CHANNELS = {"full": IndexedMessages, "delta": DeltaMessages}
KNOWN = set("abcd")


def ordinary() -> Any:
    return BinaryOperatorAggregate(list, add_messages)


def merge(left: Any, right: Any) -> Any:
    """What `add_messages` gives, which also merges what follows a removal of all messages."""
    messages = right if isinstance(right, list) else [right]
    sweeps = [at for at, m in enumerate(messages) if getattr(m, "id", "") == REMOVE_ALL_MESSAGES]
    if not sweeps:
        return add_messages(left, right)
    add_messages(left, [])  # gives ids to messages without one
    return add_messages([], messages[sweeps[-1] + 1 :])


def merging() -> Any:
    return BinaryOperatorAggregate(list, merge)


def started(kind: str) -> Any:
    return CHANNELS[kind]().from_checkpoint([])


def plain(messages: Any) -> Any:
    """Messages without the ids that were drawn for them."""
    if not isinstance(messages, list):
        return messages
    return [
        (type(m), m.content, m.id if m.id in KNOWN else "drawn" if m.id else None)
        if isinstance(m, BaseMessage)
        else m
        for m in messages
    ]


def value_after(channel: Any, writes: list[Any]) -> Any:
    """What a channel says to the writes of a step, and what it holds then."""
    try:
        changed = channel.update(deepcopy(writes))
    except Exception as error:
        return type(error), str(error), plain(channel.get())
    return changed, plain(channel.get())


@pytest.mark.parametrize("kind", CHANNELS)
@given(steps=STEPS)
def test_any_writes_give_what_add_messages_gives(kind: str, steps: list[list[Any]]) -> None:
    theirs, ours = merging(), started(kind)
    for writes in steps:
        assert value_after(ours, writes) == value_after(theirs, writes)


@pytest.mark.parametrize("kind", CHANNELS)
@given(steps=STEPS, ahead=WRITES, again=WRITES)
def test_looking_ahead_shows_what_comes_and_changes_nothing(
    kind: str, steps: list[list[Any]], ahead: Any, again: Any
) -> None:
    channel, theirs = started(kind), merging()
    for writes in steps:
        value_after(channel, writes)
        theirs.value = deepcopy(channel.get())
        look, other = channel.copy(), theirs.copy()
        for write in (ahead, again):
            assert value_after(look, [write]) == value_after(other, [write])
        assert plain(channel.get()) == plain(theirs.get())


@pytest.mark.parametrize("kind", CHANNELS)
@given(steps=STEPS)
def test_a_list_that_was_returned_stays_unchanged(kind: str, steps: list[list[Any]]) -> None:
    channel = started(kind)
    seen: list[tuple[Any, Any]] = []
    for writes in steps:
        value_after(channel, writes)
        seen.append((channel.get(), [*channel.get()]))
    assert all(value == then for value, then in seen)


@pytest.mark.parametrize("kind", CHANNELS)
@given(steps=STEPS, place=st.integers(0, 5), new=MESSAGES, how=st.integers(0, 3))
def test_a_history_that_was_changed_in_place_is_looked_at_again(
    kind: str, steps: list[list[Any]], place: int, new: AnyMessage, how: int
) -> None:
    changes: list[Any] = [
        lambda value: value.append(deepcopy(new)),
        lambda value: value.insert(place, deepcopy(new)),
        lambda value: value.__setitem__(slice(place, place + 1), [deepcopy(new)]),
        lambda value: value.clear(),
    ]
    theirs, ours = merging(), started(kind)
    for writes in steps:
        assert value_after(ours, writes) == value_after(theirs, writes)
        for channel in (ours, theirs):
            changes[how](channel.get())


@given(steps=STEPS, cut=st.integers(0, 20))
def test_a_stored_history_read_again_has_the_same_ids(steps: list[list[Any]], cut: int) -> None:
    writes = [write for step in steps for write in step]
    kept: list[Any] = []
    for write in writes:  # only what the channel takes is stored
        try:
            fold_messages([], deepcopy([*kept, write]))
        except Exception:
            continue
        if not isinstance(write, Overwrite):
            kept.append(write)
    for write in kept:  # LangGraph gives message objects an id before it stores them
        for message in write if isinstance(write, list) else [write]:
            if isinstance(message, BaseMessage) and message.id is None:
                message.id = f"given-{id(message)}"
    at_once = fold_messages([], deepcopy(kept))
    in_two = fold_messages(fold_messages([], deepcopy(kept[:cut])), deepcopy(kept[cut:]))
    assert [m.id for m in at_once] == [m.id for m in in_two]


A, B = HumanMessage("a", id="a"), HumanMessage("b", id="b")


@given(steps=STEPS)
@example(steps=[[[A, B]], [[RemoveMessage(id="a")]], [[A]]])
@example(steps=[[[A, B]], [[A]], [[HumanMessage("without an id")]]])
@example(steps=[[Overwrite([HumanMessage("without an id")]), []]])
def test_stored_writes_give_what_they_gave_one_by_one(steps: list[list[Any]]) -> None:
    channel = started("delta")
    stored: list[Any] = []
    for write in (write for step in steps for write in step):
        trial = CHANNELS["delta"]().from_checkpoint(deepcopy(channel.get()))
        if not isinstance(value_after(trial, [write])[0], type):  # what fails is not stored
            value_after(channel, [write])
            stored.append(("task", "messages", deepcopy(write)))
    again = started("delta")
    again.replay_writes(stored)
    assert [(m.id, m.content) for m in again.get()] == [(m.id, m.content) for m in channel.get()]


def test_words_without_an_id_get_another_one_at_each_place() -> None:
    first, second, third = fold_messages([], [("user", "Go on."), ("user", "Go on."), "Go on."])
    assert len({first.id, second.id, third.id}) == 3


def test_a_write_reads_no_message_of_a_long_history() -> None:
    looks = count()

    class Watched(HumanMessage):
        def __getattribute__(self, name: str) -> Any:
            if name == "id":
                next(looks)
            return super().__getattribute__(name)

    channel = IndexedMessages().from_checkpoint(
        [Watched(content="x", id=str(at)) for at in range(100)]
    )
    channel.update([HumanMessage("first", id="first")])  # which makes the index
    before = next(looks)
    channel.update([[AIMessage("new", id="new"), HumanMessage("again", id="50")]])
    channel.copy().update([HumanMessage("ahead", id="ahead")])
    assert next(looks) == before + 1
    assert channel.get()[50].content == "again"


def test_channels_of_messages_are_known_and_the_indexed_one_passes_for_the_ordinary_one() -> None:
    assert all(map(is_messages, (IndexedMessages(), DeltaMessages(), ordinary())))
    assert not is_messages(BinaryOperatorAggregate(list, max))
    assert IndexedMessages() == ordinary() == IndexedMessages()


def test_a_state_may_say_how_often_its_messages_are_stored_in_full() -> None:
    class State(AgentState[Any]):
        messages: Annotated[list[AnyMessage], DeltaMessages(snapshot_frequency=3)]

    assert DeltaMessages(snapshot_frequency=3).copy().snapshot_frequency == 3
    with pytest.raises(ValueError, match="snapshot_frequency"):
        DeltaMessages(snapshot_frequency=0)


def test_a_reducer_refuses_none_as_a_write() -> None:
    with pytest.raises(ValueError, match="non-null"):
        IndexedReducer()([], None)


def test_ids_are_random_in_each_process() -> None:
    """Also in processes that are copies of one another."""
    ids = []
    for _ in range(2):
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            os.write(writing, random_id().encode())
            os._exit(0)
        os.waitpid(child, 0)
        ids.append(os.read(reading, 100).decode())
    random.seed(1)
    ids.append(random_id())
    random.seed(1)
    ids.append(random_id())
    assert len(set(ids)) == 4
    assert all(UUID(id).version == 4 for id in ids)


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
    stored = with_valid_calls(AIMessage([block], tool_calls=calls, additional_kwargs={"raw": args}))
    assert SERIALIZER.loads_typed(SERIALIZER.dumps_typed(stored)) == stored
    assert with_valid_calls(stored) is stored


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
    agent = kept_agent(ScriptedChatModel(steps), *review, tools=[look], interrupt_before=pauses)
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
    agent = kept_agent([AIMessage("", tool_calls=call), "Done."], tools=[look])
    agent.invoke({"messages": "Look."}, {"configurable": {"thread_id": "t"}})
    assert seen == [order]
