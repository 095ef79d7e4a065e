"""LangGraph's own client for Python, as it is, against a service."""

from __future__ import annotations

from itertools import pairwise
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import get_client, get_sync_client

from agent_factory.serve import Principal
from agent_factory.service import Service
from serve.langgraph_desk import HI, REFUSED, running_service, said
from servers import connections, served
from waiting import until

JSON = {"Content-Type": "application/json"}


def who(request: Any) -> Principal | None:
    name = request.headers.get("x-user")
    return Principal(tenant=name.partition("@")[2], name=name) if name else None


SERVICE = running_service


# Agents


def test_agents_are_found(client: Any) -> None:
    found = client.assistants.search(limit=2, offset=1)
    assert [one["graph_id"] for one in found] == ["desk", "asks"]
    (desk,) = client.assistants.search(graph_id="desk")
    assert client.assistants.get(desk["assistant_id"]) == desk
    assert client.assistants.get("desk") == desk
    assert client.assistants.count() == 3
    graph = client.assistants.get_graph("desk")
    assert {"model", "tools"} <= {node["id"] for node in graph["nodes"]}
    schemas = client.assistants.get_schemas("desk")
    assert "messages" in schemas["input_schema"]["properties"]


def test_an_agent_that_is_not_there(client: Any) -> None:
    with pytest.raises(REFUSED, match=r"assistant 'dekc': does not exist\. Agents: echo, desk"):
        client.assistants.get("dekc")


# Threads


def test_a_thread_and_its_metadata(client: Any) -> None:
    topic = uuid4().hex
    made = client.threads.create(metadata={"topic": topic})
    assert (made["status"], made["values"], made["metadata"]) == ("idle", {}, {"topic": topic})
    assert client.threads.create(thread_id=made["thread_id"], if_exists="do_nothing") == made
    with pytest.raises(REFUSED, match="exists"):
        client.threads.create(thread_id=made["thread_id"])
    changed = client.threads.update(made["thread_id"], metadata={"open": True})
    assert changed["metadata"] == {"topic": topic, "open": True}
    (found,) = client.threads.search(metadata={"topic": topic})
    assert found["thread_id"] == made["thread_id"]
    assert client.threads.count(metadata={"topic": topic}) == 1
    assert client.threads.get_state(made["thread_id"])["values"] == {}
    assert client.threads.get_history(made["thread_id"]) == []
    client.threads.delete(made["thread_id"])
    assert client.threads.search(metadata={"topic": topic}) == []
    with pytest.raises(REFUSED, match="does not exist"):
        client.threads.get(made["thread_id"])


def test_threads_are_found_by_their_state(client: Any) -> None:
    thread = client.threads.create(metadata={"case": "status"})["thread_id"]
    client.runs.wait(thread, "desk", input=HI)
    (found,) = client.threads.search(metadata={"case": "status"}, status="interrupted")
    assert found["metadata"]["graph_id"] == "desk"
    assert said(found["values"])[0] == "Hi"
    ((asked,),) = found["interrupts"].values()
    assert asked["value"]["action_requests"][0]["name"] == "pay"
    by_agent = client.threads.search(metadata={"graph_id": "desk"}, ids=[thread], select=["status"])
    assert by_agent == [{"status": "interrupted"}]
    assert client.threads.search(metadata={"case": "status"}, status="idle") == []


def test_the_state_and_the_history(client: Any, thread: str) -> None:
    client.runs.wait(thread, "echo", input=HI)
    state = client.threads.get_state(thread)
    assert said(state["values"]) == ["Hi", "You said: Hi"]
    assert state["next"] == []
    states = client.threads.get_history(thread, limit=2)
    assert states[0]["checkpoint"] == state["checkpoint"]
    assert states[1]["next"] == ["model"]
    assert states[0]["parent_checkpoint"] == states[1]["checkpoint"]
    earlier = client.threads.get_history(thread, before=states[0]["checkpoint"])
    assert earlier[0] == states[1]
    place = states[1]["checkpoint"]
    for given in ({"checkpoint": place}, {"checkpoint_id": place["checkpoint_id"]}):
        assert client.threads.get_state(thread, **given)["values"] == states[1]["values"]
    update = {"messages": [{"role": "assistant", "content": "By hand."}]}
    new = client.threads.update_state(thread, update, as_node="model")["checkpoint"]
    assert client.threads.get_state(thread)["checkpoint"] == new
    assert said(client.threads.get_state(thread)["values"])[-1] == "By hand."


def test_a_run_begins_at_an_earlier_checkpoint(client: Any, thread: str) -> None:
    client.runs.wait(thread, "echo", input=HI)
    first = client.threads.get_state(thread)["checkpoint"]
    client.runs.wait(thread, "echo", input={"messages": [{"role": "user", "content": "Two"}]})
    other: Any = {"messages": [{"role": "user", "content": "Other"}]}
    values = client.runs.wait(thread, "echo", input=other, checkpoint=first)
    assert said(values) == ["Hi", "You said: Hi", "Other", "You said: Other"]
    before = client.threads.get_history(thread, limit=2)[1]["checkpoint"]
    again = client.runs.wait(thread, "echo", checkpoint_id=before["checkpoint_id"])
    assert said(again) == said(values)


# Runs


def test_a_run_is_created_and_joined(client: Any, thread: str) -> None:
    run = client.runs.create(thread, "echo", input=HI, metadata={"from": "mail"})
    assert run["status"] in ("pending", "running", "success")
    assert said(client.runs.join(thread, run["run_id"])) == ["Hi", "You said: Hi"]
    known = client.runs.get(thread, run["run_id"])
    assert (known["status"], known["metadata"]) == ("success", {"from": "mail"})
    assert client.runs.list(thread) == [known]
    assert client.runs.list(thread, status="error") == []


def test_a_run_without_a_thread(client: Any, service: Service) -> None:
    before = service.threads.count()
    assert said(client.runs.wait(None, "echo", input=HI)) == ["Hi", "You said: Hi"]
    assert service.threads.count() == before
    parts = [*client.runs.stream(None, "echo", input=HI, stream_mode="updates")]
    assert [part.event for part in parts] == ["metadata", "updates"]
    kept = client.runs.wait(None, "echo", input=HI, on_completion="keep")
    assert said(kept) == ["Hi", "You said: Hi"]
    assert service.threads.count() == before + 1


def test_a_run_on_a_new_thread(client: Any) -> None:
    thread = str(uuid4())
    with pytest.raises(REFUSED, match="does not exist"):
        client.runs.wait(thread, "echo", input=HI)
    values = client.runs.wait(thread, "echo", input=HI, if_not_exists="create")
    assert said(values) == ["Hi", "You said: Hi"]


def test_a_run_that_fails(client: Any, thread: str) -> None:
    wrong: Any = {"messages": [{"role": "user", "content": "fail"}]}
    with pytest.raises(Exception, match=r"^ValueError: the model is out of order$"):
        client.runs.wait(thread, "echo", input=wrong)
    *_, last = client.runs.stream(thread, "echo", input=wrong, stream_mode="updates")
    assert (last.event, last.data["error"]) == ("error", "ValueError")
    failed = client.threads.get(thread)
    error = {"error": "ValueError", "message": "the model is out of order"}
    assert (failed["status"], failed["error"]) == ("error", error)


@pytest.mark.usefixtures("gate")
def test_a_run_is_cancelled(client: Any, thread: str) -> None:
    held: Any = {"messages": [{"role": "user", "content": "held"}]}
    run = client.runs.create(thread, "echo", input=held)
    with pytest.raises(REFUSED, match=r"is (queued|running)"):
        client.runs.create(thread, "echo", input=HI, multitask_strategy="reject")
    client.runs.cancel(thread, run["run_id"])
    assert client.runs.get(thread, run["run_id"])["status"] == "interrupted"
    values = client.runs.wait(thread, "echo", input=HI, multitask_strategy="interrupt")
    assert said(values)[-1] == "You said: Hi"


# Streams


def test_all_modes_of_a_stream(client: Any, thread: str) -> None:
    modes: Any = ["values", "updates", "messages-tuple", "tasks", "checkpoints", "debug"]
    parts = [*client.runs.stream(thread, "echo", input=HI, stream_mode=modes)]
    assert parts[0].event == "metadata"
    modes[2] = "messages"
    assert {part.event for part in parts[1:]} == {*modes}
    values = [part.data for part in parts if part.event == "values"]
    assert said(values[-1]) == ["Hi", "You said: Hi"]
    tokens = [part.data[0]["content"] for part in parts if part.event == "messages"]
    assert "".join(tokens) == "You said: Hi"
    (update,) = [part.data for part in parts if part.event == "updates"]
    assert said(update["model"]) == ["You said: Hi"]


def test_custom_events_and_the_second_version_of_streams(client: Any, thread: str) -> None:
    client.runs.wait(thread, "desk", input=HI)
    answer: Any = {"resume": {"decisions": [{"type": "approve"}]}}
    stream = client.runs.stream(
        thread, "desk", command=answer, stream_mode=["custom", "values"], version="v2"
    )
    parts = [*stream]
    assert {part["type"] for part in parts} == {"metadata", "custom", "values"}
    assert [part["data"] for part in parts if part["type"] == "custom"] == [{"paying": 5}]


def test_messages_as_far_as_they_are_known(client: Any, thread: str) -> None:
    parts = [*client.runs.stream(thread, "echo", input=HI, stream_mode="messages")]
    texts = [part.data[0]["content"] for part in parts if part.event == "messages/partial"]
    assert texts[-1] == "You said: Hi"
    assert all(later.startswith(text) for text, later in pairwise(texts))
    assert parts[1].event == "messages/metadata"
    assert {part.data[0]["type"] for part in parts if part.event == "messages/partial"} == {"ai"}


def test_a_stream_shows_what_the_thread_waits_for(client: Any, thread: str) -> None:
    *_, last = client.runs.stream(thread, "desk", input=HI, stream_mode="values")
    assert last.data["__interrupt__"][0]["value"]["action_requests"][0]["name"] == "pay"


def test_a_stream_is_joined_again(client: Any, thread: str) -> None:
    modes: Any = ["values", "updates"]
    seen: list[Any] = []
    parts = client.runs.stream(
        thread, "echo", input=HI, stream_mode=modes, on_run_created=seen.append
    )
    all_parts = [*parts]
    (created,) = seen
    assert created["thread_id"] == thread
    run = created["run_id"]
    again = [*client.runs.join_stream(thread, run)]
    assert [part.event for part in again] == [part.event for part in all_parts]
    middle = all_parts[2]
    rest = [*client.runs.join_stream(thread, run, last_event_id=middle.id)]
    assert rest == all_parts[3:]
    (update,) = [
        part
        for part in client.runs.join_stream(thread, run, stream_mode="updates")
        if part.event != "metadata"
    ]
    assert update.event == "updates"


def test_a_stream_of_an_unknown_mode_cannot_be_joined(client: Any, thread: str) -> None:
    run = client.runs.create(thread, "echo", input=HI)["run_id"]
    with pytest.raises(REFUSED, match=r"stream_mode must be one of 'values'.*got 'message'"):
        [*client.runs.join_stream(thread, run, stream_mode="message")]


@pytest.mark.usefixtures("gate")
def test_a_client_that_goes_away_cancels(thread: str, url: str, service: Service) -> None:
    held = {"messages": [{"role": "user", "content": "held"}]}
    body = {"assistant_id": "echo", "input": held, "on_disconnect": "cancel"}
    for way in ("stream", "wait"):
        with httpx.stream("POST", f"{url}/threads/{thread}/runs/{way}", json=body) as response:
            assert response.status_code == 200
        until(lambda: service.threads.runs(thread)[0].status == "cancelled")


@pytest.mark.parametrize("way", ["stream", "wait"])
@pytest.mark.parametrize("does", ["cancel", "continue"])
def test_a_client_that_goes_away_leaves_no_thread_of_its_run(
    url: str, service: Service, way: str, does: str, gate: Event
) -> None:
    before, open_before = service.threads.count(), connections(url)
    held = {"messages": [{"role": "user", "content": "held"}]}
    body = {"assistant_id": "echo", "input": held, "on_disconnect": does}
    with httpx.stream("POST", f"{url}/runs/{way}", json=body) as response:
        assert response.status_code == 200
        assert service.threads.count() == before + 1
    until(lambda: connections(url) <= open_before)
    if does == "continue":
        gate.set()
    until(lambda: service.threads.count() == before)


# Reviews


def test_a_review_is_decided(client: Any, thread: str, service: Service) -> None:
    asked = client.runs.wait(thread, "desk", input=HI)
    assert asked["__interrupt__"][0]["value"]["action_requests"][0]["args"] == {"euros": 5}
    command: Any = {"resume": {"decisions": [{"type": "shrug"}]}}
    with pytest.raises(REFUSED, match=r"pay: expected a decision with a type .*'shrug'"):
        client.runs.wait(thread, "desk", command=command)
    action = {"name": "pay", "args": {"euros": 3}}
    decision: Any = {"resume": {"decisions": [{"type": "edit", "edited_action": action}]}}
    values = client.runs.wait(thread, "desk", command=decision)
    assert said(values)[2].startswith("Paid 3.")
    assert said(values)[3] == "Done."
    assert service.inbox().audit(thread=thread)[0].who == "local"


def test_a_question_is_answered(client: Any, thread: str) -> None:
    asked = client.runs.wait(thread, "asks", input=HI)["__interrupt__"][0]
    assert asked["value"] == {"about": "it"}
    command: Any = {"resume": {asked["id"]: "yes"}}
    assert said(client.runs.wait(thread, "asks", command=command))[2] == "They said yes."


# The async client


async def test_the_async_client(url: str) -> None:
    async with get_client(url=url) as client:
        thread = (await client.threads.create())["thread_id"]
        parts = [
            part.event
            async for part in client.runs.stream(thread, "echo", input=HI, stream_mode="updates")
        ]
        assert parts == ["metadata", "updates"]
        values = await client.runs.wait(thread, "echo", input=HI)
        assert said(values)[-1] == "You said: Hi"
        assert (await client.threads.get_state(thread))["values"] == values


# Who makes a request


def test_only_this_machine_is_served_without_authentication(url: str) -> None:
    assert httpx.get(f"{url}/ok").json() == {"ok": True}
    assert httpx.get(f"{url}/info").json()["version"]
    strange = httpx.get(f"{url}/assistants/echo", headers={"host": "desk.example"})
    assert strange.status_code == 403
    assert "the server needs --authenticate" in strange.json()["detail"]


def test_a_run_belongs_to_its_thread_and_a_request_to_somebody(service: Service) -> None:
    headers = {"x-user": "ann@acme"}
    with (
        served(service, authenticate=who) as url,
        get_sync_client(url=url, headers=headers) as ann,
    ):
        thread, other = (ann.threads.create()["thread_id"] for _ in range(2))
        run = ann.runs.create(thread, "desk", input=HI)["run_id"]
        ann.runs.join(thread, run)
        with pytest.raises(REFUSED, match="is not one of thread"):
            ann.runs.get(other, run)
        approve: Any = {"resume": {"decisions": [{"type": "approve"}]}}
        assert said(ann.runs.wait(thread, "desk", command=approve))[-1] == "Done."
        assert service.inbox("acme").audit(thread=thread)[0].who == "ann@acme"
        nobody = httpx.get(f"{url}/assistants/desk")
        assert nobody.status_code == 401
        assert nobody.json()["detail"] == "Who makes this request is not known."
