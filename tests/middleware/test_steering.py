"""SteeringMiddleware: what people send is read once and in place, and runs can be stopped."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from agent_factory import ToolRuntime, after_model, before_agent, create_agent
from agent_factory import middleware as m
from agent_factory.errors import ArgumentError
from agent_factory.review import NoThread
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from samples import THREAD, Answer, add, in_memory, last_text, texts, tool_results, types
from tables import each
from waiting import until

Call = Callable[..., Any]
HELLO: Any = {"messages": "Hello"}
WORK = [{"name": "work", "args": {}}]
STOPPED = "I had to stop here: the run was cancelled."


class Office:
    """An agent with a tool in which something happens, and what a user does meanwhile.

    Args:
        steps: The answers of the model.
        actions: What happens in the calls of the tool, one after the other.
    """

    def __init__(self, steps: list[Any], *actions: Callable[[], object], **options: Any) -> None:
        self.model, self.actions = ScriptedChatModel(steps), list(actions)

        def work() -> str:
            """Work."""
            if self.actions:
                self.actions.pop(0)()
            return "worked"

        options = {"middleware": [m.SteeringMiddleware()], **in_memory(), **options}
        self.agent: Any = create_agent(self.model, [work], **options)

    def steer(self, text: str) -> str:
        return m.steer(self.agent, THREAD, text)

    def follow_up(self, text: str) -> str:
        return m.follow_up(self.agent, THREAD, text)

    def cancel(self) -> object:
        return m.cancel(self.agent, THREAD)  # type: ignore[func-returns-value]


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield InMemorySaver()
        return
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite", reason="the extra sqlite")
    connection = sqlite3.connect(tmp_path / "threads.db", check_same_thread=False)
    yield sqlite.SqliteSaver(connection)
    connection.close()


# Messages


def test_messages_are_read_once_in_order_at_the_next_call_after_the_results_of_the_tools(
    saver: Any,
) -> None:
    ids: list[str] = []
    office: Office = Office(
        [WORK * 2, WORK, "done"],
        lambda: ids.extend([office.steer("A"), office.steer("B")]),
        lambda: None,
        lambda: office.steer("C"),
        checkpointer=saver,
    )
    result = office.agent.invoke(HELLO, THREAD)
    worked = ["worked", "worked"]
    assert texts(result) == ["Hello", "", *worked, "A", "B", "", "worked", "C", "done"]
    assert [message.id for message in result["messages"][4:6]] == ids
    assert [m.text for m in office.model.requests[1].messages[-2:]] == ["A", "B"]
    assert_valid_history(result["messages"])


def test_messages_keep_their_order_if_the_clocks_of_their_senders_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    office: Office = Office(["one", "two"])
    office.agent.invoke(HELLO, THREAD)
    ids = (UUID(int=number) for number in (3, 2, 1))
    monkeypatch.setattr("agent_factory.middleware._shared.mailbox.uuid6", lambda: next(ids))
    for text in ("A", "B", "C"):
        office.steer(text)
    assert texts(office.agent.invoke(HELLO, THREAD))[-4:-1] == ["A", "B", "C"]


def test_a_message_may_have_parts_and_gets_an_id() -> None:
    office: Office = Office(["one", "two"])
    office.agent.invoke(HELLO, THREAD)
    message = HumanMessage([{"type": "text", "text": "Look."}], id="mine", name="Ada")
    id = m.steer(office.agent, THREAD, message)
    read = office.agent.invoke(HELLO, THREAD)["messages"][-2]
    assert (read.text, read.name, read.id, message.id) == ("Look.", "Ada", id, "mine")


def test_a_message_with_the_last_answer_is_read_before_the_run_ends_and_later_by_the_next_run(
    call: Call,
) -> None:
    """Follow-ups are read one by one when the run would end."""
    first: Any = lambda messages: office.steer("Wait!") and "done"  # noqa: E731
    office: Office = Office([first, "I wait.", "two", "three", "four"])
    assert texts(call(office.agent, HELLO, THREAD)) == ["Hello", "done", "Wait!", "I wait."]
    office.follow_up("And then?")
    office.follow_up("And last?")
    office.steer("In euros.")
    read = texts(call(office.agent, {"messages": "Go on"}, THREAD))[4:]
    assert read == ["Go on", "In euros.", "two", "And then?", "three", "And last?", "four"]


@after_model(can_jump_to=["model"])
def skip(state: Any, runtime: Any) -> dict[str, Any] | None:
    """Jump over the first calls."""
    return {"jump_to": "model"} if len(state["messages"]) == 2 else None


def test_results_stay_next_to_their_calls_after_a_jump_over_the_tools() -> None:
    """And are there after a cancellation."""
    stack = [m.SteeringMiddleware(), skip]
    first: Any = lambda messages: office.steer("Now?") and WORK  # noqa: E731
    office: Office = Office([first, WORK, "done"], middleware=stack)
    result = office.agent.invoke(HELLO, THREAD)
    assert texts(result).count("Now?") == 1
    assert types(result)[-3:] == ["tool", "human", "ai"]
    cancelled: Office = Office([lambda messages: cancelled.cancel() or WORK], middleware=stack)
    result = cancelled.agent.invoke(HELLO, THREAD)
    assert types(result) == ["human", "ai", "tool", "ai"]
    assert_valid_history(result["messages"])


# Follow-ups


def test_a_follow_up_goes_on_after_a_structured_answer(call: Call) -> None:
    office: Office = Office(
        [WORK, Answer(number=1), Answer(number=2)],
        lambda: office.follow_up("Again"),
        response_format=Answer,
    )
    result = call(office.agent, HELLO, THREAD)
    assert result["structured_response"] == Answer(number=2)
    assert texts(result).count("Again") == 1


@each(
    "strategy, invalid",
    [(ToolStrategy, [{"name": "Answer", "args": {"number": "many"}}]), (ProviderStrategy, "many")],
)
def test_a_follow_up_waits_while_the_model_corrects_its_answer(
    call: Call, strategy: Any, invalid: Any
) -> None:
    first: Any = lambda messages: office.follow_up("Again") and invalid  # noqa: E731
    steps = [first, Answer(number=1), Answer(number=2)]
    office: Office = Office(steps, response_format=strategy(Answer))
    result = call(office.agent, HELLO, THREAD)
    seen = [[m.text for m in request.messages] for request in office.model.requests]
    assert ["Again" in texts for texts in seen] == [False, False, True]
    assert result["structured_response"] == Answer(number=2)


# Cancelling


def test_a_cancelled_run_answers_its_calls_and_ends(call: Call) -> None:
    office: Office = Office(
        [lambda messages: office.cancel() or WORK * 2], lambda: pytest.fail("it ran")
    )
    result = call(office.agent, HELLO, THREAD)
    cancelled = ("Cancelled: the user stopped the run before this call had a result.", "error")
    assert tool_results(result) == [cancelled, cancelled]
    assert last_text(result) == STOPPED
    assert_valid_history(result["messages"])


def test_a_tool_that_runs_is_left_to_end_and_messages_stay_for_the_next_run(call: Call) -> None:
    office: Office = Office([WORK, "two"], lambda: [office.steer("Hm."), office.cancel()])
    assert texts(call(office.agent, HELLO, THREAD)) == ["Hello", "", "worked", STOPPED]
    assert texts(call(office.agent, HELLO, THREAD))[4:] == ["Hello", "Hm.", "two"]


def test_a_cancelled_run_does_not_go_on_with_a_follow_up_and_a_later_run_does(call: Call) -> None:
    office: Office = Office(
        [lambda messages: [office.follow_up("More"), office.cancel()] and "done", WORK, "one", "2"]
    )
    assert texts(call(office.agent, HELLO, THREAD)) == ["Hello", "done"]
    office.cancel()
    assert texts(call(office.agent, HELLO, THREAD))[4:] == ["worked", "one", "More", "2"]


def test_a_cancellation_at_the_very_start_of_a_run_counts() -> None:
    @before_agent
    def early(state: Any, runtime: Any) -> None:
        office.cancel()

    office: Office = Office(["one"], middleware=[early, m.SteeringMiddleware()])
    assert last_text(office.agent.invoke(HELLO, THREAD, durability="sync")) == STOPPED


def test_a_paused_run_that_is_cancelled_ends_when_it_is_resumed(call: Call) -> None:
    def ask() -> str:
        """Ask."""
        return str(interrupt("Sure?"))

    model = ScriptedChatModel([[{"name": "ask", "args": {}}]])
    agent: Any = create_agent(model, [ask], middleware=[m.SteeringMiddleware()], **in_memory())
    call(agent, HELLO, THREAD)
    m.cancel(agent, THREAD)
    result = call(agent, Command(resume="yes"), THREAD)
    assert types(result) == ["human", "ai", "tool", "ai"]
    assert last_text(result) == STOPPED


# A look from a tool


def test_a_tool_sees_what_waits_and_the_agent_has_not_read(call: Call) -> None:
    seen: list[Any] = []

    def work(runtime: ToolRuntime) -> str:
        """Work."""
        seen.append(m.unread(runtime))
        if len(seen) == 1:
            m.steer(agent, THREAD, "A")
            m.follow_up(agent, THREAD, "F")
        else:
            m.cancel(agent, THREAD)
        seen.append(m.unread(runtime))
        return "worked"

    async def awork(runtime: ToolRuntime) -> str:
        """Work."""
        seen.append(await m.aunread(runtime))
        return "worked"

    steps: list[Any] = [WORK, WORK, [{"name": "awork", "args": {}}], "end", "end"]
    agent: Any = create_agent(
        ScriptedChatModel(steps), [work, awork], middleware=[m.SteeringMiddleware()], **in_memory()
    )
    call(agent, HELLO, THREAD)
    # A follow-up is not a reason to end early.
    assert [[m.text for m in look.messages] for look in seen] == [[], ["A"], [], []]
    assert [m.text for m in seen[1].follow_ups] == ["F"]
    assert [bool(look) for look in seen] == [False, True, False, True]
    assert [look.cancelled for look in seen] == [False, False, False, True]
    asyncio.run(agent.ainvoke(HELLO, THREAD))
    assert [m.text for m in seen[4].messages] == []


# Async


async def test_senders_have_async_variants() -> None:
    async def work() -> str:
        """Work."""
        await m.asteer(agent, THREAD, "A")
        await m.afollow_up(agent, THREAD, "F")
        return "worked"

    async def stop() -> str:
        """Stop."""
        await m.acancel(agent, THREAD)
        return "stopped"

    steps: list[Any] = [WORK, "done", [{"name": "stop", "args": {}}]]
    agent: Any = create_agent(
        ScriptedChatModel(steps), [work, stop], middleware=[m.SteeringMiddleware()], **in_memory()
    )
    result = await agent.ainvoke(HELLO, THREAD)
    assert texts(result) == ["Hello", "", "worked", "A", "done", "F", "", "stopped", STOPPED]


# Threads and their branches


def test_the_thread_does_not_show_its_mailbox_and_is_deleted_with_it(saver: Any) -> None:
    office: Office = Office(["one", "two", "three"], checkpointer=saver)
    office.agent.invoke(HELLO, THREAD)
    root: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    state = office.agent.get_state(THREAD, subgraphs=True)
    history, stored = [*office.agent.get_state_history(THREAD)], [*saver.list(root)]
    office.steer("A")
    assert office.agent.get_state(THREAD, subgraphs=True) == state
    assert [*office.agent.get_state_history(THREAD)] == history
    assert [*saver.list(root)] == stored
    assert next(iter(saver.list(THREAD))) == stored[0]
    office.agent.update_state(THREAD, {"messages": [HumanMessage("Hi")]})
    result = office.agent.invoke(HELLO, THREAD)
    assert texts(result) == ["Hello", "one", "Hi", "Hello", "A", "two"]
    assert set(result) == {"messages"}
    office.steer("B")
    saver.delete_thread("1")
    assert [*saver.list(THREAD)] == []
    assert texts(office.agent.invoke(HELLO, THREAD)) == ["Hello", "three"]


def first_before(agent: Any, node: str) -> Any:
    """The first checkpoint of the thread before a node."""
    return [s for s in agent.get_state_history(THREAD) if s.next == (node,)][-1].config


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_fork_does_not_read_what_was_sent_to_the_branch_it_left(
    saver: Any, durability: str
) -> None:
    def send() -> None:
        # By default, a checkpoint is stored while the next step runs.
        until(lambda: office.agent.get_state(THREAD).next == ("tools",))
        office.steer("A")
        office.follow_up("F")
        office.cancel()

    office: Office = Office(
        [WORK, WORK, "two", "three"], send, lambda: office.steer("B"), checkpointer=saver
    )
    office.agent.invoke(HELLO, THREAD, durability=durability)
    begin = first_before(office.agent, "SteeringMiddleware.before_agent")
    office.agent.update_state(begin, {"messages": [HumanMessage("Hi")]})
    result = office.agent.invoke(None, THREAD, durability=durability)
    assert texts(result) == ["Hello", "Hi", "", "worked", "B", "two"]
    result = office.agent.invoke({"messages": "Bye"}, THREAD, durability=durability)
    assert texts(result)[-2:] == ["Bye", "three"]


@pytest.mark.parametrize("node", ["SteeringMiddleware.before_agent", "tools"])
def test_a_replay_from_an_earlier_checkpoint_is_not_cancelled(saver: Any, node: str) -> None:
    steps = [WORK, WORK, WORK, "done"] if node == "tools" else [WORK, WORK, WORK, WORK, "done"]
    office: Office = Office(steps, lambda: None, lambda: office.cancel(), checkpointer=saver)
    assert last_text(office.agent.invoke(HELLO, THREAD, durability="sync")) == STOPPED
    result = office.agent.invoke(None, first_before(office.agent, node), durability="sync")
    assert texts(result) == ["Hello", "", "worked", "", "worked", "done"]


@pytest.mark.parametrize("late", [False, True])
def test_new_input_at_an_earlier_checkpoint_leaves_later_messages_behind(
    saver: Any, late: bool
) -> None:
    """Also while its first checkpoint is being stored; a message to the checkpoint is read."""
    saver = Late() if late else saver
    second: Any = lambda messages: office.steer("A") and "two"  # noqa: E731
    office: Office = Office(["one", second, "three", "four", "five"], checkpointer=saver)
    office.agent.invoke(HELLO, THREAD)
    config = office.agent.get_state(THREAD).config
    office.agent.invoke(HELLO, THREAD)
    if late:
        saver.missed = Event()
    other, durability = {"messages": "Other"}, "async" if late else "sync"
    result = office.agent.invoke(other, config, durability=durability)
    assert texts(result) == ["Hello", "one", "Other", "four"]
    if not late:
        m.steer(office.agent, config, "B")
        result = office.agent.invoke(other, config, durability=durability)
        assert texts(result) == ["Hello", "one", "Other", "B", "five"]


class Late(InMemorySaver):
    """Stores nothing, if it waits, before somebody has missed a checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.missed: Event | None = None
        self.reads: Counter[tuple[str, str]] = Counter()

    def get_tuple(self, config: Any) -> Any:
        place = config["configurable"]
        self.reads[place.get("checkpoint_ns", ""), place.get("checkpoint_id", "")] += 1
        stored = super().get_tuple(config)
        if stored is None and self.missed is not None:
            self.missed.set()
        return stored

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if self.missed is not None:
            self.missed.wait(60)
        return super().put(config, checkpoint, metadata, new_versions)


def test_a_message_is_read_by_a_run_that_stores_nothing_before_its_end(call: Call) -> None:
    office = Office(["one", WORK, "two"], lambda: office.steer("A"))
    for _ in range(2):
        result = call(office.agent, HELLO, THREAD, durability="exit")
    assert texts(result)[2:] == ["Hello", "", "worked", "A", "two"]


@each("turns", [3, 120])
def test_a_follow_up_is_read_however_long_the_run_is(turns: int) -> None:
    office = Office([*[WORK] * turns, "one", "two"], lambda: office.follow_up("F"))
    result = office.agent.invoke(HELLO, {**THREAD, "recursion_limit": 1000})
    assert texts(result)[-3:] == ["one", "F", "two"]


def test_a_checkpoint_is_read_once_however_many_follow_ups_wait(call: Call) -> None:
    office: Office = Office(
        [*[WORK] * 40, *map(str, range(9))],
        *[lambda: office.follow_up("F")] * 8,
        checkpointer=(saver := Late()),
    )
    long = {**THREAD, "recursion_limit": 1000}
    assert last_text(call(office.agent, HELLO, long, durability="sync")) == "8"
    reads = [reads for (namespace, id), reads in saver.reads.items() if id and not namespace]
    assert len(reads) > 80
    assert {*reads} == {1}


def test_a_message_is_read_if_old_checkpoints_were_deleted() -> None:
    saver = InMemorySaver()
    office = Office(["one", "two"], checkpointer=saver, checkpoints="full")
    office.agent.invoke(HELLO, THREAD)
    office.steer("A")
    office.agent.update_state(THREAD, {"messages": [HumanMessage("Hi")]})
    newest = office.agent.get_state(THREAD).config["configurable"]["checkpoint_id"]
    for id in [id for id in saver.storage["1"][""] if id != newest]:
        del saver.storage["1"][""][id]
    assert texts(office.agent.invoke(HELLO, THREAD)) == ["Hello", "one", "Hi", "Hello", "A", "two"]


def test_a_run_that_failed_reads_its_message_once(saver: Any) -> None:
    office: Office = Office(
        [WORK, RuntimeError("down"), "done"], lambda: office.steer("A"), checkpointer=saver
    )
    with pytest.raises(RuntimeError, match="down"):
        office.agent.invoke(HELLO, THREAD)
    assert texts(office.agent.invoke(None, THREAD)) == ["Hello", "", "worked", "A", "done"]


# In stacks and graphs


def test_a_blocked_message_is_refused_where_it_is_sent(call: Call) -> None:
    stack = [m.SteeringMiddleware(), m.PIIMiddleware("email", strategy="block")]
    office: Office = Office(["done"], middleware=stack)
    call(office.agent, HELLO, THREAD)
    for send in (office.steer, office.follow_up):
        with pytest.raises(m.PIIDetectionError):
            send("Write to ada@x.org")
    assert "ada@" not in str(office.agent.checkpointer.writes)


def test_an_agent_inside_of_another_has_its_own_mailbox() -> None:
    place: dict[str, Any] = {}

    @before_agent
    def look(state: Any, runtime: Any) -> None:
        namespace = runtime.execution_info.checkpoint_ns.rpartition("|")[0]
        place["configurable"] = {"thread_id": "1", "checkpoint_ns": namespace}

    adding = [{"name": "add", "args": {"a": 1, "b": 1}}]
    inner = create_agent(
        ScriptedChatModel([lambda messages: both() and adding, "inner"]),
        [add],
        middleware=[look, m.SteeringMiddleware()],
        name="inner",
    )

    def both() -> str:
        m.steer(outer, THREAD, "outside")
        return m.steer(outer, place, "inside")  # type: ignore[arg-type]

    def ask() -> str:
        """Ask another agent."""
        return texts(inner.invoke({"messages": "Go"}))[-2]

    outer: Any = create_agent(
        ScriptedChatModel([[{"name": "ask", "args": {}}], "outer"]),
        [ask],
        middleware=[m.SteeringMiddleware()],
        **in_memory(),
    )
    result = outer.invoke(HELLO, THREAD, durability="sync")
    assert texts(result) == ["Hello", "", "inside", "outside", "outer"]


def test_an_agent_that_is_a_node_is_steered_through_the_graph_around_it() -> None:
    place: Any = {}

    def answer(messages: Any) -> Any:
        namespace = next(ns for ns in graph.checkpointer.storage["1"] if ns and "mailbox" not in ns)
        place["configurable"] = {"thread_id": "1", "checkpoint_ns": namespace}
        m.steer(graph, place, "I am ada@x.org")
        assert "ada@" not in str(graph.checkpointer.writes)
        return "done"

    stack: Any = [m.SteeringMiddleware(), m.PIIMiddleware("email")]
    agent = create_agent(ScriptedChatModel([answer, "again"]), middleware=stack)
    builder = StateGraph(MessagesState)
    builder.add_node("agent", agent)
    builder.add_edge(START, "agent")
    builder.add_edge("agent", END)
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    result = graph.invoke(HELLO, THREAD, durability="sync")
    assert texts(result) == ["Hello", "done", "I am [REDACTED_EMAIL]", "again"]


# Mistakes


def test_an_agent_that_would_not_read_is_refused() -> None:
    agent: Any = create_agent(ScriptedChatModel(["one"]), **in_memory())
    agent.invoke(HELLO, THREAD)
    for send in (lambda: m.steer(agent, THREAD, "A"), lambda: m.cancel(agent, THREAD)):
        with pytest.raises(ArgumentError, match=r"middleware=\[SteeringMiddleware\(\), \.\.\.\]"):
            send()
    office = Office(["done"], checkpointer=None, ignore=["AF211"])
    assert last_text(office.agent.invoke(HELLO)) == "done"
    with pytest.raises(NoThread, match="must have a checkpointer"):
        office.steer("A")


@pytest.mark.long
def test_a_thread_that_does_not_exist_is_refused() -> None:
    office: Office = Office(["one"])
    for send in (lambda: office.steer("A"), lambda: office.follow_up("F"), office.cancel):
        with pytest.raises(NoThread, match="thread '1': does not exist"):
            send()
    with pytest.raises(NoThread, match="must have a thread_id"):
        m.steer(office.agent, {}, "A")


@each("message", [AIMessage("A"), 7, ["A"]])
def test_only_messages_of_the_user_can_be_sent(message: Any) -> None:
    with pytest.raises(ArgumentError, match="must be a string or a HumanMessage"):
        m.steer(Office(["one"]).agent, THREAD, message)


TWO: Any = {"configurable": {"thread_id": "2"}}


class Letters:
    """A mailbox of which nothing is taken out."""

    thread = "1"

    def __init__(self, *texts: str) -> None:
        self.waiting = {f"id of {text}": HumanMessage(text, id=text) for text in texts}

    def messages(self) -> Mapping[str, HumanMessage]:
        return self.waiting

    def add(self, text: str) -> None:
        self.waiting[f"id of {text}"] = HumanMessage(text, id=text)


def agent_of(steps: list[Any], action: Callable[[ToolRuntime], object] = id) -> Any:
    """An agent in whose tool something happens."""

    def work(runtime: ToolRuntime) -> str:
        """Work."""
        action(runtime)
        return "worked"

    options: Any = {"middleware": [m.SteeringMiddleware()], "checkpointer": InMemorySaver()}
    return create_agent(ScriptedChatModel(steps), [work], **options)


def test_messages_are_read_once_in_order_also_with_the_last_answer_and_a_tool_sees_what_waits(
    call: Call,
) -> None:
    letters, looks = Letters("A", "B"), list[Any]()

    def look(runtime: ToolRuntime) -> None:
        letters.add("C")
        looks.append([message.text for message in m.unread(runtime).messages])

    def answer(_: Any) -> str:
        letters.add("D")
        return "one"

    agent = agent_of([WORK, answer, "done", "again"], look)
    with m.mailbox_of_run(letters):
        result = call(agent, HELLO, THREAD)
        assert texts(result) == ["Hello", "A", "B", "", "worked", "C", "one", "D", "done"]
        assert texts(call(agent, HELLO, THREAD))[-2:] == ["Hello", "again"]
    assert looks == [["C"]]
    assert agent.get_state(THREAD).values[m.STEERING_READ] == [
        f"id of {letter}" for letter in "ABCD"
    ]
    assert result["messages"][1].id == "A"


def test_the_mailbox_of_the_saver_is_not_read_in_the_block() -> None:
    agent = agent_of(["one", "two", "three"])
    agent.invoke(HELLO, THREAD)
    m.steer(agent, THREAD, "later")
    m.cancel(agent, THREAD)
    with m.mailbox_of_run(Letters("A")):
        assert texts(agent.invoke(HELLO, THREAD))[2:] == ["Hello", "A", "two"]
    assert texts(agent.invoke(HELLO, THREAD))[5:] == ["Hello", "later", "three"]


@each("place", ["inside", "on another thread"])
def test_another_agent_in_the_block_does_not_read_it(call: Call, place: str) -> None:
    if place == "inside":
        inner = create_agent(
            ScriptedChatModel(["inner"]), middleware=[m.SteeringMiddleware()], ignore=["AF211"]
        )
        config = None
    else:
        inner, config = agent_of(["inner"]), TWO
    results: list[Any] = []
    letters = Letters()

    def ask(_: ToolRuntime) -> None:
        letters.add("A")
        results.append(inner.invoke(HELLO, config))

    with m.mailbox_of_run(letters):
        result = call(agent_of([WORK, "done"], ask), HELLO, THREAD)
    assert texts(results[0]) == ["Hello", "inner"]
    assert texts(result)[-2:] == ["A", "done"]
