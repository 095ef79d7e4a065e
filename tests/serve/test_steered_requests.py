"""Messages to the run under way over HTTP: LangGraph's API and its protocol v2, and AG-UI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from agent_factory.service import Run, Service
from servers import served
from service.stage import WAIT, Stage
from tables import each


@pytest.fixture
def service(tmp_path: Path, stage: Stage) -> Iterator[Service]:
    """A service with an agent that can be steered, and one that cannot."""
    with Service(f"sqlite:///{tmp_path}/desk.db") as new_service:
        new_service.add("desk", stage.agent(), configurable=["tier", "ag_ui_context"])
        new_service.add("plain", stage.agent(steered=False))
        new_service.threads.create("t")
        yield new_service
        stage.go_on(1000)  # the worker ends with its tools


@pytest.fixture
def url(service: Service) -> Iterator[str]:
    with served(service) as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[SyncLangGraphClient]:
    with get_sync_client(url=url) as client:
        yield client


def user(text: str) -> Any:
    return {"messages": [{"role": "user", "content": text}]}


def begin(client: SyncLangGraphClient, stage: Stage, agent: str = "desk", **options: Any) -> str:
    """A run whose tool works."""
    run = client.runs.create("t", agent, input=user("work"), **options)
    stage.wait_until_it_works()
    return str(run["run_id"])


def steer(client: SyncLangGraphClient, text: str, agent: str = "desk", **options: Any) -> Any:
    strategy: Any = "steer"
    return client.runs.create("t", agent, input=user(text), multitask_strategy=strategy, **options)


def command(url: str, method: str, **params: Any) -> Any:
    body = {"id": 1, "method": method, "params": params}
    return httpx.post(f"{url}/threads/t/commands", json=body).json()


def texts(service: Service) -> list[str]:
    messages = service.threads.state("t").values["messages"]
    return [message.text for message in messages if message.type == "human"]


def test_a_client_of_langgraph_steers_a_run(
    client: SyncLangGraphClient, service: Service, url: str, stage: Stage
) -> None:
    config: Any = {"tags": ["gold"], "configurable": {"tier": "gold"}}
    run = begin(client, stage, config=config)
    message = steer(client, "in euros", config=config)
    assert (message["status"], message["multitask_strategy"]) == ("pending", "steer")
    stage.go_on()
    values = client.runs.join("t", message["run_id"])
    assert values["messages"][-1]["content"] == "Read: work, in euros"
    assert service.run(message["run_id"]).info.reader == run
    statuses = {each["run_id"]: each["status"] for each in client.runs.list("t")}
    assert statuses == {run: "success", message["run_id"]: "success"}
    assert "sent a message to the run" in httpx.get(f"{url}/inbox/audit").text


def test_a_stream_of_the_message_has_the_answer(client: SyncLangGraphClient, stage: Stage) -> None:
    begin(client, stage)
    strategy: Any = "steer"
    parts = client.runs.stream("t", "desk", input=user("in euros"), multitask_strategy=strategy)
    assert next(iter(parts)).event == "metadata"
    stage.go_on()
    last = [part for part in parts if part.event == "values"][-1]
    assert last.data["messages"][-1]["content"] == "Read: work, in euros"


def test_to_cancel_the_message_that_was_read_ends_the_run(
    client: SyncLangGraphClient, stage: Stage
) -> None:
    run = begin(client, stage)
    message = steer(client, "work more")
    stage.go_on()
    stage.wait_until_it_works()
    client.runs.cancel("t", message["run_id"])
    assert client.runs.get("t", run)["status"] == "interrupted"


def test_a_cron_of_an_agent_that_cannot_be_steered_is_refused(url: str) -> None:
    body = {"assistant_id": "plain", "schedule": "0 9 * * *", "multitask_strategy": "steer"}
    body |= {"input": user("work")}
    refused = httpx.post(f"{url}/runs/crons", json=body)
    assert refused.status_code == 422
    assert "Send 'enqueue' or 'interrupt'." in refused.json()["detail"]
    assert httpx.post(f"{url}/runs/crons", json={**body, "assistant_id": "desk"}).status_code == 200


@pytest.mark.parametrize("way", ["run", "run.start", "input.inject", "ag-ui"])
def test_an_agent_that_cannot_be_steered_refuses_the_message(
    client: SyncLangGraphClient, service: Service, url: str, stage: Stage, way: str
) -> None:
    begin(client, stage, "plain")
    if way in ("run", "ag-ui"):
        body = {"assistant_id": "plain", "input": user("no"), "multitask_strategy": "steer"}
        place, sent = "ag-ui/plain?busy=steer", ag_ui("no")
        if way == "run":
            place, sent = "threads/t/runs", body
        response = httpx.post(f"{url}/{place}", json=sent)
        assert response.status_code == 422
        text = response.json()["detail"]
    else:
        params: dict[str, Any] = {"message": {"role": "user", "content": "no"}}
        if way == "run.start":
            params = {"assistant_id": "plain", "input": user("no"), "multitaskStrategy": "steer"}
        answer = command(url, way, **params)
        assert (answer["type"], answer["error"]) == ("error", "invalid_argument")
        text = answer["message"]
    assert "agent 'plain' reads no messages while it runs" in text
    assert service.threads.count_runs("t") == 1


@pytest.mark.parametrize("method", ["run.start", "input.inject"])
def test_a_command_steers_a_run(
    client: SyncLangGraphClient, url: str, stage: Stage, method: str
) -> None:
    options: dict[str, Any] = {}
    if method == "input.inject":  # it takes the settings of the run
        options = {"config": {"configurable": {"tier": "gold"}, "tags": ["gold"]}}
    run = begin(client, stage, **options)
    params: dict[str, Any] = {"message": {"role": "user", "content": "in euros"}, "namespace": []}
    if method == "run.start":
        params = {"assistant_id": "desk", "input": user("in euros"), "multitaskStrategy": "steer"}
    answer = command(url, method, **params)
    assert answer["type"] == "success", answer
    assert answer["result"].keys() == ({"run_id"} if method == "run.start" else set())
    stage.go_on()
    assert client.runs.join("t", run)["messages"][-1]["content"] == "Read: work, in euros"
    assert command(url, "input.inject", message=SAID)["error"] == "no_such_run"
    assert len(client.runs.list("t")) == 2


SAID = {"role": "user", "content": "x"}


@each(
    "params, code, text",
    [
        ({"message": SAID}, "no_such_run", "Send 'run.start'."),
        ({}, "invalid_argument", "params.message is missing"),
        ({"message": {**SAID, "role": "system"}}, "invalid_argument", "'user'"),
        ({"message": SAID, "namespace": ["inner:1"]}, "invalid_argument", "outermost agent"),
    ],
)
def test_a_message_that_cannot_be_injected_is_refused(
    url: str, params: dict[str, Any], code: str, text: str
) -> None:
    answer = command(url, "input.inject", **params)
    assert (answer["type"], answer["error"]) == ("error", code)
    assert text in answer["message"]


def ag_ui(text: str, run: str = "r-2", before: Any = ()) -> dict[str, Any]:
    message = {"id": f"m-{text}", "role": "user", "content": text}
    return {"threadId": "t", "runId": run, "messages": [*before, message]}


def events(url: str, body: Any, **query: str) -> list[dict[str, Any]]:
    answer = httpx.post(f"{url}/ag-ui/desk", params=query, json=body, timeout=WAIT)
    assert answer.status_code == 200, answer.text
    lines = answer.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def test_a_client_of_ag_ui_steers_a_run(service: Service, url: str, stage: Stage) -> None:
    with ThreadPoolExecutor() as pool:
        first = pool.submit(events, url, ag_ui("work", "r-1"))
        stage.wait_until_it_works()
        before = ag_ui("work")["messages"]
        second = pool.submit(events, url, ag_ui("in euros", before=before), busy="steer")
        queued: list[Run] = []
        while not queued:
            queued = service.threads.runs("t", status=["queued"])
        stage.go_on()
        first_events, second_events = first.result(WAIT), second.result(WAIT)
    for answer in (first_events, second_events):
        assert answer[-1]["type"] == "RUN_FINISHED"
        said = [event["delta"] for event in answer if event["type"] == "TEXT_MESSAGE_CONTENT"]
        assert "".join(said) == "Read: work, in euros"
    assert second_events[-1]["runId"] == "r-2"
    wrong = httpx.post(f"{url}/ag-ui/desk?busy=hurry", json=ag_ui("work")).text
    assert "busy must be one of 'queue', 'reject', 'interrupt', 'rollback', 'steer'" in wrong
    assert texts(service) == ["work", "in euros"]


SAYS = {
    "reject": "This thread takes no message before the run has ended.",
    "interrupt": "The message ends the run. What the run has written stays.",
    "rollback": "The message ends the run, and the thread goes back to before it.",
    "queue": "The message waits for its turn.",
}


@pytest.mark.parametrize(("busy", "text"), SAYS.items())
def test_a_page_says_what_happens_with_a_message(
    service: Service, url: str, stage: Stage, busy: Any, text: str
) -> None:
    service.add("other", stage.agent(steered=False), busy=busy)
    page = f"{url}/studio/threads/new"
    service.submit("other", thread="new", message="work")
    stage.wait_until_it_works()
    assert text in httpx.get(page).text
    place = service.threads.state("new").config["configurable"]["checkpoint_id"]
    assert text in httpx.get(page, params={"at": place}).text
    stage.go_on()
    service.threads.runs("new")[0].result(WAIT)
    assert text not in httpx.get(page).text
