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
        plan: The plan that was checked.
        path: The steps of a run on which it does not hold, from its start; empty if that does not
            depend on the path.
        reason: What is wrong, in a sentence.
        hint: What to write instead.
        tool: The tool it is about, if it is about one.
        arguments: Arguments of a call of the tool that nobody decides about, as far as they matter.
        origin: What the call or the answer comes from: "__start__" for the input, the model, a
            hook, a layer around the model, or "tools" for layers around them. Empty if it does not
            matter.
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
        """The path and the jumps that open it, a line each; empty without a path."""
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
        """The forms that a notebook displays: the words, with the picture if it can be drawn."""
        from agent_factory.topology.render.notebook import paragraphs

        html = paragraphs(str(self).splitlines())
        with suppress(ImportError):  # without the extra `draw`, the words are what is displayed
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
