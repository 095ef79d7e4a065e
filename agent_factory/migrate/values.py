"""What a migration is made of: names, edits of a text, and what is left to a person."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Factory(StrEnum):
    """What calls of `create_react_agent` become."""

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
    """Other text for a span of a source, in bytes of its UTF-8 form."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """What a person has to decide.

    Args:
        line: Where it is; the first line is 1.
        column: The character of the line; the first is 1.
        kind: What it is about, in a word that stays the same: `argument`, `name`, ...
        what: What was found.
        why: Why it cannot be decided here.
        write: What to write.
    """

    line: int
    column: int
    kind: str
    what: str
    why: str
    write: str

    def to_data(self) -> dict[str, Any]:
        """The finding for JSON, under the names of its fields."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Migration:
    """What became of a source.

    Args:
        before: The source as it was.
        text: The source as it is then; the same where nothing moves.
        findings: What a person has to decide, from top to bottom of `before`.
    """

    before: str
    text: str
    findings: tuple[Finding, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything moves."""
        return self.text != self.before


def apply(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Bytes after some edits; what no edit names stays as it is.

    >>> apply(b"a, b", {Edit(3, 4, "c"), Edit(0, 1, "x")})
    b'x, c'
    """
    parts, at = [], 0
    for edit in sorted(set(edits)):
        parts += [data[at : edit.start], edit.text.encode()]
        at = edit.end
    return b"".join([*parts, data[at:]])
