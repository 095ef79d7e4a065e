"""Agents over A2A, with its official client."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a import types
from a2a.client import A2ACardResolver, Client, ClientConfig, create_client
from a2a.helpers import get_message_text, new_data_part, new_raw_part, new_text_part, new_url_part
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict
from langchain_core.messages import AIMessage

from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.serve import RateLimit
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from serve.accounts import SERVER as SERVER
from serve.accounts import Bill, add_gated, statuses, who
from serve.agents import caller, chat_service, pay
from serve.route_examples import rpc
from servers import connections, served
from tables import each
from waiting import auntil

DONE = types.TaskState.TASK_STATE_COMPLETED
WAITING = types.TaskState.TASK_STATE_INPUT_REQUIRED


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with chat_service(f"sqlite:///{tmp_path_factory.mktemp('a2a')}/desk.db") as service:
        service.add("described", create_agent(caller("pay", euros=5), [pay]), description="Pays.")
        bill = AIMessage("", tool_calls=[{"name": "Bill", "args": {"euros": 7}, "id": "b"}])
        service.add("biller", create_agent(ScriptedChatModel([bill] * 9), response_format=Bill))
        add_gated(service)
        says = lambda messages: AIMessage(str(messages[-1].content))  # noqa: E731  what it was sent
        service.add("mirror", create_agent(ScriptedChatModel([says] * 9)))
        two = [{"name": "pay", "args": {"euros": euros}, "id": f"p-{euros}"} for euros in (1, 2)]
        review = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
        twice = ScriptedChatModel([AIMessage("", tool_calls=two), "Both are paid."])
        service.add("twice", create_agent(twice, [pay], middleware=[review], ignore=["AF211"]))
        yield service


@asynccontextmanager
async def connected(
    url: str, agent: str, by: str = "ann@acme", *, role: str = "accounting", streaming: bool = False
) -> AsyncIterator[Client]:
    """A client of somebody, which finds the agent by its card."""
    headers = {"x-user": by, "x-role": role}
    async with httpx.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        config = ClientConfig(httpx_client=http, streaming=streaming)
        yield await create_client(f"{url}/a2a/{agent}", config)


def message(
    *parts: Any, task: str = "", context: str = "", id: str = "", at_once: bool = False
) -> types.SendMessageRequest:
    """A message with texts or parts, whose task may be returned at once."""
    return types.SendMessageRequest(
        message=types.Message(
            message_id=id or uuid4().hex,
            task_id=task,
            context_id=context,
            role=types.Role.ROLE_USER,
            parts=[new_text_part(part) if isinstance(part, str) else part for part in parts],
        ),
        configuration=types.SendMessageConfiguration(return_immediately=at_once),
    )


async def sent(
    url: str, agent: str, request: types.SendMessageRequest | str, *options: Any, **more: Any
) -> types.Task:
    """The task of a message."""
    if isinstance(request, str):
        request = message(request)
    async with connected(url, agent, *options, **more) as client:
        (response,) = [response async for response in client.send_message(request)]
    return response.task


async def streamed(
    url: str, agent: str, request: types.SendMessageRequest
) -> list[types.StreamResponse]:
    """The events of a message."""
    async with connected(url, agent, streaming=True) as client:
        return [event async for event in client.send_message(request)]


def texts(task: types.Task) -> list[str]:
    return [part.text for artifact in task.artifacts for part in artifact.parts if part.text]


def kinds(events: list[types.StreamResponse]) -> list[Any]:
    """The kinds of events, and the states of tasks; those that repeat once."""
    found: list[Any] = []
    for event in events:
        kind = event.WhichOneof("payload")
        if kind == "artifact_update":
            found.append("artifact")
        else:
            status = event.task.status if kind == "task" else event.status_update.status
            found.append((kind, types.TaskState.Name(status.state).removeprefix("TASK_STATE_")))
    return [kind for at, kind in enumerate(found) if found[at - 1 : at] != [kind]]


def shown(events: list[types.StreamResponse]) -> str:
    """The texts of a stream. The first event has those of a task that has ended before it."""
    artifacts = [artifact for event in events for artifact in event.task.artifacts]
    artifacts += [event.artifact_update.artifact for event in events]
    return "".join(part.text for artifact in artifacts for part in artifact.parts)


def end_of(events: list[types.StreamResponse]) -> str:
    """The state in which a stream ends."""
    *_, (_, state) = kinds(events)
    return str(state)


@pytest.mark.long
async def test_the_card_of_an_agent(url: str, tmp_path: Path) -> None:
    """A host with one agent has its card, and another one that of the agent that is named."""
    async with httpx.AsyncClient(trust_env=False) as http:
        card = await A2ACardResolver(http, f"{url}/a2a/described").get_agent_card()
    assert (card.name, card.description) == ("described", "Pays.")
    assert card.capabilities.streaming
    assert {interface.url for interface in card.supported_interfaces} == {f"{url}/a2a/described"}
    response = httpx.get(f"{url}/a2a/echo/.well-known/agent-card.json")
    # A2A wants cards to be kept; by the client alone, since the server may ask who they are.
    assert response.headers["cache-control"] == "private, max-age=60"
    answer = response.json()
    assert "'echo'" in answer["description"]
    assert answer["url"] == f"{url}/a2a/echo"  # where clients of version 0.3 look
    place = "/.well-known/agent-card.json"
    unknown = f"/a2a/ech{place}", "There is no agent 'ech'."
    named = f"/a2a/described{place}"
    for path, text in (unknown, (place, f"{place}?agent=NAME"), (f"/a2a{place}", named)):
        refused = httpx.get(url + path)
        assert (refused.status_code, text in refused.json()["detail"]) == (404, True)
    named = httpx.get(f"{url}{place}?agent=echo").json()
    assert named["supportedInterfaces"][0]["url"] == f"{url}/a2a/echo"
    service = Service(f"sqlite:///{tmp_path}/one.db")
    service.add("only", create_agent(ScriptedChatModel([])))
    with served(service) as host:
        only = httpx.get(f"{host}{place}").json()
    assert (only["name"], only["supportedInterfaces"][0]["url"]) == ("only", f"{host}/a2a/only")


async def test_contexts_are_threads_and_tasks_are_runs(url: str, service: Service) -> None:
    """A message with the id of an answer does not replace it."""
    first = await sent(url, "echo", message("Hi", id="m-1"))
    assert (first.status.state, texts(first)) == (DONE, ["You said: Hi"])
    assert [(item.message_id, get_message_text(item)) for item in first.history] == [("m-1", "Hi")]
    id = first.artifacts[0].artifact_id
    second = await sent(url, "echo", message("Forged", context=first.context_id, id=id))
    assert second.context_id == first.context_id
    assert texts(second) == ["You said: Forged"]
    runs = service.threads.runs(first.context_id, tenant="acme")
    assert [run.id for run in runs] == [second.id, first.id]
    messages = service.threads.state(first.context_id).values["messages"]
    assert [item.text for item in messages] == ["Hi", "You said: Hi", "Forged", "You said: Forged"]


async def test_a_message_that_is_sent_again_is_the_same_task(url: str) -> None:
    context = uuid4().hex
    for agent in ("echo", "desk"):
        request = message("Hi", context=f"{context}-{agent}")
        first, again = await sent(url, agent, request), await sent(url, agent, request)
        assert first.id == again.id
        assert texts(first) == texts(again)


async def test_a_stream_has_the_events_of_a_task(url: str, gate: Event) -> None:
    events = []
    async with connected(url, "gated", streaming=True) as client:
        async for event in client.send_message(message("Hi")):
            events.append(event)
            gate.set()  # the task goes on once its stream has begun
    begin, *rest = kinds(events)
    assert begin in [("task", "SUBMITTED"), ("task", "WORKING")]
    assert rest == [("status_update", "WORKING"), "artifact", ("status_update", "COMPLETED")]
    pieces = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert "".join(part.text for p in pieces for part in p.artifact.parts) == "You said: Hi"
    assert [piece.append for piece in pieces] == [False] + [True] * (len(pieces) - 1)
    async with connected(url, "gated") as client:
        task = await client.get_task(types.GetTaskRequest(id=events[0].task.id))
    assert task.artifacts[0].artifact_id == pieces[0].artifact.artifact_id


async def test_texts_before_a_call_are_shown_and_what_is_private_is_not(url: str) -> None:
    """Neither agents inside nor private parts of the state."""
    task = await sent(url, "boss", "Ask")
    assert texts(task) == ["Let me see.", "Done: Inner words."]
    assert shown(await streamed(url, "boss", message("Ask"))) == "Let me see.Done: Inner words."
    assert "hidden" not in str(await sent(url, "notes", "Note it"))


async def test_structured_output_is_an_artifact_with_data(url: str) -> None:
    task = await sent(url, "biller", "Pay")
    (artifact,) = task.artifacts
    assert MessageToDict(artifact.parts[0].data) == {"euros": 7}
    events = await streamed(url, "biller", message("Pay"))
    ids = [artifact.artifact_id for event in events for artifact in event.task.artifacts]
    ids += [event.artifact_update.artifact.artifact_id for event in events]
    assert "structured_response" in ids


async def test_parts_reach_the_agent(url: str) -> None:
    parts: list[types.Part] = [
        new_text_part("Look"),
        new_data_part({"n": 3}),
        new_url_part("https://example.com/a.png", "image/png"),
        new_raw_part(b"raw", "application/pdf"),
    ]
    (text,) = texts(await sent(url, "mirror", message(*parts)))
    for expected in (
        "'text': '{\"n\":3}'",
        "'type': 'image'",
        "'url': 'https://example.com/a.png'",
        "'mime_type': 'application/pdf'",
        base64.b64encode(b"raw").decode(),
    ):
        assert expected in text


async def test_a_task_is_returned_at_once_and_read_later(url: str, gate: Event) -> None:
    task = await sent(url, "gated", message("Hi", at_once=True))
    async with connected(url, "gated", streaming=True) as client:
        assert task.status.state != DONE
        events = []
        async for event in client.subscribe(types.SubscribeToTaskRequest(id=task.id)):
            events.append(event)
            gate.set()  # the task goes on once its stream has begun
        assert end_of(events) == "COMPLETED"
        assert texts(await client.get_task(types.GetTaskRequest(id=task.id))) == ["You said: Hi"]
        with pytest.raises(errors.UnsupportedOperationError, match="has ended: it is done"):
            [event async for event in client.subscribe(types.SubscribeToTaskRequest(id=task.id))]
        short = await client.get_task(types.GetTaskRequest(id=task.id, history_length=0))
        assert not short.history


@pytest.mark.usefixtures("gate")
async def test_a_task_is_cancelled_once(url: str, service: Service) -> None:
    task = await sent(url, "gated", message("Hi", at_once=True))
    async with connected(url, "gated") as client:
        cancelled = await client.cancel_task(types.CancelTaskRequest(id=task.id))
        assert cancelled.status.state == types.TaskState.TASK_STATE_CANCELED
        with pytest.raises(errors.TaskNotCancelableError, match="it is cancelled"):
            await client.cancel_task(types.CancelTaskRequest(id=task.id))
    assert service.run(task.id).status == "cancelled"
    entry, *_ = service.inbox("acme").audit(thread=task.context_id)
    assert (entry.who, entry.what) == ("ann@acme", "cancel")


async def test_a_client_that_goes_away_leaves_its_task(
    url: str, service: Service, gate: Event
) -> None:
    context, before = uuid4().hex, connections(url)
    going = asyncio.ensure_future(streamed(url, "gated", message("Hi", context=context)))
    await auntil(lambda: statuses(service, context) == ["running"])
    going.cancel()
    await asyncio.wait([going])
    await auntil(lambda: connections(url) <= before)
    gate.set()
    await auntil(lambda: statuses(service, context) == ["done"])


async def test_the_tasks_of_a_context(url: str) -> None:
    first = await sent(url, "echo", "One")
    for word in ("Two", "Three"):
        await sent(url, "echo", message(word, context=first.context_id))
    async with connected(url, "echo") as client:
        options: Any = {"context_id": first.context_id, "page_size": 2}
        request = types.ListTasksRequest(**options, include_artifacts=True)
        page = await client.list_tasks(request)
        assert (page.total_size, page.page_size) == (3, 2)
        assert [texts(task) for task in page.tasks] == [["You said: Three"], ["You said: Two"]]
        request.page_token = page.next_page_token
        rest = await client.list_tasks(request)
        assert [texts(task) for task in rest.tasks] == [["You said: One"]]
        assert rest.next_page_token == ""
        none = types.ListTasksRequest(context_id=first.context_id, status=WAITING)
        assert not (await client.list_tasks(none)).tasks
        assert not (await client.list_tasks(types.ListTasksRequest(context_id="unknown"))).tasks
        newest = await client.list_tasks(types.ListTasksRequest(status=DONE, page_size=1))
        assert (newest.tasks[0].id, [*newest.tasks[0].artifacts]) == (page.tasks[0].id, [])
        tokens: Any = [{"page_token": token} for token in ("x", "9" * 20, "9" * 5000)]
        for wrong in ({"page_size": 101}, *tokens, {"history_length": -1}):
            with pytest.raises(errors.InvalidParamsError):
                await client.list_tasks(types.ListTasksRequest(**wrong))
    async with connected(url, "echo", "eve@other") as client:
        assert not (await client.list_tasks(types.ListTasksRequest())).tasks


async def test_a_review_is_input_that_a_message_gives(url: str, service: Service) -> None:
    task = await sent(url, "desk", "Pay")
    assert task.status.state == WAITING
    text, data = task.status.message.parts
    (wait,) = MessageToDict(data.data)["waits"]
    assert (wait["tool"], wait["args"]) == ("pay", {"euros": 5})
    assert f"{url}/inbox/{wait['id']}" in text.text
    done = await sent(url, "desk", message("approve", task=task.id, context=task.context_id))
    assert (done.id, done.status.state) == (task.id, DONE)
    assert texts(done) == ["Let me see.", "Done: Paid 5."]
    entry, *_ = service.inbox("acme").audit(thread=task.context_id)
    assert (entry.who, entry.what, entry.detail["via"]) == ("ann@acme", "approve", "a2a")
    before = await streamed(url, "desk", message("Pay"))
    after = await streamed(url, "desk", message("approve", task=before[0].task.id))
    assert (end_of(before), end_of(after)) == ("INPUT_REQUIRED", "COMPLETED")
    assert shown(after).endswith("Done: Paid 5.")


@pytest.mark.parametrize(
    ("agent", "asked", "part", "answer"),
    [
        ("asker", '{"about":"tea"}', "green tea", "Done: They said green tea."),
        ("asker", '{"about":"tea"}', {"n": 2}, "Done: They said {'n': 2}."),
    ],
)
async def test_data_are_a_whole_decision_and_a_question_takes_texts_as_well(
    url: str, agent: str, asked: str, part: Any, answer: str
) -> None:
    task = await sent(url, agent, "Pay")
    assert asked in get_message_text(task.status.message)
    part = part if isinstance(part, str) else new_data_part(part)
    done = await sent(url, agent, message(part, task=task.id))
    assert answer in texts(done)[-1]


async def test_several_decisions_name_what_they_decide(url: str) -> None:
    task = await sent(url, "twice", "Pay")
    waits = MessageToDict(task.status.message.parts[1].data)["waits"]
    assert len(waits) == 2
    with pytest.raises(errors.InvalidParamsError, match=r"for 2 decisions\. Send data such as"):
        await sent(url, "twice", message("approve", task=task.id))
    stranger = {"decisions": {"w-9": {"type": "approve"}}}
    with pytest.raises(errors.InvalidParamsError, match="does not wait for w-9"):
        await sent(url, "twice", message(new_data_part(stranger), task=task.id))
    one = {"decisions": {waits[0]["id"]: {"type": "approve"}}}
    task = await sent(url, "twice", message(new_data_part(one), task=task.id))
    assert task.status.state == WAITING
    done = await sent(url, "twice", message("approve", task=task.id))
    assert texts(done) == ["Both are paid."]


async def test_what_decides_nothing_changes_nothing(url: str, service: Service) -> None:
    task = await sent(url, "desk", "Pay")

    async def refused(request: Any, *options: Any, **more: Any) -> errors.A2AError:
        with pytest.raises(errors.A2AError) as error:
            await sent(url, "desk", request, *options, **more)
        return error.value

    invalid, unsupported = errors.InvalidParamsError, errors.UnsupportedOperationError
    typo = message(new_data_part({"type": "aprove"}), task=task.id)
    elsewhere = message("approve", task=task.id, context="t-other")
    for attempt, kind, reason in (
        (message("yes please", task=task.id), invalid, "must decide about pay"),
        (typo, invalid, 'Did you mean {"type": "approve"}?'),
        (elsewhere, invalid, "belongs to"),
        (message("And?", context=task.context_id), unsupported, "the message was not taken"),
        (message("approve", task=uuid4().hex), errors.TaskNotFoundError, "does not exist"),
    ):
        error = await refused(attempt)
        assert isinstance(error, kind), error
        assert reason in str(error)
    approval = message("approve", task=task.id)
    assert "may not decide" in str(await refused(approval, role="intern"))
    assert isinstance(await refused(approval, "eve@other"), errors.TaskNotFoundError)
    (wait,) = service.inbox("acme").waits(thread=task.context_id)
    assert wait.decided_at is None
    service.decide(wait.id, "approve", by="bob", tenant="acme")
    error = await refused(approval)
    assert "waits for no input" in str(error)


async def test_tasks_of_others_do_not_exist(url: str) -> None:
    task = await sent(url, "echo", "Hi")
    for agent, by in (("echo", "eve@other"), ("desk", "ann@acme")):
        async with connected(url, agent, by, streaming=True) as client:
            with pytest.raises(errors.TaskNotFoundError):
                await client.get_task(types.GetTaskRequest(id=task.id))
            with pytest.raises(errors.TaskNotFoundError):
                await client.cancel_task(types.CancelTaskRequest(id=task.id))
            with pytest.raises(errors.TaskNotFoundError):
                async for _ in client.subscribe(types.SubscribeToTaskRequest(id=task.id)):
                    pass


async def test_what_is_not_offered_is_refused(url: str) -> None:
    request = message("Hi")
    push = types.TaskPushNotificationConfig(url="https://example.com/hook")
    request.configuration.task_push_notification_config.CopyFrom(push)
    with pytest.raises(errors.PushNotificationNotSupportedError):
        await sent(url, "echo", request)
    body, version = rpc("GetExtendedAgentCard"), {"A2A-Version": "1.0"}
    answer = httpx.post(f"{url}/a2a/echo", json=body, headers=version).json()
    assert answer["error"]["code"] == -32004
    with pytest.raises(errors.InvalidParamsError):
        await sent(url, "echo", types.SendMessageRequest())


@each(
    "body, code, text",
    [
        (b"{no", -32700, "is not JSON"),
        (b'{"method": "SendMessage", "params": {"a": "\\u0000"}}', -32602, "params.a"),
        (rpc("ListTasks") | {"params": [1]}, -32602, "params must be an object"),
        (rpc("ListTasks", status="TASK_STATE_LOST"), -32602, "TASK_STATE_COMPLETED"),
        (rpc("ListTasks", status=99), -32602, "TASK_STATE_COMPLETED"),
        (
            rpc(
                "SendMessage",
                message={"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi"}]},
                configuration={"acceptedOutputModes": ["image/png"]},
            ),
            -32005,
            "acceptedOutputModes must have one of text/plain",
        ),
    ],
)
def test_a_wrong_request_is_an_error_of_json_rpc(url: str, body: Any, code: int, text: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json", "A2A-Version": "1.0"}
    answer = httpx.post(f"{url}/a2a/echo", content=content, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (200, code), answer.text
    assert text in answer.json()["error"]["message"]


async def test_a_failed_run_is_a_failed_task(url: str) -> None:
    task = await sent(url, "echo", "fail")
    assert task.status.state == types.TaskState.TASK_STATE_FAILED
    assert "the model is out of order" in get_message_text(task.status.message)


def test_clients_of_version_0_3_are_served(url: str) -> None:
    parts = [{"kind": "text", "text": "Hi"}]
    said = {"kind": "message", "messageId": "m-1", "role": "user", "parts": parts}
    answer = httpx.post(f"{url}/a2a/echo", json=rpc("message/send", message=said)).json()
    task = answer["result"]
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert task["artifacts"][0]["parts"][0]["text"] == "You said: Hi"
    read = httpx.post(f"{url}/a2a/echo", json=rpc("tasks/get", id=task["id"])).json()
    assert read["result"]["id"] == task["id"]


def test_limits_hold(service: Service) -> None:
    limit = RateLimit(principal=2, address=1000)
    with served(service, authenticate=who, rate_limit=limit, body_limit=1000) as url:
        small, large = rpc("tasks/get", id="t"), rpc("tasks/get", id="t" * 1000)
        answers = [httpx.post(f"{url}/a2a/echo", json=body) for body in (small, large, small)]
    assert [answer.status_code for answer in answers] == [200, 413, 429]
