"""RemoteGraph of the installed LangGraph, against a service: alone, and as a node of a graph."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.errors import APIStatusError

from agent_factory.service import Service
from samples import texts
from serve.langgraph_desk import HI, said
from serve.protocol_desk import protocol_service
from tables import each

Remote = Callable[[str], RemoteGraph]

APPROVE: Any = {"decisions": [{"type": "approve"}]}
REJECT: Any = {"decisions": [{"type": "reject", "message": "Too much."}]}


SERVICE = protocol_service


@pytest.fixture
async def remote(url: str) -> AsyncIterator[Remote]:
    """Makes a RemoteGraph of an agent, with clients that are closed after the test."""
    async with get_client(url=url) as client:
        with get_sync_client(url=url) as sync_client:
            yield lambda agent: RemoteGraph(agent, client=client, sync_client=sync_client)


@pytest.fixture
def thread() -> Any:
    return {"configurable": {"thread_id": uuid4().hex}}


async def resumed(graph: Any, way: str, answer: Any, config: Any) -> Any:
    """The state after an answer, by each method of RemoteGraph that gives one."""
    command: Any = Command(resume=answer)
    if way == "invoke":
        return graph.invoke(command, config)
    if way == "ainvoke":
        return await graph.ainvoke(command, config)
    if way == "stream":
        return [*graph.stream(command, config, stream_mode="values")][-1]
    return [part async for part in graph.astream(command, config, stream_mode="values")][-1]


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
async def test_a_review_is_decided_by_a_command(
    service: Service, remote: Remote, thread: Any, way: str
) -> None:
    graph, name = remote("desk"), thread["configurable"]["thread_id"]
    assert graph.invoke(HI, thread)["__interrupt__"]
    assert said(await resumed(graph, way, APPROVE, thread))[2:] == ["Paid 5.", "Done."]
    assert [entry.what for entry in service.inbox().audit(thread=name)] == ["approve"]
    graph.invoke(HI, thread)
    values = await resumed(graph, way, REJECT, thread)
    assert said(values)[-2:] == ["Too much.", "Done."]
    assert [entry.what for entry in service.inbox().audit(thread=name)] == ["reject", "approve"]


def test_settings_of_a_config_are_taken(service: Service, remote: Remote, thread: Any) -> None:
    config: Any = {
        **thread,
        "run_name": "call 7",
        "max_concurrency": 3,
        "tags": ["mail"],
        "metadata": {"from": "mail", "agent_factory_run": "forged", "__x": 1, "langgraph_step": 9},
    }
    remote("echo").invoke(HI, config)
    (run,) = service.threads.runs(thread["configurable"]["thread_id"])
    assert run.info.metadata == {"from": "mail"}
    state = service.threads.state(thread["configurable"]["thread_id"])
    metadata: Any = state.metadata
    assert (metadata["from"], metadata["run_id"]) == ("mail", run.id)


# States of agents inside of an agent


def test_the_state_of_an_agent_inside_is_read(url: str, remote: Remote, thread: Any) -> None:
    graph = remote("outer")
    httpx.post(f"{url}/threads", json=thread["configurable"])
    assert graph.get_state(thread).tasks == ()  # before its first message
    graph.invoke(HI, thread)
    (task,) = graph.get_state(thread).tasks
    place: Any = task.state
    (inner,) = graph.get_state(thread, subgraphs=True).tasks
    state: Any = inner.state
    assert said(state.values)[0] == "Hi"
    assert state.values["messages"][1]["tool_calls"][0]["name"] == "pay"
    assert state.config["configurable"]["checkpoint_ns"] == place["configurable"]["checkpoint_ns"]
    assert state.interrupts == task.interrupts
    # By its place, too, which has no id yet: the newest.
    assert graph.get_state(place).values == state.values
    assert graph.get_state(state.config).values == state.values
    assert graph.get_state(state.parent_config).next == ("model",)


@each("place", ["tools:1", "inner:1|x:2", "x"])
def test_another_namespace_has_no_state(url: str, remote: Remote, thread: Any, place: str) -> None:
    remote("outer").invoke(HI, thread)
    name = thread["configurable"]["thread_id"]
    body = {"checkpoint": {"checkpoint_ns": place}}
    response = httpx.post(f"{url}/threads/{name}/state/checkpoint", json=body)
    assert (response.status_code, place in response.json()["detail"]) == (404, True)


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
async def test_a_review_of_an_agent_inside_is_decided(
    remote: Remote, thread: Any, way: str
) -> None:
    graph = remote("outer")
    graph.invoke(HI, thread)
    assert said(await resumed(graph, way, APPROVE, thread))[2:] == ["Paid 5.", "Done."]


def test_messages_of_an_agent_inside_are_streamed(remote: Remote, thread: Any) -> None:
    options: Any = {"stream_mode": "messages"}
    parts: Any = [*remote("outer_echo").stream(HI, thread, subgraphs=True, **options)]
    assert {place[0].partition(":")[0] for place, _ in parts} == {"inner"}
    assert "".join(message["content"] for _, (message, _) in parts) == "You said: Hi"
    # Those who do not ask for what is inside get whole messages.
    parts = [*remote("outer_echo").stream(HI, thread, **options)]
    assert [(message["content"], about["langgraph_node"]) for message, about in parts] == [
        ("You said: Hi", "inner")
    ]


# As a node of a graph


def around(remote: Remote, agent: str) -> Any:
    """A graph with an agent of the service as its node."""
    graph: Any = StateGraph(MessagesState)
    graph.add_node("remote", remote(agent))
    graph.add_edge(START, "remote")
    return graph.compile(checkpointer=InMemorySaver())


async def test_an_agent_of_the_service_is_a_node(remote: Remote, thread: Any) -> None:
    """Whose steps are those of a subgraph, in which an agent has one, too."""
    graph = around(remote, "echo")
    assert texts(graph.invoke(HI, thread)) == ["Hi", "You said: Hi"]
    assert texts(await graph.ainvoke(HI, thread))[-2:] == ["Hi", "You said: Hi"]
    parts = [*graph.stream(HI, thread, subgraphs=True, stream_mode="updates")]
    inner = [update for place, update in parts if place]
    assert [said(update["model"]) for update in inner if "model" in update] == [["You said: Hi"]]
    assert said(parts[-1][1]["remote"])[-1] == "You said: Hi"
    outer = around(remote, "outer_echo").stream(HI, thread, subgraphs=True, stream_mode="messages")
    assert "".join(message["content"] for place, (message, _) in outer if place) == "You said: Hi"


def test_its_review_pauses_the_graph_around_it(
    service: Service, remote: Remote, thread: Any
) -> None:
    name = thread["configurable"]["thread_id"]
    (asked,) = around(remote, "desk").invoke(HI, thread)["__interrupt__"]
    assert asked.value["action_requests"][0]["args"] == {"euros": 5}
    # The stream shows the interrupt a moment before the thread waits.
    service.run(service.threads.get(name).run or "").result(60)
    assert service.threads.get(name).status == "waiting"
    values = remote("desk").invoke(Command(resume=APPROVE), thread)
    assert said(values)[-2:] == ["Paid 5.", "Done."]


def test_an_answer_through_the_graph_around_it_is_refused(remote: Remote, thread: Any) -> None:
    graph = around(remote, "desk")
    graph.invoke(HI, thread)
    # RemoteGraph would send the first message again in place of the answer.
    with pytest.raises(APIStatusError, match=r"cannot answer for it.*Send it to thread"):
        graph.invoke(Command(resume=APPROVE), thread)
    assert len(remote("desk").get_state(thread).interrupts) == 1
