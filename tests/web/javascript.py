"""Scripts of Node in this folder: `node SCRIPT URL CASE`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent


def cases(script: str) -> list[str]:
    """The names of a script's cases."""
    return re.findall(r"^  async (\w+)\(\) {$", (FOLDER / script).read_text(), re.MULTILINE)


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script; an assertion that fails has what the script wrote to stderr."""
    done = subprocess.run(
        ["node", FOLDER / script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
