"""Why did the run go this way? A record of what each hook, layer and route decided.

Nothing is recorded unless an agent is built with `decisions=...`; then its hooks, layers and routes
are wrapped once, when it is built. A record holds names and numbers, and no contents of messages
unless asked for.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final
from uuid import uuid4

from langgraph.runtime import Runtime, get_runtime

from agent_factory.errors import ArgumentError, describe


class Verdict(StrEnum):
    """What was decided."""

    PASSED = "passed"
    """It changed nothing."""
    WROTE = "wrote"
    """A hook wrote to the state."""
    JUMPED = "jumped"
    """A hook sent the run elsewhere; `detail` says where."""
    CHANGED_REQUEST = "changed request"
    """A layer passed on another request; `detail` names the fields."""
    CHANGED_RESPONSE = "changed response"
    """A layer returned something else than it was given."""
    ANSWERED = "answered"
    """A layer answered without calling inward."""
    REPEATED = "repeated"
    """A layer called inward more than once; `detail` says how often."""
    ROUTED = "routed"
    """A route was taken; `detail` says where to."""
    INTERRUPTED = "interrupted"
    """It waits for an answer from outside, or handed the run over."""
    RAISED = "raised"
    """It raised; `detail` is the type of the exception."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of a run.

    Args:
        run: The run's id: that of its config, or one made for it.
        thread: The thread's id; None without a checkpointer.
        step: The super-step of the graph.
        middleware: Who decided; empty for the agent's own routes.
        hook: The hook, layer or route, by the name of its method or node.
        verdict: What was decided.
        detail: More of it in a word.
        reason: Why, where the hook gave a reason or the route has one.
        subject: The tool that a layer closes around, with the id of the call.
        changed: The state keys it wrote; of messages, how many were written and removed.
        seconds: How long it took, in seconds, with all that it called.
        contents: What it returned, where contents are asked for.
    """

    run: str
    thread: str | None
    step: int
    middleware: str
    hook: str
    verdict: Verdict
    detail: str = ""
    reason: str = ""
    subject: str = ""
    changed: tuple[str, ...] = ()
    seconds: float = 0.0
    contents: Any = None

    def to_data(self) -> dict[str, Any]:
        """The record as plain values, for JSON; without contents where there are none."""
        data = asdict(replace(self, contents=None))
        data.update(verdict=str(self.verdict), changed=list(self.changed))
        data.pop("contents")
        return data if self.contents is None else {**data, "contents": repr(self.contents)}

    def __str__(self) -> str:
        who = f"{self.middleware}.{self.hook}" if self.middleware else self.hook
        words = " ".join(filter(None, (who, self.subject and f"({self.subject})", self.verdict)))
        return (
            words
            + (f": {self.detail}" if self.detail else "")
            + (f" [{self.reason}]" if self.reason else "")
        )


class Jump(dict[str, Any]):
    """A jump with its reason, to be returned by a node hook.

    Args:
        to: "tools", "model" or "end"; the hook declares it with `hook_config`.
        reason: Why, for the decision log.
        **update: What else to write to the state.

    >>> Jump("end", reason="outside office hours")
    {'jump_to': 'end'}
    """

    def __init__(self, to: str, *, reason: str = "", **update: Any) -> None:
        super().__init__({**update, "jump_to": to})
        self.reason = reason


REASON: Final = "reason"
"""The key under which a hook's update may say why; it is not written to the state."""

Sink = Callable[[Decision], None]


class DecisionLog:
    """Where decisions go.

    Args:
        sinks: Functions that each take a `Decision`.
        contents: Also record what hooks and layers returned: it may hold personal data.

    Raises:
        ArgumentError: A sink cannot be called.
    """

    REMEMBERED = 1024
    """How many runs without an id of their own keep the one made for them."""

    def __init__(self, *sinks: Sink, contents: bool = False) -> None:
        for sink in sinks:
            if not callable(sink):
                raise ArgumentError(
                    "decisions",
                    f"{describe(sink)} cannot take a decision.",
                    "Give True, a function of a Decision, a list of them, or a DecisionLog.",
                )
        self.sinks = sinks
        self.contents = contents
        self._runs: OrderedDict[int, tuple[object, str]] = OrderedDict()

    def record(self, noted: Decision, runtime: Runtime[Any] | None, step: int) -> None:
        """Complete a record with where it was made, and hand it to every sink."""
        info = runtime.execution_info if runtime else None
        decision = replace(
            noted,
            run=self._run_of(runtime),
            thread=info.thread_id if info else None,
            step=step,
            contents=noted.contents if self.contents else None,
        )
        for sink in self.sinks:
            try:
                sink(decision)
            except Exception as error:  # a log must not decide how a run ends
                warnings.warn(f"A sink of the decision log failed: {error!r}", stacklevel=2)

    def _run_of(self, runtime: Runtime[Any] | None) -> str:
        if runtime is None:
            return ""
        if runtime.execution_info and runtime.execution_info.run_id:
            return runtime.execution_info.run_id
        run = runtime.control
        if run is None:
            return ""
        # Holding the run keeps its number from being given to another one.
        _, name = self._runs.setdefault(id(run), (run, str(uuid4())))
        if len(self._runs) > self.REMEMBERED:
            self._runs.popitem(last=False)
        return name


def decision_log(value: Any) -> DecisionLog | None:
    """The log that an argument `decisions` stands for; None for none.

    Raises:
        ArgumentError: It is none of the forms.
    """
    if value is None or value is False:
        return None
    if value is True:
        return DecisionLog(to_stream)
    if isinstance(value, DecisionLog):
        return value
    if isinstance(value, Iterable) and not isinstance(value, str):
        return DecisionLog(*value)
    return DecisionLog(value)


def to_stream(decision: Decision) -> None:
    """The sink of `decisions=True`: a custom stream event, `{"decision": {...}}`."""
    get_runtime().stream_writer({"decision": decision.to_data()})
