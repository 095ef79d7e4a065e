"""Outputs that runs hand to those in their process who wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Annotated, Any, NotRequired

import pytest
import random_stacks
from hypothesis import given, settings
from langchain_core.messages import HumanMessage
from langgraph.channels import EphemeralValue, UntrackedValue
from random_stacks import CALM, Case, Mode, Trial, add, cases
from sqlalchemy import event

from agent_factory import AgentMiddleware, AgentState, OmitFromOutput, create_agent
from agent_factory.service import Pace, RunFailed, Service
from agent_factory.service.backend import Backend
from agent_factory.service.outputs import Outputs
from agent_factory.service.thread_queue import ThreadQueue
from agent_factory.testing import ScriptedChatModel
from agent_factory.upstream import INTERRUPT
from service.paces import NEVER
from waiting import auntil, cancel, until

WAIT = 60.0


class NotedState(AgentState[Any]):
    notes: NotRequired[Any]


class Notes(AgentMiddleware[Any, Any]):
    """Writes values of which a database keeps other ones, or the same in other objects."""

    state_schema = NotedState

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"notes": {"pair": (1, 2), "set": {3}, "list": [[4]], "message": HumanMessage("5")}}


class UntrackedState(AgentState[Any]):
    notes: NotRequired[Annotated[Any, UntrackedValue(object)]]


class UntrackedNotes(Notes):
    """Writes what no checkpoint has."""

    state_schema = UntrackedState


def agent(*middleware: Any) -> Any:
    model = ScriptedChatModel([lambda messages: f"re: {messages[-1].text}"] * 1000)
    return create_agent(model, middleware=middleware)


@pytest.fixture
def pace() -> Pace:
    """Signals alone: a look at a run that ends may come before its output is handed over."""
    return Pace(wake=NEVER)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads whose output is read from the database."""
    threads: list[str] = []
    output = Backend.output

    def note(backend: Backend, name: str, thread: str, *rest: Any, **options: Any) -> Any:
        threads.append(thread)
        return output(backend, name, thread, *rest, **options)

    monkeypatch.setattr(Backend, "output", note)
    return threads


@pytest.fixture
def nothing_is_kept(backend: Backend) -> Iterator[None]:
    yield
    # The last look of a waiter that was cancelled ends in its thread.
    until(lambda: not (backend.outputs._awaited or backend.outputs._outputs))


pytestmark = pytest.mark.usefixtures("nothing_is_kept")


@pytest.mark.usefixtures("ends_when_awaited")
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("waits_async", [False, True])
def test_a_run_hands_over_what_the_database_has(
    service: Service, reads: list[str], asynchronous: bool, waits_async: bool
) -> None:
    service.add("notes", agent(Notes()), asynchronous=asynchronous)
    service.start()
    service.submit("notes", thread="t", message="Hi").result(WAIT)  # the listener connects
    for _ in range(2):
        reads.clear()
        run = service.submit("notes", thread="t", message="Hi")
        output = asyncio.run(run.aresult(WAIT)) if waits_async else run.result(WAIT)
        assert reads == []
        assert output == run.result(WAIT)
        assert reads == ["t"]
    assert (output["notes"]["pair"], len(output["messages"])) == ([1, 2], 6)


def test_who_waits_has_own_objects(service: Service, backend: Backend, reads: list[str]) -> None:
    service.add("notes", agent(Notes()))
    run = service.submit("notes", message="Hi")

    async def results() -> list[Any]:
        waiters = [asyncio.create_task(run.aresult(WAIT)) for _ in range(2)]
        await auntil(lambda: backend.outputs._awaited[run.id] == 2)
        service.start()
        return list(await asyncio.gather(*waiters))

    one, other = asyncio.run(results())
    assert reads == []
    one["notes"]["list"][0].append("mine")
    one["messages"][-1].content = "mine"
    assert other["notes"]["list"] == [[4]]
    assert other["messages"][-1].text == "re: Hi"


@pytest.mark.usefixtures("ends_when_awaited")
def test_an_output_that_no_checkpoint_has_is_read(service: Service, reads: list[str]) -> None:
    service.add("notes", agent(UntrackedNotes()))
    service.start()
    run = service.submit("notes", thread="t", message="Hi")
    assert "notes" not in run.result(WAIT)
    assert reads == ["t"]


@pytest.mark.usefixtures("ends_when_awaited")
def test_a_run_that_is_not_stored_hands_nothing_over(
    service: Service, backend: Backend, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last transaction fails at its end."""
    service.add("notes", agent(Notes()))
    service.start()
    outputs, queue, seen = backend.outputs, backend.queue, list[object]()

    def fail(connection: Any) -> None:
        seen.append({**outputs._outputs})
        raise RuntimeError("The disk is full.")

    def settle(connection: Any, *arguments: Any, **values: Any) -> None:
        ThreadQueue.settle(queue, connection, *arguments, **values)
        if "done" in arguments:
            event.listen(connection, "commit", fail)

    monkeypatch.setattr(queue, "settle", settle)
    with pytest.raises(RunFailed, match="The disk is full"):
        service.submit("notes", thread="t", message="Hi").result(WAIT)
    assert seen == [{}]
    assert reads == []


def test_nothing_is_kept_for_who_waits_no_longer(service: Service, backend: Backend) -> None:
    service.add("notes", agent(Notes()))
    run = service.submit("notes", message="Hi")
    with pytest.raises(TimeoutError):
        run.result(0)

    async def cancelled() -> None:
        waiter = asyncio.create_task(run.aresult(WAIT))
        await auntil(lambda: backend.outputs._awaited[run.id])
        await cancel(waiter)

    asyncio.run(cancelled())


EXAMPLES = 25 if settings.get_current_profile_name() == "test" else settings().max_examples // 5


class Kept(AgentState[Any]):
    """Keys of each kind whose values a checkpoint has, or no output."""

    log: NotRequired[Annotated[list[str], add]]
    last: NotRequired[str]
    flash: NotRequired[Annotated[str, EphemeralValue(str), OmitFromOutput]]


@pytest.mark.long
@pytest.mark.law
@pytest.mark.usefixtures("ends_when_awaited")
@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_is_handed_over_is_what_is_read(
    service: Service, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    handed_over, ended, numbers, of = set[str](), set[str](), count(), Outputs.of

    def note(outputs: Outputs, run: str) -> Any:
        output = of(outputs, run)
        if output is not None:
            handed_over.add(run)
        return output

    service.add("notes", agent(Notes()))
    service.start()
    service.submit("notes", message="Hi").result(WAIT)  # the listener connects
    monkeypatch.setattr(Outputs, "of", note)
    monkeypatch.setattr(random_stacks, "Stored", Kept)

    @settings(max_examples=EXAMPLES)
    @given(cases([act for act in CALM if act != "seen"]))
    def check(case: Case) -> None:
        trial = Trial(replace(case, pauses=()), True, mode, kept=False)
        name = f"agent {next(numbers)}"
        service.add(name, trial.agent, asynchronous=mode == "async")
        for _ in range(2):
            run = service.submit(name, thread=name, message="Well?")
            try:
                output = run.result(WAIT)
            except RunFailed:
                return
            if INTERRUPT in output:  # it waits for an answer, so its output is read
                return
            ended.add(run.id)
            assert output == run.result(WAIT)

    check()
    assert handed_over == ended
    assert len(ended) > EXAMPLES // 5
