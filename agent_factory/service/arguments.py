"""Arguments of a service, checked."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from agent_factory.errors import ArgumentError, describe

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(name: str, given: str | float | None) -> float | None:
    """Seconds, given as a number or as a string like "30m"."""
    if given is None or isinstance(given, int | float):
        return given
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", given)
    if found is None:
        raise ArgumentError(
            name, f"must be seconds or a string like '30m', '4h' or '2d', got {given!r}."
        )
    return float(found[1]) * _UNITS[found[2]]


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise ArgumentError if a value is not one of the choices."""
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ArgumentError(name, f"must be one of {listed}, got {value!r}.")


def nodes_of(graph: Any, name: str, given: Collection[str] | None) -> list[str] | str | None:
    """Nodes of an agent as JSON: a list, or "*" for all."""
    if given is None or given == "*":
        return given
    unknown = {*given} - graph.nodes.keys()
    if unknown:
        raise ArgumentError(
            name,
            f"must name nodes of the agent, got {', '.join(sorted(unknown))}.",
            f"Nodes: {', '.join(sorted(graph.nodes))}.",
        )
    return [*given]


def check_name(by: Any) -> None:
    """Raise ArgumentError unless it is the name of a person, for the audit."""
    if not isinstance(by, str) or not by.strip():
        reason = f"must be the name of the one who does this, got {describe(by)}."
        raise ArgumentError("by", reason, "Pass by='ann'.")
