"""What the checkpoints of a thread hold: what is new in each, unless the agent says otherwise."""

from __future__ import annotations

import time
from threading import Thread
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from agent_factory import create_agent
from agent_factory.service import Service
from agent_factory.service.saver import FencedSaver
from agent_factory.testing import ScriptedChatModel


def desk(**options: Any) -> Any:
    model = ScriptedChatModel([lambda messages: f"{len(messages)} messages"] * 100)
    return create_agent(model, **options)


def answers(service: Service, agent: str, number: int, thread: str = "t") -> list[str]:
    runs = [service.submit(agent, thread=thread, message="Hi") for _ in range(number)]
    return [run.result(30)["messages"][-1].text for run in runs]


def full_copies(service: Service, thread: str = "t") -> int:
    """How many checkpoints hold all messages: of each run three, and not of an empty thread."""
    saver = FencedSaver(service._backend.database)
    stored = saver.list({"configurable": {"thread_id": thread}})
    return sum("messages" in saved.checkpoint["channel_values"] for saved in stored)


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
    service: Service, options: Any, copies: int, decisions: bool
) -> None:
    service.add("desk", desk(**options), decisions=decisions)
    service.start()
    assert answers(service, "desk", 3) == ["1 messages", "3 messages", "5 messages"]
    assert full_copies(service) == copies


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
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node may have effects that it knows by its task, whose id comes from the checkpoint."""
    monkeypatch.setattr("agent_factory.service.events._FIRST_SECONDS", 60.0)
    saver, steps = FencedSaver(service._backend.database), []

    def node(state: MessagesState) -> dict[str, Any]:
        stored = saver.list({"configurable": {"thread_id": "t"}})
        steps.append([saved.metadata["step"] for saved in stored])
        return {}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
    service.add("graph", graph.compile())
    service.start()
    service.submit("graph", thread="t", message="Hi").result(30)
    assert steps == [[0, -1]]


def test_an_agent_keeps_its_plan_and_is_not_changed(service: Service) -> None:
    agent = desk()
    service.add("desk", agent)
    assert service._backend.agent("desk").plan == agent.builder.spec.topology.digest
    assert agent.checkpointer is None
    assert agent.invoke({"messages": "Hi"})["messages"][-1].text == "1 messages"


def test_the_end_of_a_run_waits_for_no_other_writer_of_its_checkpoints(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes events stores what was gathered: it must not come in between."""
    write = FencedSaver.flush_in

    def flush_in(saver: FencedSaver, connection: Any) -> None:
        Thread(target=saver.flush, daemon=True).start()
        time.sleep(0.2)
        write(saver, connection)

    monkeypatch.setattr("agent_factory.service.events._FIRST_SECONDS", 60.0)
    monkeypatch.setattr(FencedSaver, "flush_in", flush_in)
    service.add("desk", desk())
    service.start()
    assert answers(service, "desk", 2) == ["1 messages", "3 messages"]


def test_the_last_checkpoint_of_a_run_is_stored_with_its_outcome(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before are stored before the nodes that come next: tools have effects."""
    monkeypatch.setattr("agent_factory.service.events._FIRST_SECONDS", 60.0)
    saver, stored = FencedSaver(service._backend.database), list[int]()

    def note() -> str:
        """Note how many checkpoints are there."""
        stored.append(len([*saver.list({"configurable": {"thread_id": "t"}})]))
        return "Noted."

    write = FencedSaver.flush_in

    def flush_in(run_saver: FencedSaver, connection: Any) -> None:
        stored.append(len([*saver.list({"configurable": {"thread_id": "t"}})]))
        write(run_saver, connection)

    monkeypatch.setattr(FencedSaver, "flush_in", flush_in)
    model = ScriptedChatModel([[{"name": "note", "args": {}}], "Done."])
    service.add("desk", create_agent(model, [note]))
    service.start()
    service.submit("desk", thread="t", message="Hi").result(30)
    in_tool, before_end = stored
    assert in_tool > 0
    assert before_end == len([*saver.list({"configurable": {"thread_id": "t"}})]) - 1
