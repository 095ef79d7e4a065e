"""Files below a folder, and nothing outside it.

Links are never followed, whether they lead to files or folders, inside or outside. Every folder is
opened from the root down, name by name, with descriptors that reject links. So even a folder that
is replaced by a link during a search does not lead outside. On systems without such descriptors
(Windows), paths are compared with what they resolve to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from agent_factory.middleware.file_search.globs import Parts, Scope, States

HAS_DESCRIPTORS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd

_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINKS
# O_NONBLOCK: opening a pipe that replaced a file would otherwise wait for a writer.
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | _NO_LINKS

_MAX_PATH = 4_096  # bytes; PATH_MAX of Linux


class OutOfTime(Exception):
    """The time for a search is up."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """Time at which a search must end."""

    at: float  # seconds of the monotonic clock

    @property
    def left(self) -> float:
        """Remaining seconds, at least 0."""
        return max(0.0, self.at - monotonic())

    def check(self) -> None:
        """Do nothing while there is time.

        Raises:
            OutOfTime: The time is up.
        """
        if monotonic() >= self.at:
            raise OutOfTime


@dataclass(frozen=True, slots=True)
class File:
    """Regular file: its path, and its modification time in nanoseconds."""

    parts: Parts
    changed: int


# A file, or a folder that a walk has not entered yet, with the states of its path.
_Entry = File | tuple[Parts, States]


def parse_path(path: str) -> Parts:
    """Return the names in a path in which "/" is the root.

    Raises:
        ValueError: The path contains "..", or no file can have it.
    """
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
    """Return a path as the model reads it.

    Unprintable characters are escaped, so that a file name cannot forge a line of a result.
    """
    text = os.fsencode("/" + "/".join(parts)).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class Tree:
    """Folder with everything in it.

    Raises:
        ValueError: It is not a folder.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise ValueError(
                f"root_path must be an existing folder, got {str(root)!r}. Create it first."
            )

    def kind(self, parts: Parts) -> str:
        """Return "folder", "file", "link", "other" (a pipe, a device) or "nothing"."""
        if not parts:
            return "folder"
        try:
            with self._open_parent(parts) as (name, dir_fd):
                mode = os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode
        except OSError:
            return "nothing"
        if stat.S_ISDIR(mode):
            return "folder"
        if stat.S_ISREG(mode):
            return "file"
        return "link" if stat.S_ISLNK(mode) else "other"

    def walk(self, scope: Scope, deadline: Deadline) -> Generator[File, None, None]:
        """Yield the files in a scope, in the order of their paths.

        Files and folders that vanish or cannot be read are left out.

        Raises:
            OutOfTime: The time is up.
        """
        todo: list[_Entry] = [(scope.start, scope.states)]
        while todo:
            deadline.check()
            current = todo.pop()
            if isinstance(current, File):
                yield current
                continue
            found: dict[str, _Entry] = {}
            with suppress(OSError):  # gone, or unreadable; the entries found so far count
                for name, entry in self._scan(*current, scope, deadline):
                    found[name] = entry
            todo += [found[name] for name in sorted(found, key=os.fsencode, reverse=True)]

    def _scan(
        self, parts: Parts, states: States, scope: Scope, deadline: Deadline
    ) -> Iterator[tuple[str, _Entry]]:
        """Yield the entries of a folder, by name: files in the scope, and folders to enter."""
        with self._open_folder(parts) as folder, os.scandir(folder) as entries:
            for entry in entries:
                deadline.check()
                if not (after := scope.step(states, entry.name)):
                    continue
                path = (*parts, entry.name)
                with suppress(OSError):  # the entry has just vanished
                    if entry.is_dir(follow_symlinks=False):
                        yield entry.name, (path, after)
                    elif scope.accepts(after) and entry.is_file(follow_symlinks=False):
                        changed = entry.stat(follow_symlinks=False).st_mtime_ns
                        yield entry.name, File(path, changed)

    def read(self, parts: Parts, max_bytes: int) -> bytes | None:
        """Return the content of a regular file; None if it is missing or larger than allowed."""
        try:
            with self._open_parent(parts) as (name, dir_fd):
                descriptor = os.open(name, _FILE, dir_fd=dir_fd)
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return None
                content = file.read(max_bytes + 1)
        except OSError:
            return None
        return content if len(content) <= max_bytes else None

    @contextmanager
    def _open_folder(self, parts: Parts) -> Iterator[int | str]:
        """Open a folder from the root down: its descriptor, or its path without descriptors."""
        if not HAS_DESCRIPTORS:
            path = str(self.root.joinpath(*parts))
            if os.path.realpath(path) != path:
                raise NotADirectoryError(path)
            yield path
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

    @contextmanager
    def _open_parent(self, parts: Parts) -> Iterator[tuple[str, int | None]]:
        """Open the folder of a file: the file's name and `dir_fd`, or its path and None."""
        with self._open_folder(parts[:-1]) as folder:
            if isinstance(folder, int):
                yield parts[-1], folder
            else:
                yield os.path.join(folder, parts[-1]), None
