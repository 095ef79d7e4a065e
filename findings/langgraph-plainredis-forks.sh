#!/usr/bin/env bash
# langgraph-checkpoint-plainredis 0.1.0 with fakeredis 2.41.0, langgraph 1.2.24 and langgraph-checkpoint 4.3.2.
#
# A thread has two turns; the person edits the second question, so a run begins anew at the checkpoint after
# the first turn, and another branch grows. Expected: the old branch stays, and can be shown and continued by
# its checkpoint's id: so LangGraph describes forks, and so do its own savers. Seen: with this saver, which
# passes LangGraph's conformance suite, the old branch now has the messages of the new one. It stores each
# value under its channel and version, as others do, and takes the versions of `BaseCheckpointSaver`, 1, 2,
# 3, ..., of which both branches have the same; LangGraph's savers add a random part. The memory saver with
# the versions of the base class does the same, so each saver that overrides no more than it must may.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph-checkpoint-plainredis==0.1.0 fakeredis==2.41.0 langgraph==1.2.24 \
    langgraph-checkpoint==4.3.2 2>/dev/null

cat > fork.py <<'PY'
import operator
from typing import Annotated, TypedDict

import fakeredis
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph_checkpoint_plainredis import RedisSaver


class State(TypedDict):
    texts: Annotated[list[str], operator.add]


class PlainVersions(InMemorySaver):
    """Memory saver with the versions that the base class gives."""

    get_next_version = BaseCheckpointSaver.get_next_version


thread = {"configurable": {"thread_id": "1"}}
for name, saver in (
    ("InMemorySaver", InMemorySaver()),
    ("with plain versions", PlainVersions()),
    ("plainredis", RedisSaver(fakeredis.FakeRedis())),
):
    builder = StateGraph(State).add_node("answer", lambda state: {"texts": [state["texts"][-1].upper()]})
    graph = builder.add_edge(START, "answer").compile(checkpointer=saver)
    graph.invoke({"texts": ["one"]}, thread)
    first = graph.get_state(thread).config
    graph.invoke({"texts": ["two"]}, thread)
    old = graph.get_state(thread).config
    before = graph.get_state(old).values["texts"]
    graph.invoke({"texts": ["three"]}, first)
    print(f"{name}: the old branch {before}, after the fork {graph.get_state(old).values['texts']}")
PY
seen=$(venv/bin/python fork.py)
echo "$seen"
expected="InMemorySaver: the old branch ['one', 'ONE', 'two', 'TWO'], after the fork ['one', 'ONE', 'two', 'TWO']
with plain versions: the old branch ['one', 'ONE', 'two', 'TWO'], after the fork ['one', 'ONE', 'three', 'THREE']
plainredis: the old branch ['one', 'ONE', 'two', 'TWO'], after the fork ['one', 'ONE', 'three', 'THREE']"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
