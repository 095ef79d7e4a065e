"""Two tools that find files by name and by content, in one folder and never outside of it.

The middleware has no hooks and no layers: it brings its tools and the folder they may read. What
the model writes is a pattern or a path below a root of its own, "/"; it can't name anything else.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from heapq import nsmallest
from itertools import islice
from time import monotonic
from typing import Any, Generic, TypeVar

from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, Field

from agent_factory import AgentMiddleware, AgentState
from agent_factory.middleware._shared.validation import check_number
from agent_factory.middleware.file_search.grep import (
    Grep,
    Match,
    Mode,
    PythonGrep,
    Ripgrep,
    one_file,
)
from agent_factory.middleware.file_search.tree import (
    Deadline,
    OutOfTime,
    Parts,
    Scope,
    Tree,
    parts_of,
    shown,
)

__all__ = ["FilesystemFileSearchMiddleware"]

MOST_RESULTS = 200
"""Lines in one result: with long lines some 25,000 tokens, usually a tenth of that."""

_LONGEST_PATTERN = 1_000  # characters of a regular expression

_GLOB = """\
Find files by their paths. Returns paths, the most recently changed first. In a pattern * and ? \
stand for characters of a name, ** for any number of folders, {a,b} for either: "*.py" finds files \
directly in `path`, "**/*.py" in all folders below. Links are not followed."""

_GREP = """\
Find lines in files that match a regular expression, in all text files below `path`, hidden ones \
included. Returns the paths of files with a match (files_with_matches), each matching line as \
path:line:text (content), or the number of matching lines as path:number (count), by path."""

T = TypeVar("T")


class GlobArguments(BaseModel):
    """What `glob_search` is called with."""

    pattern: str = Field(description='A glob pattern, such as "**/*.py" or "src/*.{ts,tsx}".')
    path: str = Field("/", description="The folder to search; / is the root.")


class GrepArguments(BaseModel):
    """What `grep_search` is called with."""

    pattern: str = Field(description="A regular expression; each line is matched on its own.")
    path: str = Field("/", description="The folder or file to search; / is the root.")
    include: str | None = Field(
        None, description='Only files whose path matches this glob, such as "*.py".'
    )
    output_mode: Mode = Field("files_with_matches", description="What to return.")


class FilesystemFileSearchMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Gives the model `glob_search` and `grep_search` over the files of one folder.

    Paths begin at the folder, which is "/" for the model. `..` is refused, `~` is a name like any
    other, and links are never followed, not even those that stay inside. Pipes, devices, sockets,
    binary files (with a NUL byte) and files that are too large are left out. Whatever arguments a
    model writes, it gets a text: what is wrong comes as a result with status "error".

    Results are limited to 200 lines, of 500 characters each, and say so where there would be
    more. `glob_search` gives the most recently changed files first, by path where times are
    equal; `grep_search` gives matches by path and line.

    `grep_search` uses ripgrep, or else Python's `re`, in a process that is killed when the time
    is up, so that a pattern can't backtrack forever. Both find the same, but for finer points of
    their languages; a pattern that ripgrep cannot read is given to Python. Python opens every
    file by descriptors that refuse links. ripgrep opens by path: if someone who may write in the
    folder swaps folders for links while it searches, it may read what it should not. Set
    `use_ripgrep=False` where that is to be feared. A hard link to a file outside is a file inside.

    Args:
        root_path: The folder; links in this path itself are followed, once, now.
        use_ripgrep: Use `rg` if it is on the PATH of this process now.
        max_file_size_mb: Larger files are not searched for content, in megabytes of 2**20 bytes.
        timeout: The longest a search may take, in seconds; what was found until then is given.
        tool_prefix: Put before the names of both tools, to tell the tools of two folders apart:
            "docs_" makes "docs_glob_search".
        name: Tells several instances apart.

    Raises:
        ValueError: `root_path` is no folder, a number makes no sense, or the prefix could not
            begin the name of a tool.
        TypeError: `root_path` is no path, or `use_ripgrep` no bool.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> search = FilesystemFileSearchMiddleware(root_path=folder.name)
    >>> [tool.name for tool in search.tools]
    ['glob_search', 'grep_search']
    >>> search.tools[0].invoke({"pattern": "**/*.py"})
    'No files found.'
    >>> folder.cleanup()
    """

    def __init__(
        self,
        *,
        root_path: str | os.PathLike[str],
        use_ripgrep: bool = True,
        max_file_size_mb: float = 10,
        timeout: float = 10.0,
        tool_prefix: str = "",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if not isinstance(root_path, str | os.PathLike):
            raise TypeError(f"root_path must be the path of a folder, not {root_path!r}.")
        if not isinstance(tool_prefix, str) or not re.fullmatch(
            r"[A-Za-z0-9_-]{0,40}", tool_prefix
        ):
            raise ValueError(
                "tool_prefix must be at most 40 letters, digits, '_' and '-', as providers allow "
                f"them in the names of tools, not {tool_prefix!r}."
            )
        if not isinstance(use_ripgrep, bool):
            raise TypeError(f"use_ripgrep must be True or False, not {use_ripgrep!r}.")
        _check_positive("max_file_size_mb", max_file_size_mb, "megabytes")
        _check_positive("timeout", timeout, "seconds")
        self.use_ripgrep = use_ripgrep
        self.max_file_size_mb = max_file_size_mb
        self.timeout = timeout
        self._tree = Tree(root_path)
        self.root_path = self._tree.root
        self._python = PythonGrep(self._tree, int(max_file_size_mb * 2**20))
        self._grep = self._chosen_grep()
        self.tools = [
            _tool(f"{tool_prefix}glob_search", self._glob_search, _GLOB, GlobArguments),
            _tool(f"{tool_prefix}grep_search", self._grep_search, _GREP, GrepArguments),
        ]

    def _chosen_grep(self) -> Grep:
        found = shutil.which("rg") if self.use_ripgrep else None
        if found is None:
            return self._python
        # Absolute: it is started in the folder, where another `rg` might lie.
        program = os.path.abspath(found)
        return Ripgrep(program, self._tree, int(self.max_file_size_mb * 2**20))

    def _glob_search(self, pattern: str, path: str = "/") -> str:
        start = self._place(path, ("folder",))
        scope = Scope.of(pattern, start)
        files = _Counted(self._tree.walk(scope, self._deadline()))
        newest = nsmallest(MOST_RESULTS, files, key=lambda file: (-file.changed, file.parts))
        notices = [f"{MOST_RESULTS} of {files.count} files are shown."] * (
            files.count > MOST_RESULTS
        )
        lines = [shown(file.parts) for file in newest]
        return self._told(lines, "No files found.", notices, late=files.late)

    def _grep_search(
        self,
        pattern: str,
        path: str = "/",
        include: str | None = None,
        output_mode: Mode = "files_with_matches",
    ) -> str:
        _check_pattern(pattern)
        start = self._place(path, ("folder", "file"))
        matches = _Counted(self._matches(pattern, start, include, output_mode))
        with closing(matches):
            found = list(islice(matches, MOST_RESULTS + 1))
        more = len(found) > MOST_RESULTS
        notices = [f"Only the first {MOST_RESULTS} results are shown."] * more
        lines = [_line(match, output_mode) for match in found[:MOST_RESULTS]]
        return self._told(lines, "No matches found.", notices, late=matches.late)

    def _matches(
        self, pattern: str, start: Parts, include: str | None, mode: Mode
    ) -> Generator[Match, None, None]:
        deadline = self._deadline()
        if self._tree.kind(start) == "file":
            return self._python.within(pattern, one_file(self._tree, start), mode, deadline)
        glob = include or "*"
        scope = Scope.of(glob if "/" in glob else f"**/{glob}", start)
        return self._grep.search(pattern, scope, mode, deadline)

    def _deadline(self) -> Deadline:
        return Deadline(monotonic() + self.timeout)

    def _place(self, path: str, kinds: tuple[str, ...]) -> Parts:
        """The parts of a path that is there.

        Raises:
            ValueError: It is not, or is of another kind.
        """
        parts = parts_of(path)
        kind = self._tree.kind(parts)
        if kind == "link":
            raise ValueError(f"{shown(parts)} is a link, and links are not followed.")
        if kind not in kinds:
            raise ValueError(f"there is no {' or '.join(kinds)} {shown(parts)}.")
        return parts

    def _told(self, lines: list[str], nothing: str, notices: list[str], *, late: bool) -> str:
        if late:
            notices = [*notices, f"The search was stopped after {self.timeout:g} seconds."]
        hint = [f"[{' '.join(notices)} Narrow the pattern or the path.]"] if notices else []
        return "\n".join([*(lines or [nothing]), *hint])


class _Counted(Generic[T]):
    """Passes things on, counts them, and ends instead of raising when the time is up."""

    def __init__(self, things: Generator[T, None, None]) -> None:
        self.count = 0
        self.late = False
        self._things = things

    def close(self) -> None:
        """Nothing more is wanted: end the process that searches."""
        self._things.close()

    def __iter__(self) -> Iterator[T]:
        try:
            for thing in self._things:
                self.count += 1
                yield thing
        except OutOfTime:
            self.late = True


def _check_positive(name: str, value: Any, unit: str) -> None:
    check_number(name, value, unit=unit)
    if not value:
        raise ValueError(f"{name} must be a number of {unit} above 0, not {value!r}.")


def _check_pattern(pattern: str) -> None:
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise ValueError("the pattern holds characters that are no valid text.") from None
    if "\0" in pattern:
        raise ValueError("the pattern holds a NUL character, and no text file does.")
    if len(pattern) > _LONGEST_PATTERN:
        raise ValueError(f"the pattern has more than {_LONGEST_PATTERN} characters.")


def _line(match: Match, mode: Mode) -> str:
    path = shown(match.parts)
    if mode == "content":
        return f"{path}:{match.number}:{match.line}"
    return f"{path}:{match.number}" if mode == "count" else path


def _tool(
    name: str, function: Callable[..., str], description: str, arguments: type[BaseModel]
) -> StructuredTool:
    def told(**values: Any) -> str:
        try:
            return function(**values)
        except OutOfTime:
            raise ToolException("Error: the search took too long.") from None
        except (ValueError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ToolException(f"Error: {reason}") from error

    return StructuredTool.from_function(
        told, name=name, description=description, args_schema=arguments, handle_tool_error=True
    )
