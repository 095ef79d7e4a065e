"""Marked model calls are in no messages of the event protocol."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest
from families import OURS, THEIRS
from langgraph.graph import START, MessagesState, StateGraph

from agent_factory import AgentMiddleware, create_agent
from agent_factory.middleware.internal_call_transformer import (
    INTERNAL_CALL_METADATA_KEY,
    InternalCallTransformer,
    internal_call_metadata,
)
from agent_factory.testing import ScriptedChatModel
from tables import each

pytestmark = pytest.mark.filterwarnings("ignore:The v3 streaming protocol")

GO: Any = {"messages": "Go"}
CALLS: Any = [{"name": "think", "args": {}, "id": "1"}]


def thinking(metadata: dict[str, Any]) -> Any:
    """A function that calls a model, as a tool or in a node."""
    model = ScriptedChatModel(["Aside.", "Aside."])

    def think() -> str:
        """Think."""
        return str(model.invoke("Think", {"metadata": metadata}).text)

    return think


class Declares(AgentMiddleware):
    transformers = (InternalCallTransformer,)


@pytest.fixture(params=["sync", "async"])
def watch(request: pytest.FixtureRequest) -> Any:
    """The texts of `run.messages` of one run, and the events of messages of another."""

    def sync(graph: Any) -> tuple[list[str], str]:
        texts = [str(m.text) for m in graph.stream_events(GO, version="v3").messages]
        events = list(graph.stream_events(GO, version="v3"))
        return texts, str([event for event in events if event["method"] == "messages"])

    async def asynchronous(graph: Any) -> tuple[list[str], str]:
        run = await graph.astream_events(GO, version="v3")
        texts = [str(await message.text) async for message in run.messages]
        run = await graph.astream_events(GO, version="v3")
        events = [event async for event in run]
        return texts, str([event for event in events if event["method"] == "messages"])

    if request.param == "sync":
        return sync
    return lambda graph: asyncio.run(asynchronous(graph))


@each(
    "metadata, hidden",
    [(internal_call_metadata(), True), ({}, False), ({INTERNAL_CALL_METADATA_KEY: "x"}, False)],
)
@each("fused", [True, False])
def test_a_marked_call_of_a_tool_is_not_shown(
    watch: Any, fused: bool, metadata: Any, hidden: bool
) -> None:
    """A caller cannot mark its calls: the mark would be in the metadata of all calls of a run."""
    model = ScriptedChatModel([CALLS, "Done.", CALLS, "Done."])
    agent = create_agent(model, [thinking(metadata)], middleware=[Declares()], fused=fused)
    texts, events = watch(agent)
    assert ("Aside." in texts) is ("Aside." in events) is not hidden
    assert texts[-1] == "Done."


@each("marked", [True, False])
def test_a_marked_call_of_a_node_is_not_shown(watch: Any, marked: bool) -> None:
    think = thinking(internal_call_metadata() if marked else {})
    answer = ScriptedChatModel(["Done.", "Done."])

    def node(state: Any) -> Any:
        think()
        return {"messages": [answer.invoke("Answer")]}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
    texts, events = watch(graph.compile(transformers=[InternalCallTransformer]))
    assert texts == (["Done."] if marked else ["Aside.", "Done."])
    assert ("Aside." in events) is not marked


def test_langchains_transformer_does_the_same_on_both_agents(watch: Any) -> None:
    name = "langchain.agents.middleware.internal_call_transformer"
    theirs: Any = pytest.importorskip(name, reason="the extra peer is not installed")
    transformers = (
        (theirs.InternalCallTransformer, theirs.internal_call_metadata()),
        (InternalCallTransformer, internal_call_metadata()),
    )
    shown = []
    for family, (transformer, mark) in product((THEIRS, OURS), transformers):
        member = type("Declares", (family.AgentMiddleware,), {"transformers": (transformer,)})()
        model = ScriptedChatModel([CALLS, "Done.", CALLS, "Done."])
        agent = family.create_agent(model, [thinking(mark)], middleware=[member])
        shown.append(watch(agent)[0])
    assert shown == [["", "Done."]] * 4
