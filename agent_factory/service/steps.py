"""Steps of a run: its model calls, its tool calls and what its hooks decided, with their times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from agent_factory.state import storable_text

MOST_STEPS = 1000
"""The most steps of a run: earlier steps are dropped."""

LONGEST_ERROR = 1000
"""Characters of an error in a step."""

_STORED_ALWAYS = frozenset({"at", "seconds"})
_SLOW_SECONDS = 0.05  # a slower hook is shown, even if it changed nothing
_DECISION_KEYS = frozenset({"at", "seconds", "middleware", "hook", "outcome", "detail", "reason"})
# These did not change the path of the run; its waits are in the table of waits.
_QUIET = frozenset({"passed", "wrote", "routed", "skipped", "interrupted", "used cache"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Part of a run that took time: a model call, a tool call, or the decision of a hook.

    Args:
        kind: "model", "tool" or "hook".
        name: The model, the tool, or the hook with its middleware.
        at: The begin, in seconds since 1970, by the clock of the worker.
        seconds: The duration.
        agent: The agent.
        part: The part of the agent that made the call.
        detail: The decision of a hook, and its reason.
        error: The type and the text of a raised exception, or "".
        call_id: The id of the tool call, or "".
        input_tokens: Tokens that a model call has read.
        output_tokens: Tokens that a model call has written.
        usd: Cost in US dollars; 0.0 if the price is unknown.

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
    """The step for a decision in the custom stream; None for other parts and quiet decisions."""
    decision: Any = data.get("decision") if isinstance(data, Mapping) else None
    # A tool may write a part of this form, too.
    if not isinstance(decision, Mapping) or not decision.keys() >= _DECISION_KEYS:
        return None
    owner, hook, outcome = decision["middleware"], decision["hook"], decision["outcome"]
    # The time of a layer is the time of the call inside.
    is_slow = decision["seconds"] >= _SLOW_SECONDS and hook.startswith(("before_", "after_"))
    what, reason = f"{outcome} {decision['detail']}".strip(), decision["reason"]
    # A layer lets through an error of the call inside.
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
    """Stored form of steps, after earlier steps of the run."""
    rows = [
        {k: v for k, v in asdict(step).items() if k in _STORED_ALWAYS or v not in ("", 0)}
        for step in steps
    ]
    return json.dumps([*json.loads(previous or "[]"), *rows][-MOST_STEPS:])


def read_steps(text: str | None) -> list[Step]:
    """Read the text of `steps_text`.

    >>> step = Step(kind="tool", name="refund", at=1.0, seconds=0.5)
    >>> read_steps(steps_text(None, [step])) == [step]
    True
    """
    names = {field.name for field in fields(Step)}
    # A newer worker may have stored unknown fields.
    return [
        Step(**{k: v for k, v in row.items() if k in names}) for row in json.loads(text or "[]")
    ]
