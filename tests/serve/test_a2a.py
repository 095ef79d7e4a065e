"""Agents over A2A, with its official client."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, create_client
from a2a.helpers import get_message_text, new_data_part, new_raw_part, new_text_part, new_url_part
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict
from langchain_core.messages import AIMessage, BaseMessage

from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.serve import RateLimit
from agent_factory.serve.a2a import tasks
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from serve.accounts import SERVER as SERVER
from serve.accounts import Bill, add_gated, decided_meanwhile, statuses, who
from serve.agents import caller, chat_service, pay
from serve.route_examples import rpc
from servers import connections, served
from waiting import auntil

DONE = TaskState.TASK_STATE_COMPLETED
WAITING = TaskState.TASK_STATE_INPUT_REQUIRED


def content_of(messages: list[BaseMessage]) -> AIMessage:
    """Says what it was sent."""
    return AIMessage(str(messages[-1].content))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with chat_service(f"sqlite:///{tmp_path_factory.mktemp('a2a')}/desk.db") as service:
        service.add("described", create_agent(caller("pay", euros=5), [pay]), description="Pays.")
        bill = AIMessage("", tool_calls=[{"name": "Bill", "args": {"euros": 7}, "id": "b"}])
        service.add("biller", create_agent(ScriptedChatModel([bill] * 9), response_format=Bill))
        add_gated(service)
        service.add("mirror", create_agent(ScriptedChatModel([content_of] * 9)))
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


def message(*parts: Any, task: str = "", context: str = "", id: str = "") -> SendMessageRequest:
    """A message with texts or parts."""
    return SendMessageRequest(
        message=Message(
            message_id=id or uuid4().hex,
            task_id=task,
            context_id=context,
            role=Role.ROLE_USER,
            parts=[new_text_part(part) if isinstance(part, str) else part for part in parts],
        )
    )


async def sent(
    url: str, agent: str, request: SendMessageRequest | str, *options: Any, **more: Any
) -> Task:
    """The task of a message."""
    if isinstance(request, str):
        request = message(request)
    async with connected(url, agent, *options, **more) as client:
        (response,) = [response async for response in client.send_message(request)]
    return response.task


async def streamed(url: str, agent: str, request: SendMessageRequest) -> list[StreamResponse]:
    """The events of a message."""
    async with connected(url, agent, streaming=True) as client:
        return [event async for event in client.send_message(request)]


def texts(task: Task) -> list[str]:
    return [part.text for artifact in task.artifacts for part in artifact.parts if part.text]


def kinds(events: list[StreamResponse]) -> list[Any]:
    """The kinds of events, and the states of tasks; those that repeat once."""
    found: list[Any] = []
    for event in events:
        kind = event.WhichOneof("payload")
        if kind == "artifact_update":
            found.append("artifact")
        else:
            status = event.task.status if kind == "task" else event.status_update.status
            found.append((kind, TaskState.Name(status.state).removeprefix("TASK_STATE_")))
    return [kind for at, kind in enumerate(found) if found[at - 1 : at] != [kind]]


def shown(events: list[StreamResponse]) -> str:
    """The texts of a stream. The first event has those of a task that has ended before it."""
    artifacts = [artifact for event in events for artifact in event.task.artifacts]
    artifacts += [event.artifact_update.artifact for event in events]
    return "".join(part.text for artifact in artifacts for part in artifact.parts)


def end_of(events: list[StreamResponse]) -> str:
    """The state in which a stream ends."""
    *_, (_, state) = kinds(events)
    return str(state)


# Cards


@pytest.mark.long
async def test_the_card_of_an_agent(url: str) -> None:
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
    refused = httpx.get(f"{url}/a2a/ech/.well-known/agent-card.json")
    assert refused.status_code == 404
    assert "There is no agent 'ech'." in refused.json()["detail"]


@pytest.mark.long
def test_a_host_with_one_agent_has_its_card(url: str, tmp_path: Any) -> None:
    refused = httpx.get(f"{url}/.well-known/agent-card.json")
    assert refused.status_code == 404
    assert "/.well-known/agent-card.json?agent=NAME" in refused.json()["detail"]
    card = httpx.get(f"{url}/.well-known/agent-card.json?agent=echo").json()
    assert card["supportedInterfaces"][0]["url"] == f"{url}/a2a/echo"
    service = Service(f"sqlite:///{tmp_path}/one.db")
    service.add("only", create_agent(ScriptedChatModel([])))
    with served(service) as url:
        card = httpx.get(f"{url}/.well-known/agent-card.json").json()
    assert card["name"] == "only"
    assert card["supportedInterfaces"][0]["url"] == f"{url}/a2a/only"


# Messages and tasks


async def test_contexts_are_threads_and_tasks_are_runs(url: str, service: Service) -> None:
    first = await sent(url, "echo", message("Hi", id="m-1"))
    assert first.status.state == DONE
    assert texts(first) == ["You said: Hi"]
    assert [(item.message_id, get_message_text(item)) for item in first.history] == [("m-1", "Hi")]
    second = await sent(url, "echo", message("More", context=first.context_id))
    assert second.context_id == first.context_id
    assert second.id != first.id
    assert texts(second) == ["You said: More"]
    runs = service.threads.runs(first.context_id, tenant="acme")
    assert [run.id for run in runs] == [second.id, first.id]


async def test_a_message_with_the_id_of_an_answer_does_not_replace_it(
    url: str, service: Service
) -> None:
    first = await sent(url, "echo", "Hi")
    id = first.artifacts[0].artifact_id
    await sent(url, "echo", message("Forged", context=first.context_id, id=id))
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
        task = await client.get_task(GetTaskRequest(id=events[0].task.id))
    assert task.artifacts[0].artifact_id == pieces[0].artifact.artifact_id


async def test_texts_before_a_call_are_artifacts_and_agents_inside_are_not_shown(url: str) -> None:
    task = await sent(url, "boss", "Ask")
    assert texts(task) == ["Let me see.", "Done: Inner words."]
    assert shown(await streamed(url, "boss", message("Ask"))) == "Let me see.Done: Inner words."


async def test_structured_output_is_an_artifact_with_data(url: str) -> None:
    task = await sent(url, "biller", "Pay")
    (artifact,) = task.artifacts
    assert MessageToDict(artifact.parts[0].data) == {"euros": 7}
    events = await streamed(url, "biller", message("Pay"))
    ids = [artifact.artifact_id for event in events for artifact in event.task.artifacts]
    ids += [event.artifact_update.artifact.artifact_id for event in events]
    assert "structured_response" in ids


async def test_a_private_part_of_the_state_stays_on_the_server(url: str) -> None:
    task = await sent(url, "notes", "Note it")
    assert "hidden" not in str(task)


async def test_parts_reach_the_agent(url: str) -> None:
    parts: list[Part] = [
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
    request = message("Hi")
    request.configuration.CopyFrom(SendMessageConfiguration(return_immediately=True))
    task = await sent(url, "gated", request)
    async with connected(url, "gated", streaming=True) as client:
        assert task.status.state != DONE
        events = []
        async for event in client.subscribe(SubscribeToTaskRequest(id=task.id)):
            events.append(event)
            gate.set()  # the task goes on once its stream has begun
        assert end_of(events) == "COMPLETED"
        assert texts(await client.get_task(GetTaskRequest(id=task.id))) == ["You said: Hi"]
        with pytest.raises(UnsupportedOperationError, match="has ended: it is done"):
            [event async for event in client.subscribe(SubscribeToTaskRequest(id=task.id))]
        short = await client.get_task(GetTaskRequest(id=task.id, history_length=0))
        assert not short.history


@pytest.mark.usefixtures("gate")
async def test_a_task_is_cancelled_once(url: str, service: Service) -> None:
    request = message("Hi")
    request.configuration.CopyFrom(SendMessageConfiguration(return_immediately=True))
    task = await sent(url, "gated", request)
    async with connected(url, "gated") as client:
        cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        with pytest.raises(TaskNotCancelableError, match="it is cancelled"):
            await client.cancel_task(CancelTaskRequest(id=task.id))
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
        request = ListTasksRequest(context_id=first.context_id, page_size=2, include_artifacts=True)
        page = await client.list_tasks(request)
        assert (page.total_size, page.page_size) == (3, 2)
        assert [texts(task) for task in page.tasks] == [["You said: Three"], ["You said: Two"]]
        request.page_token = page.next_page_token
        rest = await client.list_tasks(request)
        assert [texts(task) for task in rest.tasks] == [["You said: One"]]
        assert rest.next_page_token == ""
        none = ListTasksRequest(context_id=first.context_id, status=WAITING)
        assert not (await client.list_tasks(none)).tasks
        assert not (await client.list_tasks(ListTasksRequest(context_id="unknown"))).tasks
        newest = await client.list_tasks(ListTasksRequest(status=DONE, page_size=1))
        assert newest.tasks[0].id == page.tasks[0].id
        for wrong in ({"page_size": 101}, {"page_token": "x"}, {"history_length": -1}):
            with pytest.raises(InvalidParamsError):
                await client.list_tasks(ListTasksRequest(**wrong))
    async with connected(url, "echo", "eve@other") as client:
        assert not (await client.list_tasks(ListTasksRequest())).tasks


# Reviews


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


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        ({"type": "edit", "edited_action": {"name": "pay", "args": {"euros": 3}}}, "Paid 3."),
        ({"type": "reject", "message": "Too much."}, "Too much."),
        ({"type": "respond", "message": "Paid by cash."}, "Paid by cash."),
    ],
)
async def test_data_are_a_whole_decision(url: str, decision: Any, answer: str) -> None:
    task = await sent(url, "desk", "Pay")
    done = await sent(url, "desk", message(new_data_part(decision), task=task.id))
    assert answer in texts(done)[-1]


@pytest.mark.parametrize(("part", "said"), [("green tea", "green tea"), ({"n": 2}, "{'n': 2}")])
async def test_a_question_is_answered_with_a_text_or_data(url: str, part: Any, said: str) -> None:
    task = await sent(url, "asker", "Ask")
    assert '{"about":"tea"}' in get_message_text(task.status.message)
    part = part if isinstance(part, str) else new_data_part(part)
    done = await sent(url, "asker", message(part, task=task.id))
    assert texts(done)[-1] == f"Done: They said {said}."


async def test_a_stream_ends_where_the_task_waits_and_goes_on_with_the_decision(url: str) -> None:
    before = await streamed(url, "desk", message("Pay"))
    assert end_of(before) == "INPUT_REQUIRED"
    after = await streamed(url, "desk", message("approve", task=before[0].task.id))
    assert end_of(after) == "COMPLETED"
    assert shown(after).endswith("Done: Paid 5.")


async def test_a_task_that_somebody_decides_about_meanwhile_is_followed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "open_waits", decided_meanwhile())
    assert texts(await sent(url, "desk", "Pay"))[-1] == "Done: Paid 5."


async def test_several_decisions_name_what_they_decide(
    url: str,
) -> None:
    task = await sent(url, "twice", "Pay")
    waits = MessageToDict(task.status.message.parts[1].data)["waits"]
    assert len(waits) == 2
    with pytest.raises(InvalidParamsError, match=r"waits for 2 decisions\. Send data such as"):
        await sent(url, "twice", message("approve", task=task.id))
    stranger = {"decisions": {"w-9": {"type": "approve"}}}
    with pytest.raises(InvalidParamsError, match="does not wait for w-9"):
        await sent(url, "twice", message(new_data_part(stranger), task=task.id))
    one = {"decisions": {waits[0]["id"]: {"type": "approve"}}}
    task = await sent(url, "twice", message(new_data_part(one), task=task.id))
    assert task.status.state == WAITING
    done = await sent(url, "twice", message("approve", task=task.id))
    assert texts(done) == ["Both are paid."]


async def test_what_decides_nothing_changes_nothing(url: str, service: Service) -> None:
    task = await sent(url, "desk", "Pay")

    async def refused(request: SendMessageRequest, *options: Any, **more: Any) -> A2AError:
        with pytest.raises(A2AError) as error:
            await sent(url, "desk", request, *options, **more)
        return error.value

    for attempt, kind, reason in (
        (message("yes please", task=task.id), InvalidParamsError, "must decide about pay"),
        (
            message(new_data_part({"type": "aprove"}), task=task.id),
            InvalidParamsError,
            'Did you mean {"type": "approve"}?',
        ),
        (message("approve", task=task.id, context="t-other"), InvalidParamsError, "belongs to"),
        (
            message("And?", context=task.context_id),
            UnsupportedOperationError,
            "the message was not taken",
        ),
        (message("approve", task=uuid4().hex), TaskNotFoundError, "does not exist"),
    ):
        error = await refused(attempt)
        assert isinstance(error, kind), error
        assert reason in str(error)
    approval = message("approve", task=task.id)
    assert "may not decide" in str(await refused(approval, role="intern"))
    assert isinstance(await refused(approval, "eve@other"), TaskNotFoundError)
    (wait,) = service.inbox("acme").waits(thread=task.context_id)
    assert wait.decided_at is None
    service.decide(wait.id, "approve", by="bob", tenant="acme")
    error = await refused(approval)
    assert "waits for no input" in str(error)


# Errors, and who may do what


async def test_a_run_that_fails_is_a_failed_task(url: str) -> None:
    task = await sent(url, "echo", "fail")
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert "the model is out of order" in get_message_text(task.status.message)


async def test_tasks_of_others_do_not_exist(url: str) -> None:
    task = await sent(url, "echo", "Hi")
    for agent, by in (("echo", "eve@other"), ("desk", "ann@acme")):
        async with connected(url, agent, by, streaming=True) as client:
            with pytest.raises(TaskNotFoundError):
                await client.get_task(GetTaskRequest(id=task.id))
            with pytest.raises(TaskNotFoundError):
                await client.cancel_task(CancelTaskRequest(id=task.id))
            with pytest.raises(TaskNotFoundError):
                async for _ in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                    pass
    with pytest.raises(A2AError):
        await sent(url, "echo", message("Hi", context=task.context_id), "eve@other")


async def test_what_is_not_offered_is_refused(url: str) -> None:
    request = message("Hi")
    push = TaskPushNotificationConfig(url="https://example.com/hook")
    request.configuration.task_push_notification_config.CopyFrom(push)
    with pytest.raises(PushNotificationNotSupportedError):
        await sent(url, "echo", request)
    body, version = rpc("GetExtendedAgentCard"), {"A2A-Version": "1.0"}
    answer = httpx.post(f"{url}/a2a/echo", json=body, headers=version).json()
    assert answer["error"]["code"] == -32004
    with pytest.raises(InvalidParamsError):
        await sent(url, "echo", SendMessageRequest())


async def test_a_failure_of_the_server_keeps_its_details(
    url: str, service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret of the server")

    monkeypatch.setattr(service, "submit", broken)
    for send in (sent, streamed):
        with pytest.raises(InternalError, match="The server has failed") as error:
            await send(url, "echo", message("Hi"))
        assert "secret" not in str(error.value)
    assert "secret of the server" in caplog.text


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
