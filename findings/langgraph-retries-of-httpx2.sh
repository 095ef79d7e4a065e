#!/usr/bin/env bash
# langgraph 1.2.24 with httpx 0.28.1 and httpx2 2.16.2.
#
# A node calls a server and has `RetryPolicy()`, whose documented default asks again only after a 5xx
# status. The call is made with httpx2, the successor of httpx with the same interface, by which langsmith
# and so langchain-core, mcp 2 and openai 3 talk now: each installation of langgraph brings it. Expected: a
# refused call, 401 or 404, is made once, whichever of the two makes it. Seen: with httpx it is made once,
# with httpx2 three times: the policy does not know the new class of the error, and what it does not know
# it takes for a passing failure. So to replace "httpx" by "httpx2" in a node triples its failing calls and
# adds their pauses, and a POST that a server refused, a login or a payment, is sent again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 httpx==0.28.1 httpx2==2.16.2 2>/dev/null

cat > calls.py <<'PY'
from typing import TypedDict

import httpx
import httpx2
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy


class State(TypedDict):
    order: str


def calls_of(library, status):
    """The number of calls that a node makes with a library, when the server answers with a status."""
    calls = []

    def answer(request):
        calls.append(request)
        return library.Response(status)

    def pay(state):
        with library.Client(transport=library.MockTransport(answer)) as client:
            client.post("http://bank/payments", json=state).raise_for_status()

    policy = RetryPolicy(initial_interval=0.01, jitter=False)
    graph = StateGraph(State).add_node("pay", pay, retry_policy=policy).add_edge(START, "pay").compile()
    try:
        graph.invoke({"order": "A1"})
    except library.HTTPStatusError:
        return len(calls)


for status in (401, 404, 503):
    print(f"{status}: httpx {calls_of(httpx, status)} calls, httpx2 {calls_of(httpx2, status)} calls")
PY
seen=$(venv/bin/python calls.py)
echo "$seen"
expected="401: httpx 1 calls, httpx2 3 calls
404: httpx 1 calls, httpx2 3 calls
503: httpx 3 calls, httpx2 3 calls"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
