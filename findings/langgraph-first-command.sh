#!/usr/bin/env bash
# langgraph 1.2.24.
#
# A run of a new thread begins with `Command(update=...)` in place of a plain input.
# Expected: the update is written once, as the same input is, and as it is in a thread that has a checkpoint.
# Seen: the update is written twice. A sum is doubled, and a message without an id stands in the thread twice;
# in the next run of the thread, the same command is written once. Without a checkpointer each run doubles it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 langchain-core==1.8.3 2>/dev/null

cat > twice.py <<'PY'
import operator
from typing import Annotated

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph, add_messages
from langgraph.types import Command
from typing_extensions import TypedDict


class State(TypedDict):
    euros: Annotated[int, operator.add]
    messages: Annotated[list, add_messages]


def graph(saver):
    builder = StateGraph(State).add_node("node", lambda state: None).add_edge(START, "node")
    return builder.compile(checkpointer=saver)


def sizes(state):
    return state["euros"], len(state["messages"])


update = {"euros": 5, "messages": [("user", "Hello")]}
thread = {"configurable": {"thread_id": "1"}}
saved = graph(InMemorySaver())
print("plain input:", plain := sizes(graph(None).invoke(update)))
print("command, new thread:", first := sizes(saved.invoke(Command(update=update), thread)))
print("command, same thread again:", second := sizes(saved.invoke(Command(update=update), thread)))
print("command, no checkpointer:", alone := sizes(graph(None).invoke(Command(update=update))))
assert (plain, first, second, alone) == ((5, 1), (10, 2), (15, 3), (10, 2))
PY
venv/bin/python twice.py
# plain input: (5, 1)
# command, new thread: (10, 2)
# command, same thread again: (15, 3)
# command, no checkpointer: (10, 2)
