"""The table of moves: new modules of names, new names of keywords, advice for a person."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import Final

from agent_factory.migrate.values import Symbol

ROOT: Final = "agent_factory"
MIDDLEWARE: Final = f"{ROOT}.middleware"

REACTS: Final = tuple(Symbol(module, "create_react_agent") for module in (f"{ROOT}.prebuilt", ROOT))
AGENT: Final = Symbol(ROOT, "create_agent")

_LANGCHAIN_MIDDLEWARE: Final = "langchain.agents.middleware"

_TABLE = tomllib.loads((files(__package__) / "moves.toml").read_text(encoding="utf-8"))

STAYS: Final[tuple[str, ...]] = tuple(_TABLE["stays"])
"""Modules that may still be imported: their other names stay, without a finding."""


MOVES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    module: {
        home: tuple(import_module(home).__all__ if names == ["*"] else names)
        for home, names in homes.items()
    }
    for module, homes in _TABLE["moves"].items()
}
"""For each old module: the new modules of its names."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Reason for a decision by a person, and a proposal; parts in braces are filled in."""

    why: str
    write: str
    kind: str = "argument"


ADVICE: Final = {key: Advice(**row) for key, row in _TABLE["advice"].items()}
"""Advice on names without a counterpart by their paths, and on other places by a key."""


def home_of(symbol: Symbol) -> Symbol | None:
    """The new module and name of a name; None for a name that stays."""
    for module, names in MOVES.get(_table_of(symbol.module), {}).items():
        if symbol.name in names:
            return Symbol(module, symbol.name)
    return None


def _table_of(module: str) -> str:
    package, _, name = module.rpartition(".")
    inside = package == _LANGCHAIN_MIDDLEWARE and name in _TABLE["middleware_modules"]
    return package if inside else module


def path_of(path: str) -> str | None:
    """The new path for the object of a dotted path, for patches; None without a counterpart."""
    module, _, name = path.rpartition(".")
    if path == f"{_LANGCHAIN_MIDDLEWARE}.human_in_the_loop.interrupt":
        return f"{MIDDLEWARE}.human_in_the_loop.interrupt"
    if name == "init_chat_model" and is_known(module):
        return "langchain.chat_models.init_chat_model"
    parts = path.split(".")
    # Old modules have two parts or more.
    for index in range(2, len(parts)):
        module, rest = ".".join(parts[:index]), parts[index:]
        # `patch` with the path of a standard module inside of a module patches the standard module.
        if is_known(module) and len(rest) > 1 and rest[0] in sys.stdlib_module_names:
            return ".".join(rest)
        if home := home_of(Symbol(module, rest[0])):
            # A missing path would let the patch fail.
            value = getattr(import_module(home.module), home.name)
            for attribute in rest[1:]:
                value = getattr(value, attribute, None)
            return None if value is None else ".".join([str(home), *rest[1:]])
    return None


def replacement_of(module: str) -> str:
    """The module of agent_factory in place of an old module, in words for a person."""
    homes = [home for home in MOVES.get(_table_of(module), {}) if home.startswith(ROOT)]
    part = f"{MIDDLEWARE}.{module.rpartition('.')[2]}"
    if _table_of(module) == _LANGCHAIN_MIDDLEWARE != module and find_spec(part):
        homes = [part]
    return " or ".join(homes) or "the module of agent_factory that has what is needed"


def is_known(module: str) -> bool:
    """Return True if names of a module may move."""
    return _table_of(module) in MOVES


def leads_to_known(module: str) -> bool:
    """Return True for a module whose names may move, and for a package around one."""
    return is_known(module) or any(path.startswith(f"{module}.") for path in MOVES)


def advice_on(symbol: Symbol) -> Advice | None:
    """The advice on a name without a counterpart; None for all other names."""
    if not is_known(symbol.module) or symbol.module in STAYS or home_of(symbol):
        return None
    return ADVICE.get(str(symbol), ADVICE["no such name"])


@dataclass(frozen=True, slots=True)
class Keyword:
    """The counterpart of a keyword argument.

    Args:
        name: The new name; None without a counterpart.
        value: The new form of a whole number, around `{}`; None keeps any value.
        why: The reason where the keyword cannot be rewritten.
        write: The proposal for such a keyword.
        words: The new words for some strings.
    """

    name: str | None = None
    value: str | None = None
    why: str = ""
    write: str = ""
    words: Mapping[str, str] = field(default_factory=dict)


_KEYWORDS = {
    function: {keyword: Keyword(**row) for keyword, row in rows.items()}
    for function, rows in _TABLE["keywords"].items()
}

TO_AGENT: Final[Mapping[str, Keyword]] = _KEYWORDS.pop("to create_agent")
"""Keyword arguments of `create_react_agent` with another name in `create_agent`."""

KEYWORDS: Final[Mapping[Symbol, Mapping[str, Keyword]]] = {
    **dict.fromkeys(REACTS, _KEYWORDS.pop("create_react_agent")),
    **{Symbol(MIDDLEWARE, name): rows for name, rows in _KEYWORDS.items()},
}
"""Keyword arguments with another name here, or without a counterpart."""
