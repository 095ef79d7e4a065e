"""Assistants over HTTP: by LangGraph's own client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.config import get_config
from langgraph.runtime import get_runtime

from agent_factory import create_agent
from agent_factory.service import AlreadyExists, NotFound, ReadOnly, Service
from agent_factory.testing import ScriptedChatModel
from serve.langgraph_desk import HI, REFUSED, running_service, said, two_tenants


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


def settings_agent() -> Any:
    """An agent that says with which settings it runs."""
    return create_agent(ScriptedChatModel([settings] * 1000), context_schema=Context)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(f"sqlite:///{tmp_path_factory.mktemp('assistants')}/desk.db") as service:
        service.add("settings", settings_agent(), configurable=["tier"])
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


def test_an_id_is_taken_once(client: Any) -> None:
    id = uuid4().hex
    first = client.assistants.create("echo", assistant_id=id, name="One")
    with pytest.raises(REFUSED, match="exists already"):
        client.assistants.create("echo", assistant_id=id)
    again = client.assistants.create("echo", assistant_id=id, name="Two", if_exists="do_nothing")
    assert again == first


def test_the_agents_themselves_stay_as_code_has_made_them(client: Any) -> None:
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
    for id in ("echo", own["assistant_id"]):
        with pytest.raises(REFUSED, match="exists already"):
            client.assistants.create("desk", assistant_id=id)


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


def test_a_key_that_clients_may_not_set(client: Any) -> None:
    wrong: Any = {"configurable": {"admin": True}}
    with pytest.raises(REFUSED, match="a client may not set 'admin'"):
        client.assistants.create("settings", wrong)
    id = client.assistants.create("settings")["assistant_id"]
    with pytest.raises(REFUSED, match="a client may not set 'admin'"):
        client.assistants.update(id, config=wrong)
    with pytest.raises(REFUSED, match="agent 'nobody'"):
        client.assistants.create("nobody")


def test_a_key_that_clients_may_not_set_any_more(service: Service, client: Any) -> None:
    """The same door as that of a run: what was allowed once is checked again."""
    service.add("once", settings_agent(), configurable=["tier"])
    id = client.assistants.create("once", {"configurable": {"tier": "gold"}})["assistant_id"]
    del service._backend.agents["once"]
    service.add("once", settings_agent())
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


def test_assistants_in_python(service: Service) -> None:
    assistants = service.assistants("acme")
    made = assistants.create("echo", assistant="a-1", name="Echo")
    assert assistants.get("a-1") == made
    with pytest.raises(AlreadyExists):
        assistants.create("echo", assistant="a-1")
    with pytest.raises(ReadOnly):
        assistants.delete("echo")
    with pytest.raises(NotFound):
        service.assistants("other").get("a-1")
