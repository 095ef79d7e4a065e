"""docs/checks.md, made from the codes of a build and their examples: `make pages` writes it."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

from agent_factory.cli.codes import EXAMPLES, PRELUDE
from agent_factory.errors import BUILD_CODES

_HEAD = """# Checks

The problems that a build can report, by code, each with the smallest stack that causes it.
`create_agent`, `plan_agent` and `agent-factory check` report all problems of a build together.

- An *error* keeps the agent from being built: a `SpecError`, or
  [a narrower class](errors.md#when-an-agent-is-built).
- A *warning* is something that may be intended, and usually is not: an `AgentFactoryWarning`,
  kept for `warnings_of(agent)`, and an error with `strict=True`.
- `create_agent(..., ignore=["AF204"])` suppresses a warning, or an error that can be ignored;
  `agent-factory check --ignore AF204` a warning.

`agent-factory explain AF204` shows one code in the terminal, with general advice. AF100 and AF200
are the two families. `python scripts/checks_page.py docs/checks.md` writes this page.

The examples share these lines:
"""

_FAMILIES = {"AF1": "Errors", "AF2": "Warnings"}
"""The two families of codes, by their first digit."""


def printed(source: str) -> str:
    """The output of an example: a line for each finding."""
    namespace: dict[str, Any] = {"__name__": "example"}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for part in (PRELUDE, source):
            # dont_inherit: readers run the page without this module's future import, too.
            exec(compile(part, "<example>", "exec", dont_inherit=True), namespace)
    return out.getvalue()


def page() -> str:
    """The page, as Markdown."""

    def block(kind: str, text: str) -> str:
        return f"```{kind}\n{text.rstrip()}\n```\n"

    parts = [_HEAD, block("python", PRELUDE)]
    for family, title in _FAMILIES.items():
        parts.append(f"## {title}\n")
        for code, entry in BUILD_CODES.items():
            if code.startswith(family):
                example = EXAMPLES[code]
                # Each warning can be ignored: the head of the page says so.
                can_be_ignored = entry.ignorable and entry.severity == "error"
                parts += [
                    f"### {code} {entry.name}\n",
                    f"{entry.meaning}{' It can be ignored.' * can_be_ignored}\n",
                    block("python", example.source),
                    block("output", printed(example.source)),
                ]
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8", newline="\n")
