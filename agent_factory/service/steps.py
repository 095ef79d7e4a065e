"""Steps of a run: its model calls, its tool calls and what its hooks decided, with their times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from agent_factory.state import storable_text

MOST_STEPS = 1000
"""The most steps that are kept of a run: the last ones."""

LONGEST_ERROR = 1000
"""Characters of an error that are kept with a step."""

_STORED_ALWAYS = frozenset({"at", "seconds"})
_SLOW_SECONDS = 0.05  # a hook that took longer is shown, even if it changed nothing
_DECISION_KEYS = frozenset({"at", "seconds", "middleware", "hook", "outcome", "detail", "reason"})
# They did not change where the run went; what a run waits for is in the table of waits.
_QUIET = frozenset({"passed", "wrote", "routed", "skipped", "interrupted", "used cache"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Part of a run that took time: a model call, a tool call, or the decision of a hook.

    Args:
        kind: "model", "tool" or "hook".
        name: The model, the tool, or the hook with its middleware.
        at: When it began, in seconds since 1970, by the clock of the worker.
        seconds: How long it took.
        agent: The agent that it is a part of.
        part: The part of the agent that has made the call.
        detail: What a hook decided, and why.
        error: The type and the text of the exception that it raised, or "".
        call_id: The id of the tool call, or "".
        input_tokens: Tokens that a model call has read.
        output_tokens: Tokens that it has written.
        usd: What it has cost, in US dollars; 0.0 if the price is not known.

    >>> Step(kind="tool", name="refund", at=1_700_000_000.0, seconds=0.5).error
    ''
    """

    kind: Literal["model", "tool", "hook"]
    name: str
    at: float
    seconds: float
    agent: str = ""
    part: str = ""
    detail: str = ""
    error: str = ""
    call_id: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0


def error_text(error: BaseException) -> str:
    """The type and the text of an exception, as a step keeps them."""
    text = storable_text(f"{type(error).__name__}: {error}".removesuffix(": "))
    return text if len(text) <= LONGEST_ERROR else f"{text[: LONGEST_ERROR - 1]}…"


def step_of_decision(data: object) -> Step | None:
    """The step for a part of the custom stream, if it is a decision that a timeline shows."""
    decision: Any = data.get("decision") if isinstance(data, Mapping) else None
    # A tool may write a part of this form, too.
    if not isinstance(decision, Mapping) or not decision.keys() >= _DECISION_KEYS:
        return None
    owner, hook, outcome = decision["middleware"], decision["hook"], decision["outcome"]
    # The time of a layer is that of the call inside it.
    is_slow = decision["seconds"] >= _SLOW_SECONDS and hook.startswith(("before_", "after_"))
    what, reason = f"{outcome} {decision['detail']}".strip(), decision["reason"]
    # An error that a layer lets through is that of the call inside it.
    if not owner or reason == "from within" or (outcome in _QUIET and not is_slow):
        return None
    return Step(
        kind="hook",
        name=f"{owner}.{hook}",
        # A decision is recorded at its end.
        at=decision["at"] - decision["seconds"],
        seconds=decision["seconds"],
        agent=str(decision.get("agent") or ""),
        part=owner,
        detail=storable_text(f"{what}: {reason}" if reason else what),
        error=str(decision["detail"]) if outcome == "raised" else "",
        call_id=str(decision.get("call_id") or ""),
    )


def steps_text(previous: str | None, steps: Iterable[Step]) -> str:
    """Steps as they are stored, after those that a run had before."""
    rows = [
        {k: v for k, v in asdict(step).items() if k in _STORED_ALWAYS or v not in ("", 0)}
        for step in steps
    ]
    return json.dumps([*json.loads(previous or "[]"), *rows][-MOST_STEPS:])


def read_steps(text: str | None) -> list[Step]:
    """Read what `steps_text` has written.

    >>> step = Step(kind="tool", name="refund", at=1.0, seconds=0.5)
    >>> read_steps(steps_text(None, [step])) == [step]
    True
    """
    names = {field.name for field in fields(Step)}
    # A newer worker may have stored fields that this one does not know.
    return [
        Step(**{k: v for k, v in row.items() if k in names}) for row in json.loads(text or "[]")
    ]
