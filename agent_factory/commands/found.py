"""What `check` finds, as values: of agents that were built, and of those that were refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agent_factory.commands.loading import NotBuilt, load
from agent_factory.commands.places import Place
from agent_factory.commands.targets import targets_of
from agent_factory.commands.trouble import Trouble
from agent_factory.errors import SpecError

_NOTE = re.compile(r"Also found: \[(AF\d+)\] (.+?): (.+)", re.DOTALL)
"""How a refusal notes what it also found."""


@dataclass(frozen=True, slots=True)
class Found:
    """One finding.

    Args:
        target: Of which target.
        code: Its stable code.
        severity: "error" where it kept the agent from being built, else "warning".
        culprit: What is wrong.
        reason: Why.
        remedy: What to write instead; empty where the reason says it.
        place: The line that builds the agent, where it can be found.
    """

    target: str
    code: str
    severity: str
    culprit: str
    reason: str
    remedy: str
    place: Place | None

    @property
    def words(self) -> str:
        """Culprit, reason and remedy in one line."""
        return " ".join(f"{self.culprit}: {self.reason} {self.remedy}".split())

    def to_data(self) -> dict[str, Any]:
        """The finding as a plain dict, for machines."""
        return {
            "target": self.target,
            "code": self.code,
            "severity": self.severity,
            "culprit": self.culprit,
            "reason": self.reason,
            "remedy": self.remedy,
            "file": self.place.name if self.place else None,
            "line": self.place.line if self.place else None,
        }


@dataclass(frozen=True, slots=True)
class Failed:
    """A target that could not be checked.

    Args:
        target: Which one.
        message: Why not.
        error: What was raised, if anything was.
    """

    target: str
    message: str
    error: BaseException | None

    def to_data(self) -> dict[str, Any]:
        """The same as a plain dict, for machines."""
        return {"target": self.target, "message": self.message}


def examine(text: str) -> Iterator[Found | Failed]:
    """Everything that is found of a target; of a LangGraph configuration, of all its graphs."""
    try:
        for target in targets_of(text):
            yield from _examine(target)
    except Trouble as trouble:
        yield Failed(text, str(trouble), trouble.error)


def _examine(target: str) -> Iterator[Found | Failed]:
    try:
        loaded = load(target)
    except NotBuilt as refused:
        yield from _refused(target, refused)
    except Trouble as trouble:
        yield Failed(target, str(trouble), trouble.error)
    else:
        if loaded.findings is None:
            words = f"{target} is a plan alone: findings are kept with an agent. Give its agent."
            yield Failed(target, words, None)
        for finding in loaded.findings or ():
            yield _found(target, finding, finding.severity, loaded.place)


def _refused(target: str, refused: NotBuilt) -> Iterator[Found]:
    for error in refused.refusal.errors:
        yield _found(target, error, "error", refused.place)
    for note in getattr(refused.refusal, "__notes__", ()):
        if match := _NOTE.fullmatch(note):
            yield Found(target, match[1], "warning", match[2], match[3], "", refused.place)


def _found(target: str, error: SpecError, severity: str, place: Place | None) -> Found:
    return Found(target, error.code, severity, error.culprit, error.reason, error.remedy, place)
