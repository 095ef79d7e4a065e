"""Work: the jobs of this process, in threads and in tasks.

Work belongs to the process and not to an agent, because an agent may be built for each request.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, Final

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command

from agent_factory import Flow, Invoke, arun, run
from agent_factory.middleware._shared.errors import format_error
from agent_factory.middleware._shared.invocable import Called, in_thread
from agent_factory.middleware._shared.mailbox import BACKGROUND, WAITS, Mailbox, admitted
from agent_factory.prebuilt.subagent import RESUMED_THREAD
from agent_factory.types import detached, needs_task

from .jobs import BackgroundJob, Ending, message_of
from .store import JobStore

_MOST_LETTERS: Final = 1024
"""Most results that are kept in memory because no saver takes them; the oldest go first. They stay
when they are read: what a run has read is not stored before its step is over."""

_lock: Final = Lock()
_under_way: Final[dict[str, Work]] = {}
_letters: Final[OrderedDict[str, HumanMessage]] = OrderedDict()


@dataclass(eq=False, slots=True)
class Work:
    """A job of this process."""

    id: str
    job: BackgroundJob
    place: object  # the agent and the thread whose jobs are counted together
    target: Mailbox | JobStore | None  # of the result; without a saver, memory keeps the result
    attempt: int = 1  # how often the job was begun, this time included
    guards: Any = None  # of the agent; data they remove from the result is stored nowhere
    is_repeated: bool = False  # begins again elsewhere if the event loop ends
    progress: Any = None  # the last write of the tool
    is_settled: bool = False  # the end is known; a later end does not count
    _task: asyncio.Task[None] | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def write(self, progress: Any) -> None:
        """Note the progress of the tool: a stream writer. Raises as `check` does."""
        self.check()
        self.progress = progress

    def check(self) -> None:
        """Raise CancelledError if the result does not count: a thread cannot be ended otherwise."""
        # A store is asked each time: another process may have dropped the job, or begun again.
        store = self._store
        if self.is_settled or (store is not None and not store.keeps(self.id, self.attempt)):
            raise asyncio.CancelledError("The job is cancelled, or its time is up.")

    @property
    def _store(self) -> JobStore | None:
        return None if isinstance(self.target, Mailbox) else self.target

    @property
    def can_stop(self) -> bool:
        """Whether a cancellation ends the work: it ends a task and not a thread."""
        return self._task is not None

    @property
    def is_dead(self) -> bool:
        """Whether the event loop was closed before the end of the job."""
        return self._loop is not None and self._loop.is_closed()

    def settle(self) -> bool:
        """Decide the end of the job; False if it is decided already."""
        with _lock:
            first, self.is_settled = not self.is_settled, True
        return first

    def cancel(self) -> bool:
        """Drop the result of the job, and end the work if possible; False if too late."""
        first = self.settle()
        if first and self._task is not None and self._loop is not None and not self.is_dead:
            self._loop.call_soon_threadsafe(self._task.cancel)
        return first

    def start(self, attempt: Attempt, *, asynchronous: bool) -> None:
        """Begin the work, in a task of the event loop or in a thread."""
        flow = self._do(attempt)
        try:
            if asynchronous:
                self._loop = asyncio.get_running_loop()
                self._task = self._loop.create_task(arun(flow), name=f"{BACKGROUND} {self.id}")
            else:
                in_thread(lambda: run(flow), BACKGROUND)
        except BaseException:
            discard(self)
            raise

    def _do(self, attempt: Attempt) -> Flow[None]:
        try:
            ending, content = yield Invoke(attempt, None)
            is_cut_short = self._task is not None and self._task.cancelling() > 0
            # The event loop ends with the worker: the job is left to the next worker.
            if not (self.is_repeated and is_cut_short) and self.settle():
                yield from self.deliver(message_of(self.id, self.job, ending, content))
        finally:
            attempt.when_over(partial(discard, self))

    def deliver(self, message: HumanMessage) -> Flow[None]:
        """Put the message of an ended job where the agent reads it; if it is blocked, the error."""
        message, error = admitted(self.guards, message)
        if error is not None:
            failure = message_of(self.id, self.job, "failed", format_error(error))
            message, _ = admitted(self.guards, failure)
        if (store := self._store) is not None:
            # The store alone decides between ended and lost, so the result is nowhere else.
            yield Invoke(Called(store.end), (self.id, message, self.attempt))
            return
        mailbox, is_stored = self.target, False
        try:
            # A deleted thread keeps nothing of the job. The checkpoint of a new thread
            # is stored while the first step runs.
            if isinstance(mailbox, Mailbox) and (yield from mailbox.checkpoint("", WAITS)):
                yield from mailbox.post(BACKGROUND, "", message, self.id)
                is_stored = True
        except Exception:
            # The saver is closed, or lets only others write. The result stays in memory.
            return
        finally:
            # Not before: a result read from memory, and not stored, would be lost with the process.
            if not is_stored:
                with _lock:
                    _letters[self.id] = message
                    if len(_letters) > _MOST_LETTERS:
                        _letters.popitem(last=False)


class Stop(BaseCallbackHandler):
    """Ends a job without a valid result at the next call of a model or tool, in any thread."""

    raise_error = run_inline = True
    ignore_chain = True  # a property of the base class

    def __init__(self, work: Work) -> None:
        self._work = work

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Raise CancelledError if the job does not count any more."""
        self._work.check()

    on_tool_start = on_chat_model_start


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call of a tool, in the form for `Invoke`; the result is the end of the job."""

    tool: BaseTool
    call: dict[str, Any]  # with the injected arguments from the graph
    config: RunnableConfig
    timeout: float  # seconds; nobody waits longer for a thread, which cannot be stopped
    end: Callable[..., Flow[None]] | None = None  # records the effect, as in EffectRuntime
    _threads: list[Future[Any]] = field(default_factory=list)

    def when_over(self, function: Callable[[], object]) -> None:
        """Call a function when all threads of the call have ended."""
        # A call out of time still takes a thread, so it keeps its slot.
        for work in self._threads:
            work.add_done_callback(lambda _: function())
        if not self._threads:
            function()

    def invoke(self, input: object, config: object = None) -> tuple[Ending, Any]:
        work = self._in_thread()
        try:
            return _read(work.result(self.timeout))
        except BaseException as error:
            return _failure(error) if work.done() else ("timed out", "")

    async def ainvoke(self, input: object, config: object = None) -> tuple[Ending, Any]:
        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                # A tool without a form for event loops would block a thread of them.
                has_coroutine: object = type(self.tool)._arun is not BaseTool._arun
                if getattr(self.tool, "coroutine", has_coroutine):
                    return _read(await arun(self._call()))
                # Not in the executor of the loop, which waits for its threads when it is closed.
                return _read(await asyncio.wrap_future(self._in_thread()))
        except BaseException as error:
            return ("timed out", "") if limit.expired() else _failure(error)

    def _in_thread(self) -> Future[Any]:
        work = in_thread(lambda: run(self._call()), BACKGROUND)
        self._threads.append(work)
        return work

    def _call(self) -> Flow[Any]:
        """Call the tool, and record the end of the effect, also without a waiting caller."""
        try:
            result = yield Invoke(self.tool, self.call, self.config)
        except BaseException as error:
            if self.end is not None:
                yield from self.end(None, error)
            raise
        if self.end is not None:
            yield from self.end(result)
        return result


def attempt_of(
    work: Work,
    tool: BaseTool,
    call: Mapping[str, Any],
    config: RunnableConfig,
    runtime: ToolRuntime[Any, Any] | Runtime[Any],
    timeout: float,
) -> Attempt:
    """Return the call of a job as a separate run, with a time limit in seconds."""
    # The streams of the run end with the run, so writes of the tool are kept as progress.
    inner = Runtime(context=runtime.context, store=runtime.store, stream_writer=work.write)
    thread = config.get("configurable", {}).get("thread_id") or BACKGROUND
    own_config = detached(config, f"{thread}:{work.id}", inner)
    callbacks: Any = own_config["callbacks"]
    callbacks.add_handler(Stop(work))
    if work.attempt > 1:
        own_config["configurable"][RESUMED_THREAD] = f"{thread}:{work.id}"
    args = {
        name: replace(value, config=own_config, stream_writer=work.write)
        if isinstance(value, ToolRuntime)
        else value
        for name, value in call["args"].items()
    }
    return Attempt(tool, {**call, "args": args}, own_config, timeout)


def _read(result: Any) -> tuple[Ending, Any]:
    if isinstance(result, ToolMessage):
        return "failed" if result.status == "error" else "done", result.content
    if isinstance(result, Command | list):
        return "failed", (
            "The tool returned a Command, which cannot change a run that has gone on. It ran to "
            "its end."
        )
    return "done", str(result)


def _failure(error: BaseException) -> tuple[Ending, Any]:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled", ""
    if needs_task(error):
        return "failed", "It asked for an answer, and nobody can be asked in the background."
    return "failed", format_error(error) if isinstance(error, Exception) else repr(error)


# The work of this process


def begin(work: Work, most: int) -> bool:
    """Count a job as under way; False if the thread has no room for more."""
    with _lock:
        # The event loops of these jobs were closed before the end was noted.
        for id in [id for id, each in _under_way.items() if each.is_dead]:
            del _under_way[id]
        if sum(each.place == work.place for each in _under_way.values()) >= most:
            return False
        _under_way[work.id] = work
        return True


def discard(work: Work) -> None:
    """Count a job as ended."""
    with _lock:
        # A job begun again in this process is under way.
        if _under_way.get(work.id) is work:
            del _under_way[work.id]


def under_way(id: str) -> Work | None:
    """Return the work of a job under way in this process."""
    work = _under_way.get(id)
    return None if work is None or work.is_dead else work


def letter(id: str) -> HumanMessage | None:
    """Return the message of an ended job outside of any mailbox."""
    return _letters.get(id)
