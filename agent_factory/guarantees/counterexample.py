"""Counterexample: a path on which a guarantee does not hold, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_factory.errors import SpecError
from agent_factory.topology.model import TopologyData, printable
from agent_factory.topology.render.text import meaning, path_line
from agent_factory.topology.transitions import Transition, TransitionReason


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Reason why a guarantee does not hold.

    `agent_factory.testing.replay_counterexample` runs it.

    Args:
        guarantee: The sentence.
        plan: The plan that was checked.
        path: The steps of a run on which it does not hold, from its start; empty if that does not
            depend on the path.
        reason: What is wrong, in a sentence.
        hint: What to write instead.
        tool: The tool it is about, if it is about one.
    """

    guarantee: str
    plan: TopologyData
    path: tuple[Transition, ...]
    reason: str
    hint: str
    tool: str = ""

    @property
    def opened_by(self) -> tuple[str, ...]:
        """The middleware whose jumps open the path."""
        jumps = (
            reason.by
            for step in self.path
            for reason in step.reasons
            if reason.why is TransitionReason.JUMP and not _is_default(step)
        )
        return tuple(dict.fromkeys(name for names in jumps for name in names))

    def __str__(self) -> str:
        lines = [f"{self.guarantee}: no. {self.reason}"]
        if self.path:
            lines.append(f"Path: {path_line(self.path)}")
            jumps = [
                meaning(reason)
                for step in self.path
                for reason in step.reasons
                if reason.why is TransitionReason.JUMP and not _is_default(step)
            ]
            lines += [" ".join(dict.fromkeys(jumps))] if jumps else []
        lines.append(self.hint)
        return "\n".join(map(printable, lines))


def _is_default(step: Transition) -> bool:
    """Return True if a run also takes a step without a jump."""
    return any(reason.why is not TransitionReason.JUMP for reason in step.reasons)


class GuaranteeError(SpecError):
    """Guarantees do not hold for a plan.

    Attributes:
        counterexamples: One for each.
    """

    code = "AF127"

    def __init__(self, counterexamples: Sequence[Counterexample]) -> None:
        self.counterexamples = tuple(counterexamples)
        number = len(self.counterexamples)
        text = "\n".join(map(str, self.counterexamples))
        super().__init__(
            "guarantees", f"{number} of them {'does' if number == 1 else 'do'} not hold:\n{text}"
        )
