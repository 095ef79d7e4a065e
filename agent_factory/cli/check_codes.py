"""What a build can find, code by code: meaning, severity, example and remedy."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_factory.cli.check_examples import EXAMPLES, PRELUDE, Example
from agent_factory.errors import BUILD_CODES, BuildCode


@dataclass(frozen=True, slots=True)
class Code:
    """One code of a build, with an example.

    Args:
        entry: What the code means.
        example: A stack that gives it, and the remedy.
    """

    entry: BuildCode
    example: Example

    @property
    def code(self) -> str:
        """The stable code."""
        return self.entry.code

    @property
    def consequence(self) -> str:
        """What a build does about it, and whether that can be changed."""
        if self.entry.severity == "warning":
            return "A warning; an error under `strict=True`. It can be ignored."
        return f"An error. It can{'' if self.entry.ignorable else 'not'} be ignored."

    @property
    def text(self) -> str:
        """The whole entry, as plain text."""
        indented = "\n".join(f"    {line}".rstrip() for line in self.example.source.splitlines())
        words = f"{self.entry.meaning} {self.consequence}"
        return f"{self.code} {self.entry.name}\n{words}\n\n{indented}\n\n{self.example.hint}"

    def to_data(self) -> dict[str, Any]:
        """The same as a plain dict, for machines."""
        return {
            "code": self.code,
            "name": self.entry.name,
            "meaning": self.entry.meaning,
            "severity": self.entry.severity,
            "ignorable": self.entry.ignorable,
            "example": self.example.source,
            "hint": self.example.hint,
        }


def codes() -> list[Code]:
    """Every code that a build can find, in order."""
    return [Code(entry, EXAMPLES[code]) for code, entry in BUILD_CODES.items()]


def printed(example: Example) -> str:
    """What an example prints: its findings, a line each."""
    namespace: dict[str, Any] = {"__name__": "example"}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for source in (PRELUDE, example.source):
            # Without the future annotations of this file: the page is run without them, too.
            exec(compile(source, "<example>", "exec", dont_inherit=True), namespace)
    return out.getvalue()


_HEAD = """# Checks

What a build finds, by its code. `create_agent`, `plan_agent` and `agent-factory check` report all
findings of a build together.

- An *error* keeps the agent from being built: it is raised as a `SpecError`.
- A *warning* is something that may be intended, and usually is not. It is told by an
  `AgentFactoryWarning`, kept for `warnings_of(agent)`, and raised under `strict=True`.
- What can be ignored is left unsaid with `create_agent(..., ignore=["AF204"])`, and a warning also
  with `agent-factory check --ignore AF204`.

`agent-factory explain AF204` shows one entry at the terminal. AF100 and AF200 are the two families;
[errors](errors.md) lists all errors. This page is made from the code, by
`python -m agent_factory.cli.check_codes docs/checks.md`.

The examples share these lines:
"""

_FAMILIES = {"1": "What cannot be built", "2": "What is likely wrong"}
"""The two families of codes, by the digit after AF."""


def page() -> str:
    """The page, as Markdown."""
    found = codes()
    parts = [_HEAD, _block("python", PRELUDE)]
    for digit, title in _FAMILIES.items():
        parts.append(f"## {title}\n")
        for code in found:
            if code.code.startswith(f"AF{digit}"):
                parts += _entry(code)
    return "\n".join(parts)


def _entry(code: Code) -> Iterator[str]:
    yield f"### {code.code} {code.entry.name}\n"
    yield f"{code.entry.meaning} {code.consequence}\n"
    yield _block("python", code.example.source)
    yield _block("output", printed(code.example))
    yield f"Remedy: {code.example.hint}\n"


def _block(kind: str, text: str) -> str:
    return f"```{kind}\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8", newline="\n")
