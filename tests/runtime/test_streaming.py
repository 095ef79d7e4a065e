"""What a stream shows of a run: every mode, the agent's own words, nothing private (wanted 7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.prebuilt import ToolCallTransformer
from langgraph.types import Command
from stack_agents import agent_of

from agent_factory import AgentMiddleware, Invoke, create_agent, wrap_model_call
from agent_factory.errors import ArgumentError
from agent_factory.prebuilt import create_react_agent
from agent_factory.testing import ScriptedChatModel
from agent_factory.types import ExtendedModelResponse, ModelResponse
from samples import THREAD, AsksTwice, texts
from tables import each

pytestmark = pytest.mark.filterwarnings("ignore:The v3 streaming protocol")

ONE: Any = {"max_concurrency": 1}
ASK: Any = {"messages": [("user", "2 + 3?")]}
ADDING: Any = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "1"}]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    get_stream_writer()({"adding": [a, b]})
    return a + b


def model() -> ScriptedChatModel:
    return ScriptedChatModel([ADDING, "It is five."])


def words(chunks: list[Any]) -> list[str]:
    """The tokens of stream_mode="messages"."""
    return [message.text for message, _ in chunks if message.text]


def test_each_of_several_modes_shows_its_part_of_a_run(collect: Any, call: Any) -> None:
    class Writing(AgentMiddleware):
        def before_agent(self, state: Any, runtime: Any) -> None:
            runtime.stream_writer("hook")

        def around_model(self, request: Any) -> Any:
            request.runtime.stream_writer("layer")
            return (yield request)

        def around_tool(self, request: Any) -> Any:
            request.runtime.stream_writer("tool layer")
            return (yield request)

    def agent() -> Any:
        return create_agent(model(), [add], middleware=[Writing()], checkpointer=InMemorySaver())

    shown: dict[str, list[Any]] = {}
    modes = ["values", "updates", "custom", "checkpoints", "messages"]
    for mode, chunk in collect(agent(), ASK, THREAD, stream_mode=modes):
        shown.setdefault(mode, []).append(chunk)
    assert [len(chunk["messages"]) for chunk in shown["values"]] == [1, 2, 3, 4]
    assert texts(shown["values"][-1]) == texts(call(agent(), ASK, THREAD))
    nodes = [node for chunk in shown["updates"] for node in chunk]
    assert nodes == ["Writing.before_agent", "model", "tools", "model"]
    assert shown["updates"][0]["Writing.before_agent"] is None
    assert shown["updates"][2]["tools"]["messages"][0].text == "5"
    assert shown["custom"] == ["hook", "layer", "tool layer", {"adding": [2, 3]}, "layer"]
    following = [name for chunk in shown["checkpoints"] for name in chunk["next"]]
    assert following == ["__start__", *nodes]
    assert words(shown["messages"]) == ["5", "It ", "is ", "five."]


@pytest.mark.parametrize("mode", ["tasks", "debug"])
def test_tasks_and_debug_name_every_node_and_tools_get_only_their_call(
    collect: Any, mode: str
) -> None:
    """A23: the state is not copied into each Send."""
    chunks = collect(create_agent(model(), [add]), ASK, stream_mode=mode)
    payloads = [chunk.get("payload", chunk) for chunk in chunks]
    begun = [payload for payload in payloads if "input" in payload]
    ended = [payload["name"] for payload in payloads if "result" in payload]
    assert [payload["name"] for payload in begun] == ended == ["model", "tools", "model"]
    (sent,) = begun[1]["input"]
    assert sent["id"] == "1"
    assert "messages" not in sent


def test_tokens_and_tool_calls_of_the_agents_model_are_streamed_once(collect: Any) -> None:
    class Through(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> Any:
            return {"messages": [state["messages"][-1]]}

    agent = create_agent(model(), [add], middleware=[Through()])
    chunks = collect(agent, ASK, stream_mode="messages")
    assert words(chunks) == ["5", "It ", "is ", "five."]
    spoken = [chunk for chunk in chunks if isinstance(chunk[0], AIMessageChunk)]
    assert {meta["langgraph_node"] for _, meta in spoken} == {"model"}
    assert not any("lc_agent_name" in meta for _, meta in chunks)  # the agent has no name
    called = [c for message, _ in chunks for c in getattr(message, "tool_call_chunks", [])]
    assert [c["name"] for c in called] == ["add"]


class Inner(AgentMiddleware):
    """Asks its own model, or its own agent, wherever it can."""

    def __init__(self, secret: Any, question: Any = "Well?") -> None:
        self.secret, self.question = secret, question

    def before_agent(self, state: Any, runtime: Any) -> None:
        self.secret.invoke(self.question)

    before_model = after_model = after_agent = before_agent

    def around_model(self, request: Any) -> Any:
        yield Invoke(self.secret, self.question)
        response = yield request
        yield Invoke(self.secret, self.question)
        return response

    around_tool = around_model


@each("asks_an_agent", [False, True])
def test_models_and_agents_that_middleware_call_are_not_streamed(
    collect: Any, asks_an_agent: bool
) -> None:
    """wanted 7: summary, selector, emulator."""
    secret = ScriptedChatModel(["A secret."] * 50)
    inner = Inner(create_agent(secret), ASK) if asks_an_agent else Inner(secret)
    agent = create_agent(model(), [add], middleware=[inner])
    assert words(collect(agent, ASK, stream_mode="messages")) == ["5", "It ", "is ", "five."]
    assert len(secret.requests) == 12


def another_model(request: Any) -> Any:
    return (yield request.override(model=ScriptedChatModel(["From another."])))


def canned(request: Any) -> Any:
    return ModelResponse([AIMessage("From the cache.")])
    yield


def canned_with_an_update(request: Any) -> Any:
    response = yield from canned(request)
    return ExtendedModelResponse(response, Command(update={"messages": []}))


def noting(request: Any) -> Any:
    update: Any = Command(update={"messages": [HumanMessage("P.S.")]})
    return ExtendedModelResponse((yield request), update)


@each(
    "layer, expected",
    [
        # Both are the agent's model speaking; which one is kept is known only later.
        (AsksTwice(), ["First.", "Second."]),
        (wrap_model_call(another_model), ["From ", "another."]),
        (wrap_model_call(canned), ["From the cache."]),
        (wrap_model_call(canned_with_an_update), ["From the cache."]),
        (wrap_model_call(noting), ["First.", "P.S."]),
    ],
)
def test_answers_of_a_layer_are_streamed(collect: Any, layer: Any, expected: list[str]) -> None:
    agent = create_agent(ScriptedChatModel(["First.", "Second."]), middleware=[layer])
    assert words(collect(agent, ASK, stream_mode="messages")) == expected


def test_the_result_of_a_tool_that_stops_the_run_is_streamed_and_shows_no_private_key(
    collect: Any, call: Any
) -> None:
    """What LangGraph streams as "values" are all channels; a caller's result is the output view."""

    def stop() -> Command[Any]:
        """Stop."""
        return Command(
            goto="__end__", update={"messages": [ToolMessage("Stopped.", tool_call_id="1")]}
        )

    agent = create_agent(ScriptedChatModel([[{"name": "stop", "id": "1"}]] * 2), [stop])
    assert words(collect(agent, ASK, stream_mode="messages")) == ["Stopped."]
    assert set(call(agent, ASK)) == {"messages"}


@each("fused", [False, True, "turn"])
def test_the_metadata_of_a_stream_hold_the_name_of_the_agent(collect: Any, fused: Any) -> None:
    """A filter by `lc_agent_name` tells an agent from the agent in its tool."""
    inner = create_agent(ScriptedChatModel(["I am inside."]), name="researcher", fused=fused)

    def delegate() -> str:
        """Ask the other agent."""
        return str(inner.invoke(ASK)["messages"][-1].text)

    agent = agent_of([[{"name": "delegate"}], "Done."], tools=[delegate], name="desk", fused=fused)
    chunks = collect(agent, ASK, stream_mode="messages", subgraphs=True)
    names = [(message.text, meta["lc_agent_name"]) for _, (message, meta) in chunks if message.text]
    assert names == [
        *[(word, "researcher") for word in ("I ", "am ", "inside.")],
        ("I am inside.", "desk"),
        ("Done.", "desk"),
    ]


@pytest.mark.parametrize("layered", [False, True])
def test_an_agent_called_with_nostream_streams_no_tokens(collect: Any, layered: bool) -> None:
    class Through(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            return (yield request)

    members = [Through()] if layered else []
    agent = create_agent(ScriptedChatModel(["Hi there."]), middleware=members)
    chunks = collect(agent.with_config(tags=["nostream"]), ASK, stream_mode="messages")
    assert not [message for message, _ in chunks if isinstance(message, AIMessageChunk)]


async def _events(agent: Any) -> list[Any]:
    return [event async for event in agent.astream_events(ASK, version="v2")]


def test_events_name_nodes_models_and_tools() -> None:
    """astream_events shows all there is; what is not the agent's own is tagged `nostream`."""
    secret = ScriptedChatModel(["A secret."] * 50)
    events = asyncio.run(_events(create_agent(model(), [add], middleware=[Inner(secret)])))
    nodes = [e["name"] for e in events if e["event"] == "on_chain_start"]
    assert {"model", "tools", "Inner.before_model", "Inner.after_agent"} <= set(nodes)
    assert [e["name"] for e in events if e["event"] == "on_tool_start"] == ["add"]
    spoken = [e for e in events if e["event"] == "on_chat_model_stream"]
    own = [e["data"]["chunk"].text for e in spoken if "nostream" not in e["tags"]]
    assert [text for text in own if text] == ["It ", "is ", "five."]
    assert any("nostream" in e["tags"] for e in spoken)


@pytest.mark.parametrize("react", [False, True])
def test_the_event_of_the_models_node_is_not_a_state(react: bool) -> None:
    """Front ends (AG-UI) take a dict for the whole state, and show what it lacks no more.

    Code for create_react_agent reads the dict of its node, as LangGraph's agent writes it.
    """
    agent = (create_react_agent if react else create_agent)(model(), [add])
    ended = [e for e in asyncio.run(_events(agent)) if e["event"] == "on_chain_end"]
    outputs = [e["data"]["output"] for e in ended if e["name"] in ("model", "agent")]
    updates = outputs if react else [command.update for (command,) in outputs]
    assert [update.keys() for update in updates] == [{"messages"}] * 2
    assert [update["messages"][0].text for update in updates] == ["", "It is five."]


@pytest.mark.parametrize("options", [{}, {"transformers": [ToolCallTransformer]}])
def test_the_event_protocol_has_the_calls_of_tools(options: Any) -> None:
    """An agent that already passes the transformer keeps working."""
    stream: Any = create_agent(model(), [add], **options).stream_events(ASK, version="v3")
    calls = list(stream.tool_calls)
    assert [(c.tool_name, c.input, c.output) for c in calls] == [("add", {"a": 2, "b": 3}, "5")]


def with_subagent(name: str | None = "researcher", **options: Any) -> Any:
    """An agent with another one in a tool."""
    inner = create_agent(ScriptedChatModel([ADDING, "I am inside."]), [add], name=name)

    def delegate() -> str:
        """Ask the other agent."""
        return str(inner.invoke(ASK)["messages"][-1].text)

    return agent_of([[{"name": "delegate", "id": "7"}], "Done."], tools=[delegate], **options)


@pytest.mark.parametrize("fused", [False, True])
def test_the_event_protocol_has_the_agents_that_tools_call(fused: bool) -> None:
    stream: Any = with_subagent(fused=fused).stream_events(ASK, version="v3")
    shown = []
    for subagent in stream.subagents:
        assert (subagent.name, subagent.status) == ("researcher", "started")
        assert subagent.cause == {"type": "toolCall", "tool_call_id": "7"}
        for kind, item in subagent.interleave("messages", "tool_calls"):
            shown.append((kind, item.tool_name if kind == "tool_calls" else str(item.text)))
        assert subagent.status == "completed"
        assert subagent.output["messages"][-1].text == "I am inside."
    assert shown == [("messages", ""), ("tool_calls", "add"), ("messages", "I am inside.")]
    assert stream.output["messages"][-1].text == "Done."


def test_an_agent_without_a_name_is_a_subgraph_and_no_subagent() -> None:
    stream: Any = with_subagent(name=None).stream_events(ASK, version="v3")
    assert [kind for kind, _ in stream.interleave("subgraphs", "subagents")] == ["subgraphs"]


@each("mode, subgraphs", [("messages", False), (["updates", "custom"], False), ("updates", True)])
def test_a_stream_that_would_wait_for_ever_is_refused(mode: Any, subgraphs: bool) -> None:
    options: Any = {"stream_mode": mode, "subgraphs": subgraphs}
    agent: Any = create_agent(model(), [add])
    for bound, config in ((agent, ONE), (agent.with_config(ONE), {})):
        with pytest.raises(ArgumentError, match="Pass max_concurrency=2, use astream"):
            [*bound.stream(ASK, config, **options)]
    assert [*agent.stream(ASK, {"max_concurrency": 2}, **options)]
    assert [*create_agent(model(), [add]).stream(ASK, ONE, stream_mode=["updates", "values"])]

    async def collected() -> list[Any]:
        return [part async for part in create_agent(model(), [add]).astream(ASK, ONE, **options)]

    assert asyncio.run(collected())


def test_a_tool_that_streams_an_agent_in_a_run_with_one_thread_raises() -> None:
    def research() -> str:
        """Stream an agent inside."""
        return str([*create_agent(model(), [add]).stream(ASK, stream_mode="messages")])

    steps = ScriptedChatModel([[{"name": "research", "args": {}}], "Done."])
    with pytest.raises(ArgumentError, match="max_concurrency"):
        create_agent(steps, [research], handle_tool_errors=False).invoke(ASK, ONE)
