"""Processes of shells, as `pgrep` finds them, and a clock that lets their limits pass."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from zlib import crc32

import pytest

from agent_factory.middleware.shell_tool import process, session
from waiting import until


def running(pattern: str) -> bool:
    """Whether the command line of a process matches."""
    return subprocess.run(["pgrep", "-f", pattern], capture_output=True).returncode == 0


def has_ended(pattern: str) -> bool:
    """Wait until no command line of a process matches; a process that is killed takes a moment."""
    return until(lambda: not running(pattern))


class Clock:
    """Clock of the shells that jumps an hour whenever there is a file, and removes the file."""

    def __init__(self, file: Path, patches: pytest.MonkeyPatch) -> None:
        self._file, self._ahead = file, 0.0
        self.sleep = time.sleep
        for module in (process, session):
            patches.setattr(module, "time", self)

    def monotonic(self) -> float:
        if self._file.exists():
            self._file.unlink(missing_ok=True)
            self._ahead += 3600
        return time.monotonic() + self._ahead


class Slow:
    """A command that lasts longer than any limit, and the part of it that a process shows."""

    def __init__(self, folder: Path, patches: pytest.MonkeyPatch, seen_as: str = "") -> None:
        Clock(folder / "slow", patches)
        self.sleep = f"sleep 97.{crc32(str(folder).encode())}"  # by no other test
        self.command = f"touch {seen_as or folder}/slow; {self.sleep}"
