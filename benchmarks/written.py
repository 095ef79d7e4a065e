"""What the benchmarks write from the stored figures: pages, parts of pages, and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures_page import dates, figures_page, headlines, misses
from benchmarks.goals import goals_table
from benchmarks.goals_plot import goals_plot
from benchmarks.peers_page import forms, losses, plugin_table, tables
from benchmarks.peers_plot import peers_plot
from benchmarks.plot import plot
from benchmarks.report import Report

ROOT = Path(__file__).resolve().parent.parent

README, METHOD = "benchmarks/README.md", "benchmarks/method.md"
FIGURES_PAGE, PICTURES = "benchmarks/figures.md", "docs/pictures"


def contents(reports: Mapping[str, Report], root: Path = ROOT) -> dict[str, str]:
    """The text of each file that shows figures, by its path below the root.

    Args:
        reports: The stored report of each group.
        root: Where the pages are whose parts are written.

    Raises:
        ValueError: A page lacks a marker.
    """
    parts = {"headlines": headlines(reports), "misses": misses(reports), "dates": dates(reports)}
    files = {FIGURES_PAGE: figures_page(reports), f"{PICTURES}/goals.svg": goals_plot(reports)}
    if "watched" in reports:
        files[f"{PICTURES}/watched.svg"] = plot(reports["watched"])
    if "peers" in reports:
        peers = reports["peers"]
        parts["peers"] = f"{peers.headline()}\n\n{tables(peers)}\n\n{forms()}"
        parts["losses"] = losses(peers)
        files[f"{PICTURES}/peers.svg"] = peers_plot(peers)
    if "temporal" in reports:
        temporal = reports["temporal"]
        parts["temporal"] = f"{temporal.headline()}\n\n{plugin_table(temporal)}"
    files[README] = _with_parts(root / README, parts)
    files[METHOD] = _with_parts(root / METHOD, {"goals": goals_table()})
    return files


def write(reports: Mapping[str, Report], root: Path = ROOT) -> None:
    """Write these files."""
    for path, text in contents(reports, root).items():
        (root / path).write_text(text, encoding="utf-8")


def _with_parts(page: Path, parts: Mapping[str, str]) -> str:
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = replaced(text, name, part)
    return text


def replaced(text: str, name: str, content: str) -> str:
    """The text with new content between `<!-- name -->` and `<!-- /name -->`.

    Raises:
        ValueError: A marker is missing.
    """
    first, last = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = text.partition(first)
    _, found_too, after = rest.partition(last)
    if not (found and found_too):
        raise ValueError(f"The text lacks {first} or, behind it, {last}. Put them back.")
    return f"{before}{first}\n{content}\n{last}{after}"


def between(text: str, name: str) -> str:
    """What stands between the markers."""
    _, _, rest = text.partition(f"<!-- {name} -->\n")
    return rest.partition(f"\n<!-- /{name} -->")[0]
