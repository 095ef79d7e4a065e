"""Agents that tests of LangGraph's protocol v2 serve: with tools, and inside each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.ui import push_ui_message, ui_message_reducer

from agent_factory import AgentState, ToolRuntime, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from serve.langgraph_desk import caller, echo, pay, running_service


def lend(euros: int) -> str:
    """Lend money."""
    raise ValueError("no money")


class Gallery(AgentState[Any], total=False):
    """State with components for a page, and what the page says of them."""

    ui: Annotated[list[Any], ui_message_reducer]
    context: dict[str, Any]


def draw(title: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Show a picture on the page."""
    message = runtime.state["messages"][-1]
    picture = push_ui_message("picture", {"title": title}, message=message)
    push_ui_message("picture", {"done": True}, id=picture["id"], message=message, merge=True)
    return f"Drawn for {runtime.state.get('context', {}).get('place', 'nobody')}."


def two_calls(messages: list[BaseMessage]) -> AIMessage:
    if isinstance(messages[-1], ToolMessage):
        return AIMessage("Done.")
    pays = [{"name": "pay", "args": {"euros": n}, "id": uuid4().hex} for n in (5, 7)]
    return AIMessage("", tool_calls=pays)


class NamedAnswers(ScriptedChatModel):
    """Model whose provider names its answers, and marks no chunk as the last."""

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Iterator[Any]:
        has_result, name = isinstance(messages[-1], ToolMessage), f"named-{uuid4().hex}"
        call = tool_call_chunk(name="pay", args='{"euros": 5}', id=uuid4().hex, index=0)
        for text, calls in [("Done", []), (".", [])] if has_result else [("", [call])]:
            chunk = AIMessageChunk(content=text, tool_call_chunks=calls, id=name)
            yield ChatGenerationChunk(message=chunk)


def graph_around(agent: Any) -> Any:
    """A graph whose node "inner" is an agent."""
    graph: Any = StateGraph(MessagesState)
    graph.add_node("inner", agent)
    graph.add_edge(START, "inner")
    return graph.compile()


@contextmanager
def protocol_service(url: str) -> Iterator[Service]:
    """The service of `langgraph_desk`, with more agents."""
    options: dict[str, Any] = {"checkpointer": InMemorySaver()}
    asks = [HumanInTheLoopMiddleware({"pay": True})]

    def payer() -> Any:
        model = caller("pay", euros=5)
        return create_agent(model, [pay], name="payer", middleware=asks, **options)

    inner = payer()

    def delegate(question: str, runtime: ToolRuntime) -> str:
        """Ask another agent."""
        messages = inner.invoke({"messages": [("user", question)]}, runtime.config)["messages"]
        return str(messages[-1].text)

    with running_service(url) as service:
        service.add("payer", create_agent(caller("pay", euros=5), [pay], **options))
        service.add("named", create_agent(NamedAnswers(steps=[]), [pay], **options))
        service.add("lender", create_agent(caller("lend", euros=5), [lend], **options))
        service.add("boss", create_agent(caller("delegate", question="Pay"), [delegate]))
        service.add("outer", graph_around(payer()))
        echoes = create_agent(ScriptedChatModel([echo] * 1000), name="echoes")
        service.add("outer_echo", graph_around(echoes))
        twice = ScriptedChatModel([two_calls] * 1000)
        service.add("twice", create_agent(twice, [pay], middleware=asks, **options))
        artist = caller("draw", title="Sea")
        service.add("artist", create_agent(artist, [draw], state_schema=Gallery, **options))
        yield service
