"""Random runs inside layers: what a layer has opened is closed, once, the innermost first.

A run is a start and what follows its pauses. At any place it may fail, be interrupted, reach the
recursion limit, be cancelled, be drained, or lose its reader; then it goes on in another agent.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections import Counter, defaultdict
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.runtime import RunControl
from langgraph.types import Command, interrupt
from stack_agents import agent_of

from agent_factory import AgentMiddleware, RunPaused, Sleep, Task, agent_tool, create_agent
from samples import THREAD, OwnModel

pytestmark = [
    pytest.mark.timeout(1800),  # of a failure, hypothesis finds the smallest case first
    pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning"),
    pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning"),
]

Trouble = Literal[
    "none", "fails", "asks", "is stopped", "is cancelled", "reads no more", "has a limit",
    "pauses before", "pauses after", "drains",
]  # fmt: skip
TROUBLES: tuple[Trouble, ...] = get_args(Trouble)


# Proofs have 2,000 examples.
FEW = 30 if settings.get_current_profile_name() == "test" else settings().max_examples


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers fail while they are closed, and that is logged."""
    monkeypatch.setattr(logging.getLogger("agent_factory"), "disabled", True)


class Stopped(BaseException):
    """Stands for a KeyboardInterrupt."""


@dataclass(frozen=True)
class Segment:
    """One call of the agent, and what happens in it.

    Args:
        trouble: What happens.
        at: At which place, after how many events, or the limit.
        form: How the agent is called.
        is_new: Whether the user says something new, where the thread could also go on.
        asynchronous: Whether it is an async run.
        durability: When it stores checkpoints.
    """

    trouble: Trouble
    at: int
    form: str
    is_new: bool
    asynchronous: bool
    durability: Literal["sync", "async", "exit"] = "async"


@dataclass(frozen=True)
class Habits:
    """What a layer does.

    Args:
        task: It takes a reservation, once in a run, and gives it back at the end of the run.
        handles: It turns an error of the run into a message.
        writes: It writes a message at the end.
        waits: It sleeps, and calls a runnable, while it opens and closes.
        fails: Where it raises itself: before the run, after it, or while it is closed.
        skips: It ends the run without making it.
        swallows: It tries to go on where it is paused, cancelled or closed.
    """

    task: bool = False
    handles: bool = False
    writes: bool = False
    waits: bool = False
    fails: Literal["", "before", "after", "closing"] = ""
    skips: bool = False
    swallows: bool = False


@dataclass
class World:
    """What happens around the runs, and what has been seen of it."""

    trouble: Trouble = "none"
    at: int = 0
    reached: int = 0
    resumes: bool | None = False  # what `resumed` has to be; None if it does not matter
    control: RunControl | None = None
    task: asyncio.Task[Any] | None = None
    open: list[str] = field(default_factory=list)
    opened: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)
    saw: dict[str, str] = field(default_factory=dict)
    held: Counter[str] = field(default_factory=Counter)  # reservations, by layer
    taken: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __deepcopy__(self, memo: Any) -> World:
        return self

    def expect(self, holds: bool, what: str) -> None:
        """Note what is wrong: an assertion inside a flow would be an error of the run."""
        if not holds:
            self.wrong.append(what)

    def reach(self) -> None:
        """Go on, or end the run here."""
        self.reached += 1
        if self.reached != self.at:
            return
        if self.trouble == "fails":
            raise ValueError("something broke")
        if self.trouble == "asks":
            interrupt("may I?")
        if self.trouble == "is stopped":
            raise Stopped
        if self.trouble == "drains" and self.control:
            self.control.request_drain()

    async def areach(self) -> None:
        """Go on, or end an async run here."""
        await asyncio.sleep(0)
        self.reach()
        if self.reached == self.at and self.trouble == "is cancelled" and self.task:
            self.task.cancel()
            await asyncio.Event().wait()  # the cancellation


class Layer(AgentMiddleware[Any, Any]):
    """A layer that opens something around each run."""

    def __init__(self, name: str, habits: Habits, world: World) -> None:
        super().__init__(name=name)
        self.habits, self.world = habits, world

    def around_agent(self, state: Any, resumed: bool, runtime: Any) -> Any:
        world, habits, name = self.world, self.habits, self.name
        world.expect(world.resumes in (None, resumed), f"{name}: resumed is {resumed}")
        if habits.task:
            yield Task("take", self.take)
        world.open.append(name)
        world.opened[name] += 1
        try:
            if habits.waits:
                yield Sleep(0)
            if habits.fails == "before":
                raise KeyError("own")
            if habits.skips:
                return {"messages": [("ai", "not today")]}
            result = yield state
            world.saw[name] = "end"
            world.expect("messages" in result, f"{name}: no messages in {result}")
            if habits.fails == "after":
                raise KeyError("own")
            return {"messages": [("ai", f"that was {name}")]} if habits.writes else result
        except RunPaused as pause:
            world.saw[name] = "pause"
            world.expect((world.trouble == "asks") == bool(pause.interrupts), f"{name}: {pause!r}")
            if habits.swallows:
                return {"messages": [("ai", "never mind")]}
            raise
        except Exception as error:
            world.saw[name] = f"error {type(error).__name__}"
            if habits.handles:
                return {"messages": [("ai", f"sorry, {error}")]}
            raise
        except BaseException as signal:
            world.saw[name] = f"signal {type(signal).__name__}"
            if habits.swallows:
                return {"messages": [("ai", "never mind")]}
            raise
        finally:
            if habits.waits:
                yield Sleep(0)
            if habits.task and world.saw.get(name) != "pause":
                yield Task("give back", self.give_back)
            world.expect(world.open[-1:] == [name], f"{name} is closed inside out: {world.open}")
            world.open.pop()
            world.closed[name] += 1
            if habits.fails == "closing":
                raise KeyError("own")

    def take(self) -> str:
        self.world.held[self.name] += 1
        self.world.taken[self.name] += 1
        return self.name

    def give_back(self) -> None:
        self.world.held[self.name] -= 1


class Steady(OwnModel):
    """Calls a tool some times in a run, then answers. What it does depends on the state alone."""

    calls: int
    tool: str = "work"

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        done = 0
        for message in reversed(messages):
            if message.type == "human":
                break
            done += message.type == "tool"
        args = {"request": "go"} if self.tool == "clerk" else {"text": "go"}
        made = [{"name": self.tool, "args": args, "id": f"call-{len(messages)}"}]
        answer = AIMessage("", tool_calls=made) if done < self.calls else AIMessage("Done.")
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Hooks(AgentMiddleware[Any, Any]):
    """Hooks at which something may happen."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def before_model(self, state: Any, runtime: Any) -> None:
        self.world.reach()

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        await self.world.areach()

    def after_agent(self, state: Any, runtime: Any) -> None:
        self.world.reach()

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        await self.world.areach()


class Thread:
    """An agent inside layers, with what its thread has stored. Each call has its own agent.

    Args:
        layers: The habits of its layers, the outermost first.
        calls: How many tools the model calls, one after the other.
        fused: How its hooks share steps.
        nested: Whether another agent calls it as a tool.
        stored: Whether its thread is stored.
    """

    def __init__(
        self, layers: list[Habits], calls: int, fused: Any, nested: bool, stored: bool
    ) -> None:
        self.layers, self.calls, self.fused = layers, calls, fused
        self.nested, self.world = nested, World()
        self.saver = InMemorySaver() if stored else None

    def agent(self) -> Any:
        """Build the agent, and the one around it, on what is stored."""
        world = self.world
        world.reached = 0

        def work(text: str) -> str:
            world.reach()
            return text.upper()

        async def awork(text: str) -> str:
            await world.areach()
            return text.upper()

        tool = StructuredTool.from_function(work, awork, name="work", description="Work.")
        saver = None
        if self.saver is not None:
            saver = InMemorySaver()
            for name in ("storage", "writes", "blobs"):
                data = pickle.loads(pickle.dumps(_plain(getattr(self.saver, name))))
                getattr(saver, name).update(data)
            for name in saver.storage:
                spaces: Any = defaultdict(dict)
                spaces.update(saver.storage[name])
                saver.storage[name] = spaces
            self.saver = saver
        stack: list[Any] = [
            Layer(f"L{number}", habits, world) for number, habits in enumerate(self.layers)
        ]
        middleware = [*stack, Hooks(world)]
        model = Steady(calls=self.calls)
        if not self.nested:
            return agent_of(model, *middleware, tools=[tool], checkpointer=saver, fused=self.fused)
        inner = create_agent(model, [tool], middleware=middleware, fused=self.fused, name="clerk")
        clerk = agent_tool(inner, description="Does it.")
        return create_agent(
            Steady(calls=1, tool="clerk"), [clerk], checkpointer=saver, fused=self.fused
        )

    def run(self, segment: Segment) -> None:
        """Call the agent once, and check what its layers have seen."""
        agent, world = self.agent(), self.world
        tasks = () if self.saver is None else agent.get_state(THREAD).tasks
        went_on = "pause" in world.saw.values()
        goes_on = bool(tasks) and not segment.is_new
        if not (goes_on and went_on):
            world.held.clear()  # a paused run that is never resumed keeps what it has taken
            world.taken.clear()
        input: Any = {"messages": [("user", "Go.")]}
        if goes_on:
            asked = [i.id for task in tasks for i in task.interrupts]
            input = Command(resume=dict.fromkeys(asked, "yes")) if asked else None
        world.resumes = None if self.nested else goes_on
        world.trouble, world.at, world.control = segment.trouble, segment.at, RunControl()
        world.saw.clear()
        if any(habits.skips or habits.fails == "before" for habits in self.layers):
            # langchain-core reads one part only of a stream in which no run has begun.
            segment = replace(segment, form=segment.form.replace("events", "values"))
        outcome = call(agent, segment, input, world)
        event(f"{segment.trouble}: {'nothing' if outcome is None else type(outcome).__name__}")
        self.check(segment, outcome)

    def check(self, segment: Segment, outcome: BaseException | None) -> None:
        """Check that everything was closed, and that what was taken is held only in a pause."""
        world = self.world
        assert not world.wrong, world.wrong
        assert not world.open, f"still open: {world.open}"
        assert world.opened == world.closed
        assert all(times <= 1 for times in world.taken.values()), world.taken
        paused = [name for name, saw in world.saw.items() if saw == "pause"]
        for number, habits in enumerate(self.layers):
            name = f"L{number}"
            held = int(habits.task and name in paused)
            assert world.held[name] == held, f"{name} holds {world.held[name]}: {world.saw}"
        if self.saver is None:
            return
        # A pause that a layer has seen is one of the thread, and cannot be suppressed.
        tasks = self.agent().get_state(THREAD).tasks
        assert tasks or not paused, (world.saw, outcome)
        if not self.nested and outcome is None and segment.trouble != "reads no more":
            assert paused or not tasks, (world.saw, tasks)


def call(agent: Any, segment: Segment, input: Any, world: World) -> BaseException | None:
    """Call an agent in the form of a segment; return what it raises."""
    config = dict(THREAD)
    options: dict[str, Any] = {"control": world.control}
    if agent.checkpointer:
        options["durability"] = segment.durability
    if segment.trouble == "has a limit":
        config["recursion_limit"] = segment.at
    if segment.trouble in ("pauses before", "pauses after"):
        options[segment.trouble.replace("pauses", "interrupt").replace(" ", "_")] = ["model"]
    count = segment.at if segment.trouble == "reads no more" else None
    try:
        if segment.asynchronous:
            asyncio.run(_acall(agent, segment, input, config, options, count, world))
        else:
            _call(agent, segment, input, config, options, count)
    except BaseException as error:
        allowed = (
            ValueError, KeyError, Stopped, GraphRecursionError, GraphDrained,
            asyncio.CancelledError,
        )  # fmt: skip
        if not isinstance(error, allowed):
            raise
        return error
    return None


MODES: dict[str, dict[str, Any]] = {
    "values": {"stream_mode": "values"},
    "updates": {"stream_mode": "updates"},
    "messages": {"stream_mode": "messages"},
    "several": {"stream_mode": ["updates", "custom", "values"], "version": "v2"},
    "subgraphs": {"stream_mode": ["updates"], "subgraphs": True},
    "debug": {"stream_mode": "debug"},
}
FORMS = ("invoke", "events", *MODES)


def _call(
    agent: Any, segment: Segment, input: Any, config: Any, options: Any, count: int | None
) -> None:
    if segment.form == "invoke" and count is None:
        agent.invoke(input, config, **options)
        return
    if segment.form == "events" and count is None:
        # It raises at once what it meets.
        agent.stream_events(input, config, version="v3", **options).output  # noqa: B018
        return
    mode = MODES.get(segment.form, {})
    with closing(agent.stream(input, config, **mode, **options)) as parts:
        for number, _ in enumerate(parts, 1):
            if number == count:
                return


async def _acall(
    agent: Any,
    segment: Segment,
    input: Any,
    config: Any,
    options: Any,
    count: int | None,
    world: World,
) -> None:
    world.task = asyncio.current_task()
    if segment.form == "invoke" and count is None:
        await agent.ainvoke(input, config, **options)
        return
    mode = MODES.get(segment.form, {})
    stream = agent.astream(input, config, **mode, **options)
    if segment.form == "events":
        stream = agent.astream_events(input, config, version="v2", **options)
    async with aclosing(stream) as parts:
        number = 0
        async for _ in parts:
            number += 1
            if number == count:
                return


def _plain(data: Any) -> Any:
    return {k: _plain(v) for k, v in data.items()} if isinstance(data, dict) else data


habits = st.builds(
    Habits,
    task=st.booleans(),
    handles=st.booleans(),
    writes=st.booleans(),
    waits=st.booleans(),
    fails=st.sampled_from([*[""] * 12, "before", "after", "closing"]),
    skips=st.sampled_from([*[False] * 12, True]),
    swallows=st.booleans(),
)
segments = st.builds(
    Segment,
    trouble=st.sampled_from(TROUBLES),
    at=st.integers(1, 6),
    form=st.sampled_from(FORMS),
    is_new=st.sampled_from([False, False, True]),
    asynchronous=st.booleans(),
    durability=st.sampled_from(["sync", "async", "exit"]),
)


@pytest.mark.long
@settings(settings.get_profile("costly"), max_examples=FEW)
@given(
    layers=st.lists(habits, min_size=1, max_size=3),
    calls=st.integers(0, 2),
    fused=st.sampled_from([True, "turn", False]),
    nested=st.sampled_from([False, False, True]),
    stored=st.sampled_from([True, True, True, False]),
    runs=st.lists(segments, min_size=1, max_size=4),
)
def test_what_was_opened_was_closed_once_and_never_inside_out(
    layers: list[Habits], calls: int, fused: Any, nested: bool, stored: bool, runs: list[Segment]
) -> None:
    thread = Thread(layers, calls, fused, nested, stored)
    for segment in runs:
        thread.run(segment)
