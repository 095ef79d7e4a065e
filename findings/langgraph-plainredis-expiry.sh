#!/usr/bin/env bash
# langgraph-checkpoint-plainredis 0.1.0 with langgraph 1.2.24, on fakeredis 2.38.0.
#
# A thread with a time to live of four seconds is used every 1.5 seconds. Its state has a name, which the first
# turn sets, and a count, which each turn sets. Expected: each turn prolongs the life of the thread, which
# never rests for four seconds, or the thread as a whole expires.
# Seen: four seconds after the first turn the name is gone, the count is there, and the thread goes on without an
# error. The saver stores each value of the state under a key of its own, when the value changes, and each
# key expires by itself; a checkpoint whose value is missing is read without that value.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 langgraph-checkpoint==4.3.2 \
    langgraph-checkpoint-plainredis==0.1.0 redis==8.1.0 fakeredis==2.38.0 2>/dev/null

cat > turns.py <<'PY'
import time
from typing import TypedDict

import fakeredis
from langgraph.graph import START, StateGraph
from langgraph_checkpoint_plainredis import RedisSaver


class State(TypedDict):
    name: str
    count: int


def count(state):
    return {"count": state.get("count", 0) + 1}


saver = RedisSaver(fakeredis.FakeRedis(), ttl=4)
builder = StateGraph(State).add_node("count", count).add_edge(START, "count")
graph = builder.compile(checkpointer=saver)
config = {"configurable": {"thread_id": "1"}}
print("turn 0", graph.invoke({"name": "Ann", "count": 0}, config))
for turn in range(1, 5):
    time.sleep(1.5)
    print("turn", turn, graph.invoke({"count": turn}, config))
PY
seen=$(venv/bin/python turns.py)
echo "$seen"
expected="turn 0 {'name': 'Ann', 'count': 1}
turn 1 {'name': 'Ann', 'count': 2}
turn 2 {'name': 'Ann', 'count': 3}
turn 3 {'count': 4}
turn 4 {'count': 5}"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
