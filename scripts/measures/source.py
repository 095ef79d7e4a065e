"""Figures of the source: imports, names, copies and documentation of files."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import grimp
from langchain_core.language_models import BaseChatModel

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = (ROOT / "agent_factory", ROOT / "middleware")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


@dataclass(frozen=True)
class Source:
    """A Python file: the name below the root, and the text."""

    name: str
    text: str

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the syntax tree."""
        return list(ast.walk(ast.parse(self.text)))

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """Every token, comments included."""
        return list(tokenize.generate_tokens(io.StringIO(self.text).readline))

    @property
    def lines(self) -> int:
        """All lines, with docstrings and blank lines."""
        return len(self.text.splitlines())

    @property
    def folder(self) -> str:
        """The package of the file, `agent_factory/state` or `middleware/budget`."""
        return str(Path(self.name).parent)

    @cached_property
    def docstrings(self) -> list[ast.Constant]:
        """The docstrings of the module, of classes and of functions."""
        return [
            node.body[0].value
            for node in self.nodes
            if isinstance(node, Documented)
            and ast.get_docstring(node) is not None
            and isinstance(node.body[0], ast.Expr)
            and isinstance(node.body[0].value, ast.Constant)
        ]


@cache
def sources() -> list[Source]:
    """Every Python file of the package; the symlink to `middleware/` is not followed."""
    return [
        _read(path)
        for folder in FOLDERS
        for path in sorted(folder.rglob("*.py"))
        if not path.is_relative_to(ROOT / "agent_factory" / "middleware")
    ]


@cache
def sources_of_tests() -> list[Source]:
    """Every Python file of the tests, without foreign samples and installed packages."""
    return [
        _read(path)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if not {"fixtures", "node_modules"} & set(path.relative_to(ROOT).parts)
    ]


def _read(path: Path) -> Source:
    return Source(str(path.relative_to(ROOT)), path.read_text())


_NO_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
)


def code_lines(source: Source) -> int:
    """The lines of code: not blank, no comment, no docstring."""
    lines = {
        line
        for token in source.tokens
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for docstring in source.docstrings:
        lines -= set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return len(lines)


def any_count(source: Source) -> int:
    """Number of uses of `Any`, imports included."""
    return sum(token.string == "Any" for token in source.tokens)


def comment_lines(source: Source) -> int:
    """The lines with a comment alone; a comment after code, as for mypy, does not count."""
    return sum(
        token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
        for token in source.tokens
    )


_CLAUSE = re.compile(r"\s*(?:What(?:ever)?|Who[a-z]*|Whether|Where|How|When|Why|Which|That)\b")


def clauses(source: Source) -> list[int]:
    """The lines of the docstrings that begin as a relative clause: "What ...", "Whether ..."."""
    return [doc.lineno for doc in source.docstrings if _CLAUSE.match(str(doc.value))]


def bound_names(source: Source) -> Iterator[str]:
    """The names bound by assignments, arguments and loops, attributes and fields included."""
    for node in source.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg


def copies(tests: Iterable[Source]) -> dict[str, list[str]]:
    """The helpers of tests with the same body, under that body: module-level, and not tests.

    Names of functions and classes, their arguments and their docstrings may differ.
    """
    bodies: dict[str, list[str]] = {}
    for source in tests:
        for node in ast.parse(source.text).body:
            if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("test"):
                continue
            if body := _body(node):
                bodies.setdefault(body, []).append(f"{source.name}:{node.lineno} {node.name}")
    return {body: places for body, places in bodies.items() if len(places) > 1}


def _body(node: Function | ast.ClassDef) -> str:
    statements = node.body if ast.get_docstring(node) is None else node.body[1:]
    bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
    return "\n".join(bases + [ast.unparse(s) for s in statements]) if statements else ""


def used_once(files: Iterable[Source]) -> tuple[list[str], int]:
    """The private functions with a single use, and the number of private functions."""
    single: list[str] = []
    total = 0
    for source in files:
        uses = Counter(_names(source))
        for node in source.nodes:
            if not isinstance(node, Function):
                continue
            if not node.name.startswith("_") or node.name.startswith("__"):
                continue
            if hasattr(BaseChatModel, node.name):
                continue  # an override, which LangChain calls
            total += 1
            if uses[node.name] == 1:  # without a use, a base class or a framework is the caller
                single.append(f"{source.name}:{node.lineno} {node.name}")
    return single, total


def _names(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def circles() -> list[set[str]]:
    """Groups of modules with mutual imports, imports for type checkers included."""
    graph = grimp.build_graph("agent_factory")
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    reach: dict[str, set[str]] = {}
    for name in imports:
        modules: set[str] = set()
        todo = [name]
        while todo:
            for other in imports[todo.pop()] - modules:
                modules.add(other)
                todo.append(other)
        reach[name] = modules
    groups = {frozenset(o for o in reach[n] if n in reach[o]) for n in reach if n in reach[n]}
    return [set(group) for group in groups]


def context_variables(source: Source) -> int:
    """The context variables of a file."""
    return sum(
        isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "ContextVar"
        for node in source.nodes
    )


_UNPUBLISHED = re.compile(
    r"__pregel_|_messages_delta_reducer|\b(?:langgraph|langchain_core)[\w.]*\._\w|CONFIG_KEY_"
    r"|langgraph_step|langgraph_checkpoint_ns|\.control\b|_run_one|_arun_one|_afunc\b|_func\b"
)
"""Marks of undocumented parts of LangGraph and langchain-core."""


def is_unpublished(source: Source) -> bool:
    """Return True if a file relies on unpublished behaviour of LangGraph or langchain-core."""
    prose = set(source.docstrings)
    for node in source.nodes:
        text = ""
        if isinstance(node, ast.Attribute):
            text = f".{node.attr}"
        elif isinstance(node, ast.Constant) and node not in prose:
            text = str(node.value)
        elif isinstance(node, ast.alias):
            text = node.name
        if _UNPUBLISHED.search(text):
            return True
    return False
