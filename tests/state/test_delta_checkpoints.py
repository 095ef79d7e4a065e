"""Checkpoints that hold what was written: threads are as those that hold all of it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
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
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Overwrite
from stack_agents import agent_of

from agent_factory import AgentMiddleware, AgentState, DeltaMessages, SpecError, create_agent
from agent_factory.state.channels import supports_delta_channel
from tables import each

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


def is_alike(items: list[Any]) -> bool:
    """False for a list that `add_messages` stores in another way: see docs/differences.md.

    It takes what follows `REMOVE_ALL_MESSAGES` as it is, where here messages are merged by id.
    """
    ids = [getattr(item, "id", None) for item in items]
    if REMOVE_ALL_MESSAGES not in ids:
        return True
    start = len(ids) - ids[::-1].index(REMOVE_ALL_MESSAGES)
    removals = any(isinstance(item, RemoveMessage) for item in items[start:])
    later = [id for id in ids[start:] if id is not None]
    return not removals and len(later) == len(set(later))


WRITES = st.one_of(
    st.lists(ITEMS, max_size=3).filter(is_alike),
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
SAVERS = ["memory", "sqlite"]


@pytest.fixture
def new_saver() -> Iterator[Callable[[str], Any]]:
    """Create a saver of a kind, whose connection is closed after the test."""
    with ExitStack() as stack:

        def saver(kind: str) -> Any:
            if kind == "memory":
                return InMemorySaver()
            connection = sqlite3.connect(":memory:", check_same_thread=False)
            return SqliteSaver(stack.enter_context(closing(connection)))

        yield saver


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
        self.agent: Any = agent_of(
            FakeListChatModel(responses=["ok"]), self.hook, checkpointer=self._saver, **self._how
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

    def say(self, *texts: str) -> None:
        """Send a message of the user for each text."""
        for text in texts:
            self.take("say", text, None)

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
def test_a_lean_thread_is_what_a_full_one_is(kind: str, steps: list[Any], new_saver: Any) -> None:
    full = Thread(new_saver(kind), Ordinary)
    delta = Thread(new_saver(kind), checkpoints="delta")
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
    kind: str, steps: list[Any], schemas: list[Any], new_saver: Any
) -> None:
    full, moving = Thread(new_saver(kind), Ordinary), Thread(new_saver(kind), checkpoints="delta")
    for index, step in enumerate(steps):
        answer = moving.take(*step)
        assert full.take(*step) == answer
        if kind == "memory" and (step[0] == "back" or isinstance(answer, tuple)):
            return  # left in the middle: see the next test
        schema = schemas[index % len(schemas)]
        how = "delta" if schema is None and index % 2 else "full"
        moving.start(state_schema=schema, checkpoints=how)
        assert moving.history() == full.history()


@each("kind", SAVERS)
def test_a_thread_whose_run_failed_moves_with_one_write(kind: str, new_saver: Any) -> None:
    full, moving = Thread(new_saver(kind), Ordinary), Thread(new_saver(kind), checkpoints="delta")
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
def test_ids_stay_the_same_however_often_a_thread_is_read(
    kind: str, steps: list[Any], new_saver: Any
) -> None:
    delta = Thread(new_saver(kind), checkpoints="delta")
    for step in steps:
        delta.take(*step)
        before = [ids(s.values.get("messages", [])) for s in delta.agent.get_state_history(CONFIG)]
        delta.start()
        after = [ids(s.values.get("messages", [])) for s in delta.agent.get_state_history(CONFIG)]
        assert before == after


@each("durability", ["sync", "async", "exit"])
@each("kind", SAVERS)
def test_a_thread_is_whole_whenever_it_is_stored(
    kind: str, durability: Any, new_saver: Any
) -> None:
    delta = Thread(new_saver(kind), checkpoints="delta")
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
saver.conn.close()
"""


@pytest.mark.long
def test_what_one_process_wrote_another_reads_with_the_same_ids(tmp_path: Path) -> None:
    store = str(tmp_path / "threads.sqlite")
    command = [sys.executable, "-W", "error", "-c", ANOTHER_PROCESS, store, *sys.path]
    written = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    with closing(sqlite3.connect(store, check_same_thread=False)) as connection:
        delta = Thread(SqliteSaver(connection), checkpoints="delta")
        assert ids(delta.messages()) == written
        delta.say("Again")
        assert ids(delta.messages())[:2] == written


class Shortens(InMemorySaver):
    """Keeps the latest messages alone, as savers of others do that shorten threads in `put`."""

    def put(self, config: Any, checkpoint: Any, *rest: Any) -> Any:
        values = dict(checkpoint["channel_values"])
        if "messages" in values:
            values["messages"] = values["messages"][-3:]
        shortened: Any = {**checkpoint, "channel_values": values}
        return super().put(config, shortened, *rest)


class Logs(InMemorySaver):
    """Changes nothing that stores a checkpoint."""

    def delete_thread(self, thread_id: str) -> None:
        super().delete_thread(thread_id)


class Forgets(BaseCheckpointSaver[str]):
    """Stores nothing, and takes no path of a task."""

    def put_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        pass

    def get_delta_channel_history(self, **_: Any) -> Any:
        return {}


# The constructor of the async saver needs a running loop.
@each(
    "saver, declares, by_default",
    [
        (InMemorySaver(), True, True),
        (SqliteSaver.__new__(SqliteSaver), True, True),
        (AsyncSqliteSaver.__new__(AsyncSqliteSaver), True, True),
        (Logs(), True, True),
        (Shortens(), True, False),
        (Forgets(), False, False),
        (BaseCheckpointSaver(), False, False),
        *((other, False, False) for other in (None, True, False, object())),
    ],
)
def test_savers_that_rebuild_delta_channels_define_the_method_for_it(
    saver: Any, declares: bool, by_default: bool
) -> None:
    """The default form of checkpoints follows this, for savers of LangGraph and of the service."""
    assert supports_delta_channel(saver) == declares
    assert supports_delta_channel(saver, by_default=True) == by_default


class Latest(BaseCheckpointSaver[str]):
    """Keeps the latest checkpoint of a thread alone, as savers for short-lived threads do."""

    def __init__(self) -> None:
        super().__init__()
        self._kept = InMemorySaver()

    def get_tuple(self, config: Any) -> Any:
        return self._kept.get_tuple(config)

    def put(self, config: Any, *rest: Any) -> Any:
        stored = self._kept.put(config, *rest)
        thread, namespace, latest = stored["configurable"].values()
        checkpoints = self._kept.storage[thread][namespace]
        self._kept.storage[thread][namespace] = {latest: checkpoints[latest]}
        return stored

    def put_writes(self, *args: Any) -> None:
        self._kept.put_writes(*args)

    def get_next_version(self, current: Any, channel: None) -> str:
        return self._kept.get_next_version(current, channel)


def stored_messages(saver: Any) -> Any:
    """The messages in the latest checkpoint itself."""
    return saver.get_tuple(CONFIG).checkpoint["channel_values"].get("messages")


@each("kind", SAVERS)
def test_a_new_thread_is_lean_where_its_saver_supports_it(kind: str, new_saver: Any) -> None:
    saver = new_saver(kind)
    thread = Thread(saver)
    thread.say("Hi", "Hi")
    assert stored_messages(saver) is None
    assert len(thread.messages()) == 4


def test_a_saver_that_shortens_threads_gets_all_messages_to_shorten() -> None:
    thread = Thread(Shortens())
    thread.say("Hi", "Hi", "Hi")
    assert len(thread.messages()) == 3


@each("saver", [Latest(), Forgets()])
def test_delta_checkpoints_are_refused_for_savers_that_lose_them(saver: Any) -> None:
    with pytest.raises(
        SpecError, match=f"AF101.*get_delta_channel_history.*{type(saver).__name__}"
    ):
        Thread(saver, checkpoints="delta")


@each("saver, form", [(Latest(), "auto"), (InMemorySaver(), "full")])
def test_full_checkpoints_which_savers_get_that_may_forget_old_ones_hold_all_messages(
    saver: Any, form: Any
) -> None:
    thread = Thread(saver, checkpoints=form)
    thread.say("Hi", "Hi")
    assert len(stored_messages(saver)) == len(thread.messages()) == 4


@pytest.mark.parametrize("kind", SAVERS)
@settings(max_examples=max(10, settings().max_examples // 5))
@given(before=STEPS, after=STEPS)
def test_a_full_thread_goes_on_lean_wherever_it_was_left(
    kind: str, before: list[Any], after: list[Any], new_saver: Any
) -> None:
    full, moving = Thread(new_saver(kind), Ordinary), Thread(new_saver(kind), checkpoints="full")
    for step in before:
        assert moving.take(*step) == full.take(*step)
    moving.start(checkpoints="auto")
    for step in after:
        assert moving.take(*step) == full.take(*step)
        assert moving.history() == full.history()


def copied(source: Any, target: Any) -> None:
    """Copy a thread by the public methods of savers, checkpoint by checkpoint."""
    for saved in reversed(list(source.list(CONFIG))):
        parent = (saved.parent_config or CONFIG)["configurable"].get("checkpoint_id")
        config: Any = {"configurable": {**CONFIG["configurable"], "checkpoint_ns": ""}}
        if parent:
            config["configurable"]["checkpoint_id"] = parent
        versions = saved.checkpoint["channel_versions"]
        config = target.put(config, saved.checkpoint, saved.metadata, versions)
        for task, channel, value in saved.pending_writes:
            target.put_writes(config, [(channel, value)], f"{task}-{channel}")


@each("checkpoints", ["auto", "full"])
@each("kind", SAVERS)
def test_a_copy_of_all_checkpoints_is_the_thread(
    kind: str, checkpoints: Any, new_saver: Any
) -> None:
    saver, other = InMemorySaver(), new_saver(kind)
    thread = Thread(saver)
    thread.say("one", "two", "three")
    copied(saver, other)
    copy = Thread(other, checkpoints=checkpoints)
    assert copy.history() == thread.history()
    assert copy.take("say", "four", None) == thread.take("say", "four", None)


@each("kind", SAVERS)
def test_another_graph_reads_a_lean_thread_and_writes_to_it(kind: str, new_saver: Any) -> None:
    saver = new_saver(kind)
    thread = Thread(saver)
    thread.say("Hi")
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [("ai", str(len(state["messages"])))]})
    plain_agent = graph.set_entry_point("model").compile(checkpointer=saver)
    assert plain_agent.invoke({"messages": "How many?"}, CONFIG)["messages"][-1].text == "3"
    thread.say("And now?")
    assert len(thread.messages()) == 6


@pytest.mark.long
@each("fused, most", [(False, 75), (True, 6), ("turn", 5)])
def test_a_turn_of_a_long_thread_is_stored_in_a_few_kilobytes(fused: Any, most: float) -> None:
    def look(text: str) -> str:
        """Look something up."""
        return text * 200

    calls = [[{"name": "look", "args": {"text": "x"}}] for _ in range(200)]
    # Each with a hook before the model and one after it, which write nothing.
    stack = [type(f"Member{at}", (Watching,), {})() for at in range(8)]
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        options: Any = {"checkpointer": SqliteSaver(connection), "fused": fused}
        agent = agent_of([*calls, "Done."], *stack, tools=[look], **options)
        agent.invoke({"messages": "Look."}, CONFIG)
        stored = connection.execute(
            "select (select sum(length(checkpoint) + length(metadata)) from checkpoints)"
            " + (select sum(length(value)) from writes)"
        ).fetchone()[0]
    assert stored / 200 < most * 1000


class Watching(AgentMiddleware):
    """Looks before and after the model."""

    def before_model(self, state: Any, runtime: Any) -> None:
        return None

    def after_model(self, state: Any, runtime: Any) -> None:
        return None


def test_an_unknown_kind_of_checkpoints_is_refused() -> None:
    wrong: Any = "lean"
    with pytest.raises(SpecError, match=r"AF101.*checkpoints.*'auto', 'full' or 'delta'.*'lean'"):
        create_agent(FakeListChatModel(responses=["ok"]), checkpoints=wrong)


def keep_last(left: list[Any], right: list[Any]) -> list[Any]:
    return [*left, *right][-5:]


def test_a_custom_reducer_is_refused_with_delta_checkpoints() -> None:
    class Last(AgentState[Any]):
        messages: Annotated[list[AnyMessage], keep_last]

    with pytest.raises(SpecError, match=r"checkpoints.*add_messages, and messages have keep_last"):
        create_agent(FakeListChatModel(responses=["ok"]), state_schema=Last, checkpoints="delta")
    # With no form asked for, it is the full one.
    saver = InMemorySaver()
    model = FakeListChatModel(responses=["ok"])
    agent = create_agent(model, state_schema=Last, checkpointer=saver)
    for _ in range(4):
        agent.invoke({"messages": [HumanMessage("Hi")]}, CONFIG)
    assert len(stored_messages(saver)) == 5
