#!/usr/bin/env bash
# restate-server 1.7.12 (npm), restate-sdk 1.3.0 with uvicorn 0.54.0: a service over HTTP/1.1.
#
# A handler of a service with `inactivity_timeout` of a minute and `abort_timeout` of two seconds works
# for ten seconds without a step. Expected: after a minute without a message, Restate asks the handler to
# suspend, and two seconds later it breaks off the attempt, as the documentation of both times says: the
# handler ends before, so it is called once. Seen: `inactivity_timeout` is ignored where requests and
# responses do not overlap (HTTP/1.1), and `abort_timeout` counts from the start of the request: Restate
# closes the connection after seven seconds (two, and five of its own), and calls the handler again while
# the first call still works. With an `abort_timeout` of twenty seconds there is one call.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q restate-sdk==1.3.0 uvicorn==0.54.0 httpx==0.28.1 2>/dev/null
npm install --silent --no-audit --no-fund @restatedev/restate-server@1.7.12 >/dev/null

cat > service.py <<'PY'
import asyncio
import sys
from datetime import timedelta

import restate
import uvicorn


def made(name, abort):
    service = restate.Service(
        name, inactivity_timeout=timedelta(minutes=1), abort_timeout=timedelta(seconds=abort)
    )

    @service.handler("repeat")
    async def repeat(ctx: restate.Context, call: str) -> str:
        with open(f"{name}.calls", "a") as calls:
            calls.write("begin\n")
        await asyncio.sleep(10)
        return "done"

    return service


uvicorn.run(restate.app([made("short", 2), made("long", 20)]), port=int(sys.argv[1]), log_level="error")
PY
cat > ask.py <<'PY'
import sys
import time
from pathlib import Path

import httpx

ingress, admin, worker = (f"http://127.0.0.1:{port}" for port in sys.argv[1:])
body = {"uri": worker, "use_http_11": True}
for _ in range(300):
    try:
        if httpx.post(f"{admin}/deployments", json=body, timeout=60).is_success:
            break
    except httpx.HTTPError:
        pass
    time.sleep(0.2)
for name in ("short", "long"):
    httpx.post(f"{ingress}/{name}/repeat/send", json="x", timeout=60).raise_for_status()
time.sleep(16)
for name in ("short", "long"):
    print(name, Path(f"{name}.calls").read_text().count("begin"))
PY
read -r ingress admin node worker < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
print(*[one.getsockname()[1] for one in sockets])')
export DO_NOT_TRACK=1 RESTATE_BIND_IP=127.0.0.1 RESTATE_NODE_NAME=a RESTATE_BIND_PORT=$node
export RESTATE_INGRESS__BIND_PORT=$ingress RESTATE_ADMIN__BIND_PORT=$admin RESTATE_DEFAULT_NUM_PARTITIONS=1
node_modules/@restatedev/restate-server-*/bin/restate-server --no-logo --listen-mode=tcp --base-dir data >server.log 2>&1 &
venv/bin/python service.py "$worker" >service.log 2>&1 &
seen=$(venv/bin/python ask.py "$ingress" "$admin" "$worker")
echo "$seen"
case "$seen" in
*"short 1"* | *"long 2"* | *"long 3"*) echo "CHANGED: expected more than one call of short, and one of long"; exit 1 ;;
esac
echo "Seen as described: restate-server 1.7.12, restate-sdk 1.3.0."
