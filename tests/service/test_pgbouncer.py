"""A service behind PgBouncer in transaction mode, where no two transactions share a session."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from agent_factory.service import Service
from processes import Processes
from service.desk import Journal, check_history, make_desk
from waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="PgBouncer is not installed"),
]

PORT = 6432
"""Part of the name of a socket in the folder of the server, which has no port."""

SETTINGS = """
[databases]
* = host={folder} user=postgres pool_size=4

[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
server_reset_query_always = 1
server_reset_query = DISCARD ALL
ignore_startup_parameters = extra_float_digits
logfile = {log}
"""


@pytest.fixture
def urls(postgres_url: str, postgres_server: Any, processes: Processes) -> tuple[str, str]:
    """The URL of a database behind PgBouncer, and its own."""
    parsed = make_url(postgres_url)
    folder = Path(str(parsed.query["host"]))
    settings, log = folder / "pgbouncer.ini", folder / "pgbouncer.log"
    # Its user can read it there. Nobody else listens at a socket in that folder: PgBouncer does not
    # say which port it got.
    settings.write_text(SETTINGS.format(folder=folder, log=log))
    command = ["pgbouncer", str(settings)]
    if os.getuid() == 0:
        owner = folder.owner()
        shutil.chown(settings, owner)
        command[1:1] = ["-u", owner]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes.start(command, **quiet)
    until((folder / f".s.PGSQL.{PORT}").exists)
    return f"postgresql://postgres@/{parsed.database}?host={folder}&port={PORT}", postgres_url


def test_runs_reviews_and_streams(urls: tuple[str, str], tmp_path: Path) -> None:
    behind, direct = urls
    with Service(behind, direct_url=direct) as service:
        service.add("desk", make_desk(Journal(tmp_path / "journal"), calls=2))
        service.add("asks", make_desk(Journal(tmp_path / "asked"), calls=1, review=True))
        runs = [service.submit("desk", message="Pay.", message_id="m") for _ in range(40)]
        for run in runs:
            check_history(run.result(60)["messages"], ["m"])
        assert [part["type"] for part in runs[0].stream(timeout=60)][-1] == "end"
        service.submit("asks", thread="t", message="Pay.").result(60)
        (wait,) = service.inbox().waits()
        decided = service.decide(wait.id, "approve", by="ann")
        assert decided.result(60)["messages"][-1].text == "Paid."
        first = service.worker_id
        service.stop()
        assert service.workers() == []
        service.start()
        assert service.worker_id != first
