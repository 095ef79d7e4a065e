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
        example: The smallest crossing that shows it.
        features: The features that it stands between; none: all of the example.
        ways: Ways that show it; none: all.
    """

    sentence: str
    breaks: str
    example: Crossing
    features: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()

    def covers(self, crossing: Crossing, fault: Fault) -> bool:
        """Whether a fault of a crossing is this one."""
        features = {*(self.features or self.example.features)}
        is_about = f"{fault.promise} {fault.subject}".startswith(self.breaks)
        return (
            is_about
            and features <= {*crossing.features}
            and crossing.way in (self.ways or (crossing.way,))
        )


FETCH, FAIL = ("fetch",), ("fail",)

KNOWN: dict[str, Known] = {
    "last words of budget": Known(
        "The text in which a budget ends a run is not streamed, if it is in place of calls.",
        "streamed messages",
        Crossing(("budget",), "stream messages", (FETCH,) * 5),
    ),
    "a limit in a fork": Known(
        "A limit that ends a fork before the model answers open calls after the new message.",
        "valid thread",
        Crossing(("limit_thread",), "fork", (FETCH, FETCH), ("plain",)),
        ways=("fork",),
    ),
}
