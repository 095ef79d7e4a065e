"""The values of a migration: names, edits, findings, and the result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Factory(StrEnum):
    """Function in place of `create_react_agent`."""

    REACT = "create_react_agent"
    AGENT = "create_agent"


@dataclass(frozen=True, slots=True, order=True)
class Symbol:
    """A name in a module, such as `ToolNode` in `langgraph.prebuilt`."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """A new text for a span of a source; the span is in bytes of UTF-8."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Decision for a person.

    Args:
        line: The line, from 1.
        column: The character of the line, from 1.
        kind: A stable word for the kind: `argument`, `name`, ...
        what: The code in question.
        why: The reason.
        write: The proposal.
    """

    line: int
    column: int
    kind: str
    what: str
    why: str
    write: str

    def to_data(self) -> dict[str, Any]:
        """The finding for JSON, under the names of the fields."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Migration:
    """A migrated source.

    Args:
        before: The old source.
        text: The new source; equal where nothing moves.
        findings: Decisions for a person, from top to bottom of `before`.
    """

    before: str
    text: str
    findings: tuple[Finding, ...] = ()

    @property
    def changed(self) -> bool:
        """True if anything moves."""
        return self.text != self.before


def apply(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply edits to bytes."""
    parts, at = [], 0
    # Several bindings may lead to the same use, with equal edits.
    for edit in sorted(set(edits)):
        parts += [data[at : edit.start], edit.text.encode()]
        at = edit.end
    return b"".join([*parts, data[at:]])
