"""What the source costs a reader: files entered, frames stacked, helpers used once, lines.

Run as ``python scripts/figures.py``; with ``--check`` it fails where a goal is missed, and
with ``--json`` it prints one object. CONTRIBUTING.md explains the figures.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grimp
from langchain_core.language_models import BaseChatModel

from agent_factory import AgentMiddleware, create_agent
from agent_factory.testing import ScriptedChatModel

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "agent_factory", ROOT / "middleware")


@dataclass(frozen=True)
class Figure:
    """One figure and its goal, the most that it may be."""

    name: str
    value: float
    goal: float

    @property
    def is_reached(self) -> bool:
        """Whether the goal holds."""
        return self.value <= self.goal


def sources() -> list[Path]:
    """Every Python file of the package; the symlink to `middleware/` is not followed."""
    return sorted(
        path
        for folder in FOLDERS
        for path in folder.rglob("*.py")
        if not path.is_relative_to(ROOT / "agent_factory" / "middleware")
    )


def is_ours(filename: str) -> bool:
    """Whether a frame's file belongs to the package."""
    return any(filename.startswith(f"{folder}/") for folder in FOLDERS)


@dataclass
class Trace:
    """The files and frames of the package that a call enters, in all threads."""

    files: set[str] = field(default_factory=set)
    deepest: int = 0

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        """Note a frame that begins; `sys.setprofile` calls this."""
        if event != "call" or not is_ours(frame.f_code.co_filename):
            return
        self.files.add(frame.f_code.co_filename)
        depth, walked = 0, frame
        while walked is not None:
            depth += is_ours(walked.f_code.co_filename)
            walked = walked.f_back
        self.deepest = max(self.deepest, depth)


def traced(call: Callable[[], Any]) -> Trace:
    """Run a call and note what it enters."""
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # None ends it, as the docs say
    return trace


class First(AgentMiddleware[Any, Any]):
    """A layer around tool calls that changes nothing."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Call the next layer."""
        return handler(request)


class Second(First):
    """Another one."""


class Hooked(AgentMiddleware[Any, Any]):
    """A pair of hooks that changes nothing."""

    def before_model(self, state: Any, runtime: Any) -> None:
        """Do nothing."""

    def after_model(self, state: Any, runtime: Any) -> None:
        """Do nothing."""


def add(a: int, b: int) -> int:
    """Add two numbers; it raises for negative ones."""
    if a < 0:
        raise ZeroDivisionError("negative")
    return a + b


def _wrapped(a: int, *, fused: bool) -> tuple[Any, dict[str, Any]]:
    model = ScriptedChatModel([[{"name": "add", "args": {"a": a, "b": 3}}], "Done."] * 2)
    agent = create_agent(
        model, [add], middleware=[First(), Second()], handle_tool_errors=False, fused=fused
    )
    return agent, {"messages": [("user", "Add.")]}


def tool_call(*, fused: bool) -> Trace:
    """One run of an agent whose model calls a tool behind two layers."""
    agent, message = _wrapped(2, fused=fused)
    agent.invoke(message)  # makes what only runs need
    trace = traced(lambda: agent.invoke(message))
    return _without_testing(trace)


def _without_testing(trace: Trace) -> Trace:
    trace.files = {name for name in trace.files if "/testing/" not in name}
    return trace


def traceback_frames(*, fused: bool) -> list[str]:
    """The frames of the package in the traceback of a tool that raises behind two layers."""
    agent, message = _wrapped(-1, fused=fused)
    try:
        agent.invoke(message)
    except ZeroDivisionError as error:
        frames = traceback.extract_tb(error.__traceback__)
        return [
            f"{Path(f.filename).relative_to(ROOT)}:{f.name}" for f in frames if is_ours(f.filename)
        ]
    raise AssertionError("the tool did not raise")


def build() -> Trace:
    """Building an agent with one pair of hooks."""
    model = ScriptedChatModel(["Done."])
    create_agent(model, middleware=[Hooked()])  # fills caches
    return traced(lambda: create_agent(model, middleware=[Hooked()]))


def used_once() -> tuple[list[str], int]:
    """The private functions that one place uses, and how many private functions there are."""
    single: list[str] = []
    total = 0
    for path in sources():
        tree = ast.parse(path.read_text())
        uses = Counter(_names(tree))
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if not node.name.startswith("_") or node.name.startswith("__"):
                continue
            if hasattr(BaseChatModel, node.name):
                continue  # an override, which LangChain calls
            total += 1
            if uses[node.name] == 1:  # with none, a base class or a framework calls it
                single.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    return single, total


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def circles() -> list[set[str]]:
    """Groups of modules that import each other, imports for type checkers included."""
    graph = grimp.build_graph("agent_factory")
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    reach: dict[str, set[str]] = {}
    for name in imports:
        found: set[str] = set()
        todo = [name]
        while todo:
            for other in imports[todo.pop()] - found:
                found.add(other)
                todo.append(other)
        reach[name] = found
    groups = {frozenset(o for o in reach[n] if n in reach[o]) for n in reach if n in reach[n]}
    return [set(group) for group in groups]


UNPUBLISHED = re.compile(
    r"__pregel_|_messages_delta_reducer|\b(?:langgraph|langchain_core)[\w.]*\._\w|CONFIG_KEY_"
    r"|langgraph_step|langgraph_checkpoint_ns|\.control\b|_run_one|_arun_one|_afunc\b|_func\b"
)
"""Marks of what LangGraph and langchain-core do not document."""


def unpublished() -> set[str]:
    """The files that rely on unpublished behaviour of LangGraph or langchain-core."""
    found = set()
    for path in sources():
        tree = ast.parse(path.read_text())
        docs = {
            node.body[0].value
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            text = ""
            if isinstance(node, ast.Attribute):
                text = f".{node.attr}"
            elif isinstance(node, ast.Constant) and node not in docs:
                text = str(node.value)
            elif isinstance(node, ast.alias):
                text = node.name
            if UNPUBLISHED.search(text):
                found.add(str(path.relative_to(ROOT)))
    return found


PRIVATE_WORDS = re.compile(
    r"\b(?:mend\w*|heal(?:s|ed|ing)?|told|tells? (?:of|the model)|colours?|aloud|silenced?"
    r"|heard|hears|dear|anew|beside|unsaid|lead(?:s|ing)? past|kin|worth its while|whoever"
    r"|whomever|in vain|as ever|of its own|hand(?:s|ed)? on|ends? with words|comes? of|purse"
    r"|(?<!there )(?:is|are) no (?!longer|more|need)\w+|wants? to be)\b",
    re.IGNORECASE,
)
"""Words and turns that a reader would have to learn, or to read twice."""

PROSE = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "examples/**/*.py", "scripts/*.py")


def private_words() -> list[str]:
    """Each line of source and docs that has one of them."""
    pages = [path for pattern in PROSE for path in sorted(ROOT.glob(pattern))]
    return [
        f"{path.relative_to(ROOT)}:{number} {found[0]}"
        for path in [*sources(), *pages]
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := PRIVATE_WORDS.search(line))
    ]


def figures() -> list[Figure]:
    """Every figure, in the order in which they are printed."""
    fused, alone, single = tool_call(fused=True), tool_call(fused=False), used_once()
    frames = {way: len(traceback_frames(fused=way)) for way in (True, False)}
    upward = len(list((ROOT / "agent_factory").glob("*.py"))) - 1
    lines = sum(len(path.read_text().splitlines()) for path in sources())
    return [
        Figure("modules in the root of agent_factory", upward, 4),
        Figure("files that a tool call behind two layers enters", len(fused.files), 20),
        Figure("the same, hook by hook", len(alone.files), 10),
        Figure("deepest stack of own frames there", fused.deepest, 15),
        Figure("the same, hook by hook", alone.deepest, 9),
        Figure("own frames in the traceback of a tool", frames[True], 14),
        Figure("the same, hook by hook", frames[False], 10),
        Figure("files that building an agent enters", len(build().files), 18),
        Figure("import circles", len(circles()), 0),
        Figure("private functions used once, %", round(100 * len(single[0]) / single[1]), 33),
        Figure("lines of agent_factory and middleware", lines, 63_300),
        Figure("lines with words of our own", len(private_words()), 0),
        Figure("files that rely on unpublished behaviour", len(unpublished()), 1),
    ]


def details() -> Iterator[str]:
    """The places behind the figures."""
    yield "A tool call behind two layers enters:"
    yield from (f"  {Path(name).relative_to(ROOT)}" for name in sorted(tool_call(fused=True).files))
    yield "The traceback of a tool that raises:"
    yield from (f"  {frame}" for frame in traceback_frames(fused=True))
    yield "Building an agent enters:"
    yield from (f"  {Path(name).relative_to(ROOT)}" for name in sorted(build().files))
    yield "Import circles:"
    yield from (f"  {', '.join(sorted(circle))}" for circle in circles())
    yield "Unpublished behaviour:"
    yield from (f"  {name}" for name in sorted(unpublished()))
    yield "Words of our own:"
    yield from (f"  {name}" for name in private_words())
    yield "Private functions used once:"
    yield from (f"  {name}" for name in used_once()[0])


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    parser.add_argument("--details", action="store_true", help="print the places behind them")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = figures()
    if options.json:
        print(json.dumps({figure.name: [figure.value, figure.goal] for figure in found}, indent=2))
    else:
        for figure in found:
            mark = "" if figure.is_reached else "   missed"
            print(f"{figure.name:<50} {figure.value:>8,} of {figure.goal:>7,}{mark}")
    if options.details:
        print(*details(), sep="\n")
    return int(options.check and not all(figure.is_reached for figure in found))


if __name__ == "__main__":
    sys.exit(main())
