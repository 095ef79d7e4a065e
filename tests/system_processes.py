"""Processes of the system, as `pgrep` finds them."""

from __future__ import annotations

import subprocess

from waiting import until


def has_ended(pattern: str) -> bool:
    """True once no command line of a process matches; a process that is killed takes a moment."""

    def is_gone() -> bool:
        return subprocess.run(["pgrep", "-f", pattern], capture_output=True).returncode != 0

    return until(is_gone)
