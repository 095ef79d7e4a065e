"""Targets of commands, parsed from text: a module or a file, and a name in the module."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agent_factory.cli.error_reports import CommandError
from agent_factory.errors import did_you_mean

PLANS = (".json", ".topology")
"""The suffixes of files that hold a plan instead of code."""

USAGE = "Write module:attribute or path/to/file.py:attribute."


@dataclass(frozen=True, slots=True)
class Target:
    """Target of a command: a dotted module or the path of a file, and a name in the module.

    `folders` are searched for imports, besides the folder of the file.
    """

    text: str
    place: str
    attribute: str = ""
    folders: tuple[Path, ...] = ()

    @property
    def is_file(self) -> bool:
        """True if the place is a path instead of a module."""
        return self.place.endswith((".py", *PLANS)) or "/" in self.place or "\\" in self.place

    @property
    def is_plan(self) -> bool:
        """True if the place is a file with a plan."""
        return self.place.endswith(PLANS)

    @property
    def path(self) -> Path:
        """The absolute path of the file."""
        return Path(self.place).absolute()


def parse(text: str) -> Target:
    """Split a text at the last colon, unless the colon belongs to a Windows drive.

    >>> parse("shop.desk:agent").attribute
    'agent'
    >>> parse(r"C:\\shop\\desk.py:agent").place
    'C:\\\\shop\\\\desk.py'
    >>> parse(r"C:\\shop\\desk.py").attribute
    ''
    """
    place, colon, attribute = text.rpartition(":")
    if not colon or attribute.startswith(("/", "\\")):
        place, attribute = text, ""
    if not place.strip():
        raise CommandError(f"A target must name a module or a file, got {text!r}. {USAGE}")
    target = Target(text, place, attribute)
    if not target.is_file and not all(part.isidentifier() for part in place.split(".")):
        raise CommandError(f"{place!r} is not a valid module name. {USAGE}")
    return target


def _check_file(target: Target) -> None:
    if not target.is_file:
        return
    if target.path.is_dir():
        raise CommandError(f"{target.place} is a folder. {USAGE}")
    if not target.path.is_file():
        folder = target.path.parent
        siblings = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        close = get_close_matches(target.path.name, siblings, n=1, cutoff=0.8)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise CommandError(f"The file {target.place} does not exist.{hint}")
    if not target.place.endswith((".py", *PLANS)):
        raise CommandError(f"{target.place} is neither a Python file nor a plan. {USAGE}")


def target_of(text: str) -> Target:
    """The target of a text; for a LangGraph configuration, the named graph."""
    target = parse(text)
    configuration = _configuration(target)
    if configuration is None:
        return target
    graphs = configuration["graphs"]
    if not target.attribute and len(graphs) > 1:
        names = " or ".join(f"{target.place}:{name}" for name in graphs)
        raise CommandError(f"{target.place} has several graphs. Write {names}.")
    name = target.attribute or next(iter(graphs))
    if name not in graphs:
        hint = did_you_mean(name, graphs, f"Its graphs are {', '.join(graphs)}.")
        raise CommandError(f"{target.place} does not have a graph {name!r}. {hint}")
    entry = graphs[name]
    where = entry.get("path") if isinstance(entry, dict) else entry
    if not isinstance(where, str) or not (inner := parse(where)).attribute:
        problem = f"the graph {name!r} must be file.py:attribute, got {where!r}."
        raise CommandError(f"{target.place}: {problem}")
    folder = target.path.parent
    place = str(folder / inner.place) if inner.is_file else inner.place
    # The server of LangGraph imports from the configuration's folder and its local packages.
    dependencies = configuration.get("dependencies")
    folders = [folder]
    for package in dependencies if isinstance(dependencies, list) else ():
        if isinstance(package, str) and package != "." and (folder / package).is_dir():
            folders.append((folder / package).resolve())
    graph = Target(text, place, inner.attribute, tuple(folders))
    _check_file(graph)
    return graph


def targets_of(text: str) -> list[str]:
    """The text itself, or a target for each graph of a LangGraph configuration."""
    target = parse(text)
    configuration = _configuration(target)
    if configuration is None or target.attribute:
        return [text]
    return [f"{target.place}:{name}" for name in configuration["graphs"]]


def read_text(target: Target) -> str:
    """The content of a file, which must be UTF-8 text."""
    try:
        # utf-8-sig: editors on Windows may begin a file with a byte order mark.
        return target.path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise CommandError(f"{target.place} cannot be read: {error}.", error) from None


def _configuration(target: Target) -> dict[str, Any] | None:
    """The LangGraph configuration of a target; None for other files and for modules."""
    _check_file(target)
    if not target.place.endswith(".json"):
        return None
    try:
        data = json.loads(read_text(target))
    # RecursionError: json reads nested values by recursion.
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{target.place} is not valid JSON: {error}.", error) from None
    if isinstance(data, dict) and data.get("graphs") and isinstance(data["graphs"], dict):
        return data
    if target.path.name == "langgraph.json" or target.attribute:
        message = f'{target.place} must have "graphs", which maps names to file.py:attribute.'
        raise CommandError(message)
    return None
