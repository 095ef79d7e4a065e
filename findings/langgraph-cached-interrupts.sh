#!/usr/bin/env bash
# langgraph 1.2.24 with langgraph-checkpoint 4.3.2.
#
# A node with a `CachePolicy` asks a person by `interrupt()`, and its result has the answer. Ann answers in her
# thread; in another thread Bob gives the same input. Expected: Bob is asked, since an interrupt waits for
# the person of its thread, and an answer is no function of the input; a node that has asked is not cached.
# Seen: the result is cached under the input of the node, with Ann's answer. Bob's run does not stop, and
# goes on with the words of Ann; nothing in his result says from where they are. The same graph without the
# policy asks in each thread.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 langgraph-checkpoint==4.3.2 2>/dev/null

cat > ask.py <<'PY'
from typing import TypedDict

from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import CachePolicy, Command, interrupt


class State(TypedDict):
    room: str
    booked: str


def book(state):
    return {"booked": f"room {state['room']} for {interrupt('For whom?')}"}


for name, policy in (("without a policy", None), ("with a CachePolicy", CachePolicy())):
    builder = StateGraph(State).add_node("book", book, cache_policy=policy).add_edge(START, "book")
    graph = builder.compile(checkpointer=InMemorySaver(), cache=InMemoryCache())
    print(f"{name}:")
    for thread, person in (("1", "Ann"), ("2", "Bob")):
        config = {"configurable": {"thread_id": thread}}
        result = graph.invoke({"room": "12"}, config)
        asked = "__interrupt__" in result
        if asked:
            result = graph.invoke(Command(resume=person), config)
        print(f"  thread {thread} of {person}: asked {asked}, booked {result['booked']}")
PY
seen=$(venv/bin/python ask.py)
echo "$seen"
expected="without a policy:
  thread 1 of Ann: asked True, booked room 12 for Ann
  thread 2 of Bob: asked True, booked room 12 for Bob
with a CachePolicy:
  thread 1 of Ann: asked True, booked room 12 for Ann
  thread 2 of Bob: asked False, booked room 12 for Ann"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
