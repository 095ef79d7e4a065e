"""Files below a folder and within a glob pattern, and nothing outside the folder.

Patterns are matched name by name: `*`, `?` and `[...]` match within one name, `**` matches any
number of folders, and `{a,b}` matches either. Matching takes time proportional to the path,
whatever the pattern, as a model may write it (wcmatch needs seconds for ten `**` and one path).

Links are never followed. Every folder is opened from the root down, name by name, with descriptors
that reject links, so a folder replaced by a link during a search does not lead outside. On systems
without such descriptors (Windows), paths are compared with their resolved form.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import translate
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import NamedTuple

Parts = tuple[str, ...]  # the names in a path, from the root to a file or folder
States = frozenset[int]  # positions reached in a pattern; empty: no match is possible

# Windows opens no files relative to a folder.
HAS_DESCRIPTORS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd

_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINKS
# O_NONBLOCK: opening a pipe in place of a file would otherwise wait for a writer.
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | _NO_LINKS

_MAX_PATH = 4_096  # bytes; PATH_MAX of Linux
_MAX_ALTERNATIVES = 64  # patterns that braces may stand for
_MAX_LENGTH = 1_000  # characters of a pattern
_INNERMOST_BRACES = re.compile(r"\{([^{}]*)\}")
_SINGLE_BRACE = re.compile(r"(?:\[[^\]]*\]|[^{}])*+([{}])")
_END = re.compile(r"(?!)")  # matches nothing: no name follows the end of a pattern

_KINDS = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link"}


class OutOfTime(Exception):
    """The time for a search is up."""


class Deadline(NamedTuple):
    """Time at which a search must end, in seconds of the monotonic clock."""

    at: float

    @property
    def left(self) -> float:
        """Remaining seconds, at least 0."""
        return max(0.0, self.at - monotonic())

    def check(self) -> None:
        """Raise OutOfTime if the time is up."""
        if monotonic() >= self.at:
            raise OutOfTime


class File(NamedTuple):
    """Regular file: the path, and the modification time in nanoseconds."""

    parts: Parts
    changed: int


# A file, or a folder before a walk enters it, with the states of its path.
_Entry = File | tuple[Parts, States]


def parse_path(path: str) -> Parts:
    """Return the names in a path in which "/" is the root; ValueError for an impossible path."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise ValueError("'..' is not allowed in a path; paths begin at the root, '/'.")
    try:
        too_long = len(os.fsencode(path)) > _MAX_PATH
    except UnicodeEncodeError:
        raise ValueError("the path contains characters that are not valid text.") from None
    if too_long or "\0" in path or any(os.path.basename(part) != part for part in parts):
        raise ValueError("no file can have such a path.")
    return parts


def format_path(parts: Parts) -> str:
    """Return a path as the model reads it."""
    # Unprintable characters are escaped, so that a file name cannot forge a line of a result.
    text = os.fsencode("/" + "/".join(parts)).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class Scope:
    """Files below the folder `start` within a glob pattern; ValueError for an invalid pattern.

    The pattern is relative to the folder, or to the root if it begins with "/".
    """

    def __init__(self, pattern: str, start: Parts = ()) -> None:
        if len(pattern) > _MAX_LENGTH:
            raise ValueError(f"the glob pattern has more than {_MAX_LENGTH} characters.")
        self.pattern, self.start = pattern, start
        # The parts of all alternatives in a row. None stands for `**`.
        self._parts: list[re.Pattern[str] | None] = []
        self._ends: set[int] = set()
        positions: list[int] = []
        for alternative in _expand_braces(pattern):
            positions.append(len(self._parts))
            names = [name for name in alternative.split("/") if name not in ("", ".")]
            if ".." in names:
                raise ValueError(
                    "'..' is not allowed in a glob pattern; give the folder to search as path."
                )
            # The expressions of fnmatch use atomic groups, so they do not backtrack.
            self._parts += [None if n == "**" else re.compile(translate(n)) for n in names]
            self._ends.add(len(self._parts))
            self._parts.append(_END)
        self.states = self._skip_double_stars(positions)
        for name in start if pattern.startswith("/") else ():
            self.states = self.step(self.states, name)

    def step(self, states: States, name: str) -> States:
        """Return the states after another name."""
        positions = []
        for position in states:
            part = self._parts[position]
            if part is None:
                positions.append(position)
            elif part.match(name):
                positions.append(position + 1)
        return self._skip_double_stars(positions)

    def accepts(self, states: States) -> bool:
        """Return whether a path with these states at its end matches."""
        return not self._ends.isdisjoint(states)

    def contains(self, parts: Parts) -> bool:
        """Return whether a file below the folder matches."""
        states = self.states
        for name in parts[len(self.start) :]:
            states = self.step(states, name)
        return self.accepts(states)

    def _skip_double_stars(self, positions: Iterable[int]) -> States:
        """Add the positions after each `**`, which may stand for no folder at all."""
        reachable = set()
        for position in positions:
            while position not in reachable:
                reachable.add(position)
                if self._parts[position] is None:
                    position += 1
        return frozenset(reachable)


def _expand_braces(pattern: str) -> list[str]:
    patterns: list[str] = []
    todo = [pattern]
    while todo:
        alternative = todo.pop()
        braces = _INNERMOST_BRACES.search(alternative)
        if braces is None:
            if single := _SINGLE_BRACE.match(alternative):
                brace = single[1]
                raise ValueError(f"the brace {brace!r} of the pattern is single; write [{brace}].")
            patterns.append(alternative)
        else:
            before, after = alternative[: braces.start()], alternative[braces.end() :]
            todo += [f"{before}{choice}{after}" for choice in braces[1].split(",")]
        # Each pair of braces multiplies the patterns.
        if len(patterns) + len(todo) > _MAX_ALTERNATIVES:
            raise ValueError(
                f"the braces of the glob pattern stand for more than {_MAX_ALTERNATIVES} patterns."
            )
    return patterns


class Tree:
    """Folder with everything in it."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._path = Path(root)

    @cached_property
    def root(self) -> Path:
        """The absolute path of the folder. Links on the way are followed here, once."""
        root = self._path.resolve()
        if not root.is_dir():
            raise ValueError(
                f"root_path must be an existing folder, got {str(self._path)!r}. Create it first."
            )
        return root

    def kind(self, parts: Parts) -> str:
        """Return "folder", "file", "link", "other" (a pipe, a device) or "nothing"."""
        if not parts:
            return "folder"
        try:
            with self._open_parent(parts) as (name, dir_fd):
                mode = os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode
        except OSError:
            return "nothing"
        return _KINDS.get(stat.S_IFMT(mode), "other")

    def walk(self, scope: Scope, deadline: Deadline) -> Generator[File, None, None]:
        """Yield the readable files in a scope, in the order of their paths."""
        todo: list[_Entry] = [(scope.start, scope.states)]
        while todo:
            deadline.check()
            current = todo.pop()
            if isinstance(current, File):
                yield current
                continue
            folder, states = current
            entries: dict[str, _Entry] = {}
            # The folder may be gone or unreadable; the entries found so far count.
            with (
                suppress(OSError),
                self._open_folder(folder) as descriptor,
                os.scandir(descriptor) as scan,
            ):
                for entry in scan:
                    deadline.check()
                    after = scope.step(states, entry.name)
                    if not after:
                        continue
                    path = (*folder, entry.name)
                    with suppress(OSError):  # the entry has just vanished
                        if entry.is_dir(follow_symlinks=False):
                            entries[entry.name] = (path, after)
                        elif scope.accepts(after) and entry.is_file(follow_symlinks=False):
                            changed = entry.stat(follow_symlinks=False).st_mtime_ns
                            entries[entry.name] = File(path, changed)
            # Reversed, because the walk continues at the end of the list.
            todo += [entries[name] for name in sorted(entries, key=os.fsencode, reverse=True)]

    def read(self, parts: Parts, max_bytes: int) -> bytes | None:
        """Return the content of a text file; None if it is missing, too large or has a NUL byte."""
        try:
            with self._open_parent(parts) as (name, dir_fd):
                descriptor = os.open(name, _FILE, dir_fd=dir_fd)
            with open(descriptor, "rb") as file:
                # Of the open file: the path may lead to another file by now.
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return None
                # A byte more shows that a file is too large, without reading all of it.
                content = file.read(max_bytes + 1)
        except OSError:
            return None
        return None if len(content) > max_bytes or b"\0" in content else content

    @contextmanager
    def _open_folder(self, parts: Parts) -> Iterator[int | str]:
        """Open a folder from the root down: its descriptor, or its path without descriptors."""
        if not HAS_DESCRIPTORS:
            path = str(self.root.joinpath(*parts))
            # Nothing else keeps such a system from following a link.
            if os.path.realpath(path) != path:
                raise NotADirectoryError(path)
            yield path
            return
        descriptor = os.open(self.root, _FOLDER)
        try:
            for part in parts:
                # Opened before the outer folder is closed: if it fails, `finally` closes that.
                inner = os.open(part, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _open_parent(self, parts: Parts) -> Iterator[tuple[str, int | None]]:
        """Open the folder of a file: the file's name and `dir_fd`, or its path and None."""
        with self._open_folder(parts[:-1]) as folder:
            if isinstance(folder, int):
                yield parts[-1], folder
            else:
                yield os.path.join(folder, parts[-1]), None
