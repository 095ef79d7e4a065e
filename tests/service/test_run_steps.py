"""What a run records of its steps, the list of runs, and how a failed run is tried again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import update
from stack_agents import kept_agent

from agent_factory import AgentMiddleware, Jump, create_agent, hook_config
from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from agent_factory.service import NotFound, RunFailed, Service, ThreadBusy
from agent_factory.service import service_threads as list_module
from agent_factory.service.steps import MOST_STEPS, Step, read_steps, steps_text
from agent_factory.service.tables import runs
from agent_factory.service.usage import total
from agent_factory.testing import ScriptedChatModel
from samples import call_of, new_thread, pay
from service.stored import Tables
from tables import each
from waiting import until

WAIT = 60.0
TOKENS: Any = {"input_tokens": 70, "output_tokens": 7, "total_tokens": 77}


class Parcels:
    """Tools that have effects; the printer fails as often as a test says."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.failures = 0

    def send(self, order: str) -> str:
        """Send a parcel."""
        self.log.append(f"send {order}")
        return "sent"

    def label(self, order: str) -> str:
        """Print a label."""
        self.log.append(f"label {order}")
        if self.failures > 0:
            self.failures -= 1
            # LangGraph drops the result of a task that ends while the error of another one ends the
            # step, and its caller cannot know when that of `send` is stored.
            time.sleep(0.3)  # waits: see above
            raise ConnectionError("the printer is off")
        return "printed"


def answer(messages: list[BaseMessage]) -> AIMessage:
    if not isinstance(messages[-1], HumanMessage):
        return AIMessage("Done.", usage_metadata=TOKENS)
    if "talk" in messages[-1].text:
        return AIMessage("Hello.", usage_metadata=TOKENS)
    calls = [call_of("send", 1, order="A"), call_of("label", 2, order="A")]
    return AIMessage("", tool_calls=calls, usage_metadata=TOKENS)


class Closing(AgentMiddleware[Any, Any]):
    """A shop that is closed for some."""

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> Jump | None:
        time.sleep(0.06)  # waits: a hook is slow from 50 ms on
        if "closed" in state["messages"][-1].text:
            return Jump("end", reason="the shop is closed")
        if "Send" in state["messages"][-1].text:
            raise OSError("the shop burns")
        return None


@pytest.fixture
def parcels() -> Parcels:
    return Parcels()


@pytest.fixture
def service(url: str, parcels: Parcels) -> Iterator[Service]:
    def agent(*middleware: Any) -> Any:
        model, tools = ScriptedChatModel([answer] * 100), [parcels.send, parcels.label]
        return kept_agent(model, *middleware, tools=tools, name="shop")

    with Service(url) as made:
        made.add("shop", agent())
        made.add("asks", agent(HumanInTheLoopMiddleware({"label": True})))
        made.add("hours", agent(Closing()), decisions=True)
        yield made


def failed(service: Service, thread: str, agent: str = "shop") -> Any:
    """A run that has failed."""
    run = service.submit(agent, thread=thread, message="Send it.")
    with pytest.raises(RunFailed):
        run.result(WAIT)
    return run


def test_a_run_has_its_calls_with_their_times_and_tokens(service: Service, thread: str) -> None:
    run = service.submit("shop", thread=thread, message="Send it.")
    run.result(WAIT)
    steps = run.steps
    assert [step.kind for step in steps] == ["model", "tool", "tool", "model"]
    assert {step.name for step in steps[1:3]} == {"send", "label"}
    assert {step.call_id for step in steps[1:3]} == {"call_1", "call_2"}
    assert [step.input_tokens for step in steps if step.kind == "model"] == [70, 70]
    info = run.info
    for step in steps:
        assert info.created_at - 1 <= step.at <= step.at + step.seconds <= info.updated_at + 1
    assert [step.at for step in steps] == sorted(step.at for step in steps)


def test_steps_of_a_run_go_on_after_a_decision(service: Service, thread: str) -> None:
    run = service.submit("asks", thread=thread, message="Send it.")
    run.result(WAIT)
    before = run.steps
    assert before[0].kind == "model"
    (wait,) = service.inbox().waits(run=run.id)
    service.decide(wait.id, "approve", by="ann").result(WAIT)
    assert run.steps[: len(before)] == before
    assert "label" in [step.name for step in run.steps[len(before) :]]
    assert service.inbox().waits(run=run.id) == []
    (decided,) = service.inbox().waits(run=run.id, decided=True)
    assert decided.decided_by == "ann"


def test_decisions_of_hooks_are_steps_if_they_changed_the_run_or_were_slow(
    service: Service, thread: str
) -> None:
    run = service.submit("hours", thread=thread, message="closed")
    run.result(WAIT)
    (step,) = run.steps
    assert (step.kind, step.name) == ("hook", "Closing.before_model")
    assert (step.detail, step.error) == ("jumped end: the shop is closed", "")
    assert step.seconds >= 0.06
    slow = service.submit("hours", thread=thread, message="talk")
    slow.result(WAIT)
    assert [step.kind for step in slow.steps] == ["hook", "model"]
    (raised,) = failed(service, thread, "hours").steps
    assert (raised.name, raised.error) == ("Closing.before_model", "OSError")


def test_custom_parts_of_a_tool_are_not_taken_for_decisions() -> None:
    from agent_factory.service.steps import step_of_decision

    for data in ({"decision": "yes"}, {"decision": {"hook": "x"}}, "decision", None):
        assert step_of_decision(data) is None


def test_only_the_last_steps_are_kept() -> None:
    steps = [Step(kind="tool", name=str(n), at=float(n), seconds=0.0) for n in range(MOST_STEPS)]
    more = Step(kind="tool", name="last", at=0.0, seconds=0.0)
    kept = read_steps(steps_text(steps_text(None, steps), [more]))
    assert len(kept) == MOST_STEPS
    assert (kept[0].name, kept[-1].name) == ("1", "last")


def test_the_list_says_what_was_asked_and_what_it_has_cost(service: Service, thread: str) -> None:
    messages: Any = [("user", "Hello"), ("ai", "Yes?"), ("user", "talk to me")]
    service.submit("shop", thread=thread, message=messages, tenant="acme").result(WAIT)
    (run,) = service.threads.search_runs(tenant="acme").runs
    assert (run.question, run.title, run.agent) == ("talk to me", "Hello", "shop")
    assert (run.status, run.input_tokens, run.output_tokens) == ("done", 70, 7)
    assert run.created_at <= (run.started_at or 0) <= (run.ended_at or 0)
    assert service.run(run.id).summary == run


def test_runs_are_found_by_each_filter(
    service: Service, tables: Tables, thread: str, parcels: Parcels
) -> None:
    parcels.failures = 1
    bad = failed(service, thread)
    waits = service.submit("asks", thread=f"{thread}-asks", message="Send it.", tenant="acme")
    waits.result(WAIT)
    held = service.submit("asks", thread=f"{thread}-asks", message="Wait!", tenant="acme")
    good = service.submit("shop", thread=f"{thread}-talk", message="talk 100%")
    good.result(WAIT)

    def ids(**filters: Any) -> list[str]:
        return [run.id for run in service.threads.search_runs(**filters).runs]

    assert ids() == [good.id, held.id, waits.id, bad.id]
    assert ids(tenant="acme") == [held.id, waits.id]
    assert ids(agent="shop") == [good.id, bad.id]
    assert ids(status=["failed"]) == [bad.id]
    assert ids(status=["held"]) == [held.id]
    assert ids(status=["queued"]) == []
    assert ids(status=["waiting", "done"]) == [good.id, waits.id]
    assert ids(text="100%") == ids(text=f"{thread}-talk") == ids(text=good.id[:9]) == [good.id]
    # By what it was asked, also where it is not the first message of the thread; "%" is a sign.
    assert ids(text="WAIT") == [held.id]
    assert ids(text="t%l") == []
    # Of a long question, the beginning is found.
    message = "talk " * 200 + "at last"
    long = service.submit("shop", thread=f"{thread}-long", message=["talk", message])
    (summary,) = service.threads.search_runs(text="talk talk").runs
    assert (summary.id, summary.question, ids(text="at last")) == (long.id, message, [])
    long.result(WAIT)
    assert ids(since=time.time() + 60) == []
    tables.write(update(runs).where(runs.c.run_id == bad.id).values(created_at=5.0))
    assert ids(since=time.time() - 600) == [long.id, good.id, held.id, waits.id]


def test_the_list_has_parts(service: Service, thread: str) -> None:
    made = [service.submit("shop", thread=thread, message="talk") for _ in range(5)]
    made[-1].result(WAIT)
    first = service.threads.search_runs(limit=2)
    assert [run.id for run in first.runs] == [made[4].id, made[3].id]
    assert first.is_full
    second = service.threads.search_runs(limit=3, before=first.before)
    assert [run.id for run in second.runs] == [run.id for run in reversed(made[:3])]
    assert (second.before, second.is_full) == (None, False)


def test_a_search_reads_a_part_of_the_runs(
    service: Service, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does not find among the newest is looked for when somebody asks to go further."""
    monkeypatch.setattr(list_module, "LOOK_BACK", 3)
    old = service.submit("shop", thread=f"{thread}-old", message="talk, old")
    old.result(WAIT)
    for number in range(4):
        service.submit("shop", thread=f"{thread}-{number}", message="talk").result(WAIT)
    found = service.threads.search_runs(text="old")
    assert (found.runs, found.is_full) == ([], False)
    assert found.before is not None
    found = service.threads.search_runs(text="old", before=found.before)
    assert [run.id for run in found.runs] == [old.id]
    assert found.before is None


def test_a_failed_run_is_tried_again_once_and_what_has_a_result_does_not_run_again(
    service: Service, thread: str, parcels: Parcels
) -> None:
    parcels.failures = 2
    options: Any = {"config": {"recursion_limit": 17}, "metadata": {"order": "A"}, "priority": 3}
    run = service.submit("shop", thread=thread, message="Send it.", **options)
    until(lambda: run.status == "failed")
    errors = {step.name: step.error for step in run.steps if step.kind == "tool"}
    assert errors == {"send": "", "label": "ConnectionError: the printer is off"}
    first = run.retry(by="ann")
    assert run.retry(by="bob").id == first.id
    with pytest.raises(RunFailed):
        first.result(WAIT)
    second = first.retry()
    assert second.result(WAIT)["messages"][-1].text == "Done."
    assert first.retry(by="bob").id == second.id
    assert sorted(parcels.log) == ["label A"] * 3 + ["send A"]
    assert service.threads.count_runs(thread) == 3
    for again, failed_run in ((first, run), (second, first)):
        assert again.info.metadata == {"order": "A", "retry_of": failed_run.id}
        assert again.request["config"]["recursion_limit"] == 17
    assert [each.status for each in (run, first, second)] == ["failed", "failed", "done"]


def test_a_decision_holds_for_one_try(service: Service, thread: str, parcels: Parcels) -> None:
    parcels.failures = 1
    run = service.submit("asks", thread=thread, message="Send it.")
    run.result(WAIT)
    (wait,) = service.inbox().waits(thread=thread)
    with pytest.raises(RunFailed):
        service.decide(wait.id, "approve", by="ann").result(WAIT)
    assert "__interrupt__" in run.retry().result(WAIT)
    assert parcels.log.count("label A") == 1


def test_only_the_newest_run_of_a_thread_is_tried_again(
    service: Service, thread: str, parcels: Parcels
) -> None:
    good = service.submit("shop", thread=thread, message="talk")
    good.result(WAIT)
    with pytest.raises(ThreadBusy, match="is done, and has not failed"):
        good.retry()
    parcels.failures = 1
    bad = failed(service, thread)
    service.submit("shop", thread=thread, message="talk").result(WAIT)
    with pytest.raises(ThreadBusy, match="has gone on since the run failed"):
        bad.retry()
    service.threads.delete(thread)
    with pytest.raises(NotFound):
        bad.retry()


def test_a_title_is_given_unless_it_cannot_be_shown(service: Service, thread: str) -> None:
    service.threads.create(thread)
    for title in ("", "  ", "x" * 201, "a\0b"):
        with pytest.raises(ArgumentError):
            service.threads.change(thread, title=title)
    renamed = service.threads.change(thread, title="  The broken\n lamp ")
    assert renamed.title == "The broken lamp"
    service.submit("shop", thread=thread, message="talk").result(WAIT)
    assert service.threads.get(thread).title == "The broken lamp"
    assert [found.id for found in service.threads.search(text="broken")] == [thread]


@each(
    "metadata, is_archived",
    [
        ({}, False),
        ({"archived": True}, True),
        ({"archived": False}, False),
        ({"archived": "yes"}, False),
        ({"archived": None}, False),
        ({"note": '"archived"'}, False),
        ({"inner": {"archived": True}}, False),
    ],
)
def test_a_thread_is_archived_by_its_metadata(
    service: Service, metadata: dict[str, Any], is_archived: bool
) -> None:
    thread = tenant = new_thread()
    service.threads.create(thread, metadata=metadata, tenant=tenant)

    def ids(archived: bool | None) -> list[str]:
        found = service.threads.search(archived=archived, tenant=tenant)
        return [thread.id for thread in found]

    assert (ids(None), ids(is_archived), ids(not is_archived)) == ([thread], [thread], [])
    assert service.threads.count(archived=is_archived, tenant=tenant) == 1
    service.threads.change(thread, archived=not is_archived)
    assert ids(is_archived) == []
    others = {name: value for name, value in metadata.items() if name != "archived"}
    assert service.threads.get(thread).metadata == {**others, "archived": not is_archived}


CACHED: Any = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
CACHED |= {"input_token_details": {"cache_read": 60}}


def spent(text: str, calls: Any = ()) -> AIMessage:
    return AIMessage(text, tool_calls=[*calls], usage_metadata=CACHED)


CALL: Any = {"name": "pay", "args": {"euros": 5}, "id": "1"}


def start(service: Service, model: Any, **options: Any) -> Any:
    added = {name: options.pop(name) for name in ("decisions", "stream") if name in options}
    options["checkpointer"] = InMemorySaver()
    service.add("desk", create_agent(model, [pay], **options), **added)
    service.start()


@each(
    "message, title",
    [
        ("Where is\n my  order?", "Where is my order?"),
        ("word " * 40, "word " * 15 + "word…"),
        ([HumanMessage("First"), HumanMessage("Second")], "First"),
        (AIMessage("An answer"), None),
    ],
)
def test_the_title_of_a_thread_is_the_beginning_of_its_first_message(
    sqlite_service: Service, message: Any, title: str | None
) -> None:
    thread, name = new_thread(), new_thread()
    sqlite_service.add(name, create_agent(ScriptedChatModel([])))
    assert sqlite_service.threads.create(thread).title is None
    sqlite_service.submit(name, thread=thread, message=message)
    sqlite_service.submit(name, thread=thread, message="And now?")
    assert sqlite_service.threads.get(thread).title == (title or "And now?")


def test_threads_are_found_by_their_titles(sqlite_service: Service) -> None:
    sqlite_service.add("desk", create_agent(ScriptedChatModel([])))
    for thread, text in (("a-1", "100% of IT"), ("a-2", "1000 orders"), ("b-1", "nothing")):
        sqlite_service.submit("desk", thread=thread, message=text)

    both = {"a-1", "a-2"}
    for text, ids in {"it": {"a-1"}, "100": both, "100%": {"a-1"}, "a-": both, "-1": set()}.items():
        assert {one.id for one in sqlite_service.threads.search(text=text)} == ids
        assert sqlite_service.threads.count(text=text) == len(ids)


def test_usage_by_part(sqlite_service: Service) -> None:
    summarizer = ScriptedChatModel([spent("They talked.")])
    sums = SummarizationMiddleware(summarizer, trigger=("messages", 3), keep=("messages", 1))
    start(sqlite_service, ScriptedChatModel([spent("One."), spent("Two.")]), middleware=[sums])
    sqlite_service.submit("desk", thread="t", message="Hello").result(WAIT)
    run = sqlite_service.submit("desk", thread="t", message="And?")
    run.result(WAIT)
    by_part = {line["part"]: line for line in run.info.usage}
    assert by_part.keys() == {"model", "SummarizationMiddleware"}
    line = by_part["model"]
    assert (line["calls"], line["input_tokens"], line["cached_tokens"]) == (1, 100, 60)
    assert line["agent"] == "desk"


def test_usage_of_a_model_that_reports_no_tokens_and_of_a_run_that_fails(
    sqlite_service: Service,
) -> None:
    model = ScriptedChatModel([AIMessage("Hi."), spent("", [CALL]), ValueError("out of order")])
    start(sqlite_service, model)
    runs = [sqlite_service.submit("desk", thread="t", message=text) for text in ("Hi", "Pay 5")]
    with pytest.raises(RunFailed):
        runs[1].result(WAIT)
    assert [[line["calls"] for line in run.info.usage] for run in runs] == [[1], [1]]


def test_usage_grows_over_a_review(sqlite_service: Service) -> None:
    model = ScriptedChatModel([spent("", [CALL]), spent("Done.")])
    start(sqlite_service, model, middleware=[HumanInTheLoopMiddleware({"pay": True})])
    run = sqlite_service.submit("desk", thread="t", message="Pay 5")
    for calls in (1, 2):
        run.result(WAIT)
        assert [line["calls"] for line in run.info.usage] == [calls]
        for wait in sqlite_service.inbox().waits():
            sqlite_service.decide(wait.id, "approve", by="ann")


def test_the_total_of_several_runs() -> None:
    line = {"agent": "a", "part": "model", "model": "m", "calls": 1, "input_tokens": 2}
    line |= {"output_tokens": 3, "cached_tokens": 1, "usd": 0.5}
    (both, other) = total([line, line, {**line, "part": "tools", "input_tokens": 0}])
    assert (both["calls"], both["input_tokens"], both["usd"]) == (2, 4, 1.0)
    assert other["part"] == "tools"


def test_decisions_of_a_run_are_recorded(sqlite_service: Service) -> None:
    start(sqlite_service, ScriptedChatModel(["Hi."]), decisions=True, stream=())
    run = sqlite_service.submit("desk", thread="t", message="Hello", stream=["values"])
    parts = [*run.stream()]
    decisions = [part["data"]["decision"] for part in parts if part["type"] == "custom"]
    assert [(one["hook"], one["detail"]) for one in decisions] == [("model", "__end__")]
    assert {"values", "updates", "messages"} <= {part["type"] for part in parts}


def test_decisions_need_an_agent_of_create_agent_which_keeps_its_own_sinks(
    sqlite_service: Service,
) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {})
    builder.add_edge(START, "answer")
    with pytest.raises(ArgumentError, match="an agent built by create_agent"):
        sqlite_service.add("graph", builder.compile(), decisions=True)
    kept: list[Any] = []
    agent = create_agent(ScriptedChatModel(["Hi."]), [pay], decisions=kept.append)
    sqlite_service.add("own", agent, decisions=True)
    sqlite_service.start()
    parts = [*sqlite_service.submit("own", thread="o", message="Hello").stream()]
    assert [one.hook for one in kept] == ["model"]
    assert sum(part["type"] == "custom" for part in parts) == 1
