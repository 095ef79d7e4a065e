"""Codes of checks and errors, from codes.toml: an example or a class, and advice for each."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

_CODES = tomllib.loads((files("agent_factory.cli") / "codes.toml").read_text(encoding="utf-8"))

PRELUDE: Final[str] = _CODES["prelude"]
"""First lines of every example."""


@dataclass(frozen=True, slots=True)
class Example:
    """Python with a single finding, and advice about findings of this code."""

    source: str
    hint: str

    @property
    def complete(self) -> str:
        """The source with all imports and definitions in use, to be run alone."""
        # Alone, the source needs no `check`, which prints the report of plan_agent.
        source = re.sub(r"\bcheck\(", "plan_agent(", self.source)
        parts: list[str] = []
        # From the last definition upward: each one uses only definitions above.
        for node in reversed(ast.parse(PRELUDE).body):
            tree = ast.parse("\n".join([*parts, source]))
            names = {name.id for name in ast.walk(tree) if isinstance(name, ast.Name)}
            if isinstance(node, ast.ImportFrom):
                node.names = [alias for alias in node.names if alias.name in names]
                parts[:0] = [ast.unparse(node)] if node.names else []
            elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
                parts[:0] = ["\n", ast.get_source_segment(PRELUDE, node) or "", "\n"]
        return "\n".join([*parts, source])


EXAMPLES: Final = {
    code: Example(entry["example"], " ".join(entry["hint"].split()))
    for code, entry in _CODES["checks"].items()
}
"""Smallest stack that causes each code of a build; docs/checks.md shows all of them."""

ERROR_CODES: Final[dict[str, tuple[str, str]]] = {
    code: (entry["class"], " ".join(entry["hint"].split()))
    for code, entry in _CODES["errors"].items()
}
"""Path of the class, and advice, for each code that is not a finding of a build."""
