"""Notices: calls of `on_wait`, for each wait about which a person decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from sqlalchemy import Row, Select, select, update

from agent_factory.service.deliveries import DeliveryQueue
from agent_factory.service.tables import waits
from agent_factory.service.waits import Wait

OnWait = Callable[[Wait], Awaitable[None] | None]
"""Called when a thread begins to wait for a person."""

DEADLINE_SECONDS = 30.0
"""The longest time of an async `on_wait`: less than a claim."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Due call of `on_wait`, with the number of this attempt, from 1."""

    wait: Wait
    attempt: int

    @property
    def id(self) -> str:
        """The id of the wait."""
        return self.wait.id


class NoticeQueue(DeliveryQueue[Notice]):
    """Notices of waits, in the rows of the waits.

    Each notice is sent at least once, by a process that has called `start`. A wait that is decided
    first has no notice. The log names a notice whose attempts have all failed; the inbox still has
    the wait.
    """

    name, end = "notices", update(waits).values(notice_due=None)
    columns = (waits.c.wait_id, waits.c.notice_due, waits.c.notice_attempts)

    def select(self, running: Sequence[Notice]) -> Select[Any]:
        """The waits."""
        return select(waits, self._database.now.label("now"))

    def item(self, row: Row[Any], attempt: int) -> Notice | None:
        """The notice of a claimed row; None if the wait is decided."""
        return Notice(Wait.of(row, row.now), attempt) if row.decided_at is None else None

    def describe(self, item: Notice) -> str:
        """Name a notice for the log."""
        return f"Notice of wait {item.wait.id} of thread {item.wait.thread_id}"


def sender(on_wait: OnWait) -> Callable[[Notice], None]:
    """A function that sends a notice."""

    async def finish(result: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS) as deadline:
                await result
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise TimeoutError(f"no end within {DEADLINE_SECONDS:g} seconds") from error

    def send(notice: Notice) -> None:
        result = on_wait(notice.wait)
        if isawaitable(result):
            asyncio.run(finish(result))

    return send
