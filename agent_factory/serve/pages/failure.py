"""Failure: place, reason and remedy of a failed run, in words for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_factory.service import Step

_HINTS: dict[str, tuple[str, str]] = {
    "Timeout": (
        "Something did not answer in time.",
        "Try again. If it comes again, raise the timeout of the model or of the tool.",
    ),
    "RateLimit": (
        "The provider has refused more requests for now.",
        "Try again in a minute, or add ModelRetryMiddleware, which waits and asks again.",
    ),
    "Authentication|PermissionDenied|Unauthorized": (
        "The provider has refused the key.",
        "Check the key of the provider where the worker runs, and try again.",
    ),
    "Connect|Connection|Network": (
        "A server could not be reached.",
        "Check that it runs and that the worker can reach it, and try again.",
    ),
    "GraphRecursion": (
        "The agent did not come to an end within the steps that it may take.",
        "Raise `recursion_limit` if it needs more, or look in the timeline for what repeats.",
    ),
    "ContextOverflow|ContextWindow": (
        "The conversation is longer than the model can read.",
        "Add SummarizationMiddleware, or begin a new thread.",
    ),
    "MissingNode": (
        "The thread is at a step that the agent does not have any more.",
        "Let the new code have it, or pass `moved=` to create_agent.",
    ),
}
"""Sentence and hint by a pattern of the type of the error."""

_KINDS = {"model": "a call of the model", "tool": "a call of the tool", "hook": "the hook"}

# Some errors are stored without a type, and errors of this library with a code.
_TEXT = re.compile(
    r"(?:(?P<type>[A-Za-z_]\w*)(?:: |$))?(?:\[(?P<code>AF\d+)\] )?(?P<text>.*)", re.S
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of a run: the step, the event in words, the parts of the error, and the remedy.

    Parts that are not known are "".
    """

    where: str
    sentence: str
    type: str
    code: str
    text: str
    hint: str


def failure_of(error: str, steps: Sequence[Step], nodes: Sequence[str]) -> Failure:
    """The failure of a run.

    Args:
        nodes: The failed nodes of the agent, if known.

    >>> failure_of("ConnectionError: no line", [], ["tools"]).where
    'the step tools'
    """
    match = _TEXT.fullmatch(error)
    assert match is not None  # each text fits
    kind, code = match["type"] or "", match["code"] or ""
    sentence, hint = next(
        (words for pattern, words in _HINTS.items() if re.search(pattern, kind)), ("", "")
    )
    # The run has recovered from earlier failures.
    last = next((step for step in reversed(steps) if step.error), None)
    # A long text is cut in the step, and whole in the run.
    if last is not None and error.startswith(last.error.rstrip("…")):
        where = f"{_KINDS[last.kind]} {last.name}"
    else:
        # Several tasks of one node may have failed.
        names = ", ".join(dict.fromkeys(nodes))
        where = f"the step {names}" if names else "a step that is not recorded"
    return Failure(where, sentence, kind, code, match["text"], hint)
