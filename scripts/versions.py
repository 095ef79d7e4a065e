"""Tests at the oldest or the newest versions of pyproject.toml, on each Python.

Run by `make oldest` and `make newest`, which install uv: pip cannot choose the lowest versions.
Each Python gets an environment such as .venv-oldest-3.11. A Python that this machine lacks is
named in a line and left out; if it lacks all of them, that is an error.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The oldest without the extra `dev`, which brings langchain: it has higher bounds than
# agent_factory. The lowest of direct dependencies alone: the others are bounded by these.
CHOICES = {
    "oldest": ["--resolution", "lowest-direct", "-e", ".[tests]"],
    "newest": ["--upgrade", "-e", ".[dev]"],
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Test on each Python in sequence; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("choice", choices=CHOICES)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="a version, such as 3.12")
    parser.add_argument("--pytest", default="", metavar="ARGUMENTS", help="passed to pytest")
    options = parser.parse_args(arguments)
    outcomes: dict[str, str] = {}
    for python in options.pythons:
        interpreter = interpreter_of(python)
        if interpreter is None:
            outcomes[python] = "not on this machine"
            continue
        print(f"\nPython {python}, {options.choice} versions: {interpreter}", flush=True)
        start = time.monotonic()
        passed = tested(options.choice, python, interpreter, shlex.split(options.pytest))
        outcomes[python] = f"{'passed' if passed else 'FAILED'}, {time.monotonic() - start:.0f} s"
    print()
    for python, outcome in outcomes.items():
        print(f"Python {python}, {options.choice} versions: {outcome}")
    passes = [outcome.startswith("passed") for outcome in outcomes.values() if "," in outcome]
    return 0 if passes and all(passes) else 1


def interpreter_of(python: str) -> str | None:
    """The path of a Python by version; None if missing on this machine."""
    environment = dict(os.environ)
    if pyenv := shutil.which("pyenv"):
        # pyenv has a python3.12 on the path, which runs only if this version was chosen.
        command = [pyenv, "versions", "--bare"]
        versions = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        environment["PYENV_VERSION"] = ":".join(versions.split())
    command = [f"python{python}", "-c", "import sys; print(sys.executable)"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def tested(choice: str, python: str, interpreter: str, arguments: Sequence[str]) -> bool:
    """Install the versions into an environment, and run the tests there; True if they pass."""
    uv = Path(sys.executable).with_name("uv")
    folder = ROOT / f".venv-{choice}-{python}"
    inside = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    tests = ["-n", "logical", "--maxprocesses=4", "--tier=short", "-q"]
    # Without sources: sources of old releases need old compilers. uv takes the next version.
    install: list[str | Path] = [
        "--quiet",
        "--python",
        inside,
        "--only-binary",
        ":all:",
        *CHOICES[choice],
    ]
    commands: list[list[str | Path]] = [
        [uv, "venv", "--quiet", "--clear", "--python", interpreter, folder],
        [uv, "pip", "install", *install],
        [inside, "-m", "pytest", *tests, *arguments],
    ]
    # In CI, a skipped test fails; tests with langchain are skipped here.
    environment = {name: value for name, value in os.environ.items() if name != "REQUIRE_TOOLS"}
    return all(
        subprocess.run(command, cwd=ROOT, env=environment).returncode == 0 for command in commands
    )


if __name__ == "__main__":
    sys.exit(main())
