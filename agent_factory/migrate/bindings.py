"""Names bound by the imports of a source, with uses and calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import libcst as cst
from libcst.metadata import ImportAssignment

from agent_factory.migrate.moves import Advice, Keyword, home_of, is_known, leads_to_known
from agent_factory.migrate.source import Source, dotted
from agent_factory.migrate.values import Edit, Finding, Symbol

Statement = cst.Import | cst.ImportFrom


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A place where an import is used."""

    node: cst.CSTNode
    """The expression: a name, or an attribute of a module."""

    symbol: Symbol | None
    """What is used; None for the module itself, and in a string."""

    certain: bool
    """Whether the name has no other meaning, such as a second import."""


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A module, or a name of a module (`symbol`), bound by a part of an import statement."""

    statement: Statement
    alias: cst.ImportAlias
    module: str
    symbol: Symbol | None
    uses: Sequence[Use]

    @property
    def local(self) -> str:
        """The bound name, or the dotted path of the module."""
        return self.alias.evaluated_alias or self.alias.evaluated_name


def module_of(statement: cst.ImportFrom) -> str:
    """The module of imported names; empty for a relative import."""
    return "" if statement.relative else dotted(statement.module)


def bindings_of(source: Source) -> list[Binding]:
    """The bindings of a source with names that may move."""
    accesses: dict[tuple[Statement, str], list[tuple[cst.CSTNode, bool]]] = defaultdict(list)
    for scope in source.scopes():
        for assignment in scope.assignments:
            if isinstance(assignment, ImportAssignment) and isinstance(assignment.node, Statement):
                # Several referents: another statement gives the name a value, too.
                accesses[assignment.node, assignment.name] += [
                    (access.node, len(access.referents) == 1) for access in assignment.references
                ]
    bindings = []
    imports: list[Statement] = [*source.every(cst.Import), *source.every(cst.ImportFrom)]
    for statement in imports:
        if isinstance(statement.names, cst.ImportStar):
            continue
        module = module_of(statement) if isinstance(statement, cst.ImportFrom) else ""
        for alias in statement.names:
            name, local = alias.evaluated_name, alias.evaluated_alias
            path = f"{module}.{name}" if isinstance(statement, cst.ImportFrom) else name
            symbol = None if leads_to_known(path) else Symbol(module, name)
            if symbol and not is_known(module):
                continue
            heads = {local or name: path}
            if isinstance(statement, cst.Import) and not local:
                # `import a.b` binds a, and the source may use a, a.b or a longer path.
                heads = {head: head for head in accumulate(path.split("."), "{}.{}".format)}
            uses = [
                _use(source, node, bound, certain)
                for head, bound in heads.items()
                for node, certain in accesses[statement, head]
            ]
            bindings.append(Binding(statement, alias, "" if symbol else path, symbol, uses))
    return bindings


def _use(source: Source, node: cst.CSTNode, path: str, certain: bool) -> Use:
    """Follow the attributes of a module to the used name."""
    if not isinstance(node, cst.Name | cst.Attribute):  # an annotation may be a string
        return Use(node, None, certain)
    # `import a.b` and then `a.b.c`: the used name is the last attribute of the path.
    while leads_to_known(path):
        around = source.parent(node)
        if not isinstance(around, cst.Attribute) or around.value is not node:
            return Use(node, None, certain)
        node, path = around, f"{path}.{around.attr.value}"
    module, _, name = path.rpartition(".")
    return Use(node, Symbol(module, name), certain)


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """A call of something imported, which has the name `symbol` in agent_factory."""

    source: Source
    use: Use
    call: cst.Call
    symbol: Symbol

    def finding(self, node: cst.CSTNode, what: str, advice: Advice | str, **words: str) -> Finding:
        """A finding about an argument."""
        return self.source.finding(node, f"{self.symbol.name}({what})", advice, **words)


def calls_of(source: Source, bindings: Sequence[Binding]) -> list[CallSite]:
    """The calls of names that move or have moved, from top to bottom."""
    sites = [
        CallSite(source, use, call, home)
        for use in {use for binding in bindings for use in binding.uses}
        if use.symbol and (home := home_of(use.symbol))
        if isinstance(call := source.parent(use.node), cst.Call) and call.func is use.node
    ]
    return sorted(sites, key=lambda site: source.span(site.call))


def keyword_changes(site: CallSite, rows: Mapping[str, Keyword]) -> Iterator[Edit | Finding]:
    """Edits and findings of keywords with another name in agent_factory."""
    names = {arg.keyword.value for arg in site.call.args if arg.keyword}
    for arg in site.call.args:
        if arg.keyword is None or (row := rows.get(arg.keyword.value)) is None:
            continue
        what = f"{site.source.text(arg.keyword)}=..."
        if row.words:
            value = arg.value
            if isinstance(value, cst.SimpleString) and (word := row.words.get(value.raw_value)):
                yield site.source.edit(value, f"{value.quote}{word}{value.quote}")
        elif row.name in names:
            yield site.finding(arg, what, "twice", name=row.name)
        elif row.name and row.value is None:
            yield site.source.edit(arg.keyword, row.name)
        # The value changes as well, which is possible only for a number in the source.
        elif row.name and row.value and isinstance(site.source.value_of(arg.value), cst.Integer):
            yield site.source.edit(arg.keyword, row.name)
            yield site.source.edit(arg.value, row.value.format(site.source.text(arg.value)))
        else:
            yield site.finding(arg, what, Advice(row.why, row.write))
