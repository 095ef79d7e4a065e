"""BackgroundMiddleware: starts the work of background tools, and reads the results."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, NotRequired

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command

from agent_factory import (
    AgentState,
    Flow,
    Invoke,
    Ordering,
    PrivateStateAttr,
    Sleep,
    ToolCallRequest,
    UsageLimit,
    background_timeout,
    hook_config,
    set_reason,
)
from agent_factory.errors import BuildWarning, SpecError
from agent_factory.middleware._shared.invocable import Called, Update, flow_hook, tool_of
from agent_factory.middleware._shared.mailbox import BACKGROUND, READERS, mailbox_of, unseen
from agent_factory.middleware._shared.messages import ends_run, last_turn, unanswered
from agent_factory.middleware._shared.payload_free import PayloadFree
from agent_factory.middleware._shared.validation import check_bool, check_call, check_count

from .calls import JOBS_KEY, starting
from .jobs import BackgroundJob, Jobs, is_alive, is_own, merge_jobs, message_of
from .store import JobStore, store_of
from .work import Work, letter, under_way

_LONGEST_PAUSE: Final = 0.25
"""Seconds between two looks at the mailbox, while a run waits for a result."""


class BackgroundState(AgentState):
    """State of an agent with background tools.

    Attributes:
        background_jobs: The jobs of this thread without a read result, by their ids.
    """

    background_jobs: NotRequired[Annotated[Jobs, merge_jobs, PrivateStateAttr]]


class BackgroundMiddleware(PayloadFree[BackgroundState]):
    """Does the work of background tools, and reads the results as messages.

    A call of a tool from `background` starts a job and returns the id at once. Decisions of
    other layers about the call come before; the job is the tool alone. The result is
    put into the saver when the job ends, and is read at the next call of the model, as a message
    with the name of the job. A result in the saver is read once, whichever process is killed.

    The jobs live in this process. Jobs of an ended process are reported as lost, by name.
    The model gets two tools: `check_background` reports the progress of a job, and
    `cancel_background` cancels a job.

    A run with jobs under way waits at the end for the first result, and goes on with the result.
    A job that takes longer than the `timeout` of its tool is reported as an error. Async work is
    cancelled then. A thread cannot be stopped: sync work ends when the tool writes progress again,
    or when a subagent in it makes its next call. Else the tool runs to its end, and the result is
    dropped.

    Args:
        max_running: The most jobs under way in a thread. A further call is answered with an error.
        wait: Whether a run waits at the end for the jobs under way. If not, the next run of
            the thread reads their results.
        name: The name of this instance. An agent needs a single instance.

    Raises:
        ValueError: `max_running` is not a positive whole number.
        TypeError: `wait` is neither True nor False.

    >>> from agent_factory import background, create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> def count_words(text: str) -> str:
    ...     "Count the words of a text."
    ...     return f"{len(text.split())} words"
    >>> model = ScriptedChatModel(
    ...     [[{"name": "count_words", "args": {"text": "one two"}}], "I wait.", "Two."]
    ... )
    >>> agent = create_agent(
    ...     model,
    ...     [background(count_words)],
    ...     middleware=[BackgroundMiddleware()],
    ...     checkpointer=InMemorySaver(),
    ... )
    >>> thread = {"configurable": {"thread_id": "1"}}
    >>> result = agent.invoke({"messages": "How many?"}, thread)
    >>> [m.text.splitlines()[-1] for m in result["messages"] if m.name == "background"]
    ['2 words']
    """

    state_schema = BackgroundState
    needs_checkpointer = True
    kept_flows = ("around_tool",)

    ordering = Ordering(after=("ModelCallLimitMiddleware", "SteeringMiddleware"), before=READERS)

    def __init__(
        self, *, max_running: int = 10, wait: bool = True, name: str | None = None
    ) -> None:
        super().__init__(name=name)
        check_count("max_running", max_running, 1, required=True)
        check_bool("wait", wait)
        self.max_running, self.wait = max_running, wait
        self.tools = [*_TOOLS]

    def build_findings(self, tools: Sequence[Any]) -> Iterator[SpecError]:
        """A finding for an agent with tools, of which none works in the background."""
        if any(not tool.owner for tool in tools) and all(tool.background is None for tool in tools):
            reason = "does nothing: the agent has no background tool."
            hint = "Wrap a tool, background(tool, timeout=600), or remove it from the stack."
            yield BuildWarning(self.name, reason, hint, code="AF212")

    @property
    def limits(self) -> Sequence[UsageLimit]:  # type: ignore[override]
        """The most jobs at a time, for the plan."""
        return [UsageLimit(self.max_running, "jobs under way", "thread")]

    @flow_hook
    def before_model(self, state: BackgroundState, runtime: Runtime[Any]) -> Flow[Update]:
        """Add arrived results."""
        # After a jump over the tools, calls may have no results, which must follow the calls.
        if not state.get(JOBS_KEY) or unanswered(*last_turn(state["messages"])):
            return None
        ended = yield from _ended(state, get_config())
        # Messages of a service are in the thread already.
        arrived = state[JOBS_KEY].keys() & {message.id for message in state["messages"]}
        new = [message for id, message in ended.items() if id not in arrived]
        if not new and not arrived:
            return None
        return {"messages": new, JOBS_KEY: dict.fromkeys([*ended, *arrived])}

    @flow_hook
    @hook_config(can_jump_to=["model"])
    def after_model(self, state: BackgroundState, runtime: Runtime[Any]) -> Flow[Update]:
        """Wait at the end of a run until a result is there, or something else for the agent."""
        if not self.wait or not state.get(JOBS_KEY) or not ends_run(state):
            return None
        config, pause = get_config(), 0.001
        if store_of(config) is not None:  # the store sends the results, and begins a run with them
            return None
        while True:
            # Messages of people come first: SteeringMiddleware goes on with them, or ends the run.
            if (yield from unseen(state, runtime, "steer", "follow_up", "cancel")).here:
                return None
            if (yield from _ended(state, config)):
                set_reason("background work has ended")
                return {"jump_to": "model"}
            yield Sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    @flow_hook
    def after_agent(self, state: BackgroundState, runtime: Runtime[Any]) -> Flow[Update]:
        """Cancel the jobs of a run cancelled by people."""
        jobs: Jobs = state.get(JOBS_KEY) or {}
        if not jobs:
            return None
        # SteeringMiddleware ends a run with this message, unless the run has just got an answer.
        marks = [message.additional_kwargs.get("lc_source") for message in state["messages"][-1:]]
        cancelled = marks == ["steering"]
        if not cancelled:
            cancelled = bool((yield from unseen(state, runtime, "cancel")).here)
        for id, job in jobs.items() if cancelled else ():
            work = under_way(id) if is_own(job) else None
            if work is not None and work.cancel():
                yield from work.deliver(message_of(id, job, "cancelled"))
        return None

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Start the work of a background tool, and return the handle."""
        if background_timeout(request.tool) is not None:
            # Now, and not later in the work: the model corrects the call.
            check_call(request.tool_call, request.tool)
            request = request.override(tool=starting(request, self.max_running, id(self)))
        result: ToolMessage | Command[Any] = yield request
        return result


# Results


def _ended(state: Any, config: RunnableConfig) -> Flow[dict[str, HumanMessage]]:
    """Return the messages of the ended jobs of a thread, by the ids of the jobs."""
    jobs: Jobs = state.get(JOBS_KEY) or {}
    if not jobs or store_of(config) is not None:  # a store sends the messages itself
        return {}
    # Before the mailbox: a job that ends now is found there, or at the next look.
    works = {id: under_way(id) for id, job in jobs.items() if is_own(job)}
    mailbox = mailbox_of(config)
    entries = (yield from mailbox.entries()) if mailbox else None
    messages = {entry.id: entry.message for entry in entries or () if entry.kind == BACKGROUND}
    ended: dict[str, HumanMessage] = {}
    for id, job in jobs.items():
        message = letter(id) or messages.get(id)
        if message is None and works.get(id) is None:
            # Without a worker here and a result. A result from elsewhere may still arrive.
            alive = False if is_own(job) else is_alive(job)
            if alive is False or time.time() > job["deadline"]:
                message = message_of(id, job, "timed out" if alive else "lost")
        if message is not None:
            ended[id] = message
    return ended


# Tools


def check_background(id: str, runtime: ToolRuntime[Any, Any]) -> Flow[str]:
    """Say how far a background job is. Its result arrives as a message; this does not wait for it.

    Args:
        id: The id of the job, as its call has returned it.
    """
    found = yield from _found(id, runtime)
    if isinstance(found, str):
        return found
    job, store, work = found
    if store is not None and not (yield Invoke(Called(store.keeps), (id,))):
        return f"{job['tool']} ({id}) is not under way. If it has ended, a message says how."
    text = f"{job['tool']} ({id}) is under way for {time.time() - job['started']:.0f} seconds."
    if work is not None and work.progress is not None:
        text += f" Its last progress: {work.progress}"
    return text


def cancel_background(id: str, runtime: ToolRuntime[Any, Any]) -> Flow[Any]:
    """Cancel a background job, whose result is not needed any more.

    Args:
        id: The id of the job, as its call has returned it.
    """
    found = yield from _found(id, runtime)
    if isinstance(found, str):
        return found
    job, store, work = found
    if store is not None:
        # The store decides alone: whichever process works, the result is not sent any more.
        if not (yield Invoke(Called(store.drop), (id,))):
            return _late(id, job)
        if work is not None:
            work.cancel()
    # A job settled by now has a result, which is on the way.
    elif is_own(job) and (work is None or not work.cancel()):
        return _late(id, job)
    text = f"{job['tool']} ({id}) is cancelled, and has no result."
    if work is None or not work.can_stop:
        text += " What it has begun may run to its end."
    message = ToolMessage(text, tool_call_id=runtime.tool_call_id)
    return Command(update={"messages": [message], JOBS_KEY: {id: None}})


# Made once: reading signatures is slow.
_TOOLS: Final = [tool_of(f, parse_docstring=True) for f in (check_background, cancel_background)]


def _found(
    id: str, runtime: ToolRuntime[Any, Any]
) -> Flow[tuple[BackgroundJob, JobStore | None, Work | None] | str]:
    """Return a job without a known end, with its store and its work here; or a text why not."""
    jobs: Jobs = runtime.state.get(JOBS_KEY) or {}
    if (job := jobs.get(id)) is None:
        names = ", ".join(f"{job['tool']} ({id})" for id, job in jobs.items())
        return f"No job {id} is under way, or its result was read. Under way: {names or 'none'}."
    if id in (yield from _ended(runtime.state, runtime.config)):
        return _late(id, job)
    store = store_of(runtime.config)
    # With a store, this process may have begun a job that another process has lost.
    return job, store, under_way(id) if is_own(job) or store is not None else None


def _late(id: str, job: BackgroundJob) -> str:
    return f"{job['tool']} ({id}) has ended. How it has ended arrives as a message."
