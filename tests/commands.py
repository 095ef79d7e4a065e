"""The command line, run in the process of a test or in another process."""

from __future__ import annotations

import os
import subprocess
import sys

from typer.testing import CliRunner, Result

from agent_factory.cli.app import app


def run(*words: str) -> Result:
    """The result of a command."""
    return CliRunner().invoke(app, list(words))


def python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The result of a process of Python, which has no input."""
    return subprocess.run(
        [sys.executable, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=100,
        check=False,
    )


def run_in_process(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The result of a command in another process."""
    return python("-m", "agent_factory.cli", *words, **environment)
