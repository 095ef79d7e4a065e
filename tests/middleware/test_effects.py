"""Effects are stored once, whatever happens, and are undone from the newest to the oldest."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import stack_agents
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent_factory import AgentMiddleware, ToolRuntime, agent_tool
from agent_factory import middleware as m
from agent_factory.review import pending, reject
from agent_factory.testing import assert_valid_history
from processes import Processes, exit_code, wait_for_line
from samples import THREAD, Killed
from tables import each

TRIP = [
    [{"name": "book_flight", "args": {"to": "Oslo"}}],
    [{"name": "book_hotel", "args": {"city": "Oslo"}}],
    [{"name": "pay", "args": {"euros": 900}}],
    "No trip then.",
]


class Agency:
    """Books and cancels. A booking or cancellation raises what is planned for its tool."""

    def __init__(self, **errors: BaseException) -> None:
        self.log: list[str] = []
        self.errors = errors

    def _do(self, what: str, name: str) -> str:
        self.log.append(what)
        if name in self.errors:
            raise self.errors.pop(name)
        return f"Done: {what}"

    def book_flight(self, to: str) -> str:
        """Book a flight."""
        return self._do(f"fly to {to}", "book_flight")

    def book_hotel(self, city: str) -> str:
        """Book a hotel."""
        return self._do(f"sleep in {city}", "book_hotel")

    def pay(self, euros: int) -> str:
        """Pay."""
        return self._do(f"pay {euros}", "pay")

    def cancel_flight(self, flight: m.Effect) -> None:
        self._do(f"cancel {flight.result.text} [{flight.args['to']}]", "cancel_flight")

    async def cancel_hotel_async(self, hotel: m.Effect) -> None:
        self.cancel_hotel(hotel)

    def cancel_hotel(self, hotel: m.Effect) -> None:
        self._do(f"cancel {hotel.result.text} [{hotel.args['city']}]", "cancel_hotel")


CANCELLED = ["cancel Done: sleep in Oslo [Oslo]", "cancel Done: fly to Oslo [Oslo]"]


def once_of(agency: Agency, policy: Any = "ask", **changes: Any) -> m.OnceMiddleware:
    undo = {"book_flight": agency.cancel_flight, "book_hotel": agency.cancel_hotel}
    options = {"store": m.InMemoryEffects(), "undo": undo, **changes}
    return m.OnceMiddleware({"book_flight": policy, "book_hotel": policy}, **options)


def agent_of(agency: Agency, once: m.OnceMiddleware, script: Any = TRIP, **options: Any) -> Any:
    tools = [agency.book_flight, agency.book_hotel, agency.pay]
    stack = [m.HumanInTheLoopMiddleware({"pay": True}), once]
    options = {"tools": tools, "checkpointer": InMemorySaver(), **options}
    return stack_agents.agent_of(script, *stack, **options)


def go(agent: Any, text: str = "Book a trip") -> None:
    agent.invoke({"messages": text}, THREAD, durability="sync")


@pytest.fixture(params=["sync", "async"])
def undo(request: Any) -> Any:
    """Call undo_effects or aundo_effects with the state of an agent's thread."""

    def undo(once: m.OnceMiddleware, run: Any) -> m.Undone:
        if not isinstance(run, str):
            run = run.get_state(THREAD)
        if request.param == "sync":
            return m.undo_effects(once, run)
        return asyncio.run(m.aundo_effects(once, run))

    return undo


def tools_of(effects: Any) -> list[str]:
    return [effect.tool for effect in effects]


@each("fused", [True, False, "turn"])
def test_effects_are_undone_backwards_once_a_reviewer_rejects(undo: Any, fused: Any) -> None:
    agency = Agency()
    once = once_of(agency)
    agent = agent_of(agency, once, fused=fused)
    go(agent)
    reject(agent, THREAD)
    assert agency.log == ["fly to Oslo", "sleep in Oslo"]  # nothing is undone by itself
    for _ in range(2):
        undone = undo(once, agent)
        assert tools_of(undone.undone) == ["book_hotel", "book_flight"]
        assert (undone.unknown, undone.kept) == ((), ())
        assert agency.log[2:] == CANCELLED


def test_effects_of_earlier_runs_stay(undo: Any) -> None:
    once = once_of(agency := Agency())
    agent = agent_of(agency, once, [TRIP[0], "Booked.", TRIP[1], "Booked."])
    go(agent)
    go(agent, "And a hotel")
    assert tools_of(undo(once, agent).undone) == ["book_hotel"]
    assert agency.log[2:] == CANCELLED[:1]


def test_effects_without_a_compensation_are_kept_and_errors_left_out(undo: Any) -> None:
    agency = Agency(book_flight=ValueError("full"))
    once = once_of(agency, undo={"book_flight": print})
    agent = agent_of(agency, once, handle_tool_errors=True, ignore=["AF207"])
    go(agent)
    undone = undo(once, agent)
    assert (undone.undone, undone.unknown) == ((), ())
    assert tools_of(undone.kept) == ["book_hotel"]


def test_an_effect_of_unknown_outcome_is_reported(undo: Any) -> None:
    agency = Agency(book_hotel=Killed())
    once = once_of(agency)
    agent = agent_of(agency, once)
    with pytest.raises(Killed):
        go(agent)
    undone = undo(once, agent)
    assert tools_of(undone.undone) == ["book_flight"]
    assert tools_of(undone.unknown) == ["book_hotel"]
    assert agency.log[2:] == CANCELLED[1:]


def test_undoing_goes_on_after_a_failure(undo: Any) -> None:
    agency = Agency(cancel_flight=ConnectionError("down"))
    once = once_of(agency)
    agent = agent_of(agency, once)
    go(agent)
    with pytest.raises(ConnectionError):
        undo(once, agent)
    assert tools_of(undo(once, agent).undone) == ["book_hotel", "book_flight"]
    assert agency.log[2:] == [*CANCELLED, CANCELLED[1]]


@each("death", [Killed(), TimeoutError("no answer")])
@each("policy, repeats", [("ask", False), ("fail", False), ("rerun", True)])
def test_a_compensation_of_unknown_outcome_is_repeated_only_with_rerun(
    undo: Any, death: Any, policy: str, repeats: bool
) -> None:
    agency = Agency(cancel_hotel=death)
    once = once_of(agency, policy)
    agent = agent_of(agency, once)
    go(agent)
    with pytest.raises(type(death)):
        undo(once, agent)
    undone = undo(once, agent)
    assert tools_of(undone.unknown) == ([] if repeats else ["book_hotel"])
    assert agency.log.count(CANCELLED[0]) == 1 + repeats
    assert agency.log.count(CANCELLED[1]) == 1


def test_a_call_that_is_undone_and_runs_again_gives_an_error(undo: Any) -> None:
    agency = Agency()
    once = once_of(agency)
    agent = agent_of(agency, once, [*TRIP, "So be it."], fused=False)
    go(agent)
    undo(once, agent)
    states = list(agent.get_state_history(THREAD))
    before = [state.config for state in states if state.next == ("tools",)][-1]
    values = agent.invoke(None, before)
    assert "was done, and has been undone since" in values["messages"][2].text
    assert agency.log.count("fly to Oslo") == 1


def test_async_compensations_need_an_async_call() -> None:
    agency = Agency()
    once = once_of(agency, undo={"book_hotel": agency.cancel_hotel_async})
    agent = agent_of(agency, once)
    go(agent)
    with pytest.raises(m.EffectError, match="Use `await aundo_effects"):
        m.undo_effects(once, agent.get_state(THREAD))
    undone = asyncio.run(m.aundo_effects(once, agent.get_state(THREAD)))
    assert tools_of(undone.undone) == ["book_hotel"]
    assert agency.log[2:] == CANCELLED[:1]


def test_a_run_can_be_named_and_holds_the_effects_of_subagents(undo: Any) -> None:
    agency, store = Agency(), m.InMemoryEffects()
    once = once_of(agency, store=None)
    booking: Any = {"tools": [agency.book_hotel], "name": "clerk", "ignore": ["AF211"]}
    inner = m.OnceMiddleware({"book_hotel": "ask"})
    clerk = stack_agents.agent_of([TRIP[1], "Booked."], inner, **booking)
    steps = [TRIP[0], [{"name": "clerk", "args": {"request": "Go"}}], "Booked."]
    tools: Any = [agency.book_flight, agent_tool(clerk, description="Books hotels.")]
    options: Any = {"tools": tools, "checkpointer": InMemorySaver(), "ignore": ["AF210"]}
    agent = stack_agents.agent_of(steps, once, **options)
    with m.effects_of_run(store, "trip-1"):
        go(agent)
        assert tools_of(undo(once, "trip-1").undone) == ["book_hotel", "book_flight"]
    assert agency.log[2:] == CANCELLED
    with pytest.raises(m.EffectError, match="has no store"):
        undo(once, "trip-1")


class Keeps(m.InMemoryEffects):
    """A store that keeps a record which was released."""

    releases = 0

    def release(self, effect: m.Effect) -> None:
        self.releases += 1
        assert self.releases < 50


def test_a_store_that_keeps_a_released_record_is_an_error(undo: Any) -> None:
    agency, store = Agency(cancel_hotel=Killed()), Keeps()
    once = once_of(agency, "rerun", store=store)
    agent = agent_of(agency, once)
    go(agent)
    with pytest.raises(Killed):
        undo(once, agent)
    with pytest.raises(m.EffectError, match=r"has kept the record of .*, which was released"):
        undo(once, agent)
    assert store.releases == 1


# Stores


def effect(key: str = "key", run: str = "run") -> m.Effect:
    return m.Effect.start(key, run, "pay", b"args")


def test_a_file_keeps_its_effects_and_a_closed_store_opens_again(tmp_path: Path) -> None:
    first = effect()
    for earlier in (None, first):
        store = m.SqliteEffects(tmp_path / "effects.db")
        store.close()
        assert store.begin(first) == earlier
        store.close()
        assert store.begin(effect()) == first
        store.close()


RACE = """
import sys
from agent_factory.middleware import Effect, SqliteEffects

store = SqliteEffects(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
won = []
for number in range(200):
    one = Effect.start(str(number), "run", "pay", b"")
    if store.begin(one) is None:
        won.append(number)
        if number % 3 == 0:
            store.finish(one, b"result")
print(won)
"""


@pytest.mark.long
def test_one_of_several_processes_begins_each_effect(tmp_path: Path, processes: Processes) -> None:
    command = [sys.executable, "-c", RACE, tmp_path / "effects.db"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    racers = [processes.start(command, **pipes) for _ in range(3)]
    for racer in racers:
        wait_for_line(racer, "ready")
    for racer in racers:
        racer.stdin.write("go\n")  # type: ignore[union-attr]
        racer.stdin.flush()  # type: ignore[union-attr]
    won = [json.loads(wait_for_line(racer, "[")) for racer in racers]
    assert [exit_code(racer) for racer in racers] == [0] * 3
    assert sorted(number for numbers in won for number in numbers) == list(range(200))
    store = m.SqliteEffects(tmp_path / "effects.db")
    assert sum(one.is_done for one in store.of_run("run")) == len(range(0, 200, 3))
    store.close()


# Random deaths: no effect is doubled or lost, what is unknown is named


POLICIES = ("rerun", "ask", "fail")
UNDOING = "cancelled "


class World:
    """What outlives processes, and the points at which they die.

    Args:
        deaths: Numbers of the points.
        failures: Numbers of the effects before which a tool fails, and after which one times out.
    """

    def __init__(self, deaths: set[int], failures: tuple[set[int], set[int]]) -> None:
        self.deaths = deaths
        self.failures = failures
        self.effects: list[str] = []
        self.points = self.attempts = 0
        self._lock = Lock()

    def point(self) -> None:
        with self._lock:
            self.points += 1
            number = self.points
        if number in self.deaths:
            raise Killed

    def have_effect(self, key: str) -> None:
        self.point()
        with self._lock:
            self.attempts += 1
            number = self.attempts
        if number in self.failures[0]:
            raise ConnectionError("down")
        self.effects.append(key)
        if number in self.failures[1]:
            raise TimeoutError("no answer")
        self.point()


class Mortal(m.InMemoryEffects):
    """A store around whose operations the process may die."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def _between_points(self, operation: Any, *arguments: Any) -> Any:
        self._world.point()
        result = operation(*arguments)
        self._world.point()
        return result

    def begin(self, effect: m.Effect) -> Any:
        return self._between_points(super().begin, effect)

    def finish(self, effect: m.Effect, result: bytes) -> None:
        self._between_points(super().finish, effect, result)

    def release(self, effect: m.Effect) -> None:
        self._between_points(super().release, effect)


class Outside(AgentMiddleware):
    """Dies after a tool call, before its result is stored."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def around_tool(self, request: Any) -> Any:
        result = yield request
        self._world.point()
        return result


def mortal_agent(world: World, once: m.OnceMiddleware, script: Any, fused: Any) -> Any:
    def tool_of(policy: str) -> Any:
        def tool(number: int, runtime: ToolRuntime) -> str:
            """Have an effect."""
            key = m.idempotency_key(runtime)
            world.have_effect(key)
            return f"done {key}"

        tool.__name__ = policy
        return tool

    steps: list[Any] = [
        [{"name": policy, "args": {"number": at}, "id": str(at)} for at, policy in enumerate(turn)]
        for turn in script
    ]
    retry = m.ToolRetryMiddleware(retry_on=(ConnectionError,), initial_delay=0)
    tools = [tool_of(policy) for policy in POLICIES]
    options: Any = {"tools": tools, "checkpointer": InMemorySaver(), "fused": fused}
    return stack_agents.agent_of([*steps, "Done."], Outside(world), retry, once, **options)


def live(agent: Any, world: World, store: m.InMemoryEffects, mode: str) -> None:
    """Start a run, and resume it until it is done."""
    given: Any = {"messages": [("user", "Go")]}
    for _ in range(100):
        try:
            if mode == "sync":
                agent.invoke(given, THREAD, durability="sync")
            else:
                asyncio.run(agent.ainvoke(given, THREAD, durability="sync"))
        except (Killed, TimeoutError, ConnectionError):
            pass
        state = agent.get_state(THREAD)
        if not state.tasks:
            return
        found = {effect.key for effect in store.of_run("1/")} & set(world.effects)
        keys = {(e.tool, e.args["number"]): e.key for e in store.of_run("1/") if not e.is_done}
        answers: dict[str, Any] = {}
        for call in pending(agent, THREAD).calls:
            if call.interrupt_id:
                # The question may be answered, and the record released, before a death.
                key = keys.get((call.name, call.args["number"]), "")
                done = {"type": "respond", "message": f"done {key}"}
                answers[call.interrupt_id] = done if key in found else {"type": "approve"}
        given = Command(resume=answers) if answers else None
    raise AssertionError("the run does not end")


numbers = st.sets(st.integers(1, 60), max_size=8)


@pytest.mark.long
@settings.get_profile("costly")
@given(
    script=st.lists(
        st.lists(st.sampled_from(POLICIES), min_size=1, max_size=3), min_size=1, max_size=3
    ),
    deaths=numbers,
    failures=st.tuples(st.sets(st.integers(1, 9), max_size=2), st.sets(st.integers(1, 9))),
    fused=st.sampled_from([True, False, "turn"]),
    mode=st.sampled_from(["sync", "async"]),
)
def test_no_effect_is_doubled_or_lost(
    script: Any, deaths: set[int], failures: Any, fused: Any, mode: str
) -> None:
    world = World(deaths, failures)
    store = Mortal(world)
    once = m.OnceMiddleware({policy: policy for policy in POLICIES}, store=store)  # type: ignore[misc]
    agent = mortal_agent(world, once, script, fused)
    live(agent, world, store, mode)
    messages = agent.get_state(THREAD).values["messages"]
    assert_valid_history(messages)
    results = [message for message in messages if message.type == "tool"]
    assert len(results) == sum(map(len, script))
    times = Counter(world.effects)
    for result in results:
        text = result.text
        if text.startswith("done "):
            key = text.removeprefix("done ")
            assert times[key] == 1 or (result.name == "rerun" and times[key] >= 1)
            del times[key]
        elif result.name == "fail":
            assert "its outcome is unknown" in text
        else:
            assert "is not known whether" in text, text  # the retries have reported a timeout
    tools = {effect.key: effect.tool for effect in store.of_run("1/")}
    for key, number in times.items():  # what a model read to be unknown happened once at most
        assert number == 1 or tools[key] == "rerun"


@pytest.mark.long
@settings.get_profile("costly")
@given(
    script=st.lists(st.sampled_from(POLICIES), min_size=1, max_size=4),
    deaths=st.sets(st.integers(1, 40), max_size=4),
    failures=st.tuples(st.sets(st.integers(1, 9), max_size=2), st.sets(st.integers(1, 9))),
)
def test_no_compensation_is_doubled_or_lost(script: Any, deaths: set[int], failures: Any) -> None:
    world = World(set(), (set(), set()))
    store = Mortal(world)
    once = m.OnceMiddleware(
        {policy: policy for policy in POLICIES},  # type: ignore[misc]
        store=store,
        undo=dict.fromkeys(POLICIES, lambda effect: world.have_effect(UNDOING + effect.key)),
    )
    agent = mortal_agent(world, once, [[policy] for policy in script], True)
    agent.invoke({"messages": "Go"}, THREAD, durability="sync")
    done = world.effects.copy()
    world.deaths = {world.points + death for death in deaths}
    world.failures = tuple({world.attempts + n for n in given} for given in failures)  # type: ignore[assignment]
    undone = None
    while undone is None:
        try:
            undone = m.undo_effects(once, agent.get_state(THREAD))
        except (Killed, ConnectionError, TimeoutError):
            continue
    cancelled = [key.removeprefix(UNDOING) for key in world.effects[len(done) :]]
    times, first = Counter(cancelled), list(dict.fromkeys(cancelled))
    assert first == [key for key in reversed(done) if key in times]
    assert isinstance(undone, m.Undone)
    assert {effect.key for effect in (*undone.undone, *undone.unknown)} == set(done)
    for effect in undone.undone:
        assert times[effect.key] == 1 or (effect.tool == "rerun" and times[effect.key] >= 1)
    for effect in undone.unknown:
        assert effect.tool != "rerun"
        assert times[effect.key] <= 1
