"""Empty environments, and copies of the checkout to install into them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def outside(**variables: str) -> dict[str, str]:
    """The variables of a process outside of this environment."""
    unset = ("PYTHON", "COV", "PYTEST", "HYPOTHESIS", "VIRTUAL_ENV")
    env = {key: value for key, value in os.environ.items() if not key.startswith(unset)}
    return {**env, **variables}


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command outside of this environment."""
    return subprocess.run(
        [*map(str, command)], cwd=cwd, env=outside(**variables), capture_output=True, text=True
    )


def ok(done: subprocess.CompletedProcess[str]) -> str:
    """What a command said; an error if it has failed."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def built(hook: str, source: Path, folder: Path, **variables: str) -> Path:
    """What a hook of the build backend writes, as pip calls it."""
    code = (
        "import sys; sys.path.insert(0, 'scripts'); import build_backend; "
        f"open(sys.argv[1] + '/name', 'w').write(build_backend.{hook}(sys.argv[1]))"
    )
    ok(run(sys.executable, "-c", code, folder, cwd=source, **variables))
    return folder / (folder / "name").read_text()


def yaml_of(name: str) -> Any:
    """A YAML file of the repository, with strings alone: `on`, a key of workflows, is one, too."""
    yaml: Any = import_module("yaml")  # langchain-core brings it, without types
    return yaml.load((ROOT / name).read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


class Environment:
    """An empty environment, into which uv installs: it takes a tenth of the time of pip."""

    def __init__(self, folder: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        uv = shutil.which("uv", path=path)
        assert uv, "uv is missing: pip install -e '.[dev]'"
        self.uv, self.folder = uv, folder
        self.bin = folder / ("Scripts" if os.name == "nt" else "bin")
        ok(run(uv, "venv", "-q", "--python", sys.executable, folder, cwd=folder.parent))

    def install(self, *words: str, cwd: Path) -> None:
        """Install packages."""
        ok(run(self.uv, "pip", "install", "-q", *words, cwd=cwd, VIRTUAL_ENV=str(self.folder)))

    def python(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run its Python."""
        return run(self.bin / "python", *words, cwd=cwd)
