#!/usr/bin/env bash
# langgraph 1.2.24.
#
# Of two parallel nodes one has paid, and the other waits for a person with `interrupt()`. Somebody writes
# a note into the state with `update_state(config, {"note": ...})`. Expected: the note is there, the payment
# is still done, and the same question waits, as after `invoke(Command(update=...))`, which writes the same
# note. Seen: `update_state` drops what the finished node had written, though its write was stored: the
# node is in `next` again, and the answer to the question makes it pay once more. `get_state` lists no
# question, and the id that was shown is of no use: an answer with it is ignored without an error, and the
# question is asked again under a new id. `update_state(config, None)` does the same.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 2>/dev/null

cat > note.py <<'PY'
import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict):
    note: str
    done: Annotated[list[str], operator.add]


calls = []


def pay(state):
    calls.append("pay")
    return {"done": ["paid"]}


def ask(state):
    return {"done": [interrupt("Send a receipt?")]}


config = {"configurable": {"thread_id": "1"}}


def look(name, write):
    calls.clear()
    builder = StateGraph(State).add_node("pay", pay).add_node("ask", ask)
    builder.add_edge(START, "pay").add_edge(START, "ask")
    graph = builder.compile(checkpointer=InMemorySaver())
    (question,) = graph.invoke({"note": "", "done": []}, config)["__interrupt__"]
    write(graph)
    state = graph.get_state(config)
    print(f"{name}: note {state.values['note']!r}, next {state.next}, questions {len(state.interrupts)}")
    (now,) = state.interrupts or [question]
    result = graph.invoke(Command(resume={now.id: "yes"}), config)
    print(f"  answered by id: done {result['done']}, asked again {'__interrupt__' in result}, calls {calls}")


look("nothing", lambda graph: None)
look("Command", lambda graph: graph.invoke(Command(update={"note": "new"}), config))
look("update_state", lambda graph: graph.update_state(config, {"note": "new"}))
PY
seen=$(venv/bin/python note.py)
echo "$seen"
expected="nothing: note '', next ('ask',), questions 1
  answered by id: done ['yes', 'paid'], asked again False, calls ['pay']
Command: note 'new', next ('ask',), questions 1
  answered by id: done ['yes', 'paid'], asked again False, calls ['pay']
update_state: note 'new', next ('pay', 'ask'), questions 0
  answered by id: done ['paid'], asked again True, calls ['pay', 'pay']"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
