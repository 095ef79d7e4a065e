"""Random deaths in random scripts: no effect is doubled or lost, what is unknown is named.

A process dies at random points: around each operation of the store, in a tool before and after its
effect, and before a result is stored. Other processes resume the run, and a person who knows what
was done answers the questions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from threading import Lock
from typing import Any

import pytest
import stack_agents
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent_factory import AgentMiddleware, ToolRuntime
from agent_factory.middleware import (
    Effect,
    InMemoryEffects,
    OnceMiddleware,
    ToolRetryMiddleware,
    Undone,
    idempotency_key,
    undo_effects,
)
from agent_factory.review import pending
from agent_factory.testing import assert_valid_history

THREAD: Any = {"configurable": {"thread_id": "1"}}
POLICIES = ("rerun", "ask", "fail")
CANCELLED = "cancelled "


class Killed(BaseException):
    """Simulates the death of a process."""


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


class Mortal(InMemoryEffects):
    """A store around whose operations the process may die."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def _between_points(self, operation: Any, *arguments: Any) -> Any:
        self._world.point()
        result = operation(*arguments)
        self._world.point()
        return result

    def begin(self, effect: Effect) -> Any:
        return self._between_points(super().begin, effect)

    def finish(self, effect: Effect, result: bytes) -> None:
        self._between_points(super().finish, effect, result)

    def release(self, effect: Effect) -> None:
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


def agent_of(world: World, once: OnceMiddleware, script: Any, fused: Any) -> Any:
    def tool_of(policy: str) -> Any:
        def tool(number: int, runtime: ToolRuntime) -> str:
            """Have an effect."""
            key = idempotency_key(runtime)
            world.have_effect(key)
            return f"done {key}"

        tool.__name__ = policy
        return tool

    steps: list[Any] = [
        [{"name": policy, "args": {"number": at}, "id": str(at)} for at, policy in enumerate(turn)]
        for turn in script
    ]
    retry = ToolRetryMiddleware(retry_on=(ConnectionError,), initial_delay=0)
    tools = [tool_of(policy) for policy in POLICIES]
    options: Any = {"tools": tools, "checkpointer": InMemorySaver(), "fused": fused}
    return stack_agents.agent_of([*steps, "Done."], Outside(world), retry, once, **options)


def live(agent: Any, world: World, store: InMemoryEffects, mode: str) -> None:
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
    once = OnceMiddleware({policy: policy for policy in POLICIES}, store=store)  # type: ignore[misc]
    agent = agent_of(world, once, script, fused)
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
    once = OnceMiddleware(
        {policy: policy for policy in POLICIES},  # type: ignore[misc]
        store=store,
        undo=dict.fromkeys(POLICIES, lambda effect: world.have_effect(CANCELLED + effect.key)),
    )
    agent = agent_of(world, once, [[policy] for policy in script], True)
    agent.invoke({"messages": "Go"}, THREAD, durability="sync")
    done = world.effects.copy()
    world.deaths = {world.points + death for death in deaths}
    world.failures = tuple({world.attempts + n for n in given} for given in failures)  # type: ignore[assignment]
    undone = None
    while undone is None:
        try:
            undone = undo_effects(once, agent.get_state(THREAD))
        except (Killed, ConnectionError, TimeoutError):
            continue
    cancelled = [key.removeprefix(CANCELLED) for key in world.effects[len(done) :]]
    times, first = Counter(cancelled), list(dict.fromkeys(cancelled))
    assert first == [key for key in reversed(done) if key in times]
    assert isinstance(undone, Undone)
    assert {effect.key for effect in (*undone.undone, *undone.unknown)} == set(done)
    for effect in undone.undone:
        assert times[effect.key] == 1 or (effect.tool == "rerun" and times[effect.key] >= 1)
    for effect in undone.unknown:
        assert effect.tool != "rerun"
        assert times[effect.key] <= 1
