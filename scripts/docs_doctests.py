"""Griffe extension: examples in docstrings are shown as code.

A docstring of ours has its example as lines of ``>>>``. In Markdown these are quotations.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*(?:\n\n>>> .*(?:\n(?!\s*$).*)*)*", flags=re.M)


class Doctests(griffe.Extension):
    """Put fences around the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called once for each class, function, module and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring with a fence around each run of lines that begins with ``>>>``."""
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
