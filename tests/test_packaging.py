"""The folder ``middleware/`` is the package ``agent_factory.middleware``, and nothing else."""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import agent_factory
import agent_factory.middleware
from environments import ROOT, built, ok, run
from tables import each

REAL = ROOT / "middleware"
LINK = ROOT / "agent_factory" / "middleware"
SKIP = {"__pycache__"}


def python(code: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-c", code, cwd=cwd, **variables)


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


@each("name", modules())
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
    assert [m for m in sys.modules if m.partition(".")[0] == "middleware"] == []


def test_top_level_import_from_the_repository_root_is_refused() -> None:
    done = python("import middleware", ROOT)
    assert done.returncode != 0
    assert "agent_factory.middleware" in done.stderr


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
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files git would check out where there are no symlinks."""
    pytest.importorskip("setuptools", minversion="77")
    src = tmp_path_factory.mktemp("src")
    files = ["pyproject.toml", "README.md", "MANIFEST.in", "CHANGELOG.md", "LICENSE"]
    for name in [*files, "scripts/build_backend.py"]:
        (src / name).parent.mkdir(exist_ok=True)
        (src / name).write_bytes((ROOT / name).read_bytes())
    for top in ("agent_factory", "middleware"):
        for here, dirs, files in os.walk(ROOT / top):
            dirs[:] = [d for d in dirs if d not in SKIP and not (Path(here) / d).is_symlink()]
            for file in files:
                target = src / Path(here).relative_to(ROOT) / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((Path(here) / file).read_bytes())
    (src / "agent_factory" / "middleware").write_text("../middleware")
    return src


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("build_wheel", source, tmp_path_factory.mktemp("dist"))


KINDS = (".py", ".css", ".js", ".html", ".svg", ".md", ".toml", ".txt")


@pytest.mark.long
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
    name, file = ok(python(code, tmp_path, PYTHONPATH=str(tmp_path / "site"))).strip().split(" ", 1)
    assert name == "agent_factory.middleware"
    assert Path(file).is_relative_to(tmp_path / "site")


def test_the_skill_is_found_in_the_wheel(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "from importlib.resources import files\n"
        "skill = files('agent_factory') / '.agents' / 'skills' / 'agent-factory'\n"
        "print((skill / 'SKILL.md').read_text().splitlines()[1], len(list(skill.rglob('*.md'))))"
    )
    output = ok(python(code, tmp_path, PYTHONPATH=str(tmp_path / "site"))).strip()
    files = list((ROOT / "agent_factory" / ".agents").rglob("*.md"))
    assert output == f"name: agent-factory {len(files)}"


@pytest.mark.long
def test_the_sdist_gives_the_wheel_of_the_source(source: Path, wheel: Path, tmp_path: Path) -> None:
    sdist = built("build_sdist", source, tmp_path)
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    again = built("build_wheel", tmp_path / sdist.name.removesuffix(".tar.gz"), tmp_path)
    assert set(zipfile.ZipFile(again).namelist()) == set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """The interpreter of a new environment, which sees the dependencies of this one."""
    environment = tmp_path / "venv"
    venv.create(environment, symlinks=True)
    # Files .pth of this path are not read, so agent_factory itself is not in the environment.
    (site(environment / "bin" / "python") / "dependencies.pth").write_text(
        sysconfig.get_path("purelib")
    )
    return environment / "bin" / "python"


def site(interpreter: Path) -> Path:
    """The folder of an environment into which pip unpacks wheels."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return interpreter.parent.parent / "lib" / version / "site-packages"


def install(source: Path, folder: Path, interpreter: Path, *, linked: bool) -> Path:
    """Install a copy of the source in place, as `pip install -e` does; the copy."""
    copy = folder / "agent factory"
    shutil.copytree(source, copy)
    if linked:
        (copy / "agent_factory" / "middleware").unlink()
        (copy / "agent_factory" / "middleware").symlink_to("../middleware")
    with zipfile.ZipFile(built("build_editable", copy, folder)) as archive:
        archive.extractall(site(interpreter))
    return copy


USER = """
from agent_factory import create_agent
from agent_factory.middleware import TodoListMiddleware
from agent_factory.testing import ScriptedChatModel

agent = create_agent(ScriptedChatModel([]), middleware=[TodoListMiddleware()])
wrong: int = TodoListMiddleware()
"""


@pytest.mark.long
def test_mypy_elsewhere_sees_an_editable_install(
    source: Path, interpreter: Path, tmp_path: Path
) -> None:
    install(source, tmp_path, interpreter, linked=True)
    project = tmp_path / "project"
    project.mkdir()
    (project / "user.py").write_text(USER)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull]
    # With the dependencies, it would take a minute.
    (site(interpreter) / "dependencies.pth").unlink()
    done = run(*mypy, "--python-executable", interpreter, "user.py", cwd=project)
    error, *rest = done.stdout.splitlines()
    assert error.startswith("user.py:7: error: Incompatible types in assignment"), done.stdout
    assert rest == ["Found 1 error in 1 file (checked 1 source file)"]


@pytest.mark.long
@pytest.mark.parametrize("linked", [True, False], ids=["links", "no links"])
def test_an_editable_install_has_the_package_and_no_folder_beside_it(
    source: Path, interpreter: Path, tmp_path: Path, linked: bool
) -> None:
    copy = install(source, tmp_path, interpreter, linked=linked)
    project = tmp_path / "project"
    project.mkdir()
    code = (
        "import agent_factory.middleware as m, importlib.util as u\n"
        "from importlib.metadata import version\n"
        "assert version('agent-factory')\n"
        "assert [n for n in ('middleware', 'scripts', 'tests') if u.find_spec(n)] == []\n"
        "print(m.__name__, m.__file__)"
    )
    name, file = ok(run(interpreter, "-c", code, cwd=project)).strip().split(" ", 1)
    assert name == "agent_factory.middleware"
    assert Path(file).resolve() == copy / "middleware" / "__init__.py"
    # A new file is there without another install.
    (copy / "middleware" / "fresh.py").touch()
    ok(run(interpreter, "-c", "import agent_factory.middleware.fresh", cwd=project))
