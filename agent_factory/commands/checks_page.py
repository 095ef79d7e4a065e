"""Write docs/checks.md: `python -m agent_factory.commands.checks_page docs/checks.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from agent_factory.commands.check_examples import PRELUDE
from agent_factory.commands.codes import Code, codes, printed

_HEAD = """# Checks

What a build finds, by its code. `create_agent`, `plan_agent` and `agent-factory check` report all
findings of a build together.

- An *error* keeps the agent from being built: it is raised as a `SpecError`.
- A *warning* is something that may be intended, and usually is not. It is told by an
  `AgentFactoryWarning`, kept for `findings_of(agent)`, and raised under `strict=True`.
- What can be ignored is left unsaid with `create_agent(..., ignore=["AF204"])`, and a warning also
  with `agent-factory check --ignore AF204`.

`agent-factory explain AF204` shows one entry at the terminal. AF100 and AF200 are the two families;
[errors](errors.md) lists all classes. This page is made from the code, by
`python -m agent_factory.commands.checks_page docs/checks.md`.

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
    yield f"### {code.code} {code.kind.__name__}\n"
    yield f"{code.meaning} {code.consequence}\n"
    yield _block("python", code.example.source)
    yield _block("output", printed(code.example))
    yield f"Remedy: {code.example.remedy}\n"


def _block(kind: str, text: str) -> str:
    return f"```{kind}\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8", newline="\n")
