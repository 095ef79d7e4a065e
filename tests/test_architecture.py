"""Limits of the source: file and function length, imports, docstrings, duplication."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from inspect import getsource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

from tables import each

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(
    path
    for top in ("agent_factory", "middleware")
    for path in (ROOT / top).rglob("*.py")
    if not path.relative_to(ROOT).is_relative_to("agent_factory/middleware")
)
Function = ast.FunctionDef | ast.AsyncFunctionDef

LONGEST_FILE = 800
LONGEST_FUNCTION = 60
DEEPEST_NESTING = 2


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path)))


def functions(path: Path) -> list[Function]:
    return [node for node in nodes(path) if isinstance(node, Function)]


def body_length(function: Function) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    if not body:
        return 0
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def nesting(function: Function) -> int:
    def depth(node: ast.AST) -> int:
        inner = [
            1 + depth(child) if isinstance(child, Function) else depth(child)
            for child in ast.iter_child_nodes(node)
        ]
        return max(inner, default=0)

    return depth(function)


def test_files_and_functions_have_a_length_that_can_be_read() -> None:
    for path in SOURCES:
        assert len(path.read_text().splitlines()) <= LONGEST_FILE, path
        for function in functions(path):
            assert body_length(function) <= LONGEST_FUNCTION, f"{path}:{function.name}"
            assert nesting(function) <= DEEPEST_NESTING, f"{path}:{function.name}"


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, and what it imports of them."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}", *(f"{node.module}.{name.name}" for name in node.names))
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_no_private_module_of_a_dependency_is_imported() -> None:
    private = re.compile(r"(langgraph|langchain_core|langchain|langsmith)(\..*)?\._")
    names = [(path, name) for path in SOURCES for name in imported(path)]
    assert not [(str(path), name) for path, name in names if private.match(name)]


@each("package", ["serve", "service"])
def test_service_and_serve_import_the_faces_of_other_packages(package: str) -> None:
    """A face is a package or a module in the root: `agent_factory.review`, and not its modules."""
    paths = [path for path in SOURCES if path.is_relative_to(ROOT / "agent_factory" / package)]
    froms = [n for path in paths for n in nodes(path) if isinstance(n, ast.ImportFrom) and n.module]
    past = {
        f"{module}.{name.name}".removeprefix("agent_factory.")
        for node in froms
        if (module := str(node.module)).startswith("agent_factory.")
        for name in node.names
        if module.split(".")[1] != package
        and module.count(".") > 1
        and not (ROOT / module.replace(".", "/")).is_dir()
    }
    assert past == set()


def test_only_wiring_adds_nodes_and_edges() -> None:
    adds = {"add_node", "add_edge", "add_conditional_edges", "add_sequence"}
    found = {
        path.name
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in adds
    }
    assert found <= {"wiring.py", "subagent.py"}  # the latter: a task for each of several requests


def test_every_public_name_has_a_docstring() -> None:
    for path in SOURCES:
        assert ast.get_docstring(parsed(path)), path
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_"):
                overload = any("overload" in ast.unparse(d) for d in node.decorator_list)
                assert overload or ast.get_docstring(node), f"{path}:{node.name}"


PLAN = ("declarations", "model", "planner", "transitions")


@each("name", PLAN)
def test_a_plan_needs_the_standard_library_alone(name: str) -> None:
    path = ROOT / "agent_factory" / "topology" / f"{name}.py"
    modules = {node.module or "" for node in nodes(path) if isinstance(node, ast.ImportFrom)}
    ours = {f"agent_factory.topology.{other}" for other in PLAN}
    assert {module.partition(".")[0] for module in modules - ours} <= sys.stdlib_module_names


def test_sync_and_async_are_written_once() -> None:
    """No two functions have one body once `await` and the `a` of names are taken out."""
    seen: dict[str, str] = {}
    for path in SOURCES:
        for function in functions(path):
            if body_length(function) <= 5:
                continue  # the four places where mode is allowed are this short
            body = function.body[1:] if ast.get_docstring(function) else function.body
            text = re.sub(r"\bawait |\ba(?=[a-z]+\()", "", "\n".join(map(ast.unparse, body)))
            where = f"{path.name}:{function.name}"
            assert text not in seen, f"{where} says what {seen[text]} says"
            seen[text] = where


def reads_kills(item: Any) -> bool:
    """Return True if a test kills as many workers as the profile says."""
    return item.path.name == "test_kills.py" and "KILLS" in getsource(item.function)


def test_no_law_is_left_out_of_proofs(request: pytest.FixtureRequest) -> None:
    """`make prove` runs what is marked `law`: hypothesis's tests, and where its profile is read."""
    items = request.session.items
    drawn = {item for item in items if is_hypothesis_test(getattr(item, "function", None))}
    read = {item for item in items if item.path.name == "test_fused_laws.py" or reads_kills(item)}
    assert drawn | read <= {item for item in items if item.get_closest_marker("law")}
