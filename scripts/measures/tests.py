"""Figures of the tests: waits too short for a slow machine, and private names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from measures.source import Source

WAITS = "# waits:"
"""A comment with the reason of a wait which no event can replace."""

OWNERS = ("tests/processes.py", "tests/waiting.py")
"""Files with the waits and the processes of all tests."""

LIMITS = ("timeout", "_seconds")
SLEEPS = ("time.sleep", "asyncio.sleep", "sleep")


def fixed_waits(files: Iterable[Source]) -> Iterator[str]:
    """Places where a test sleeps, sets a limit under a second, or starts a process by itself.

    In a virtual loop time passes at once: a file that runs in one may sleep there.
    """
    for file in files:
        if file.name in OWNERS:
            continue
        lines = file.text.splitlines()
        virtual = "run_virtually" in file.text or "VirtualLoop" in file.text
        for node in file.nodes:
            if not isinstance(node, ast.Call):
                continue
            problem = _wait(node, virtual)
            span = lines[node.lineno - 1 : node.end_lineno]
            if problem and not any(WAITS in line for line in span):
                yield f"{file.name}:{node.lineno} {problem}"


def _wait(call: ast.Call, virtual: bool) -> str | None:
    name = ast.unparse(call.func)
    if name in SLEEPS and call.args:
        in_loop = name == "asyncio.sleep"
        if ast.unparse(call.args[0]) not in ("0", "0.0") and not (in_loop and virtual):
            return f"{name}({ast.unparse(call.args[0])})"
    if name.rpartition(".")[2] == "Popen":
        return name
    for keyword in call.keywords:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        is_limit = keyword.arg is not None and keyword.arg.endswith(LIMITS)
        if is_limit and isinstance(value, int | float) and 0 < value < 1 and not virtual:
            return f"{keyword.arg}={value}"
    return None


def private_names(files: Iterable[Source]) -> Iterator[str]:
    """Uses of an underscored attribute of another object in a test."""
    for file in files:
        for node in file.nodes:
            if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
                continue
            if node.attr.startswith("__") or ast.unparse(node.value) in ("self", "cls"):
                continue
            yield f"{file.name}:{node.lineno} {node.attr}"
