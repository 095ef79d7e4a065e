"""Glob patterns for paths, matched name by name so that a walk skips folders without matches.

`*`, `?` and `[...]` match within one name, `**` matches any number of folders, and `{a,b}` matches
either. Matching takes time proportional to the path, whatever the pattern: a model may write it.
(wcmatch compiles a pattern to one backtracking expression: ten `**` take seconds for one path.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate

Parts = tuple[str, ...]  # the names in a path, from the root to a file or folder
States = frozenset[int]  # positions in a pattern that a path has reached; empty: it cannot match

_MAX_ALTERNATIVES = 64  # patterns that braces may stand for
_MAX_LENGTH = 1_000  # characters of a pattern
_INNERMOST_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_END = re.compile(r"(?!)")  # matches nothing: no name follows the end of a pattern


class Scope:
    """Files below the folder `start` that match a glob pattern.

    The pattern is relative to the folder, or to the root if it begins with "/". A ValueError says
    what is wrong with it.
    """

    def __init__(self, pattern: str, start: Parts = ()) -> None:
        if len(pattern) > _MAX_LENGTH:
            raise ValueError(f"the glob pattern has more than {_MAX_LENGTH} characters.")
        self.pattern = pattern
        self.start = start
        # The parts of all alternatives, one after another. None stands for `**`.
        self._parts: list[re.Pattern[str] | None] = []
        self._ends: set[int] = set()
        positions: list[int] = []
        for alternative in _expand_braces(pattern):
            positions.append(len(self._parts))
            names = [name for name in alternative.split("/") if name not in ("", ".")]
            if ".." in names:
                raise ValueError(
                    "'..' is not allowed in a glob pattern; give the folder to search as path."
                )
            # The expressions of fnmatch use atomic groups, so they do not backtrack.
            self._parts += [None if n == "**" else re.compile(translate(n)) for n in names]
            self._ends.add(len(self._parts))
            self._parts.append(_END)
        self.states = self._skip_double_stars(positions)
        for name in start if pattern.startswith("/") else ():
            self.states = self.step(self.states, name)

    def step(self, states: States, name: str) -> States:
        """Return the states after one more name."""
        positions = []
        for position in states:
            part = self._parts[position]
            if part is None:
                positions.append(position)
            elif part.match(name):
                positions.append(position + 1)
        return self._skip_double_stars(positions)

    def accepts(self, states: States) -> bool:
        """Return whether a path that ends in these states matches."""
        return not self._ends.isdisjoint(states)

    def contains(self, parts: Parts) -> bool:
        """Return whether a file below the folder matches."""
        states = self.states
        for name in parts[len(self.start) :]:
            states = self.step(states, name)
        return self.accepts(states)

    def _skip_double_stars(self, positions: Iterable[int]) -> States:
        """Add the positions after each `**`, because it may stand for no folder at all."""
        found = set()
        for position in positions:
            while position not in found:
                found.add(position)
                if self._parts[position] is None:
                    position += 1
        return frozenset(found)


def _expand_braces(pattern: str) -> list[str]:
    """The patterns that braces stand for; braces without a partner or a comma are literal."""
    expanded: list[str] = []
    todo = [pattern]
    while todo:
        alternative = todo.pop()
        found = _INNERMOST_BRACES.search(alternative)
        if found is None:
            expanded.append(alternative)
        else:
            before, after = alternative[: found.start()], alternative[found.end() :]
            todo += [f"{before}{choice}{after}" for choice in found[1].split(",")]
        if len(expanded) + len(todo) > _MAX_ALTERNATIVES:
            raise ValueError(
                f"the braces of the glob pattern stand for more than {_MAX_ALTERNATIVES} patterns."
            )
    return expanded
