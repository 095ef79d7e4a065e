"""Smoke test of a deployment: the server is ready, and a run is reviewed and ends.

Run as `python smoke.py http://127.0.0.1:2024`, with SHOP_API_KEY and METRICS_TOKEN in the
environment. It needs the standard library alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

PATIENCE = 120.0
"""Seconds that a deployment may take to become ready, and a run to end."""


def main(url: str) -> None:
    """Check a deployment.

    Raises:
        SystemExit: Something is wrong; the text says what.
    """
    wait_until_ready(url)
    metrics = call(f"{url}/metrics", token=os.environ["METRICS_TOKEN"])
    expect("agent_factory_service_workers" in metrics, "the metrics lack the workers")
    key = os.environ["SHOP_API_KEY"]
    thread = json.loads(call(f"{url}/threads", {}, key=key))["thread_id"]
    runs = f"{url}/threads/{thread}/runs/wait"
    question = {"role": "user", "content": "Refund A1"}
    body: dict[str, Any] = {"assistant_id": "desk", "input": {"messages": [question]}}
    paused = json.loads(call(runs, body, key=key))
    expect("__interrupt__" in paused, f"the refund does not wait for a review: {paused}")
    approve = {"resume": {"decisions": [{"type": "approve"}]}}
    result = json.loads(call(runs, {"assistant_id": "desk", "command": approve}, key=key))
    answer = result["messages"][-1]["content"]
    expect("40 euros were paid back" in answer, f"the answer is {answer!r}")
    print(f"{url} works: {answer}")


def wait_until_ready(url: str) -> None:
    """Wait for `/ready`."""
    end, problem = time.monotonic() + PATIENCE, ""
    while time.monotonic() < end:
        try:
            call(f"{url}/ready")
            return
        except (URLError, OSError) as error:
            problem = str(error)
        time.sleep(0.5)
    expect(False, f"it is not ready: {problem}")


def call(url: str, body: object = None, *, key: str = "", token: str = "") -> str:
    """The body of a response; an error for any status but 2xx."""
    headers = {"Content-Type": "application/json", "X-Api-Key": key}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, headers), timeout=PATIENCE) as response:
        text: str = response.read().decode()
        return text


def expect(holds: bool, otherwise: str) -> None:
    """Stop unless something holds."""
    if not holds:
        sys.exit(f"The deployment does not work: {otherwise}.")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://127.0.0.1:2024")
