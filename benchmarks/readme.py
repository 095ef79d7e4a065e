"""The parts of README.md that are written by the benchmarks themselves."""

from __future__ import annotations

from pathlib import Path

README = Path(__file__).with_name("README.md")

STORED = Path(__file__).with_name("watched.json")
"""The figures of the group `watched` in README.md, which a picture is drawn from."""


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
