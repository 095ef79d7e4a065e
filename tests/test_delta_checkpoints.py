"""Checkpoints that hold what was written: threads are as those that hold all of it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
)
from langgraph.channels import BinaryOperatorAggregate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Overwrite

from agent_factory import AgentMiddleware, AgentState, DeltaMessages, SpecError, create_agent
from agent_factory.testing import ScriptedChatModel

CONFIG: Any = {"configurable": {"thread_id": "one"}}
IDS = st.sampled_from("abc")
ITEMS: st.SearchStrategy[Any] = st.one_of(
    IDS.map(lambda id: HumanMessage("x", id=id)),
    st.just("y").map(HumanMessage),
    IDS.map(lambda id: RemoveMessage(id=id)),
    st.just(REMOVE_ALL_MESSAGES).map(lambda id: RemoveMessage(id=id)),
    IDS.map(lambda id: AIMessageChunk(content="part", id=id)),
    st.sampled_from([("user", "tuple"), "text", {"role": "user", "content": "dict"}]),
)
WRITES = st.one_of(
    st.lists(ITEMS, max_size=3),
    ITEMS,
    st.lists(IDS.map(lambda id: HumanMessage("over", id=id)), max_size=2).map(Overwrite),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), WRITES, st.none() | WRITES),
        st.tuples(st.just("update"), WRITES, st.none()),
        st.tuples(st.just("back"), WRITES, st.integers(0, 20)),
        st.tuples(st.just("restart"), st.none(), st.none()),
    ),
    max_size=7,
)
SAVERS: dict[str, Callable[[], Any]] = {
    "memory": InMemorySaver,
    "sqlite": lambda: SqliteSaver(sqlite3.connect(":memory:", check_same_thread=False)),
}


class Writing(AgentMiddleware):
    """Writes a given update before the model is called."""

    def __init__(self) -> None:
        super().__init__()
        self.write: Any = None

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return None if self.write is None else {"messages": self.write}


class Thread:
    """A thread of an agent that answers ok."""

    def __init__(self, saver: Any, schema: Any = None, **how: Any) -> None:
        self.hook = Writing()
        self._saver = saver
        self._how = {**how, "state_schema": schema}
        self.start()

    def start(self, **how: Any) -> None:
        """A new agent on what was saved, as in a new process."""
        self._how |= how
        self.agent: Any = create_agent(
            FakeListChatModel(responses=["ok"]),
            middleware=[self.hook],
            checkpointer=self._saver,
            **self._how,
        )

    def take(self, kind: str, write: Any, more: Any) -> Any:
        """A step; what it gives, or the error it ends with."""
        if kind == "restart":
            return self.start()
        self.hook.write = deepcopy(more) if kind == "say" else None
        input = {"messages": deepcopy(write)}
        try:
            if kind == "update":
                return bool(self.agent.update_state(CONFIG, input))
            return plain(self.agent.invoke(input, self._at(more if kind == "back" else None)))
        except Exception as error:
            return type(error), str(error)

    def _at(self, back: int | None) -> Any:
        history = [] if back is None else list(self.agent.get_state_history(CONFIG))
        return history[back % len(history)].config if back is not None and history else CONFIG

    def messages(self) -> Any:
        return self.agent.get_state(CONFIG).values.get("messages")

    def history(self) -> list[Any]:
        return [
            (plain(state.values), state.next, state.metadata["source"], state.metadata["step"])
            for state in self.agent.get_state_history(CONFIG)
        ]


def plain(state: Any) -> Any:
    """Messages without the ids that were drawn for them."""
    return [
        (type(m), m.content, m.id if m.id in {*"abc"} else "drawn" if m.id else None)
        if isinstance(m, BaseMessage)
        else m
        for m in state.get("messages", [])
    ]


def ids(messages: list[AnyMessage]) -> list[str | None]:
    return [message.id for message in messages]


@pytest.mark.parametrize("kind", SAVERS)
@settings(max_examples=max(10, settings().max_examples // 5))
@given(steps=STEPS)
def test_a_lean_thread_is_what_a_full_one_is(kind: str, steps: list[Any]) -> None:
    full = Thread(SAVERS[kind](), Ordinary)
    delta = Thread(SAVERS[kind](), checkpoints="delta")
    for step in steps:
        assert delta.take(*step) == full.take(*step)
        assert delta.history() == full.history()


class Ordinary(AgentState[Any]):
    """LangGraph's own channel, which nothing of ours is in."""

    messages: Annotated[list[AnyMessage], BinaryOperatorAggregate(list, add_messages)]


class Often(AgentState[Any]):
    messages: Annotated[list[AnyMessage], DeltaMessages(snapshot_frequency=2)]


@pytest.mark.parametrize("kind", SAVERS)
@settings(max_examples=max(10, settings().max_examples // 5))
@given(steps=STEPS, schemas=st.lists(st.sampled_from([Ordinary, None, Often]), min_size=1))
def test_a_thread_moves_between_all_ways_to_store_it(
    kind: str, steps: list[Any], schemas: list[Any]
) -> None:
    full, moving = Thread(SAVERS[kind](), Ordinary), Thread(SAVERS[kind](), checkpoints="delta")
    for index, step in enumerate(steps):
        answer = moving.take(*step)
        assert full.take(*step) == answer
        if kind == "memory" and (step[0] == "back" or isinstance(answer, tuple)):
            return  # left in the middle: see the next test
        schema = schemas[index % len(schemas)]
        how = "delta" if schema is None and index % 2 else "full"
        moving.start(state_schema=schema, checkpoints=how)
        assert moving.history() == full.history()


@pytest.mark.parametrize("kind", SAVERS)
def test_a_thread_whose_run_failed_moves_with_one_write(kind: str) -> None:
    full, moving = Thread(SAVERS[kind](), Ordinary), Thread(SAVERS[kind](), checkpoints="delta")
    for thread in (full, moving):
        thread.take("say", HumanMessage("x", id="a"), None)
        error, _ = thread.take("say", RemoveMessage(id="b"), None)
        assert error is ValueError
        thread.start(checkpoints="full")
        thread.take("update", [], None)  # which stores all of them
        thread.take("say", HumanMessage("x", id="b"), None)
    assert len(moving.messages()) == 4
    assert moving.history() == full.history()


@pytest.mark.parametrize("kind", SAVERS)
@given(steps=STEPS)
@settings(max_examples=max(10, settings().max_examples // 5))
def test_ids_stay_the_same_however_often_a_thread_is_read(kind: str, steps: list[Any]) -> None:
    delta = Thread(SAVERS[kind](), checkpoints="delta")
    for step in steps:
        delta.take(*step)
        before = [ids(s.values.get("messages", [])) for s in delta.agent.get_state_history(CONFIG)]
        delta.start()
        after = [ids(s.values.get("messages", [])) for s in delta.agent.get_state_history(CONFIG)]
        assert before == after


FORMS = {
    "tuple": [("user", "Hi")],
    "text": "Hi",
    "dict": [{"role": "user", "content": "Hi"}],
    "message": HumanMessage("Hi"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", SAVERS)
def test_every_form_of_message_is_stored_with_an_id(kind: str, form: str) -> None:
    delta = Thread(SAVERS[kind](), checkpoints="delta")
    for write in ("say", "update"):
        delta.take(write, FORMS[form], FORMS[form] if write == "say" else None)
    delta.agent.invoke(Command(update={"messages": FORMS[form]}), CONFIG)
    held = ids(delta.messages())
    assert None not in held
    assert len(set(held)) == len(held)
    assert ids(delta.messages()) == held


def test_the_same_words_in_two_threads_are_two_messages() -> None:
    one, other = (Thread(InMemorySaver(), checkpoints="delta") for _ in range(2))
    for thread in (one, other):
        thread.take("say", [("user", "Hi")], None)
    assert not set(ids(one.messages())) & set(ids(other.messages()))


async def test_an_asynchronous_thread_is_stored_as_well() -> None:
    delta = Thread(InMemorySaver(), checkpoints="delta")
    for _ in range(3):
        answer = await delta.agent.ainvoke({"messages": [("user", "Hi")]}, CONFIG)
    state = await delta.agent.aget_state(CONFIG)
    assert state.values["messages"] == answer["messages"]
    assert len(answer["messages"]) == 6


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", SAVERS)
def test_a_thread_is_whole_whenever_it_is_stored(kind: str, durability: Any) -> None:
    delta = Thread(SAVERS[kind](), checkpoints="delta")
    for _ in range(3):
        answer = delta.agent.invoke({"messages": "Hi"}, CONFIG, durability=durability)
    assert delta.messages() == answer["messages"]


ANOTHER_PROCESS = """
import sqlite3, sys
sys.path[:0] = sys.argv[2:]
from langgraph.checkpoint.sqlite import SqliteSaver
from langchain_core.language_models import FakeListChatModel
from agent_factory import create_agent
saver = SqliteSaver(sqlite3.connect(sys.argv[1], check_same_thread=False))
model = FakeListChatModel(responses=["ok"])
agent = create_agent(model, checkpointer=saver, checkpoints="delta")
config = {"configurable": {"thread_id": "one"}}
for message in agent.invoke({"messages": [("user", "Hi")]}, config)["messages"]:
    print(message.id)
"""


@pytest.mark.long
def test_what_one_process_wrote_another_reads_with_the_same_ids(tmp_path: Path) -> None:
    store = str(tmp_path / "threads.sqlite")
    command = [sys.executable, "-W", "error", "-c", ANOTHER_PROCESS, store, *sys.path]
    written = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    delta = Thread(
        SqliteSaver(sqlite3.connect(store, check_same_thread=False)), checkpoints="delta"
    )
    assert ids(delta.messages()) == written
    delta.take("say", "Again", None)
    assert ids(delta.messages())[:2] == written


def test_an_interrupted_run_goes_on_from_what_was_written() -> None:
    def delete(path: str) -> str:
        """Delete a file."""
        return f"deleted {path}"

    saver, answers = InMemorySaver(), [[{"name": "delete", "args": {"path": "/a"}}], "Done."]
    how: dict[str, Any] = {"checkpointer": saver, "checkpoints": "delta"}
    agent = create_agent(ScriptedChatModel(answers), [delete], interrupt_before=["tools"], **how)
    agent.invoke({"messages": "Delete /a."}, CONFIG)
    later = create_agent(ScriptedChatModel(answers[1:]), [delete], **how)
    texts = [message.text for message in later.invoke(None, CONFIG)["messages"]]
    assert texts == ["Delete /a.", "", "deleted /a", "Done."]


def test_a_checkpoint_does_not_grow_with_its_thread() -> None:
    def stored(checkpoints: Any) -> int:
        saver = InMemorySaver()
        thread = Thread(saver, checkpoints=checkpoints)
        for _ in range(30):
            thread.take("say", [("user", "x" * 200)], None)
        return sum(len(value) for _, value in saver.blobs.values())

    assert stored("delta") * 5 < stored("full")


def test_a_fork_of_an_old_checkpoint_leaves_the_thread_as_it_was() -> None:
    delta = Thread(InMemorySaver(), checkpoints="delta")
    for text in ("one", "two", "three"):
        delta.take("say", text, None)
    latest, old = delta.agent.get_state(CONFIG), list(delta.agent.get_state_history(CONFIG))[-3]
    before = ids(old.values["messages"])
    forked = delta.agent.update_state(old.config, {"messages": [RemoveMessage(id=str(before[0]))]})
    assert ids(delta.agent.get_state(forked).values["messages"]) == before[1:]
    assert ids(delta.agent.get_state(old.config).values["messages"]) == before
    assert delta.agent.get_state(latest.config).values == latest.values


def test_an_unknown_kind_of_checkpoints_is_refused() -> None:
    wrong: Any = "lean"
    with pytest.raises(SpecError, match=r"AF101.*checkpoints.*'full' or 'delta'.*'lean'"):
        create_agent(FakeListChatModel(responses=["ok"]), checkpoints=wrong)


def keep_last(left: list[Any], right: list[Any]) -> list[Any]:
    return [*left, *right][-5:]


def test_a_custom_reducer_is_refused_with_delta_checkpoints() -> None:
    class Last(AgentState[Any]):
        messages: Annotated[list[AnyMessage], keep_last]

    with pytest.raises(SpecError, match=r"checkpoints.*add_messages, and messages have keep_last"):
        create_agent(FakeListChatModel(responses=["ok"]), state_schema=Last, checkpoints="delta")
    assert create_agent(FakeListChatModel(responses=["ok"]), state_schema=Last)


def test_the_input_schema_is_the_same_for_both_kinds_of_checkpoints() -> None:
    model = FakeListChatModel(responses=["ok"])
    full, delta = create_agent(model), create_agent(model, checkpoints="delta")
    assert delta.get_input_jsonschema() == full.get_input_jsonschema()
    assert delta.get_output_jsonschema() == full.get_output_jsonschema()
    assert "messages" in full.get_input_jsonschema()["properties"]
