"""Extras: what each one installs, what is said without it, and how the docs install it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from packaging.requirements import Requirement

from agent_factory import errors
from agent_factory.errors import EXTRAS, install, requirement
from tables import each

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOR_DEVELOPMENT = {
    *("bench", "dev", "docs", "foreign", "foreign-full", "peer", "pyright", "release", "tests")
}

TEXTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.*")),
    *sorted((ROOT / "agent_factory").rglob("*.py")),
    *sorted((ROOT / "middleware").rglob("*.py")),
]


def outcomes(extras: tuple[str, ...], code: list[str]) -> list[str]:
    """The errors of some code where only these extras are installed."""
    needs = [*PROJECT["dependencies"]]
    waiting = list(extras)
    while waiting:
        for text in NEEDS[waiting.pop()]:
            needed = Requirement(text)
            waiting += needed.extras if needed.name == PROJECT["name"] else ()
            needs += [] if needed.name == PROJECT["name"] else [text]
    # In a folder that goes away: some of the code makes a database.
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests" / "installed.py")],
            input=json.dumps({"requirements": needs, "code": code}),
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        )
    errors: list[str] = json.loads(done.stdout.splitlines()[-1])
    return errors


PUBLIC_NAMES = """
import agent_factory, importlib
for name in ("middleware", "prebuilt", "review", "stack", "structured_output", "testing",
             "testing.strategies", "topology", "local_model", "types", "errors"):
    module = importlib.import_module(f"agent_factory.{name}")
    for public in getattr(module, "__all__", ()):
        getattr(module, public)
for public in agent_factory.__all__:
    getattr(agent_factory, public)
"""


def command(*words: str) -> str:
    return f"import sys; sys.argv[1:] = {words}; from agent_factory.cli import main; main()"


SERVED = (
    "from agent_factory.serve import Principal, create_app\n"
    "from agent_factory.service import Service\n"
    "from starlette.testclient import TestClient\n"
    "app = create_app(Service('sqlite:///none.db'), lambda request: Principal('', 'ann'))\n"
)

DOORS = {
    (): {
        "from agent_factory.service import Service": "service",
        "import agent_factory.service.tables": "service",
        "from agent_factory.serve import create_app": "serve",
        "import agent_factory.serve.app": "serve",
        "from agent_factory.telemetry import Telemetry": "otel",
        "from agent_factory.migrate import migrate_source": "cli",
        command("show", "x:y"): "cli",
        "from agent_factory import DecisionSpanEvents; DecisionSpanEvents()": "otel",
        "from agent_factory import plan_agent; plan_agent().to_svg()": "draw",
        "from agent_factory import plan_agent; plan_agent().to_html()": "draw",
        "from agent_factory.middleware import BudgetMiddleware, Limits\n"
        "BudgetMiddleware(run=Limits(usd=1))": "cost",
        "from agent_factory.middleware import PIIMiddleware; PIIMiddleware('phone')": "pii",
        "from agent_factory.middleware import PIIMiddleware; PIIMiddleware('name')": "pii",
        "from agent_factory.middleware import PIIMiddleware\n"
        "PIIMiddleware('key', detector='sk-.*')": "pii",
        "from agent_factory.testing import each_stack; each_stack({'a': []})": "testing",
        "from agent_factory.testing.strategies import stacks; stacks()": "testing",
        "from agent_factory.testing import check_middleware\n"
        "from agent_factory.middleware import ModelRetryMiddleware\n"
        "check_middleware(ModelRetryMiddleware)": "testing",
        "from agent_factory.local_model import LocalChatModel; LocalChatModel().load()": "local",
    },
    ("cli",): {
        command("worker", "x:y"): "service",
        command("submit", "x:y", "a", "b"): "service",
        command("inbox", "x:y"): "service",
        command("audit", "x:y"): "service",
        command("serve", "x:y"): "serve",
        command("studio", "x:y"): "serve",
        command("demo", "--ask", "Hello"): "sqlite",
        command("show", str(ROOT / "examples/service/shop/agent.py"), "--format", "svg"): "draw",
    },
    ("service",): {
        "from agent_factory.service import Service; Service('postgresql://a@b/c')": "postgres",
        "from agent_factory.service import Service; Service('postgres://a@b/c')": "postgres",
        "from agent_factory.service.engines import Temporal": "temporal",
        "from agent_factory.service.engines import Restate": "restate",
        "from agent_factory.serve import create_app": "serve",
    },
    ("serve",): {
        SERVED + "raise RuntimeError(TestClient(app).post('/ag-ui/desk').text)": "ag-ui",
        SERVED + "raise RuntimeError(TestClient(app).post('/mcp').text)": "mcp",
        SERVED + "raise RuntimeError(TestClient(app).post('/a2a/desk').text)": "a2a",
    },
}
"""Code that needs an extra, and the extra, by the extras that are installed."""


@pytest.mark.long
@pytest.mark.parametrize("installed", DOORS, ids=lambda extras: "+".join(extras) or "none")
def test_without_an_extra_what_needs_it_says_so(installed: tuple[str, ...]) -> None:
    doors = DOORS[installed]
    for code, extra, error in zip(
        doors, doors.values(), outcomes(installed, list(doors)), strict=True
    ):
        text = " ".join(error.split())
        assert f"the extra `{extra}` of agent-factory" in text, (code, error)
        assert install(extra) in text, (code, error)
        assert "No module named" not in text, (code, error)
    assert not (ROOT / "none.db").exists()


@pytest.mark.long
def test_public_names_of_other_packages_need_no_extra() -> None:
    assert outcomes((), [PUBLIC_NAMES]) == [""]


def test_each_extra_for_users_is_listed_with_the_modules_that_it_installs() -> None:
    assert EXTRAS.keys() == NEEDS.keys() - FOR_DEVELOPMENT
    for extra, modules in EXTRAS.items():
        packages = {Requirement(text).name for text in NEEDS[extra]} - {PROJECT["name"]}
        files = {
            str(file)
            for package in packages - {"tenacity"}
            if find_spec(package.replace("-", "_")) or package != "xllamacpp"
            for file in distribution(package).files or ()
        }
        for module in modules.split() if files else ():
            path = module.replace(".", "/")
            assert {f"{path}.py", f"{path}/__init__.py"} & files, module


@pytest.mark.long
def test_the_extra_serve_brings_the_command() -> None:
    assert outcomes(("serve",), [command("--version")]) == ["SystemExit: 0 "]


class Record:
    """The record of an installation, as `importlib.metadata` reads it."""

    def __init__(self, record: object) -> None:
        self.record = record

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return json.dumps(self.record) if self.record else None


FOLDER = ROOT.as_uri()
COMMIT = {"vcs": "git", "commit_id": "8f3c2d1"}


GIT, WHEEL = "https://example.com/factory.git", "https://example.com/agent_factory-1-none-any.whl"


@each(
    "record, source",
    [
        ({"url": FOLDER, "dir_info": {}}, f" @ {FOLDER}"),
        ({"url": FOLDER, "dir_info": {"editable": True}}, f" @ {FOLDER}"),
        ({"url": GIT, "vcs_info": COMMIT}, f" @ git+{GIT}@8f3c2d1"),
        ({"url": WHEEL, "archive_info": {}}, f" @ {WHEEL}"),
        # The folder of a container's build is gone: pip takes what is installed.
        ({"url": "file:///no/such/folder", "dir_info": {}}, ""),
    ],
)
def test_an_extra_is_installed_from_where_the_library_was(
    record: dict[str, Any], source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Record(record))
    is_editable = record.get("dir_info", {}).get("editable")
    folder = f"-e '{ROOT}[cli]'" if is_editable else f"'agent-factory[cli]{source}'"
    assert install("cli") == f"pip install {folder}"
    assert requirement("cli") == f"agent-factory[cli]{source}"
    assert str(Requirement(requirement("cli", "serve")))


def test_sources_that_are_not_installed_name_their_folder_and_an_index_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Record(None))
    assert install("cli") == f"pip install -e '{ROOT}[cli]'"
    assert requirement() == f"agent-factory @ {FOLDER}"
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "agent_factory" / "errors.py"))
    assert install("cli", "serve") == "pip install 'agent-factory[cli,serve]'"
    assert requirement() == "agent-factory"


NAME_WITH_EXTRAS = re.compile(r"agent[-_]factory\[[^\]]*\]")
COMMAND = re.compile(r"pip install[^`#\n]*?(\S*\[(?P<extras>[^\]]+)\]'?)")
OTHERS = ("psycopg[", "langgraph-cli[")
"""Other packages with extras."""


def test_texts_install_extras_from_the_checkout() -> None:
    """A bare name with extras would be looked up in an index, where anybody could take it."""
    lines = 0
    for path in TEXTS:
        text = path.read_text(encoding="utf-8") if path.suffix in (".md", ".py", ".toml") else ""
        if path != ROOT / "agent_factory" / "errors.py":
            assert not NAME_WITH_EXTRAS.findall(text), path
        for match in COMMAND.finditer(text):
            if path == ROOT / "agent_factory" / "errors.py" or any(map(match[1].count, OTHERS)):
                continue
            lines += 1
            place = f"{path}: {match[0]}"
            names = set(match["extras"].split(","))
            assert match[1] in (f"'.[{match['extras']}]'", f"'../..[{match['extras']}]'"), place
            # `dev` and `studio` are extras of a product.
            assert names <= {*EXTRAS, "dev", "studio"}, place
    assert lines > 15


def test_the_readme_lists_each_extra_once_and_has_the_version_and_the_bounds() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|", readme, flags=re.M)
    assert sorted(rows) == sorted(EXTRAS)
    assert f"Version {PROJECT['version']}," in readme
    for package in ("langgraph", "langchain-core"):
        (bounds,) = (text for text in PROJECT["dependencies"] if Requirement(text).name == package)
        assert f"`{bounds}`" in readme
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} or newer" in readme
