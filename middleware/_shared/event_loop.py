"""The event loop of a thread, which must not wait for files."""

from __future__ import annotations

import asyncio


def in_event_loop() -> bool:
    """Return True if this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
