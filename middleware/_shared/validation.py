"""Arguments of constructors, checked where they are given; each error says what to write."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any


def check_count(name: str, value: Any, least: int = 0) -> None:
    """A whole number, or None.

    Raises:
        ValueError: It is something else, or too small.
    """
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}.")


def check_number(name: str, value: Any, least: float = 0.0, *, unit: str = "") -> None:
    """A finite number, or None; `unit` is named in the error.

    Raises:
        ValueError: It is something else, or too small.
    """
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < least:
        kind = f"a number of {unit}" if unit else "a number"
        raise ValueError(f"{name} must be {kind} of at least {least:g}, not {value!r}.")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """One of some words.

    Raises:
        ValueError: It is none of them.
    """
    if value not in choices:
        *most, last = map(repr, choices)
        words = f"{', '.join(most)} or {last}" if most else last
        raise ValueError(f"{name} must be {words}, not {value!r}.")
