"""An agent in Temporal's plugin for LangGraph, as a person writes one by its documentation.

The nodes are methods of a class, because the plugin refuses local functions. The prebuilt agents
of LangGraph and langchain have local ones. A message becomes a dict on the way into a node: the
prebuilt `ToolNode` finds no calls in dicts, so each call is sent to a node of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from langchain_core.messages import ToolMessage, convert_to_messages
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send
from temporalio import workflow
from temporalio.client import Client
from temporalio.langgraph import LangGraphPlugin, graph
from temporalio.worker import Worker

TIMEOUT = timedelta(seconds=30)
"""`start_to_close_timeout` of each node, as in the examples of the plugin."""

_GRAPH = "agent"


@workflow.defn
class AgentWorkflow:
    """A run of the agent."""

    @workflow.run
    async def run(self, question: str) -> Any:
        """Answer a question, and return the thread."""
        agent = graph(_GRAPH).compile()
        return (await agent.ainvoke({"messages": [("user", question)]}))["messages"]


class _Nodes:
    def __init__(self, script: Any, tool: Any) -> None:
        self._script, self._tool = script, tool

    async def model(self, state: MessagesState) -> dict[str, Any]:
        return {"messages": [await self._script.ainvoke(convert_to_messages(state["messages"]))]}

    async def call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        result = await self._tool(**call["args"])
        return {"messages": [ToolMessage(str(result), tool_call_id=call["id"])]}


async def _next(state: Any) -> Any:  # a sync one would need a thread, and workflows have none
    return [Send("call", call) for call in state["messages"][-1].tool_calls] or END


def _graph(script: Any, tool: Any) -> Any:
    nodes, agent = _Nodes(script, tool), StateGraph(MessagesState)
    pairs: Any = (("model", nodes.model), ("call", nodes.call))
    for name, node in pairs:
        how = {"execute_in": "activity", "start_to_close_timeout": TIMEOUT}
        agent.add_node(name, node, metadata=how)
    agent.add_edge(START, "model")
    agent.add_conditional_edges("model", _next, ["call", END])
    agent.add_edge("call", "model")
    return agent


async def run(script: Any, tool: Any, name: str, question: str | None) -> list[Any]:
    """Work until a workflow has ended, and return its thread; with a question, start it first."""
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    plugin = LangGraphPlugin(graphs={_GRAPH: _graph(script, tool)})
    async with Worker(client, task_queue=name, workflows=[AgentWorkflow], plugins=[plugin]):
        if question:
            await client.start_workflow(AgentWorkflow.run, question, id=name, task_queue=name)
        return convert_to_messages(await client.get_workflow_handle(name).result())
