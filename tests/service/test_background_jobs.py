"""Background jobs in a service: one message for each, also of a worker that has died."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from sqlalchemy import delete, insert, update
from stack_agents import kept_agent

from agent_factory import agent_tool, background, create_agent
from agent_factory.middleware import BackgroundMiddleware, SteeringMiddleware
from agent_factory.service import Service
from agent_factory.service.backend import Backend
from agent_factory.service.tables import background_jobs
from agent_factory.testing import ScriptedChatModel
from service.stored import Tables
from service.studio import WAIT, Studio, agent_of, rows, say, start, texts
from waiting import until


@pytest.fixture
def studio() -> Any:
    new_studio = Studio()
    yield new_studio
    new_studio.goes_on.set()
    new_studio.answers.set()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_result_begins_a_run_of_an_idle_thread(
    service: Service, tables: Tables, backend: Backend, studio: Studio, asynchronous: bool
) -> None:
    start(service, studio.agent(), asynchronous)
    run = say(service, "Render 1")
    assert run.result(WAIT)["messages"][-1].text.startswith("Read: Started in the background")
    assert len(rows(tables)) == 1
    studio.goes_on.set()
    until(lambda: len(texts(service)) == 2 and service.threads.get("t").status == "idle")
    assert texts(service) == ["Render 1", "Page 1 is rendered."]
    assert rows(tables) == []
    state = backend.graph_of("t").get_state({"configurable": {"thread_id": "t"}})
    assert state.values["background_jobs"] == {}


def test_a_result_is_sent_whatever_signs_it_has(service: Service) -> None:
    """Postgres takes no U+0000 in a column of text."""

    def scan(page: int) -> str:
        """Scan a page."""
        return f"Page {page}: \x00 and the rest."

    def answer(messages: list[BaseMessage]) -> AIMessage:
        if messages[-1].text == "Scan":
            return AIMessage("", tool_calls=[{"name": "scan", "args": {"page": 1}, "id": "1"}])
        return AIMessage("Read.")

    start(service, agent_of(answer, background(scan)))
    say(service, "Scan").result(WAIT)
    until(lambda: len(texts(service)) == 2 and service.threads.get("t").status == "idle")
    (found,) = service.threads.search_runs(text="and the rest").runs
    assert "Page 1: \x00 and the rest." in found.question


def test_the_run_under_way_reads_a_result(service: Service, tables: Tables, studio: Studio) -> None:
    start(service, studio.agent(SteeringMiddleware()))
    studio.answers.clear()
    run = say(service, "Render 1")
    assert studio.asked.wait(WAIT)
    studio.goes_on.set()
    until(lambda: not rows(tables))
    studio.answers.set()
    messages = run.result(WAIT)["messages"]
    assert [m.type for m in messages] == ["human", "ai", "tool", "ai", "human", "ai"]
    assert texts(service) == ["Render 1", "Page 1 is rendered."]


@pytest.mark.parametrize("way", ["run", "tool", "thread"])
def test_a_job_that_was_dropped_sends_nothing(
    service: Service, tables: Tables, studio: Studio, way: str
) -> None:
    start(service, studio.agent())
    if way == "run":
        studio.answers.clear()
    run = say(service, "Render 1")
    assert studio.begun.wait(WAIT)  # a job that was dropped before calls no tool
    if way == "run":
        assert studio.asked.wait(WAIT)
        run.cancel()
        studio.answers.set()
    else:
        run.result(WAIT)
    if way == "tool":
        say(service, "Cancel").result(WAIT)
    if way == "thread":
        service.threads.delete("t")
    assert rows(tables) == []
    studio.goes_on.set()
    until(lambda: studio.rendered == [1])
    say(service, "Hello").result(WAIT)
    assert "rendered" not in str(texts(service))


def agent_with_clerk(studio: Studio, *answers: str) -> Any:
    """An agent whose clerk, in the background, renders page 7 once `studio.answers` is set."""

    def slow(messages: list[BaseMessage]) -> AIMessage:
        studio.begun.set()
        assert studio.answers.wait(WAIT)
        return AIMessage("", tool_calls=[{"name": "render", "args": {"page": 7}, "id": "7"}])

    clerk = create_agent(ScriptedChatModel([slow, "The page is there."]), [studio.render])
    studio.answers.clear()
    studio.goes_on.set()
    return kept_agent(
        [[{"name": "clerk", "args": {"request": "Page 7"}}], *answers],
        BackgroundMiddleware(),
        tools=[background(agent_tool(clerk, name="clerk", description="Render."))],
    )


def test_work_that_was_dropped_elsewhere_calls_no_tool_any_more(
    service: Service, tables: Tables, studio: Studio
) -> None:
    """As where another process cancels the run, or has reported the job as lost."""
    start(service, agent_with_clerk(studio, "I wait."))
    say(service, "Go.").result(WAIT)
    assert studio.begun.wait(WAIT)
    (thread,) = [each for each in threading.enumerate() if each.name == "background"][-1:]
    tables.write(delete(background_jobs))
    studio.answers.set()
    thread.join(WAIT)
    assert studio.rendered == []
    assert texts(service) == ["Go."]


@pytest.mark.long
def test_what_cannot_be_sent_is_not_read_elsewhere_and_lost_with_the_worker(
    service: Service, tables: Tables, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(*_: Any, **__: Any) -> bool:
        failures.append(1)
        raise ValueError("out of order")

    failures: list[int] = []
    start(service, studio.agent())
    say(service, "Render 1").result(WAIT)
    with monkeypatch.context() as patch:
        patch.setattr("agent_factory.service.background._send", send)
        studio.goes_on.set()
        until(lambda: failures)
        read = say(service, "And?").result(WAIT)["messages"]
        assert [m.name for m in read if m.type == "human"] == [None, None]
        assert len(rows(tables)) == 1
    tables.write(update(background_jobs).values(worker="dead"))
    until(lambda: not rows(tables) and service.threads.get("t").status == "idle")
    messages = service.threads.state("t").values["messages"]
    assert [m.name for m in messages if m.type == "human"] == [None, None, "background"]
    assert "is lost" in [m.text for m in messages if m.type == "human"][-1]


def test_a_job_that_has_ended_elsewhere_is_not_called_cancelled(
    service: Service, tables: Tables, studio: Studio
) -> None:
    start(service, studio.agent())
    say(service, "Render 1").result(WAIT)
    tables.write(delete(background_jobs))  # another process has sent its result
    messages = say(service, "Cancel").result(WAIT)["messages"]
    assert [m.text for m in messages if m.type == "tool"][-1].endswith("arrives as a message.")


def test_a_thread_has_so_many_jobs_in_all(service: Service, tables: Tables, studio: Studio) -> None:
    start(service, studio.agent(max_running=2))
    say(service, "Render 1").result(WAIT)
    (row,) = rows(tables)
    # As another worker of the thread does.
    tables.write(insert(background_jobs).values({**row._mapping, "id": "t/other"}))
    messages = say(service, "Render 2").result(WAIT)["messages"]
    (refused,) = [m for m in messages if m.type == "tool" and m.status == "error"]
    assert refused.text.startswith("Error: 2 background jobs are under way")
    assert len(rows(tables)) == 2


def test_a_subagent_calls_tools_when_the_run_of_its_parent_has_ended(
    service: Service, studio: Studio
) -> None:
    start(service, agent_with_clerk(studio, "I wait.", "Hi.", "Done."))
    say(service, "Go.").result(WAIT)
    say(service, "And?").result(WAIT)  # it has taken the lease
    studio.answers.set()
    until(lambda: len(texts(service)) == 3 and service.threads.get("t").status == "idle")
    assert texts(service) == ["Go.", "And?", "The page is there."]
    assert studio.rendered == [7]
