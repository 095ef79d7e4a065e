"""Servers of engines in processes of their own, which tests start, kill and wipe."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from processes import Processes
from waiting import until

PACKAGES = Path(__file__).parent / "node_modules" / "@restatedev"


def free_port() -> int:
    """A port of this machine that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class TemporalServer:
    """A server as Temporal's command line starts it for developers.

    Args:
        folder: Its data, which survive a kill.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self._processes = folder, free_port(), Processes()
        self.command = ["server", "start-dev"]

    def start(self) -> None:
        """Start it, and return when it answers."""
        self.folder.mkdir(exist_ok=True)
        binary, words = Path(sys.executable).with_name("temporal"), "--headless --log-level never"
        places = ["--port", self.port, "--db-filename", self.folder / "db"]
        command = [binary, *self.command, *words.split(), *places]
        self._processes.start(command, ready="Temporal Server:", stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """End it as a crash does."""
        self._processes.end()

    def wipe(self) -> None:
        """Remove the data of a server that was killed."""
        rmtree(self.folder)

    def url(self, name: str) -> str:
        """The URL of the engines of a service."""
        return f"temporal://127.0.0.1:{self.port}?prefix={name}"

    def add_search_attributes(self, names: Iterable[str]) -> None:
        """Create attributes in the namespace, by Temporal's command."""
        words = f"operator search-attribute create --address 127.0.0.1:{self.port} --type Keyword"
        for name in names:  # of several in one command, it creates the first alone
            program = str(Path(sys.executable).with_name("temporal"))
            subprocess.run(
                [program, *words.split(), "--name", name], check=True, stdout=subprocess.DEVNULL
            )

    def known(self, name: str) -> list[Any]:
        """The activities of a service that have not ended."""

        async def ask() -> list[Any]:
            client = await Client.connect(f"127.0.0.1:{self.port}")
            query = f"ActivityId STARTS_WITH '{name}/' AND ExecutionStatus = 'Running'"
            handles = [
                client.get_activity_handle(e.activity_id)
                async for e in client.list_activities(query)
            ]
            return [(await handle.describe()).raw_info for handle in handles]

        return asyncio.run(ask())


class RestateServer:
    """A server from npm, with one partition.

    Args:
        folder: Its data, which survive a kill.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._processes, self.workers = folder, Processes(), dict[str, str]()
        self.ingress, self.admin, node = (free_port() for _ in range(3))
        self.environment = {
            "DO_NOT_TRACK": "1",
            "RESTATE_ADMIN__BIND_PORT": str(self.admin),
            "RESTATE_BIND_IP": "127.0.0.1",
            "RESTATE_BIND_PORT": str(node),
            "RESTATE_DEFAULT_NUM_PARTITIONS": "1",
            "RESTATE_INGRESS__BIND_PORT": str(self.ingress),
            "RESTATE_NODE_NAME": "tests",
            "RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE": "128MiB",
        }

    def start(self) -> None:
        """Start it, and return when it answers."""
        binaries = [*PACKAGES.glob("restate-server-*/bin/restate-server")]
        if not binaries:
            pytest.skip("The server comes from npm: npm ci --prefix tests/service/engines")
        self.folder.mkdir(exist_ok=True)
        command = [binaries[0], "--no-logo", "--listen-mode=tcp", "--base-dir", self.folder]
        environment = {**os.environ, **self.environment}
        with (self.folder / "server.log").open("ab") as log:
            self._processes.start(command, env=environment, stdout=log, stderr=log)
        until(self._answers)

    def _answers(self) -> bool:
        with suppress(httpx.HTTPError):
            url = f"http://127.0.0.1:{self.ingress}/restate/health"
            httpx.get(url, trust_env=False).raise_for_status()
            self.known("")  # the partition is ready later than the addresses
            return True
        return False

    def kill(self) -> None:
        """End it as a crash does."""
        self._processes.end()

    def wipe(self) -> None:
        """Remove the data of a server that was killed."""
        rmtree(self.folder)

    def url(self, name: str) -> str:
        """The URL of the engines of a service, whose processes have an address of their own."""
        worker = self.workers.setdefault(name, f"http://127.0.0.1:{free_port()}")
        base = f"restate://127.0.0.1:{self.ingress}/{name}"
        return f"{base}?admin=http://127.0.0.1:{self.admin}&worker={worker}"

    def known(self, name: str) -> list[Any]:
        """The jobs of a service that have not ended."""
        query = f"select * from sys_invocation where target_service_name like '{name}.%'"
        url, headers = f"http://127.0.0.1:{self.admin}/query", {"accept": "application/json"}
        answer = httpx.post(url, json={"query": query}, headers=headers, trust_env=False)
        return list(answer.raise_for_status().json()["rows"])


Server = TemporalServer | RestateServer
SERVERS: dict[str, type[Server]] = {"temporal": TemporalServer, "restate": RestateServer}
