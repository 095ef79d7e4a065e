"""Changes since the last release of main: paths, and the subjects of a test."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASED = ROOT / ".ci" / "released"
"""A file with the last released commit of main; `BASE` in the environment comes first."""


def git(*words: str) -> str | None:
    """The output of git, or None after a failure: no repository, or no such commit."""
    command = ["git", "-C", str(ROOT), *words]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else None


def base() -> str | None:
    """The commit to compare with: `BASE`, the file `.ci/released`, or the newest tag.

    None if there is none, or if this checkout has not its history: then everything counts as
    changed.
    """
    candidates = [os.environ.get("BASE") or None]
    candidates += [RELEASED.read_text().strip()] if RELEASED.exists() else []
    candidates += [git("describe", "--tags", "--abbrev=0")]
    for commit in candidates:
        if commit and git("merge-base", "--is-ancestor", commit, "HEAD") is not None:
            return commit
    return None


@cache
def changed() -> frozenset[str] | None:
    """Changed paths since the base, committed or not; None if all count as changed."""
    commit = base()
    names = git("diff", "--name-only", commit) if commit else None
    created = git("ls-files", "--others", "--exclude-standard")
    if names is None or created is None:
        return None
    return frozenset([*names.splitlines(), *created.splitlines()])


def matches(patterns: tuple[str, ...]) -> bool:
    """Return True if a changed path matches one of some patterns of `fnmatch`.

    Their `*` matches `/`, too. Where the base is unknown, every pattern matches.
    """
    paths = changed()
    if paths is None:
        return True
    return any(fnmatchcase(path, pattern) for path in paths for pattern in patterns)


def touched(test: str) -> list[str]:
    """Changes behind a test: the test, and the modules of the package named in the test.

    Args:
        test: The id of a test, such as "tests/runtime/test_layers.py::test_layers_are_nested".
    """
    paths, modules = changed(), subjects(test)
    files = modules if paths is None else modules & paths
    return [*(["the test"] if _has_changed(test) else []), *sorted(files)]


def subjects(test: str) -> set[str]:
    """The modules of the package named in the file of a test."""
    path = ROOT / test.partition("::")[0]
    if not path.exists():
        return set()
    imports = (row for row in _imports(path) if row[0].partition(".")[0] == "agent_factory")
    files = {file for module, names in imports for file in _sources(module, names)}
    return {str(file.relative_to(ROOT)) for file in files if file.exists()}


def _has_changed(test: str) -> bool:
    """Return True if the function of a test differs from the base, with decorators."""
    file, _, rest = test.partition("::")
    paths, name = changed(), rest.partition("[")[0].rpartition("::")[2]
    if paths is None:
        return True
    if file not in paths:
        return False
    before = git("show", f"{base()}:{file}")
    return before is None or _function(before, name) != _function((ROOT / file).read_text(), name)


def _function(source: str, name: str) -> str | None:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return ast.dump(node)
    return None


def _imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


def _sources(module: str, names: list[str]) -> Iterator[Path]:
    """The files of a module of the package, and of the names imported by a test."""
    try:
        imported = importlib.import_module(module)
    except ImportError:
        return
    objects = [getattr(imported, name, None) for name in names] or [imported]
    for value in objects:
        origin = getattr(value, "__module__", None) or getattr(value, "__name__", module)
        source = imported
        if str(origin).startswith("agent_factory"):
            source = importlib.import_module(str(origin))
        if source.__file__:  # an editable install leads here by links
            file = Path(source.__file__).resolve()
            if file.is_relative_to(ROOT):
                yield file
