"""How import statements are written anew: by module, in the layout that they had."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from agent_factory.migrate.bindings import Statement, asname
from agent_factory.migrate.source import Source, dotted
from agent_factory.migrate.values import Edit

WIDTH = 88
"""Characters of a line, as Black has them: more names go one to a line."""

_PRAGMA = re.compile(r"#\s*(noqa|type:|pylint:|pyright:|mypy:|ruff:|isort:|pragma:)")


@dataclass(frozen=True, slots=True)
class Piece:
    """One import.

    Args:
        module: The module.
        name: Its name that is bound; empty where the module itself is.
        local: What it is called, if not that.
    """

    module: str
    name: str = ""
    local: str = ""

    @property
    def text(self) -> str:
        """What stands after `import`."""
        bound = self.name or self.module
        return f"{bound} as {self.local}" if self.local else bound


@dataclass(frozen=True, slots=True)
class _Notes:
    """The comments at a name: lines before it, what stands beside it, lines after the last one."""

    before: Sequence[str] = ()
    beside: Sequence[str] = ()
    after: Sequence[str] = ()


Pieces = Mapping[cst.ImportAlias, Sequence[Piece]]


def import_edits(source: Source, statement: Statement, pieces: Pieces) -> Iterator[Edit]:
    """What makes a statement import the pieces; nothing where it does."""
    if all([as_it_is(statement, alias)] == list(p) for alias, p in pieces.items()):
        return
    if isinstance(statement, cst.ImportFrom) and (module := _one_module(pieces)):
        assert statement.module is not None
        yield from _changed(source, statement.module, module)
        for alias, (piece,) in pieces.items():
            yield from _changed(source, alias.name, piece.name)
    else:
        yield source.edit(statement, _written(source, statement, pieces))


def _one_module(pieces: Pieces) -> str:
    """The module that all names come from, each one by one; else an empty text."""
    modules = {piece.module for several in pieces.values() for piece in several}
    alone = all(len(several) == 1 and several[0].name for several in pieces.values())
    return modules.pop() if alone and len(modules) == 1 else ""


def _changed(source: Source, node: cst.BaseExpression, text: str) -> Iterator[Edit]:
    if dotted(node) != text:
        yield source.edit(node, text)


def as_it_is(statement: Statement, alias: cst.ImportAlias) -> Piece:
    """What an alias imports now."""
    name, local = dotted(alias.name), asname(alias)
    if isinstance(statement, cst.Import):
        return Piece(name, local=local)
    module = "." * len(statement.relative) + dotted(statement.module)
    return Piece(module, name, local)


def _written(source: Source, statement: Statement, pieces: Pieces) -> str:
    start, end = source.span(statement)
    line = source.parent(statement)
    alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    newline = source.newline_at(end)
    layout = _Layout(source, statement, newline, source.line_start(start) if alone else "")
    tail = f"  {c}" if alone and (c := _pragma(line)) else ""
    parts = layout.parts(pieces)
    return (f"{tail}{newline}{layout.indent}" if alone else "; ").join(dict.fromkeys(parts))


def _pragma(line: cst.CSTNode | None) -> str:
    """The comment behind a statement, if it speaks to a tool: it holds for each of its lines."""
    assert isinstance(line, cst.SimpleStatementLine)
    comment = line.trailing_whitespace.comment
    return comment.value if comment and _PRAGMA.match(comment.value) else ""


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a statement is laid out."""

    source: Source
    statement: Statement
    newline: str
    indent: str

    def parts(self, pieces: Pieces) -> list[str]:
        """The new statements, in the order in which the old one named what they import."""
        noted = _notes(self.statement)
        groups: dict[str, list[tuple[Piece, _Notes]]] = {}
        for alias, several in pieces.items():
            for piece in several:
                key = piece.module if piece.name else f"import {piece.text}"
                groups.setdefault(key, []).append((piece, noted.get(alias, _Notes())))
        return [self._one(group) for group in groups.values()]

    def _one(self, group: Sequence[tuple[Piece, _Notes]]) -> str:
        first = group[0][0]
        if not first.name:
            return f"import {first.text}"
        head = f"from {first.module} import "
        short = head + ", ".join(piece.text for piece, _ in group)
        plain = not any(n.before or n.beside or n.after for _, n in group) and not self._opening
        if not self._is_tall or (plain and len(self.indent + short) <= WIDTH):
            return short
        lines = [line for piece, notes in group for line in self._lines(piece, notes)]
        opened = "  ".join([f"{head}(", *self._opening])
        return self.newline.join([opened, *lines, f"{self.indent})"])

    def _lines(self, piece: Piece, notes: _Notes) -> list[str]:
        named = "  ".join([f"{piece.text},", *notes.beside])
        return [f"{self._deeper}{line}" for line in (*notes.before, named, *notes.after)]

    @property
    def _is_tall(self) -> bool:
        parens = isinstance(self.statement, cst.ImportFrom) and self.statement.lpar
        return bool(parens) and "\n" in self.source.text(self.statement).replace("\r", "\n")

    @property
    def _opening(self) -> list[str]:
        lpar = self.statement.lpar if isinstance(self.statement, cst.ImportFrom) else None
        return _beside(lpar.whitespace_after) if lpar else []

    @property
    def _deeper(self) -> str:
        """What stands before the first name, if it begins a line."""
        names = self.statement.names
        assert not isinstance(names, cst.ImportStar)
        before = self.source.line_start(self.source.span(names[0])[0])
        return before if not before.strip() else self.indent + self.source.module.default_indent


def _notes(statement: Statement) -> dict[cst.ImportAlias, _Notes]:
    """The comments at each name of a statement."""
    if isinstance(statement, cst.Import) or isinstance(statement.names, cst.ImportStar):
        return {}
    before = _lines_of(statement.lpar.whitespace_after) if statement.lpar else []
    found = {}
    for alias in statement.names:
        comma = alias.comma if isinstance(alias.comma, cst.Comma) else None
        beside = _inside(alias) + (_beside(comma.whitespace_after) if comma else [])
        after = _lines_of(comma.whitespace_after) if comma else []
        found[alias] = _Notes(before, beside)
        before = after
    last = statement.names[-1]
    closing = statement.rpar.whitespace_before if statement.rpar else None
    beside = [*found[last].beside, *_beside(closing)]
    found[last] = _Notes(found[last].before, beside, [*before, *_lines_of(closing)])
    return found


def _inside(alias: cst.ImportAlias) -> list[str]:
    """The comments between a name and its comma."""
    comma = alias.comma if isinstance(alias.comma, cst.Comma) else None
    spaces = [comma.whitespace_before] if comma else []
    if alias.asname:
        spaces += [alias.asname.whitespace_before_as, alias.asname.whitespace_after_as]
    return [comment for space in spaces for comment in [*_beside(space), *_lines_of(space)]]


def _beside(space: cst.CSTNode | None) -> list[str]:
    comment = getattr(getattr(space, "first_line", None), "comment", None)
    return [comment.value] if comment else []


def _lines_of(space: cst.CSTNode | None) -> list[str]:
    lines = getattr(space, "empty_lines", ())
    return [line.comment.value for line in lines if line.comment]
