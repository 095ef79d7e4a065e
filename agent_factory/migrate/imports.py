"""New import statements in the old layout, and new names where modules are used."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import ImportAssignment

from agent_factory.migrate.bindings import Binding, Statement, Use, module_of
from agent_factory.migrate.moves import AGENT, ROOT, advice_on, home_of, is_known, replacement_of
from agent_factory.migrate.source import Source, dotted
from agent_factory.migrate.values import Edit, Finding, Symbol

WIDTH = 88
"""The characters of a line, as Black has them: longer imports get a name per line."""

_COMMENT = re.compile(rb"#[^\r\n]*")
_BREAK = re.compile(rb"[\r\n]")
_PRAGMA = re.compile(r"#\s*(noqa|type:|pylint:|pyright:|mypy:|ruff:|isort:|pragma:)")


@dataclass(frozen=True, slots=True)
class Piece:
    """Import of a module, or of a name in a module; `local` is the name after `as`."""

    module: str
    name: str = ""
    local: str = ""

    @property
    def text(self) -> str:
        """The text after `import`."""
        bound = self.name or self.module
        return f"{bound} as {self.local}" if self.local else bound


Pieces = Mapping[cst.ImportAlias, Sequence[Piece]]
"""For each alias of a statement, the imports that replace it."""


@dataclass(frozen=True)
class Imports:
    """The imports of a source with names that may move."""

    source: Source
    bindings: Sequence[Binding]

    conversions: frozenset[Use]
    """The uses of `create_react_agent` that become `create_agent`."""

    def changes(self) -> Iterator[Edit | Finding]:
        """The edits of imports and of bound names, and findings for a person."""
        pieces: dict[Statement, dict[cst.ImportAlias, list[Piece]]] = {}
        for binding in self.bindings:
            names = binding.statement.names
            assert not isinstance(names, cst.ImportStar)
            originals = {alias: [_piece(binding.statement, alias)] for alias in names}
            # Unmoved aliases of the statement keep their import.
            replacements = pieces.setdefault(binding.statement, originals)
            if binding.symbol:
                new = yield from self._name(binding, binding.symbol)
            else:
                new = yield from self._module(binding)
            replacements[binding.alias] = new
        for statement, replacements in pieces.items():
            yield from _statement_edits(self.source, statement, replacements)
        for star in self.source.every(cst.ImportFrom):
            module = module_of(star)
            if isinstance(star.names, cst.ImportStar) and _is_left(module):
                yield self.source.finding(star, f"from {module} import *", "star-import")

    def _name(
        self, binding: Binding, symbol: Symbol
    ) -> Generator[Edit | Finding, None, list[Piece]]:
        """The edits where a name is used; returns the imports that replace its import."""
        yield from self._advice(binding.alias, symbol)
        old = _piece(binding.statement, binding.alias)
        home = home_of(symbol)
        if home is None:
            return [old]
        replacement = Piece(home.module, home.name, old.local)
        conversions = self.conversions.intersection(binding.uses)
        converts_all = self.conversions.issuperset(binding.uses)
        if not (old.local and converts_all):  # otherwise the alias stays
            for use in conversions:
                yield self.source.edit(use.node, AGENT.name)
        if not conversions:
            return [replacement]
        if converts_all:
            return [Piece(AGENT.module, AGENT.name, old.local)]
        return [Piece(AGENT.module, AGENT.name), replacement]

    def _module(self, binding: Binding) -> Generator[Edit | Finding, None, list[Piece]]:
        """The edits where a module is used; returns the imports that replace its import."""
        targets: dict[Use, Symbol] = {}
        for use in binding.uses:
            yield from self._advice(use.node, use.symbol)
            home = home_of(use.symbol) if use.symbol else None
            if use in self.conversions:
                targets[use] = AGENT
            elif home and home != use.symbol:
                targets[use] = home
            path = dotted(use.node) if isinstance(use.node, cst.Name | cst.Attribute) else ""
            # The module itself, and not a package around it, which stays.
            whole = bool(path) and path.count(".") >= binding.local.count(".")
            if use.symbol is None and whole and _is_left(binding.module):
                new, text = replacement_of(binding.module), self.source.text(use.node)
                yield self.source.finding(use.node, text, "module", replacement=new)
        old = _piece(binding.statement, binding.alias)
        homes = list(dict.fromkeys(target.module for target in targets.values()))
        # Unmoved uses need the old import as well.
        still_used = len(targets) < len(binding.uses)
        # If all uses move to one module, the local name can mean that module, and they stay as they
        # are.
        is_name = isinstance(binding.statement, cst.ImportFrom) or bool(binding.alias.asname)
        keeps_name = len(homes) == 1 and not still_used and is_name
        if not homes:
            return [old]
        if not keeps_name and is_taken(self.source, ROOT):
            words = {"name": ROOT, "modules": ", ".join(homes)}
            yield self.source.finding(binding.alias, binding.local, "package taken", **words)
            return [old]
        for use, target in targets.items():
            module = binding.local if keeps_name else target.module
            yield self.source.edit(use.node, f"{module}.{target.name}")
        if not keeps_name:
            return [*([old] if still_used else []), *map(Piece, homes)]
        package, _, name = homes[0].rpartition(".")
        if package and name == binding.local:
            return [Piece(package, name)]
        return [Piece(homes[0], local=binding.local)]

    def _advice(self, node: cst.CSTNode, symbol: Symbol | None) -> Iterator[Finding]:
        if symbol and (advice := advice_on(symbol)):
            yield self.source.finding(node, str(symbol), advice)


def _is_left(module: str) -> bool:
    """Return True if names of a module move to another package."""
    return is_known(module) and not module.startswith(ROOT)


def is_taken(source: Source, name: str) -> bool:
    """Return True if the source gives a name another meaning than agent_factory does."""

    def means_ours(statement: cst.CSTNode) -> bool:
        if isinstance(statement, cst.Import):
            return any(a.evaluated_name.split(".")[0] == name for a in statement.names)
        if not isinstance(statement, cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
            return False
        return any(
            home_of(Symbol(module_of(statement), alias.evaluated_name)) == AGENT
            for alias in statement.names
            if (alias.evaluated_alias or alias.evaluated_name) == name
        )

    return any(
        not isinstance(assignment, ImportAssignment) or not means_ours(assignment.node)
        for scope in source.scopes()
        for assignment in scope.assignments
        if assignment.name == name
    )


def _piece(statement: Statement, alias: cst.ImportAlias) -> Piece:
    """The present import of an alias."""
    name, local = alias.evaluated_name, alias.evaluated_alias or ""
    if isinstance(statement, cst.Import):
        return Piece(name, local=local)
    module = "." * len(statement.relative) + dotted(statement.module)
    return Piece(module, name, local)


def _statement_edits(source: Source, statement: Statement, pieces: Pieces) -> Iterator[Edit]:
    """The edits that make a statement import the pieces."""
    if all([_piece(statement, alias)] == list(p) for alias, p in pieces.items()):
        return
    modules = {piece.module for several in pieces.values() for piece in several}
    one_by_one = all(len(several) == 1 and several[0].name for several in pieces.values())
    # Only names change: edit them in place, and leave the layout of the statement alone.
    if isinstance(statement, cst.ImportFrom) and one_by_one and len(modules) == 1:
        assert statement.module is not None
        new = [(statement.module, modules.pop())]
        new += [(alias.name, piece.name) for alias, (piece,) in pieces.items()]
        yield from (source.edit(node, text) for node, text in new if dotted(node) != text)
        return
    start, end = source.span(statement)
    line = source.parent(statement)
    separator, indent = "; ", ""
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        # A comment for a tool, such as noqa, goes to each of the new lines.
        comment = line.trailing_whitespace.comment
        pragma = f"  {comment.value}" if comment and _PRAGMA.match(comment.value) else ""
        indent = source.line_start(start)
        separator = f"{pragma}{source.newline_at(end)}{indent}"
    layout = _statements(source, statement, pieces, source.newline_at(end), indent)
    # Two names may lead to the same import.
    yield source.edit(statement, separator.join(dict.fromkeys(layout)))


def _statements(
    source: Source, statement: Statement, pieces: Pieces, newline: str, indent: str
) -> Iterator[str]:
    """The new statements, in the order and the layout of the old names."""
    groups: dict[str, list[tuple[Piece, cst.ImportAlias]]] = {}
    for alias, several in pieces.items():
        for piece in several:
            key = piece.module if piece.name else f"import {piece.text}"
            groups.setdefault(key, []).append((piece, alias))
    aliases = list(pieces)
    opening, comments = _comments(source, statement, aliases)
    with_brackets = isinstance(statement, cst.ImportFrom) and statement.lpar
    one_line = not with_brackets or not re.search("[\r\n]", source.text(statement))
    deeper = source.line_start(source.span(aliases[0])[0])
    if deeper.strip():  # the first name does not begin a line
        deeper = indent + source.module.default_indent
    for group in groups.values():
        first = group[0][0]
        if not first.name:
            yield f"import {first.text}"
            continue
        head = f"from {first.module} import "
        short = head + ", ".join(piece.text for piece, _ in group)
        has_comments = opening or any(comments[alias] != _Comments() for _, alias in group)
        if one_line or (not has_comments and len(indent + short) <= WIDTH):
            yield short
            continue
        lines = ["  ".join([f"{head}(", *opening])]
        for piece, alias in group:
            at = comments[alias]
            row = "  ".join([f"{piece.text},", *at.same_line])
            lines += [f"{deeper}{line}" for line in (*at.before, row, *at.after)]
        yield newline.join([*lines, f"{indent})"])


@dataclass(frozen=True, slots=True)
class _Comments:
    """The comments on lines before a name, on the same line, and on lines after the last name."""

    before: list[str] = field(default_factory=list)
    same_line: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def _comments(
    source: Source, statement: Statement, aliases: Sequence[cst.ImportAlias]
) -> tuple[list[str], dict[cst.ImportAlias, _Comments]]:
    """The comments after the opening bracket, and at each name."""
    opening: list[str] = []
    comments = {alias: _Comments() for alias in aliases}
    # An import has no strings: each hash begins a comment.
    for comment in _COMMENT.finditer(source.data, *source.span(statement)):
        at, text = comment.start(), comment[0].decode()
        preceding = [alias for alias in aliases if source.span(alias)[0] < at]
        if preceding:
            comma = preceding[-1].comma
            end = source.span(comma if isinstance(comma, cst.Comma) else preceding[-1])[1]
            same_line = comments[preceding[-1]].same_line
        else:
            end, same_line = source.data.index(b"(", source.span(statement)[0]), opening
        if not _BREAK.search(source.data, end, at):
            same_line.append(text)
        elif len(preceding) < len(aliases):
            comments[aliases[len(preceding)]].before.append(text)
        else:
            comments[aliases[-1]].after.append(text)
    return opening, comments
