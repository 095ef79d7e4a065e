#!/usr/bin/env bash
# langgraph 1.2.24 with langchain-core 1.8.3.
#
# A framework that gives each session a graph of its own makes a deep copy of a compiled graph. Expected: the
# copy runs as the original does, since `copy.deepcopy` raises nothing. Seen: the first run of the copy raises
# InvalidUpdateError for each update of a node, here for {"x": 2}: the compiled graph refers to marks of
# LangGraph that are compared by identity, and the copy has copies of them. `graph.copy()` runs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 langchain-core==1.8.3 2>/dev/null

cat > copies.py <<'PY'
import copy
from typing import TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict):
    x: int


builder = StateGraph(State)
builder.add_node("add", lambda state: {"x": state["x"] + 1})
builder.add_edge(START, "add")
graph = builder.compile()
for name, another in (("graph", graph), ("graph.copy()", graph.copy()), ("deepcopy", copy.deepcopy(graph))):
    try:
        print(f"{name}: {another.invoke({'x': 1})}")
    except Exception as error:
        print(f"{name}: {type(error).__name__}")
PY
seen=$(venv/bin/python copies.py)
echo "$seen"
expected="graph: {'x': 2}
graph.copy(): {'x': 2}
deepcopy: InvalidUpdateError"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
