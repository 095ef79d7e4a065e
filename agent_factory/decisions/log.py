"""Why did the run go this way? A record of what each hook, layer and route decided.

Nothing is recorded unless an agent is built with `decisions=...`; then its hooks, layers and routes
are wrapped once, when it is built. A record holds names and numbers, and no contents of messages
unless asked for.
"""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from threading import Lock
from time import time
from typing import Any, Final
from uuid import uuid4

from langgraph.config import get_stream_writer
from langgraph.runtime import Runtime

from agent_factory.errors import ArgumentError, describe


class Outcome(StrEnum):
    """What was decided."""

    PASSED = "passed"
    """It changed nothing."""
    WROTE = "wrote"
    """It wrote to the state."""
    JUMPED = "jumped"
    """A hook sent the run elsewhere; `detail` says where."""
    CHANGED_REQUEST = "changed request"
    """A layer passed on another request; `detail` names the fields, and `response` where it
    changed what came back, too."""
    CHANGED_RESPONSE = "changed response"
    """A layer returned something else than it was given."""
    ANSWERED = "answered"
    """A layer answered without calling inward."""
    REPEATED = "repeated"
    """A layer called inward more than once; `detail` says how often, what it changed and after
    which exceptions."""
    RECOVERED = "recovered"
    """A layer answered where its call inward failed; `detail` is the type of the exception."""
    ROUTED = "routed"
    """A route was taken; `detail` says where to."""
    SKIPPED = "skipped"
    """A hook or the model did not run, since tools have ended the run."""
    ERROR_REPORTED = "told the model"
    """A call of a tool failed, and the model was told; `detail` is the type of the exception."""
    REPAIRED = "repaired"
    """A history was mended before the model saw it; `detail` says how."""
    EXPLAINED = "explained"
    """The model is told what is wrong with its structured answer; `detail` says how often so far.
    """
    INTERRUPTED = "interrupted"
    """It waits for an answer from outside."""
    HANDED_OVER = "handed over"
    """It gave a command to the parent graph."""
    RAISED = "raised"
    """It raised, or what it returned was refused; `detail` is the type of the exception."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of a run.

    Args:
        run: The run's id: that of its config, or one made for it. A run of a subagent belongs to
            the run that called it. Empty where it cannot be known: outside of a graph.
        thread: The thread's id; None without one.
        step: The super-step of the graph, as in its checkpoints; 0 where it cannot be known.
        middleware: Who decided; empty for what the agent itself decides.
        hook: The hook or layer, by the name of its method, or the node.
        verdict: What was decided.
        detail: More of it in a word.
        reason: Why, where the author gave a reason or the engine knows one.
        tool: The tool that is called, for decisions about a call.
        call_id: The id of that call.
        changed: The state keys it wrote; of messages, how many were written and removed.
        seconds: How long it took, in seconds, with all that it called.
        agent: The name of the agent; empty without one.
        namespace: The tasks that lead to a subagent, as in `stream(..., subgraphs=True)`.
        at: When it was recorded, in seconds since 1970 (UTC).
        contents: What it returned or raised, where contents are asked for.
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
    seconds: float = 0.0
    agent: str = ""
    namespace: tuple[str, ...] = ()
    at: float = 0.0
    contents: Any = None

    @property
    def error(self) -> str:
        """The type of the exception that was raised or met; empty without one."""
        failed = self.outcome in (Outcome.RAISED, Outcome.RECOVERED, Outcome.ERROR_REPORTED)
        return self.detail if failed else ""

    def to_data(self) -> dict[str, Any]:
        """The record as plain values, for JSON; contents, where there are any, as their repr."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        contents = data.pop("contents")
        data.update(
            outcome=str(self.outcome), changed=list(self.changed), namespace=list(self.namespace)
        )
        return data if contents is None else {**data, "contents": repr(contents)}

    def __str__(self) -> str:
        who = f"{self.middleware}.{self.hook}" if self.middleware else self.hook
        words = " ".join(filter(None, (who, self.tool and f"({self.tool})", self.outcome)))
        detail = self.detail or ", ".join(self.changed)
        return words + (detail and f": {detail}") + (self.reason and f" [{self.reason}]")


class Jump(dict[str, Any]):
    """A jump with its reason, to be returned by a node hook.

    Args:
        to: "tools", "model" or "end"; the hook declares it with `hook_config`.
        reason: Why, for the decision log.
        **update: What else to write to the state.

    >>> Jump("end", reason="outside office hours")
    {'jump_to': 'end'}
    """

    def __init__(self, to: str, /, *, reason: str = "", **update: Any) -> None:
        super().__init__({**update, "jump_to": to})
        self.reason = reason


REASON: Final = "reason"
"""The key under which a hook's update may say why; it is not written to the state."""

_reasons: ContextVar[list[str] | None] = ContextVar("reasons", default=None)


def set_reason(reason: str) -> None:
    """Say why, from within a hook or a layer, for the decision log; the last word counts.

    Costs nothing and does nothing where no log is kept.

    Args:
        reason: In the author's own words. They are recorded as they are: keep what users and
            models said out of them.

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
    if (said := _reasons.get()) is not None:
        said.append(str(reason))


Sink = Callable[[Decision], None]


class DecisionLog:
    """Where decisions go.

    Args:
        sinks: Functions that each take a `Decision`; they may be called in several threads at
            once. Without any, decisions become custom stream events. One that raises is warned of
            once, and the run goes on.
        contents: Also record what hooks and layers returned or raised: it may hold personal data.

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
            _check(sink)
        self.sinks = sinks or (to_stream,)
        self.contents = contents
        self._failed: set[int] = set()

    def record(self, make_decision: Decision, runtime: Runtime[Any] | None, **known: Any) -> None:
        """Complete a record with where it was made, and hand it to every sink.

        Args:
            noted: What was decided.
            runtime: Where, as LangGraph knows it.
            **known: Other fields of the record.
        """
        info = runtime.execution_info if runtime else None
        decision = replace(
            make_decision,
            run=_run_of(runtime),
            thread=info.thread_id if info else None,
            namespace=tuple(info.checkpoint_ns.split("|")[:-1]) if info else (),
            at=time(),
            contents=make_decision.contents if self.contents else None,
            **known,
        )
        for index, sink in enumerate(self.sinks):
            self._tell(index, sink, decision)

    def _tell(self, index: int, sink: Sink, decision: Decision) -> None:
        try:
            sink(decision)
        except Exception as error:  # a log must not decide how a run ends
            if index not in self._failed:
                self._failed.add(index)
                warnings.warn(
                    f"A sink of the decision log failed, and is not warned of again: {error!r}",
                    RuntimeWarning,
                    stacklevel=3,
                )


def _check(sink: Any) -> None:
    wrong = None
    if not callable(sink):
        wrong = "cannot take a decision."
    elif isinstance(sink, type):
        wrong = "is a class, and would be made anew for each decision."
    elif inspect.iscoroutinefunction(sink) or inspect.iscoroutinefunction(type(sink).__call__):
        wrong = "is a coroutine, and would not be awaited."
    if wrong:
        raise ArgumentError(
            "decisions",
            f"{describe(sink)} {wrong}",
            "Give True, a function of a Decision, a list of them, or a DecisionLog.",
        )


_REMEMBERED = 1024
"""How many runs keep their ids: more than are likely to be under way at once."""

_runs: OrderedDict[int, tuple[object, str]] = OrderedDict()
_lock = Lock()


def _run_of(runtime: Runtime[Any] | None) -> str:
    """The run's id: it is one for all that a run calls, whichever agents and logs they are."""
    given = runtime.execution_info.run_id if runtime and runtime.execution_info else None
    if runtime is None or (control := runtime.control) is None:
        return given or ""
    key = id(control)
    with _lock:
        if key not in _runs:
            # Holding the run keeps its number from being given to another one.
            _runs[key] = control, given or str(uuid4())
            if len(_runs) > _REMEMBERED:
                _runs.popitem(last=False)
        _runs.move_to_end(key)
        return given or _runs[key][1]


def decision_log(value: Any) -> DecisionLog | None:
    """The log that an argument `decisions` stands for; None for none.

    Raises:
        ArgumentError: It is none of the forms.
    """
    if value is None or value is False:
        return None
    if value is True:
        return DecisionLog()
    if isinstance(value, DecisionLog):
        return value
    if isinstance(value, Iterable) and not callable(value) and not isinstance(value, str):
        return DecisionLog(*sinks) if (sinks := list(value)) else None
    return DecisionLog(value)


def to_stream(decision: Decision) -> None:
    """The sink of `decisions=True`: a custom stream event, `{"decision": {...}}`."""
    get_stream_writer()({"decision": decision.to_data()})
