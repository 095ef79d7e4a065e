"""Activity: what a thread does now, in words."""

from __future__ import annotations

from collections.abc import Sequence

from agent_factory.serve.pages.thread_rows import decider_of
from agent_factory.service import ThreadInfo, Wait


def activity_of(info: ThreadInfo, waits: Sequence[Wait]) -> str:
    """What a thread does now, such as "waiting for ann"; "" if it does nothing.

    While it runs, the page gets the rest from the events of the run.

    Args:
        info: The thread.
        waits: What it waits for.
    """
    if info.status in ("queued", "running"):
        return "queued" if info.status == "queued" else "thinking"
    if info.status != "waiting" or not waits:
        return ""
    # A dict and no set: it keeps the order of the waits.
    people = dict.fromkeys(map(decider_of, waits))
    return f"waiting for {', '.join(people)}"
