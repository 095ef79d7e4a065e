#!/usr/bin/env bash
# langgraph 1.2.24.
#
# A workflow gets a price from a `@task`, then the network fails once; it asks a person whether to pay that
# price. Expected: the result of a finished task is stored and used when the workflow runs again, whether a
# `RetryPolicy` runs it again or a resume: so the documentation describes tasks. Seen: a resume uses it, a
# retry does not: the task runs once more, though its first result is stored. A task with a side effect has
# it twice. And both results are kept in order: the run after the retry goes on with the second, the run
# after the person's answer gets the first. So the person is asked about 12, says yes, and 10 is paid.
# A `@task` in a node of a graph that has a retry policy does the same.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph==1.2.24 2>/dev/null

cat > retry.py <<'PY'
from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt

config = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    paid: int


def workflow():
    """Return the steps of an order, and the prices that its task has returned."""
    prices, broken = [], [True]

    @task
    def price():
        prices.append(10 + 2 * len(prices))
        return prices[-1]

    def order(_):
        euros = price().result()
        if broken:
            broken.clear()
            raise ConnectionError("the network is away")
        interrupt(f"Pay {euros}?")
        return {"paid": euros}

    return order, prices


def look(name, build, start, policy):
    order, prices = workflow()
    app = build(order, policy)
    try:
        result = app.invoke(start, config)
    except ConnectionError:
        result = app.invoke(None, config)
    question = result["__interrupt__"][0].value
    paid = app.invoke(Command(resume="yes"), config)["paid"]
    print(f"{name}: asked {question!r}, paid {paid}, the task returned {prices}")


def as_entrypoint(order, policy):
    return entrypoint(checkpointer=InMemorySaver(), retry_policy=policy)(order)


def as_node(order, policy):
    builder = StateGraph(State).add_node("order", order, retry_policy=policy).add_edge(START, "order")
    return builder.compile(checkpointer=InMemorySaver())


retries = RetryPolicy(initial_interval=0.01, jitter=False)
look("entrypoint, resumed", as_entrypoint, "start", None)
look("entrypoint, retried", as_entrypoint, "start", retries)
look("node, resumed", as_node, {"paid": 0}, None)
look("node, retried", as_node, {"paid": 0}, retries)
PY
seen=$(venv/bin/python retry.py)
echo "$seen"
expected="entrypoint, resumed: asked 'Pay 10?', paid 10, the task returned [10]
entrypoint, retried: asked 'Pay 12?', paid 10, the task returned [10, 12]
node, resumed: asked 'Pay 10?', paid 10, the task returned [10]
node, retried: asked 'Pay 12?', paid 10, the task returned [10, 12]"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
