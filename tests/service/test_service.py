"""Messages, reviews, busy threads, tenants, limits: what users of a service see."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from agent_factory import ToolRuntime, create_agent
from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.review import DecisionNotAllowed, InvalidAnswer, InvalidDecision
from agent_factory.service import Pace, RunFailed, Service
from agent_factory.service.backend import Backend
from agent_factory.service.database import Database
from agent_factory.service.errors import AlreadyDecided, ClaimedByOther, NotFound, RunCancelled
from agent_factory.service.signals import Moment
from agent_factory.testing import ScriptedChatModel
from samples import pay
from service.desk import Journal, check_history, make_desk, waiting
from service.paces import NEVER
from tables import each
from waiting import until

WAIT = 60.0


GATE = Event()
"""While it is not set, the model of `echo` does not answer."""
GATE.set()


def echo(messages: list[BaseMessage]) -> AIMessage:
    assert GATE.wait(WAIT)
    return AIMessage(f"You said: {messages[-1].text}")


def fail(messages: list[BaseMessage]) -> AIMessage:
    if "fail" in messages[-1].text:
        raise ValueError("the model is out of order")
    return AIMessage("Fine.")


def ask(question: str) -> str:
    """Ask a person."""
    return f"The person said {interrupt({'question': question})}."


def tell(runtime: ToolRuntime[dict[str, str], Any]) -> str:
    """Tell the settings of the run."""
    config, user = runtime.config, runtime.context["user"]
    return f"{user} {config['configurable']['language']} {config['recursion_limit']}"


def caller(name: str, *arguments: dict[str, Any], then: str) -> ScriptedChatModel:
    """A model that calls a tool once for each of the arguments, and then answers."""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage(then)
        calls = [{"name": name, "args": args, "id": uuid4().hex} for args in arguments]
        return AIMessage("", tool_calls=calls)

    return ScriptedChatModel([answer] * 1000)


@pytest.fixture(scope="module")
def service(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a worker and several agents; tests have threads of their own."""

    def agent(model: Any, *tools: Any, reviewed: str = "", **options: Any) -> Any:
        stack = [HumanInTheLoopMiddleware({reviewed: True})] if reviewed else []
        return create_agent(model, tools, middleware=stack, checkpointer=InMemorySaver(), **options)

    why, when = {"question": "Why?"}, {"question": "When?"}
    both = caller("pay", {"euros": 1}, {"euros": 2}, then="Paid both.")
    tells = caller("tell", {}, then="Reported.")
    desk = partial(make_desk, Journal(tmp_path_factory.mktemp("service") / "journal"), calls=1)
    with Service(module_url, pace=Pace(wake=0.0)) as made:  # each look asks for the end
        made.add("desk", desk(review=True))
        made.add("async", desk(review=True), asynchronous=True)
        made.add("stops", desk(interrupt_before=["model"]))
        made.add("echo", agent(ScriptedChatModel([echo] * 1000)))
        made.add("fails", agent(ScriptedChatModel([fail] * 1000)))
        made.add("asks", agent(caller("ask", why, then="Thanks."), ask))
        made.add("asks twice", agent(caller("ask", why, when, then="Thanks."), ask))
        made.add("pair", agent(both, pay, reviewed="pay"))
        made.add("settings", agent(tells, tell, reviewed="tell", context_schema=dict))
        yield made


@pytest.fixture
def gate() -> Iterator[Event]:
    """The gate of `echo`, closed."""
    GATE.clear()
    try:
        yield GATE
    finally:
        GATE.set()


def texts(service: Service, thread: str) -> list[str]:
    return [f"{m.type}: {m.text}" for m in service.threads.state(thread).values["messages"]]


# Messages


def test_a_message_is_answered_once(service: Service, thread: str) -> None:
    run, same = (
        service.submit("echo", thread=thread, message="Hi", message_id="m-1") for _ in range(2)
    )
    assert same.id == run.id
    assert run.result(WAIT)["messages"][-1].text == "You said: Hi"
    assert run.status == "done"
    assert service.run(run.id).result(WAIT)["messages"][0].id == "m-1"
    (info,) = [one for one in service.threads.search() if one.id == thread]
    assert (info.status, info.agent, info.run, info.error) == ("idle", "echo", run.id, None)
    # The same message again is the same run, also after its end.
    again = service.submit("echo", thread=thread, message="Hi", message_id="m-1")
    again.result(WAIT)
    assert (again.id, texts(service, thread)) == (run.id, ["human: Hi", "ai: You said: Hi"])


def test_messages_of_a_thread_are_answered_in_order(service: Service, thread: str) -> None:
    ids = [f"m-{20 - at}" for at in range(20)]  # their ids do not sort as they came
    runs = [service.submit("echo", thread=thread, message=id, message_id=id) for id in ids]
    runs[-1].result(WAIT)
    check_history(service.threads.state(thread).values["messages"], ids)


@each(
    "message",
    [
        HumanMessage("Hi"),
        ("user", "Hi"),
        [("user", "Hello"), ("user", "Hi")],
        {"messages": [("user", "Hi")]},
    ],
)
def test_a_message_in_any_form_begins_a_thread_if_it_names_none(
    service: Service, message: Any
) -> None:
    runs = [service.submit("echo", message=message) for _ in range(2)]
    assert runs[0].thread_id != runs[1].thread_id
    messages = runs[0].result(WAIT)["messages"]
    assert [part.text for part in messages[-2:]] == ["Hi", "You said: Hi"]
    assert [part.type for part in messages].count("ai") == 1


def test_a_run_that_fails(service: Service, thread: str) -> None:
    run = service.submit("fails", thread=thread, message="Please fail.")
    with pytest.raises(RunFailed, match="ValueError: the model is out of order"):
        run.result(WAIT)
    assert run.status == "failed"
    (info,) = [one for one in service.threads.search(status="failed") if one.id == thread]
    assert info.error == "ValueError: the model is out of order"
    # The thread takes the next message.
    again = service.submit("fails", thread=thread, message="Go on.")
    assert again.result(WAIT)["messages"][-1].text == "Fine."
    assert [one.error for one in service.threads.search() if one.id == thread] == [None]


def test_a_result_that_takes_too_long(service: Service, thread: str, gate: Event) -> None:
    run = service.submit("echo", thread=thread, message="Hi")
    with pytest.raises(TimeoutError, match=r"is (queued|running) after 0 seconds"):
        run.result(0)
    with pytest.raises(TimeoutError):
        list(run.stream(timeout=0))


# Streams


def test_a_stream_is_read_from_its_beginning_or_joined_again(service: Service, thread: str) -> None:
    run = service.submit("echo", thread=thread, message="Hi")
    parts = [*run.stream(timeout=WAIT)]
    tokens = "".join(p["data"][0].text for p in parts if p["type"] == "messages")
    assert tokens == "You said: Hi"
    assert [p["data"] for p in parts if p["type"] == "updates"][-1].keys() == {"model"}
    assert (parts[-1]["type"], parts[-1]["data"]["status"]) == ("end", "done")
    # Another process, which joins later, sees the same, from each part on.
    assert [*service.run(run.id).stream(timeout=WAIT)] == parts
    for at, part in enumerate(parts):
        assert [*run.stream(after=part["id"], timeout=WAIT)] == parts[at + 1 :]
    for wrong in ("here", *(f"{thread}/1:{'9' * digits}:0" for digits in (19, 5000))):
        with pytest.raises(ArgumentError, match=f"is not the id of a part: '{wrong}'"):
            next(run.stream(after=wrong))


def test_a_first_event_waits_for_no_other(database: Database) -> None:
    backend = Backend(database, pace=Pace(gather=NEVER))
    backend.log.add("job", {"type": "values"})
    rows = backend.log.read("job", 0, lambda: False)
    while isinstance(row := next(rows), Moment):
        backend.signals.wait(row, WAIT)
    assert row[1] == [{"type": "values"}]
    backend.close()


def test_the_last_events_may_come_between_a_look_and_the_end(database: Database) -> None:
    backend = Backend(database, pace=Pace(wake=0.0))
    last = [{"type": "end"}]

    def has_ended() -> bool:
        if last:
            backend.log.add("job", last.pop())
            backend.log.flush()
        return True

    read = backend.log.read("job", 0, has_ended)
    assert [row[1] for row in read if isinstance(row, tuple)] == [[{"type": "end"}]]
    backend.close()


async def test_async_variants_with_an_async_agent(service: Service, thread: str) -> None:
    one: Any = {"max_concurrency": 1}  # of a sync agent, a stream would wait forever
    run = await service.asubmit("async", thread=thread, message="Pay.", config=one)
    assert [part["type"] async for part in run.astream(timeout=WAIT)][-1] == "end"
    assert "__interrupt__" in await run.aresult(WAIT)
    (wait,) = service.inbox().waits(thread=thread)
    decided = await service.adecide(wait.id, "approve", by="ann")
    assert (await decided.aresult(WAIT))["messages"][-1].text == "Paid."
    assert len((await service.threads.astate(thread)).values["messages"]) == 4
    await decided.acancel()  # it has ended: nothing changes
    assert decided.status == "done"
    again = await service.asubmit("async", thread=thread, message="Pay again.")
    await again.aresult(WAIT)
    await again.acancel()
    last = await service.asubmit("async", thread=thread, message="And again.")
    assert "__interrupt__" in await last.aresult(WAIT)


# Reviews


def test_a_review_is_approved_once(service: Service, thread: str) -> None:
    wait = waiting(service, thread)
    assert (wait.tool, wait.args, wait.kind) == ("pay", {"euros": 1}, "review")
    assert wait.allowed == ("approve", "edit", "reject", "respond")
    assert service.run(wait.run).status == "waiting"
    run, same = (service.decide(wait.id, "approve", by="ann") for _ in range(2))
    assert run.id == same.id == wait.run
    assert [message.type for message in run.result(WAIT)["messages"]].count("tool") == 1
    assert texts(service, thread)[-1] == "ai: Paid."
    assert service.inbox().waits(thread=thread) == []
    with pytest.raises(AlreadyDecided, match="was decided before: 'approve' by 'ann'"):
        service.decide(wait.id, "reject", by="bob")
    decided = service.inbox().get(wait.id)
    approval = {"type": "approve", "digest": wait.call_digest}
    assert (decided.decided_by, decided.decision) == ("ann", approval)


def test_a_question_of_a_tool_is_answered_and_not_approved(service: Service, thread: str) -> None:
    service.submit("asks", thread=thread, message="Ask.").result(WAIT)
    (wait,) = service.inbox().waits(thread=thread)
    assert (wait.kind, wait.question) == ("question", {"question": "Why?"})
    assert wait.allowed == ("respond",)
    with pytest.raises(DecisionNotAllowed, match=r"is not allowed here\. Allowed: respond"):
        service.decide(wait.id, "approve", by="ann")
    values = service.decide(wait.id, "respond", message="because", by="ann").result(WAIT)
    assert values["messages"][2].text == "The person said because."


def test_a_pause_where_no_call_waits(service: Service, thread: str) -> None:
    service.submit("stops", thread=thread, message="Pay.").result(WAIT)
    (wait,) = service.inbox().waits(thread=thread)
    assert (wait.tool, wait.kind, wait.allowed) == ("model", "pause", ("approve",))
    service.resume(thread, None, by="ann").result(WAIT)
    (again,) = service.inbox().waits(thread=thread)
    assert len(service.threads.state(thread).values["messages"]) == 3
    values = service.decide(again.id, "approve", by="ann").result(WAIT)
    assert values["messages"][-1].text == "Paid."


def test_a_claim_keeps_others_from_deciding_and_is_audited(service: Service, thread: str) -> None:
    wait = waiting(service, thread)
    inbox = service.inbox()
    claimed = inbox.claim(wait.id, by="ann")
    assert claimed.claimed_by == "ann"
    assert claimed.claimed_until is not None
    for attempt in (
        lambda: inbox.claim(wait.id, by="bob"),
        lambda: inbox.release(wait.id, by="bob"),
        lambda: service.decide(wait.id, "approve", by="bob"),
    ):
        with pytest.raises(ClaimedByOther, match="is claimed by 'ann'"):
            attempt()
    assert [one.id for one in inbox.waits(claimed_by="ann", thread=thread)] == [wait.id]
    assert inbox.release(wait.id, by="ann").claimed_by is None
    inbox.claim(wait.id, by="bob", seconds=0.0)  # expires at once
    assert inbox.claim(wait.id, by="ann").claimed_by == "ann"
    service.decide(wait.id, "reject", message="No.", by="ann").result(WAIT)
    with pytest.raises(AlreadyDecided):
        inbox.claim(wait.id, by="ann")
    entries = inbox.audit(thread=thread)
    acts = [("ann", "reject"), ("ann", "claim"), ("bob", "claim"), ("ann", "release")]
    assert [(one.who, one.what) for one in entries] == [*acts, ("ann", "claim")]
    assert entries[0].detail == {
        "decision": {"type": "reject", "message": "No.", "digest": wait.call_digest},
        "call": {"id": wait.call_id, "name": "pay", "args": wait.args},
        "runs": None,
        "via": "python",
    }
    assert entries[0].at >= entries[1].at


# Busy threads


def test_a_queued_message_that_finds_a_review_is_held(service: Service, thread: str) -> None:
    """It was submitted before the thread began to wait."""
    first = service.submit("desk", thread=thread, message="Pay.", message_id="m-1")
    second = service.submit("desk", thread=thread, message="And?", message_id="m-2")
    third = service.submit("echo", thread=thread, message="So?", message_id="m-3")
    first.result(WAIT)
    until(lambda: third.status == second.status == "held")
    (wait,) = service.inbox().waits(thread=thread)
    service.decide(wait.id, "approve", by="ann")
    second.result(WAIT)
    (wait,) = service.inbox().waits(thread=thread)
    service.decide(wait.id, "approve", by="ann")
    third.result(WAIT)
    check_history(service.threads.state(thread).values["messages"], ["m-1", "m-2", "m-3"])


def test_a_message_that_rolls_back_ends_a_review(service: Service, thread: str) -> None:
    wait = waiting(service, thread)
    run = service.submit("desk", thread=thread, message="Stop.", message_id="m-2", busy="rollback")
    assert [m.type for m in run.result(WAIT)["messages"]] == ["human", "ai"]
    assert service.run(wait.run).status == "cancelled"
    with pytest.raises(AlreadyDecided, match="'cancel' by 'api'"):
        service.decide(wait.id, "approve", by="ann")


# Cancelling


def test_a_running_run_is_cancelled(service: Service, thread: str, gate: Event) -> None:
    run = service.submit("echo", thread=thread, message="One")
    until(lambda: run.status == "running" and service.threads.state(thread).next == ("model",))
    run.cancel(by="ann")
    assert run.status == "cancelled"
    gate.set()
    again = service.submit("echo", thread=thread, message="Two")
    assert again.result(WAIT)["messages"][-1].text == "You said: Two"
    assert [m.type for m in again.result(WAIT)["messages"]] == ["human", "human", "ai"]
    with pytest.raises(RunCancelled):
        list(run.stream(timeout=WAIT))


def test_a_queued_run_is_cancelled(service: Service, thread: str, gate: Event) -> None:
    first = service.submit("echo", thread=thread, message="One")
    second = service.submit("echo", thread=thread, message="Two")
    second.cancel()
    gate.set()
    first.result(WAIT)
    assert second.status == "cancelled"
    third = service.submit("echo", thread=thread, message="Three")
    third.result(WAIT)
    users = [m.text for m in third.result(WAIT)["messages"] if m.type == "human"]
    assert users == ["One", "Three"]


# Tenants


def test_tenants_do_not_see_each_other(service: Service, thread: str) -> None:
    service.submit("desk", thread=thread, message="Pay.", tenant="acme").result(WAIT)
    (wait,) = service.inbox("acme").waits(thread=thread)
    other = service.inbox("other")
    assert other.waits() == []
    assert other.count() == 0
    assert other.audit() == []
    assert service.threads.search(tenant="other") == []
    for attempt in (
        lambda: other.get(wait.id),
        lambda: other.claim(wait.id, by="eve"),
        lambda: other.release(wait.id, by="eve"),
        lambda: service.decide(wait.id, "approve", by="eve", tenant="other"),
        lambda: service.run(wait.run, tenant="other"),
        lambda: service.threads.state(thread, tenant="other"),
        lambda: service.threads.history(thread, tenant="other"),
        lambda: service.threads.update_state(thread, {}, tenant="other"),
        lambda: service.resume(thread, {"decisions": []}, by="eve", tenant="other"),
        lambda: service.threads.create(thread, tenant="other"),
        lambda: service.threads.change(thread, metadata={}, tenant="other"),
        lambda: service.threads.delete(thread, tenant="other"),
        lambda: service.threads.runs(thread, tenant="other"),
        lambda: service.submit("desk", thread=thread, message="Mine?", tenant="other"),
    ):
        with pytest.raises(NotFound, match="does not exist"):
            attempt()
    assert service.threads.state(thread, tenant="acme").next


# Answers to interrupts, as Command(resume=...) gives them


def test_several_calls_are_decided_together_or_not_at_all(service: Service, thread: str) -> None:
    service.submit("pair", thread=thread, message="Pay both.").result(WAIT)
    first, second = service.inbox().waits(thread=thread)
    for answer, error, text in (
        ({"decisions": [{"type": "approve"}, {"type": "shrug"}]}, InvalidDecision, "'shrug'"),
        ({"decisions": [{"type": "approve"}]}, InvalidAnswer, r"about each of pay, pay in"),
        ("yes", InvalidAnswer, "'yes'"),
    ):
        with pytest.raises(error, match=text):
            service.resume(thread, answer, by="ann")
        assert len(service.inbox().waits(thread=thread)) == 2
    answer = {"decisions": [{"type": "approve"}, {"type": "reject", "message": "No."}]}
    values = service.resume(thread, answer, by="ann").result(WAIT)
    said = {message.text for message in values["messages"][2:4]}
    assert said == {"Paid 1.", "No."}
    made = service.inbox().get(second.id).decision
    assert made == {"type": "reject", "message": "No.", "digest": second.call_digest}
    assert service.inbox().get(first.id).decided_by == "ann"
    assert service.inbox().audit(thread=thread)[0].who == "ann"
    with pytest.raises(NotFound, match="waits for no answer"):
        service.resume(thread, answer, by="ann")


def test_several_interrupts_are_answered_by_their_ids(service: Service, thread: str) -> None:
    asked = service.submit("asks twice", thread=thread, message="Ask.").result(WAIT)
    with pytest.raises(ArgumentError, match="must say which interrupt it answers: 2 wait"):
        service.resume(thread, "because", by="ann")
    answers = {one.id: one.value["question"].lower() for one in asked["__interrupt__"]}
    values = service.resume(thread, answers, by="ann").result(WAIT)
    said = {message.text for message in values["messages"][2:4]}
    assert said == {"The person said why?.", "The person said when?."}


# Threads


def test_a_thread_is_created_and_found_by_its_metadata(service: Service, thread: str) -> None:
    made = service.threads.create(thread, metadata={"topic": "lamps", "vip": True, "size": 3})
    assert (made.id, made.agent, made.status, made.run) == (thread, "", "idle", None)
    with pytest.raises(NotFound, match="has no message yet"):
        service.threads.state(thread)
    assert service.threads.create(thread, metadata={"topic": "chairs"}) == made
    changed = service.threads.change(thread, metadata={"topic": "tables"})
    assert changed.metadata == {"topic": "tables", "vip": True, "size": 3}
    assert changed.created_at == made.created_at
    for size, ids in ((3, [thread]), (4, [])):
        found = service.threads.search(metadata={"size": size, "vip": True}, ids=[thread])
        assert [one.id for one in found] == ids
    service.submit("echo", thread=thread, message="Hi").result(WAIT)
    assert service.threads.get(thread).agent == "echo"
    assert service.threads.get(thread).metadata == changed.metadata


def test_a_run_begins_at_a_checkpoint(service: Service, thread: str) -> None:
    service.submit("echo", thread=thread, message="One").result(WAIT)
    first = service.threads.state(thread).config["configurable"]["checkpoint_id"]
    service.submit("echo", thread=thread, message="Two").result(WAIT)
    service.submit("echo", thread=thread, message="Three", checkpoint=first).result(WAIT)
    branch = ["human: One", "ai: You said: One", "human: Three", "ai: You said: Three"]
    assert texts(service, thread) == branch
    _, before, *_ = states = [*service.threads.history(thread)]
    assert [len(state.values["messages"]) for state in states[:2]] == [4, 3]
    again = before.config["configurable"]["checkpoint_id"]
    assert service.threads.state(thread, checkpoint=again).values == before.values
    (third,) = service.threads.history(thread, before=again, limit=1)
    assert (before.next, third.config) == (("model",), states[2].config)
    service.submit("echo", thread=thread, checkpoint=again).result(WAIT)
    assert texts(service, thread) == branch
    # What the model has answered there is of the other branch.
    service.submit("echo", thread=thread, message="Four", checkpoint=again).result(WAIT)
    assert texts(service, thread)[2:] == ["human: Three", "human: Four", "ai: You said: Four"]
    with pytest.raises(NotFound, match="checkpoint 'gone': is not one of this thread"):
        service.submit("echo", thread=thread, message="Five", checkpoint="gone")


def test_a_run_begins_in_the_middle_of_a_turn(service: Service, thread: str) -> None:
    service.submit("desk", thread=thread, message="Pay").result(WAIT)
    wait = service.inbox().waits(thread=thread)[0]
    service.decide(wait.id, "approve", by="ann").result(WAIT)
    before = next(one for one in service.threads.history(thread) if one.next == ("tools",))
    place = before.config["configurable"]["checkpoint_id"]
    run = service.submit("desk", thread=thread, message="Not so fast", checkpoint=place)
    kinds = [message.type for message in run.result(WAIT)["messages"]]
    assert kinds[:4] == ["human", "ai", "tool", "human"]  # the call has run, and runs once


def test_the_runs_of_a_thread(service: Service, thread: str) -> None:
    first = service.submit("echo", thread=thread, message="One", metadata={"from": "mail"})
    second = service.submit("fails", thread=thread, message="fail")
    with pytest.raises(RunFailed):
        second.result(WAIT)
    newest, oldest = service.threads.runs(thread)
    assert (newest.id, oldest.id) == (second.id, first.id)
    info = oldest.info
    assert (info.agent, info.status, info.metadata) == ("echo", "done", {"from": "mail"})
    assert newest.info.error is not None
    assert "out of order" in newest.info.error
    noted = [dict(state.metadata or {}).get("from") for state in service.threads.history(thread)]
    assert "mail" in noted


def test_a_run_has_its_own_settings(service: Service, thread: str) -> None:
    run = service.submit(
        "settings",
        thread=thread,
        message="Hi",
        config={"configurable": {"language": "de"}, "recursion_limit": 50},
        context={"user": "ann"},
        stream=["values"],
    )
    assert {part["type"] for part in run.stream(timeout=WAIT)} == {"values", "end"}
    service.resume(thread, {"decisions": [{"type": "approve"}]}, by="ann")
    assert run.result(WAIT)["messages"][2].text == "ann de 50"  # a decision goes on with them


def test_metadata_are_noted_and_drop_no_message(service: Service, thread: str) -> None:
    config: Any = {"metadata": {"from": "mail", "agent_factory_run": "x", "__x": 1, "run_id": "r"}}
    for text in ("One", "Two"):
        # LangGraph takes the input of a run for nothing if the last one had the same.
        metadata = {"run_id": "r", "case": 7}
        run = service.submit("echo", thread=thread, message=text, config=config, metadata=metadata)
        assert run.result(WAIT)["messages"][-1].text == f"You said: {text}"
        assert run.info.metadata == {"from": "mail", **metadata}


# Arguments


@each(
    "options, text",
    [
        ({"message": 3}, "`?message`?: must be a string, a message or a list of messages, got"),
        ({"message": "Hi", "busy": "wait"}, "must be one of 'queue', 'reject'"),
        ({"message": "Hi", "waiting": "rollback"}, "waiting: must be one of"),
        ({"message": "Hi", "by": ""}, "by: must be the name"),
        ({"message": "Hi", "stream": ["message"]}, "stream: must be one of .*got 'message'"),
        ({"message": "Hi", "stream": "updates"}, "stream: must be a list of modes, got str"),
        ({"message": "Hi", "priority": 5000}, "must be from -1000 to 1000, got 5000"),
        ({"message": "Hi", "config": {"callbacks": [3]}}, "cannot set callbacks of a run"),
        ({"message": "Hi", "config": {"max_concurrency": 1}}, "Pass max_concurrency=2"),
        (
            {"message": "Hi", "config": {"configurable": {"thread_id": "t"}}},
            "'thread_id' belongs to LangGraph and cannot be set",
        ),
    ],
)
def test_bad_arguments(service: Service, options: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        service.submit("echo", **options)


def test_an_agent_or_a_run_that_does_not_exist(service: Service) -> None:
    agents = r"agent 'dekc': was not added .* \['asks', 'asks twice', 'async'"
    with pytest.raises(NotFound, match=agents):
        service.submit("dekc", message="Hi")
    with pytest.raises(NotFound, match="run 'nope': does not exist"):
        service.run("nope")


@each(
    "options, text",
    [
        ({"name": "echo"}, "'echo' is taken"),
        ({"agent": "desk"}, "must be a compiled agent, got str"),
        ({"late": "never"}, "must be one of 'reject', 'escalate', got 'never'"),
        ({"waiting": "rollback"}, "waiting: must be one of"),
        ({"stream": ("updates", "message")}, "stream: must be one of .*got 'message'"),
        ({"stream": "updates"}, "stream: must be a list of modes, got str"),
        ({"review_within": "soon"}, "must be seconds or a string like '30m', '4h' or '2d'"),
    ],
)
def test_bad_agents(service: Service, options: Any, text: str) -> None:
    given = {"name": "new", "agent": create_agent(ScriptedChatModel([])), **options}
    with pytest.raises(ArgumentError, match=text):
        service.add(**given)


@each(
    "url, text",
    [
        ("mysql://db", "must be SQLite or Postgres, got 'mysql://db'"),
        ("desk.db", "must be the URL of a database, got 'desk.db'"),
        ("sqlite://", "must name a file"),
        (None, "must be the URL of a database, got None"),
    ],
)
def test_bad_urls(url: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        Service(url)


def test_a_service_is_started_once(service: Service) -> None:
    with pytest.raises(ArgumentError, match="this service has been started"):
        service.start()
