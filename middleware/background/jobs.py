"""Jobs: background work in the state of a thread, and the process of each job."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Literal, NotRequired
from uuid import uuid4

from langchain_core.messages import HumanMessage
from typing_extensions import TypedDict

from agent_factory.middleware._shared.effects import OnUnknown
from agent_factory.middleware._shared.errors import UNKNOWN_OUTCOME
from agent_factory.middleware._shared.mailbox import BACKGROUND

_TOKEN: Final = uuid4().hex
"""Differs from that of an earlier process with the same number."""

Ending = Literal["done", "failed", "timed out", "cancelled", "lost"]
"""How a job has ended."""


class BackgroundJob(TypedDict):
    """A job under way, as the state of its thread holds it.

    Attributes:
        tool: The name of the tool.
        arguments: The arguments, as a short text.
        owner: The process of the work: host, process number, and token.
        started: Time of the start, in seconds since 1970.
        deadline: Latest time of the end, in seconds since 1970.
    """

    tool: str
    arguments: str
    owner: tuple[str, int, str]
    started: float
    deadline: float


class BackgroundCall(TypedDict):
    """The call of a job, from which another process can begin the job again.

    Attributes:
        id: The id of the job.
        job: The job.
        call: The tool call, with the arguments outside of the fields below.
        runtimes: The state and the execution info of each argument that is a ToolRuntime.
        stores: The arguments that are the store.
        effects: The idempotency key of each runtime of a call recorded by OnceMiddleware, and
            the policy for an attempt of unknown outcome.
    """

    id: str
    job: BackgroundJob
    call: dict[str, Any]
    runtimes: dict[str, tuple[Any, dict[str, Any] | None]]
    stores: list[str]
    effects: NotRequired[dict[str, tuple[str, OnUnknown]]]


Jobs = dict[str, BackgroundJob]
"""Jobs by their ids."""


def merge_jobs(jobs: Jobs | None, more: Mapping[str, BackgroundJob | None] | None) -> Jobs:
    """State reducer: add jobs, and remove jobs with the value None."""
    merged: dict[str, BackgroundJob | None] = {**(jobs or {}), **(more or {})}
    return {id: job for id, job in merged.items() if job is not None}


_HOST = platform.node()
"""A name of this machine; containers on it have their own numbers of processes."""

with suppress(OSError):  # a file of Linux
    _HOST += f"/{os.stat('/proc/self/ns/pid').st_ino}"


def this_process() -> tuple[str, int, str]:
    """Return the owner of jobs from this process; a fork is another owner."""
    return _HOST, os.getpid(), _TOKEN


def is_own(job: BackgroundJob) -> bool:
    """Return True if this process does the work. Savers return a tuple as a list."""
    return tuple(job["owner"]) == this_process()


def is_alive(job: BackgroundJob) -> bool | None:
    """Return whether the process of a job is alive; None if unknown from here."""
    host, number, token = job["owner"]
    here, own_number, own_token = this_process()
    if host != here:
        return None
    if number == own_number:
        return token == own_token
    if os.name != "posix":
        return None  # Windows has no signal 0: `os.kill` would end the process
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


_PHRASES: Final[Mapping[Ending, str]] = {
    "done": "has ended. What follows is its result, not a message of the user:",
    "failed": "has failed. What follows is its error, not a message of the user:",
    "timed out": f"did not end in {{seconds:g}} seconds, and has no result. {UNKNOWN_OUTCOME}",
    "cancelled": f"was cancelled, and has no result. {UNKNOWN_OUTCOME}",
    "lost": f"is lost{{after}}: the process or event loop that did it has ended. {UNKNOWN_OUTCOME}",
}


def message_of(
    id: str, job: BackgroundJob, ending: Ending, content: Any = "", attempts: int = 1
) -> HumanMessage:
    """Return the message about the end of a job for the model, with the result or the error.

    >>> job = BackgroundJob(tool="render", arguments="{}", owner=("", 1, ""), started=0, deadline=9)
    >>> print(message_of("4f2a", job, "done", "Page 1.").text)
    [Background job 4f2a, render({}), has ended. What follows is its result, not a message of \
the user:]
    Page 1.
    """
    after = f" after {attempts} attempts" if attempts > 1 else ""
    phrase = _PHRASES[ending].format(seconds=job["deadline"] - job["started"], after=after)
    head = f"[Background job {id}, {job['tool']}({job['arguments']}), {phrase}]"
    if isinstance(content, list):
        content = [{"type": "text", "text": head}, *content]
    else:
        content = f"{head}\n{content}" if content else head
    about = {"id": id, "tool": job["tool"], "ending": ending}
    kwargs = {"lc_source": BACKGROUND, BACKGROUND: about}
    # Providers take results of tools only next to their calls, and these have a result: the handle.
    return HumanMessage(content, id=id, name=BACKGROUND, additional_kwargs=kwargs)
