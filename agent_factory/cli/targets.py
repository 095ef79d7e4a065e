"""What a command is pointed at, read from its text: a module or a file, and a name in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agent_factory.cli.error_reports import Trouble

PLANS = (".json", ".topology")
"""How the files end that hold a plan rather than code."""

HOW = "Write module:attribute or path/to/file.py:attribute."


@dataclass(frozen=True, slots=True)
class Target:
    """One target.

    Args:
        text: As it was written.
        place: A dotted module, or the path of a file.
        attribute: The name in it; empty where none was given.
        folders: Folders to import from, beside the file's own.
    """

    text: str
    place: str
    attribute: str = ""
    folders: tuple[Path, ...] = ()

    @property
    def is_file(self) -> bool:
        """Whether the place is a path, and no module."""
        return self.place.endswith((".py", *PLANS)) or "/" in self.place or "\\" in self.place

    @property
    def is_plan(self) -> bool:
        """Whether it is a file that holds a plan."""
        return self.place.endswith(PLANS)

    @property
    def path(self) -> Path:
        """The file, absolute."""
        return Path(self.place).absolute()


def parse(text: str) -> Target:
    """Part a text at its last colon, unless that is the one of a Windows drive.

    Raises:
        Trouble: What is before the colon can be no module and no file.

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
        raise Trouble(f"{text!r} is no target. {HOW}")
    target = Target(text, place, attribute)
    if not target.is_file and not all(part.isidentifier() for part in place.split(".")):
        raise Trouble(f"{place!r} is no name of a module. {HOW}")
    return target


def target_of(text: str) -> Target:
    """The target that a text means; of a LangGraph configuration, the graph it names.

    Raises:
        Trouble: There is no such file, or the configuration has not just this graph.
    """
    target = parse(text)
    _check_file(target)
    graphs = _graphs(target)
    if graphs is None:
        return target
    if target.attribute:
        return _graph(target, graphs, target.attribute)
    if len(graphs) > 1:
        names = " or ".join(f"{target.place}:{name}" for name in graphs)
        raise Trouble(f"{target.place} has several graphs. Write {names}.")
    return _graph(target, graphs, next(iter(graphs)))


def targets_of(text: str) -> Iterator[str]:
    """The text itself, or a target for each graph of a LangGraph configuration.

    Raises:
        Trouble: There is no such file, or it is no such configuration.
    """
    target = parse(text)
    _check_file(target)
    graphs = _graphs(target) if not target.attribute else None
    yield from [text] if graphs is None else (f"{target.place}:{name}" for name in graphs)


def _check_file(target: Target) -> None:
    if not target.is_file:
        return
    if target.path.is_dir():
        raise Trouble(f"{target.place} is a folder. {HOW}")
    if not target.path.is_file():
        raise Trouble(f"There is no file {target.place}.{_similar_file(target.path)}")
    if not target.place.endswith((".py", *PLANS)):
        raise Trouble(f"{target.place} is no file of Python and no plan. {HOW}")


def _similar_file(path: Path) -> str:
    there = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    close = get_close_matches(path.name, there, n=1, cutoff=0.8)
    return f" Did you mean {close[0]}?" if close else ""


def read_text(target: Target) -> str:
    """What a file holds.

    Raises:
        Trouble: It cannot be read, or is no text.
    """
    try:
        return target.path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise Trouble(f"{target.place} cannot be read: {error}.", error) from None


def _graphs(target: Target) -> Mapping[str, Any] | None:
    """The graphs of a LangGraph configuration; None where the target is none.

    Raises:
        Trouble: It is called as one and holds no graphs, or is no JSON.
    """
    if not target.place.endswith(".json"):
        return None
    try:
        data = json.loads(read_text(target))
    except ValueError as error:
        raise Trouble(f"{target.place} is no JSON: {error}.", error) from None
    graphs = data.get("graphs") if isinstance(data, dict) else None
    if isinstance(graphs, dict) and graphs:
        return graphs
    if target.path.name == "langgraph.json" or target.attribute:
        raise Trouble(f'{target.place} has no "graphs", which maps names to file.py:attribute.')
    return None


def _graph(config: Target, graphs: Mapping[str, Any], name: str) -> Target:
    if name not in graphs:
        close = get_close_matches(name, graphs, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"It has {', '.join(graphs)}."
        raise Trouble(f"{config.place} has no graph {name!r}. {hint}")
    entry = graphs[name]
    where = entry.get("path") if isinstance(entry, dict) else entry
    if not isinstance(where, str) or not (inner := parse(where)).attribute:
        raise Trouble(f"{config.place}: the graph {name!r} is {where!r}, and no file.py:attribute.")
    folder = config.path.parent
    place = str(folder / inner.place) if inner.is_file else inner.place
    found = Target(config.text, place, inner.attribute, tuple(_folders(config)))
    _check_file(found)
    return found


def _folders(config: Target) -> Iterator[Path]:
    """What LangGraph's server imports from: the configuration's folder, and its local packages."""
    folder = config.path.parent
    yield folder
    named = json.loads(read_text(config)).get("dependencies")
    for entry in named if isinstance(named, list) else ():
        if isinstance(entry, str) and entry != "." and (folder / entry).is_dir():
            yield (folder / entry).resolve()
