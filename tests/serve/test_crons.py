"""Crons over HTTP: by LangGraph's own client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest

from agent_factory.service import Cron, Service
from agent_factory.service.scheduled_messages import ScheduledMessages
from agent_factory.service.schedules import Schedule
from serve.langgraph_desk import HI, REFUSED, running_service, said
from serve.test_assistants import settings_agent
from tables import each
from waiting import until

NIGHT = "0 3 * * *"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(f"sqlite:///{tmp_path_factory.mktemp('crons')}/desk.db") as service:
        service.add("settings", settings_agent(), configurable=["tier"])
        yield service


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
    client.crons.delete(id)


def test_a_disabled_cron_is_deleted(client: Any) -> None:
    id = client.crons.create("echo", schedule=NIGHT, input=HI, enabled=False)["cron_id"]
    client.crons.delete(id)
    assert client.crons.search(metadata={"id": id}) == []


def test_search_and_count(
    client: Any,
) -> None:
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


@each(
    "options, text",
    [
        ({"schedule": "at night"}, "schedule must be a cron expression of five fields"),
        ({"schedule": "0 0 3 * * *"}, "schedule must be a cron expression of five fields"),
        ({"schedule": "99 3 * * *"}, "cannot be read"),
        ({"schedule": NIGHT, "timezone": "Mars/Olympus"}, "is not known"),
        ({"schedule": NIGHT, "timezone": "x" * 300}, "is not known"),
        ({"schedule": NIGHT, "timezone": "Europe"}, "is not known"),
        ({"schedule": NIGHT, "input": {"mesages": []}}, "Did you mean 'messages'"),
        ({"schedule": NIGHT, "config": {"configurable": {"x": 1}}}, "a client may not set 'x'"),
        ({"schedule": NIGHT, "webhook": "https://example.com"}, "webhook: this server sends none"),
    ],
)
def test_bad_crons(client: Any, options: Any, text: str) -> None:
    before = client.crons.count()
    with pytest.raises(REFUSED, match=text):
        client.crons.create("echo", **{"input": HI, **options})
    id = client.crons.create("echo", schedule=NIGHT, input=HI)["cron_id"]
    with pytest.raises(REFUSED, match=text):
        client.crons.update(id, **options)
    client.crons.delete(id)
    assert client.crons.count() == before
    with pytest.raises(REFUSED, match="does not exist"):
        client.crons.create_for_thread("nowhere", "echo", schedule=NIGHT, input=HI)
    with pytest.raises(REFUSED, match="assistant 'nobody'"):
        client.crons.create("nobody", schedule=NIGHT, input=HI)


@each(
    "end",
    [
        # In UTC, these are in another year than Python has, the last one when it is rounded.
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:00:00-02:00",
        "9999-12-31T23:59:59.999999Z",
        1e300,
        "soon",
    ],
)
def test_an_end_that_cannot_be_shown_is_refused(client: Any, url: str, end: object) -> None:
    body = {"assistant_id": "echo", "input": HI, "schedule": NIGHT}
    id = client.crons.create("echo", schedule=NIGHT, input=HI)["cron_id"]
    answers = [
        httpx.post(f"{url}/runs/crons", json={**body, "end_time": end}),
        httpx.patch(f"{url}/runs/crons/{id}", json={"end_time": end}),
    ]
    for answer in answers:
        assert answer.status_code == 422, answer.text
        assert answer.json()["detail"].startswith("end_time must be a time")
    client.crons.delete(id)
    assert client.crons.search() is not None


def ended(service: Service, cron: Cron) -> None:
    service.crons().change(cron.id, ends_at=1.0)


def deleted(service: Service, cron: Cron) -> None:
    # As if the process had died before it took the schedule away.
    metadata = {"cron_id": cron.id}
    service.crons().delete(cron.id)
    service.schedule(cron.id, "* * * * * *", agent="echo", message="Hi", metadata=metadata)


def submit_due(service: Service, cron: Cron) -> None:
    """Its time has come, as a worker sees it."""
    what = {"agent": "echo", "message": "Hi", "thread": None, "tenant": ""}
    schedule = Schedule(cron.id, NIGHT, None, {**what, "metadata": {"cron_id": cron.id}}, 0.0)
    messages = ScheduledMessages(service._backend, service.webhooks, service.submit)
    messages.submit(schedule, datetime.now(UTC))


@pytest.mark.parametrize("end", [ended, deleted])
def test_a_cron_that_has_ended_begins_no_run(
    service: Service, end: Callable[[Service, Cron], None]
) -> None:
    cron = service.crons().create(
        NIGHT, agent="echo", assistant="echo", options={"message": "Hi"}, by="ann"
    )
    end(service, cron)
    submit_due(service, cron)
    assert service.threads.search(text=f"{cron.id}-") == []


def test_a_cron_that_cannot_run_lets_others_run(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    assistant = service.assistants().create("echo")
    cron = service.crons().create(
        NIGHT, agent="echo", assistant=assistant.id, options={"message": "Hi"}, by="ann"
    )
    service.assistants().delete(assistant.id)
    with caplog.at_level(logging.ERROR, "agent_factory.service"):
        submit_due(service, cron)
    assert f"Schedule {cron.id} was not carried out" in caplog.text
    service.crons().delete(cron.id)
