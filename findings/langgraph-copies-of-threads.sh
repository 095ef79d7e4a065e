#!/usr/bin/env bash
# langgraph 1.2.24 with langgraph-checkpoint 4.3.2 and langgraph-checkpoint-conformance 0.0.2.
#
# A saver copies a thread by the public methods of savers: it reads all checkpoints with their pending writes
# (`list`), and stores them under another thread (`put`, `put_writes`). LangGraph's conformance suite passes
# with it, the eight tests of copies included. Eight parallel tasks have each added a number to a list.
# Expected: the copy has the list of the original. Seen: for a channel with a reducer it does; a
# `DeltaChannel` has the numbers in another order in the copy, for good. Its value is made of the stored
# writes, in the order of their task's path, and no public method returns the path: the copied writes have
# none, and go by the hash in their task's id. In a thread of messages, the results of parallel calls
# change places.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 langgraph-checkpoint==4.3.2 \
    langgraph-checkpoint-conformance==0.0.2 2>/dev/null

cat > copies.py <<'PY'
import asyncio
import operator
from typing import Annotated, TypedDict

from langgraph.channels import DeltaChannel
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Send


class Saver(InMemorySaver):
    """Memory saver that copies threads by its public methods."""

    def copy_thread(self, source_thread_id, target_thread_id):
        for saved in reversed(list(self.list({"configurable": {"thread_id": source_thread_id}}))):
            config = {"thread_id": target_thread_id, "checkpoint_ns": saved.config["configurable"]["checkpoint_ns"]}
            if saved.parent_config:
                config["checkpoint_id"] = saved.parent_config["configurable"]["checkpoint_id"]
            versions = saved.checkpoint["channel_versions"]
            stored = self.put({"configurable": config}, saved.checkpoint, saved.metadata, versions)
            for task in dict.fromkeys(task for task, _, _ in saved.pending_writes):
                writes = [(channel, value) for writer, channel, value in saved.pending_writes if writer == task]
                self.put_writes(stored, writes, task)

    async def acopy_thread(self, source_thread_id, target_thread_id):
        self.copy_thread(source_thread_id, target_thread_id)


@checkpointer_test(name="Saver")
async def saver():
    yield Saver()


def extend(numbers, writes):
    """Reducer of a delta channel, which gets all writes at once."""
    return [*numbers, *(number for write in writes for number in write)]


class WithReducer(TypedDict):
    numbers: Annotated[list[int], operator.add]


class WithDelta(TypedDict):
    numbers: Annotated[list[int], DeltaChannel(extend)]


report = asyncio.run(validate(saver, capabilities={"put", "put_writes", "get_tuple", "list", "copy_thread"}))
for name in ("put_writes", "list", "copy_thread"):
    result = report.results[name]
    print(f"conformance, {name}: {result.tests_passed} passed, {result.tests_failed} failed")
for state in (WithReducer, WithDelta):
    memory = Saver()
    builder = StateGraph(state).add_node("count", lambda number: {"numbers": [number]})
    builder.add_conditional_edges(START, lambda state: [Send("count", number) for number in range(8)])
    graph = builder.compile(checkpointer=memory)
    graph.invoke({"numbers": []}, {"configurable": {"thread_id": "original"}})
    memory.copy_thread("original", "copy")
    original, copy = (
        graph.get_state({"configurable": {"thread_id": thread}}).values["numbers"] for thread in ("original", "copy")
    )
    print(f"{state.__name__}: original {original}, the same numbers in the copy {sorted(copy) == original}")
    print(f"  in the same order {copy == original}")
PY
seen=$(venv/bin/python copies.py)
echo "$seen"
expected="conformance, put_writes: 10 passed, 0 failed
conformance, list: 16 passed, 0 failed
conformance, copy_thread: 8 passed, 0 failed
WithReducer: original [0, 1, 2, 3, 4, 5, 6, 7], the same numbers in the copy True
  in the same order True
WithDelta: original [0, 1, 2, 3, 4, 5, 6, 7], the same numbers in the copy True
  in the same order False"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
