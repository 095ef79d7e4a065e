"""Glob patterns for paths, matched folder by folder so that a walk enters none in vain.

`*`, `?` and `[...]` stay within one name, `**` stands for any number of folders, and `{a,b}` for
either. A name is matched in time proportional to its length, whatever the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate

_MOST_WAYS = 64  # alternatives that braces may spell out
_LONGEST = 1_000  # characters of a pattern

States = frozenset[tuple[int, int]]
"""Where in a pattern a path has come to: pairs of an alternative and a place in it."""


class Glob:
    """A pattern for paths, given as the names they consist of.

    Args:
        pattern: The pattern; names are parted by "/".

    Raises:
        ValueError: It is too long, stands for too much, or leads upwards.

    >>> glob = Glob("src/**/*.{py,pyi}")
    >>> glob.matches(["src", "a.py"]), glob.matches(["src", "b", "a.pyi"]), glob.matches(["a.py"])
    (True, True, False)
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _LONGEST:
            raise ValueError(f"the glob pattern has more than {_LONGEST} characters.")
        self._ways = [_compiled(way) for way in _spelled_out(pattern)]

    @property
    def start(self) -> States:
        """Where every path begins."""
        return self._closed((way, 0) for way in range(len(self._ways)))

    def step(self, states: States, name: str) -> States:
        """Where a path has come to with one more name; nowhere if it can no longer match."""
        return self._closed(
            (way, place + (self._ways[way][place] is not None))
            for way, place in states
            if place < len(self._ways[way]) and _fits(self._ways[way][place], name)
        )

    def accepts(self, states: States) -> bool:
        """Whether a path that ends here matches."""
        return any(place == len(self._ways[way]) for way, place in states)

    def matches(self, names: Iterable[str]) -> bool:
        """Whether a whole path matches."""
        states = self.start
        for name in names:
            states = self.step(states, name)
        return self.accepts(states)

    def _closed(self, states: Iterable[tuple[int, int]]) -> States:
        """With the places reached because `**` may stand for no folder at all."""
        found = set(states)
        todo = list(found)
        while todo:
            way, place = todo.pop()
            beyond = (way, place + 1)
            if self._ways[way][place : place + 1] == (None,) and beyond not in found:
                found.add(beyond)
                todo.append(beyond)
        return frozenset(found)


def _fits(part: re.Pattern[str] | None, name: str) -> bool:
    return part is None or part.match(name) is not None


def _compiled(pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    """A pattern for each name; None for `**`."""
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ValueError(
            "'..' is not allowed in a glob pattern; give the folder to search as path."
        )
    # fnmatch's expressions use atomic groups, so they don't backtrack.
    return tuple(None if name == "**" else re.compile(translate(name)) for name in names)


def _spelled_out(pattern: str) -> list[str]:
    """The patterns that braces stand for; a brace without a partner or a comma is itself."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        way = todo.pop()
        found = _INNERMOST.search(way)
        if found is None:
            done.append(way)
        else:
            before, after = way[: found.start()], way[found.end() :]
            todo += [f"{before}{choice}{after}" for choice in found[1].split(",")]
        if len(done) + len(todo) > _MOST_WAYS:
            raise ValueError(
                f"the braces of the glob pattern stand for more than {_MOST_WAYS} patterns."
            )
    return done


_INNERMOST = re.compile(r"\{([^{}]*,[^{}]*)\}")
