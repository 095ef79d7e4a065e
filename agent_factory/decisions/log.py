"""Decision log: a record of each decision of hooks, layers and routes in a run, with reasons.

Nothing is recorded unless an agent is built with `decisions=...`. A record holds names and numbers.
Contents of messages are recorded only by a log with `contents=True`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import lru_cache
from threading import Lock
from time import time
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langgraph.config import get_stream_writer
from langgraph.runtime import Runtime

from agent_factory.errors import ArgumentError, describe
from agent_factory.upstream import run_identity


class Outcome(StrEnum):
    """Kinds of decisions."""

    PASSED = "passed"
    """It changed nothing."""
    WROTE = "wrote"
    """It wrote to the state."""
    JUMPED = "jumped"
    """A hook sent the run elsewhere; `detail` says where."""
    CHANGED_REQUEST = "changed request"
    """A layer changed the request; `detail` names the fields, and `response` if it changed the
    response too."""
    CHANGED_RESPONSE = "changed response"
    """A layer changed the response."""
    ANSWERED = "answered"
    """A layer returned a response without calling the next layer."""
    REPEATED = "repeated"
    """A layer called the next layer more than once; `detail` says how often, what it changed and
    which exceptions it caught."""
    RECOVERED = "recovered"
    """A layer returned a response after its call failed; `detail` is the type of the exception."""
    ROUTED = "routed"
    """A route was taken; `detail` says where to."""
    SKIPPED = "skipped"
    """A hook or the model did not run, because a tool or a limit ended the run; `reason` says
    which."""
    ERROR_REPORTED = "reported error"
    """A tool call failed and the model got the error as its result; `detail` is the type of the
    exception."""
    REPAIRED = "repaired"
    """A history was repaired before the model saw it; `detail` says how."""
    EXPLAINED = "explained"
    """The model gets an explanation of what is wrong with its structured answer; `detail` says how
    many it has got."""
    CHANGED_PREFIX = "changed prefix"
    """It changed a part of the request that providers cache; `detail` says which and what is lost,
    `tokens` how many are `lost` of those that were `cached`."""
    USED_CACHE = "used cache"
    """A provider reported what its cache held of a request; `tokens` are `input`, `cache_read` and
    `cache_creation`."""
    INTERRUPTED = "interrupted"
    """It waits for the answer to an interrupt."""
    HANDED_OVER = "handed over"
    """It returned a command to the parent graph."""
    RAISED = "raised"
    """It raised, or what it returned was refused; `detail` is the type of the exception."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision in a run.

    Args:
        run: Id of the run: from the config, or generated. A subagent has the id of the calling
            run. Empty outside of a graph.
        thread: Id of the thread; None without a thread.
        step: The super-step of the graph, counted as if each node took a step; 0 if unknown.
        middleware: The deciding middleware; empty for the agent itself.
        hook: The hook or layer, by the name of the method, or the node.
        outcome: Kind of the decision.
        detail: More about the outcome, in a few words.
        reason: A reason by the author or by the agent, if any.
        tool: Name of the tool, for decisions about a tool call.
        call_id: Id of the tool call.
        calls: Names of the tools on a route, one for each call.
        changed: The written state keys. "messages" with the numbers of additions and removals.
        tokens: Tokens by kind; only with outcomes about the provider's cache.
        seconds: Duration in seconds, inner calls included.
        agent: Name of the agent; empty without a name.
        namespace: The tasks around a subagent, as in `stream(..., subgraphs=True)`.
        at: Time of the record, in seconds since 1970 (UTC).
        contents: The result or the exception, if the log records contents.
    """

    run: str
    thread: str | None
    step: int
    middleware: str
    hook: str
    outcome: Outcome
    detail: str = ""
    reason: str = ""
    tool: str = ""
    call_id: str = ""
    changed: tuple[str, ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    agent: str = ""
    namespace: tuple[str, ...] = ()
    at: float = 0.0
    calls: tuple[str, ...] = ()
    contents: Any = None

    @property
    def error(self) -> str:
        """The type of a raised or caught exception; empty without an exception."""
        failed = self.outcome in (Outcome.RAISED, Outcome.RECOVERED, Outcome.ERROR_REPORTED)
        return self.detail if failed else ""

    def to_data(self) -> dict[str, Any]:
        """Return the record as plain values for JSON; contents as their repr."""
        # By known names: `fields` costs more than the rest, for each idle hook.
        data: dict[str, Any] = {name: getattr(self, name) for name in _ALWAYS}
        data.update(
            outcome=self.outcome.value,
            changed=list(self.changed),
            namespace=list(self.namespace),
            calls=list(self.calls),
        )
        if self.tokens:
            data["tokens"] = dict(self.tokens)
        if self.contents is not None:
            data["contents"] = repr(self.contents)
        return data

    def __str__(self) -> str:
        who = f"{self.middleware}.{self.hook}" if self.middleware else self.hook
        words = " ".join(filter(None, (who, self.tool and f"({self.tool})", self.outcome)))
        detail = self.detail or ", ".join(self.changed)
        return words + (detail and f": {detail}") + (self.reason and f" [{self.reason}]")


_ALWAYS = [part.name for part in fields(Decision) if part.name not in ("tokens", "contents")]


class Jump(dict[str, Any]):
    """State update of a jumping node hook, with a reason for the decision log.

    Args:
        to: "tools", "model" or "end"; the hook declares the target with `hook_config`.
        reason: Why, for the decision log.
        **update: Other keys to write to the state.

    >>> Jump("end", reason="outside office hours")
    {'jump_to': 'end'}
    """

    def __init__(self, to: str, /, *, reason: str = "", **update: Any) -> None:
        super().__init__({**update, "jump_to": to})
        self.reason = reason


REASON: Final = "reason"
"""Key of a hook's update that holds a reason for the log; it is not written to the state."""


class Author(NamedTuple):
    """Hook or layer that runs: its place in the run, and a list for its reasons."""

    place: Any = None
    reasons: list[str] | None = None


author: ContextVar[Author] = ContextVar("author", default=Author())  # noqa: B039  a frozen value


def set_reason(reason: str) -> None:
    """Give the reason of the running hook or layer, for the decision log.

    The last reason counts. Without a log, this does nothing.

    Args:
        reason: Text to record verbatim: leave out texts of users and models.

    >>> from agent_factory import create_agent, wrap_model_call
    >>> from agent_factory.testing import ScriptedChatModel
    >>> @wrap_model_call
    ... def brief(request):
    ...     set_reason("it is late")
    ...     return (yield request.override(system_prompt="Be brief."))
    >>> agent = create_agent(ScriptedChatModel(["Hi."]), middleware=[brief], decisions=print)
    >>> _ = agent.invoke({"messages": [("user", "Hello")]})
    brief.around_model changed request: system_message [it is late]
    """
    if (reasons := author.get().reasons) is not None:
        reasons.append(str(reason))


Sink = Callable[[Decision], None]


class DecisionLog:
    """Sinks for the decisions of agents.

    Args:
        sinks: Functions of a `Decision`. Several threads may call them at once.
            Without sinks, decisions become custom stream events. After an error the run continues;
            the first exception of each sink becomes a RuntimeWarning.
        contents: Also record results and exceptions of hooks and layers, possibly personal data.

    Raises:
        ArgumentError: A sink cannot be called with a decision.

    >>> from agent_factory import create_agent, before_model
    >>> from agent_factory.testing import ScriptedChatModel
    >>> @before_model
    ... def greet(state, runtime):
    ...     return {"messages": [("user", "Good morning")]}
    >>> log = DecisionLog(lambda decision: print(decision.contents), contents=True)
    >>> agent = create_agent(ScriptedChatModel(["Hi."]), middleware=[greet], decisions=log)
    >>> _ = agent.invoke({"messages": [("user", "Hello")]})
    {'messages': [('user', 'Good morning')]}
    """

    def __init__(self, *sinks: Sink, contents: bool = False) -> None:
        for sink in sinks:
            problem = None
            if not callable(sink):
                problem = "is not callable"
            elif isinstance(sink, type):
                problem = "is a class, and each decision would create an instance"
            # Of an object, `iscoroutinefunction` does not look at `__call__`.
            elif inspect.iscoroutinefunction(sink) or inspect.iscoroutinefunction(
                type(sink).__call__
            ):
                problem = "is a coroutine function, which would not be awaited"
            if problem:
                raise ArgumentError(
                    "decisions",
                    f"{describe(sink)} {problem}.",
                    "Pass True, a function of a Decision, a list of them, or a DecisionLog.",
                )
        self.sinks = sinks or (to_stream,)
        self.contents = contents
        # By the index: a sink need not have a hash.
        self._failed: set[int] = set()

    def record(self, decision: Decision, runtime: Runtime[Any] | None, **known: Any) -> None:
        """Add the position in the run to a decision, and pass the record to every sink.

        Args:
            decision: The decision.
            runtime: The runtime of the node, or None outside of a graph.
            **known: Other fields of the record.
        """
        run, thread, namespace = place_in_run(runtime)
        self.send(
            replace(
                decision,
                run=run,
                thread=thread,
                namespace=namespace,
                at=time(),
                contents=decision.contents if self.contents else None,
                **known,
            )
        )

    def send(self, decision: Decision) -> None:
        """Pass a complete decision to every sink."""
        for index, sink in enumerate(self.sinks):
            try:
                sink(decision)
            except Exception as error:  # a log must not decide how a run ends
                if index not in self._failed:
                    self._failed.add(index)
                    warnings.warn(
                        f"A sink of the decision log raised {error!r}. Its later exceptions are "
                        "not reported.",
                        RuntimeWarning,
                        stacklevel=2,
                    )


def place_in_run(runtime: Runtime[Any] | None) -> tuple[str, str | None, tuple[str, ...]]:
    """Return the run, the thread and the namespace of a decision; None is outside of a graph."""
    run, info = _run_id(runtime), runtime.execution_info if runtime else None
    if info is None:
        return run, None, ()
    # The last part is the task of this node itself.
    return run, info.thread_id, tuple(info.checkpoint_ns.split("|")[:-1])


@lru_cache(maxsize=1024)  # more runs than are likely to be under way at once
def _ids_of(run: object) -> list[str]:
    """Return a list for the id of a run; empty until the id is first needed."""
    return []


_lock = Lock()


def _run_id(runtime: Runtime[Any] | None) -> str:
    """Return the id of a run: the same for all agents and logs of the run."""
    run_id = runtime.execution_info.run_id if runtime and runtime.execution_info else None
    if runtime is None or (run := run_identity(runtime)) is None:
        return run_id or ""
    # Parallel tool calls are in several threads, and the run has a single id.
    with _lock:
        ids = _ids_of(run)
        if not ids:
            ids.append(run_id or str(uuid4()))
        return run_id or ids[0]


def decision_log(value: Any) -> DecisionLog | None:
    """Return the log for the argument `decisions`, or None if nothing is to be recorded."""
    if value is None or value is False:
        return None
    if value is True:
        return DecisionLog()
    if isinstance(value, DecisionLog):
        return value
    # A sink may be iterable as well. A string is a mistake, which DecisionLog explains.
    if isinstance(value, Iterable) and not callable(value) and not isinstance(value, str):
        return DecisionLog(*sinks) if (sinks := list(value)) else None
    return DecisionLog(value)


def to_stream(decision: Decision) -> None:
    """Send a custom stream event `{"decision": {...}}`: the sink of `decisions=True`."""
    try:
        write = get_stream_writer()
    except (KeyError, RuntimeError):  # outside of a run: `update_state` also takes routes
        return
    write({"decision": decision.to_data()})
