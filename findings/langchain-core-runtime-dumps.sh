#!/usr/bin/env bash
# langchain-core 1.8.3 with langgraph 1.2.24, langgraph-prebuilt 1.1.3 and pydantic 2.14.4.
#
# A tool that takes a `ToolRuntime` gets it from the ToolNode, and the model never sees the parameter.
# Expected: a call of the tool costs the same however long the thread is, as a call of a tool without the
# parameter does. Seen: langchain-core dumps all arguments of each call for their names, the runtime with
# the whole state in it, and then throws the dump away: of 1,000 orders in the state, 1,000 are dumped for
# a call that reads none of them. With a context in the run, pydantic also warns at each call, because a
# bare `ToolRuntime` says that its context is None.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-core==1.8.3 langgraph==1.2.24 langgraph-prebuilt==1.1.3 \
    pydantic==2.14.4 2>/dev/null

cat > dumps.py <<'PY'
import warnings
from dataclasses import dataclass
from typing import Annotated

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph, add_messages
from langgraph.prebuilt import ToolNode, ToolRuntime
from pydantic import BaseModel, field_serializer
from typing_extensions import TypedDict

dumped = []


class Order(BaseModel):
    id: int

    @field_serializer("id")
    def count(self, value: int) -> int:
        dumped.append(value)
        return value


@dataclass
class Shop:
    name: str


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    orders: list[Order]


@tool
def plain() -> str:
    """Look."""
    return "seen"


@tool
def with_runtime(runtime: ToolRuntime) -> str:
    """Look."""
    return "seen"


for look in (plain, with_runtime):
    builder = StateGraph(State, context_schema=Shop).add_node("tools", ToolNode([look]))
    graph = builder.add_edge(START, "tools").compile()
    for number in (10, 1000):
        dumped.clear()
        call = {"name": look.name, "args": {}, "id": "1"}
        state = {"messages": [AIMessage("", tool_calls=[call])]}
        state["orders"] = [Order(id=index) for index in range(number)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = graph.invoke(state, context=Shop("Ann"))
        assert result["messages"][-1].content == "seen"
        print(f"{look.name}, {number} orders: {len(dumped)} dumped, warns {bool(caught)}")
PY
venv/bin/python dumps.py | tee seen.txt
diff seen.txt - <<'SEEN'
plain, 10 orders: 0 dumped, warns False
plain, 1000 orders: 0 dumped, warns False
with_runtime, 10 orders: 10 dumped, warns True
with_runtime, 1000 orders: 1000 dumped, warns True
SEEN
