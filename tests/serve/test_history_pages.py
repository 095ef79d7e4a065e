"""The history of a thread as a page: what happened in words, branches, and what is different."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import StateSnapshot
from starlette.requests import Request
from starlette.testclient import TestClient

from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.serve import Principal, create_app
from agent_factory.serve.pages.comparison import compare, parts_of
from agent_factory.serve.pages.rails import Rails
from agent_factory.service import Service, ServiceThreads
from agent_factory.testing import ScriptedChatModel


def refund(order: str, euros: float) -> str:
    """Pay money back."""
    return f"Paid {euros:g} for {order}"


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    last = messages[-1]
    if isinstance(last, HumanMessage) and "refund" in str(last.text):
        args = {"order": "A1", "euros": 40.0}
        return AIMessage("Let me do it.", tool_calls=[{"name": "refund", "args": args, "id": "c"}])
    if isinstance(last, ToolMessage):
        return AIMessage("It is done.")
    return AIMessage(f"You wrote {last.text}")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/desk.db"


def add_agent(service: Service) -> Service:
    model = ScriptedChatModel([answer] * 1000)
    review = [HumanInTheLoopMiddleware({"refund": True})]
    agent = create_agent(model, [refund], middleware=review, checkpointer=InMemorySaver())
    service.add("desk", agent)
    return service


def idle_after(url: str, *messages: str) -> Service:
    """A service without a worker, whose thread has these messages."""
    with Service(url) as worker:
        add_agent(worker)
        for message in messages:
            worker.submit("desk", thread="t", message=message).result(60)
    return add_agent(Service(url))


@pytest.fixture
def service(url: str) -> Iterator[Service]:
    with Service(url) as service:
        yield add_agent(service)


def client_of(service: Service) -> TestClient:
    def who(request: Request) -> Principal:
        return Principal("", "ann")

    return TestClient(create_app(service, who))


def rows_of(client: TestClient, query: str = "") -> list[dict[str, Any]]:
    """The rows of a history: their words, their rails, the checkpoint that they lead to."""
    html = client.get(f"/studio/threads/t/history{query}", headers={"hx-request": "true"}).text
    rows = []
    pattern = r'<li class="(\w+)[^"]*">\n<span class="rails".*?</div></li>'
    for match in re.finditer(pattern, html, re.DOTALL):
        kind, row = match[1], match[0]
        at = re.search(r"\?at=([\w-]+)", row)
        lines = re.findall(r'<span class="what-happened[^>]*>(.*?)</span>\n', row, re.DOTALL)
        rows.append(
            {
                "kind": kind,
                "lines": [unescape(re.sub("<[^>]+>", "", line)).strip() for line in lines],
                "rails": re.findall(r'<i class="([^"]*)">', row),
                "at": at and at[1],
                "is_left": "in a branch that was left" in row,
                "branches": re.findall(r"(\d) branches", row),
            }
        )
    return rows


def words(rows: list[dict[str, Any]]) -> list[str]:
    return [line for row in rows for line in row["lines"]]


def test_a_history_says_what_happened_and_who_decided(service: Service) -> None:
    service.submit("desk", thread="t", message="refund it").result(60)
    client = client_of(service)
    assert words(rows_of(client))[:1] == [
        "waits for a decision about refund order='A1', euros=40.0"
    ]
    (wait,) = service.inbox().waits(thread="t")
    service.decide(wait.id, "edit", args={"order": "A1", "euros": 10.0}, by="ann").result(60)
    rows = rows_of(client)
    lines = words(rows)
    assert lines[0] == "desk answered: “It is done.”"
    assert lines[1].startswith("refund returned “Paid 10 for A1")
    assert lines[-5:] == [
        "ann changed and approved refund euros 40.0 → 10.0",
        "desk wrote: “Let me do it.”",
        "desk called refund order='A1', euros=40.0",
        "the user wrote: “refund it”",
        "the thread began",
    ]
    decisions = [row for row in rows if row["kind"] == "decided"]
    assert len(decisions) == 1
    page = client.get("/studio/threads/t/history").text
    # Class names and ids of checkpoints are in folds alone.
    shown = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    assert "HumanInTheLoopMiddleware" in page
    assert "HumanInTheLoopMiddleware" not in shown


def test_a_branch_is_drawn_from_where_it_began(service: Service) -> None:
    service.submit("desk", thread="t", message="Hi").result(60)
    client = client_of(service)
    (begun,) = (row["at"] for row in rows_of(client) if row["lines"] == ["the user wrote: “Hi”"])
    service.submit("desk", thread="t", message="Or hello", checkpoint=begun).result(60)
    rows = rows_of(client)
    assert [row["lines"] for row in rows if not row["is_left"]][:2] == [
        ["desk answered: “You wrote Or hello”"],
        ["the user wrote: “Or hello”"],
    ]
    (left,) = (row for row in rows if row["is_left"])
    assert left["lines"] == ["desk answered: “You wrote Hi”"]
    assert left["rails"] == ["line", "dot first"]
    (fork,) = (row for row in rows if row["branches"])
    assert (fork["lines"], fork["rails"]) == (["the user wrote: “Hi”"], ["dot", "join"])


def test_a_history_in_parts_is_the_history(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.submit("desk", thread="t", message="Hi").result(60)
    client = client_of(service)
    begun = rows_of(client)[-2]["at"]
    for number in range(3):
        run = service.submit("desk", thread="t", message=f"Number {number}", checkpoint=begun)
        run.result(60)
    whole = rows_of(client)
    monkeypatch.setattr("agent_factory.serve.pages.history.PAGE", 3)
    rows: list[dict[str, Any]] = []
    query = ""
    while True:
        rows += rows_of(client, query)
        html = client.get(f"/studio/threads/t/history{query}").text
        more = re.search(r'<li class="more"><a href="[^?]*(\?[^"]*)"', html)
        if more is None:
            break
        query = unescape(more[1])
    assert words([row for row in rows if row["lines"] != ["the run went on"]]) == words(whole)
    assert [row["is_left"] for row in rows if row["lines"] != ["the run went on"]] == [
        row["is_left"] for row in whole
    ]


def test_a_fork_that_was_just_sent_is_there_before_it_begins(url: str) -> None:
    service = idle_after(url, "Hi", "And now?")
    client = client_of(service)
    (begun,) = (row["at"] for row in rows_of(client) if row["lines"] == ["the user wrote: “Hi”"])
    service.submit("desk", thread="t", message="Or hello", checkpoint=begun)
    queued, newest = rows_of(client)[:2]
    assert (queued["kind"], queued["lines"]) == ("queued", ["the user wrote: “Or hello”"])
    assert queued["rails"] == ["", "dot first"]
    assert newest["rails"][0] == "dot first"
    page = client.get("/studio/threads/t").text
    conversation = page.partition('id="conversation"')[2].partition('id="waits"')[0]
    assert re.findall(r'<div class="text plain">([^<]*)<', conversation) == ["Hi", "Or hello"]
    assert "And now?" not in conversation
    assert re.search(r'<details class="part" id="history" open>', page)
    service.close()


def test_a_fork_that_ends_while_the_page_is_made_shows_its_branch(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no script runs, nothing draws it again."""
    service = idle_after(url, "Hi")
    client = client_of(service)
    begun = rows_of(client)[-1]["at"]
    fork = service.submit("desk", thread="t", message="Or hello", checkpoint=begun)
    state_of = ServiceThreads.state

    def late(threads: ServiceThreads, *args: Any, **options: Any) -> StateSnapshot:
        state = state_of(threads, *args, **options)
        monkeypatch.undo()
        with Service(url) as worker:
            add_agent(worker).run(fork.id).result(60)
        return state

    monkeypatch.setattr(ServiceThreads, "state", late)
    page = client.get("/studio/threads/t").text
    conversation = page.partition('id="conversation"')[2].partition('id="waits"')[0]
    assert re.findall(r'<div class="text plain">([^<]*)<', conversation) == ["Or hello"]
    service.close()


def test_a_fork_that_is_held_is_in_the_history(service: Service) -> None:
    service.submit("desk", thread="t", message="Hi").result(60)
    client = client_of(service)
    begun = rows_of(client)[-2]["at"]
    service.submit("desk", thread="t", message="refund it").result(60)
    service.submit("desk", thread="t", message="Or hello", checkpoint=begun, waiting="queue")
    service.submit("desk", thread="t", message="And then", waiting="queue")
    then, fork, question, *_ = rows_of(client)
    assert (fork["kind"], fork["lines"]) == ("queued", ["the user wrote: “Or hello”"])
    assert (then["kind"], then["rails"]) == ("queued", ["dot first"])
    assert question["kind"] == "open"


def test_two_moments_are_compared(service: Service) -> None:
    for text in ("Hi", "Again"):
        service.submit("desk", thread="t", message=text).result(60)
    client = client_of(service)
    ids = [row["at"] for row in rows_of(client)]
    path = "/studio/threads/t/history?from="
    for first, last in ((ids[2], ids[0]), (ids[0], ids[2])):  # the earlier one comes first
        page = client.get(f"{path}{first}&to={last}").text
        assert re.findall("<ins>([^<]*)</ins>", page) == ["Again", "You wrote Again"]
        assert "<del>" not in page
        assert "2 messages are the same." in page
    assert "Nothing is different." in client.get(f"{path}{ids[0]}&to={ids[0]}").text
    answer = client.get(f"{path}none")
    assert (answer.status_code, "is not one of this thread" in answer.text) == (404, True)


def test_a_comparison_shows_messages_and_values_that_were_changed_or_removed() -> None:
    call = {"name": "refund", "args": {"euros": 40}, "id": "c"}
    before: dict[str, Any] = {
        "messages": [HumanMessage("a", id="1"), AIMessage("", id="2", tool_calls=[call])],
        "plan": ["search", "pay"],
        "old": 1,
    }
    after: dict[str, Any] = {
        "messages": [AIMessage("", id="2", tool_calls=[{**call, "args": {"euros": 10}}])],
        "plan": ["search"],
        "new": 2,
    }
    comparison = compare(before, after, "desk")
    removed, changed = comparison.messages
    assert (removed.kind, removed.name, removed.parts) == ("removed", "User", (("del", "a"),))
    assert (changed.kind, changed.name) == ("changed", "desk")
    assert [part for part in changed.parts if part[0]] == [("del", "40"), ("ins", "10")]
    kinds = {difference.name: difference.kind for difference in comparison.values}
    assert kinds == {"new": "added", "old": "removed", "plan": "changed"}
    assert comparison.same == 0


@pytest.mark.law
@given(before=st.text(), after=st.text())
def test_the_parts_of_a_comparison_are_the_two_texts(before: str, after: str) -> None:
    parts = list(parts_of(before, after))
    assert "".join(text for kind, text in parts if kind != "ins") == before
    assert "".join(text for kind, text in parts if kind != "del") == after


@pytest.mark.law
@given(data=st.data(), size=st.integers(1, 30))
def test_each_row_has_one_dot_and_each_branch_ends_where_it_began(
    data: st.DataObject, size: int
) -> None:
    """Whatever the tree: a row comes from an older one, and all lines are joined at the end."""
    parents: list[int | None] = [None]
    parents += [data.draw(st.integers(0, number - 1)) for number in range(1, size)]
    rails = Rails([str(size - 1)])
    begun = joined = 0
    lines: set[int] = set()  # the columns that have a line below the row before
    for number in reversed(range(size)):
        parent = parents[number]
        cells = rails.row({str(number)}, None if parent is None else str(parent))
        dots = [index for index, cell in enumerate(cells) if "dot" in cell.split()]
        assert dots == [rails.column]
        begun += "first" in cells[dots[0]].split()
        joins = {index for index, cell in enumerate(cells) if "join" in cell.split()}
        joined += len(joins)
        # A line goes on as a line, a dot or a turn into a dot.
        goes_on = {index for index, cell in enumerate(cells) if {"line", "join"} & {*cell.split()}}
        goes_on |= {dots[0]} if "first" not in cells[dots[0]].split() else set()
        assert goes_on == lines
        lines = (lines - joins) | ({dots[0]} if parent is not None else set())
        if parent is None:
            lines -= {dots[0]}
    assert begun == joined + 1
    assert lines == set()
    assert list(rails.parents) == [""]
