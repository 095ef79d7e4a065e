#!/usr/bin/env bash
# langgraph 1.2.24.
#
# A node calls a subgraph that remembers over the turns of its thread (`checkpointer=True`). After three
# turns the thread branches after the first, as when a user edits the second message and sends it again.
# Expected: the subgraph remembers the first turn, since its parent knows no other; at least each way to
# branch gives it the same memory. Seen: a branch in the middle of a turn (a replay of a checkpoint, or
# `update_state` there) gives it the memory of then; a new input at the checkpoint of the finished turn gives
# it all three turns, also those of the abandoned branch, whether `update_state` made the branch before or
# not. So the answers of a subagent use what was said in messages that the user has taken back, and the
# history of the parent does not show it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 2>/dev/null

cat > branch.py <<'PY'
import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph


class Memory(TypedDict):
    topic: str
    heard: Annotated[list[str], operator.add]


class State(TypedDict):
    topic: str
    turns: Annotated[list[str], operator.add]
    answer: list[str]


helper = StateGraph(Memory).add_node("hear", lambda state: {"heard": [state["topic"]]})
helper = helper.add_edge(START, "hear").compile(checkpointer=True)


def note(state):
    return {"turns": [state["topic"]]}


def ask(state):
    return {"answer": helper.invoke({"topic": state["topic"]})["heard"]}


def look(name, branch):
    builder = StateGraph(State).add_sequence([note, ask]).add_edge(START, "note")
    graph = builder.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    for topic in ("red", "green", "blue"):
        graph.invoke({"topic": topic}, config)
    history = list(graph.get_state_history(config))
    (end,) = (state for state in history if not state.next and state.values["turns"] == ["red"])
    (middle,) = (state for state in history if state.next == ("ask",) and len(state.values["turns"]) == 2)
    result = branch(graph, end.config, middle.config)
    print(f"{name}: the parent has {result['turns']}, the subgraph {result['answer']}")


look("replay in the second turn", lambda graph, end, middle: graph.invoke(None, middle))
look("update in the second turn", lambda graph, end, middle: graph.invoke(
    None, graph.update_state(middle, {"topic": "black"}, as_node="note")))
look("input after the first turn", lambda graph, end, middle: graph.invoke({"topic": "black"}, end))
look("update and input after it", lambda graph, end, middle: graph.invoke(
    {"topic": "black"}, graph.update_state(end, {"topic": "white"}, as_node="ask")))
PY
seen=$(venv/bin/python branch.py)
echo "$seen"
expected="replay in the second turn: the parent has ['red', 'green'], the subgraph ['red', 'green']
update in the second turn: the parent has ['red', 'green'], the subgraph ['red', 'black']
input after the first turn: the parent has ['red', 'black'], the subgraph ['red', 'green', 'blue', 'black']
update and input after it: the parent has ['red', 'black'], the subgraph ['red', 'green', 'blue', 'black']"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
