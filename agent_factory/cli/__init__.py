"""The command `agent-factory`."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from io import TextIOWrapper

from agent_factory.demo.interrupt import STOPPED, end_on_ctrl_c, left_to_child
from agent_factory.errors import MissingExtra, require


def main() -> None:
    """Run the command line; without the extra `cli`, say what to install."""
    # Without a fork, as on Windows, a module ends the check when ending its process.
    if sys.argv[1:2] == ["check"] and hasattr(os, "fork"):
        _run_in_child()
    else:
        _run()


def _run() -> None:
    end_on_ctrl_c()
    for stream in (sys.stdout, sys.stderr):
        # Letters outside of the encoding are printed as escapes. Without an output, it is None.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            require("cli", "The command line")
        except MissingExtra as error:
            sys.exit(f"agent-factory: {error}")
        from agent_factory.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(STOPPED)


def _run_in_child() -> None:
    """Run the command in a forked process, and fail if the process ends first.

    A checked module can call `os._exit(0)`, which CI would take for a success.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        # 1 if the command ends in any other way than by SystemExit.
        code: object = 1
        try:
            _run()
        except SystemExit as ended:
            code = ended.code
            raise
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(AttributeError, OSError, ValueError):  # None, or closed
                    stream.flush()
            # As the interpreter does: an int is the exit code, None is 0, and anything else is 1.
            os.write(writing, bytes([code & 0xFF if isinstance(code, int) else code is not None]))
    else:
        os.close(writing)
        os.set_blocking(reading, False)  # a process started by the module may keep the pipe open
        # A supervisor knows only the parent, and the child has to end together with the parent.
        signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
        with left_to_child():
            _, status = os.waitpid(child, 0)
        # Nothing was written if the module has ended the process itself.
        with suppress(BlockingIOError):
            if code := os.read(reading, 1):
                sys.exit(code[0])
        result = os.waitstatus_to_exitcode(status)
        if result == STOPPED:  # a second Ctrl-C ends the child at once
            sys.exit(STOPPED)
        how = f"exit code {result}" if result >= 0 else f"signal {-result}"
        print(
            f"agent-factory: the check did not finish: the checked code ended its process with "
            f"{how}, as os._exit() does.",
            file=sys.stderr,
        )
        sys.exit(2)
