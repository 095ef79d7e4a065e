"""RemoteGraph of the installed LangGraph, against a service: alone, and as a node of a graph."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client, get_sync_client

from agent_factory.service import Service
from samples import texts
from serve.langgraph_desk import HI, running_service, said

Remote = Callable[[str], RemoteGraph]

APPROVE: Any = {"decisions": [{"type": "approve"}]}
REJECT: Any = {"decisions": [{"type": "reject", "message": "Too much."}]}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(f"sqlite:///{tmp_path_factory.mktemp('remote')}/desk.db") as made:
        yield made


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


@pytest.mark.parametrize("answer", ["yes", "", 0, False, [], {}])
def test_each_value_but_none_answers_a_question(remote: Remote, thread: Any, answer: Any) -> None:
    graph = remote("asks")
    graph.invoke(HI, thread)
    values = graph.invoke(Command(resume=answer), thread)
    assert said(values)[2] == f"They said {answer}."


def test_none_is_an_answer_too(remote: Remote, url: str, thread: Any) -> None:
    # The client for Python leaves None out.
    remote("asks").invoke(HI, thread)
    place = f"{url}/threads/{thread['configurable']['thread_id']}/runs/wait"
    body = {"assistant_id": "asks", "command": {"resume": None}}
    assert said(httpx.post(place, json=body).json())[2] == "They said None."


def test_settings_of_a_config_are_taken(service: Service, remote: Remote, thread: Any) -> None:
    config: Any = {
        **thread,
        "run_name": "call 7",
        "max_concurrency": 3,
        "tags": ["mail"],
        "metadata": {"from": "mail", "agent_factory_run": "forged", "__x": 1, "langgraph_step": 9},
    }
    remote("echo").invoke(HI, config)
    (run,) = service.runs(thread["configurable"]["thread_id"])
    assert run.info.metadata == {"from": "mail"}
    state = service.state(thread["configurable"]["thread_id"])
    metadata: Any = state.metadata
    assert (metadata["from"], metadata["run_id"]) == ("mail", run.id)


# As a node of a graph


def around(remote: Remote, agent: str) -> Any:
    """A graph with an agent of the service as its node."""
    graph: Any = StateGraph(MessagesState)
    graph.add_node("remote", remote(agent))
    graph.add_edge(START, "remote")
    return graph.compile(checkpointer=InMemorySaver())


def test_an_agent_of_the_service_is_a_node(remote: Remote, thread: Any) -> None:
    graph = around(remote, "echo")
    assert texts(graph.invoke(HI, thread)) == ["Hi", "You said: Hi"]
    more = {"messages": [{"role": "user", "content": "More"}]}
    assert texts(graph.invoke(more, thread))[-2:] == ["More", "You said: More"]


async def test_it_is_a_node_of_an_async_run(remote: Remote, thread: Any) -> None:
    assert texts(await around(remote, "echo").ainvoke(HI, thread)) == ["Hi", "You said: Hi"]


def test_its_steps_are_those_of_a_subgraph(remote: Remote, thread: Any) -> None:
    parts = [*around(remote, "echo").stream(HI, thread, subgraphs=True, stream_mode="updates")]
    inner = [update for place, update in parts if place]
    assert [said(update["model"]) for update in inner if "model" in update] == [["You said: Hi"]]
    assert said(parts[-1][1]["remote"])[-1] == "You said: Hi"


def test_its_review_pauses_the_graph_around_it(
    service: Service, remote: Remote, thread: Any
) -> None:
    name = thread["configurable"]["thread_id"]
    (asked,) = around(remote, "desk").invoke(HI, thread)["__interrupt__"]
    assert asked.value["action_requests"][0]["args"] == {"euros": 5}
    assert service.thread(name).status == "waiting"
    values = remote("desk").invoke(Command(resume=APPROVE), thread)
    assert said(values)[-2:] == ["Paid 5.", "Done."]
