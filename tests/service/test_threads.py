"""Threads of a service: writing to one that waits, copies, going back, pauses, delays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.service import NotFound, RunCancelled, Service, ThreadBusy
from agent_factory.testing import ScriptedChatModel
from waiting import until

WAIT = 60.0
PAID: list[int] = []
GOES_ON = Event()
"""Set once the model may answer slow messages."""


def pay(euros: int) -> str:
    """Pay a bill."""
    PAID.append(euros)
    return f"Paid {euros}."


def answer(messages: list[BaseMessage]) -> AIMessage:
    if isinstance(messages[-1], ToolMessage):
        return AIMessage("Done.")
    if "slow" in messages[-1].text:
        assert GOES_ON.wait(WAIT)
    if "pay" not in messages[-1].text:
        return AIMessage(f"You said: {messages[-1].text}")
    call = {"name": "pay", "args": {"euros": 5}, "id": uuid4().hex}
    return AIMessage("", tool_calls=[call])


def desk(**options: Any) -> Any:
    model = ScriptedChatModel([answer] * 1000)
    return create_agent(model, [pay], checkpointer=InMemorySaver(), **options)


@pytest.fixture(scope="module")
def service(module_url: str) -> Iterator[Service]:
    with Service(module_url) as made:
        made.add("desk", desk(middleware=[HumanInTheLoopMiddleware({"pay": True})]))
        made.add("free", desk())
        made.add(
            "full", desk(checkpoints="full", middleware=[HumanInTheLoopMiddleware({"pay": True})])
        )
        yield made


def texts(service: Service, thread: str) -> list[str]:
    return [message.text for message in service.threads.state(thread).values["messages"]]


def ask(service: Service, thread: str, agent: str = "desk") -> str:
    """Let a thread wait for a review; return the id of its run."""
    run = service.submit(agent, thread=thread, message="pay")
    assert "__interrupt__" in run.result(WAIT)
    return run.id


def test_a_waiting_thread_is_ended_by_a_write(service: Service, thread: str) -> None:
    run = service.run(ask(service, thread))
    held = service.submit("desk", thread=thread, message="Two")
    service.threads.update_state(thread, None, as_node="__end__", by="ann")
    assert run.status == "cancelled"
    assert held.result(WAIT)["messages"][-1].text == "You said: Two"
    assert service.inbox().waits(thread=thread) == []
    done = [(entry.who, entry.what) for entry in service.inbox().audit(thread=thread)]
    assert done == [("ann", "cancel"), ("ann", "withdraw"), ("ann", "write")]
    assert service.threads.get(thread).status == "idle"


def test_a_waiting_thread_asks_again_after_a_write(service: Service, thread: str) -> None:
    run = service.run(ask(service, thread))
    (old,) = service.inbox().waits(thread=thread)
    message = service.threads.state(thread).values["messages"][-1]
    call = {**message.tool_calls[0], "args": {"euros": 7}}
    changed = message.model_copy(update={"tool_calls": [call]})
    service.threads.update_state(thread, {"messages": [changed]}, as_node="model")
    (new,) = service.inbox().waits(thread=thread)
    assert new.id != old.id
    assert run.status == "waiting"
    before = len(PAID)
    service.decide(new.id, "approve", by="ann").result(WAIT)  # goes on to the review itself
    (review,) = service.inbox().waits(thread=thread)
    assert (review.kind, review.args, len(PAID)) == ("review", {"euros": 7}, before)
    values = service.decide(review.id, "approve", by="ann").result(WAIT)
    assert (values["messages"][-1].text, PAID[before:]) == ("Done.", [7])


def test_a_write_says_what_is_wrong(service: Service, thread: str) -> None:
    service.submit("desk", thread=thread, message="Hi").result(WAIT)
    with pytest.raises(ArgumentError, match="values: cannot be written"):
        service.threads.update_state(thread, {"messages": []}, as_node="nobody")
    # What a reducer raises depends on what is wrong with a value.
    wrong: list[Any] = [3, [{}], [["user"]], [[]], [None], [{"role": {}, "content": ""}]]
    for messages in wrong:
        with pytest.raises(ArgumentError, match="values: cannot be written"):
            service.threads.update_state(thread, {"messages": messages})
    service.submit("desk", thread=thread, message="slow")
    with pytest.raises(ThreadBusy, match=r"is (queued|running)"):
        service.threads.update_state(thread, {"messages": []})
    GOES_ON.set()


def test_a_write_at_an_earlier_checkpoint(service: Service, thread: str) -> None:
    service.submit("desk", thread=thread, message="One").result(WAIT)
    first = service.threads.state(thread).config["configurable"]["checkpoint_id"]
    service.submit("desk", thread=thread, message="Two").result(WAIT)
    service.threads.update_state(thread, {"messages": [AIMessage("By hand.")]}, checkpoint=first)
    assert texts(service, thread) == ["One", "You said: One", "By hand."]


@pytest.mark.parametrize("agent", ["desk", "full"])
def test_a_thread_is_copied(service: Service, thread: str, agent: str) -> None:
    service.submit(agent, thread=thread, message="One").result(WAIT)
    ask(service, thread, agent)
    service.threads.change(thread, metadata={"topic": "lamps"})
    copy = service.threads.copy(thread, by="ann")
    assert (copy.status, copy.agent, copy.metadata) == ("waiting", agent, {"topic": "lamps"})
    first, second = [*service.threads.history(thread)], [*service.threads.history(copy.id)]
    assert [state.values for state in first] == [state.values for state in second]
    assert [state.next for state in first] == [state.next for state in second]
    (wait,) = service.inbox().waits(thread=copy.id)
    before = len(PAID)
    values = service.decide(wait.id, "approve", by="ann").result(WAIT)
    assert (values["messages"][-1].text, len(PAID) - before) == ("Done.", 1)
    assert service.threads.get(thread).status == "waiting"
    assert len(service.inbox().waits(thread=thread)) == 1


def test_an_empty_thread_is_copied_for_its_tenant(service: Service, thread: str) -> None:
    service.threads.create(thread, tenant="acme")
    assert service.threads.copy(thread, tenant="acme").tenant == "acme"
    with pytest.raises(NotFound):
        service.threads.copy(thread, tenant="other")


def test_a_cancelled_run_is_rolled_back(service: Service, thread: str) -> None:
    service.submit("desk", thread=thread, message="One").result(WAIT)
    run = service.run(ask(service, thread))
    assert len(texts(service, thread)) == 4
    run.cancel(by="ann", roll_back=True)
    with pytest.raises(RunCancelled):
        run.result(WAIT)
    state = service.threads.state(thread)
    assert (texts(service, thread), state.next) == (["One", "You said: One"], ())
    service.submit("desk", thread=thread, message="Two").result(WAIT)
    assert texts(service, thread) == ["One", "You said: One", "Two", "You said: Two"]
    with pytest.raises(ArgumentError, match="does not go with undo"):
        run.cancel(undo=True, roll_back=True)


def test_the_first_run_of_a_thread_is_rolled_back(service: Service, thread: str) -> None:
    service.run(ask(service, thread)).cancel(roll_back=True)
    assert service.threads.state(thread).values == {}
    run = service.run(ask(service, thread))
    held = service.submit("desk", thread=thread, message="Two")
    run.cancel(roll_back=True)
    held.result(WAIT)
    assert texts(service, thread) == ["Two", "You said: Two"]


def test_a_run_pauses_at_a_node(service: Service, thread: str) -> None:
    run = service.submit("free", thread=thread, message="pay", interrupt_before=["tools"])
    assert run.result(WAIT)["__interrupt__"] == []
    (wait,) = service.inbox().waits(thread=thread)
    assert (wait.kind, wait.tool, wait.args) == ("pause", "pay", {"euros": 5})
    values = service.decide(wait.id, "approve", by="ann").result(WAIT)
    assert values["messages"][-1].text == "Done."
    after = service.submit("free", thread=thread, message="pay", interrupt_after="*")
    steps = 0
    while "__interrupt__" in after.result(WAIT):
        steps += 1
        assert steps < 5
        (wait,) = service.inbox().waits(thread=thread)
        service.decide(wait.id, "approve", by="ann")
    assert (steps, texts(service, thread)[-1]) == (2, "Done.")
    with pytest.raises(ArgumentError, match=r"interrupt_before: must name nodes .* got nobody"):
        service.submit("free", thread=thread, message="Hi", interrupt_before=["nobody"])


@pytest.mark.long
def test_a_run_begins_later(service: Service, thread: str) -> None:
    run = service.submit("free", thread=thread, message="Hi", delay=0.4)
    after = service.submit("free", thread=thread, message="Two")
    assert run.status == "queued"
    run.result(WAIT)
    after.result(WAIT)
    assert texts(service, thread)[::2] == ["Hi", "Two"]
    later = service.submit("free", thread=thread, message="Three", delay=1000)
    service.submit("free", message="Hi").result(WAIT)  # other threads begin before it
    assert later.status == "queued"
    later.cancel()
    assert service.submit("free", thread=thread, message="Four").result(WAIT)
    assert "Three" not in texts(service, thread)


def test_a_failed_run_goes_on(service: Service, thread: str) -> None:
    service.submit("free", thread=thread, message="pay", config={"recursion_limit": 1})
    run = service.threads.runs(thread)[0]
    with pytest.raises(Exception, match="Recursion limit"):
        run.result(WAIT)
    values = service.submit("free", thread=thread, message=None).result(WAIT)
    assert [one.text for one in values["messages"]][-1] == "Done."


def test_a_stream_shows_no_events_of_another_thread(service: Service, thread: str) -> None:
    service.submit("free", thread=thread, message="Hi").result(WAIT)
    other = service.submit("free", message="Hi", tenant="other")
    with pytest.raises(ArgumentError, match="is not the id of a part"):
        next(other.stream(after=f"{thread}/00000001:0:0"))


def is_over(moment: float) -> bool:
    return time.time() > moment


def test_threads_are_sorted(service: Service) -> None:
    tenant, ids = uuid4().hex, [f"{name}-{uuid4().hex}" for name in "bca"]
    for one in ids:
        created_at = service.threads.create(one, tenant=tenant).created_at
        until(partial(is_over, created_at + 0.002))  # SQLite's clock counts milliseconds

    def found(**order: Any) -> list[str]:
        return [one.id for one in service.threads.search(tenant=tenant, **order)]

    assert found(sort_by="thread_id", descending=False) == sorted(ids)
    assert found(sort_by="created_at") == ids[::-1]
    assert found(sort_by="created_at", descending=False) == ids
    with pytest.raises(ArgumentError, match="sort_by: must be one of"):
        found(sort_by="name")
