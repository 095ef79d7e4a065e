"""Tools that know what they touch: which calls of a turn wait for which, and what they leave."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Callable
from itertools import combinations
from typing import Annotated, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, RetryPolicy, interrupt
from pydantic import BaseModel
from stack_agents import agent_of

from agent_factory import agent_tool, create_agent, load_topology, plan_agent, topology_of, touches
from agent_factory.decisions import DecisionList
from agent_factory.errors import ArgumentError, SpecError
from agent_factory.middleware import PIIMiddleware
from agent_factory.runtime.order import Order
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import ScriptedChatModel
from agent_factory.tools.touches import CallTouches, Touches, touches_of
from agent_factory.types import AgentState, NodePolicy
from tables import each
from waiting import cancel

THREAD: Any = {"configurable": {"thread_id": "1"}}
KEYS = ("a", "b", "log")
State = Annotated[dict[str, Any], InjectedState]
Id = Annotated[str, InjectedToolCallId]


class Total(BaseModel):
    """The answer."""

    sum: int


class Notes(AgentState):
    """Two keys of one value, and one with a reducer."""

    a: str
    b: str
    log: Annotated[list[str], operator.add]


def extend(values: list[str], new: list[str]) -> list[str]:
    values.extend(new)
    return values


class Lines(AgentState):
    """A key whose reducer changes its value in place."""

    lines: Annotated[list[str], extend]


class Desk:
    """A tool of which each call reads and writes some keys, and the order of begins and ends."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.failing: set[str] = set()
        self._lock = threading.Lock()

    def note(self, event: str, name: str) -> None:
        with self._lock:
            self.events.append((event, name))

    def work(self, name: str, reads: list[str], writes: list[str], state: Any, id: str) -> Any:
        self.note("begin", name)
        if name in self.failing:
            self.failing.remove(name)
            self.note("end", name)
            raise RuntimeError(name)
        seen = "".join(str(state.get(key, "")) for key in reads)
        update: dict[str, Any] = dict.fromkeys(writes, f"{name}({seen})")
        if "log" in update:
            update["log"] = [update["log"]]
        self.note("end", name)
        return Command(update={**update, "messages": [ToolMessage(name, tool_call_id=id)]})

    def tools(self) -> list[Any]:
        """Return the tool for sync and async runs, and one that asks before it works."""

        def names(part: str) -> Callable[[Any], list[str]]:
            return lambda args: [f"state:{key}" for key in args[part]]

        @tool
        def work(name: str, reads: list[str], writes: list[str], state: State, id: Id) -> Any:
            """Work."""
            return self.work(name, reads, writes, state, id)

        @tool
        def ask(name: str, reads: list[str], writes: list[str], state: State, id: Id) -> Any:
            """Ask, and work."""
            interrupt(name)
            return self.work(name, reads, writes, state, id)

        return [touches(reads=names("reads"), writes=names("writes"))(t) for t in (work, ask)]


def desk_agent(desk: Desk, calls: list[dict[str, Any]], **options: Any) -> Any:
    return agent_of([calls, "Done."], tools=desk.tools(), state_schema=Notes, **options)


def start() -> Any:
    return {"messages": [("user", "Go.")], "a": "", "b": "", "log": []}


def left(result: Any) -> tuple[Any, ...]:
    texts = [m.content for m in result["messages"]]
    return (*(result[key] for key in KEYS), texts)


def one_by_one(turn: list[Any]) -> tuple[Any, ...]:
    """Return what the calls of a turn leave if they run one after the other, without an agent."""
    state: dict[str, Any] = {"a": "", "b": "", "log": []}
    names = [f"t{number}" for number in range(len(turn))]
    for name, (reads, writes, _) in zip(names, turn, strict=True):
        value = f"{name}({''.join(str(state[key]) for key in sorted(reads))})"
        for key in writes:
            state[key] = [*state[key], value] if key == "log" else value
    return (*(state[key] for key in KEYS), ["Go.", "", *names, "Done."])


MESSAGE: Any = {"messages": [("user", "Go.")]}


def call(name: str, reads: Any = (), writes: Any = (), tool: str = "work") -> dict[str, Any]:
    return {"name": tool, "args": {"name": name, "reads": [*reads], "writes": [*writes]}}


def run(agent: Any, value: Any, *, asynchronous: bool) -> Any:
    if asynchronous:
        return asyncio.run(agent.ainvoke(value, THREAD))
    return agent.invoke(value, THREAD)


TURNS = st.lists(
    st.tuples(st.sets(st.sampled_from(KEYS)), st.sets(st.sampled_from(KEYS)), st.booleans()),
    min_size=3,
    max_size=6,
)


def calls_of(turn: list[Any], *, asks: bool = False) -> list[dict[str, Any]]:
    return [
        call(f"t{n}", sorted(reads), sorted(writes), "ask" if asks and waits else "work")
        for n, (reads, writes, waits) in enumerate(turn)
    ]


def meet(first: Any, second: Any) -> bool:
    return bool(first[1] & (second[0] | second[1]) or first[0] & second[1])


def check_turn(turn: list[Any], options: dict[str, Any], *, asynchronous: bool) -> None:
    desk = Desk()
    result = run(desk_agent(desk, calls_of(turn), **options), start(), asynchronous=asynchronous)
    assert left(result) == one_by_one(turn)
    place = {event: index for index, event in enumerate(desk.events)}
    for (earlier, first), (later, second) in combinations(enumerate(turn), 2):
        if meet(first, second):
            assert place["end", f"t{earlier}"] < place["begin", f"t{later}"]


@pytest.mark.long
@given(TURNS, st.booleans(), st.booleans(), st.booleans())
def test_a_turn_leaves_the_state_of_the_sequential_run(
    turn: list[Any], stored: bool, fused: bool, asynchronous: bool
) -> None:
    options = {"checkpointer": InMemorySaver() if stored else None, "fused": fused}
    check_turn(turn, options, asynchronous=asynchronous)


@pytest.mark.long
@given(TURNS, st.booleans(), st.booleans())
def test_calls_that_wait_for_answers_leave_the_same_state_and_none_works_twice(
    turn: list[Any], fused: bool, asynchronous: bool
) -> None:
    desk = Desk()
    agent = desk_agent(desk, calls_of(turn, asks=True), checkpointer=InMemorySaver(), fused=fused)
    result = run(agent, start(), asynchronous=asynchronous)
    while pauses := result.get("__interrupt__"):
        answers = {pause.id: "yes" for pause in pauses}
        result = run(agent, Command(resume=answers), asynchronous=asynchronous)
    assert left(result) == one_by_one(turn)
    names = [f"t{number}" for number in range(len(turn))]
    assert sorted(desk.events) == [(event, name) for event in ("begin", "end") for name in names]


@pytest.mark.long
@given(TURNS, st.data(), st.booleans())
def test_a_failure_repeats_no_call_that_has_finished(
    turn: list[Any], data: Any, fused: bool
) -> None:
    # Where no calls meet, LangGraph may lose the result of a task that ends after another failed.
    assume(any(meet(*pair) for pair in combinations(turn, 2)))
    desk = Desk()
    agent = desk_agent(desk, calls_of(turn), checkpointer=InMemorySaver(), fused=fused)
    failing = f"t{data.draw(st.integers(0, len(turn) - 1))}"
    desk.failing.add(failing)
    with pytest.raises(RuntimeError, match=failing):
        agent.invoke(start(), THREAD)
    assert left(agent.invoke(None, THREAD)) == one_by_one(turn)
    begins = [name for event, name in desk.events if event == "begin"]
    assert begins.count(failing) == 2
    assert len(begins) == len(turn) + 1


@pytest.mark.parametrize("stored", [False, True])
async def test_a_call_begins_when_those_that_it_waits_for_have_ended(stored: bool) -> None:
    # In each step, all calls that run end together: the steps are as many as the longest chain.
    began: list[str] = []
    gate = asyncio.Event()

    @touches(reads="{touched}", writes="{touched}")
    @tool
    async def step(name: str, touched: str) -> str:
        """Take a step."""
        began.append(name)
        await gate.wait()
        return name

    names = {"x": "1", "y": "1", "z": "2", "r": "3", "s": "2"}
    calls = [{"name": "step", "args": {"name": n, "touched": t}} for n, t in names.items()]
    saver = InMemorySaver() if stored else None
    agent = create_agent(ScriptedChatModel([calls, "Done."]), [step], checkpointer=saver)
    task = asyncio.create_task(agent.ainvoke(MESSAGE, THREAD))
    steps = []
    while not task.done():
        for _ in range(200):  # until nothing more can begin
            await asyncio.sleep(0)
        if began:
            steps.append(sorted(began))
        began.clear()
        gate.set()
        gate = asyncio.Event()
    assert steps == [["r", "x", "z"], ["s", "y"]]
    await task


@pytest.mark.parametrize("asynchronous", [False, True])
@each("stored", [False, True])
def test_a_chain_goes_on_while_a_call_of_another_one_runs(stored: bool, asynchronous: bool) -> None:
    barrier = threading.Barrier(2, timeout=60)  # the second call of one chain, the first of another

    @touches(writes="file:{path}")
    def write(path: str, meets: bool) -> str:
        "Write."
        if meets:
            barrier.wait()
        return path

    args = [("a", False), ("b", True), ("a", True), ("b", False)]
    calls = [{"name": "write", "args": {"path": path, "meets": meets}} for path, meets in args]
    saver = InMemorySaver() if stored else None
    agent = create_agent(ScriptedChatModel([calls, "Done."]), [write], checkpointer=saver)
    result = run(agent, MESSAGE, asynchronous=asynchronous)
    assert [m.content for m in result["messages"][2:]] == ["a", "b", "a", "b", "Done."]


async def test_the_limit_of_a_run_holds_for_the_calls_of_a_turn() -> None:
    running, most = 0, 0

    @touches(writes="{touched}")
    @tool
    async def step(touched: str) -> str:
        """Take a step."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return touched

    calls = [{"name": "step", "args": {"touched": t}} for t in "abcda"]
    agent = create_agent(ScriptedChatModel([calls, "Done."]), [step])
    await agent.ainvoke(MESSAGE, {"max_concurrency": 2})
    assert most == 2


def look(text: str, state: State) -> str:
    """Say which results the call sees."""
    results = [m.content for m in state["messages"] if isinstance(m, ToolMessage)]
    return f"{text} after {len(results)}"


@pytest.mark.parametrize("stored", [False, True])
def test_sequential_calls_wait_for_each_other_and_the_plan_and_the_log_say_so(stored: bool) -> None:
    calls = [{"name": "look", "args": {"text": text}} for text in "abc"]
    log = DecisionList()
    agent = create_agent(
        ScriptedChatModel([calls, "Done."]),
        [look],
        sequential_tool_calls=True,
        checkpointer=InMemorySaver() if stored else None,
        decisions=log,
    )
    results = agent.invoke(MESSAGE, THREAD)["messages"][2:5]
    assert [m.content for m in results] == ["a after 0", "b after 1", "c after 2"]
    (edge,) = [e for e in topology_of(agent).transitions if e.target == "tools"]
    reasons = [str(decision.reason) for decision in log][:1]
    assert reasons == edge.notes == ["pending calls, one after the other"]


@each(
    "first, second, meets",
    [
        ("file:a", "file:a", True),
        ("file:a", "file:b", False),
        ("file:docs/*", "file:docs/a", True),
        ("file:docs/*", "file:src/a", False),
        ("file:docs/*", "file:docs/a*", True),
        ("file:docs/*", "file:src/*", False),
        ("file:*.py", "file:docs/a", True),
        ("*", "state:a", True),
    ],
)
def test_names_meet_if_they_are_equal_or_by_their_beginning(
    first: str, second: str, meets: bool
) -> None:
    writer, reader = CallTouches(writes=(first,)), CallTouches(reads=(second,))
    assert writer.meets(reader) is meets
    assert reader.meets(writer) is meets
    assert not CallTouches(reads=(first,)).meets(CallTouches(reads=(second,)))


def test_a_call_without_the_argument_meets_all_that_touch_something() -> None:
    order = Order(
        {
            "write": Touches(writes=("file:{path}",)),
            "fail": Touches(reads=lambda args: args["missing"]),
        }
    )
    names = [("write", {"path": "a"}), ("write", {}), ("free", {}), ("fail", {}), ("write", "{")]
    waits = order.waits([{"name": name, "args": args} for name, args in names])
    assert [sorted(numbers) for numbers in waits] == [[], [0], [], [0, 1], []]


@each("path", ["a", "./a", "b/../a", ".//a"])
def test_all_spellings_of_the_path_of_a_file_are_one_name(path: str) -> None:
    for names in ("file:{path}", lambda args: f"file:{args['path']}"):
        declaration = touches_of(touches(writes=names)(lambda path: path))
        assert declaration is not None
        assert declaration.of({"path": path}).writes == ("file:a",)
        assert declaration.of({"path": "//a"}).writes == ("file:/a",)
    assert Touches(reads=("row:{path}",)).of({"path": path}).reads == (f"row:{path}",)


def test_a_tool_is_copied_with_what_it_touches() -> None:
    @tool
    def write(path: str) -> str:
        """Write."""
        return path

    copy = touches(writes=["file:{path}", "state:a"])(write)
    assert touches_of(write) is None
    assert touches_of(copy) == Touches(writes=("file:{path}", "state:a"))


def test_a_name_with_an_unknown_parameter_is_refused() -> None:
    @touches(writes="file:{pth}")
    def write(path: str) -> str:
        "Write."
        return path

    with pytest.raises(SpecError, match=r"\{pth\}, and the tool has no such parameter"):
        plan_agent(tools=[write])


def test_what_is_not_a_name_a_tool_or_a_flag_is_refused() -> None:
    no_names: Any = (3, "", ["a", 1], {"a": "b"})
    for names in no_names:
        with pytest.raises(ArgumentError, match="must be names or a function of the arguments"):
            touches(writes=names)
    with pytest.raises(ArgumentError, match="must decorate a function or a BaseTool"):
        touches(writes="a")(str)
    no_flags: Any = (None, 1, "yes")
    for flag in no_flags:
        with pytest.raises(ArgumentError, match="sequential_tool_calls: must be True or False"):
            plan_agent(sequential_tool_calls=flag)


def edit(path: str) -> str:
    """Edit."""
    return f"edited {path}"


def test_the_plan_shows_what_tools_touch_and_files_keep_it() -> None:
    before = plan_agent(tools=[edit])
    plan = plan_agent(tools=[touches(reads="file:*", writes="file:{path}")(edit)])
    notes = "reads file:*, writes file:{path}"
    assert "tool: edit  [reads file:*; writes file:{path}]" in plan.render()
    assert load_topology(plan.to_json()) == plan
    assert [str(c.detail) for c in before.diff(plan).changes] == [f"was plain, now {notes}"]
    assert plan.digest != before.digest
    assert '"reads"' not in before.to_json()


def test_the_plan_shows_that_calls_are_sequential_and_files_keep_it() -> None:
    before = plan_agent(tools=[edit], sequential_tool_calls=False)
    plan = plan_agent(tools=[edit], sequential_tool_calls=True)
    assert "model -> tools  [pending calls, one after the other]" in plan.render()
    assert "each call waits for those before it" in plan.explain("model", "tools")
    assert load_topology(plan.to_json()) == plan
    assert [str(change) for change in before.diff(plan).changes] == [
        "changed edge model -> tools: was [pending calls], now [pending calls, one after the other]"
    ]
    assert plan.digest != before.digest
    assert "sequential" not in before.to_json()
    assert plan_agent(sequential_tool_calls=True) == plan_agent()


@each("within", [False, True])
def test_an_agent_inside_of_a_sequential_turn_goes_on_where_it_paused(within: bool) -> None:
    """Also a graph that another library built."""
    done: list[str] = []

    def pay(text: str) -> str:
        "Pay."
        done.append(text)
        return text

    def confirm(text: str) -> str:
        "Confirm."
        interrupt(text)
        return text

    steps = [[{"name": n, "args": {"text": "inside"}}] for n in ("pay", "confirm")]
    clerk: Any = create_agent(ScriptedChatModel([*steps, "Paid."]), [pay, confirm])
    if within:
        clerk = StateGraph(MessagesState).add_node("own", clerk).add_edge(START, "own").compile()
    before, after = ({"name": "pay", "args": {"text": text}} for text in ("before", "after"))
    calls = [before, {"name": "clerk", "args": {"request": "1"}}, after]
    tools: list[Any] = [pay, agent_tool(clerk, name="clerk", description="Pays.")]
    model, saver = ScriptedChatModel([calls, "Done."]), InMemorySaver()
    agent = create_agent(model, tools, sequential_tool_calls=True, checkpointer=saver)
    agent.invoke(MESSAGE, THREAD)
    assert done == ["before", "inside"]
    agent.invoke(Command(resume="yes"), THREAD)
    assert done == ["before", "inside", "after"]


@pytest.mark.parametrize("fused", [True, False])
@each("asks", [False, True])
@each("by_command", [False, True])
def test_a_call_that_ends_the_run_ends_it_after_all_calls_that_meet(
    by_command: bool, asks: bool, fused: bool
) -> None:
    ran: list[str] = []

    @touches(writes="file:a")
    @tool(return_direct=not by_command)
    def write(text: str, id: Id) -> Any:
        """Write."""
        if asks and text != "x":
            interrupt(text)
        ran.append(text)
        if by_command and text == "x":
            return Command(goto=END, update={"messages": [ToolMessage(text, tool_call_id=id)]})
        return text

    calls = [{"name": "write", "args": {"text": text}} for text in "xyz"]
    model, saver = ScriptedChatModel([calls, "Never asked."]), InMemorySaver()
    agent = create_agent(model, [write], checkpointer=saver, fused=fused)
    result = agent.invoke(MESSAGE, THREAD)
    while "__interrupt__" in result:
        result = agent.invoke(Command(resume=1), THREAD)
    assert ran == ["x", "y", "z"]
    assert [m.content for m in result["messages"][2:]] == ["x", "y", "z"]


def test_a_result_that_waits_for_the_calls_before_it_is_stored_as_its_guard_lets_it() -> None:
    saver = InMemorySaver()

    @touches(writes="file:{path}")
    @tool
    def fetch(path: str, id: Id) -> Any:
        """Fetch."""
        if path == "asks":
            interrupt(path)
        message = HumanMessage("Write to ann@example.com.")
        return Command(update={"messages": [ToolMessage(path, tool_call_id=id), message]})

    calls = [{"name": "fetch", "args": {"path": p}} for p in ("asks", "b", "b")]
    agent = agent_of([calls, "Done."], PIIMiddleware("email"), tools=[fetch], checkpointer=saver)
    agent.invoke(MESSAGE, THREAD)
    assert "ann@example.com" not in str([*saver.list(THREAD)])
    texts = [m.content for m in agent.invoke(Command(resume=1), THREAD)["messages"][2:-1]]
    assert texts == ["asks", "b", "b", *["Write to [REDACTED_EMAIL]."] * 3]


def test_a_call_with_invalid_arguments_keeps_its_place_in_a_turn() -> None:
    @touches(writes="file:{path}")
    def fetch(path: str) -> str:
        "Fetch."
        return path

    calls = [{"name": "fetch", "args": {"path": "a"}, "id": id} for id in "12"]
    message = AIMessage(
        "",
        tool_calls=calls,
        invalid_tool_calls=[{"name": "fetch", "args": "{", "id": "3", "error": None}],
    )
    result = create_agent(ScriptedChatModel([message, "Done."]), [fetch]).invoke(MESSAGE)
    assert [(m.tool_call_id, m.status) for m in result["messages"][2:5]] == [
        ("1", "success"),
        ("2", "success"),
        ("3", "error"),
    ]


@pytest.mark.parametrize("fused", [False, True])
def test_a_structured_answer_next_to_calls_that_meet_ends_the_run_after_them(fused: bool) -> None:
    @touches(writes="state:a")
    @tool
    def write(text: str, state: State, id: Id) -> Any:
        """Write."""
        message = ToolMessage(text, tool_call_id=id)
        return Command(update={"a": state.get("a", "") + text, "messages": [message]})

    calls = [{"name": "write", "args": {"text": text}} for text in "xy"]
    calls.append({"name": "Total", "args": {"sum": 3}})
    agent = create_agent(
        ScriptedChatModel([calls, "Done."]),
        [write],
        response_format=ToolStrategy(Total),
        state_schema=Notes,
        fused=fused,
    )
    result = agent.invoke(start())
    assert (result["a"], result["structured_response"]) == ("xy", Total(sum=3))


@each("fused", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_error_of_a_tool_ends_the_run_before_the_calls_that_meet_it_unless_the_model_gets_it(
    asynchronous: bool, fused: bool
) -> None:
    desk = Desk()
    desk.failing.add("t1")
    calls = [call(f"t{n}", writes=["a"]) for n in range(3)]
    with pytest.raises(RuntimeError, match="t1"):
        run(desk_agent(desk, calls, fused=fused), start(), asynchronous=asynchronous)
    assert desk.events == [(event, f"t{n}") for n in (0, 1) for event in ("begin", "end")]
    desk.failing.add("t1")
    agent = desk_agent(desk, calls, handle_tool_errors=True, fused=fused)
    result = run(agent, start(), asynchronous=asynchronous)
    assert [m.status for m in result["messages"][2:5]] == ["success", "error", "success"]
    assert result["a"] == "t2()"


@each("stored", [False, True])
@each("fused", [False, True])
def test_a_retry_runs_a_call_again_that_waited_for_another_one(stored: bool, fused: bool) -> None:
    begun: list[str] = []

    @touches(writes="page")
    def send(page: str) -> str:
        """Send a page over a line that is down at first."""
        begun.append(page)
        if begun.count("b") in (1, 2):
            raise ConnectionError("down")
        return f"sent {page}"

    calls = [{"name": "send", "args": {"page": page}} for page in "ab"]
    agent: Any = create_agent(
        ScriptedChatModel([calls, "Done."]),
        [send],
        node_policies={"tools": NodePolicy(retry_policy=RetryPolicy(initial_interval=0.001))},
        checkpointer=InMemorySaver() if stored else None,
        fused=fused,
    )
    messages = agent.invoke({"messages": "Send them."}, THREAD)["messages"]
    assert [message.text for message in messages[2:]] == ["sent a", "sent b", "Done."]
    assert begun == ["a", "b", "b", "b"]


async def test_a_cancelled_run_cancels_the_calls_of_a_turn() -> None:
    began, cancelled = asyncio.Event(), list[str]()

    @touches(writes="file:{path}")
    async def work(path: str) -> str:
        "Work."
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(path)
            raise
        return path

    calls = [{"name": "work", "args": {"path": path}} for path in "aab"]
    agent = create_agent(ScriptedChatModel([calls, "Done."]), [work])
    task = asyncio.create_task(agent.ainvoke(MESSAGE))
    await began.wait()
    await asyncio.sleep(0)
    await cancel(task)
    assert sorted(cancelled) == ["a", "b"]


@pytest.mark.parametrize("stored", [False, True])
def test_a_reducer_that_changes_its_value_in_place_adds_each_write_once(stored: bool) -> None:
    @touches(writes="state:lines")
    @tool
    def write(text: str, state: State, id: Id) -> Any:
        """Write."""
        line = f"{len(state['lines'])} {text}"
        return Command(update={"lines": [line], "messages": [ToolMessage(text, tool_call_id=id)]})

    calls = [{"name": "write", "args": {"text": text}} for text in "xyz"]
    saver = InMemorySaver() if stored else None
    # Hook by hook, LangGraph itself calls a reducer twice: an edge tries the writes first.
    agent: Any = agent_of([calls, "Done."], tools=[write], state_schema=Lines, checkpointer=saver)
    result = agent.invoke({**MESSAGE, "lines": ["first"]}, THREAD)
    assert result["lines"] == ["first", "1 x", "2 y", "3 z"]


@pytest.mark.parametrize("fused", [False, True])
def test_stopping_points_say_which_calls_an_agent_without_touches_does_not_run(fused: bool) -> None:
    ran: list[str] = []

    def work(name: str) -> str:
        "Work."
        if name == "x":
            interrupt(name)
        ran.append(name)
        return name

    def agent_with(tool: Any) -> Any:
        return create_agent(model, [tool], checkpointer=saver, fused=fused)

    calls = [{"name": "work", "args": {"name": n}} for n in "xy"]
    model, saver = ScriptedChatModel([calls, "Done."]), InMemorySaver()
    old = agent_with(work)
    new = agent_with(touches(writes="file:a")(tool(work)))
    (point,) = [p for p in topology_of(new).stopping_points(topology_of(old)) if p.part == "tool"]
    new.invoke(MESSAGE, THREAD)
    result = old.invoke(Command(resume=1), THREAD)
    assert "gets an error that the model reads" in point.effect
    assert point.verdict == "breaks"
    assert ran == ["x"]
    assert [m.status for m in result["messages"][2:4]] == ["success", "error"]
