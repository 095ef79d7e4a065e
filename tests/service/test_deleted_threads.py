"""A thread that was deleted, and one that is made again under its id: nothing passes between."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from sqlalchemy import select
from stack_agents import kept_agent

from agent_factory.middleware import HumanInTheLoopMiddleware, OnceMiddleware, Rule, ToolPolicy
from agent_factory.service import NotFound, Service
from agent_factory.service.tables import effects, events, runs, threads
from agent_factory.testing import ScriptedChatModel
from service.stored import Tables
from waiting import until

WAIT = 60.0


class Work:
    """The tool of the agents, which tests can hold."""

    def __init__(self) -> None:
        self.started, self.may_end, self.ended = Event(), Event(), Event()
        self.calls: list[str] = []
        self.fails = False
        self.held = "SECRET"

    def do(self, text: str) -> str:
        """Work."""
        self.calls.append(text)
        if text == self.held:
            self.started.set()
            assert self.may_end.wait(WAIT)
            self.ended.set()
            if self.fails:
                raise ValueError("the tool is out of order")
        return f"result for {text}"


def answer(messages: list[BaseMessage]) -> AIMessage:
    """Call the tool once for each message of the user."""
    if isinstance(messages[-1], ToolMessage):
        return AIMessage(f"answer: {messages[-1].text}")
    # The same ids in each conversation, as some models give them.
    call = {"name": "do", "args": {"text": messages[-1].text}, "id": "call-1"}
    return AIMessage("", tool_calls=[call], id=f"ai-{len(messages)}")


def agent(work: Work, *middleware: Any) -> Any:
    return kept_agent(ScriptedChatModel([answer] * 1000), *middleware, tools=[work.do])


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    yield made
    made.may_end.set()


def texts(service: Service, thread: str, tenant: str) -> list[str]:
    messages = service.threads.state(thread, tenant=tenant).values["messages"]
    return [message.text for message in messages if message.text]


def delete(service: Service, thread: str, how: str) -> None:
    """Delete a thread on which a run works."""
    if how == "delete":
        service.threads.delete(thread, tenant="acme", by="ann")
    else:
        for run in service.threads.runs(thread, tenant="acme"):
            run.cancel()
        assert [*service.forget(older_than=0, tenant="acme")] == [thread]


@pytest.mark.parametrize("how", ["delete", "forget"])
@pytest.mark.parametrize("fails", [False, True], ids=["", "the tool fails"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_the_run_of_a_deleted_thread_writes_nothing_to_a_new_one_of_its_id(
    service: Service, work: Work, how: str, fails: bool, asynchronous: bool
) -> None:
    work.fails = fails
    service.add("desk", agent(work), asynchronous=asynchronous)
    service.start()
    old = service.submit("desk", thread="user-7", message="SECRET", message_id="m", tenant="acme")
    assert work.started.wait(WAIT)
    until(lambda: service.threads.runs("user-7") and old.info.job is not None)
    delete(service, "user-7", how)
    with pytest.raises(NotFound):
        old.result(WAIT)
    new = service.submit("desk", thread="user-7", message="hello", message_id="m", tenant="beta")
    own = ["hello", "result for hello", "answer: result for hello"]
    assert [one.text for one in new.result(WAIT)["messages"] if one.text] == own
    work.may_end.set()
    assert work.ended.wait(WAIT)
    service.stop()
    assert texts(service, "user-7", "beta") == own
    assert (new.status, service.threads.get("user-7").error) == ("done", None)
    with pytest.raises(NotFound):
        service.run(old.id, tenant="acme")
    shown = str([*new.stream(timeout=WAIT)])
    assert "hello" in shown
    assert "SECRET" not in shown


def test_a_run_of_a_deleted_thread_starts_no_tool_for_another(service: Service, work: Work) -> None:
    """The model of the old run still thinks when the thread is deleted."""
    started, may_end = Event(), Event()

    def think(messages: list[BaseMessage]) -> AIMessage:
        if messages[-1].text == "SECRET":
            started.set()
            assert may_end.wait(WAIT)
        return answer(messages)

    service.add("desk", kept_agent(ScriptedChatModel([think] * 100), tools=[work.do]))
    service.start()
    service.submit("desk", thread="t", message="SECRET", tenant="acme")
    assert started.wait(WAIT)
    service.threads.delete("t", tenant="acme")
    service.submit("desk", thread="t", message="hello", tenant="beta").result(WAIT)
    may_end.set()
    service.stop()
    assert work.calls == ["hello"]
    assert "SECRET" not in str(texts(service, "t", "beta"))


def test_nothing_of_a_deleted_thread_is_left(service: Service, tables: Tables, work: Work) -> None:
    """The new thread has the same messages with the same ids, and shares nothing."""
    once = OnceMiddleware({"do": "fail"})
    service.add("desk", agent(work, HumanInTheLoopMiddleware({"do": True}), once))
    service.start()
    streams, waits = [], []
    for _ in range(2):
        run = service.submit("desk", thread="t", message="Pay.", message_id="m")
        run.result(WAIT)
        (wait,) = service.inbox().waits(thread="t")
        service.decide(wait.id, "approve", by="ann").result(WAIT)
        streams.append({part["id"].partition(":")[0] for part in run.stream(timeout=WAIT)})
        waits.append(wait.id)
        service.threads.delete("t")
        for table in (threads, runs, events, effects):
            assert tables.rows(select(table)) == []
    assert work.calls == ["Pay.", "Pay."]
    assert streams[0].isdisjoint(streams[1])
    assert waits[0] != waits[1]


def test_an_approval_for_a_thread_ends_with_it(service: Service, work: Work) -> None:
    rule = Rule("do", "ask", remember=3600)
    service.add("desk", agent(work, HumanInTheLoopMiddleware(ToolPolicy(rule))))
    service.start()
    for at in range(2):
        run = service.submit("desk", thread="t", message="Pay.")
        assert "__interrupt__" in run.result(WAIT)
        (wait,) = service.inbox().waits(thread="t")
        remember = {"seconds": 60, "thread": at == 0}
        service.decide(wait.id, "approve", by="ann", remember=remember).result(WAIT)
        service.threads.delete("t", by="bob")
    (kept,) = service.approvals()
    assert kept.thread is None  # it holds in all threads
    # Its end is in the audit of its tenant, whosever the thread of that id is by now.
    service.threads.create("t", tenant="beta")
    service.revoke(kept.id, by="cid")
    assert [entry.who for entry in service.inbox("").audit() if entry.what == "revoke"] == ["cid"]
    assert service.inbox("beta").audit() == []


def test_ids_of_runs_belong_to_one_thread_of_one_tenant(service: Service, work: Work) -> None:
    """Their parts are joined so that no two ways to split them meet."""
    service.add("desk", agent(work))
    places = [("", "a", "b:c"), ("", "a:b", "c"), ("", "a", 'b", "c'), ("", 'a", "b', "c")]
    ids = {
        service.submit("desk", tenant=tenant, thread=thread, message="Hi", message_id=message).id
        for tenant, thread, message in places
    }
    assert len(ids) == len(places)
    mine = service.submit("desk", thread="mine", message="Hi", message_id="m", tenant="acme")
    service.threads.delete("mine")
    yours = service.submit("desk", thread="mine", message="Hi", message_id="m", tenant="beta")
    assert mine.id != yours.id
