"""LangGraph's own client for Python, as it is, against a service."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph.types import Interrupt
from langgraph_sdk import get_sync_client

from agent_factory.service import Run, Service
from serve.accounts import who
from serve.langgraph_desk import HI, REFUSED, running_service, said, two_tenants
from servers import connections, served
from tables import each
from waiting import until

SERVICE = running_service


# Agents


def test_agents_are_found_sorted_and_selected(client: Any) -> None:
    found = client.assistants.search(limit=2, offset=1)
    assert [one["graph_id"] for one in found] == ["desk", "asks"]
    (desk,) = client.assistants.search(graph_id="desk")
    assert client.assistants.get(desk["assistant_id"]) == desk
    assert client.assistants.get("desk") == desk
    with pytest.raises(REFUSED, match=r"assistant 'dekc': does not exist\. Agents: echo, desk"):
        client.assistants.get("dekc")
    assert client.assistants.count() == 3
    graph = client.assistants.get_graph("desk")
    assert {"model", "tools"} <= {node["id"] for node in graph["nodes"]}
    assert "messages" in client.assistants.get_schemas("desk")["input_schema"]["properties"]
    found = client.assistants.search(sort_by="name", sort_order="desc", select=["name"])
    assert found == [{"name": "echo"}, {"name": "desk"}, {"name": "asks"}]
    assert client.assistants.search(metadata={"created_by": "nobody"}) == []
    page = client.assistants.search(limit=2, response_format="object")
    assert (len(page["assistants"]), page["next"]) == (2, "2")
    assert client.assistants.get_subgraphs("desk") == {}


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


def test_the_state_and_the_history(client: Any, thread: str) -> None:
    client.runs.wait(thread, "echo", input=HI)
    state = client.threads.get_state(thread)
    assert said(state["values"]) == ["Hi", "You said: Hi"]
    assert state["next"] == []
    states = client.threads.get_history(thread, limit=2)
    assert states[0]["checkpoint"] == state["checkpoint"]
    assert states[1]["next"] == ["model"]
    assert states[0]["parent_checkpoint"] == states[1]["checkpoint"]
    assert client.threads.get_history(thread, before=states[0]["checkpoint"])[0] == states[1]
    place = states[1]["checkpoint"]
    for given in ({"checkpoint": place}, {"checkpoint_id": place["checkpoint_id"]}):
        assert client.threads.get_state(thread, **given)["values"] == states[1]["values"]
    assert client.threads.get_history(thread, checkpoint=place) == [states[1]]
    with pytest.raises(REFUSED, match="before and checkpoint contradict"):
        client.threads.get_history(thread, checkpoint=place, before=place)
    update = {"messages": [{"role": "assistant", "content": "By hand."}]}
    new = client.threads.update_state(thread, update, as_node="model")["checkpoint"]
    assert client.threads.get_state(thread)["checkpoint"] == new
    assert said(client.threads.get_state(thread)["values"])[-1] == "By hand."


# Runs


def test_a_run_without_a_thread_or_on_a_new_thread(client: Any, service: Service) -> None:
    before = service.threads.count()
    assert said(client.runs.wait(None, "echo", input=HI)) == ["Hi", "You said: Hi"]
    assert service.threads.count() == before
    parts = [*client.runs.stream(None, "echo", input=HI, stream_mode="updates")]
    assert [part.event for part in parts] == ["metadata", "updates"]
    kept = client.runs.wait(None, "echo", input=HI, on_completion="keep")
    assert said(kept) == ["Hi", "You said: Hi"]
    assert service.threads.count() == before + 1
    new = str(uuid4())
    with pytest.raises(REFUSED, match="does not exist"):
        client.runs.wait(new, "echo", input=HI)
    values = client.runs.wait(new, "echo", input=HI, if_not_exists="create")
    assert said(values) == ["Hi", "You said: Hi"]


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
    """A stream ends with the question for which the thread waits."""
    *_, last = client.runs.stream(thread, "desk", input=HI, stream_mode="values")
    (asked,) = last.data["__interrupt__"]
    assert asked["value"]["action_requests"][0]["name"] == "pay"
    assert asked.keys() == {field.name for field in fields(Interrupt)}
    assert asked["response_schema"]
    assert [asked] == client.threads.get_state(thread)["interrupts"]
    stream = client.runs.stream(
        thread, "desk", command=APPROVE, stream_mode=["custom", "values"], version="v2"
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


def test_a_stream_is_joined_again(client: Any, thread: str) -> None:
    seen: list[Any] = []
    parts = client.runs.stream(
        thread, "echo", input=HI, stream_mode=["values", "updates"], on_run_created=seen.append
    )
    all_parts = [*parts]
    (created,) = seen
    assert created["thread_id"] == thread
    run = created["run_id"]
    again = [*client.runs.join_stream(thread, run)]
    assert [part.event for part in again] == [part.event for part in all_parts]
    rest = [*client.runs.join_stream(thread, run, last_event_id=all_parts[2].id)]
    assert rest == all_parts[3:]
    updates = [part.event for part in client.runs.join_stream(thread, run, stream_mode="updates")]
    assert updates == ["metadata", "updates"]
    with pytest.raises(REFUSED, match=r"stream_mode must be one of 'values'.*got 'message'"):
        [*client.runs.join_stream(thread, run, stream_mode="message")]


@pytest.mark.parametrize("way", ["stream", "wait"])
@pytest.mark.parametrize("does", ["cancel", "continue"])
def test_a_client_that_goes_away_leaves_no_thread_of_its_run(
    url: str, service: Service, way: str, does: str, gate: Event
) -> None:
    before, open_before = service.threads.count(), connections(url)
    body = {"assistant_id": "echo", "input": HELD, "on_disconnect": does}
    with httpx.stream("POST", f"{url}/runs/{way}", json=body) as response:
        assert response.status_code == 200
        assert service.threads.count() == before + 1
    until(lambda: connections(url) <= open_before)
    if does == "continue":
        gate.set()
    until(lambda: service.threads.count() == before)


# Who makes a request


def test_a_run_belongs_to_its_thread_and_a_request_to_somebody(service: Service) -> None:
    with (
        served(service, authenticate=who) as url,
        get_sync_client(url=url, headers={"x-user": "ann@acme"}) as ann,
    ):
        thread, other = (ann.threads.create()["thread_id"] for _ in range(2))
        run = ann.runs.create(thread, "desk", input=HI)["run_id"]
        ann.runs.join(thread, run)
        with pytest.raises(REFUSED, match="is not one of thread"):
            ann.runs.get(other, run)
        assert said(ann.runs.wait(thread, "desk", command=APPROVE))[-1] == "Done."
        assert service.inbox("acme").audit(thread=thread)[0].who == "ann@acme"
        nobody = httpx.get(f"{url}/assistants/desk", headers={"x-user": ""})
        assert nobody.status_code == 401
        assert nobody.json()["detail"] == "Who makes this request is not known."


APPROVE: Any = {"resume": {"decisions": [{"type": "approve"}]}}
HELD: Any = {"messages": [{"role": "user", "content": "held"}]}


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
    assert said(client.runs.wait(copy["thread_id"], "desk", command=APPROVE))[-1] == "Done."
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


def test_a_private_key_is_not_written(client: Any, thread: str) -> None:
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
    notes = [part.data for part in parts if part.event == "metadata"]
    assert [note.get("status") for note in notes] == [None, "run_done", None]
    assert {note["run_id"] for note in notes} == {first["run_id"]}
    seen = next(part.id for part in parts if part.event == "updates")
    rest = []
    for part in client.threads.join_stream(thread, last_event_id=seen):
        rest.append(part)
        if part.event == "updates" and "tools" in part.data:
            break
    assert rest == parts[[part.id for part in parts].index(seen) + 1 :]
    for more in ({"input": HI}, {"command": APPROVE}):
        assert [*client.runs.stream(thread, "desk", stream_mode="updates", **more)]
    kinds = []  # also of the parts before the decision
    for part in client.threads.join_stream(thread, last_event_id=rest[-1].id):
        kinds += [*part.data] if part.event == "updates" else []
        if "tools" in kinds:
            break
    assert "__interrupt__" in kinds
    # All jobs, also for a client that has seen an earlier thread of this name.
    for before in ("-1", f"{thread}/7:1:0", f"{thread}/{2**63}:1:0"):
        jobs, last = [], rest[-1].id
        for part in client.threads.join_stream(thread, last_event_id=before):
            jobs += [part.id.partition(":")[0]] if part.id else []
            if part.event == "updates" and "tools" in part.data and part.id != last:
                break
        assert len({*jobs}) == 4
    with pytest.raises(REFUSED, match="must be 'run_modes'"):
        next(client.threads.join_stream(thread, stream_mode="lifecycle"))


def test_the_stream_of_a_thread_shows_a_decision_about_a_copied_or_written_state(
    client: Any, thread: str
) -> None:
    client.runs.wait(thread, "desk", input=HI)
    copy = client.threads.copy(thread)["thread_id"]
    client.threads.update_state(thread, None)  # asks again
    for place in (copy, thread):
        assert [*client.runs.stream(place, "desk", command=APPROVE, stream_mode="updates")]
        parts = client.threads.join_stream(place, last_event_id="-1")
        assert next(part for part in parts if part.event == "updates")


# Runs


def test_a_thread_is_resolved_by_a_command(client: Any, thread: str) -> None:
    client.runs.wait(thread, "desk", input=HI)
    assert said(client.runs.wait(thread, "desk", command={"goto": "__end__"})) == ["Hi", ""]
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


def test_a_step_goes_on_from_the_checkpoint_of_its_pause(client: Any, thread: str) -> None:
    """As deep-agents-ui sends its steps. Before the step, a person has decided."""
    step: Any = {"interrupt_before": ["tools"]}
    client.runs.wait(thread, "desk", input=HI, **step)
    client.runs.wait(thread, "desk", command={"resume": {"decisions": [{"type": "approve"}]}})
    paused = client.threads.get_state(thread)
    assert paused["next"] == ["tools"]
    values = client.runs.wait(thread, "desk", checkpoint=paused["checkpoint"], **step)
    assert said(values)[2:] == ["Paid 5.", "Done."]


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
    modes: Any = ["messages", "values"]
    body = {"assistant_id": "echo", "input": HELD, "stream_mode": modes}
    with httpx.stream("POST", f"{url}/threads/{thread}/runs/stream", json=body) as response:
        place = response.headers["location"]
        last = next(line[4:] for line in response.iter_lines() if line.startswith("id: "))
    gate.set()
    run = client.runs.list(thread)[0]["run_id"]
    parts = [*client.runs.join_stream(thread, run, stream_mode=modes, last_event_id="-1")]
    assert {part.event for part in parts} >= {"messages/metadata", "messages/partial", "values"}
    with httpx.stream("GET", url + place, headers={"last-event-id": last}) as response:
        rest = [line[7:] for line in response.iter_lines() if line.startswith("event: ")]
    at = next(i for i, part in enumerate(parts) if part.id == last)
    assert rest == [part.event for part in parts[at + 1 :]]
    partial = [part for part in parts if part.event == "messages/partial"]
    more = client.runs.join_stream(thread, run, stream_mode="messages", last_event_id=partial[0].id)
    assert [part for part in more if part.event == "messages/partial"] == partial[1:]


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
        (lambda client: client.threads.create(ttl=5), "ttl is not supported by"),
        (lambda client: client.threads.search(values={"a": 1}), "values is not supported by"),
        (lambda client: client.threads.search(extract={"a": "b"}), "extract is not supported by"),
        (lambda client: client.store.put_item(["a"], "k", {}, ttl=5), "ttl is not supported: item"),
        (lambda client: client.store.put_item(["a"], "k", {}, index=["x"]), "index is not support"),
        (lambda client: client.store.put_item(["langgraph"], "k", {}), "namespace: Root label"),
        (lambda client: client.store.put_item([], "k", {}), "namespace: Namespace cannot be empty"),
        (lambda client: client.store.search_items(["a"], query="x"), "query is not supported: the"),
        (
            lambda client: client.runs.create(None, "echo", input=HI, stream_mode="tools"),
            "stream_mode.*got 'tools'",
        ),
    ],
)
def test_what_is_not_served_says_so(client: Any, call: Callable[[Any], object], text: str) -> None:
    with pytest.raises(REFUSED, match=text):
        call(client)


def test_tenants_have_stores_of_their_own(service: Service) -> None:
    with two_tenants(service) as (one, other):
        one.store.put_item(["a"], "key", {})
        assert other.store.search_items([])["items"] == []
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
            for wrong in (f"{thread}/00000001:0:0", f"{mine}/1:{'9' * 5000}:0"):
                with pytest.raises(REFUSED, match="is not of an event of this thread"):
                    next(join(mine, own, last_event_id=wrong))


def test_a_stream_of_a_thread_ends_with_the_thread(client: Any, url: str, thread: str) -> None:
    place = f"{url}/threads/{thread}/stream"
    answer = httpx.get(place, params={"stream_mode": "[run_modes"})
    assert answer.status_code == 422
    assert "stream_mode is not JSON: " in answer.json()["detail"]
    for then in (lambda: client.threads.create(thread_id=thread), lambda: None):
        with httpx.stream("GET", place, timeout=60) as stream:
            client.threads.delete(thread)
            then()
            assert [line for line in stream.iter_lines() if line and not line.startswith(":")] == []


def test_the_stream_of_a_thread_shows_each_message_of_a_queue(
    client: Any, service: Service, thread: str, gate: Event
) -> None:
    service.submit("echo", thread=thread, message="held", stream=["updates"])
    live = client.threads.join_stream(thread)
    assert next(live).event == "metadata"
    later = [service.submit("echo", thread=thread, message=str(i)) for i in range(25)]
    gate.set()
    later[-1].result(60)
    seen = next(live)
    assert seen.event == "updates"
    # Also for a client that comes back.
    for parts in (live, client.threads.join_stream(thread, last_event_id=seen.id)):
        begins = (part.data["run_id"] for part in parts if "attempt" in part.data)
        assert [next(begins) for _ in later] == [run.id for run in later]


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
