"""What the checkpoints of a thread hold: what is new in each, unless the agent says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from agent_factory import AgentMiddleware, RunPaused, Task, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.service import Pace, Service
from agent_factory.service.backend import Backend
from agent_factory.service.database import Database
from agent_factory.service.jobs import JOB_KEY
from agent_factory.service.saver import FencedSaver
from agent_factory.testing import ScriptedChatModel
from service.paces import NEVER, paced
from waiting import until


def desk(**options: Any) -> Any:
    model = ScriptedChatModel([lambda messages: f"{len(messages)} messages"] * 100)
    return create_agent(model, **options)


def answers(service: Service, agent: str, number: int, thread: str = "t") -> list[str]:
    runs = [service.submit(agent, thread=thread, message="Hi") for _ in range(number)]
    return [run.result(60)["messages"][-1].text for run in runs]


@pytest.fixture
def pace() -> Pace:
    """No events are written before a run ends."""
    return Pace(gather_first=NEVER)


@pytest.fixture
def stored(database: Database) -> Callable[[], list[CheckpointTuple]]:
    """The checkpoints of the thread, the newest first."""
    return lambda: [*FencedSaver(database).list({"configurable": {"thread_id": "t"}})]


Stored = Callable[[], list[CheckpointTuple]]


@pytest.mark.parametrize(
    ("options", "copies"),
    [
        ({}, 0),
        ({"checkpoints": "delta"}, 0),
        ({"checkpointer": InMemorySaver()}, 0),
        ({"checkpoints": "full"}, 8),
        ({"checkpoints": "full", "checkpointer": InMemorySaver()}, 8),
    ],
)
@pytest.mark.parametrize("decisions", [False, True])
def test_a_thread_is_stored_in_full_only_if_its_agent_says_so(
    service: Service, stored: Stored, options: Any, copies: int, decisions: bool
) -> None:
    """A full copy is in three checkpoints of each run, and not in that of an empty thread."""
    service.add("desk", desk(**options), decisions=decisions)
    service.start()
    assert answers(service, "desk", 3) == ["1 messages", "3 messages", "5 messages"]
    assert sum("messages" in saved.checkpoint["channel_values"] for saved in stored()) == copies


def test_a_thread_that_was_stored_in_full_goes_on(service: Service) -> None:
    """Also the other way round: workers of both forms may take turns."""
    service.add("full", desk(checkpoints="full"))
    service.add("desk", desk())
    service.start()
    forms = ["full", "desk", "desk", "full", "desk"]
    said = [answers(service, agent, 1)[0] for agent in forms]
    assert said == [f"{number} messages" for number in (1, 3, 5, 7, 9)]
    assert len(service.threads.state("t").values["messages"]) == 10


def test_a_graph_of_another_library_is_stored_before_its_first_node(
    service: Service, stored: Stored
) -> None:
    """The node may have effects that it knows by its task, whose id comes from the checkpoint."""
    steps: list[list[int]] = []

    def node(state: MessagesState) -> dict[str, Any]:
        steps.append([saved.metadata["step"] for saved in stored()])
        return {}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
    service.add("graph", graph.compile())
    service.start()
    service.submit("graph", thread="t", message="Hi").result(60)
    assert steps == [[0, -1]]


def test_an_agent_keeps_its_plan_and_is_not_changed(service: Service, backend: Backend) -> None:
    agent = desk()
    service.add("desk", agent)
    assert backend.agent("desk").plan == agent.builder.spec.topology.digest
    assert agent.checkpointer is None
    assert agent.invoke({"messages": "Hi"})["messages"][-1].text == "1 messages"


def test_the_end_of_a_run_waits_for_no_other_writer_of_its_checkpoints(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes events stores what was gathered: it must not come in between."""
    write = FencedSaver.flush_in

    def flush_in(saver: FencedSaver, connection: Any) -> None:
        begun = Event()

        def flush() -> None:
            begun.set()
            saver.flush()

        Thread(target=flush, daemon=True).start()
        assert begun.wait(60)
        write(saver, connection)

    monkeypatch.setattr(FencedSaver, "flush_in", flush_in)
    service.add("desk", desk())
    service.start()
    assert answers(service, "desk", 2) == ["1 messages", "3 messages"]


def test_what_comes_before_a_tool_is_stored_before_it_runs(
    service: Service, stored: Stored
) -> None:
    """Tools have effects."""
    numbers: list[int] = []

    def note() -> str:
        """Note how many checkpoints are there."""
        numbers.append(len(stored()))
        return "Noted."

    model = ScriptedChatModel([[{"name": "note", "args": {}}], "Done."])
    service.add("desk", create_agent(model, [note]))
    service.start()
    service.submit("desk", thread="t", message="Hi").result(60)
    assert numbers[0] > 0


@paced(gather_first=0.0)
def test_what_a_task_wrote_is_stored_while_another_works(service: Service, stored: Stored) -> None:
    """No checkpoint may follow for long, and a call that has run is not to run again."""

    def quick() -> str:
        """Return at once."""
        return "done"

    def slow() -> str:
        """Return once the result of the other call is stored."""
        until(lambda: "done" in str(stored()[0].pending_writes))
        return "done, too"

    calls: Any = [{"name": name, "args": {}} for name in ("quick", "slow")]
    service.add("desk", create_agent(ScriptedChatModel([calls, "Done."]), [quick, slow]))
    service.start()
    run = service.submit("desk", thread="t", message="Hi")
    assert run.result(90)["messages"][-1].text == "Done."


# Layers around runs: a run and its parts, each a job of a worker


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


@pytest.mark.parametrize(
    ("euros", "last"), [(5, "That was T1."), (500, "Sorry, that is too much.")]
)
def test_a_run_goes_on_in_its_layers_after_a_decision(
    service: Service, database: Database, euros: int, last: str
) -> None:
    log: list[str] = []
    call = {"name": "pay", "args": {"euros": euros}, "id": "1"}
    model, asks = ScriptedChatModel([[call], "Paid."]), HumanInTheLoopMiddleware({"pay": True})
    saver = InMemorySaver()
    agent = create_agent(model, [pay], middleware=[Desk(log), asks], checkpointer=saver)
    service.add("desk", agent)
    service.start()
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
