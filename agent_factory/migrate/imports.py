"""The new imports of a source, and what uses of modules become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import ImportAssignment

from agent_factory.migrate.bindings import (
    Binding,
    Statement,
    Use,
    asname,
    module_of,
)
from agent_factory.migrate.import_text import Piece, as_it_is, import_edits
from agent_factory.migrate.moves import AGENT, ROOT, advice_on, home_of, is_known
from agent_factory.migrate.source import Source, dotted
from agent_factory.migrate.values import Edit, Finding, Symbol


@dataclass(frozen=True)
class Imports:
    """The imports of a source, on their way over.

    Args:
        source: The source.
        bindings: What its imports bind that may move.
        converted: The uses of `create_react_agent` that become `create_agent`.
    """

    source: Source
    bindings: Sequence[Binding]
    converted: frozenset[Use] = field(default_factory=frozenset)

    def edits(self) -> Iterator[Edit]:
        """Every change of an import, and of a name that needs another one by it."""
        pieces: dict[Statement, dict[cst.ImportAlias, list[Piece]]] = {}
        for binding in self.bindings:
            of_statement = pieces.setdefault(binding.statement, _unchanged(binding.statement))
            of_statement[binding.alias] = self._pieces(binding)
            yield from self._use_edits(binding)
        for statement, of_statement in pieces.items():
            yield from import_edits(self.source, statement, of_statement)

    def findings(self) -> Iterator[Finding]:
        """What a person has to decide about imports."""
        yield from map(self._star, filter(_is_known_star, self.source.every(cst.ImportFrom)))
        for binding in self.bindings:
            yield from self._advice(binding.alias, binding.symbol)
            if self._is_blocked(binding):
                yield self._blocked(binding)
            if not binding.symbol:
                for use in binding.uses:
                    yield from self._of_module_use(use, binding)

    def target(self, use: Use) -> Symbol | None:
        """What a use becomes; None if it stays."""
        if use in self.converted:
            return AGENT
        home = home_of(use.symbol) if use.symbol else None
        return None if home == use.symbol else home

    def _pieces(self, binding: Binding) -> list[Piece]:
        return self._of_name(binding) if binding.symbol else self._of_module(binding)

    def _of_name(self, binding: Binding) -> list[Piece]:
        assert binding.symbol is not None
        home, alias = home_of(binding.symbol), asname(binding.alias)
        if home is None:
            return [as_it_is(binding.statement, binding.alias)]
        moved = Piece(home.module, home.name, alias)
        if not self.converted.intersection(binding.uses):
            return [moved]
        if self._converts_all(binding):
            return [Piece(AGENT.module, AGENT.name, alias)]
        return [Piece(AGENT.module, AGENT.name), moved]

    def _converts_all(self, binding: Binding) -> bool:
        return self.converted.issuperset(binding.uses)

    def _of_module(self, binding: Binding) -> list[Piece]:
        old = as_it_is(binding.statement, binding.alias)
        homes = self._homes(binding)
        if not homes or self._is_blocked(binding):
            return [old]
        if self._keeps_its_name(binding):
            return [_module_piece(homes[0], binding.local)]
        return [*([old] if self._is_still_used(binding) else []), *map(Piece, homes)]

    def _homes(self, binding: Binding) -> list[str]:
        """The modules that the uses of a module lead to now."""
        found = (target.module for use in binding.uses if (target := self.target(use)))
        return list(dict.fromkeys(found))

    def _is_still_used(self, binding: Binding) -> bool:
        return any(self.target(use) is None for use in binding.uses)

    def _keeps_its_name(self, binding: Binding) -> bool:
        """Whether the name of a module can be that of the only module which takes its place."""
        alone = len(self._homes(binding)) == 1 and not self._is_still_used(binding)
        return alone and binding.is_one_name

    def _is_blocked(self, binding: Binding) -> bool:
        """Whether new imports would be hidden by something of the name `agent_factory`."""
        moves = not binding.symbol and bool(self._homes(binding))
        return moves and not self._keeps_its_name(binding) and is_taken(self.source, ROOT)

    def _use_edits(self, binding: Binding) -> Iterator[Edit]:
        if self._is_blocked(binding):
            return
        keeps = self._keeps_its_name(binding)
        renames = not (asname(binding.alias) and self._converts_all(binding))
        for use in binding.uses:
            target = self.target(use)
            if target is None:
                continue
            if not binding.symbol:
                name = f"{binding.local if keeps else target.module}.{target.name}"
                yield self.source.edit(use.node, name)
            elif use in self.converted and renames:
                yield self.source.edit(use.node, target.name)

    def _advice(self, node: cst.CSTNode, symbol: Symbol | None) -> Iterator[Finding]:
        if symbol and (advice := advice_on(symbol)):
            yield self.source.finding(node, "name", str(symbol), *advice)

    def _of_module_use(self, use: Use, binding: Binding) -> Iterator[Finding]:
        yield from self._advice(use.node, use.symbol)
        if use.symbol is None and _is_whole_module(use, binding):
            yield self.source.finding(
                use.node,
                "module",
                self.source.text(use.node),
                "the module itself is used, and what is done with it cannot be seen here",
                "the module of agent_factory that has what is needed",
            )

    def _blocked(self, binding: Binding) -> Finding:
        homes = ", ".join(self._homes(binding))
        return self.source.finding(
            binding.alias,
            "name-taken",
            binding.local,
            f"something of this file is called {ROOT} itself and would hide the package",
            f"another name for that, or imports of the names that are used, from {homes}",
        )

    def _star(self, statement: cst.ImportFrom) -> Finding:
        module = module_of(statement)
        return self.source.finding(
            statement,
            "star-import",
            f"from {module} import *",
            "which of its names are used cannot be told apart from others",
            "the names that are used, one by one; then run this again",
        )


def _module_piece(module: str, local: str) -> Piece:
    package, _, name = module.rpartition(".")
    return Piece(package, name) if package and name == local else Piece(module, local=local)


def _unchanged(statement: Statement) -> dict[cst.ImportAlias, list[Piece]]:
    assert not isinstance(statement.names, cst.ImportStar)
    return {alias: [as_it_is(statement, alias)] for alias in statement.names}


def _is_whole_module(use: Use, binding: Binding) -> bool:
    """Whether a module that is left is used itself, and not the package around it."""
    path = dotted(use.node) if isinstance(use.node, cst.Name | cst.Attribute) else ""
    left = is_known(binding.module) and not binding.module.startswith(ROOT)
    return left and bool(path) and path.count(".") >= binding.local.count(".")


def _is_known_star(statement: cst.ImportFrom) -> bool:
    module = module_of(statement)
    star = isinstance(statement.names, cst.ImportStar)
    return star and is_known(module) and not module.startswith(ROOT)


def is_taken(source: Source, name: str) -> bool:
    """Whether a name is given to something else than what it means in agent_factory."""
    return any(
        not isinstance(found, ImportAssignment) or not _means(found.node, name)
        for scope in source.scopes()
        for found in scope.assignments
        if found.name == name
    )


def _means(statement: cst.CSTNode, name: str) -> bool:
    """Whether an import gives a name what it means in agent_factory."""
    if isinstance(statement, cst.Import):
        return any(dotted(a.name).split(".")[0] == name for a in statement.names)
    if not isinstance(statement, cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
        return False
    return any(
        home_of(Symbol(module_of(statement), dotted(alias.name))) == AGENT
        for alias in statement.names
        if (asname(alias) or dotted(alias.name)) == name
    )
