"""Notices: calls of `on_wait`, for each wait about which a person decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable

from sqlalchemy import select, update

from agent_factory.service.deliveries import AT_ONCE, CLAIM_SECONDS, DeliveryQueue
from agent_factory.service.errors import NotFound
from agent_factory.service.inbox import Inbox
from agent_factory.service.tables import waits
from agent_factory.service.waits import Wait

OnWait = Callable[[Wait], Awaitable[None] | None]
"""Called when a thread begins to wait for a person."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Due call of `on_wait`, with the number of this attempt, from 1."""

    wait: Wait
    attempt: int


class NoticeQueue(DeliveryQueue[Notice]):
    """Notices of waits, in the rows of the waits.

    Each notice is sent at least once, by a process that has called `start`. A wait that is decided
    first has no notice. The log names a notice whose attempts have all failed; the inbox still has
    the wait.
    """

    name = "notices"

    def claim_due(self) -> list[Notice]:
        """Due notices: no other process sends these for a minute."""
        now = self._database.now
        query = select(waits.c.wait_id, waits.c.notice_attempts, waits.c.decided_at)
        with self._database.read() as connection:
            due = query.where(waits.c.notice_due <= now).order_by(waits.c.notice_due)
            rows = connection.execute(due.limit(AT_ONCE)).all()
        inbox, claimed = Inbox(self._backend), []
        for row in rows:
            # Another process may have claimed the notice: then the number of attempts differs.
            this = (waits.c.wait_id == row.wait_id) & (
                waits.c.notice_attempts == row.notice_attempts
            )
            is_open = row.decided_at is None
            # After the death of this process, the notice is due again. The notice of a decided wait
            # has to leave the index of due notices.
            due_again = now + CLAIM_SECONDS if is_open else None
            values = {"notice_attempts": row.notice_attempts + 1, "notice_due": due_again}
            with self._database.begin() as connection:
                is_ours = connection.execute(update(waits).where(this).values(values)).rowcount
            if is_ours and is_open:
                try:
                    wait = inbox.get(row.wait_id)
                except NotFound:  # its thread was deleted
                    continue
                claimed.append(Notice(wait, row.notice_attempts + 1))
        return claimed

    def describe(self, item: Notice) -> str:
        """Name a notice for the log."""
        return f"Notice of wait {item.wait.id} of thread {item.wait.thread_id}"

    def repeat(self, item: Notice, seconds: float) -> None:
        """Send a notice again in some seconds."""
        self._set(item, self._database.now + seconds)

    def finish(self, item: Notice) -> None:
        """Send a notice no more."""
        self._set(item, None)

    def _set(self, item: Notice, due: object) -> None:
        this = update(waits).where(waits.c.wait_id == item.wait.id)
        with self._database.begin() as connection:
            connection.execute(this.values(notice_due=due))


def sender(on_wait: OnWait) -> Callable[[Notice], None]:
    """A function that sends a notice."""

    async def finish(result: Awaitable[None]) -> None:
        await result

    def send(notice: Notice) -> None:
        result = on_wait(notice.wait)
        if isawaitable(result):
            asyncio.run(finish(result))

    return send
