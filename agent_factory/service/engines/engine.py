"""Engines: who works on which job of a service, and when.

The row of a thread names its job, and the lease of the thread fences its writes. So an engine only
has to call `Work.carry_out` at least once for each job: a second call, or a call in another
process at the same time, does no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import import_module
from threading import Thread
from typing import Literal, Protocol

from agent_factory.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class JobRef:
    """The name of a job, without its content.

    Args:
        id: The id of the job, such as "t-1/00000007". No two jobs have the same id.
        thread: The thread.
        tenant: The tenant of the thread.
        agent: The name of the agent.
        priority: Higher is earlier; from -1000 to 1000.
        delay: Seconds until the job may begin.
    """

    id: str
    thread: str
    tenant: str
    agent: str
    priority: int = 0
    delay: float = 0.0


SEARCH_ATTRIBUTES = {f"AgentFactory{name.title()}": name for name in ("tenant", "thread", "agent")}
"""Names by which the UI of an engine finds jobs, and the fields of a JobRef."""

Status = Literal["done", "waiting", "failed", "lost", "later"]
"""Status of an outcome."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a call of `Work.carry_out`.

    Args:
        status: "done", "waiting" or "failed": the state of the run. "lost": the job is over, was
            cancelled or went to another process. "later": the job may not begin yet.
        seconds: With "later": the time until the next call.
    """

    status: Status
    seconds: float = 0.0


class Work(Protocol):
    """The work of a service, which an engine gives out."""

    @property
    def agents(self) -> Collection[str]:
        """The names of the agents in this process: it carries out the jobs of these."""

    def carry_out(self, job: str) -> Outcome:
        """Begin a job, or continue it, in this thread; return when the job is over or waits.

        It may be called at any time, again, and in several processes at once.

        Args:
            job: The id of the job.

        Returns:
            The outcome. With "later", call again after that time: a limit of the tenant is reached,
            or a process that gives signs of life has the job.

        Raises:
            DatabaseUnavailable: Call again: nothing has changed.
        """

    def take(self, job: str) -> Outcome | Future[Outcome]:
        """As `carry_out`; a job of an async agent goes on in the event loop of the process."""


class Engine(Protocol):
    """Gives out the jobs of a service to processes.

    The engine promises that each `start` leads to at least one `carry_out` of this job, not before
    its delay, and that a job whose process dies begins again. It need not promise order, nor that a
    job runs once: the service does.

    A class of your own may inherit from this class: `name` and `start` are then enough for a queue
    whose consumers call `Service.carry_out`.
    """

    @property
    def name(self) -> str:
        """The name for people: "embedded", "temporal"."""

    def start(self, job: JobRef) -> None:
        """Give out a job whose transaction has committed. Returns at once.

        Jobs that an engine did not take, or has forgotten, are started again by the service every
        30 seconds. A job that the engine knows is not given out twice.
        """

    def cancel(self, job: JobRef) -> None:
        """Forget a job that was cancelled: a hint, since the job cannot write any more."""
        return

    def serve(self, work: Work, slots: int) -> Sequence[Thread]:
        """Carry out jobs in this process, at most `slots` at once. Returns at once.

        Returns:
            The threads that do so: a process is not ready once a thread has ended by mistake.
        """
        return ()

    def stop(self, seconds: float) -> None:
        """Take no more jobs, and wait at most some seconds for the running ones."""
        return

    def fault(self) -> str | None:
        """Why the engine gives out no jobs, such as a server that is away; None if it does."""
        return None


_SCHEMES = {"restate": "Restate", "restate+https": "Restate", "temporal": "Temporal"}


def engine_of(engine: Engine | str | None) -> Engine:
    """The engine of a URL, or an engine itself; None and "embedded" need no server.

    Raises:
        ArgumentError: The text is not the URL of an engine.
        MissingExtra: The package of the engine is not installed.

    >>> engine_of("embedded").name
    'embedded'
    """
    if engine is not None and not isinstance(engine, str) and hasattr(engine, "start"):
        return engine
    text = "embedded" if engine is None else str(engine)
    scheme = text.partition(":")[0]
    hint = "Pass 'embedded', 'temporal://127.0.0.1:7233' or 'restate://127.0.0.1:8080'."
    if text != "embedded" and scheme not in _SCHEMES:
        raise ArgumentError("engine", f"must be the URL of an engine, got {engine!r}.", hint)
    kind = getattr(import_module("agent_factory.service.engines"), _SCHEMES.get(scheme, "Embedded"))
    try:
        made: Engine = kind() if text == "embedded" else kind(text)
    except (ValueError, OSError) as error:  # such as of a port, or of a host that is not known
        raise ArgumentError("engine", f"cannot be reached by {text!r}: {error}.", hint) from error
    return made
