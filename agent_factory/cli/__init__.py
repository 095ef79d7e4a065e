"""The command `agent-factory`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import TextIOWrapper

from agent_factory.demo.interrupt import STOPPED, end_on_ctrl_c


def main() -> None:
    """Run the command line; without its extra, say what to install."""
    end_on_ctrl_c()
    _write_every_letter()
    try:
        _app()()
    except KeyboardInterrupt:
        sys.exit(STOPPED)


def _write_every_letter() -> None:
    """Where an encoding lacks a letter of a name, write its escape rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # None without an output
            stream.reconfigure(errors="backslashreplace")


def _app() -> Callable[[], None]:
    try:
        from agent_factory.cli.app import app
    except ImportError as error:
        sys.exit(f"agent-factory: {error}. Install it with: pip install 'agent-factory[cli]'")
    return app
