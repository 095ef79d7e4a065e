"""Rows of threads in a list, with the user's last words and the waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agent_factory.service import Service, ThreadInfo, Wait

_NOBODY = {
    "question": "an answer",
    "client": "its client",
    "pause": "somebody to let it go on",
}
"""Object of a wait without a person, by the kind of the wait."""


def decider_of(wait: Wait) -> str:
    """Who is to decide about a wait, in words.

    >>> from types import SimpleNamespace
    >>> wait = SimpleNamespace(kind="review", claimed_by=None, reviewers=("finance", "@ann"))
    >>> decider_of(wait)
    'finance or ann'
    """
    if wait.claimed_by:
        return wait.claimed_by
    people = " or ".join(name.removeprefix("@") for name in wait.reviewers)
    return people or _NOBODY.get(wait.kind, "a decision")


def activity_of(info: ThreadInfo, waits: Sequence[Wait]) -> str:
    """The activity of a thread, such as "waiting for ann"; "" at rest.

    The events of a run say more on the page.
    """
    if info.status in ("queued", "running"):
        return "queued" if info.status == "queued" else "thinking"
    if info.status != "waiting" or not waits:
        return ""
    # A dict keeps the order of the waits.
    people = dict.fromkeys(map(decider_of, waits))
    return f"waiting for {', '.join(people)}"


def thread_rows(
    service: Service, threads: Sequence[ThreadInfo], tenant: str
) -> list[dict[str, object]]:
    """Threads as a list shows them, with two queries for all of them.

    A row has the last words of the user, unless the title has them, and the waits, the oldest
    first. It has a namesake if another row has its title.
    """
    ids = [thread.id for thread in threads]
    words = service.threads.last_words(ids, tenant=tenant)
    waits: dict[str, list[Wait]] = {}  # by their threads, the oldest first
    # Without threads that wait, no query is needed.
    waiting = [thread.id for thread in threads if thread.status == "waiting"]
    for wait in service.inbox(tenant).find(threads=waiting, undecided=True) if waiting else ():
        waits.setdefault(wait.thread_id, []).insert(0, wait)
    # Of these rows: a search for titles would read all threads.
    titles = Counter(thread.title for thread in threads)
    return [
        {
            "thread": thread,
            "words": in_a_row(words.get(thread.id, ""), thread.title or ""),
            "waits": waits.get(thread.id, ()),
            "has_namesake": titles[thread.title] > 1,
        }
        for thread in threads
    ]


def in_a_row(words: str, title: str) -> str:
    """Words in one line, a long line cut; "" if they are the title, which may be cut.

    >>> in_a_row("Where is\\nmy order?", "Hello")
    'Where is my order?'
    >>> in_a_row("Where is my order?", "Where is my…")
    ''
    """
    line = " ".join(words.split())
    if line.startswith(title.removesuffix("…")) and title:
        return ""
    return line if len(line) <= 200 else f"{line[:199]}…"
