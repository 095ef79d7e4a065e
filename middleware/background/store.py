"""Store of jobs: a service keeps the jobs of a run there, so no job is lost unnoticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig

from agent_factory.types import graph_namespace, providing, run_services

from .jobs import BackgroundCall


class JobStore(Protocol):
    """The jobs of a thread, kept outside of the state. A service has them in a database.

    In async runs the methods are called in threads. The result of a job is a message from the store
    to the thread: to the run under way, or as the next run.
    """

    @property
    def thread(self) -> str:
        """The id of the thread."""

    @property
    def run(self) -> str:
        """The id of the run, the same in another process that continues the run."""

    def begin(
        self, id: str, lost: HumanMessage, most: int, call: BackgroundCall | None
    ) -> Literal["begun", "known", "full"]:
        """Keep a job whose work begins now.

        Args:
            id: The id of the job. A run that was killed before the result of the call was stored
                makes the call again, with the same id.
            lost: The message to send if the process ends before the job does.
            most: How many jobs the thread may have.
            call: The argument of `repeat_job`, if the job may begin again then; None if not. It may
                hold values without a stored form: raise then, and the work does not begin.

        Returns:
            "begun", also if the job is kept for this process already; "known" if another process
            has begun or ended the job; "full" if the thread has no room for more jobs.
        """

    def keeps(self, id: str, attempt: int | None = None) -> bool:
        """Return False for an ended or dropped job, which must have no more effects.

        Args:
            id: The id of the job.
            attempt: Who asks. An attempt is over, too, when the job has begun once more.
        """

    def end(self, id: str, message: HumanMessage, attempt: int) -> None:
        """Send the message of an ended attempt, unless `keeps` returns False."""

    def drop(self, id: str) -> bool:
        """Forget a job without sending the result; False if the job was not kept."""


@contextmanager
def jobs_of_run(store: JobStore) -> Iterator[None]:
    """Let the agent in the block keep background jobs in a store.

    Applies to the outermost agent of the store's thread. At its end, the run does not wait for
    jobs, because the store sends their results.

    Args:
        store: Where the jobs are kept.

    >>> from agent_factory import background, create_agent
    >>> from agent_factory.middleware import BackgroundMiddleware
    >>> from agent_factory.testing import ScriptedChatModel
    >>> class Jobs(dict):
    ...     thread, run = "1", "message-1"
    ...
    ...     def begin(self, id, lost, most, call):
    ...         if id not in self and len(self) >= most:
    ...             return "full"
    ...         self[id] = lost
    ...         return "begun"
    ...
    ...     def keeps(self, id, attempt=None):
    ...         return id in self
    ...
    ...     def end(self, id, message, attempt):
    ...         if self.drop(id):
    ...             print(message.text.splitlines()[-1])
    ...             ended.set()
    ...
    ...     def drop(self, id):
    ...         return self.pop(id, None) is not None
    >>> from threading import Event
    >>> ended = Event()
    >>> def render(page: int) -> str:
    ...     "Render a page."
    ...     return f"Page {page} is rendered."
    >>> agent = create_agent(
    ...     ScriptedChatModel([[{"name": "render", "args": {"page": 1}}], "It is on its way."]),
    ...     [background(render)],
    ...     middleware=[BackgroundMiddleware()],
    ...     ignore=["AF211"],
    ... )
    >>> with jobs_of_run(Jobs()):
    ...     thread = {"configurable": {"thread_id": "1"}}
    ...     result = agent.invoke({"messages": "Render page 1."}, thread)
    ...     _ = ended.wait(10)
    Page 1 is rendered.
    """
    with providing(jobs=store):
        yield


def store_of(config: RunnableConfig) -> JobStore | None:
    """Return the store for the agent around a node, by the node's config; None without one."""
    store: JobStore | None = run_services.get().jobs
    # An agent inside, or an agent of a tool on another thread, keeps its jobs itself.
    if store is None or graph_namespace(config):
        return None
    return store if config.get("configurable", {}).get("thread_id") == store.thread else None
