#!/usr/bin/env bash
# langgraph 1.2.24 with langgraph-checkpoint-sqlite 3.1.2; time-machine 3.6.0 sets the clock.
#
# A worker asks a person and ends. Then another worker, whose clock is behind, resumes the thread with the
# answer. Expected: the thread has the result of the second worker, since each checkpoint names its parent
# and its step, and the two never run at the same time. Seen: the saver takes the checkpoint with the
# highest id for the newest, an id begins with the time of its writer, and no writer looks at the id of
# the parent. So `invoke` returns the whole result, but the thread stays at the answered question: what
# the next nodes wrote is lost for all readers. Whoever continues the thread runs them again: two payments.
# Any offset longer than the pause between the two workers is enough: a minute here, a second between
# two pods that pass a thread on. With the same clock all is as expected. PostgresSaver does the same.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 langgraph-checkpoint-sqlite==3.1.2 time-machine==3.6.0 2>/dev/null

cat > worker.py <<'PY'
import operator
import sqlite3
import sys
import time
from typing import Annotated, TypedDict

import time_machine
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

file, task, behind = sys.argv[1], sys.argv[2], float(sys.argv[3])


class State(TypedDict):
    done: Annotated[list[str], operator.add]


def ask(state):
    return {"done": [interrupt("Pay?")]}


def pay(state):
    print("  pay runs")
    return {"done": ["paid"]}


def book(state):
    return {"done": ["booked"]}


builder = StateGraph(State).add_sequence([ask, pay, book]).add_edge(START, "ask")
graph = builder.compile(checkpointer=SqliteSaver(sqlite3.connect(file, check_same_thread=False)))
config = {"configurable": {"thread_id": "1"}}
with time_machine.travel(time.time() - behind, tick=True):
    if task == "begin":
        graph.invoke({"done": []}, config)
    else:
        result = graph.invoke(Command(resume="yes") if task == "answer" else None, config)
        print(f"  {task}: returned {result['done']}")
        state = graph.get_state(config)
        print(f"  {task}: the thread has {state.values['done']}, tasks {[t.name for t in state.tasks]}")
PY

two_workers() {  # the clock of the second is $1 seconds behind
    echo "$1 seconds behind:"
    venv/bin/python worker.py "threads-$1.db" begin 0
    venv/bin/python worker.py "threads-$1.db" answer "$1"
    venv/bin/python worker.py "threads-$1.db" continue 0
}
seen=$(two_workers 0 && two_workers 60)
echo "$seen"
expected="0 seconds behind:
  pay runs
  answer: returned ['yes', 'paid', 'booked']
  answer: the thread has ['yes', 'paid', 'booked'], tasks []
  continue: returned ['yes', 'paid', 'booked']
  continue: the thread has ['yes', 'paid', 'booked'], tasks []
60 seconds behind:
  pay runs
  answer: returned ['yes', 'paid', 'booked']
  answer: the thread has ['yes'], tasks ['ask']
  pay runs
  continue: returned ['yes', 'paid', 'booked']
  continue: the thread has ['yes', 'paid', 'booked'], tasks []"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
