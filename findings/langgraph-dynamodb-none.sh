#!/usr/bin/env bash
# langgraph-dynamodb-checkpoint 0.5.0 with moto 5.2.5 (DynamoDB in memory), boto3 1.44.8 and langgraph 1.2.24.
#
# Of two parallel nodes one sends a mail, and the other waits for a person with `interrupt()`; the person
# answers. Expected: the mail is sent once, since the results of a finished node are stored as pending writes
# and are used when the thread goes on: so do LangGraph's own savers. Seen: this saver does not keep pending
# writes whose value is None. A node that returns nothing has such a write alone (LangGraph notes by it that
# the node has ended), and so has one that clears a field, `{"error": None}`: `next` names the node as
# unfinished, and the answer sends the mail again. A node that returns another value runs once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph-dynamodb-checkpoint==0.5.0 'moto[dynamodb]==5.2.5' boto3==1.44.8 \
    langgraph==1.2.24 2>/dev/null

cat > mail.py <<'PY'
import logging
from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from langgraph_dynamodb_checkpoint import DynamoDBSaver
from moto import mock_aws


class State(TypedDict, total=False):
    error: str | None
    answer: str


logging.disable(logging.INFO)
with mock_aws():
    for name, create in (("memory", InMemorySaver), ("dynamodb", lambda: DynamoDBSaver(table_name="checkpoints"))):
        saver = create()
        for result in ({"error": "none"}, {"error": None}, None):
            sent = []

            def mail(state):
                sent.append("mail")
                return result

            builder = StateGraph(State).add_node("mail", mail).add_edge(START, "mail")
            builder.add_node("ask", lambda state: {"answer": interrupt("Go on?")}).add_edge(START, "ask")
            graph = builder.compile(checkpointer=saver)
            config = {"configurable": {"thread_id": str(result)}}
            graph.invoke({}, config)
            waiting = ", ".join(graph.get_state(config).next)
            graph.invoke(Command(resume="yes"), config)
            print(f"{name}, the node returns {result}: next {waiting}, mails {len(sent)}")
PY
export AWS_ACCESS_KEY_ID=none AWS_SECRET_ACCESS_KEY=none AWS_DEFAULT_REGION=us-east-1
seen=$(venv/bin/python mail.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="memory, the node returns {'error': 'none'}: next ask, mails 1
memory, the node returns {'error': None}: next ask, mails 1
memory, the node returns None: next ask, mails 1
dynamodb, the node returns {'error': 'none'}: next ask, mails 1
dynamodb, the node returns {'error': None}: next mail, ask, mails 2
dynamodb, the node returns None: next mail, ask, mails 2"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
