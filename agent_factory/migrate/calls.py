"""Calls of what moved: keywords that have another name here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from agent_factory.migrate.bindings import Binding, Use
from agent_factory.migrate.moves import Keyword, home_of
from agent_factory.migrate.source import Source
from agent_factory.migrate.values import Edit, Finding, Symbol


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """A call of something imported.

    Args:
        source: The source.
        use: The use that is called.
        call: The call.
        symbol: What is called, by its name here.
    """

    source: Source
    use: Use
    call: cst.Call
    symbol: Symbol

    def keyword(self, name: str) -> cst.Arg | None:
        """The keyword argument of a name."""
        return next((a for a in self.call.args if a.keyword and a.keyword.value == name), None)

    def finding(self, node: cst.CSTNode, what: str, why: str, write: str) -> Finding:
        """What a person has to decide about an argument."""
        return self.source.finding(node, "argument", f"{self.symbol.name}({what})", why, write)


def calls_of(source: Source, bindings: Sequence[Binding]) -> list[CallSite]:
    """The calls of what moves or has moved, from top to bottom."""
    found = [
        CallSite(source, use, call, home)
        for use in {use for binding in bindings for use in binding.uses}
        if use.symbol and (home := home_of(use.symbol))
        if isinstance(call := source.parent(use.node), cst.Call) and call.func is use.node
    ]
    return sorted(found, key=lambda site: source.span(site.call))


def keyword_changes(site: CallSite, rows: Mapping[str, Keyword]) -> Iterator[Edit | Finding]:
    """The keywords that have another name here, rewritten or told."""
    for arg in site.call.args:
        if arg.keyword and (row := rows.get(arg.keyword.value)):
            yield from _keyword_changes(site, arg, row)


def _keyword_changes(site: CallSite, arg: cst.Arg, row: Keyword) -> Iterator[Edit | Finding]:
    assert arg.keyword is not None
    if row.name is None:
        yield _told(site, arg, row.why, row.write)
    elif site.keyword(row.name):
        yield _told(site, arg, f"{row.name} is given, too", f"one of them, as {row.name}=...")
    elif row.value is None:
        yield site.source.edit(arg.keyword, row.name)
    elif isinstance(arg.value, cst.Integer):
        yield site.source.edit(arg.keyword, row.name)
        yield site.source.edit(arg.value, row.value.format(site.source.text(arg.value)))
    else:
        yield _told(site, arg, row.why, row.write)


def _told(site: CallSite, arg: cst.Arg, why: str, write: str) -> Finding:
    return site.finding(arg, f"{site.source.text(arg.keyword)}=...", why, write)  # type: ignore[arg-type]
