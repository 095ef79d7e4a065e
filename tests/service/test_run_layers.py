"""Layers around runs of a service: a run and its parts, each a job of a worker."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, RunPaused, Task, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.service import Service
from agent_factory.service.backend import JOB_KEY
from agent_factory.service.database import Database
from agent_factory.service.saver import FencedSaver
from agent_factory.testing import ScriptedChatModel

WAIT = 60.0


class Desk(AgentMiddleware[Any, Any]):
    """Notes what it sees, takes a ticket once in a run, and has the last word."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    def around_agent(self, state: Any, resumed: bool) -> Any:
        ticket = yield Task("ticket", self.ticket)
        self.log.append("resumed" if resumed else "started")
        try:
            yield state
        except RunPaused:
            self.log.append("paused")
            raise
        except ValueError as error:
            return {"messages": [AIMessage(f"Sorry, {error}.")]}
        finally:
            self.log.append("closed")
        return {"messages": [AIMessage(f"That was {ticket}.")]}

    def ticket(self) -> str:
        self.log.append("took a ticket")
        return "T1"


def pay(euros: int) -> str:
    """Pay a bill."""
    if euros > 100:
        raise ValueError("that is too much")
    return f"Paid {euros}."


def served(service: Service, log: list[str], euros: int) -> None:
    call = {"name": "pay", "args": {"euros": euros}, "id": "1"}
    agent = create_agent(
        ScriptedChatModel([[call], "It is paid."]),
        [pay],
        middleware=[Desk(log), HumanInTheLoopMiddleware({"pay": True})],
        checkpointer=InMemorySaver(),
    )
    service.add("desk", agent)
    service.start()


@pytest.mark.parametrize(
    ("euros", "last"), [(5, "That was T1."), (500, "Sorry, that is too much.")]
)
def test_a_run_goes_on_in_its_layers_after_a_decision(
    service: Service, database: Database, euros: int, last: str
) -> None:
    log: list[str] = []
    served(service, log, euros)
    run = service.submit("desk", thread="t-1", message="Pay!", message_id="m-1")
    run.result(WAIT)
    (wait,) = service.inbox().waits(thread="t-1")
    assert log == ["took a ticket", "started", "paused", "closed"]
    log.clear()
    result = service.decide(wait.id, "approve", by="ann").result(WAIT)
    assert result["messages"][-1].text == last
    assert service.run(wait.run).status == "done"
    assert log == ["resumed", "closed"]
    # What a layer writes belongs to the job: a worker that takes over sees that it has ended.
    stored = FencedSaver(database).get_tuple({"configurable": {"thread_id": "t-1"}})
    assert stored is not None
    assert stored.metadata.get(JOB_KEY)
