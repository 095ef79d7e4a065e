"""Every code that a build can report: meaning, severity, example and hint; and docs/checks.md."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_factory.cli.check_examples import EXAMPLES, PRELUDE, Example
from agent_factory.errors import BUILD_CODES, BuildCode


@dataclass(frozen=True, slots=True)
class Code:
    """A code that a build can report: its meaning, and an example."""

    entry: BuildCode
    example: Example

    @property
    def code(self) -> str:
        """The stable code."""
        return self.entry.code

    @property
    def consequence(self) -> str:
        """What a build does about it, and whether it can be ignored."""
        if self.entry.severity == "warning":
            return "A warning; an error with `strict=True`. It can be ignored."
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
    """Every code that a build can report, in order."""
    return [Code(entry, EXAMPLES[code]) for code, entry in BUILD_CODES.items()]


def printed(example: Example) -> str:
    """The output of an example: its findings, one a line."""
    namespace: dict[str, Any] = {"__name__": "example"}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for source in (PRELUDE, example.source):
            # dont_inherit: readers run the page without this module's future import, too.
            exec(compile(source, "<example>", "exec", dont_inherit=True), namespace)
    return out.getvalue()


_HEAD = """# Checks

The problems that a build can report, by code. `create_agent`, `plan_agent` and
`agent-factory check` report all problems of a build together.

- An *error* keeps the agent from being built. It is raised as a `SpecError`.
- A *warning* is something that may be intended, and usually is not. It is shown as an
  `AgentFactoryWarning`, is kept for `warnings_of(agent)`, and becomes an error with `strict=True`.
- `create_agent(..., ignore=["AF204"])` suppresses what can be ignored.
  `agent-factory check --ignore AF204` suppresses a warning.

`agent-factory explain AF204` shows one entry in the terminal. AF100 and AF200 are the two families;
[errors](errors.md) lists all errors. This page is generated from the code, by
`python -m agent_factory.cli.check_codes docs/checks.md`.

The examples share these lines:
"""

_FAMILIES = {"AF1": "Errors", "AF2": "Warnings"}
"""The two families of codes, by their first digit."""


def page() -> str:
    """The page, as Markdown."""

    def block(kind: str, text: str) -> str:
        return f"```{kind}\n{text.rstrip()}\n```\n"

    parts = [_HEAD, block("python", PRELUDE)]
    for family, title in _FAMILIES.items():
        parts.append(f"## {title}\n")
        for code in codes():
            if code.code.startswith(family):
                parts += [
                    f"### {code.code} {code.entry.name}\n",
                    f"{code.entry.meaning} {code.consequence}\n",
                    block("python", code.example.source),
                    block("output", printed(code.example)),
                    f"What to do: {code.example.hint}\n",
                ]
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8", newline="\n")
