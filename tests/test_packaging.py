"""The folder ``middleware/`` is the package ``agent_factory.middleware``, and nothing else."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import agent_factory
import agent_factory.middleware

ROOT = Path(__file__).resolve().parent.parent
REAL = ROOT / "middleware"
LINK = ROOT / "agent_factory" / "middleware"
SKIP = {"__pycache__"}


def python(
    code: str, cwd: Path, *flags: str, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))}
    if path is not None:
        env["PYTHONPATH"] = path
    return subprocess.run(
        [sys.executable, *flags, "-c", code], cwd=cwd, env=env, capture_output=True, text=True
    )


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def modules() -> list[str]:
    package = agent_factory.middleware
    found = pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    return [package.__name__, *(m.name for m in found)]


def packages_on_disk() -> set[str]:
    found: set[str] = set()
    for folder, prefix in (
        (ROOT / "agent_factory", "agent_factory"),
        (REAL, "agent_factory.middleware"),
    ):
        for here, dirs, files in os.walk(folder):  # does not follow the symlink
            dirs[:] = [d for d in dirs if d not in SKIP]
            if "__init__.py" in files:
                found.add(".".join([prefix, *Path(here).relative_to(folder).parts]))
    return found


@pytest.mark.parametrize("name", modules())
def test_every_module_has_one_name(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__name__ == name
    assert module.__spec__ is not None
    assert module.__spec__.name == name
    assert Path(str(module.__file__)).resolve().is_relative_to(REAL) or not REAL.exists()
    for value in vars(module).values():
        defined_in = getattr(value, "__module__", None)
        if isinstance(defined_in, str):
            assert defined_in.partition(".")[0] != "middleware", value


def test_nothing_was_imported_as_top_level_middleware() -> None:
    for name in modules():
        importlib.import_module(name)
    assert [m for m in sys.modules if m.partition(".")[0] == "middleware"] == []


def test_top_level_import_from_the_repository_root_is_refused() -> None:
    done = python("import middleware", ROOT)
    assert done.returncode != 0
    assert "agent_factory.middleware" in done.stderr


def test_no_top_level_middleware_elsewhere(tmp_path: Path) -> None:
    done = python("import middleware", tmp_path)
    assert "ModuleNotFoundError: No module named 'middleware'" in done.stderr


def test_a_products_own_middleware_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "middleware.py").write_text("MINE = 1\n")
    ok(
        python(
            "import middleware, agent_factory, agent_factory.middleware as ours\n"
            "assert middleware.MINE == 1 and ours is not middleware\n"
            "assert ours.__name__ == 'agent_factory.middleware'",
            tmp_path,
        )
    )


def test_the_link_for_type_checkers_is_there() -> None:
    if not LINK.is_dir():
        if os.name == "nt":
            pytest.skip("checked out without symlinks; see README, Windows")
        pytest.fail(f"{LINK} is missing: make link")
    assert LINK.resolve() == REAL
    assert not REAL.is_symlink()


def test_every_package_is_listed_in_pyproject() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert set(table["packages"]) == packages_on_disk()
    assert table["package-dir"]["agent_factory.middleware"] == "middleware"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the files git would check out where there are no symlinks."""
    pytest.importorskip("setuptools", minversion="77")
    src = tmp_path_factory.mktemp("src")
    out = tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "MANIFEST.in", "CHANGELOG.md", "LICENSE"):
        (src / name).write_bytes((ROOT / name).read_bytes())
    for top in ("agent_factory", "middleware"):
        for here, dirs, files in os.walk(ROOT / top):
            dirs[:] = [d for d in dirs if d not in SKIP and not (Path(here) / d).is_symlink()]
            for file in files:
                target = src / Path(here).relative_to(ROOT) / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((Path(here) / file).read_bytes())
    (src / "agent_factory" / "middleware").write_text("../middleware")
    code = (
        "import sys; from setuptools.build_meta import build_wheel as b; "
        "open('name', 'w').write(b(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=src, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out / (src / "name").read_text()


KINDS = (".py", ".css", ".js", ".html", ".svg")


def test_wheel_contents(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {n.partition("/")[0] for n in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"agent_factory"}
    expected = {"agent_factory/py.typed"}
    for folder, prefix in (
        (ROOT / "agent_factory", "agent_factory"),
        (REAL, "agent_factory/middleware"),
    ):
        for here, dirs, files in os.walk(folder):
            dirs[:] = [d for d in dirs if d not in SKIP]
            rel = Path(here).relative_to(folder)
            expected |= {(Path(prefix) / rel / f).as_posix() for f in files if f.endswith(KINDS)}
    assert {n for n in names if n.startswith("agent_factory/")} == expected


def test_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import agent_factory.middleware as m\n"
        "try:\n    import middleware\n"
        "except ModuleNotFoundError as e:\n    assert e.name == 'middleware'\n"
        "else:\n    raise SystemExit('middleware is importable')\n"
        "print(m.__name__, m.__file__)"
    )
    name, file = ok(python(code, tmp_path, path=str(tmp_path / "site"))).split(" ", 1)
    assert name == "agent_factory.middleware"
    assert Path(file).is_relative_to(tmp_path / "site")
