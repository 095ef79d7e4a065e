"""Calls that wait for the client of their thread, in a service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import client_tool, create_agent
from agent_factory.review import DecisionNotAllowed, InvalidAnswer
from agent_factory.service import AlreadyDecided, NotFound, Service
from agent_factory.testing import ScriptedChatModel
from samples import call_of, last_text, tool_results

TITLE = client_tool("title", "The title of the page.")


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def service(sqlite_url: str, request: pytest.FixtureRequest) -> Iterator[Service]:
    calls = [call_of("title", 1), call_of("title", 2)]
    model = ScriptedChatModel([calls, "Done."] * 9)
    agent = create_agent(model, [TITLE], checkpointer=InMemorySaver())
    with Service(sqlite_url) as service:
        service.add("desk", agent, asynchronous=request.param)
        service.add("hasty", agent, asynchronous=request.param, review_within=0.05)
        yield service


def test_results_come_through_the_inbox_of_the_thread(service: Service) -> None:
    run = service.submit("desk", thread="t", message="Go")
    run.result(timeout=60)
    inbox = service.inbox(may_decide=lambda wait: False)
    waits = {wait.call_id: wait for wait in inbox.waits(thread="t")}
    assert [(wait.kind, wait.tool, wait.allowed) for wait in waits.values()] == [
        ("client", "title", ("respond",))
    ] * 2
    assert (inbox.waits(), inbox.count(), inbox.tools()) == ([], 0, [])
    first, second = (waits[id] for id in ("call_1", "call_2"))
    for decision, error in (
        ({"type": "approve"}, DecisionNotAllowed),
        ({"type": "respond", "message": 5}, InvalidAnswer),
        ({"type": "respond"}, InvalidAnswer),
    ):
        with pytest.raises(error):
            inbox.decide(first.id, decision, by="page")
    for _ in range(2):  # the same result again changes nothing
        inbox.decide(first.id, {"type": "respond", "message": "A"}, by="page")
    with pytest.raises(AlreadyDecided):
        inbox.decide(first.id, {"type": "respond", "message": "B"}, by="page")
    inbox.decide(second.id, {"type": "respond", "message": {"error": "gone"}}, by="page")
    result = run.result(timeout=60)
    assert tool_results(result) == [("A", "success"), ("gone", "error")]


def test_a_result_resumes_the_thread_as_a_command_does(service: Service) -> None:
    run = service.submit("desk", thread="t", message="Go")
    waiting = run.result(timeout=60)["__interrupt__"]
    with pytest.raises(InvalidAnswer, match="must be a text, content blocks or an error"):
        service.resume("t", {waiting[0].id: 5, waiting[1].id: "B"}, by="page")
    by_id = {interrupt.id: interrupt.value["id"] for interrupt in waiting}
    service.resume("t", by_id, by="page", may_decide=lambda wait: False)
    assert [text for text, _ in tool_results(run.result(timeout=60))] == ["call_1", "call_2"]
    with pytest.raises(NotFound, match="waits for no answer"):
        service.resume("t", by_id, by="page")


def test_a_client_that_does_not_answer_in_time(service: Service) -> None:
    run = service.submit("hasty", thread="t", message="Go")
    end: Any = run.result(timeout=60)
    while "__interrupt__" in end:
        service.inbox().expire({})
        end = run.result(timeout=60)
    text = "The client has not sent a result of this call in time."
    assert tool_results(end) == [(text, "error")] * 2
    assert last_text(end) == "Done."
