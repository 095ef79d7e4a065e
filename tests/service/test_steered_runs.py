"""Messages to the run under way: read at its next step, or the next run; once, in each order."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from sqlalchemy import select

from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware, PIIMiddleware
from agent_factory.service import NotFound, Run, RunCancelled, RunFailed, Service, ThreadBusy
from agent_factory.service.attempt import RunAttempt
from agent_factory.service.message_serializer import load
from agent_factory.service.steering import SharedMailbox
from agent_factory.service.tables import runs
from agent_factory.testing import assert_valid_history
from service.stage import WAIT, Stage
from service.stored import Tables
from waiting import until


@pytest.fixture
def desk(service: Service, stage: Stage) -> Service:
    """A service without a worker whose agent can be steered."""
    service.add("desk", stage.agent(), configurable=["tier"])
    service.add("other", stage.agent())
    return service


def say(service: Service, text: Any, *, agent: str = "desk", **options: Any) -> Run:
    return service.submit(agent, thread="t", message=text, **options)


def steer(service: Service, text: Any, **options: Any) -> Run:
    return say(service, text, busy="steer", **options)


def begin(service: Service, stage: Stage) -> Run:
    """A run whose tool works."""
    service.start()
    run = say(service, "work")
    stage.wait_until_it_works()
    return run


def begin_again(service: Service, stage: Stage) -> tuple[Run, Run]:
    """A run whose tool works, in a thread that had a run before, and a message to it."""
    service.start()
    say(service, "hello").result(WAIT)
    run = say(service, "work first")
    stage.wait_until_it_works()
    return run, steer(service, "work more")


def texts(service: Service, *, kind: str = "human") -> list[str]:
    messages = service.threads.state("t").values["messages"]
    assert_valid_history(messages)
    return [message.text for message in messages if message.type == kind]


# What a message does


def test_a_run_reads_a_message_at_its_next_step_as_one_record(desk: Service, stage: Stage) -> None:
    run = begin(desk, stage)
    message = steer(desk, "in euros", by="ann")
    assert (message.status, message.info.job, message.info.reader) == ("queued", None, None)
    (entry,) = desk.inbox().audit(thread="t")
    assert (entry.who, entry.what) == ("ann", "steer")
    assert entry.detail == {"run": message.id, "to": run.id}
    assert [part.text for part in message.messages] == ["in euros"]
    parts = message.stream(timeout=WAIT)
    stage.go_on()
    assert [*parts] == (stream := [*run.stream(timeout=WAIT)])
    assert stream[-1]["data"]["status"] == "done"
    kinds = [part.type for part in message.result(WAIT)["messages"]]
    assert kinds == ["human", "ai", "tool", "human", "ai"]
    assert texts(desk, kind="ai")[-1] == "Read: work, in euros"
    assert run.result(WAIT) == message.result(WAIT)
    assert (message.status, message.info.reader, run.info.reader) == ("done", run.id, None)
    # What both have cost is that of the run, with which the record of the message goes.
    assert (message.info.usage, desk.threads.usage("t")) == ([], run.info.usage)
    run.delete()
    assert desk.threads.runs("t") == []
    with pytest.raises(NotFound):
        desk.run(message.id)


def test_a_run_that_did_not_begin_reads_a_message_with_its_own(desk: Service, stage: Stage) -> None:
    run, message = say(desk, "hello"), steer(desk, "in euros")
    desk.start()
    assert message.result(WAIT)["messages"][-1].text == "Read: hello, in euros"
    assert message.info.reader == run.id
    assert stage.calls == [["hello", "in euros"]]


def test_messages_are_read_in_their_order_and_before_those_that_wait_for_their_turn(
    desk: Service, stage: Stage
) -> None:
    begin(desk, stage)
    queued = say(desk, "queued")
    for text in ("one", "two", [HumanMessage("three"), HumanMessage("four")]):
        steer(desk, text)
    once = [steer(desk, "once", message_id="m-1") for _ in range(2)]
    stage.go_on()
    queued.result(WAIT)
    once.append(steer(desk, "once", message_id="m-1"))
    once[-1].result(WAIT)
    assert texts(desk) == ["work", "one", "two", "three", "four", "once", "queued"]
    assert (len(stage.calls), len({run.id for run in once})) == (3, 1)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_agent_steers_by_default(service: Service, stage: Stage, asynchronous: bool) -> None:
    service.add("desk", stage.agent(), busy="steer", asynchronous=asynchronous)
    run = begin(service, stage)
    message, queued = say(service, "in euros"), say(service, "later", busy="queue")
    stage.go_on()
    queued.result(WAIT)
    assert (message.info.reader, queued.info.reader) == (run.id, None)
    assert message.request["busy"] == "steer"


OTHERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "another context": ("two", {"context": {"user": "bob"}}),
    "another config": ("two", {"config": {"configurable": {"tier": "gold"}}}),
    "a later begin": ("two", {"delay": 0.001}),
    "a key of the state": ({"messages": [HumanMessage("two")], "mood": "fine"}, {}),
    "a message of the system": ([SystemMessage("two")], {}),
    "another agent": ("two", {"agent": "other"}),
    "another pause, after which the thread waits": ("two", {"interrupt_after": ["model"]}),
}


def test_what_the_run_cannot_read_waits_for_its_turn(desk: Service, stage: Stage) -> None:
    run = begin(desk, stage)
    others = {what: steer(desk, message, **options) for what, (message, options) in OTHERS.items()}
    stage.go_on()
    assert [part.text for part in run.result(WAIT)["messages"] if part.type == "human"] == ["work"]
    for what, other in others.items():
        other.result(WAIT)
        assert other.info.reader is None, what
    assert (run.info.agent, others["another agent"].info.agent) == ("desk", "other")


def test_a_fork_waits_for_its_turn_and_does_not_read_what_was_sent_later(
    desk: Service, stage: Stage
) -> None:
    desk.start()
    say(desk, "hello").result(WAIT)
    place = desk.threads.state("t").config["configurable"]["checkpoint_id"]
    say(desk, "work")
    stage.wait_until_it_works()
    message, fork = steer(desk, "in euros"), steer(desk, "fork", checkpoint=place)
    stage.go_on()
    fork.result(WAIT)
    assert (message.status, fork.info.reader) == ("done", None)
    assert texts(desk) == ["hello", "fork"]


# Agents that cannot be steered


def test_an_agent_without_the_middleware_is_refused(service: Service, stage: Stage) -> None:
    hint = r"agent 'plain' has no SteeringMiddleware.* Write create_agent\(\.\.\., middleware="
    with pytest.raises(ArgumentError, match=hint):
        service.add("plain", stage.agent(steered=False), busy="steer")
    service.add("plain", stage.agent(steered=False))
    with pytest.raises(ArgumentError, match=hint):
        service.submit("plain", thread="t", message="Hi", busy="steer")
    with pytest.raises(NotFound):
        service.threads.get("t")


# Threads that wait for a decision


def waiting(service: Service, stage: Stage, **options: Any) -> Run:
    """A run that waits for a decision."""
    stage.go_on()
    service.add("desk", stage.agent(HumanInTheLoopMiddleware({"work": True})), **options)
    service.start()
    run = say(service, "work")
    assert "__interrupt__" in run.result(WAIT)
    return run


@pytest.mark.parametrize(
    "options", [{"waiting": "interrupt"}, {"waiting": "reject"}, {"waiting": "queue"}], ids=str
)
def test_a_thread_that_waits_does_what_waiting_says(
    service: Service, stage: Stage, options: dict[str, Any]
) -> None:
    """Also where `waiting` is that of the agent."""
    run = waiting(service, stage, **options)
    for chosen in ({}, options):
        if options["waiting"] == "reject":
            with pytest.raises(ThreadBusy, match="waits for a decision"):
                steer(service, "stop", **chosen)
        elif options["waiting"] == "queue":
            message = steer(service, "stop", **chosen)
            assert message.status == "held"
        else:
            assert steer(service, "stop", **chosen).result(WAIT)["messages"][-1].type == "ai"
            assert run.status == "cancelled"
            return
    if options["waiting"] == "queue":  # held messages are read after the decision
        assert [each.text for each in service.threads.held("t")] == ["stop", "stop"]
        (wait,) = service.inbox().waits(thread="t")
        service.decide(wait.id, "approve", by="ann").result(WAIT)
        assert message.result(WAIT)["messages"][-1].text == "Read: work, stop, stop"
        assert message.info.reader == run.id


def test_a_message_that_was_read_waits_with_its_run(service: Service, stage: Stage) -> None:
    """Its caller sees the question, and the end after the decision."""
    service.add("desk", stage.agent(HumanInTheLoopMiddleware({"work": True})))
    say(service, "hello")
    message = steer(service, "work")
    service.start()
    assert "__interrupt__" in message.result(WAIT)
    assert message.status == "waiting"
    assert [*message.stream(timeout=WAIT)][-1]["data"]["status"] == "waiting"
    assert service.threads.count_runs("t", status=["waiting"]) == 2
    stage.go_on()
    (wait,) = service.inbox().waits(thread="t")
    service.decide(wait.id, "approve", by="ann")
    assert message.result(WAIT)["messages"][-1].text == "Read: hello, work"
    assert service.threads.count_runs("t", status=["done"]) == 2


# A run that ends while a message is sent


def test_a_message_that_comes_with_the_last_answer_is_answered(desk: Service, stage: Stage) -> None:
    """The run looks once more before it ends."""
    desk.start()
    sent: list[Run] = []
    stage.at_answer.append(lambda: sent.append(steer(desk, "in euros")))
    run = steer(desk, "hello")  # which begins a run, as the thread is idle
    assert run.result(WAIT)["messages"][-1].text == "Read: hello, in euros"
    assert (run.info.reader, sent[0].info.reader) == (None, run.id)


@pytest.mark.parametrize("when", ["after the last look", "after the end"])
def test_a_message_that_comes_too_late_is_the_next_run(
    desk: Service, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    finish, sent = RunAttempt.finish, list[Run]()

    def send() -> None:
        if not sent:
            sent.append(steer(desk, "in euros"))

    def send_and_finish(attempt: RunAttempt) -> str:
        if when == "after the last look":
            send()
        status = finish(attempt)
        send()
        return status

    monkeypatch.setattr(RunAttempt, "finish", send_and_finish)
    desk.start()
    run = say(desk, "hello")
    assert run.result(WAIT)["messages"][-1].text == "Read: hello"
    until(lambda: sent)
    assert sent[0].result(WAIT)["messages"][-1].text == "Read: hello, in euros"
    assert sent[0].info.reader is None


class Ending:
    """Does something after a run has looked into its mailbox, before it stores what it has read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
        look, self.texts = SharedMailbox.messages, list[str]()

        def messages(mailbox: SharedMailbox) -> Mapping[str, HumanMessage]:
            waiting = look(mailbox)
            if waiting and not self.texts:
                self.texts = [message.text for message in waiting.values()]
                act()
            return waiting

        monkeypatch.setattr(SharedMailbox, "messages", messages)


def test_a_run_that_is_cancelled_after_its_look_leaves_the_message_to_the_next_run(
    desk: Service, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(desk, stage)
    ending = Ending(monkeypatch, run.cancel)
    message = steer(desk, "in euros")
    stage.go_on()
    message.result(WAIT)
    assert (ending.texts, run.status, message.info.reader) == (["in euros"], "cancelled", None)
    assert texts(desk) == ["work", "in euros"]


def test_a_run_that_fails_before_it_reads_leaves_the_message(desk: Service, stage: Stage) -> None:
    desk.start()
    sent: list[Run] = []

    def send_and_fail() -> None:
        sent.append(steer(desk, "in euros"))
        raise ValueError("the model is out of order")

    stage.at_answer.append(send_and_fail)
    run = say(desk, "hello")
    with pytest.raises(RunFailed):
        run.result(WAIT)
    assert sent[0].result(WAIT)["messages"][-1].text == "Read: hello, in euros"
    assert (sent[0].info.reader, texts(desk)) == (None, ["hello", "in euros"])


def test_a_run_that_fails_after_it_has_read_is_the_outcome_of_the_message(
    desk: Service, stage: Stage
) -> None:
    run = begin(desk, stage)
    message = steer(desk, "fail")
    stage.go_on()
    with pytest.raises(RunFailed, match=f"{message.id}.*out of order"):
        message.result(WAIT)
    assert (message.status, message.info.reader) == ("failed", run.id)
    assert desk.threads.get("t").status == "failed"
    assert texts(desk)[-1] == "fail"


# Messages that end the run


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "unread"])
@pytest.mark.parametrize("busy", ["interrupt", "rollback"])
def test_another_message_ends_the_run_that_is_steered(
    desk: Service, stage: Stage, busy: Any, is_read: bool
) -> None:
    run, message = begin_again(desk, stage)
    if is_read:
        stage.go_on()
        stage.wait_until_it_works()
        assert message.info.reader == run.id
    stop = say(desk, "stop", busy=busy)
    stage.go_on()
    stop.result(WAIT)
    assert (run.status, message.status) == ("cancelled", "cancelled")
    written = ["work first", "work more"] if busy == "interrupt" else []
    assert texts(desk) == ["hello", *written, "stop"]


# Cancelling, deleting


def test_a_message_is_withdrawn_unread(desk: Service, tables: Tables, stage: Stage) -> None:
    run = begin(desk, stage)
    message = steer(desk, "in euros")
    message.cancel()
    stage.go_on()
    run.result(WAIT)
    assert (message.status, texts(desk)) == ("cancelled", ["work"])
    with pytest.raises(RunCancelled):
        message.result(WAIT)
    desk.threads.delete("t")
    assert tables.rows(select(runs.c.run_id)) == []


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "unread"])
def test_a_run_that_is_rolled_back_takes_what_it_has_read_with_it(
    desk: Service, stage: Stage, is_read: bool
) -> None:
    """What it has not read is the next run, on the thread as it was before."""
    run, message = begin_again(desk, stage)
    if is_read:
        stage.go_on()
        stage.wait_until_it_works()
        message.cancel(roll_back=True)
        assert (run.status, message.status) == ("cancelled", "cancelled")
        assert texts(desk) == ["hello"]
        return
    run.cancel(roll_back=True)
    stage.go_on(2)
    message.result(WAIT)
    assert (run.status, message.info.reader) == ("cancelled", None)
    assert texts(desk) == ["hello", "work more"]


def test_a_message_that_is_withdrawn_while_the_run_reads_it_is_not_lost_from_the_record(
    desk: Service, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the thread, so its status must not say that it was withdrawn."""
    run = begin(desk, stage)
    message = steer(desk, "in euros")
    Ending(monkeypatch, message.cancel)
    stage.go_on()
    run.result(WAIT)
    assert texts(desk) == ["work", "in euros"]
    assert (message.status, message.info.reader) == ("done", run.id)


def test_the_record_of_a_message_that_was_read_is_deleted_and_its_run_stays(
    desk: Service, stage: Stage
) -> None:
    run = begin(desk, stage)
    message = steer(desk, "work more")
    stage.go_on()
    stage.wait_until_it_works()
    message.delete()
    with pytest.raises(NotFound):
        desk.run(message.id)
    stage.go_on()
    assert run.result(WAIT)["messages"][-1].text == "Read: work, work more"
    assert len([*run.stream(timeout=WAIT)]) > 1


def test_what_a_guard_removes_is_not_queued(service: Service, tables: Tables, stage: Stage) -> None:
    redact, block = PIIMiddleware("email"), PIIMiddleware("ip", strategy="block")
    service.add("desk", stage.agent(redact, block))
    begin(service, stage)
    with pytest.raises(ArgumentError, match="refused by the agent"):
        steer(service, "from 10.0.0.1")
    message = steer(service, "to ann@example.com")
    payloads = tables.values(select(runs.c.payload))
    stored = [load(b64decode(json.loads(payload)["input"])) for payload in payloads]
    assert stored[1]["messages"][0].text == "to [REDACTED_EMAIL]"
    stage.go_on()
    message.result(WAIT)
    assert texts(service) == ["work", "to [REDACTED_EMAIL]"]


# What the record says


def test_a_webhook_of_a_message_waits_for_the_run_that_read_it(desk: Service, stage: Stage) -> None:
    begin(desk, stage)
    message = steer(desk, "work more")
    desk.webhooks.add(message.id, "https://hooks.example.com")
    stage.go_on()
    stage.wait_until_it_works()
    assert message.info.reader is not None
    assert desk.webhooks.claim_due() == []
    stage.go_on()
    message.result(WAIT)
    assert [webhook.run.id for webhook in desk.webhooks.claim_due()] == [message.id]
