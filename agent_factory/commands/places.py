"""Where something was written: the file and the line."""

from __future__ import annotations

import ast
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_factory.commands.trouble import OURS


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file.

    Args:
        file: The file.
        line: The line, from 1.
    """

    file: Path
    line: int

    @property
    def name(self) -> str:
        """The file's path from the current folder, where it lies in it."""
        here = Path.cwd()
        return str(self.file.relative_to(here) if self.file.is_relative_to(here) else self.file)

    def __str__(self) -> str:
        return f"{self.name}:{self.line}"


def definition(file: Path, name: str) -> Place | None:
    """Where a module gives a name its value: the last such line."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, SyntaxError):
        return None
    lines = [line for bound, line in _bindings(tree.body) if bound == name]
    return Place(file, lines[-1]) if lines else None


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    for node in body:
        yield from ((name, node.lineno) for name in _bound(node))
        for block in ("body", "orelse", "finalbody"):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from _bindings(getattr(node, block, []))


def _bound(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Import() | ast.ImportFrom():
            return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
        case _:
            return []


def raised_at(error: BaseException) -> Place | None:
    """Where the user's own code raised an error, or called what did."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Place(Path(error.filename), error.lineno)
    places = [
        Place(Path(frame.filename), frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.lineno and not frame.filename.startswith("<")
    ]
    own = [place for place in places if not _is_a_librarys(place.file)]
    return own[-1] if own else None


def _is_a_librarys(file: Path) -> bool:
    paths = sysconfig.get_paths()
    libraries = {Path(paths[kind]) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return bool({*libraries, OURS, OURS.parent / "middleware"} & {*file.parents})
