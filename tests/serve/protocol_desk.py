"""Agents that tests of LangGraph's protocol v2 serve: with tools, and inside each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from agent_factory import ToolRuntime, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from serve.langgraph_desk import caller, echo, pay, running_service


def lend(euros: int) -> str:
    """Lend money."""
    raise ValueError("no money")


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
        service.add("lender", create_agent(caller("lend", euros=5), [lend], **options))
        service.add("boss", create_agent(caller("delegate", question="Pay"), [delegate]))
        service.add("outer", graph_around(payer()))
        echoes = create_agent(ScriptedChatModel([echo] * 1000), name="echoes")
        service.add("outer_echo", graph_around(echoes))
        yield service
