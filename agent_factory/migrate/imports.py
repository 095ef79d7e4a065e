"""New import statements in the layout of the old ones, and new names where modules are used."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import ImportAssignment

from agent_factory.migrate.bindings import Binding, Statement, Use, asname, module_of
from agent_factory.migrate.moves import AGENT, ROOT, advice_on, home_of, is_known
from agent_factory.migrate.source import Source, dotted
from agent_factory.migrate.values import Edit, Finding, Symbol

WIDTH = 88
"""The characters of a line, as Black has them: longer imports get a name per line."""

_PRAGMA = re.compile(r"#\s*(noqa|type:|pylint:|pyright:|mypy:|ruff:|isort:|pragma:)")


@dataclass(frozen=True, slots=True)
class Piece:
    """One import.

    Args:
        module: The module.
        name: The name of the module that is bound; empty for the module itself.
        local: The name after `as`, or an empty string.
    """

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
    """The imports of a source that move.

    Args:
        source: The source.
        bindings: The bindings of its imports that may move.
        converted: The uses of `create_react_agent` that become `create_agent`.
    """

    source: Source
    bindings: Sequence[Binding]
    converted: frozenset[Use] = field(default_factory=frozenset)

    def changes(self) -> Iterator[Edit | Finding]:
        """The edits of imports and of the names they bind, and what a person has to decide."""
        pieces: dict[Statement, dict[cst.ImportAlias, list[Piece]]] = {}
        for binding in self.bindings:
            names = binding.statement.names
            assert not isinstance(names, cst.ImportStar)
            unchanged = {alias: [_piece(binding.statement, alias)] for alias in names}
            replaced = pieces.setdefault(binding.statement, unchanged)
            if binding.symbol:
                new = yield from self._name(binding, binding.symbol)
            else:
                new = yield from self._module(binding)
            replaced[binding.alias] = new
        for statement, replaced in pieces.items():
            yield from _statement_edits(self.source, statement, replaced)
        for star in self.source.every(cst.ImportFrom):
            module = module_of(star)
            if not isinstance(star.names, cst.ImportStar) or not is_known(module):
                continue
            if not module.startswith(ROOT):
                yield self.source.finding(
                    star,
                    "star-import",
                    f"from {module} import *",
                    "the names that are used cannot be distinguished from others",
                    "the names that are used, one by one; then run this again",
                )

    def target(self, use: Use) -> Symbol | None:
        """What a use becomes; None if it stays."""
        if use in self.converted:
            return AGENT
        home = home_of(use.symbol) if use.symbol else None
        return None if home == use.symbol else home

    def _name(
        self, binding: Binding, symbol: Symbol
    ) -> Generator[Edit | Finding, None, list[Piece]]:
        """The edits where a name is used; returns the imports that replace its import."""
        yield from self._advice(binding.alias, symbol)
        converts_all = self.converted.issuperset(binding.uses)
        if not (asname(binding.alias) and converts_all):  # otherwise the alias stays
            for use in self.converted.intersection(binding.uses):
                yield self.source.edit(use.node, AGENT.name)
        home, alias = home_of(symbol), asname(binding.alias)
        if home is None:
            return [_piece(binding.statement, binding.alias)]
        moved = Piece(home.module, home.name, alias)
        if not self.converted.intersection(binding.uses):
            return [moved]
        if converts_all:
            return [Piece(AGENT.module, AGENT.name, alias)]
        return [Piece(AGENT.module, AGENT.name), moved]

    def _module(self, binding: Binding) -> Generator[Edit | Finding, None, list[Piece]]:
        """The edits where a module is used; returns the imports that replace its import."""
        left = is_known(binding.module) and not binding.module.startswith(ROOT)
        for use in binding.uses:
            yield from self._advice(use.node, use.symbol)
            path = dotted(use.node) if isinstance(use.node, cst.Name | cst.Attribute) else ""
            # The module itself, and not a package around it, which stays.
            whole = bool(path) and path.count(".") >= binding.local.count(".")
            if use.symbol is None and whole and left:
                yield self.source.finding(
                    use.node,
                    "module",
                    self.source.text(use.node),
                    "the module itself is used, for an unknown purpose",
                    "the module of agent_factory that has what is needed",
                )
        old = _piece(binding.statement, binding.alias)
        targets = {use: target for use in binding.uses if (target := self.target(use))}
        homes = list(dict.fromkeys(target.module for target in targets.values()))
        still_used = len(targets) < len(binding.uses)
        keeps_name = len(homes) == 1 and not still_used and binding.is_one_name
        if not homes:
            return [old]
        if not keeps_name and is_taken(self.source, ROOT):
            yield self.source.finding(
                binding.alias,
                "name-taken",
                binding.local,
                f"this file uses the name {ROOT} for something else, which would hide the package",
                "another name for that, or imports of the names that are used, from "
                f"{', '.join(homes)}",
            )
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
            yield self.source.finding(node, "name", str(symbol), *advice)


def is_taken(source: Source, name: str) -> bool:
    """Whether the source gives a name another meaning than agent_factory does."""

    def means_ours(statement: cst.CSTNode) -> bool:
        if isinstance(statement, cst.Import):
            return any(dotted(alias.name).split(".")[0] == name for alias in statement.names)
        if not isinstance(statement, cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
            return False
        return any(
            home_of(Symbol(module_of(statement), dotted(alias.name))) == AGENT
            for alias in statement.names
            if (asname(alias) or dotted(alias.name)) == name
        )

    return any(
        not isinstance(found, ImportAssignment) or not means_ours(found.node)
        for scope in source.scopes()
        for found in scope.assignments
        if found.name == name
    )


def _piece(statement: Statement, alias: cst.ImportAlias) -> Piece:
    """The import of an alias as it stands."""
    name, local = dotted(alias.name), asname(alias)
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
    layout = _Layout(source, statement, source.newline_at(end), indent)
    yield source.edit(statement, separator.join(dict.fromkeys(layout.statements(pieces))))


@dataclass(frozen=True, slots=True)
class _Comments:
    """The comments at a name: on lines before it, on its line, and on lines after the last name."""

    before: Sequence[str] = ()
    same_line: Sequence[str] = ()
    after: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of a statement."""

    source: Source
    statement: Statement
    newline: str
    indent: str

    def statements(self, pieces: Pieces) -> list[str]:
        """The new statements, in the order of the old one's names."""
        comments = _comments(self.statement)
        groups: dict[str, list[tuple[Piece, _Comments]]] = {}
        for alias, several in pieces.items():
            for piece in several:
                key = piece.module if piece.name else f"import {piece.text}"
                groups.setdefault(key, []).append((piece, comments.get(alias, _Comments())))
        return [self._one(group) for group in groups.values()]

    def _one(self, group: Sequence[tuple[Piece, _Comments]]) -> str:
        first = group[0][0]
        if not first.name:
            return f"import {first.text}"
        head = f"from {first.module} import "
        short = head + ", ".join(piece.text for piece, _ in group)
        lpar = self.statement.lpar if isinstance(self.statement, cst.ImportFrom) else None
        if not lpar or "\n" not in self.source.text(self.statement).replace("\r", "\n"):
            return short  # it stood on one line
        opening = _same_line(lpar.whitespace_after)
        commented = opening or any(c.before or c.same_line or c.after for _, c in group)
        if not commented and len(self.indent + short) <= WIDTH:
            return short
        names = self.statement.names
        assert not isinstance(names, cst.ImportStar)
        deeper = self.source.line_start(self.source.span(names[0])[0])
        if deeper.strip():  # the first name does not begin its line
            deeper = self.indent + self.source.module.default_indent
        lines = ["  ".join([f"{head}(", *opening])]
        for piece, found in group:
            named = "  ".join([f"{piece.text},", *found.same_line])
            lines += [f"{deeper}{line}" for line in (*found.before, named, *found.after)]
        return self.newline.join([*lines, f"{self.indent})"])


def _comments(statement: Statement) -> dict[cst.ImportAlias, _Comments]:
    """The comments at each name of a statement."""
    if isinstance(statement, cst.Import) or isinstance(statement.names, cst.ImportStar):
        return {}
    before = _own_lines(statement.lpar.whitespace_after) if statement.lpar else []
    found = {}
    for alias in statement.names:
        comma = alias.comma if isinstance(alias.comma, cst.Comma) else None
        inside: list[cst.CSTNode] = [comma.whitespace_before] if comma else []
        if alias.asname:
            inside += [alias.asname.whitespace_before_as, alias.asname.whitespace_after_as]
        same_line = [c for space in inside for c in [*_same_line(space), *_own_lines(space)]]
        after = []
        if comma:
            same_line += _same_line(comma.whitespace_after)
            after = _own_lines(comma.whitespace_after)
        found[alias] = _Comments(before, same_line)
        before = after
    last = statement.names[-1]
    closing = statement.rpar.whitespace_before if statement.rpar else None
    same_line = [*found[last].same_line, *_same_line(closing)]
    found[last] = _Comments(found[last].before, same_line, [*before, *_own_lines(closing)])
    return found


def _same_line(space: cst.CSTNode | None) -> list[str]:
    """The comment on the first line of some white space."""
    comment = getattr(getattr(space, "first_line", None), "comment", None)
    return [comment.value] if comment else []


def _own_lines(space: cst.CSTNode | None) -> list[str]:
    """The comments on lines of their own in some white space."""
    lines = getattr(space, "empty_lines", ())
    return [line.comment.value for line in lines if line.comment]
