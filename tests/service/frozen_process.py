"""A worker that freezes in a transaction of its choice, as by SIGSTOP or a paused machine."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from agent_factory.middleware import HumanInTheLoopMiddleware, OnceMiddleware
from agent_factory.service import Pace, Service
from agent_factory.service.database import Database
from service.desk import Journal, make_desk, take
from waiting import until

_OUTER = {"EventLog.ending", "FencedSaver._fenced", "Backend.call"}
_OUTER |= {"Database.retried", "Database.write"}
"""Functions that begin transactions for their callers."""


def add_agents(service: Service, journal: Journal, seconds: float = 0.0) -> None:
    """An agent that pays once, and an agent that asks before; each step takes some seconds."""
    once, asks = OnceMiddleware({"pay": "fail"}), HumanInTheLoopMiddleware({"pay": True})
    options: Any = {"calls": 1, "seconds": seconds}
    service.add("desk", make_desk(journal, middleware=[once], **options))
    service.add("asks", make_desk(journal, middleware=[asks, once], **options))


def submit_all(service: Service, name: str, tenant: str) -> list[Any]:
    """Submit a message to each agent."""
    place: dict[str, Any] = {"message": "Pay.", "message_id": "m-000", "tenant": tenant}
    return [service.submit(agent, thread=f"{name}-{agent}", **place) for agent in service.agents]


def approve(service: Service, run: Any) -> Any:
    """Wait until a run asks, and approve."""
    run.result(600)
    (wait,) = service.inbox().waits(thread=run.thread_id)
    return service.decide(wait.id, "approve", by="ann")


def act(service: Service) -> None:
    """Do most of what a process of a service does."""
    _, asks = submit_all(service, "frozen", "a")
    wait = asks.result(600) and service.inbox().waits(thread=asks.thread_id)[0]
    service.inbox().claim(wait.id, by="ann")
    service.decide(wait.id, "approve", by="ann").result(600)
    later = service.submit("desk", thread="cancelled", message="Pay.", tenant="a", delay=600)
    later.cancel(by="ann")
    service.threads.delete("cancelled", by="ann")
    service.schedule("often", "* * * * * *", agent="desk", message="Pay.", thread="scheduled")
    until(lambda: any(one.id == "scheduled" for one in service.threads.search()))
    service.unschedule("often")


def freeze_in(name: str, journal: Journal) -> None:
    """Let this process freeze at the end of its first transaction of a function."""
    begin: Callable[[Database], Any] = Database.begin
    first = Lock()  # two threads may come at once

    @contextmanager
    def freezing(database: Database) -> Iterator[Any]:
        caller = _caller()
        with begin(database) as connection:
            yield connection
            if caller == name and first.acquire(blocking=False):
                journal.write("frozen", caller)
                os.kill(os.getpid(), signal.SIGSTOP)
                take(0.1)  # until all threads have stopped
                journal.write("woke", caller)

    setattr(Database, "begin", freezing)  # noqa: B010  mypy would compare the types


def _caller() -> str:
    frame: Any = sys._getframe(2)
    while "agent_factory" not in frame.f_code.co_filename or frame.f_code.co_qualname in _OUTER:
        frame = frame.f_back
    return str(frame.f_code.co_qualname)


def main(url: str, path: str, *, freeze: str | None = None, **options: Any) -> None:
    """Run jobs until standard input is closed; with `freeze`, act first."""
    logging.basicConfig(level=logging.WARNING)
    journal = Journal(Path(path))
    if freeze is not None:
        freeze_in(freeze, journal)
    # Events come at once, and steps take their time: else each run of a fast machine ends before
    # a transaction of events alone, since the end of a run writes its last events.
    service = Service(url, pace=Pace(gather=0.0, gather_first=0.0), **options)
    add_agents(service, journal, seconds=0.0 if freeze is None else 0.1)
    service.start(slots=4)
    print("ready", flush=True)
    if freeze is not None:
        act(service)
    sys.stdin.read()
    service.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], **json.loads(sys.argv[3]))
