"""Threads of a service: writing to one that waits, copies, going back, pauses, delays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import Connection, delete

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.service import HeldMessage, Service, ThreadBusy
from agent_factory.service import service as service_module
from agent_factory.service.database import Database
from agent_factory.service.errors import AlreadyDecided, DatabaseUnavailable, NotFound, RunCancelled
from agent_factory.service.tables import runs, threads, waits
from agent_factory.testing import ScriptedChatModel
from service.stored import Tables

WAIT = 60.0
PAID: list[str] = []
GOES_ON = Event()
"""Set once the model may answer slow messages."""


def pay(to: str) -> str:
    """Pay a bill."""
    PAID.append(to)
    return "Paid."


def answer(messages: list[BaseMessage]) -> AIMessage:
    text = messages[-1].text
    if isinstance(messages[-1], ToolMessage):
        return AIMessage("Done.")
    if text == "slow":
        assert GOES_ON.wait(WAIT)
    if not text.startswith("pay"):
        return AIMessage(f"You said: {text}")
    bills = text.split(" and ")
    return AIMessage(
        "", tool_calls=[{"name": "pay", "args": {"to": bill}, "id": uuid4().hex} for bill in bills]
    )


def desk(*, asks: bool = True, **options: Any) -> Any:
    model = ScriptedChatModel([answer] * 1000)
    reviews = [HumanInTheLoopMiddleware({"pay": True})] if asks else []
    return create_agent(model, [pay], middleware=reviews, checkpointer=InMemorySaver(), **options)


@pytest.fixture(scope="module")
def service(module_url: str) -> Iterator[Service]:
    with Service(module_url) as made:
        made.add("desk", desk())
        made.add("free", desk(asks=False))
        made.add("full", desk(checkpoints="full"))
        made.add("interrupts", desk(), waiting="interrupt")
        made.add("rejects", desk(), waiting="reject")
        made.add("busy rejects", desk(), busy="reject")
        yield made


def texts(service: Service, thread: str) -> list[str]:
    return [
        message.text for message in service.threads.state(thread).values["messages"] if message.text
    ]


def ask(service: Service, thread: str, agent: str = "desk") -> Any:
    """Let a thread wait; return what it waits for."""
    message = f"pay {thread}"
    assert "__interrupt__" in service.submit(agent, thread=thread, message=message).result(WAIT)
    (wait,) = service.inbox().waits(thread=thread)
    return wait


def test_a_waiting_thread_is_ended_by_a_write(service: Service, thread: str) -> None:
    run = service.run(ask(service, thread).run)
    held = service.submit("desk", thread=thread, message="Two")
    service.threads.update_state(thread, None, as_node="__end__", by="ann")
    assert run.status == "cancelled"
    assert held.result(WAIT)["messages"][-1].text == "You said: Two"
    assert service.inbox().waits(thread=thread) == []
    done = [(entry.who, entry.what) for entry in service.inbox().audit(thread=thread)]
    assert done == [("ann", "cancel"), ("ann", "withdraw"), ("ann", "write")]
    assert service.threads.get(thread).status == "idle"


def test_a_waiting_thread_asks_again_after_a_write(service: Service, thread: str) -> None:
    old = ask(service, thread)
    message = service.threads.state(thread).values["messages"][-1]
    call = {**message.tool_calls[0], "args": {"to": f"bob {thread}"}}
    changed = message.model_copy(update={"tool_calls": [call]})
    service.threads.update_state(thread, {"messages": [changed]}, as_node="model")
    (new,) = service.inbox().waits(thread=thread)
    assert new.id != old.id
    assert service.run(old.run).status == "waiting"
    service.decide(new.id, "approve", by="ann").result(WAIT)  # goes on to the review itself
    (review,) = service.inbox().waits(thread=thread)
    assert (review.kind, review.args) == ("review", {"to": f"bob {thread}"})
    paid = [to for to in PAID if thread in to]
    values = service.decide(review.id, "approve", by="ann").result(WAIT)
    assert (values["messages"][-1].text, paid, PAID[-1]) == ("Done.", [], f"bob {thread}")


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
    values = service.decide(wait.id, "approve", by="ann").result(WAIT)
    assert (values["messages"][-1].text, PAID.count(f"pay {thread}")) == ("Done.", 1)
    assert service.threads.get(thread).status == "waiting"
    assert len(service.inbox().waits(thread=thread)) == 1
    empty = service.threads.create(f"{thread}-empty", tenant="acme").id
    assert service.threads.copy(empty, tenant="acme").tenant == "acme"
    with pytest.raises(NotFound):
        service.threads.copy(empty, tenant="other")


def test_a_copy_keeps_the_order_of_parallel_results(service: Service, thread: str) -> None:
    bills = " and ".join(f"pay {number}" for number in range(12))
    service.submit("free", thread=thread, message=bills).result(WAIT)
    copy = service.threads.copy(thread).id
    assert service.threads.state(copy).values == service.threads.state(thread).values


def test_a_cancelled_run_is_rolled_back(service: Service, thread: str) -> None:
    service.run(ask(service, thread).run).cancel(roll_back=True)  # the first one
    assert service.threads.state(thread).values == {}
    run = service.run(ask(service, thread).run)
    held = service.submit("desk", thread=thread, message="Held")
    run.cancel(roll_back=True)
    held.result(WAIT)
    assert texts(service, thread) == ["Held", "You said: Held"]
    service.submit("desk", thread=thread, message="One").result(WAIT)
    run = service.run(ask(service, thread).run)
    before = ["Held", "You said: Held", "One", "You said: One"]
    assert texts(service, thread) == [*before, f"pay {thread}"]
    run.cancel(by="ann", roll_back=True)
    with pytest.raises(RunCancelled):
        run.result(WAIT)
    assert (texts(service, thread), service.threads.state(thread).next) == (before, ())
    service.submit("desk", thread=thread, message="Two").result(WAIT)
    assert texts(service, thread) == [*before, "Two", "You said: Two"]
    with pytest.raises(ArgumentError, match="does not go with undo"):
        run.cancel(undo=True, roll_back=True)


def test_a_run_pauses_at_a_node(service: Service, thread: str) -> None:
    run = service.submit("free", thread=thread, message="pay", interrupt_before=["tools"])
    assert run.result(WAIT)["__interrupt__"] == []
    (wait,) = service.inbox().waits(thread=thread)
    assert (wait.kind, wait.tool, wait.args) == ("pause", "pay", {"to": "pay"})
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


# Messages to a thread that waits: held, sent now, or refused


def checkpoint_before(service: Service, thread: str) -> str:
    """The checkpoint after the first answer of a thread."""
    service.submit("desk", thread=thread, message="Hi").result(WAIT)
    place: str = service.threads.state(thread).config["configurable"]["checkpoint_id"]
    return place


DEFAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("desk", {}, "queue"),
    ("interrupts", {}, "interrupt"),
    ("rejects", {}, "reject"),
    ("busy rejects", {}, "queue"),
    ("desk", {"busy": "interrupt"}, "interrupt"),
    ("desk", {"busy": "reject"}, "reject"),
    ("interrupts", {"busy": "queue"}, "queue"),
    ("rejects", {"busy": "reject", "waiting": "interrupt"}, "interrupt"),
    ("interrupts", {"busy": "interrupt", "waiting": "queue"}, "queue"),
    ("desk", {"busy": "rollback", "waiting": "reject"}, "reject"),
]


@pytest.mark.parametrize(("agent", "options", "expected"), DEFAULTS, ids=str)
def test_what_a_message_to_a_waiting_thread_does(
    service: Service, thread: str, agent: str, options: dict[str, Any], expected: str
) -> None:
    """`waiting` decides, or else the `busy` of the message, or else that of `add`."""
    wait = ask(service, thread, agent)
    if expected == "reject":
        with pytest.raises(ThreadBusy, match=r"waits for a decision\. .*waiting='interrupt'"):
            service.submit(agent, thread=thread, message="Two", **options)
        assert service.inbox().get(wait.id).decided_at is None
        return
    run = service.submit(agent, thread=thread, message="Two", by="bob", **options)
    if expected == "queue":
        assert run.status == "held"
        service.decide(wait.id, "approve", by="ann")
    run.result(WAIT)
    assert texts(service, thread)[-2:] == ["Two", "You said: Two"]
    assert (f"pay {thread}" in PAID) is (expected == "queue")


def test_a_question_is_withdrawn_by_a_message_sent_now(service: Service, thread: str) -> None:
    wait = ask(service, thread)
    run = service.submit("desk", thread=thread, message="Stop.", waiting="interrupt", by="bob")
    assert [one.text for one in run.result(WAIT)["messages"] if one.text] == [
        f"pay {thread}",
        "This call of pay did not run: the user sent a new message instead.",
        "Stop.",
        "You said: Stop.",
    ]
    assert (service.inbox().waits(thread=thread), PAID.count(f"pay {thread}")) == ([], 0)
    cancelled, withdrawn = service.inbox().audit(thread=thread)
    assert (withdrawn.who, withdrawn.what, withdrawn.wait_id) == ("bob", "withdraw", wait.id)
    assert withdrawn.detail == {"tool": "pay", "args": {"to": f"pay {thread}"}}
    assert (cancelled.who, cancelled.what) == ("bob", "cancel")
    with pytest.raises(AlreadyDecided, match="by 'bob'"):
        service.decide(wait.id, "approve", by="ann")


def test_what_is_held_is_shown(service: Service, thread: str) -> None:
    place = checkpoint_before(service, thread)
    assert service.threads.held(thread) == []
    wait = ask(service, thread)
    first = service.submit("desk", thread=thread, message="Wait, do not pay.")
    fork = service.submit("desk", thread=thread, message=["Another", "way."], checkpoint=place)
    goes_on = service.submit("desk", thread=thread, checkpoint=place)
    held = service.threads.held(thread, tenant="")
    assert held == [
        HeldMessage(first.id, "Wait, do not pay.", None, first.info.created_at),
        HeldMessage(fork.id, "Another\nway.", place, fork.info.created_at),
        HeldMessage(goes_on.id, "", place, goes_on.info.created_at),
    ]
    with pytest.raises(NotFound):
        service.threads.held(thread, tenant="other")
    with pytest.raises(NotFound):
        service.threads.held("nobody")
    goes_on.cancel()
    assert service.threads.held(thread) == held[:2]
    service.decide(wait.id, "approve", by="ann")
    fork.result(WAIT)
    assert service.threads.held(thread) == []
    assert texts(service, thread) == ["Hi", "You said: Hi", "Another", "way.", "You said: way."]


@pytest.mark.parametrize("held_before", [False, True])
def test_a_fork_is_sent_now(service: Service, thread: str, held_before: bool) -> None:
    """Held messages stay in the thread, in their order, on the branch that is the newest then."""
    at = checkpoint_before(service, thread)
    ask(service, thread)
    if held_before:
        service.submit("desk", thread=thread, message="First")
    fork = service.submit("desk", thread=thread, message="Fork", checkpoint=at, waiting="interrupt")
    fork.result(WAIT)
    before = ["First"] if held_before else []
    assert texts(service, thread) == ["Hi", "You said: Hi", *before, "Fork", "You said: Fork"]
    assert (service.threads.held(thread), PAID.count(f"pay {thread}")) == ([], 0)


def test_a_message_that_is_sent_now_follows_a_held_fork(service: Service, thread: str) -> None:
    place = checkpoint_before(service, thread)
    ask(service, thread)
    fork = service.submit("desk", thread=thread, message="Fork", checkpoint=place)
    service.submit("desk", thread=thread, message="Now", waiting="interrupt").result(WAIT)
    assert fork.status == "cancelled"
    assert texts(service, thread) == ["Hi", "You said: Hi", "Fork", "Now", "You said: Now"]


@pytest.mark.parametrize("how", ["interrupt", "rollback"])
def test_what_undoes_a_run_is_not_interrupted(service: Service, thread: str, how: Any) -> None:
    wait = ask(service, thread)
    service.stop()
    service.run(wait.run).cancel(undo=True)
    message = service.submit("desk", thread=thread, message="Two", busy=how)
    service.start()
    message.result(WAIT)
    assert service.run(f"undo-{wait.run}").status == "done"
    assert next(entry.what for entry in service.inbox().audit(thread=thread)) == "undo"


def test_a_message_is_sent_now_after_the_tables_were_written_again(
    service: Service, module_url: str, thread: str
) -> None:
    ask(service, thread)
    tables = (threads, waits, runs)
    with closing(Database(module_url)) as database:
        Tables(database).write(*(delete(t).where(t.c.thread_id == thread) for t in tables))
    assert thread in [*service.reindex()]
    run = service.submit("desk", thread=thread, message="Stop.", waiting="interrupt")
    assert run.result(WAIT)["messages"][-1].text == "You said: Stop."
    assert PAID.count(f"pay {thread}") == 0


class FailsOnce(Database):
    """A database that is not available in the middle of the first transaction that writes."""

    fails = True

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        with super().begin() as connection:
            yield connection
            if self.fails:
                self.fails = False
                raise DatabaseUnavailable("the database", "is not available.")


@pytest.mark.long
def test_a_message_is_submitted_while_the_database_restarts(
    service: Service, module_url: str, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "Database", FailsOnce)
    with closing(Service(module_url)) as other:
        other.add("desk", desk())
        run = other.submit("desk", thread=thread, message="Hi", delay=0.01)
        assert run.result(WAIT)["messages"][-1].text == "You said: Hi"


def test_the_last_words_of_a_thread_are_those_of_its_last_message(service: Service) -> None:
    ask(service, "words")
    service.submit("desk", thread="words", message="and then?", waiting="queue")
    service.submit("desk", thread="other words", message="Hi").result(WAIT)
    service.threads.create("no words")
    ids = ["words", "other words", "no words", "none"]
    words = {"words": "and then?", "other words": "Hi"}
    assert service.threads.last_words(ids) == words
    assert service.threads.last_words(ids, tenant="acme") == {}
    assert service.threads.last_words([]) == {}


def test_waits_are_found_by_their_ids_and_threads_also_once_they_are_decided(
    service: Service,
) -> None:
    first, second = ask(service, "find-1"), ask(service, "find-2")
    service.decide(first.id, "reject", by="ann").result(WAIT)
    inbox, ids = service.inbox(), [first.id, second.id]
    assert [wait.id for wait in inbox.find(ids=ids)] == [second.id, first.id]
    assert [wait.id for wait in inbox.find(ids=ids, undecided=True)] == [second.id]
    (wait,) = inbox.find(threads=["find-1"])
    assert (wait.decided_by, wait.checkpoint_id) == ("ann", first.checkpoint_id)
    assert service.inbox("acme").find(ids=ids) == []
    assert len(inbox.find(ids=ids, limit=1)) == 1
