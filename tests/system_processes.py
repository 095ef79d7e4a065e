"""Processes of the system, as `pgrep` finds them."""

from __future__ import annotations

import subprocess
import time


def has_ended(pattern: str, seconds: float = 10.0) -> bool:
    """Whether no command line of a process matches; a process that is killed takes a moment."""
    end = time.monotonic() + seconds
    while subprocess.run(["pgrep", "-f", pattern], capture_output=True).returncode == 0:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
