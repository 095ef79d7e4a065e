"""LangGraph's protocol v2 over HTTP, and its RemoteGraph: alone, and as a node of a graph."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.errors import APIStatusError

from agent_factory.serve.langgraph.content_blocks import MessageStreams
from agent_factory.serve.langgraph.protocol import CHANNELS, ProtocolEvents
from agent_factory.service import Service
from samples import texts
from serve.langgraph_desk import HI, said
from serve.protocol_desk import protocol_service
from tables import each

APPROVE: Any = {"decisions": [{"type": "approve"}]}


SERVICE = protocol_service


class Conversation:
    """A thread, as a client of the protocol sees it."""

    def __init__(self, http: httpx.Client) -> None:
        self.http, self.thread, self._id = http, uuid4().hex, 0

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._id += 1
        command = {"id": self._id, "method": method, "params": params}
        response = self.http.post(f"/threads/{self.thread}/commands", json=command)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        assert answer["id"] == self._id
        return answer

    def start(self, agent: str, text: str = "Hi", **options: Any) -> str:
        message = {"messages": [{"role": "user", "content": text}]}
        answer = self.send("run.start", assistant_id=agent, input=message, **options)
        assert answer["type"] == "success", answer
        return str(answer["result"]["run_id"])

    def events(
        self, until: Callable[[dict[str, Any]], bool] | None = None, **body: Any
    ) -> list[dict[str, Any]]:
        """The events, until the run has ended."""
        body = {"channels": [*CHANNELS], **body}
        place, events = f"/threads/{self.thread}/stream/events", []
        with self.http.stream("POST", place, json=body) as response:
            assert response.status_code == 200, response.read()
            for line in response.iter_lines():
                if line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    events.append(event)
                    if (until or ended)(event):
                        return events
        raise AssertionError("The stream has ended.")

    def state(self) -> Any:
        return self.http.get(f"/threads/{self.thread}/state", params={"subgraphs": True}).json()

    def asked(self) -> Any:
        """What the thread waits for."""
        (interrupt,) = self.state()["interrupts"]
        return interrupt


def ended(event: dict[str, Any]) -> bool:
    terminal = ("completed", "failed", "interrupted")
    is_root = event["method"] == "lifecycle" and not event["params"]["namespace"]
    return is_root and event["params"]["data"]["event"] in terminal


def has_completed(event: dict[str, Any]) -> bool:
    return ended(event) and event["params"]["data"]["event"] == "completed"


def shown(events: list[dict[str, Any]], method: str) -> list[Any]:
    return [event["params"]["data"] for event in events if event["method"] == method]


@pytest.fixture
def talk(url: str) -> Iterator[Conversation]:
    with httpx.Client(base_url=url, timeout=60) as http:
        yield Conversation(http)


def test_an_answer_comes_block_by_block(talk: Conversation) -> None:
    talk.start("echo")
    events = talk.events()
    assert [data["event"] for data in shown(events, "messages")] == [
        "message-start",
        "content-block-start",
        *["content-block-delta"] * 3,
        "content-block-finish",
        "message-finish",
    ]
    start, *_, block, _ = shown(events, "messages")
    assert (start["role"], block["content"]) == ("ai", {"type": "text", "text": "You said: Hi"})
    deltas = [data["delta"] for data in shown(events, "messages") if "delta" in data]
    assert deltas == [{"type": "text-delta", "text": text} for text in ("You ", "said: ", "Hi")]
    assert said(shown(events, "values")[-1]) == ["Hi", "You said: Hi"]
    assert start["id"] == shown(events, "values")[-1]["messages"][1]["id"]
    running, completed = shown(events, "lifecycle")
    assert running == {"event": "running", "graph_name": "echo"}
    assert completed == {"event": "completed", "graph_name": "echo"}
    (update,) = shown(events, "updates")
    assert update["node"] == "model"
    checkpoints = shown(events, "checkpoints")
    assert [one["step"] for one in checkpoints] == [-1, 0, 1]
    assert checkpoints[-1]["id"] == talk.state()["checkpoint"]["checkpoint_id"]
    assert checkpoints[-1]["parent_id"] == checkpoints[-2]["id"]


def test_an_answer_is_one_message_whatever_ids_its_chunks_bring(
    talk: Conversation, client: Any
) -> None:
    """langchain-core ends the stream of a named answer with a chunk of another id."""
    talk.start("named")
    events = talk.events()
    starts = [data["id"] for data in shown(events, "messages") if data["event"] == "message-start"]
    assert starts == [one["id"] for one in talk.state()["values"]["messages"][1:]]
    modes: Any = ["events", "messages-tuple", "messages"]
    parts = [*client.runs.stream(talk.thread, "named", input=HI, stream_mode=modes)]
    pays, done = [one["id"] for one in talk.state()["values"]["messages"][-3::2]]
    tuples = [part.data[0] for part in parts if part.event == "messages"]
    assert {one["id"] for one in tuples if one["type"] != "tool"} == {pays, done}
    whole = [part.data[0] for part in parts if part.event == "messages/partial"]
    assert [one["content"] for one in whole if one["id"] == done][-1] == "Done."
    assert {one["id"] for one in whole} == {pays, done}
    of_models = [part.data for part in parts if part.event == "events"]
    of_models = [event for event in of_models if event["name"] == "NamedAnswers"]
    kinds = ["start", "stream", "stream", "end", "start", "stream", "stream", "stream", "end"]
    assert [event["event"] for event in of_models] == [f"on_chat_model_{kind}" for kind in kinds]
    assert [event["run_id"] for event in of_models] == [pays] * 4 + [done] * 5
    (call,) = of_models[3]["data"]["output"]["tool_calls"]
    assert (call["name"], of_models[-1]["data"]["output"]["content"]) == ("pay", "Done.")
    # Clients take the first of two modes.
    order = [part.event for part in parts if str(part.data).count(pays)]
    assert order.index("events") < order.index("messages")


def test_tool_calls_begin_and_end(talk: Conversation) -> None:
    talk.start("payer")
    events = talk.events()
    started, finished = shown(events, "tools")
    begin = (started["event"], started["tool_name"], started["input"])
    assert begin == ("tool-started", "pay", {"euros": 5})
    assert (finished["event"], finished["output"]["content"]) == ("tool-finished", "Paid 5.")
    assert started["tool_call_id"] == finished["tool_call_id"]
    assert shown(events, "custom") == [{"payload": {"paying": 5}}]
    results = [event for event in events if event["params"]["data"].get("role") == "tool"]
    assert results[0]["params"]["namespace"] == [f"tools:{started['tool_call_id']}"]


def test_a_review_is_asked_for_and_answered(talk: Conversation) -> None:
    talk.start("desk")
    events = talk.events()
    (request,) = shown(events, "input.requested")
    assert request["payload"]["action_requests"][0]["args"] == {"euros": 5}
    assert request["interrupt_id"] == talk.asked()["id"]
    assert shown(events, "lifecycle")[-1]["event"] == "interrupted"
    answer = {"interrupt_id": request["interrupt_id"], "response": APPROVE, "namespace": []}
    assert talk.send("input.respond", **answer)["result"] == {}
    later = talk.events(since=events[-1]["seq"])
    assert said(shown(later, "values")[-1])[2:] == ["Paid 5.", "Done."]
    assert [data["event"] for data in shown(later, "lifecycle")] == ["running", "completed"]
    again = talk.send("input.respond", **answer)
    assert (again["type"], again["error"]) == ("error", "no_such_run")


def test_several_answers_come_in_one_command(talk: Conversation) -> None:
    talk.start("asks")
    talk.events()
    answers = [{"interrupt_id": talk.asked()["id"], "response": "yes", "namespace": []}]
    talk.send("input.respond", responses=answers, goto=[], update={})
    talk.events(has_completed)
    assert said(talk.state()["values"])[2] == "They said yes."


@each("response", [None, "", 0, False, [], {}])
def test_each_value_is_an_answer(talk: Conversation, response: object) -> None:
    talk = Conversation(talk.http)
    talk.start("asks")
    talk.events()
    talk.send("input.respond", interrupt_id=talk.asked()["id"], response=response)
    talk.events(has_completed)
    assert said(talk.state()["values"])[2] == f"They said {response}."


def test_a_failure_has_the_text_of_its_error(talk: Conversation) -> None:
    talk.start("echo", "fail")
    failed = shown(talk.events(), "lifecycle")[-1]
    assert (failed["event"], failed["error"]) == ("failed", "the model is out of order")
    other = Conversation(talk.http)
    other.start("lender")
    events = other.events()
    error = shown(events, "tools")[-1]
    assert (error["event"], error["message"]) == ("tool-error", "no money")
    assert shown(events, "lifecycle")[-1]["error"] == "no money"


@pytest.mark.usefixtures("gate")
def test_a_cancelled_run_ends_its_stream(talk: Conversation) -> None:
    run = talk.start("echo", "held")
    talk.events(lambda event: event["method"] == "tasks")
    talk.http.post(f"/threads/{talk.thread}/runs/{run}/cancel")
    assert shown(talk.events(), "lifecycle")[-1]["event"] == "interrupted"


@pytest.mark.parametrize("agent", ["outer", "boss"])
def test_agents_inside_have_namespaces(talk: Conversation, agent: str) -> None:
    talk.start(agent)
    events = talk.events()
    node = {"outer": "inner", "boss": "tools"}[agent]
    started = next(data for data in shown(events, "lifecycle") if data["event"] == "started")
    assert started["graph_name"] == node
    calls = [data["tool_call_id"] for data in shown(events, "tools")]
    cause = {"type": "toolCall", "tool_call_id": calls[0]} if calls else None
    assert started.get("cause") == cause
    (request,) = [event for event in events if event["method"] == "input.requested"]
    (place,) = request["params"]["namespace"]
    assert place.startswith(f"{node}:")
    answer = {"interrupt_id": request["params"]["data"]["interrupt_id"], "response": APPROVE}
    if agent == "boss":  # the graph around it reports another id
        answer["interrupt_id"] = talk.asked()["id"]
    assert talk.send("input.respond", **answer)["type"] == "success"
    rest = talk.events(since=events[-1]["seq"])
    assert said(shown(rest, "values")[-1])[-1] == "Done."
    ends = [
        event["params"]["namespace"]
        for event in rest
        if event["params"]["data"].get("event") == "completed"
    ]
    assert ends == [[place], []]


def test_clients_choose_channels_and_namespaces(talk: Conversation) -> None:
    talk.start("outer")
    every = talk.events()
    bodies: list[dict[str, Any]] = [
        {"channels": ["lifecycle"]},
        {"channels": ["lifecycle", "values"], "namespaces": [[]], "depth": 0},
        {"channels": ["lifecycle", "values", "input"], "namespaces": [["inner"], []], "depth": 0},
        {"channels": ["lifecycle", "custom:paying"]},
    ]
    for body in bodies:
        expected = [
            event
            for event in every
            if {"input.requested": "input"}.get(event["method"], event["method"])
            in body["channels"]
            and ("depth" not in body or len(event["params"]["namespace"]) < len(body["namespaces"]))
        ]
        seen = talk.events(**body)
        assert [one["event_id"] for one in seen] == [one["event_id"] for one in expected]
        assert [one["seq"] for one in seen] == [one["seq"] for one in expected]


def test_a_client_that_was_cut_off_gets_the_rest(talk: Conversation) -> None:
    talk.start("echo")
    first = talk.events()
    talk.start("echo", "More")
    talk.events(said_more)
    for cut in (2, len(first) - 1):
        rest = talk.events(said_more, since=first[cut]["seq"])
        ids = [event["event_id"] for event in rest]
        assert ids[: len(first) - cut - 1] == [event["event_id"] for event in first[cut + 1 :]]
        numbers = [event["seq"] for event in rest]
        assert numbers == sorted(numbers)
    # Without a place to go on from, a stream begins with the newest run.
    assert talk.events()[0]["seq"] > first[-1]["seq"]
    before, *_ = shown(first, "checkpoints")
    config = {"configurable": {"checkpoint_id": before["id"], "thread_id": talk.thread}}
    talk.start("echo", "Two", config=config)
    assert said(shown(talk.events(), "values")[-1]) == ["Two", "You said: Two"]


def said_more(event: dict[str, Any]) -> bool:
    data = event["params"]["data"]
    return event["method"] == "values" and said(data)[-1] == "You said: More"


def test_a_stream_may_be_opened_before_the_first_run(talk: Conversation) -> None:
    talk.http.post("/threads", json={"thread_id": talk.thread})
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(talk.events)
        talk.start("echo")
        assert said(shown(reading.result(60), "values")[-1]) == ["Hi", "You said: Hi"]


def test_a_thread_that_does_not_exist_is_not_found(talk: Conversation) -> None:
    place, body = f"/threads/{talk.thread}", {"channels": ["values"]}
    assert talk.http.post(f"{place}/stream/events", json=body).status_code == 404
    command = {"id": 1, "method": "input.respond", "params": {"interrupt_id": "x"}}
    response = talk.http.post(f"{place}/commands", json=command)
    assert (response.status_code, response.json()["error"]) == (404, "no_such_run")


def test_a_new_thread_of_a_name_is_shown_whole(talk: Conversation) -> None:
    talk.start("echo")
    whole = [event["event_id"] for event in talk.events()]
    talk.start("echo", "More")
    # The events of a deleted thread have other numbers, smaller or greater.
    for since in (0, 2**53 - 1):
        events = talk.events(said_more, since=since)
        assert [event["event_id"] for event in events][: len(whole)] == whole


def test_what_others_do_is_seen(service: Service, talk: Conversation) -> None:
    body = {"assistant_id": "desk", "input": HI, "if_not_exists": "create"}
    talk.http.post(f"/threads/{talk.thread}/runs/wait", json=body)
    seen = talk.events()
    assert said(shown(seen, "values")[-1])[0] == "Hi"
    service.resume(talk.thread, APPROVE, by="ann")
    later = talk.events(since=seen[-1]["seq"])
    assert said(shown(later, "values")[-1])[-1] == "Done."
    assert shown(later, "lifecycle")[-1]["event"] == "completed"


INVALID = "invalid_argument"
REFUSED = [
    ("run.start", {"assistant_id": "nobody", "input": {}}, INVALID, "'nobody': does not exist"),
    ("run.start", {"input": HI}, INVALID, "params.assistant_id is missing"),
    ("run.start", {"assistant_id": "echo", "input": {}}, INVALID, "input is empty"),
    ("run.start", {"assistant_id": "echo"}, INVALID, "input is missing"),
    ("run.start", {"assistant_id": "echo", "webhook": "x"}, INVALID, "webhook"),
    ("input.respond", {}, INVALID, "params.interrupt_id or params.responses"),
    ("state.get", {}, "not_supported", "GET /threads/"),
    ("run.stop", {}, "unknown_command", "'run.start', 'input.respond', 'input.inject'"),
]


@each("method, params, code, text", REFUSED)
def test_a_refusal_says_what_to_send(
    talk: Conversation, method: str, params: Any, code: str, text: str
) -> None:
    answer = talk.send(method, **params)
    assert (answer["type"], answer["error"]) == ("error", code)
    assert text in answer["message"]


def test_an_unfit_answer_is_refused(talk: Conversation) -> None:
    talk.start("desk")
    talk.events()
    id = talk.asked()["id"]
    approval = {"interrupt_id": id, "response": APPROVE}
    for params, code, text in (
        ({**approval, "interrupt_id": "x"}, "no_such_interrupt", id),
        ({"interrupt_id": id, "response": "yes"}, INVALID, "decisions"),
        ({**approval, "goto": "__end__"}, INVALID, "contradict"),
        ({**approval, "update": {"messages": [1]}}, INVALID, "update is not supported"),
    ):
        answer = talk.send("input.respond", **params)
        assert (answer.get("error"), text in answer["message"]) == (code, True), answer
    assert talk.asked()["id"] == id


@each("body", [[], {"method": "run.start"}, {"id": 1}, {"id": "x", "method": "y"}])
def test_what_is_no_command_is_refused(talk: Conversation, body: Any) -> None:
    """And a stream needs channels."""
    response = talk.http.post(f"/threads/{talk.thread}/commands", json=body)
    answer = response.json()
    assert response.status_code == 422
    assert (answer["type"], answer["id"], answer["error"]) == ("error", None, INVALID)
    streams: list[Any] = [{}, {"channels": []}, {"channels": ["tokens"]}]
    for stream in streams:
        response = talk.http.post(f"/threads/{talk.thread}/stream/events", json=stream)
        assert (response.status_code, "channels" in response.json()["detail"]) == (422, True)


async def test_the_client_for_python(url: str) -> None:
    async with get_client(url=url) as client:
        thread = client.threads.stream(assistant_id="desk")
        async with thread:
            await thread.run.start(input=HI)
            values = [value async for value in thread.values]
            assert said(values[-1])[0] == "Hi"
            (asked,) = thread.interrupts
            await thread.run.respond(APPROVE, interrupt_id=asked["interrupt_id"])
            assert said(await thread.output)[-1] == "Done."


# Messages of models, block by block


def blocks_of(*messages: Any) -> list[dict[str, Any]]:
    streams = MessageStreams()
    events = [event for message in messages for event in streams.events((), message)]
    return [*events, *streams.finish(())]


@pytest.mark.parametrize("alone", [True, False], ids=["own chunk", "with the arguments"])
def test_arguments_of_a_call_grow_and_usage_is_added_up(alone: bool) -> None:
    def chunk(args: str, name: str | None = None, id: str | None = None, **more: Any) -> Any:
        call: Any = {"name": name, "args": args, "id": id, "index": 0}
        usage: Any = {"input_tokens": 0, "output_tokens": 1, "total_tokens": 1}
        calls = {"tool_call_chunks": [call], "usage_metadata": usage}
        return AIMessageChunk(content="", id="m", **calls, **more)

    events = blocks_of(
        AIMessageChunk(content="Look. ", id="m"),
        chunk("", "pay", "c"),
        chunk('{"eu'),
        chunk('ros": 5}', chunk_position=None if alone else "last"),
        *([AIMessageChunk(content="", id="m", chunk_position="last")] if alone else []),
    )
    deltas = [event["delta"] for event in events if "delta" in event]
    assert deltas[1:] == [
        {"type": "tool-call-delta", "args": '{"eu'},
        {"type": "tool-call-delta", "args": 'ros": 5}'},
    ]
    finished = [event["content"] for event in events if event["event"] == "content-block-finish"]
    call = {"type": "tool_call", "id": "c", "name": "pay", "args": {"euros": 5}}
    assert finished == [{"type": "text", "text": "Look. "}, call]
    assert events[-1]["usage"]["output_tokens"] == 3
    broken = blocks_of(chunk('{"eu', "pay", "c"))[-2]["content"]
    assert (broken["type"], broken["args"]) == ("invalid_tool_call", '{"eu')


def test_a_whole_message_has_all_its_blocks() -> None:
    usage: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    call: Any = {"name": "pay", "args": {}, "id": "c"}
    reasoning = {"type": "reasoning", "reasoning": "Hm."}
    content: Any = [reasoning, {"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    message = AIMessage(content_blocks=content, tool_calls=[call], usage_metadata=usage, id="m")
    events = blocks_of(message)
    finished = [event["content"] for event in events if event["event"] == "content-block-finish"]
    assert [block["type"] for block in finished] == ["reasoning", "text", "text", "tool_call"]
    assert [block.get("text") for block in finished[1:3]] == ["A", "B"]
    assert events[-1] == {"event": "message-finish", "usage": usage}
    assert blocks_of(RemoveMessage(id="m")) == []


def test_the_words_of_a_refusal_and_the_reason_of_the_end_arrive_whole() -> None:
    metadata = [{"model_provider": "openai"}, {"finish_reason": "length"}, {}]
    block = {"type": "refusal", "index": 0}
    pieces: Any = [[{**block, "refusal": "I can"}], [{**block, "refusal": "not."}], ""]
    events = blocks_of(
        *(
            AIMessageChunk(content=piece, id="m", response_metadata=data)
            for piece, data in zip(pieces, metadata, strict=True)
        )
    )
    *_, block_end, end = events
    assert block_end["content"] == {**block, "refusal": "I cannot."}
    assert end["metadata"] == {"model_provider": "openai", "finish_reason": "length"}
    assert not [event for event in events if "delta" in event]


def test_a_worker_that_takes_over_begins_its_message_again() -> None:
    events = ProtocolEvents("desk")

    def shown_of(type: str, data: Any) -> list[str]:
        part = {"type": type, "ns": [], "data": data}
        return [str(event.data.get("event")) for event in events.events(part)]

    assert shown_of("messages", [AIMessageChunk(content="Hal", id="1"), {}])[0] == "running"
    assert shown_of("resumed", {"worker": "w"}) == []
    shown_of("messages", [AIMessageChunk(content="Hello", id="2"), {}])
    ends = shown_of("end", {"status": "done"})
    assert ends == ["content-block-finish", "message-finish", "completed"]
    # The effects of a cancelled run are undone by a job without a stream.
    undo = {"type": "end", "ns": [], "data": {"status": "done", "undone": []}}
    assert [*ProtocolEvents("desk").events(undo)] == []


Remote = Callable[[str], RemoteGraph]

REJECT: Any = {"decisions": [{"type": "reject", "message": "Too much."}]}


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
    # With the metadata of their node, by which pages know its step.
    ((_, about),) = parts
    assert (about["langgraph_step"], about["langgraph_triggers"]) == (4, ["branch:to:inner"])
    assert about["langgraph_checkpoint_ns"].startswith("inner:")


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
