#!/usr/bin/env bash
# langchain-core 1.8.3 with langgraph 1.2.24.
#
# A chat model has a cache of answers, and each turn sends it the last message alone. The user says the same
# twice in a thread. Expected: the second turn ends with an answer, as the first did; it came from the
# cache, and cost nothing. Seen: the message from the cache has the id of the first answer ("lc_run--..."
# of a run that it is not from), and `add_messages` puts a message with a known id in the place of the old
# one. So the thread ends with the user, and `result["messages"][-1].text` is the question. The
# model itself gives no id: langchain-core sets it after the call, and keeps it in the cache. Two nodes of
# a graph that ask a model the same leave one answer, too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-core==1.8.3 langgraph==1.2.24 2>/dev/null

cat > answers.py <<'PY'
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph


def talk(name, cache):
    model = FakeListChatModel(responses=["It is sunny."], cache=cache)

    def answer(state):
        return {"messages": [model.invoke(state["messages"][-1:])]}

    builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    graph = builder.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    for turn in ("first", "second"):
        result = graph.invoke({"messages": [("user", "The weather?")]}, config)
        print(f"{name}, {turn} turn: {', '.join(message.type for message in result['messages'])};"
              f" the last is {result['messages'][-1].text!r}")


talk("no cache", False)
talk("cache", InMemoryCache())
PY
seen=$(venv/bin/python answers.py)
echo "$seen"
expected="no cache, first turn: human, ai; the last is 'It is sunny.'
no cache, second turn: human, ai, human, ai; the last is 'It is sunny.'
cache, first turn: human, ai; the last is 'It is sunny.'
cache, second turn: human, ai, human; the last is 'The weather?'"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
