"""A parsed source: spans, lines, scopes, and the values of names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

import libcst as cst
from libcst.metadata import (
    Assignment,
    ByteSpanPositionProvider,
    CodeSpan,
    MetadataWrapper,
    ParentNodeProvider,
    Scope,
    ScopeProvider,
)

from agent_factory.migrate.moves import ADVICE, Advice
from agent_factory.migrate.values import Edit, Finding

NodeT = TypeVar("NodeT", bound=cst.CSTNode)

MOST_BRACKETS = 200
"""Nested brackets; CPython allows as many. libcst takes minutes for some thousands, and ends the
process for some more."""

_BRACKET = re.compile(r"[][(){}]")
_STRING_OR_COMMENT = re.compile(r"(\"{3}|'{3})[\s\S]*?\1|\"[^\"\n]*\"|'[^'\n]*'|#.*")
_BREAK = re.compile(rb"\r\n|\r|\n")


class UnreadableSource(ValueError):
    """A source is not readable as Python; the message says why."""


class Source:
    """A parsed text with original line breaks."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        # Brackets in strings and comments do not count; most sources need not be searched for them.
        if (
            _nesting(text) > MOST_BRACKETS
            and _nesting(_STRING_OR_COMMENT.sub("", text)) > MOST_BRACKETS
        ):
            raise UnreadableSource(f"more than {MOST_BRACKETS} brackets are open at once")
        try:
            module = cst.parse_module(text)
        except (cst.ParserSyntaxError, cst.CSTValidationError) as error:
            # CSTValidationError: letters outside of this Python's Unicode tables.
            place = f"line {error.raw_line}: " if isinstance(error, cst.ParserSyntaxError) else ""
            raise UnreadableSource(f"{place}{getattr(error, 'message', error)}") from None
        if module.code != text:
            raise UnreadableSource("its parse tree would not reproduce each of its bytes")
        # The copy is for trees in which a node occurs twice, which a parser never makes.
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        self.module = module
        self._spans: Mapping[cst.CSTNode, CodeSpan] = wrapper.resolve(ByteSpanPositionProvider)
        self._parents: Mapping[cst.CSTNode, cst.CSTNode] = wrapper.resolve(ParentNodeProvider)
        self._scopes: Mapping[cst.CSTNode, Scope | None] = wrapper.resolve(ScopeProvider)

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the start and the end of a node, without white space around."""
        span = self._spans[node]
        return span.start, span.start + span.length

    def text(self, node: cst.CSTNode) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def edit(self, node: cst.CSTNode, text: str) -> Edit:
        """An edit with a new text for a node."""
        return Edit(*self.span(node), text)

    def finding(self, node: cst.CSTNode, what: str, advice: Advice | str, **words: str) -> Finding:
        """A finding about a node, with advice, or the advice of a key; words are filled in."""
        if isinstance(advice, str):
            row = ADVICE[advice]
            advice = replace(row, why=row.why.format(**words), write=row.write.format(**words))
        before = self.data[: self.span(node)[0]]
        lines = _BREAK.split(before)
        # Spans count bytes, and columns count characters.
        return Finding(
            len(lines), len(lines[-1].decode()) + 1, advice.kind, what, advice.why, advice.write
        )

    def line_start(self, position: int) -> str:
        """The text of a line before a position."""
        return _BREAK.split(self.data[:position])[-1].decode()

    def newline_at(self, position: int) -> str:
        """The line break after a position; in the last line, the default of the file."""
        match = _BREAK.search(self.data, position)
        return match[0].decode() if match else self.module.default_newline

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node around a node."""
        return self._parents.get(node)

    def every(self, kind: type[NodeT]) -> Iterator[NodeT]:
        """All nodes of a kind."""
        return (node for node in self._parents if isinstance(node, kind))

    def scopes(self) -> set[Scope]:
        """All scopes."""
        return {scope for scope in self._scopes.values() if scope is not None}

    def value_of(self, node: cst.BaseExpression) -> cst.CSTNode:
        """The value of a name with a single assignment; otherwise the node itself."""
        scope = self._scopes.get(node)
        if not isinstance(node, cst.Name) or scope is None:
            return node
        assignments = list(scope[node.value])
        # Of several assignments, any may count.
        if len(assignments) != 1 or not isinstance(assignments[0], Assignment):
            return node
        target = assignments[0].node
        if isinstance(target, cst.FunctionDef | cst.ClassDef):
            return target
        holder = self.parent(target)
        if isinstance(holder, cst.AssignTarget):
            holder = self.parent(holder)
        if isinstance(holder, cst.AnnAssign | cst.Assign):
            return holder.value or node
        return node


def _nesting(text: str) -> int:
    """Return the largest number of open brackets."""
    steps = (1 if bracket in "([{" else -1 for bracket in _BRACKET.findall(text))
    return max(accumulate(steps), default=0)


def descendants(node: cst.CSTNode, kind: type[NodeT]) -> Iterator[NodeT]:
    """All nodes of a kind in a node, from top to bottom, the node included."""
    if isinstance(node, kind):
        yield node
    for child in node.children:
        yield from descendants(child, kind)


def dotted(node: cst.BaseExpression | None) -> str:
    """A dotted name as text; the empty text for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr.value}"
    return ""
