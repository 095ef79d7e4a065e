#!/usr/bin/env bash
# langgraph 1.2.24.
#
# A node fails, and its `error_handler` asks a person with `interrupt()`. Expected: the waiting question
# stands in `get_state(config).interrupts` and in those of its task, as for each other node. Seen:
# `invoke` returns the question in `__interrupt__`, but `get_state` and `get_state_history` list none:
# the thread looks as if it had failed (its task has the error, and `next` names the failed node). A
# screen that reads waiting threads, after a restart or on another machine, finds nothing to answer.
# The id that `invoke` gave still resumes the thread: the handler alone runs again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 2>/dev/null

cat > ask.py <<'PY'
from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeError
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict):
    answer: str


calls = []


def pay(state):
    calls.append("pay")
    raise RuntimeError("the bank is away")


def ask(state, error: NodeError):
    calls.append("ask")
    return {"answer": interrupt("Try another bank?")}


def plain(state):
    return {"answer": interrupt("Which bank?")}


def waiting(name, node, **options):
    builder = StateGraph(State)
    builder.add_node("pay", node, **options)
    builder.add_edge(START, "pay")
    graph = builder.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    (question,) = graph.invoke({"answer": ""}, config)["__interrupt__"]
    state = graph.get_state(config)
    (task,) = state.tasks
    history = sum(len(old.interrupts) for old in graph.get_state_history(config))
    print(f"{name}: {len(state.interrupts)} in the state, {len(task.interrupts)} in its task,"
          f" {history} in the history, next {state.next}, error {task.error}")
    return graph.invoke(Command(resume={question.id: "yes"}), config)["answer"]


print("answered:", waiting("node", plain))
print("answered:", waiting("handler", pay, error_handler=ask))
print("calls:", calls)
PY
seen=$(venv/bin/python ask.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="node: 1 in the state, 1 in its task, 1 in the history, next ('pay',), error None
answered: yes
handler: 0 in the state, 0 in its task, 0 in the history, next ('pay',), error RuntimeError('the bank is away')
answered: yes
calls: ['pay', 'ask', 'ask']"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
