"""`agent-factory new`: files to begin with."""

from __future__ import annotations

import re
import sys
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

from agent_factory.commands import screen
from agent_factory.commands.importing import root_and_name
from agent_factory.commands.screen import AsJson
from agent_factory.commands.skeleton import HOOKS, Skeleton
from agent_factory.commands.trouble import ShowTraceback, Trouble

EXAMPLES = """Examples:

agent-factory new middleware AuditTrail

agent-factory new middleware Guard --hooks before_model,around_tool --dir shop"""

LONGEST_NAME = 36
"""Characters of a class's name: with more, lines of its files would be too long."""


def middleware(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The class, in CapWords: AuditTrail.")
    ],
    hooks: Annotated[
        str, typer.Option(help=f"What it has, with commas: {', '.join(HOOKS)}.")
    ] = "before_model",
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="The folder to write into.")
    ] = Path(),
    json: AsJson = False,
    traceback: ShowTraceback = False,
) -> None:
    """Write a middleware and its tests: they pass, and are typed, as they are.

    AuditTrail becomes audit_trail.py and test_audit_trail.py. Nothing is overwritten.
    """
    module = _module(name)
    chosen = _hooks(hooks)
    files = _free_files(directory, module)
    _, dotted = root_and_name(files[0].absolute())
    skeleton = Skeleton(name, dotted, chosen)
    for file, text in zip(files, (skeleton.code, skeleton.tests), strict=True):
        _write(file, text)
    paths = [str(file) for file in files]
    if json:
        screen.write_json({"class": name, "hooks": chosen, "files": paths})
        return
    screen.write(f"Wrote {paths[0]} and {paths[1]}.")
    screen.write(f"Try them: python -m pytest --doctest-modules {' '.join(paths)}")


def _module(name: str) -> str:
    """The module of a class.

    Raises:
        Trouble: The name cannot be that of a class, or its module would hide another one.
    """
    words = re.findall(r"[^\W_]+", name)
    proposed = "".join(word[:1].upper() + word[1:] for word in words)
    if not name.isidentifier() or iskeyword(name) or name != proposed:
        good = proposed.isidentifier() and not iskeyword(proposed)
        remedy = f"Did you mean {proposed}?" if good else "Write one such as AuditTrail."
        raise Trouble(f"{name!r} is no name for a class: CapWords are wanted. {remedy}")
    if len(name) > LONGEST_NAME:
        raise Trouble(f"{name} has {len(name)} characters, and {LONGEST_NAME} are the most.")
    module = snake_case(name)
    if iskeyword(module) or module in sys.stdlib_module_names:
        raise Trouble(
            f"{module}.py would hide Python's own {module}. Add a word: {name}Middleware."
        )
    return module


def snake_case(name: str) -> str:
    """The file's name of a class.

    >>> snake_case("AuditTrail"), snake_case("HTTPGuard"), snake_case("PIIMask2")
    ('audit_trail', 'http_guard', 'pii_mask2')
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return parted.lower()


def _hooks(text: str) -> list[str]:
    names = list(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    for name in names:
        if name not in HOOKS:
            raise Trouble(f"--hooks: {name!r} is none that can be written. {_other(name)}")
    if not names:
        raise Trouble(f"--hooks is empty. Take any of {', '.join(HOOKS)}.")
    return names


def _other(name: str) -> str:
    if match := re.fullmatch(r"a?wrap_(model|tool)_call", name):
        return f"Take around_{match[1]}, which serves synchronous and asynchronous runs."
    return f"Take any of {', '.join(HOOKS)}."


def _free_files(directory: Path, module: str) -> tuple[Path, Path]:
    if not directory.is_dir():
        raise Trouble(f"There is no folder {directory}. Make it first, or give another --dir.")
    files = directory / f"{module}.py", directory / f"test_{module}.py"
    for file in files:
        if file.exists():
            raise Trouble(f"{file} exists, and is left as it is. Take another name or --dir.")
    return files


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
    except OSError as error:
        raise Trouble(f"{file} cannot be written: {error.strerror}.", error) from None
