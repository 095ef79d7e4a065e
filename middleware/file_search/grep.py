"""Lines of files that match a pattern, found by ripgrep or by Python, with the same results.

Both look at the same files: regular, not reached by a link, not too large, without a NUL byte.
Hidden and ignored files count. Both see lines as ripgrep does, and give them in the order of the
paths. Both work in a process of their own that is killed when the time is up.

Where ripgrep refuses a pattern (it knows no look-around and no back-references), Python tries.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from threading import TIMEOUT_MAX, Timer
from typing import Any, Literal, Protocol

from agent_factory.middleware.file_search.grep_worker import receive, send
from agent_factory.middleware.file_search.tree import Deadline, File, Parts, Scope, Tree

Mode = Literal["files_with_matches", "content", "count"]

LONGEST_LINE = 500
"""Characters of a line that are shown."""

_SCRIPT = str(Path(__file__).with_name("grep_worker.py"))
_MOST_BYTES = 4 * LONGEST_LINE  # of a line that ripgrep prints: no fewer characters than are shown
_CHUNK = 8_192  # bytes read at a time


class SearchFailed(ValueError):
    """The search could not be made; the text says why, for the model."""


@dataclass(frozen=True, slots=True)
class Match:
    """A file with a match, and, by mode, the number and text of a line, or the count of lines."""

    parts: Parts
    number: int = 0
    line: str = ""


class Grep(Protocol):
    """A way to search."""

    def search(
        self, pattern: str, scope: Scope, mode: Mode, deadline: Deadline
    ) -> Generator[Match, None, None]:
        """The matches in files, by path and line."""


@contextmanager
def _started(
    command: list[str], deadline: Deadline, **settings: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed when the time is up, or when nobody listens any more."""
    deadline.check()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **settings
    )
    timer = Timer(min(deadline.left, TIMEOUT_MAX), process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        process.kill()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # what was still to be written is of no interest
                if stream is not None:
                    stream.close()
        process.wait()


class PythonGrep:
    """Searches with Python's regular expressions.

    Args:
        tree: What is searched.
        most_bytes: Larger files are left out.
    """

    def __init__(self, tree: Tree, most_bytes: int) -> None:
        self._tree = tree
        self._most_bytes = most_bytes

    def search(
        self, pattern: str, scope: Scope, mode: Mode, deadline: Deadline
    ) -> Generator[Match, None, None]:
        """The matches in files, by path and line.

        Raises:
            SearchFailed: The pattern is no regular expression.
            OutOfTime: It took too long.
        """
        return self.within(pattern, self._tree.walk(scope, deadline), mode, deadline)

    def within(
        self, pattern: str, files: Iterator[File], mode: Mode, deadline: Deadline
    ) -> Generator[Match, None, None]:
        """The same in given files."""
        with _matcher(pattern, deadline) as matcher:
            for file in files:
                content = text_in(self._tree, file.parts, self._most_bytes)
                count, numbers = matcher.lines(content) if content else (0, [])
                if content and count:
                    yield from _matches(file.parts, content, count, numbers, mode)


def text_in(tree: Tree, parts: Parts, most_bytes: int) -> bytes | None:
    """The content of a file, if it is text: a NUL byte makes a file binary."""
    content = tree.read(parts, most_bytes)
    return None if content is None or b"\0" in content else content


def _matches(
    parts: Parts, content: bytes, count: int, numbers: list[int], mode: Mode
) -> Iterator[Match]:
    if mode != "content":
        yield Match(parts, count)
        return
    lines = content.split(b"\n")
    for number in numbers:
        yield Match(parts, number, _shown(lines[number - 1]))


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace").removesuffix("\r")
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}..."


@dataclass(frozen=True, slots=True)
class _Matcher:
    """Asks the process which lines match."""

    process: subprocess.Popen[bytes]
    deadline: Deadline

    def ask(self, message: bytes) -> bytes:
        """Send a message and wait for the answer.

        Raises:
            OutOfTime: The process was killed.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):  # killed while it was written to
            send(self.process.stdin, message)
        answer = receive(self.process.stdout)
        if answer is None:
            self.deadline.check()
            raise SearchFailed("the search needed too much memory, or was ended from outside.")
        return answer

    def lines(self, content: bytes) -> tuple[int, list[int]]:
        """How many lines match, and the numbers of the first."""
        count, *numbers = map(int, self.ask(content).split())
        return count, numbers


@contextmanager
def _matcher(pattern: str, deadline: Deadline) -> Iterator[_Matcher]:
    if not sys.executable or getattr(sys, "frozen", False):
        raise SearchFailed("there is neither ripgrep nor a Python interpreter to search with.")
    # -I and -S: nothing of the environment, and a start in some hundredths of a second.
    command = [sys.executable, "-I", "-S", _SCRIPT]
    with _started(command, deadline, stdin=subprocess.PIPE) as process:
        matcher = _Matcher(process, deadline)
        if wrong := matcher.ask(pattern.encode()):
            raise SearchFailed(f"the pattern is no regular expression: {wrong.decode()}.")
        yield matcher


class Ripgrep:
    """Searches with ripgrep.

    Args:
        program: The path of `rg`.
        tree: What is searched.
        most_bytes: Larger files are left out.
    """

    def __init__(self, program: str, tree: Tree, most_bytes: int) -> None:
        self._program = program
        self._tree = tree
        self._most_bytes = most_bytes
        self._python = PythonGrep(tree, most_bytes)

    def search(
        self, pattern: str, scope: Scope, mode: Mode, deadline: Deadline
    ) -> Generator[Match, None, None]:
        """The matches in files, by path and line; as `PythonGrep.search`."""
        if not self._knows(pattern, deadline):
            return self._python.search(pattern, scope, mode, deadline)
        return self._found(pattern, scope, mode, deadline)

    def _knows(self, pattern: str, deadline: Deadline) -> bool:
        """Whether ripgrep is there and can read the pattern."""
        # Its exit codes: 0 and 1 for some and no matches (in nothing at all), 2 for an error.
        command = [self._program, "--no-config", "--quiet", "-e", pattern, "--", "-"]
        try:
            with _started(command, deadline, stdin=subprocess.DEVNULL) as process:
                code = process.wait()
        except OSError:  # it was there when the agent was built
            return False
        deadline.check()
        return code in (0, 1)

    def _found(
        self, pattern: str, scope: Scope, mode: Mode, deadline: Deadline
    ) -> Generator[Match, None, None]:
        folder = self._tree.root.joinpath(*scope.start)
        command = [self._program, *_options(mode, scope, self._most_bytes), "-e", pattern]
        last: tuple[Parts, bool] = (), False
        with _started(
            [*command, "--", "./"], deadline, cwd=folder, stdin=subprocess.DEVNULL
        ) as process:
            for path, said in _records(process.stdout, mode):
                parts = (*scope.start, *os.fsdecode(path).split("/")[1:])
                if last[0] != parts:
                    last = parts, self._counts(parts, scope)
                if last[1]:
                    yield _match(parts, said, mode)
            deadline.check()

    def _counts(self, parts: Parts, scope: Scope) -> bool:
        return scope.holds(parts) and text_in(self._tree, parts, self._most_bytes) is not None


_OF_MODE = {
    "files_with_matches": ["--files-with-matches"],
    "count": ["--count"],
    "content": ["--line-number", f"--max-columns={_MOST_BYTES}", "--max-columns-preview"],
}


def _options(mode: Mode, scope: Scope, most_bytes: int) -> list[str]:
    return [
        "--no-config",
        "--no-messages",  # of files that vanish or cannot be read
        "--no-ignore",
        "--hidden",
        "--no-follow",
        "--no-mmap",  # a file that shrinks while it is mapped would end the process
        "--text",  # what is binary is decided here, for both ways alike
        "--encoding=none",
        f"--max-filesize={most_bytes}",
        "--sort=path",
        "--color=never",
        "--no-heading",
        "--with-filename",
        "--null",
        "--path-separator=/",
        *_OF_MODE[mode],
        *(f"--glob={pattern}" for pattern in _simple(scope)),
    ]


def _simple(scope: Scope) -> list[str]:
    """A pattern that ripgrep surely reads as it is read here, to look into fewer files."""
    found = re.fullmatch(r"\*\*/(\*[\w.-]+)", scope.pattern, flags=re.ASCII)
    return [found[1]] if found else []


def _records(stream: Any, mode: Mode) -> Iterator[tuple[bytes, bytes]]:
    """Paths, each with what is said of it: a path ends at a NUL, the rest at a newline."""
    if mode == "files_with_matches":
        return ((path, b"") for path in _fields(stream, [b"\0"]))
    fields = _fields(stream, [b"\0", b"\n"])
    return zip(fields, fields, strict=False)


def _fields(stream: Any, ends: list[bytes]) -> Iterator[bytes]:
    buffer = b""
    for end in cycle(ends):
        while end not in buffer:
            more = stream.read1(_CHUNK)
            if not more:
                return
            buffer += more
        field, _, buffer = buffer.partition(end)
        yield field


def _match(parts: Parts, said: bytes, mode: Mode) -> Match:
    if mode != "content":
        return Match(parts, int(said or b"0"))
    number, _, line = said.partition(b":")
    return Match(parts, int(number), _shown(line))


def one_file(tree: Tree, parts: Parts) -> Iterator[File]:
    """A file on its own, as a walk would give it."""
    file = tree.file(parts)
    yield from [file] if file else []
