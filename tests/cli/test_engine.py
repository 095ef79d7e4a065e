"""`agent-factory engine`: the command of a server, with a program that prints its arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    """The command, with the programs of a folder."""
    command = [sys.executable, "-m", "agent_factory.cli", "engine", *arguments]
    environment = {**os.environ, "PATH": f"{path}:/usr/bin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "program", "expected"),
    [
        ("temporal", "temporal", "server start-dev --ip 127.0.0.1 --port 7000 --db-filename"),
        ("restate", "restate-server", "--node-name development 127.0.0.1:7000"),
    ],
)
def test_a_server_for_development(tmp_path: Path, name: str, program: str, expected: str) -> None:
    script = tmp_path / program
    script.write_text('#!/bin/sh\necho "$@" $RESTATE_INGRESS__BIND_ADDRESS\n')
    script.chmod(0o755)
    done = run(name, "--port", "7000", "--data", str(tmp_path / "data"), path=tmp_path)
    first, second = done.stdout.splitlines()
    assert f"--engine {name}://127.0.0.1:7000" in first
    assert second.startswith(expected)
    assert ("--search-attribute=AgentFactoryThread=Keyword" in second) == (name == "temporal")


def test_a_program_that_is_missing(tmp_path: Path) -> None:
    done = run("restate", "--data", str(tmp_path / "data"), path=tmp_path)
    assert done.returncode == 2
    assert "npm install --global @restatedev/restate-server" in done.stderr
