"""The file search middleware: two tools, and the validation of arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Generic, TypeVar

from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, Field

from agent_factory import AgentMiddleware, AgentState
from agent_factory.middleware._shared.invocable import in_event_loop
from agent_factory.middleware._shared.validation import check_bool, check_number

from .grep import Grep, Mode
from .tree import Deadline, OutOfTime, Parts, Scope, Tree, format_path, parse_path

MAX_RESULTS = 200
"""Lines in one result: with long lines some 25,000 tokens, usually a tenth of that."""

_MAX_PATTERN = 1_000  # characters of a regular expression

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
    """Arguments of `glob_search`."""

    pattern: str = Field(description='A glob pattern, such as "**/*.py" or "src/*.{ts,tsx}".')
    path: str = Field("/", description="The folder to search; / is the root.")


class GrepArguments(BaseModel):
    """Arguments of `grep_search`."""

    pattern: str = Field(description="A regular expression; each line is matched on its own.")
    path: str = Field("/", description="The folder or file to search; / is the root.")
    include: str | None = Field(
        None, description='Only files whose path matches this glob, such as "*.py".'
    )
    output_mode: Mode = Field("files_with_matches", description="What to return.")


class FilesystemFileSearchMiddleware(AgentMiddleware[AgentState, Any]):
    """Gives the model `glob_search` and `grep_search` over the files of one folder.

    Paths begin at the folder, which is "/" for the model. `..` is rejected, `~` is an ordinary
    name, and links are never followed, even within the folder. Pipes, devices, sockets,
    binary files (with a NUL byte) and files over the size limit are left out. Invalid arguments
    give a result with status "error" and the reason.

    A result has at most 200 lines of 500 characters, and says if there are more. `glob_search`
    gives the most recently changed files first, by path where times are equal; `grep_search` gives
    matches by path and line.

    `grep_search` uses ripgrep, or else Python's `re`, in a process that is killed in time, so that
    no pattern can backtrack forever. Both find the same, apart from details of their pattern
    languages; Python searches for patterns outside of ripgrep's language. Python opens every file
    with descriptors that reject links. ripgrep opens files by path: somebody who can write to the
    folder and replaces folders by links during the search can make ripgrep read outside. Set
    `use_ripgrep=False` if that is a risk. A hard link to a file outside is a file inside.

    Both tools are attributes too, `glob_search` and `grep_search`, whatever their names are.

    Args:
        root_path: The folder. Links in this path itself are followed, once, at construction; in a
            running event loop, at the first search, which also finds a path of another kind.
        use_ripgrep: Use `rg` if it is on the PATH at that time.
        max_file_size_mb: Size of the largest file whose content is searched, in megabytes of
            2**20 bytes.
        timeout: Seconds a search may take. Then the results so far are returned.
        tool_prefix: Prefix for the names of both tools, to distinguish the tools of two folders:
            "docs_" makes "docs_glob_search".
        name: Distinguishes several instances.

    Raises:
        ValueError: `root_path` is not a folder, a number is not positive, or the prefix cannot
            begin the name of a tool.
        TypeError: `root_path` is not a path, or `use_ripgrep` is not a bool.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> search = FilesystemFileSearchMiddleware(root_path=folder.name)
    >>> [tool.name for tool in search.tools]
    ['glob_search', 'grep_search']
    >>> search.glob_search.invoke({"pattern": "**/*.py"})
    'No files found.'
    >>> folder.cleanup()
    """

    guard_settings = ("root_path",)

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
            raise TypeError(f"root_path must be the path of a folder, got {root_path!r}.")
        valid_prefix = r"[A-Za-z0-9_-]{0,40}"
        if not isinstance(tool_prefix, str) or not re.fullmatch(valid_prefix, tool_prefix):
            raise ValueError(
                "tool_prefix must be at most 40 letters, digits, '_' and '-', which providers "
                f"allow in the names of tools, got {tool_prefix!r}."
            )
        check_bool("use_ripgrep", use_ripgrep)
        size = ("max_file_size_mb", max_file_size_mb, "megabytes")
        for argument, value, unit in (size, ("timeout", timeout, "seconds")):
            check_number(argument, value, unit=unit)
            if not value:  # check_number accepts None and 0
                raise ValueError(f"{argument} must be a number of {unit} above 0, got {value!r}.")
        self.tool_prefix, self.use_ripgrep = tool_prefix, use_ripgrep
        self.max_file_size_mb, self.timeout = max_file_size_mb, timeout
        self.root_path = Path(root_path)
        self.max_file_size_bytes = int(max_file_size_mb * 2**20)
        self._tree = Tree(root_path)
        self._grep = Grep(self._tree, self.max_file_size_bytes, use_ripgrep=use_ripgrep)
        # A file system may be slow. An event loop leaves it to the thread of the first search.
        if not in_event_loop():
            self.root_path = self._tree.root
            _ = self._grep.ripgrep
        names = [f"{tool_prefix}{name}_search" for name in ("glob", "grep")]
        self.glob_search = _make_tool(names[0], self._find_files, _GLOB, GlobArguments)
        self.grep_search = _make_tool(names[1], self._find_lines, _GREP, GrepArguments)
        self.tools = [self.glob_search, self.grep_search]

    def _find_files(self, pattern: str, path: str = "/") -> str:
        scope = Scope(pattern, self._resolve(path, "folder"))
        files = _Results(self._tree.walk(scope, Deadline(monotonic() + self.timeout)))
        # Keeps the newest only, of however many files the walk yields.
        newest = nsmallest(MAX_RESULTS, files, key=lambda file: (-file.changed, file.parts))
        lines = [format_path(file.parts) for file in newest] or ["No files found."]
        notice = f"{MAX_RESULTS} of {files.count} files are shown."
        return self._format(lines, notice if files.count > MAX_RESULTS else "", files.late)

    def _find_lines(
        self,
        pattern: str,
        path: str = "/",
        include: str | None = None,
        output_mode: Mode = "files_with_matches",
    ) -> str:
        # Half of a surrogate pair cannot be passed to ripgrep, nor be in a file.
        try:
            pattern.encode()
        except UnicodeEncodeError:
            raise ValueError("the pattern contains characters that are not valid text.") from None
        if "\0" in pattern:
            raise ValueError("the pattern contains a NUL character, which no text file does.")
        if len(pattern) > _MAX_PATTERN:
            raise ValueError(f"the pattern has more than {_MAX_PATTERN} characters.")
        start = self._resolve(path, "folder", "file")
        deadline = Deadline(monotonic() + self.timeout)
        if self._tree.kind(start) == "file":
            search = self._grep.search_files(pattern, [start], output_mode, deadline)
        else:
            glob = include or "*"
            scope = Scope(glob if "/" in glob else f"**/{glob}", start)
            search = self._grep.search(pattern, scope, output_mode, deadline)
        lines = []
        with closing(search):  # ends the process that searches
            matches = _Results(search)
            # One more than is shown tells whether the list is complete.
            for match in islice(matches, MAX_RESULTS + 1):
                line = format_path(match.parts)
                if output_mode != "files_with_matches":
                    line += f":{match.number}"
                lines.append(f"{line}:{match.line}" if output_mode == "content" else line)
        notice = f"Only the first {MAX_RESULTS} results are shown."
        if len(lines) <= MAX_RESULTS:
            notice = ""
        return self._format(lines[:MAX_RESULTS] or ["No matches found."], notice, matches.late)

    def _resolve(self, path: str, *kinds: str) -> Parts:
        """The names in a path that exists and is of one of these kinds."""
        parts = parse_path(path)
        kind = self._tree.kind(parts)
        if kind == "link":
            raise ValueError(f"{format_path(parts)} is a link, and links are not followed.")
        if kind not in kinds:
            raise ValueError(f"there is no {' or '.join(kinds)} {format_path(parts)}.")
        return parts

    def _format(self, lines: list[str], notice: str, late: bool) -> str:
        notices = [notice] if notice else []
        if late:
            notices.append(f"The search was stopped after {self.timeout:g} seconds.")
        if notices:
            lines = [*lines, f"[{' '.join(notices)} Narrow the pattern or the path.]"]
        return "\n".join(lines)


class _Results(Generic[T]):
    """Iterator that counts its results, and ends instead of raising when the time is up."""

    def __init__(self, results: Generator[T, None, None]) -> None:
        self.count = 0
        self.late = False
        self._results = results

    def __iter__(self) -> Iterator[T]:
        try:
            for result in self._results:
                self.count += 1
                yield result
        except OutOfTime:
            self.late = True


def _make_tool(
    name: str, function: Callable[..., str], description: str, arguments: type[BaseModel]
) -> StructuredTool:
    def call(*args: object, **values: object) -> str:
        try:
            return function(*args, **values)
        except OutOfTime:
            raise ToolException("Error: the search took too long.") from None
        except (ValueError, OSError) as error:
            # The text of an OSError would show the path on this machine.
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ToolException(f"Error: {reason}") from error

    # With `handle_tool_error`, the model reads a ToolException as the result of its call.
    return StructuredTool.from_function(
        call, name=name, description=description, args_schema=arguments, handle_tool_error=True
    )
