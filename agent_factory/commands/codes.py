"""What a build can find, code by code: meaning, severity, example and remedy."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from agent_factory.commands.check_examples import EXAMPLES, PRELUDE, Example
from agent_factory.errors import SpecError


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of finding.

    Args:
        kind: Its class.
        example: A stack that gives it, and the remedy.
    """

    kind: type[SpecError]
    example: Example

    @property
    def code(self) -> str:
        """The stable code."""
        return self.kind.code

    @property
    def meaning(self) -> str:
        """What it says of a stack."""
        paragraph = (inspect.getdoc(self.kind) or "").partition("\n\n")[0]
        return " ".join(paragraph.split())

    @property
    def consequence(self) -> str:
        """What a build does about it, and whether that can be changed."""
        if self.kind.severity == "warning":
            return "A warning; an error under `strict=True`. It can be ignored."
        return f"An error. It can{'' if self.kind.ignorable else 'not'} be ignored."

    @property
    def text(self) -> str:
        """The whole entry, as plain text."""
        indented = "\n".join(f"    {line}".rstrip() for line in self.example.source.splitlines())
        words = f"{self.meaning} {self.consequence}"
        return f"{self.code} {self.kind.__name__}\n{words}\n\n{indented}\n\n{self.example.remedy}"

    def to_data(self) -> dict[str, Any]:
        """The same as a plain dict, for machines."""
        return {
            "code": self.code,
            "name": self.kind.__name__,
            "meaning": self.meaning,
            "severity": self.kind.severity,
            "ignorable": self.kind.ignorable,
            "example": self.example.source,
            "remedy": self.example.remedy,
        }


def codes() -> list[Code]:
    """Every code that a build can find, in order."""
    from agent_factory import errors, findings, stack

    kinds = {kind.code: kind for module in (errors, findings, stack) for kind in _kinds_in(module)}
    return [Code(kinds[code], EXAMPLES[code]) for code in sorted(EXAMPLES)]


def _kinds_in(module: ModuleType) -> Iterator[type[SpecError]]:
    for value in vars(module).values():
        if inspect.isclass(value) and issubclass(value, SpecError):
            yield value


def printed(example: Example) -> str:
    """What an example prints: its findings, a line each."""
    namespace: dict[str, Any] = {"__name__": "example"}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for source in (PRELUDE, example.source):
            # Without the future annotations of this file: the page is run without them, too.
            exec(compile(source, "<example>", "exec", dont_inherit=True), namespace)
    return out.getvalue()
