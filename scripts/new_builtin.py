"""The first files of a built-in middleware, and an entry in each list.

Run as ``python scripts/new_builtin.py audit_trail --group Tools`` for AuditTrailMiddleware. It
writes what passes the checks; what the middleware does, and what its page says, is yours to write.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from string import Template

from agent_factory.cli.new import CLASS, Skeleton, snake_case

ROOT = Path(__file__).resolve().parent.parent

_TESTS = '''"""$title"""

from __future__ import annotations

from typing import Any

from agent_factory import create_agent
from agent_factory.middleware import (
    $kind,
)
from agent_factory.testing import ScriptedChatModel
from samples import last_text


def test_it_changes_nothing_yet(call: Any) -> None:
    agent = create_agent(ScriptedChatModel(["Hello."]), middleware=[$kind()])
    assert last_text(call(agent, {"messages": "Hi"})) == "Hello."
'''

_PAGE = """# $kind

$does

```python
from agent_factory import create_agent
from agent_factory.middleware import $kind
from agent_factory.testing import ScriptedChatModel

agent = create_agent(ScriptedChatModel(["Hello."]), middleware=[$kind()])
print(agent.invoke({"messages": "Hi"})["messages"][-1].text)
```

```output
Hello.
```

## Behavior

## When not to use it

## Where it belongs

## Hooks

One node hook, `before_model`.
"""

_DOES = "Changes nothing yet."


class NotPossible(Exception):
    """The name or the group cannot be used; the text has a suggestion."""


@dataclass(frozen=True)
class BuiltIn:
    """A new built-in in a checkout: the module and the group of docs."""

    root: Path
    module: str
    group: str

    @property
    def kind(self) -> str:
        """Name of the class."""
        return "".join(part.capitalize() for part in self.module.split("_")) + "Middleware"

    def files(self) -> dict[str, str]:
        """Each file, below the root, with the new text."""
        fields = {"kind": self.kind, "title": f"{self.kind}.", "does": _DOES}
        return {
            f"middleware/{self.module}.py": self._code(),
            f"tests/middleware/test_{self.module}.py": Template(_TESTS).substitute(fields),
            f"docs/middleware/{self.module}.md": Template(_PAGE).substitute(fields),
            "middleware/__init__.py": self._init(),
            "tests/middleware/test_any_stack.py": self._any_stack(),
            "tests/crossings/features.py": self._crossings(),
            "docs/index.md": self._index(),
            "docs/order.md": self._order(),
            "mkdocs.yml": self._nav(),
            "CHANGELOG.md": self._changelog(),
        }

    def _code(self) -> str:
        """The module. Spans leave out the request, as in all built-ins."""
        code = Skeleton(self.kind, "agent_factory.middleware", ["before_model"]).code
        policy = "trace_policy = TracePolicy(process_inputs=omit_payload)"
        for before, after in (
            ("    Runtime,\n)", "    Runtime,\n    TracePolicy,\n    omit_payload,\n)"),
            ("\n\n\nclass ", f'\n\n__all__ = ["{self.kind}"]\n\n\nclass '),
            ("\n    def ", f"\n    {policy}\n\n    def "),
        ):
            code = code.replace(before, after, 1)
        return code

    def _read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    def _init(self) -> str:
        text = self._read("middleware/__init__.py")
        imports = Block("    from .", "\n", r"    from \.(\w+) import")
        text = imports.insert(text, f"    from .{self.module} import *\n", self.module)
        table = Block("_HOME = {\n", "}", r'    "\.(\w+)":')
        return table.insert(text, f'    ".{self.module}": "{self.kind}",\n', self.module)

    def _any_stack(self) -> str:
        """The stacks of all built-ins, complete by a test."""
        text = self._read("tests/middleware/test_any_stack.py")
        table = Block("BUILT_INS: dict[str, Callable[[], Member]] = {\n", "}", r'    "(\w+)":')
        line = f'    "{self.module}": lambda: mw.{self.kind}(),\n'
        return table.insert(text, line, self.module)

    def _crossings(self) -> str:
        """The features tried together, complete by a test."""
        text = self._read("tests/crossings/features.py")
        table = Block("FEATURES: dict[str, Feature] = {\n", "}", r'    "(\w+)":')
        return table.insert(text, f'    "{self.module}": row(m.{self.kind}),\n', self.module)

    def _index(self) -> str:
        rows = Block(f"| **{self.group}** | |\n", r"\| \*\*|\n")
        row = f"| [{self.kind}](middleware/{self.module}.md) | {_DOES[0].lower()}{_DOES[1:-1]} |\n"
        return rows.insert(self._read("docs/index.md"), row)

    def _order(self) -> str:
        text = self._read("docs/order.md")
        last = max(int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE))
        rows = Block("| position |", r"\n")
        page = f"middleware/{self.module}.md"
        return rows.insert(
            text, f"| {last + 1} | [{self.kind}]({page}) | it changes nothing yet |\n"
        )

    def _nav(self) -> str:
        pages = Block(f"      - {self.group}:\n", r"(?!          )")
        return pages.insert(self._read("mkdocs.yml"), f"          - middleware/{self.module}.md\n")

    def _changelog(self) -> str:
        items = Block("### Added\n\n", r"\n")
        return items.insert(self._read("CHANGELOG.md"), f"- `{self.kind}`: changes nothing yet.\n")


@dataclass(frozen=True)
class Block:
    """The lines of a text from `start` on, up to a line that matches `end`."""

    start: str
    end: str
    entry: str | None = None
    """Pattern of the first line of an entry; entries are sorted by the group of the pattern."""

    def insert(self, text: str, line: str, name: str = "") -> str:
        """Insert a line in the order of names, or at the end."""
        begin = text.index(self.start) + self.start.rfind("\n") + 1
        lines = text[begin:].splitlines(keepends=True)
        at = 0
        while at < len(lines) and not re.match(self.end, lines[at]):
            entry = re.match(self.entry, lines[at]) if self.entry else None
            if entry and entry[1].lower() > name.lower():
                break
            at += 1
        return text[:begin] + "".join([*lines[:at], line, *lines[at:]])


def built_in(root: Path, name: str, group: str) -> BuiltIn:
    """Check a name and a group.

    Raises:
        NotPossible: The name or the group cannot be used.
    """
    words = re.sub(r"\W+", "_", name).strip("_")
    proposal = snake_case(words).removesuffix("_middleware")
    if name != proposal or not name.isidentifier() or iskeyword(name):
        good = proposal.isidentifier() and not iskeyword(proposal)
        raise NotPossible(
            f"NAME must be the name of a module, got {name!r}. "
            f"Write {proposal if good else 'one such as audit_trail'}."
        )
    new = BuiltIn(root, name, group)
    if len(new.kind) > CLASS.longest:
        raise NotPossible(
            f"The class may have {CLASS.longest} characters, and {new.kind} has {len(new.kind)}. "
            "Write a shorter NAME."
        )
    for path in (f"middleware/{name}.py", f"middleware/{name}", f"docs/middleware/{name}.md"):
        if (root / path).exists():
            raise NotPossible(f"{path} exists. Write another NAME.")
    if re.search(rf"\b{new.kind}\b", (root / "middleware/__init__.py").read_text()):
        raise NotPossible(f"{new.kind} exists. Write another NAME.")
    groups = re.findall(r"^\| \*\*(.+)\*\* \|", (root / "docs/index.md").read_text(), re.MULTILINE)
    if group not in groups:
        raise NotPossible(f"--group must be one of {', '.join(groups)}; got {group!r}.")
    return new


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", metavar="NAME", help="the module: audit_trail")
    parser.add_argument("--group", default="Tools", help="its group in docs/index.md")
    options = parser.parse_args(arguments)
    try:
        files = built_in(root, options.name, options.group).files()
    except NotPossible as error:
        print(error, file=sys.stderr)
        return 2
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8", newline="\n")
        print(name)
    print(
        "Next: write what it does, its page, and its lines in docs/index.md and CHANGELOG.md;\n"
        "declare its `ordering`, and move its row in docs/order.md; and for the new public name:\n"
        "python scripts/skill_pages.py\n"
        "python -m pytest tests/test_public_api.py --snapshot-update"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
