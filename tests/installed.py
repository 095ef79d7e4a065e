"""Run as a program: code in an environment in which only some packages seem to be installed.

It takes requirements and code as JSON: `{"requirements": [...], "code": [...]}`. Modules of
packages that the requirements do not bring cannot be found. It prints, for each piece of code, the
error as `Type: text`, or an empty text.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def closure(requirements: Iterable[str]) -> set[str]:
    """The packages that requirements bring, with their extras."""
    brought: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in brought:
                continue
            brought.add((name, extra))
            for text in distribution(name).requires or ():
                needed = Requirement(text)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    waiting.append(needed)
    return {name for name, _ in brought}


class Installed:
    """A finder that does not find the modules of other packages."""

    def __init__(self, packages: set[str]) -> None:
        self.hidden = {
            str(file.locate())
            for package in distributions()
            if canonicalize_name(package.name) not in {*packages, "agent-factory"}
            for file in package.files or ()
            if file.suffix in (".py", ".so", ".pyd")
        }

    def find_spec(self, name: str, path: Any = None, target: object = None) -> ModuleSpec | None:
        """The spec of a module, as Python finds it; an error if its package is hidden."""
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None or spec.origin not in self.hidden:
            return None
        # As `sys.modules[name] = None` does, for `find_spec` and for an import.
        sys.modules[name] = None  # type: ignore[assignment]
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def outcome(code: str) -> str:
    """The error of some code, as text."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            exec(code, {"__name__": "door"})
    except SystemExit as end:
        return f"SystemExit: {end} {errors.getvalue()}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Read the task, hide the packages, run the code."""
    task = json.load(sys.stdin)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    sys.meta_path.insert(0, Installed(closure(task["requirements"])))
    print(json.dumps([outcome(code) for code in task["code"]]))


if __name__ == "__main__":
    main()
