"""Figures become a table for people and JSON for programs."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from benchmarks.harness import Figure, Interval

PACKAGES = ("langgraph", "langchain-core", "langchain")

HEAD = "| what | of / over | figure | CPU | ms | goal | met |\n|---|---|---|---|---|---|---|"


def versions() -> dict[str, str]:
    """What was measured with."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def table(figures: Iterable[Figure]) -> str:
    """The figures as a Markdown table."""
    return "\n".join([HEAD, *map(_row, figures)])


def _row(figure: Figure) -> str:
    goal = "" if figure.goal is None else f"{figure.goal:g}{_unit(figure)}"
    cells = [
        f"{figure.group}: {figure.name}",
        f"{figure.of} / {figure.over}" if figure.over else figure.of,
        _said(figure, figure.wall),
        _said(figure, figure.cpu),
        " / ".join(f"{figure.milliseconds[name]:.1f}" for name in _pair(figure)),
        goal,
        figure.verdict,
    ]
    return f"| {' | '.join(cells)} |"


def _pair(figure: Figure) -> list[str]:
    return [name for name in (figure.of, figure.over) if name is not None]


def _unit(figure: Figure) -> str:
    return "" if figure.over else " ms"


def _said(figure: Figure, found: Interval) -> str:
    return f"{found.middle:.2f} ({found.low:.2f}-{found.high:.2f}){_unit(figure)}"


def as_json(figures: Sequence[Figure]) -> str:
    """The figures with date and versions."""
    return json.dumps(
        {
            "date": datetime.now(UTC).date().isoformat(),
            "versions": versions(),
            "figures": [_record(figure) for figure in figures],
        },
        indent=2,
    )


def _record(figure: Figure) -> dict[str, object]:
    ranges = {"wall": figure.wall._asdict(), "cpu": figure.cpu._asdict()}
    return {**asdict(figure), **ranges, "met": figure.verdict}
