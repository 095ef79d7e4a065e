"""Search for lines in files, with ripgrep or with Python's `re`, with the same results.

Both search regular files, hidden and ignored ones too, in a process that is killed in time.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from threading import TIMEOUT_MAX, Timer
from typing import Any, Literal, NamedTuple

from .tree import Deadline, Parts, Scope, Tree

Mode = Literal["files_with_matches", "content", "count"]

MAX_LINE = 500  # characters of a line that are shown
_WORKER = str(Path(__file__).with_name("grep_worker.py"))
_MAX_LINE_BYTES = 4 * MAX_LINE  # a character has at most four bytes in UTF-8
_CHUNK = 8_192  # bytes read at a time

_RIPGREP_OPTIONS = (
    "--no-config",
    "--no-messages",  # about files that vanish or cannot be read
    "--no-ignore",
    "--hidden",
    "--no-follow",
    "--no-mmap",  # a mapped file that shrinks would end the process
    "--text",  # this module decides what is binary, for ripgrep and Python alike
    "--encoding=none",
    "--sort=path",
    "--color=never",
    "--no-heading",
    "--with-filename",
    "--null",
    "--path-separator=/",
)
_RIPGREP_MODES = {
    "files_with_matches": ("--files-with-matches",),
    "count": ("--count",),
    "content": ("--line-number", f"--max-columns={_MAX_LINE_BYTES}", "--max-columns-preview"),
}


class Match(NamedTuple):
    """File with a match and, depending on the mode, a line number and line, or a line count."""

    parts: Parts
    number: int = 0
    line: str = ""


class Grep:
    """Search with the program `ripgrep`; without it, or for look-around and the like, with `re`."""

    def __init__(self, tree: Tree, max_bytes: int, *, use_ripgrep: bool) -> None:
        self._tree, self._max_bytes, self._use_ripgrep = tree, max_bytes, use_ripgrep

    @cached_property
    def ripgrep(self) -> str | None:
        """The program, if wanted and on the PATH at the first read."""
        program = shutil.which("rg") if self._use_ripgrep else None
        # An absolute path: rg is started in the folder, which may contain another `rg`.
        return program and os.path.abspath(program)

    def search(
        self, pattern: str, scope: Scope, mode: Mode, deadline: Deadline
    ) -> Generator[Match, None, None]:
        """Return the matches in a scope, in the order of paths and lines."""
        if self.ripgrep:
            # Search nothing to learn whether ripgrep supports the pattern. Exit code 2 is an error.
            command = [self.ripgrep, "--no-config", "--quiet", "-e", pattern, "--", "-"]
            try:
                with _start_process(command, deadline, stdin=subprocess.DEVNULL) as process:
                    code = process.wait()
            except OSError:  # removed after the agent was built
                code = 2
            deadline.check()
            if code in (0, 1):
                return self._run_ripgrep(self.ripgrep, pattern, scope, mode, deadline)
        files = (file.parts for file in self._tree.walk(scope, deadline))
        return self.search_files(pattern, files, mode, deadline)

    def search_files(
        self, pattern: str, files: Iterable[Parts], mode: Mode, deadline: Deadline
    ) -> Generator[Match, None, None]:
        """Yield the matches in the given files, found by `re`."""
        # In a frozen program, `sys.executable` is the program and not an interpreter.
        if not sys.executable or getattr(sys, "frozen", False):
            raise ValueError("there is neither ripgrep nor a Python interpreter to search with.")
        # -I and -S ignore the environment and site-packages, and save time at the start.
        command = [sys.executable, "-I", "-S", _WORKER]
        with _start_process(command, deadline, stdin=subprocess.PIPE) as process:
            if error := _ask(process, pattern, deadline):
                raise ValueError(f"the pattern is not a regular expression: {error}.")
            for parts in files:
                content = self._tree.read(parts, self._max_bytes)
                if not content:
                    continue
                count, numbers = _ask(process, content, deadline)
                if count and mode != "content":
                    yield Match(parts, count)
                elif count:
                    lines = content.split(b"\n")
                    for number in numbers:
                        yield Match(parts, number, _format_line(lines[number - 1]))

    def _run_ripgrep(
        self, program: str, pattern: str, scope: Scope, mode: Mode, deadline: Deadline
    ) -> Generator[Match, None, None]:
        command = [program, *_RIPGREP_OPTIONS, *_RIPGREP_MODES[mode]]
        command.append(f"--max-filesize={self._max_bytes}")
        # A pattern with the same meaning for ripgrep saves it from reading other files.
        if simple := re.fullmatch(r"\*\*/(\*[\w.-]+)", scope.pattern, flags=re.ASCII):
            command.append(f"--glob={simple[1]}")
        command += ("-e", pattern, "--", "./")
        folder = self._tree.root.joinpath(*scope.start)
        # A record is a path up to a NUL and, in other modes, a text up to a newline.
        ends = [b"\0"] if mode == "files_with_matches" else [b"\0", b"\n"]
        previous: Parts = ()
        is_in_scope = False
        with _start_process(command, deadline, cwd=folder, stdin=subprocess.DEVNULL) as process:
            for path, *rest in _read_records(process.stdout, ends):
                # ripgrep puts "./" before each path.
                parts = (*scope.start, *os.fsdecode(path).split("/")[1:])
                if previous != parts:
                    previous = parts
                    is_in_scope = (
                        scope.contains(parts)
                        and self._tree.read(parts, self._max_bytes) is not None
                    )
                if is_in_scope and mode == "content":
                    number, _, line = rest[0].partition(b":")
                    yield Match(parts, int(number), _format_line(line))
                elif is_in_scope:
                    yield Match(parts, int(rest[0]) if rest else 0)
            # A process killed in time only ends its output early.
            deadline.check()


@contextmanager
def _start_process(
    command: list[str], deadline: Deadline, **settings: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that is killed when the time is up or the context ends."""
    deadline.check()
    # Nobody reads errors, and a full pipe of errors would block the process.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **settings
    )
    # `Timer` raises OverflowError for a longer wait.
    timer = Timer(min(deadline.left, TIMEOUT_MAX), process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        process.kill()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # unwritten input does not matter any more
                if stream is not None:
                    stream.close()
        # Reaps the process, which would stay as a zombie.
        process.wait()


def _ask(process: subprocess.Popen[bytes], message: object, deadline: Deadline) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(OSError):  # killed during the write
            pickle.dump(message, process.stdin)
            process.stdin.flush()
        return pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError):
        deadline.check()
        raise ValueError("the search needed too much memory, or was ended from outside.") from None


def _format_line(line: bytes) -> str:
    text = line.decode("utf-8", "replace").removesuffix("\r")
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}..."


def _read_records(stream: Any, ends: list[bytes]) -> Iterator[list[bytes]]:
    """Split a stream into records, whose fields end at the given bytes, in this order."""
    buffer = b""
    while True:
        record = []
        for end in ends:
            while end not in buffer:
                more = stream.read1(_CHUNK)
                if not more:
                    return
                buffer += more
            field, _, buffer = buffer.partition(end)
            record.append(field)
        yield record
