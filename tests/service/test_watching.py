"""What pages show of threads and runs: titles, usage, decisions."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import delete

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from agent_factory.service import NotFound, RunFailed, Service
from agent_factory.service.database import Database
from agent_factory.service.tables import threads
from agent_factory.service.usage import total
from agent_factory.testing import ScriptedChatModel
from samples import new_thread, pay
from service.stored import Tables
from tables import each

WAIT = 60.0
TOKENS: Any = {
    "input_tokens": 100,
    "output_tokens": 10,
    "total_tokens": 110,
    "input_token_details": {"cache_read": 60},
}


def spent(text: str, calls: Any = ()) -> AIMessage:
    return AIMessage(text, tool_calls=[*calls], usage_metadata=TOKENS)


CALL: Any = {"name": "pay", "args": {"euros": 5}, "id": "1"}


def start(service: Service, model: Any, **options: Any) -> Any:
    added = {name: options.pop(name) for name in ("decisions", "stream") if name in options}
    options["checkpointer"] = InMemorySaver()
    service.add("desk", create_agent(model, [pay], **options), **added)
    service.start()


# Titles


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

    def found(text: str) -> set[str]:
        assert sqlite_service.threads.count(text=text) == len(
            sqlite_service.threads.search(text=text)
        )
        return {one.id for one in sqlite_service.threads.search(text=text)}

    assert found("it") == {"a-1"}
    assert found("100") == {"a-1", "a-2"}
    assert found("100%") == {"a-1"}
    assert found("a-") == {"a-1", "a-2"}
    assert found("-1") == set()


def test_reindex_writes_titles_again(sqlite_service: Service, sqlite_url: str) -> None:
    start(sqlite_service, ScriptedChatModel(["Hi."]))
    sqlite_service.submit("desk", thread="t", message="Hello").result(WAIT)
    with closing(Database(sqlite_url)) as database:
        Tables(database).write(delete(threads))
    with pytest.raises(NotFound):
        sqlite_service.threads.get("t")
    assert [*sqlite_service.reindex()]
    assert sqlite_service.threads.get("t").title == "Hello"


# Usage


def test_usage_by_part(sqlite_service: Service) -> None:
    summarizer = ScriptedChatModel([spent("They talked.")])
    middleware = [
        SummarizationMiddleware(summarizer, trigger=("messages", 3), keep=("messages", 1))
    ]
    start(sqlite_service, ScriptedChatModel([spent("One."), spent("Two.")]), middleware=middleware)
    sqlite_service.submit("desk", thread="t", message="Hello").result(WAIT)
    run = sqlite_service.submit("desk", thread="t", message="And?")
    run.result(WAIT)
    by_part = {line["part"]: line for line in run.info.usage}
    assert by_part.keys() == {"model", "SummarizationMiddleware"}
    line = by_part["model"]
    assert (line["calls"], line["input_tokens"], line["cached_tokens"]) == (1, 100, 60)
    assert line["agent"] == "desk"


def test_usage_grows_over_a_review(sqlite_service: Service) -> None:
    model = ScriptedChatModel([spent("", [CALL]), spent("Done.")])
    start(sqlite_service, model, middleware=[HumanInTheLoopMiddleware({"pay": True})])
    run = sqlite_service.submit("desk", thread="t", message="Pay 5")
    run.result(WAIT)
    assert [line["calls"] for line in run.info.usage] == [1]
    sqlite_service.decide(sqlite_service.inbox().waits()[0].id, "approve", by="ann").result(WAIT)
    assert [line["calls"] for line in run.info.usage] == [2]


def test_usage_of_a_model_that_reports_no_tokens_and_of_a_run_that_fails(
    sqlite_service: Service,
) -> None:
    model = ScriptedChatModel([AIMessage("Hi."), spent("", [CALL]), ValueError("out of order")])
    start(sqlite_service, model)
    runs = [sqlite_service.submit("desk", thread="t", message=text) for text in ("Hi", "Pay 5")]
    with pytest.raises(RunFailed):
        runs[1].result(WAIT)
    assert [[line["calls"] for line in run.info.usage] for run in runs] == [[1], [1]]


def test_the_total_of_several_runs() -> None:
    line = {"agent": "a", "part": "model", "model": "m", "calls": 1, "input_tokens": 2}
    line |= {"output_tokens": 3, "cached_tokens": 1, "usd": 0.5}
    (both, other) = total([line, line, {**line, "part": "tools", "input_tokens": 0}])
    assert (both["calls"], both["input_tokens"], both["usd"]) == (2, 4, 1.0)
    assert other["part"] == "tools"


# Decisions


def test_decisions_of_a_run_are_recorded(sqlite_service: Service) -> None:
    start(sqlite_service, ScriptedChatModel(["Hi."]), decisions=True, stream=())
    run = sqlite_service.submit("desk", thread="t", message="Hello", stream=["values"])
    parts = [*run.stream()]
    decisions = [part["data"]["decision"] for part in parts if part["type"] == "custom"]
    assert [(one["hook"], one["detail"]) for one in decisions] == [("model", "__end__")]
    assert {"values", "updates", "messages"} <= {part["type"] for part in parts}


def test_decisions_need_an_agent_of_create_agent(sqlite_service: Service) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {})
    builder.add_edge(START, "answer")
    with pytest.raises(ArgumentError, match="an agent built by create_agent"):
        sqlite_service.add("graph", builder.compile(), decisions=True)


def test_an_agent_keeps_its_own_sinks(sqlite_service: Service) -> None:
    kept: list[Any] = []
    agent = create_agent(ScriptedChatModel(["Hi."]), [pay], decisions=kept.append)
    sqlite_service.add("own", agent, decisions=True)
    sqlite_service.start()
    parts = [*sqlite_service.submit("own", thread="o", message="Hello").stream()]
    assert [one.hook for one in kept] == ["model"]
    assert sum(part["type"] == "custom" for part in parts) == 1
