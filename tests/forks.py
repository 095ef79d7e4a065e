"""Processes forked from a process that has loaded the library: they begin at once."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.reduction import DupFd
from typing import IO, Any

_CONTEXT = get_context("forkserver")
_ENGINES = [f"agent_factory.service.engines.{name}" for name in ("restate", "temporal")]
_CONTEXT.set_forkserver_preload(
    ["agent_factory.testing", "agent_factory.service.worker", *_ENGINES]
)


class Fork:
    """A process as of `python -m MODULE ARGUMENTS...`, with methods of `subprocess.Popen`.

    Args:
        words: The module and its arguments.
        stderr: The file for its errors; by default that of this process.
    """

    stderr = None

    def __init__(self, words: Sequence[str], stderr: IO[Any] | None = None) -> None:
        (stdin, stdin_of), (stdout_of, stdout) = os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(stdin_of, "w"), os.fdopen(stdout_of)
        files = _Files(stdin, stdout, stderr.fileno() if stderr else 2)
        # A daemon ends with this process.
        self._process = _CONTEXT.Process(target=_run, args=(words, files), daemon=True)
        self._process.start()
        self.pid, self.kill = int(self._process.pid or 0), self._process.kill
        os.close(stdin)
        os.close(stdout)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> None:
        self._process.join(timeout)


class _Files:
    """Standard input, output and errors, on their way to a process."""

    def __init__(self, *files: Any) -> None:
        self.files = files

    def __reduce__(self) -> Any:
        return _Files, (*map(DupFd, self.files),)


def _run(words: Sequence[str], files: _Files) -> None:
    for number, file in enumerate(files.files):
        os.dup2(file.detach(), number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", 1)
    sys.argv = [*words]
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)
