"""Faults of the package that crossings find today, each with the smallest crossing that shows it.

A test fails when it shows it no more: then the entry is to be removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from crossings.oracle import Fault
from crossings.ways import Crossing


@dataclass(frozen=True)
class Known:
    """A fault between features.

    Args:
        sentence: What happens.
        breaks: The broken promise, and the beginning of what it is about.
        example: The smallest crossing that shows it. Crossings with more features may, too.
    """

    sentence: str
    breaks: str
    example: Crossing

    def covers(self, crossing: Crossing, fault: Fault) -> bool:
        """Whether a fault of a crossing is this one."""
        is_about = f"{fault.promise} {fault.subject}".startswith(self.breaks)
        return is_about and {*self.example.features} <= {*crossing.features}


FETCH = ("fetch",)

KNOWN: dict[str, Known] = {
    "last words of budget": Known(
        "The text in which a budget ends a run is not streamed, if it is in place of calls.",
        "streamed messages",
        Crossing(("budget",), "stream messages", (FETCH,) * 5),
    ),
}
