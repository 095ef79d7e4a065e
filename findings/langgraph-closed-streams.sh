#!/usr/bin/env bash
# langgraph 1.2.24 with langchain-core 1.8.3.
#
# A chat screen closes the stream of a run when its user presses Stop. Expected: the call of the model ends at its
# next token, as it does for `astream`. Seen: `close()` of a stream that is not asynchronous returns only when the
# node has ended by itself. The model writes, and is paid for, to its last word, and the screen waits as long; the
# nodes after it do not run.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 langchain-core==1.8.3 2>/dev/null

cat > streams.py <<'PY'
import asyncio
import time

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import START, MessagesState, StateGraph

words = 0


class Model(GenericFakeChatModel):
    def _stream(self, *args, **kwargs):
        global words
        for _ in range(40):
            time.sleep(0.02)
            words += 1
            yield ChatGenerationChunk(message=AIMessageChunk("word "))

    async def _astream(self, *args, **kwargs):
        global words
        for _ in range(40):
            await asyncio.sleep(0.02)
            words += 1
            yield ChatGenerationChunk(message=AIMessageChunk("word "))


model = Model(messages=iter([AIMessage("")]))


def graph(node):
    builder = StateGraph(MessagesState)
    builder.add_node("model", node)
    builder.add_edge(START, "model")
    return builder.compile()


def call(state):
    return {"messages": model.invoke(state["messages"])}


async def acall(state):
    return {"messages": await model.ainvoke(state["messages"])}


def sync():
    stream = graph(call).stream({"messages": [("user", "Hi")]}, stream_mode="messages")
    next(stream)
    stream.close()


async def asynchronous():
    stream = graph(acall).astream({"messages": [("user", "Hi")]}, stream_mode="messages")
    await anext(stream)
    await stream.aclose()
    await asyncio.sleep(0.5)


sync()
print(f"stream: {'to its end' if words == 40 else 'stopped'}")
words = 0
asyncio.run(asynchronous())
print(f"astream: {'to its end' if words == 40 else 'stopped'}")
PY
seen=$(venv/bin/python streams.py)
echo "$seen"
expected="stream: to its end
astream: stopped"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
