"""The command `agent-factory`."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from agent_factory.demo.interrupt import STOPPED, end_on_ctrl_c


def main() -> None:
    """Run the command line; without the extra `cli`, say what to install."""
    end_on_ctrl_c()
    for stream in (sys.stdout, sys.stderr):
        # A letter that the encoding lacks is printed as its escape. Without an output it is None.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            from agent_factory.cli.app import app
        except ImportError as error:
            sys.exit(f"agent-factory: {error}. Install it with: pip install 'agent-factory[cli]'")
        app()
    except KeyboardInterrupt:
        sys.exit(STOPPED)
