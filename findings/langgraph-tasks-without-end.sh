#!/usr/bin/env bash
# langgraph 1.2.24.
#
# `stream_mode="tasks"` tells when tasks begin and when they have ended. Expected: each task that begins in
# a stream that runs to its end also ends there, with a result, an error or its questions. Seen: a task
# whose result is already known begins and never ends: one that had finished beside a waiting question,
# when the thread is resumed, and one whose result comes from the cache (`CachePolicy`). A display of
# running tasks, or a sum of their times, waits for them forever; "debug" has the same pairs. And "updates"
# differs the other way: the resumed stream has the old update of the finished node once more, beside a key
# "__metadata__" of the same dict, so whoever counts or shows updates has them twice.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 2>/dev/null

cat > tasks.py <<'PY'
import operator
from typing import Annotated, TypedDict

from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import CachePolicy, Command, interrupt


class State(TypedDict):
    done: Annotated[list[str], operator.add]


def pay(state):
    return {"done": ["paid"]}


def ask(state):
    return {"done": [interrupt("Send a receipt?")]}


def show(name, graph, start):
    began, ended, updates = [], [], []
    config = {"configurable": {"thread_id": "1"}}
    for mode, part in graph.stream(start, config, stream_mode=["tasks", "updates"]):
        if mode == "updates":
            updates.extend(part)
        else:
            (began if "input" in part else ended).append(part["name"])
    print(f"{name}: began {sorted(began)}, ended {sorted(ended)}, updates {sorted(updates)}")


builder = StateGraph(State).add_node("pay", pay).add_node("ask", ask)
graph = builder.add_edge(START, "pay").add_edge(START, "ask").compile(checkpointer=InMemorySaver())
show("asks", graph, {"done": []})
show("resumed", graph, Command(resume="yes"))

builder = StateGraph(State).add_node("pay", pay, cache_policy=CachePolicy()).add_edge(START, "pay")
graph = builder.compile(cache=InMemoryCache())
show("not cached", graph, {"done": []})
show("cached", graph, {"done": []})
PY
seen=$(venv/bin/python tasks.py)
echo "$seen"
expected="asks: began ['ask', 'pay'], ended ['ask', 'pay'], updates ['__interrupt__', 'pay']
resumed: began ['ask', 'pay'], ended ['ask'], updates ['__metadata__', 'ask', 'pay']
not cached: began ['pay'], ended ['pay'], updates ['pay']
cached: began ['pay'], ended [], updates ['__metadata__', 'pay']"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
