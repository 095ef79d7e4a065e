"""What front ends ask of LangGraph's API beyond threads and runs one by one, by its own client."""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import get_sync_client

from agent_factory.service import Run, Service
from serve.langgraph_desk import HI, REFUSED, running_service, said, two_tenants
from tables import each
from waiting import until

APPROVE: Any = {"resume": {"decisions": [{"type": "approve"}]}}
HELD: Any = {"messages": [{"role": "user", "content": "held"}]}


SERVICE = running_service


# Agents


def test_agents_are_sorted_and_selected(client: Any) -> None:
    found = client.assistants.search(sort_by="name", sort_order="desc", select=["name"])
    assert found == [{"name": "echo"}, {"name": "desk"}, {"name": "asks"}]
    assert client.assistants.search(metadata={"created_by": "nobody"}) == []
    page = client.assistants.search(limit=2, response_format="object")
    assert (len(page["assistants"]), page["next"]) == (2, "2")
    assert client.assistants.get_subgraphs("desk") == {}


# Threads


def test_threads_are_sorted_and_found_by_their_agent(client: Any) -> None:
    topic = uuid4().hex
    made = [client.threads.create(metadata={"topic": topic})["thread_id"] for _ in range(3)]
    order = {"metadata": {"topic": topic}, "select": ["thread_id"]}

    def found(**options: Any) -> list[str]:
        return [one["thread_id"] for one in client.threads.search(**order, **options)]

    assert found(sort_by="created_at", sort_order="asc") == made
    assert found(sort_by="created_at", sort_order="desc", limit=2) == made[:0:-1]
    assert found(sort_by="thread_id", sort_order="asc") == sorted(made)
    client.runs.wait(made[0], "echo", input=HI)
    echo = client.assistants.get("echo")["assistant_id"]
    by_id = client.threads.search(metadata={"topic": topic, "assistant_id": echo})
    assert [one["thread_id"] for one in by_id] == [made[0]]


def test_a_thread_is_copied_and_threads_are_pruned(client: Any, thread: str) -> None:
    client.runs.wait(thread, "desk", input=HI)
    copy = client.threads.copy(thread)
    assert (copy["status"], said(copy["values"])) == ("interrupted", ["Hi", ""])
    values = client.runs.wait(copy["thread_id"], "desk", command=APPROVE)
    assert said(values)[-1] == "Done."
    assert client.threads.get(thread)["status"] == "interrupted"
    ids = [thread, copy["thread_id"]]
    assert client.threads.prune([*ids, "unknown"]) == {"pruned_count": 2}
    assert client.threads.search(ids=ids) == []
    with pytest.raises(REFUSED, match=r"strategy.*got 'keep_latest'"):
        client.threads.prune(ids, strategy="keep_latest")


def test_parts_of_a_state_are_selected(client: Any, thread: str) -> None:
    client.runs.wait(thread, "echo", input=HI, metadata={"from": "mail"})
    state = client.threads.get_state(thread, select=["values.messages", "next"])
    assert (state.keys(), said(state["values"])[0]) == ({"values", "next"}, "Hi")
    place = client.threads.get_state(thread)["checkpoint"]
    assert client.threads.get_state(thread, checkpoint=place, select=["next"]) == {"next": []}
    states = client.threads.get_history(thread, metadata={"source": "input"}, limit=5)
    assert [one["metadata"]["from"] for one in states] == ["mail"]
    assert client.threads.get_history(thread, metadata={"source": "nowhere"}) == []
    assert client.threads.get_state(thread, subgraphs=True)["tasks"] == []


def test_a_thread_that_waits_is_ended_by_a_write(client: Any, thread: str) -> None:
    client.runs.wait(thread, "desk", input=HI)
    place = client.threads.update_state(thread, None, as_node="__end__")["checkpoint"]
    state = client.threads.get_state(thread)
    assert (state["checkpoint"], state["next"], state["interrupts"]) == (place, [], [])
    assert client.threads.get(thread)["status"] == "idle"
    fork = client.threads.get_history(thread)[1]["checkpoint"]
    client.threads.update_state(thread, {"messages": []}, checkpoint=fork)
    assert client.threads.get_state(thread)["parent_checkpoint"] == fork


def test_a_private_key_is_not_written(
    client: Any,
    thread: str,
) -> None:
    client.runs.wait(thread, "echo", input={**HI, "jump_to": "end"})
    assert said(client.threads.get_state(thread)["values"]) == ["Hi", "You said: Hi"]
    with pytest.raises(REFUSED, match="jump_to is not in the output of 'echo'"):
        client.threads.update_state(thread, [{"messages": []}, {"jump_to": "end"}])


def test_the_stream_of_a_thread_shows_its_runs(client: Any, url: str, thread: str) -> None:
    first = client.runs.create(thread, "desk", input=HI, stream_mode="updates")
    parts: list[Any] = []

    def read() -> None:
        with get_sync_client(url=url) as other:
            # The first run may have ended before this connection is open.
            for part in other.threads.join_stream(thread, last_event_id="-1"):
                parts.append(part)
                if part.event == "updates" and "tools" in part.data:
                    return

    reader = threading.Thread(target=read)
    reader.start()
    client.runs.join(thread, first["run_id"])
    until(lambda: parts)  # once it was decided, a run shows what came since
    client.runs.create(thread, "desk", command=APPROVE, stream_mode="updates")
    reader.join(60)
    assert not reader.is_alive()
    assert [part.event for part in parts if part.event == "metadata"] == ["metadata"] * 2
    seen = next(part.id for part in parts if part.event == "updates")
    rest = []
    for part in client.threads.join_stream(thread, last_event_id=seen):
        rest.append(part)
        if part.event == "updates" and "tools" in part.data:
            break
    assert rest == parts[[part.id for part in parts].index(seen) + 1 :]
    every = client.threads.join_stream(thread, last_event_id="-1")
    assert next(part for part in every if part.event == "updates") in parts
    with pytest.raises(REFUSED, match="must be 'run_modes'"):
        next(client.threads.join_stream(thread, stream_mode="lifecycle"))


# Runs


def test_a_thread_is_resolved_by_a_command(client: Any, thread: str) -> None:
    client.runs.wait(thread, "desk", input=HI)
    values = client.runs.wait(thread, "desk", command={"goto": "__end__"})
    assert said(values) == ["Hi", ""]
    assert client.threads.get(thread)["status"] == "idle"
    with pytest.raises(REFUSED, match=r"command\.goto"):
        client.runs.wait(thread, "desk", command={"goto": "tools"})


def test_a_run_goes_on_without_input(client: Any, thread: str) -> None:
    client.runs.wait(thread, "echo", input=HI, interrupt_before=["model"])
    assert client.threads.get(thread)["status"] == "interrupted"
    assert said(client.runs.wait(thread, "echo"))[-1] == "You said: Hi"
    with pytest.raises(REFUSED, match="input is missing"):
        client.runs.wait(thread, "echo")
    with pytest.raises(REFUSED, match="must name nodes of the agent, got nobody"):
        client.runs.wait(thread, "echo", input=HI, interrupt_after=["nobody"])
    client.runs.wait(thread, "desk", input=HI)
    with pytest.raises(REFUSED, match="waits for an answer"):
        client.runs.wait(thread, "desk")


@pytest.mark.long
def test_a_run_begins_after_some_seconds(client: Any, thread: str) -> None:
    client.runs.wait(thread, "echo", input=HI, after_seconds=1)
    later = client.runs.create(thread, "echo", input=HI, after_seconds=1000)
    client.runs.wait(None, "echo", input=HI)  # others begin before it
    assert client.runs.get(thread, later["run_id"])["status"] == "pending"
    client.runs.cancel(thread, later["run_id"])


def test_several_runs_are_created_and_cancelled(client: Any, service: Service) -> None:
    threads = [client.threads.create()["thread_id"] for _ in range(2)]
    later = {"assistant_id": "echo", "input": HI, "after_seconds": 60}
    slow = [{"thread_id": one, **later} for one in threads]
    made = client.runs.create_batch([*slow, {**slow[0], "thread_id": None}])
    assert [run["thread_id"] for run in made[:2]] == threads
    second = client.runs.create(threads[0], "echo", input=HI)
    ids = [made[0]["run_id"], second["run_id"]]
    with pytest.raises(REFUSED, match="is not one of thread"):
        client.runs.cancel_many(thread_id=threads[1], run_ids=ids)
    client.runs.cancel_many(thread_id=threads[0], run_ids=ids)
    assert {run["status"] for run in client.runs.list(threads[0])} == {"interrupted"}
    asks = client.threads.create()["thread_id"]
    client.runs.wait(asks, "desk", input=HI)
    client.runs.cancel_many(status="all")
    assert len(service.inbox().waits(thread=asks)) == 1
    assert client.runs.list(threads[1], select=["status"]) == [{"status": "interrupted"}]
    with pytest.raises(REFUSED, match="Pass run_ids, or the status"):
        client.runs.cancel_many()


def test_a_message_behind_a_cancelled_run_does_not_begin_before_it_is_cancelled(
    client: Any, thread: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = client.runs.create(thread, "echo", input=HI, after_seconds=60)
    ids = [first["run_id"], client.runs.create(thread, "echo", input=HI)["run_id"]]
    cancel = Run.cancel

    def cancel_slowly(run: Run, **options: Any) -> None:
        cancel(run, **options)
        # A worker takes what is due before this message.
        service.submit("echo", message="Hi").result(60)

    monkeypatch.setattr(Run, "cancel", cancel_slowly)
    client.runs.cancel_many(thread_id=thread, run_ids=ids)
    assert [run["status"] for run in client.runs.list(thread)] == ["interrupted"] * 2


def test_a_cancelled_run_is_rolled_back(client: Any, thread: str) -> None:
    before = client.runs.wait(thread, "echo", input=HI)
    client.runs.wait(thread, "desk", input=HI)
    (newest, *_) = client.runs.list(thread)
    client.runs.cancel(thread, newest["run_id"], wait=True, action="rollback")
    state = client.threads.get_state(thread)
    assert (state["values"], state["next"]) == (before, [])
    # As on LangGraph's own server: what was rolled back is gone.
    with pytest.raises(REFUSED, match="does not exist"):
        client.runs.get(thread, newest["run_id"])
    with pytest.raises(REFUSED, match="must be 'interrupt' or 'rollback'"):
        client.runs.cancel(thread, client.runs.list(thread)[0]["run_id"], action="forget")


def test_a_cut_stream_goes_on_where_it_says(
    client: Any, url: str, thread: str, gate: Event
) -> None:
    body = {"assistant_id": "echo", "input": HELD, "stream_mode": ["messages", "values"]}
    parts: list[Any] = []
    with httpx.stream("POST", f"{url}/threads/{thread}/runs/stream", json=body) as response:
        place = response.headers["location"]
        for line in response.iter_lines():
            if line.startswith("id: "):
                last = line.removeprefix("id: ")
                break
    gate.set()
    run = client.runs.list(thread)[0]["run_id"]
    modes: Any = ["messages", "values"]
    parts = [*client.runs.join_stream(thread, run, stream_mode=modes, last_event_id="-1")]
    assert {part.event for part in parts} >= {"messages/metadata", "messages/partial", "values"}
    with httpx.stream("GET", url + place, headers={"last-event-id": last}) as response:
        rest = [line[7:] for line in response.iter_lines() if line.startswith("event: ")]
    at = next(i for i, part in enumerate(parts) if part.id == last)
    assert rest == [part.event for part in parts[at + 1 :]]
    partial = [part for part in parts if part.event == "messages/partial"]
    again = client.runs.join_stream(
        thread, run, stream_mode="messages", last_event_id=partial[0].id
    )
    assert [part for part in again if part.event == "messages/partial"] == partial[1:]


# The store


def test_items_of_the_store(client: Any, service: Service) -> None:
    place = ["users", "ann"]
    client.store.put_item(place, "likes", {"food": "pizza"}, index=False)
    item = client.store.get_item(place, "likes")
    assert (item["namespace"], item["key"], item["value"]) == (place, "likes", {"food": "pizza"})
    assert client.store.get_item(place, "unknown") is None
    assert service.store().get(("users", "ann"), "likes") is not None
    client.store.put_item(["users", "bob"], "likes", {"food": "soup"})
    found = client.store.search_items(["users"], filter={"food": "soup"})["items"]
    assert [one["namespace"] for one in found] == [["users", "bob"]]
    assert len(client.store.search_items(["users"], limit=1, offset=1)["items"]) == 1
    assert client.store.list_namespaces(prefix=["users"])["namespaces"] == [
        ["users", "ann"],
        ["users", "bob"],
    ]
    assert client.store.list_namespaces(max_depth=1)["namespaces"] == [["users"]]
    client.store.delete_item(place, "likes")
    assert client.store.get_item(place, "likes") is None


@each(
    "call, text",
    [
        (lambda store: store.put_item(["a"], "k", {}, ttl=5), "ttl is not supported: items"),
        (lambda store: store.put_item(["a"], "k", {}, index=["x"]), "index is not supported: the"),
        (lambda store: store.put_item(["langgraph"], "k", {}), "namespace: Root label"),
        (lambda store: store.put_item([], "k", {}), "namespace: Namespace cannot be empty"),
        (lambda store: store.search_items(["a"], query="x"), "query is not supported: the"),
    ],
)
def test_bad_items(client: Any, call: Callable[[Any], object], text: str) -> None:
    with pytest.raises(REFUSED, match=text):
        call(client.store)


def test_tenants_have_stores_of_their_own(service: Service) -> None:
    with two_tenants(service) as (one, other):
        one.store.put_item(["a"], "key", {})
        assert other.store.get_item(["a"], "key") is None
        assert other.store.search_items([])["items"] == []
        assert other.store.list_namespaces()["namespaces"] == []
        other.store.delete_item(["a"], "key")
        assert one.store.get_item(["a"], "key") is not None
        thread = one.threads.create()["thread_id"]
        run = one.runs.create(thread, "echo", input=HI, after_seconds=60)["run_id"]
        with pytest.raises(REFUSED, match="no such run to cancel"):
            other.runs.cancel_many(status="all")
        assert other.threads.prune([thread]) == {"pruned_count": 0}
        assert one.runs.get(thread, run)["status"] in ("pending", "running")
        mine = other.threads.create()["thread_id"]
        own = other.runs.create(mine, "echo", input=HI)["run_id"]
        other.runs.join(mine, own)
        for join in (
            other.runs.join_stream,
            lambda thread, _, **at: other.threads.join_stream(thread, **at),
        ):
            with pytest.raises(REFUSED, match="is not of an event of this thread"):
                next(join(mine, own, last_event_id=f"{thread}/00000001:0:0"))


# What is not served


@each(
    "call, text",
    [
        (lambda client: client.threads.create(ttl=5), "ttl is not supported by"),
        (lambda client: client.threads.search(values={"a": 1}), "values is not supported by"),
        (lambda client: client.threads.search(extract={"a": "b"}), "extract is not supported by"),
    ],
)
def test_what_is_not_served_says_so(client: Any, call: Callable[[Any], object], text: str) -> None:
    with pytest.raises(REFUSED, match=text):
        call(client)


def test_a_stream_of_a_thread_ends_with_the_thread(client: Any, url: str, thread: str) -> None:
    with httpx.stream("GET", f"{url}/threads/{thread}/stream", timeout=60) as stream:
        client.threads.delete(thread)
        assert [line for line in stream.iter_lines() if line and not line.startswith(":")] == []


def test_a_list_in_a_query_that_is_not_json(url: str, thread: str) -> None:
    answer = httpx.get(f"{url}/threads/{thread}/stream", params={"stream_mode": "[run_modes"})
    assert answer.status_code == 422
    assert "stream_mode is not JSON: " in answer.json()["detail"]


@each("mode", ["tools", "lifecycle"])
def test_modes_that_are_not_streamed(client: Any, thread: str, mode: Any) -> None:
    with pytest.raises(REFUSED, match=f"stream_mode.*got '{mode}'"):
        client.runs.create(thread, "echo", input=HI, stream_mode=mode)


# Pauses before nodes, and debug streams


def test_a_pause_before_a_node_is_no_interrupt(client: Any, thread: str) -> None:
    values = client.runs.wait(thread, "echo", input=HI, interrupt_before=["model"])
    assert "__interrupt__" not in values
    parts = [*client.runs.stream(thread, "echo", input=None, stream_mode=["debug", "values"])]
    for values in (part.data for part in parts if part.event == "values"):
        assert "__interrupt__" not in values
    payloads = [part.data["payload"] for part in parts if part.event == "debug"]
    (first, *_) = [payload for payload in payloads if "checkpoint" in payload]
    state = client.threads.get_state(thread)
    states = client.threads.get_history(thread)
    places = [state["checkpoint"] for state in states]
    assert places[0] == state["checkpoint"]
    assert (first["checkpoint"], first["parent_checkpoint"]) == (places[1], places[2])
    parents = [state["parent_checkpoint_id"] for state in states]
    assert parents == [*(place["checkpoint_id"] for place in places[1:]), None]
