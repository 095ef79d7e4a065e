"""Assistants and crons over HTTP: by LangGraph's own client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypedDict
from uuid import uuid4

import httpx
import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.config import get_config
from langgraph.runtime import get_runtime

from agent_factory import create_agent
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from serve.langgraph_desk import HI, REFUSED, running_service, said, two_tenants
from service.stored import backend_of
from tables import each
from waiting import until


def settings(_: list[BaseMessage]) -> AIMessage:
    """Says with which settings it runs."""
    config = get_config()
    tier = config["configurable"].get("tier")
    context: Any = get_runtime().context
    return AIMessage(f"{tier} {context} {sorted(config.get('tags') or [])}")


class Context(TypedDict, total=False):
    """Context of a run."""

    shop: str
    user: str


SETTINGS = create_agent(ScriptedChatModel([settings] * 1000), context_schema=Context)
"""An agent that says with which settings it runs."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(f"sqlite:///{tmp_path_factory.mktemp('assistants')}/desk.db") as service:
        service.add("settings", SETTINGS, configurable=["tier"])
        yield service


def test_a_run_has_the_settings_of_its_assistant_and_its_own(client: Any) -> None:
    assistant = client.assistants.create(
        "settings",
        {"configurable": {"tier": "gold"}, "tags": ["a"]},
        context={"shop": "tea", "user": "?"},
        metadata={"team": "x"},
        name="Gold",
    )
    id = assistant["assistant_id"]
    thread = client.threads.create()["thread_id"]
    assert said(client.runs.wait(thread, id, input=HI))[-1] == (
        "gold {'shop': 'tea', 'user': '?'} ['a']"
    )
    own: Any = {"configurable": {"tier": "silver"}, "tags": ["b"]}
    values = client.runs.wait(thread, id, input=HI, config=own, context={"user": "ann"})
    assert said(values)[-1] == "silver {'shop': 'tea', 'user': 'ann'} ['a', 'b']"
    run = client.runs.list(thread)[0]
    noted = {"team": "x", "graph_id": "settings", "assistant_id": id}
    assert (run["assistant_id"], run["metadata"]) == (id, noted)
    assert client.threads.get(thread)["metadata"] == {"graph_id": "settings", "assistant_id": id}
    threads = client.threads.search(metadata={"assistant_id": id}, select=["thread_id"])
    assert threads == [{"thread_id": thread}]
    client.runs.wait(thread, "settings", input=HI)
    assert client.threads.search(metadata={"assistant_id": id}) == []


def test_versions(client: Any) -> None:
    id = client.assistants.create("echo", name="One", metadata={"a": 1}, description="d")[
        "assistant_id"
    ]
    second = client.assistants.update(id, name="Two", metadata={"b": 2}, context={"x": 1})
    assert (second["version"], second["name"], second["description"]) == (2, "Two", "d")
    assert second["metadata"] == {"a": 1, "b": 2}
    first = client.assistants.set_latest(id, 1)
    assert (first["version"], first["name"], first["context"]) == (1, "One", {})
    third = client.assistants.update(id, context={})
    assert (third["version"], third["name"]) == (3, "One")
    names = [(v["version"], v["name"]) for v in client.assistants.get_versions(id)]
    assert names == [(3, "One"), (2, "Two"), (1, "One")]
    assert [v["version"] for v in client.assistants.get_versions(id, {"b": 2})] == [2]
    assert [v["version"] for v in client.assistants.get_versions(id, limit=1, offset=1)] == [2]
    assert client.assistants.get(id)["version"] == 3
    with pytest.raises(REFUSED, match="has no version 9"):
        client.assistants.set_latest(id, 9)
    assert client.assistants.update(id, graph_id="desk")["graph_id"] == "desk"


def test_search_and_count(client: Any) -> None:
    topic = uuid4().hex
    for number in range(3):
        client.assistants.create("echo", name=f"No. {number}", metadata={"topic": topic})
    page = client.assistants.search(
        metadata={"topic": topic}, limit=2, sort_by="name", response_format="object"
    )
    assert [row["name"] for row in page["assistants"]] == ["No. 2", "No. 1"]
    assert page["next"] == "2"
    assert client.assistants.count(metadata={"topic": topic}) == 3
    assert client.assistants.count(metadata={"topic": topic}, name="NO. 1") == 1
    assert client.assistants.search(metadata={"topic": topic}, graph_id="desk") == []
    assert client.assistants.search(metadata={"topic": {"topic": 1}}) == []


def test_the_agents_themselves_stay_as_code_has_made_them(client: Any) -> None:
    """And an id is taken once."""
    own = client.assistants.get("echo")
    assert (own["name"], own["metadata"]) == ("echo", {"created_by": "system"})
    assert client.assistants.get_versions("echo") == [own]
    changes: list[Callable[[], object]] = [
        lambda: client.assistants.update("echo", name="x"),
        lambda: client.assistants.delete(own["assistant_id"]),
        lambda: client.assistants.set_latest("echo", 1),
    ]
    for change in changes:
        with pytest.raises(REFUSED, match="is agent 'echo' itself"):
            change()
    id = uuid4().hex
    first = client.assistants.create("echo", assistant_id=id, name="One")
    for taken in ("echo", own["assistant_id"], id):
        with pytest.raises(REFUSED, match="exists already"):
            client.assistants.create("desk", assistant_id=taken)
    again = client.assistants.create("echo", assistant_id=id, name="Two", if_exists="do_nothing")
    assert again == first


def test_a_deleted_assistant_runs_no_more(client: Any) -> None:
    id = client.assistants.create("echo")["assistant_id"]
    threads = [client.threads.create()["thread_id"] for _ in range(2)]
    client.runs.wait(threads[0], id, input=HI)
    client.runs.wait(threads[1], "echo", input=HI)
    client.assistants.delete(id, delete_threads=True)
    with pytest.raises(REFUSED, match="does not exist"):
        client.runs.create(threads[1], id, input=HI)
    rows = client.threads.search(ids=threads, select=["thread_id"])
    assert rows == [{"thread_id": threads[1]}]


def test_a_key_that_clients_may_not_set(service: Service, client: Any) -> None:
    """The same door as that of a run: what was allowed once is checked again."""
    wrong: Any = {"configurable": {"admin": True}}
    with pytest.raises(REFUSED, match="a client may not set 'admin'"):
        client.assistants.create("settings", wrong)
    id = client.assistants.create("settings")["assistant_id"]
    with pytest.raises(REFUSED, match="a client may not set 'admin'"):
        client.assistants.update(id, config=wrong)
    with pytest.raises(REFUSED, match="agent 'nobody'"):
        client.assistants.create("nobody")
    service.add("once", SETTINGS, configurable=["tier"])
    id = client.assistants.create("once", {"configurable": {"tier": "gold"}})["assistant_id"]
    del backend_of(service).agents["once"]
    service.add("once", SETTINGS)
    with pytest.raises(REFUSED, match="a client may not set 'tier'"):
        client.runs.wait(None, id, input=HI)


def test_tenants_have_assistants_of_the_same_id(service: Service) -> None:
    """So nobody learns which ids others have."""
    with two_tenants(service) as (ours, others):
        id = str(uuid4())
        ours.assistants.create("echo", assistant_id=id, name="Ours")
        assert others.assistants.search(name="Ours") == []
        assert others.assistants.create("desk", assistant_id=id, name="Theirs")["name"] == "Theirs"
        assert ours.assistants.get(id)["name"] == "Ours"


NIGHT = "0 3 * * *"


def fire(service: Service, cron: str) -> None:
    """Let a cron of clients be due each second, as only Python can."""
    service.crons().change(cron, schedule="* * * * * *")


def threads_of(service: Service, cron: str) -> list[str]:
    """The threads of the ended runs of a cron, the newest first."""
    threads = service.threads.search(text=f"{cron}-", status="idle", sort_by="created_at")
    return [thread.id for thread in threads if thread.agent]


@pytest.mark.long
def test_a_cron_runs_with_the_settings_of_its_assistant(client: Any, service: Service) -> None:
    assistant = client.assistants.create(
        "settings", {"configurable": {"tier": "gold"}}, context={"shop": "tea"}
    )["assistant_id"]
    thread = client.threads.create()["thread_id"]
    made = client.crons.create_for_thread(
        thread,
        assistant,
        schedule=NIGHT,
        input=HI,
        config={"tags": ["night"]},
        metadata={"team": "x"},
        timezone="Europe/Berlin",
    )
    assert (made["assistant_id"], made["thread_id"]) == (assistant, thread)
    assert (made["user_id"], made["enabled"]) == ("local", True)
    assert (made["schedule"], made["timezone"]) == (NIGHT, "Europe/Berlin")
    assert made["payload"]["input"] == HI
    following = datetime.fromisoformat(made["next_run_date"])
    assert following > datetime.now(UTC)
    assert following.minute == 0
    fire(service, made["cron_id"])
    run = until(lambda: client.runs.list(thread, status="success"))[0]
    client.crons.delete(made["cron_id"])
    assert (run["assistant_id"], run["metadata"]["team"]) == (assistant, "x")
    assert run["metadata"]["cron_id"] == made["cron_id"]
    state = client.threads.get_state(thread)
    assert said(state["values"])[1] == "gold {'shop': 'tea'} ['night']"
    with pytest.raises(REFUSED, match="does not exist"):
        client.crons.delete(made["cron_id"])


@pytest.mark.long
@pytest.mark.parametrize("keep", [True, False])
def test_threads_of_earlier_runs(client: Any, service: Service, keep: bool) -> None:
    cron = client.crons.create(
        "echo", schedule=NIGHT, input=HI, on_run_completed="keep" if keep else "delete"
    )
    assert (cron["thread_id"], cron["on_run_completed"]) == (None, "keep" if keep else "delete")
    id = cron["cron_id"]
    fire(service, id)
    first = until(lambda: threads_of(service, id))[-1]
    if keep:
        assert len(until(lambda: threads_of(service, id)[1:])) >= 1
        assert first in threads_of(service, id)
    else:
        until(lambda: first not in {thread.id for thread in service.threads.search(text=f"{id}-")})
    client.crons.delete(id)


def test_a_cron_is_changed(client: Any) -> None:
    made = client.crons.create("echo", schedule=NIGHT, input=HI, metadata={"a": 1})
    id = made["cron_id"]
    end = datetime(2030, 1, 1, tzinfo=UTC)
    changed = client.crons.update(
        id, schedule="*/5 * * * *", metadata={"b": 2}, enabled=False, end_time=end
    )
    assert (changed["schedule"], changed["metadata"]) == ("*/5 * * * *", {"a": 1, "b": 2})
    assert (changed["enabled"], changed["next_run_date"]) == (False, None)
    assert datetime.fromisoformat(changed["end_time"]) == end
    again = client.crons.update(id, enabled=True, end_time=None, timezone="Asia/Tokyo")
    assert (again["end_time"], again["timezone"]) == (None, "Asia/Tokyo")
    assert again["next_run_date"] is not None
    assert again["updated_at"] > made["updated_at"]
    client.crons.update(id, enabled=False)
    client.crons.delete(id)
    with pytest.raises(REFUSED, match="does not exist"):
        client.crons.delete(id)


def test_crons_are_found_and_counted(client: Any) -> None:
    topic, thread = uuid4().hex, client.threads.create()["thread_id"]
    made = [
        client.crons.create("echo", schedule=f"{n} 3 * * *", input=HI, metadata={"topic": topic})
        for n in range(2)
    ]
    made.append(
        client.crons.create_for_thread(
            thread, "asks", schedule=NIGHT, input=HI, metadata={"topic": topic}, enabled=False
        )
    )
    ids = [cron["cron_id"] for cron in made]

    def found(**options: Any) -> list[str]:
        rows = client.crons.search(metadata={"topic": topic}, select=["cron_id"], **options)
        return [row["cron_id"] for row in rows]

    assert found(sort_by="created_at", sort_order="asc") == ids
    assert found(thread_id=thread) == found(assistant_id="asks") == found(enabled=False) == ids[2:]
    # One that does not run has no next time, and comes last.
    assert found(sort_by="next_run_date", sort_order="asc") == ids
    assert found(limit=1, offset=1) == [ids[1]]
    assert client.crons.count(metadata={"topic": topic}) == 3
    assert client.crons.count(metadata={"topic": topic}, thread_id=thread) == 1
    client.threads.delete(thread)
    assert client.crons.count(metadata={"topic": topic}) == 2


END = "end_time must be a time"
WRONG_MESSAGE = {"role": "assistant", "content": "", "tool_calls": "y"}


@each(
    "options, text",
    [
        ({"schedule": "at night"}, "schedule must be a cron expression of five fields"),
        ({"schedule": "99 3 * * *"}, "cannot be read"),
        ({"schedule": NIGHT, "timezone": "Mars/Olympus"}, "is not known"),
        ({"schedule": NIGHT, "timezone": "Europe"}, "is not known"),
        ({"schedule": NIGHT, "input": {"mesages": []}}, "Did you mean 'messages'"),
        (
            {"schedule": NIGHT, "input": {"messages": [WRONG_MESSAGE]}},
            "input: must be a string, a message or a list of messages",
        ),
        ({"schedule": NIGHT, "config": {"configurable": {"x": 1}}}, "a client may not set 'x'"),
        ({"schedule": NIGHT, "webhook": "https://example.com"}, "webhook: this server sends none"),
        # In UTC, these are in another year than Python has, the last one when it is rounded.
        ({"schedule": NIGHT, "end_time": "0001-01-01T00:00:00+01:00"}, END),
        ({"schedule": NIGHT, "end_time": "9999-12-31T23:59:59.999999Z"}, END),
        ({"schedule": NIGHT, "end_time": 1e300}, END),
        ({"schedule": NIGHT, "end_time": "soon"}, END),
    ],
)
def test_bad_crons(client: Any, url: str, options: Any, text: str) -> None:
    id = client.crons.create("echo", schedule=NIGHT, input=HI)["cron_id"]
    before = client.crons.count()
    body = {"assistant_id": "echo", "input": HI, **options}
    for answer in (
        httpx.post(f"{url}/runs/crons", json=body),
        httpx.patch(f"{url}/runs/crons/{id}", json=options),
    ):
        assert (answer.status_code, text in answer.json()["detail"]) == (422, True), answer.text
    assert client.crons.count() == before
    client.crons.delete(id)
    assert client.crons.search() is not None
    with pytest.raises(REFUSED, match="does not exist"):
        client.crons.create_for_thread("nowhere", "echo", schedule=NIGHT, input=HI)
    with pytest.raises(REFUSED, match="assistant 'nobody'"):
        client.crons.create("nobody", schedule=NIGHT, input=HI)


@pytest.mark.long
def test_a_cron_that_has_ended_begins_no_run(service: Service) -> None:
    cron = service.crons().create(
        "* * * * * *", agent="echo", assistant="echo", options={"message": "Hi"}, by="ann"
    )
    assert service.crons().change(cron.id, ends_at=1.0).next_at is None
    before = threads_of(service, cron.id)
    service.schedule("later", "* * * * * *", agent="echo", message="Hi", thread="later")
    until(lambda: service.threads.search(ids=["later"], status="idle"))
    service.unschedule("later")
    assert threads_of(service, cron.id) == before


@pytest.mark.long
def test_a_cron_that_cannot_run_lets_others_run(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    assistant = service.assistants().create("echo")
    cron = service.crons().create(
        NIGHT, agent="echo", assistant=assistant.id, options={"message": "Hi"}, by="ann"
    )
    fire(service, cron.id)
    service.assistants().delete(assistant.id)
    with caplog.at_level(logging.ERROR, "agent_factory.service"):
        until(lambda: f"Schedule {cron.id} was not carried out" in caplog.text)
    service.crons().delete(cron.id)
