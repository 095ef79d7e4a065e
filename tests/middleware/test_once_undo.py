"""The effects of a run are undone from the newest to the oldest, each once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import stack_agents
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import agent_tool
from agent_factory.middleware import (
    Effect,
    EffectError,
    HumanInTheLoopMiddleware,
    InMemoryEffects,
    OnceMiddleware,
    Undone,
    aundo_effects,
    effects_of_run,
    undo_effects,
)
from agent_factory.review import reject
from tables import each

THREAD: Any = {"configurable": {"thread_id": "1"}}
TRIP = [
    [{"name": "book_flight", "args": {"to": "Oslo"}}],
    [{"name": "book_hotel", "args": {"city": "Oslo"}}],
    [{"name": "pay", "args": {"euros": 900}}],
    "No trip then.",
]


class Killed(BaseException):
    """Simulates the death of a process."""


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

    def cancel_flight(self, flight: Effect) -> None:
        self._do(f"cancel {flight.result.text} [{flight.args['to']}]", "cancel_flight")

    async def cancel_hotel_async(self, hotel: Effect) -> None:
        self.cancel_hotel(hotel)

    def cancel_hotel(self, hotel: Effect) -> None:
        self._do(f"cancel {hotel.result.text} [{hotel.args['city']}]", "cancel_hotel")


CANCELLED = ["cancel Done: sleep in Oslo [Oslo]", "cancel Done: fly to Oslo [Oslo]"]


def once_of(agency: Agency, policy: Any = "ask", **changes: Any) -> OnceMiddleware:
    undo = {"book_flight": agency.cancel_flight, "book_hotel": agency.cancel_hotel}
    options = {"store": InMemoryEffects(), "undo": undo, **changes}
    return OnceMiddleware({"book_flight": policy, "book_hotel": policy}, **options)


def agent_of(agency: Agency, once: OnceMiddleware, script: Any = TRIP, **options: Any) -> Any:
    tools = [agency.book_flight, agency.book_hotel, agency.pay]
    stack = [HumanInTheLoopMiddleware({"pay": True}), once]
    options = {"tools": tools, "checkpointer": InMemorySaver(), **options}
    return stack_agents.agent_of(script, *stack, **options)


def go(agent: Any, text: str = "Book a trip") -> None:
    agent.invoke({"messages": text}, THREAD, durability="sync")


@pytest.fixture(params=["sync", "async"])
def undo(request: Any) -> Any:
    """Call undo_effects or aundo_effects with the state of an agent's thread."""

    def undo(once: OnceMiddleware, run: Any) -> Undone:
        if not isinstance(run, str):
            run = run.get_state(THREAD)
        if request.param == "sync":
            return undo_effects(once, run)
        return asyncio.run(aundo_effects(once, run))

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
    with pytest.raises(EffectError, match="Use `await aundo_effects"):
        undo_effects(once, agent.get_state(THREAD))
    undone = asyncio.run(aundo_effects(once, agent.get_state(THREAD)))
    assert tools_of(undone.undone) == ["book_hotel"]
    assert agency.log[2:] == CANCELLED[:1]


def test_a_run_can_be_named_and_holds_the_effects_of_subagents(undo: Any) -> None:
    agency, store = Agency(), InMemoryEffects()
    once = once_of(agency, store=None)
    booking: Any = {"tools": [agency.book_hotel], "name": "clerk", "ignore": ["AF211"]}
    inner = OnceMiddleware({"book_hotel": "ask"})
    clerk = stack_agents.agent_of([TRIP[1], "Booked."], inner, **booking)
    steps = [TRIP[0], [{"name": "clerk", "args": {"request": "Go"}}], "Booked."]
    tools: Any = [agency.book_flight, agent_tool(clerk, description="Books hotels.")]
    options: Any = {"tools": tools, "checkpointer": InMemorySaver(), "ignore": ["AF210"]}
    agent = stack_agents.agent_of(steps, once, **options)
    with effects_of_run(store, "trip-1"):
        go(agent)
        assert tools_of(undo(once, "trip-1").undone) == ["book_hotel", "book_flight"]
    assert agency.log[2:] == CANCELLED
    with pytest.raises(EffectError, match="has no store"):
        undo(once, "trip-1")


class Keeps(InMemoryEffects):
    """A store that keeps a record which was released."""

    releases = 0

    def release(self, effect: Effect) -> None:
        self.releases += 1
        assert self.releases < 50


def test_a_store_that_keeps_a_released_record_is_an_error(undo: Any) -> None:
    agency, store = Agency(cancel_hotel=Killed()), Keeps()
    once = once_of(agency, "rerun", store=store)
    agent = agent_of(agency, once)
    go(agent)
    with pytest.raises(Killed):
        undo(once, agent)
    with pytest.raises(EffectError, match=r"has kept the record of .*, which was released"):
        undo(once, agent)
    assert store.releases == 1
