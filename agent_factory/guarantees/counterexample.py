"""Counterexample: a path on which a guarantee does not hold, in words."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from agent_factory.errors import SpecError, sentence
from agent_factory.topology.model import TopologyData, printable
from agent_factory.topology.render.text import meaning, path_line
from agent_factory.topology.transitions import Reason, Transition, TransitionReason


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Reason why a guarantee does not hold.

    `agent_factory.testing.replay_counterexample` runs it.

    Args:
        guarantee: The sentence.
        plan: The checked plan.
        path: The steps of a run, from its start, on which the guarantee does not hold; empty if no
            path matters.
        reason: The problem, in a sentence.
        hint: The fix to write.
        tool: The tool in question, if any.
        arguments: Arguments of an undecided call of the tool, as far as they matter.
        origin: Source of the call or the answer: "__start__" for the input, the model, a
            hook, a layer around the model, or "tools" for layers around the tools. Empty if the
            source does not matter.
    """

    guarantee: str
    plan: TopologyData
    path: tuple[Transition, ...]
    reason: str
    hint: str
    tool: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)
    origin: str = ""

    @property
    def opened_by(self) -> tuple[str, ...]:
        """The middleware whose jumps open the path."""
        return tuple(dict.fromkeys(name for jump in self._jumps for name in jump.by))

    @property
    def _jumps(self) -> list[Reason]:
        """The jumps without which a run would not take the path."""
        steps = [
            step.reasons
            for step in self.path
            if all(reason.why is TransitionReason.JUMP for reason in step.reasons)
        ]
        return [jump for reasons in steps for jump in reasons]

    @property
    def way(self) -> list[str]:
        """The path and its jumps, a line each; empty without a path."""
        if not self.path:
            return []
        jumps = " ".join(dict.fromkeys(map(meaning, self._jumps)))
        return [f"Path: {path_line(self.path)}", *([jumps] if jumps else [])]

    def to_svg(self) -> str:
        """The plan as a picture, with the path in another color.

        Raises:
            ImportError: The extra `draw`, which includes Graphviz, is not installed.
        """
        # Imported here: most programs never draw a plan.
        from agent_factory.topology.render.svg import to_svg

        return to_svg(self.plan, self.path)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Forms for a notebook: the words, and the picture if the extra `draw` is installed."""
        from agent_factory.topology.render.notebook import paragraphs

        html = paragraphs(str(self).splitlines())
        with suppress(ImportError):  # without the extra `draw`, a notebook displays the words alone
            html += self.to_svg() if self.path else ""
        return {"text/plain": str(self), "text/html": html}

    def __str__(self) -> str:
        lines = [f"{self.guarantee}: no. {self.reason}", *self.way, self.hint]
        return "\n".join(map(printable, lines))


class GuaranteeError(SpecError):
    """A guarantee does not hold for an agent.

    Attributes:
        counterexample: Why, and on which path.
    """

    code = "AF127"

    def __init__(self, counterexample: Counterexample) -> None:
        self.counterexample = counterexample
        way = ". ".join([counterexample.reason.removesuffix("."), *counterexample.way])
        subject, reason = repr(counterexample.guarantee), sentence(f"does not hold. {way}")
        super().__init__(subject, reason, counterexample.hint)
