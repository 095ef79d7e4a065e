"""What the imports of a source bind, and where it is used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import ImportAssignment

from agent_factory.migrate.moves import is_known, leads_to_known
from agent_factory.migrate.source import Source, dotted
from agent_factory.migrate.values import Symbol

Statement = cst.Import | cst.ImportFrom


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A place where something imported is used.

    Args:
        node: The whole of it: a name, or the attribute of a module.
        symbol: What it is; None where the module itself is used, or a text names it.
        certain: Whether nothing else can be meant, such as another import of that name.
    """

    node: cst.CSTNode
    symbol: Symbol | None
    certain: bool


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A name that an import statement binds.

    Args:
        statement: The statement.
        alias: What of the statement binds it.
        module: The module that is bound; empty where it is a name of a module.
        symbol: The name of a module that is bound; None where it is a module.
        uses: Where it is used.
    """

    statement: Statement
    alias: cst.ImportAlias
    module: str
    symbol: Symbol | None
    uses: Sequence[Use]

    @property
    def local(self) -> str:
        """The name that is bound, or the dotted path that leads to the module."""
        return asname(self.alias) or dotted(self.alias.name)

    @property
    def is_one_name(self) -> bool:
        """Whether a single name is bound, and not a path from a top-level package."""
        return isinstance(self.statement, cst.ImportFrom) or bool(asname(self.alias))


def asname(alias: cst.ImportAlias) -> str:
    """The name after `as`; empty without one."""
    return dotted(alias.asname.name) if alias.asname else ""


def statements(source: Source) -> Iterator[Statement]:
    """All imports."""
    yield from source.every(cst.Import)
    yield from source.every(cst.ImportFrom)


def bindings_of(source: Source) -> list[Binding]:
    """What the imports bind that may move."""
    accesses = _accesses(source)
    return [
        _binding(source, statement, alias, accesses)
        for statement in statements(source)
        if not isinstance(statement.names, cst.ImportStar)
        for alias in statement.names
        if _may_move(statement, alias)
    ]


_Accesses = dict[tuple[Statement, str], list[tuple[cst.CSTNode, bool]]]


def _accesses(source: Source) -> _Accesses:
    """For each import and name that it binds, who uses it, and whether nothing else is meant."""
    found: _Accesses = defaultdict(list)
    for scope in source.scopes():
        for assignment in scope.assignments:
            if isinstance(assignment, ImportAssignment) and isinstance(assignment.node, Statement):
                found[assignment.node, assignment.name] += [
                    (access.node, len(access.referents) == 1) for access in assignment.references
                ]
    return found


def module_of(statement: cst.ImportFrom) -> str:
    """The module that names are imported from; empty for one relative to the package."""
    return "" if statement.relative else dotted(statement.module)


def _may_move(statement: Statement, alias: cst.ImportAlias) -> bool:
    name = dotted(alias.name)
    if isinstance(statement, cst.Import):
        return leads_to_known(name)
    module = module_of(statement)
    return bool(module) and (is_known(module) or leads_to_known(f"{module}.{name}"))


def _binding(
    source: Source, statement: Statement, alias: cst.ImportAlias, accesses: _Accesses
) -> Binding:
    name = dotted(alias.name)
    path = name if isinstance(statement, cst.Import) else f"{module_of(statement)}.{name}"
    if isinstance(statement, cst.ImportFrom) and not leads_to_known(path):
        symbol = Symbol(module_of(statement), name)
        used = accesses[statement, asname(alias) or name]
        uses = [Use(n, symbol if _is_code(n) else None, certain) for n, certain in used]
        return Binding(statement, alias, "", symbol, uses)
    return Binding(statement, alias, path, None, _module_uses(source, statement, alias, accesses))


def _module_uses(
    source: Source, statement: Statement, alias: cst.ImportAlias, accesses: _Accesses
) -> list[Use]:
    """The uses of a module: by its one name, or by the packages of its path."""
    path = dotted(alias.name)
    if isinstance(statement, cst.ImportFrom):
        path = f"{module_of(statement)}.{path}"
        heads = {asname(alias) or dotted(alias.name): path}
    elif alias.asname:
        heads = {asname(alias): path}
    else:
        parts = path.split(".")
        heads = {p: p for p in (".".join(parts[:n]) for n in range(1, len(parts) + 1))}
    return [
        _module_use(source, node, module, certain)
        for head, module in heads.items()
        for node, certain in accesses[statement, head]
    ]


def _module_use(source: Source, node: cst.CSTNode, module: str, certain: bool) -> Use:
    if not _is_code(node):
        return Use(node, None, certain)
    while isinstance(around := source.parent(node), cst.Attribute) and around.value is node:
        node, name = around, around.attr.value
        if not leads_to_known(f"{module}.{name}"):
            return Use(node, Symbol(module, name), certain)
        module = f"{module}.{name}"
    return Use(node, None, certain)


def _is_code(node: cst.CSTNode) -> bool:
    """Whether a use is written as code; an annotation may be a text, too."""
    return isinstance(node, cst.Name | cst.Attribute)
