"""Declarations of middleware: what decides about tool calls, what is limited, what is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from math import inf
from typing import Literal, get_args

GuardAction = Literal["ask", "judge", "check", "deny"]
"""What a guard does with a call of a tool: a person, a model or code decides, or it never runs."""

_ACTION_PHRASES = {
    "ask": "a person decides about",
    "judge": "a model decides about",
    "check": "code decides about",
    "deny": "no call runs of",
}

Label = Literal["untrusted", "private", "outside"]
"""What a tool brings, text that others wrote or private data, or that it has an effect outside."""

GuardPlace = Literal["around_tool", "after_model"]
"""Where a guard decides: in a layer around the call, or in a hook that a jump may bypass."""


@dataclass(frozen=True, slots=True)
class ToolGuard:
    """Decision about calls of a tool before they run. A middleware declares it in `guards`.

    Args:
        tool: The name of a tool, or a pattern such as "search*".
        action: "ask" (a person decides), "judge" (a model), "check" (code) or "deny".
        when: The calls it is about, in words; empty for all calls.
        exclude: Names or patterns of tools that it is not about.
        after: A tool that must have run in the thread before; other calls do not run.
        place: Where the middleware decides: "around_tool", a layer that no call bypasses, or
            "after_model", a hook that a jump may bypass.
        owner: The middleware's name; a plan fills it in.

    Raises:
        ValueError: An argument has another value.

    >>> print(ToolGuard("refund", "ask", when="euros > 50"))
    a person decides about refund when euros > 50
    """

    tool: str
    action: GuardAction
    when: str = ""
    exclude: tuple[str, ...] = ()
    after: str = ""
    place: GuardPlace = "around_tool"
    owner: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.tool, str) or not self.tool:
            raise ValueError(
                f"ToolGuard.tool must be the name of a tool or a pattern, got {self.tool!r}. "
                'Write ToolGuard("refund", "ask").'
            )
        _check_choice("ToolGuard.action", GuardAction, self.action)
        _check_choice("ToolGuard.place", GuardPlace, self.place)

    def covers(self, tool: str) -> bool:
        """Return True if it decides about calls of a tool; `when` says about which.

        >>> ToolGuard("*", "ask", exclude=("search*",)).covers("refund")
        True
        """
        if tool.count("/") != self.tool.count("/"):
            return False  # a tool of an agent inside, which only a guard in there decides about
        excluded = any(fnmatchcase(tool, pattern) for pattern in self.exclude)
        return fnmatchcase(tool, self.tool) and not excluded

    def __str__(self) -> str:
        without = f" without {', '.join(self.exclude)}" if self.exclude else ""
        when = f" when {self.when}" if self.when else ""
        when += f" unless {self.after} has run" if self.after else ""
        where = "" if self.place == "around_tool" else f", in {self.place}"
        return f"{_ACTION_PHRASES[self.action]} {self.tool}{without}{when}{where}"


LimitUnit = Literal[
    "model calls", "tool calls", "tokens", "input tokens", "output tokens", "USD", "seconds"
]
"""What a limit counts."""

LimitScope = Literal["run", "thread", "ledger"]
"""What a limit is the limit of; a ledger is shared by several agents."""


@dataclass(frozen=True, slots=True)
class UsageLimit:
    """The most that may be used. A middleware declares it in `limits`.

    Args:
        most: The number.
        unit: What is counted: "model calls", "tool calls", "tokens", "USD", ...
        scope: Of what: a "run", a "thread" or a "ledger".
        tool: For tool calls: the tool whose calls are counted; empty for all tools together.
        owner: The middleware's name; a plan fills it in.
        raisable: People may raise it while a run waits for them.

    Raises:
        ValueError: An argument has another value.

    >>> print(UsageLimit(5, "model calls"))
    at most 5 model calls a run
    """

    most: float
    unit: LimitUnit
    scope: LimitScope = "run"
    tool: str = ""
    owner: str = ""
    raisable: bool = False

    def __post_init__(self) -> None:
        # NaN is not equal to itself, and would be no limit.
        if type(self.most) not in (int, float) or not 0 <= self.most < inf:
            raise ValueError(f"UsageLimit.most must be a number of at least 0, got {self.most!r}.")
        # One form in JSON for one number.
        if self.most == int(self.most):
            object.__setattr__(self, "most", int(self.most))
        _check_choice("UsageLimit.unit", LimitUnit, self.unit)
        _check_choice("UsageLimit.scope", LimitScope, self.scope)

    @property
    def what(self) -> str:
        """What is counted, of what: "calls of search a run"."""
        unit = f"calls of {self.tool}" if self.tool else self.unit
        return f"{unit} a {self.scope}"

    def __str__(self) -> str:
        raisable = ", which people may raise" if self.raisable else ""
        return f"at most {self.most} {self.what}{raisable}"


class AccessKind(StrEnum):
    """What a middleware does with a part of a conversation; the fields of `Ordering`."""

    READS = "reads"
    WRITES = "writes"
    SENDS_TO_MODEL = "sends_to_model"
    SANITIZES = "sanitizes"


@dataclass(frozen=True, slots=True)
class Access:
    """Parts of a conversation that a middleware reads, writes, sends to a model or sanitizes.

    Args:
        owner: The middleware's name.
        kind: What it does.
        aspects: The parts, sorted: "answers", "tool_calls", ...
    """

    owner: str
    kind: AccessKind
    aspects: tuple[str, ...]

    def __str__(self) -> str:
        kind = self.kind.replace("_", " ")
        return f"{self.owner} {kind} {', '.join(self.aspects)}"


def _check_choice(name: str, options: object, value: object) -> None:
    if value not in get_args(options):
        choices = ", ".join(map(repr, get_args(options)))
        raise ValueError(f"{name} must be one of {choices}, got {value!r}.")
