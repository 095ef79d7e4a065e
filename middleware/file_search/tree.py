"""The files below a folder, and nothing beside them.

Links are never followed, whether to files or to folders, inside or outside: every folder is opened
from the root down, name by name, by descriptors that refuse links, so that not even a folder that
is exchanged for a link in the middle of a search leads out. Where the system has no such
descriptors (Windows), paths are compared with what they resolve to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Self

from agent_factory.middleware.file_search.globs import Glob, States

Parts = tuple[str, ...]
"""The names on the way from the root to a file or folder."""

HAS_DESCRIPTORS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd

_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINKS
# A pipe put in a file's place would otherwise wait for someone to write.
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | _NO_LINKS

_LONGEST_PATH = 4_096  # bytes; PATH_MAX of Linux


class OutOfTime(Exception):
    """The time for a search is used up."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a search must end.

    Args:
        at: A time of the monotonic clock, in seconds.
    """

    at: float

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self.at - monotonic())

    def check(self) -> None:
        """Go on if there is time.

        Raises:
            OutOfTime: There is none.
        """
        if monotonic() >= self.at:
            raise OutOfTime


@dataclass(frozen=True, slots=True)
class File:
    """A regular file: where it is, its size in bytes, when it was changed in nanoseconds."""

    parts: Parts
    size: int
    changed: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The files that are meant: those below a folder that a pattern matches.

    Args:
        pattern: The pattern.
        start: The folder.
        glob: The pattern, to match with.
        states: Where in the pattern the folder is.
    """

    pattern: str
    start: Parts
    glob: Glob
    states: States

    @classmethod
    def of(cls, pattern: str, start: Parts) -> Self:
        """A pattern relative to the folder, or one that begins with "/", relative to the root.

        Raises:
            ValueError: The pattern cannot be used.
        """
        glob = Glob(pattern)
        states = glob.start
        for name in start if pattern.startswith("/") else ():
            states = glob.step(states, name)
        return cls(pattern, start, glob, states)

    def holds(self, parts: Parts) -> bool:
        """Whether a file below the folder is meant."""
        states = self.states
        for name in parts[len(self.start) :]:
            states = self.glob.step(states, name)
        return self.glob.accepts(states)


@dataclass(frozen=True, slots=True)
class _Folder:
    parts: Parts
    states: States


def parts_of(path: str) -> Parts:
    """The names in a path whose "/" is the root.

    Raises:
        ValueError: It leads upwards, or no file can be named so.
    """
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise ValueError("'..' is not allowed in a path; paths begin at the root, '/'.")
    try:
        too_long = len(os.fsencode(path)) > _LONGEST_PATH
    except UnicodeEncodeError:
        raise ValueError("the path holds characters that are no valid text.") from None
    if too_long or "\0" in path or any(os.path.basename(part) != part for part in parts):
        raise ValueError("no file can have such a path.")
    return parts


def shown(parts: Parts) -> str:
    """A path as the model reads it; what cannot be printed is escaped, so no line is forged."""
    text = os.fsencode("/" + "/".join(parts)).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class Tree:
    """A folder, with all that is in it.

    Args:
        root: The folder.

    Raises:
        ValueError: It is none.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise ValueError(
                f"root_path must be a folder that exists, not {str(root)!r}. Create it first."
            )

    def kind(self, parts: Parts) -> str:
        """What there is: "folder", "file", "link", "other" (a pipe, a device) or "nothing"."""
        try:
            if not parts:
                return "folder"
            with self._folder(parts[:-1]) as place:
                mode = self._stat(place, parts[-1]).st_mode
        except OSError:
            return "nothing"
        kinds = ((stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"), (stat.S_ISLNK, "link"))
        return next((kind for is_kind, kind in kinds if is_kind(mode)), "other")

    def walk(self, scope: Scope, deadline: Deadline) -> Generator[File, None, None]:
        """The files that are meant, in the order of their names, folder by folder.

        What vanishes or cannot be read is left out.

        Raises:
            OutOfTime: It took too long.
        """
        todo: list[_Folder | File] = [_Folder(scope.start, scope.states)]
        while todo:
            deadline.check()
            here = todo.pop()
            if isinstance(here, File):
                yield here
                continue
            found = self._look(here, scope.glob, deadline)
            todo.extend(sorted(found, key=lambda one: os.fsencode(one.parts[-1]), reverse=True))

    def file(self, parts: Parts) -> File | None:
        """One regular file; None if there is none."""
        try:
            with self._folder(parts[:-1]) as place:
                found = self._stat(place, parts[-1])
        except OSError:
            return None
        return (
            File(parts, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None
        )

    def read(self, parts: Parts, most: int) -> bytes | None:
        """The content of a regular file; None if it has more bytes than `most`, or is gone."""
        try:
            with self._folder(parts[:-1]) as place:
                descriptor = self._open(place, parts[-1], _FILE)
            with open(descriptor, "rb") as file:
                regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
                content = file.read(most + 1) if regular else None
        except OSError:
            return None
        return content if content is not None and len(content) <= most else None

    def _look(self, here: _Folder, glob: Glob, deadline: Deadline) -> list[_Folder | File]:
        found: list[_Folder | File] = []
        try:
            with self._folder(here.parts) as place, os.scandir(place) as entries:
                for entry in entries:
                    deadline.check()
                    if states := glob.step(here.states, entry.name):
                        found.extend(_seen(here, entry, states, glob))
        except OSError:  # gone, or not to be read; what was seen before that counts
            return found
        return found

    @contextmanager
    def _folder(self, parts: Parts) -> Iterator[int | str]:
        """A folder opened from the root down: a descriptor, or its path."""
        if not HAS_DESCRIPTORS:
            yield self._path(parts)
            return
        descriptor = os.open(self.root, _FOLDER)
        try:
            for part in parts:
                inner = os.open(part, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def _path(self, parts: Parts) -> str:
        path = str(self.root.joinpath(*parts))
        if os.path.realpath(path) != path:
            raise NotADirectoryError(path)
        return path

    def _stat(self, place: int | str, name: str) -> os.stat_result:
        if isinstance(place, int):
            return os.stat(name, dir_fd=place, follow_symlinks=False)
        return os.lstat(os.path.join(place, name))

    def _open(self, place: int | str, name: str, flags: int) -> int:
        if isinstance(place, int):
            return os.open(name, flags, dir_fd=place)
        return os.open(os.path.join(place, name), flags)


def _seen(
    here: _Folder, entry: os.DirEntry[str], states: States, glob: Glob
) -> Iterator[_Folder | File]:
    parts = (*here.parts, entry.name)
    try:
        if entry.is_dir(follow_symlinks=False):
            yield _Folder(parts, states)
        elif glob.accepts(states) and entry.is_file(follow_symlinks=False):
            found = entry.stat(follow_symlinks=False)
            yield File(parts, found.st_size, found.st_mtime_ns)
    except OSError:  # it has just vanished
        return
