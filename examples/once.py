"""Let an effect happen once, ask a person where nobody can know, and undo what was done.

Run: python examples/once.py

The process dies after the flight was booked, and in the middle of the booking of the hotel. Each
time another process resumes the run. The flight is not booked again. About the hotel a person is
asked, and finds the booking. Then the customer cancels, and what was done is undone.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, Flow, ToolCallRequest, create_agent, review
from agent_factory.middleware import Effect, OnceMiddleware, SqliteEffects, undo_effects
from agent_factory.testing import ScriptedChatModel

SCRIPT = [
    [{"name": "book_flight", "args": {"to": "Oslo"}}],
    [{"name": "book_hotel", "args": {"city": "Oslo"}}],
    "Your trip is booked.",
]


class Killed(BaseException):
    """Stands for the death of a process."""


class DiesOnce(AgentMiddleware[Any, Any]):
    """Dies after the first tool call, before its result is stored."""

    died = False

    def around_tool(self, request: ToolCallRequest) -> Flow[Any]:
        result = yield request
        if not self.died:
            self.died = True
            raise Killed
        return result


deaths = [Killed()]


def book_flight(to: str) -> str:
    """Book a flight."""
    print(f"  the airline books a flight to {to}")
    return f"Flight to {to}, ticket 17."


def book_hotel(city: str) -> str:
    """Book a hotel."""
    print(f"  the hotel books a room in {city}")
    if deaths:
        raise deaths.pop()
    return f"Room in {city}."


def cancel_flight(flight: Effect) -> None:
    print(f"  the airline cancels: {flight.result.text}")


def cancel_hotel(hotel: Effect) -> None:
    print(f"  the hotel cancels: {hotel.result.text}")


def main(folder: Path) -> None:
    effects = SqliteEffects(folder / "effects.db")
    once = OnceMiddleware(
        {"book_flight": "ask", "book_hotel": "ask"},
        store=effects,
        undo={"book_flight": cancel_flight, "book_hotel": cancel_hotel},
    )
    agent = create_agent(
        ScriptedChatModel(SCRIPT),
        [book_flight, book_hotel],
        middleware=[DiesOnce(), once],
        checkpointer=InMemorySaver(),
    )
    thread: Any = {"configurable": {"thread_id": "trip"}}
    steps: list[Any] = [{"messages": "Book a trip to Oslo"}, None, None]
    for given in steps:
        try:
            agent.invoke(given, thread, durability="sync")
        except Killed:
            print("the process dies, another one resumes the run")
    (asked,) = review.pending(agent, thread).calls
    print(f"a person is asked about {asked.name}: {', '.join(asked.allowed)}")
    result = review.respond(agent, thread, "Room in Oslo, found by hand.", durability="sync")
    print(result["messages"][-1].text)
    print("the customer cancels")
    undone = undo_effects(once, agent.get_state(thread))
    print(f"undone: {', '.join(effect.tool for effect in undone.undone)}")
    effects.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
