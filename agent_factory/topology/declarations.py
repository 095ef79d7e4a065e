"""Declarations of middleware: decisions about tool calls, limits, and parts of a conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from math import inf
from typing import Literal, get_args

GuardAction = Literal["ask", "judge", "check", "deny"]
"""What a guard does with a call of a tool: a person, a model or code decides, or it never runs."""

_ACTION_PHRASES = {
    "ask": "{} decides about",
    "judge": "a model decides about",
    "check": "code decides about",
    "deny": "no call runs of",
}

Label = Literal["untrusted", "private", "outside"]
"""What a tool brings, text that others wrote or private data, or that it has an effect outside."""

GuardPlace = Literal["around_tool", "after_model"]
"""Where a guard decides: in a layer around the call, or in a hook that a jump may bypass."""

GuardFallback = Literal["ask", "deny"]
"""What happens to a call that a judge does not find harmless."""


@dataclass(frozen=True, slots=True)
class ToolGuard:
    """Decision about calls of a tool before a call runs. A middleware declares guards in `guards`.

    Args:
        tool: The name of a tool, or a pattern such as "search*".
        action: "ask" (a person decides), "judge" (a model), "check" (code) or "deny".
        when: The calls in question, in words; empty for all calls.
        exclude: Names or patterns of tools without the decision.
        after: A tool that must have run in the thread before; other calls do not run.
        place: Where the middleware decides: "around_tool", a layer around each call, or
            "after_model", a hook that a jump may bypass.
        owner: The middleware's name; a plan fills it in.
        reviewers: Who may decide: roles, and people as "@ann"; empty for everybody.
        decisions: The allowed decisions: "approve", "edit", ...; empty for all decisions.
        remember: The longest time in seconds for which later calls may be approved as well; None
            if each call is asked about.
        otherwise: For "judge": what happens to a call that the model does not find harmless, "ask"
            or "deny".
        decides_again: The guard also decides about a call changed by layers further in, before the
            changed call runs. Of a guard in a hook: layers of its middleware change calls only as
            the guard has decided, such as for an edit of a person.

    Raises:
        ValueError: An argument has another value.

    >>> print(ToolGuard("refund", "ask", when="euros > 50"))
    a person decides about refund when euros > 50
    >>> print(ToolGuard("refund", "ask", reviewers=("finance", "@ann"), decisions=("approve",)))
    finance or @ann decides about refund (approve)
    """

    tool: str
    action: GuardAction
    when: str = ""
    exclude: tuple[str, ...] = ()
    after: str = ""
    place: GuardPlace = "around_tool"
    owner: str = ""
    reviewers: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    remember: float | None = None
    otherwise: GuardFallback = "ask"
    decides_again: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.tool, str) or not self.tool:
            raise ValueError(
                f"ToolGuard.tool must be the name of a tool or a pattern, got {self.tool!r}. "
                'Write ToolGuard("refund", "ask").'
            )
        _check_choice("ToolGuard.action", GuardAction, self.action)
        _check_choice("ToolGuard.place", GuardPlace, self.place)
        _check_choice("ToolGuard.otherwise", GuardFallback, self.otherwise)
        for name in ("reviewers", "decisions"):
            # A string has letters, and each of them would be a reviewer.
            if not isinstance(value := getattr(self, name), tuple):
                raise ValueError(f"ToolGuard.{name} must be a tuple of strings, got {value!r}.")

    def covers(self, tool: str) -> bool:
        """Return True if the guard decides about calls of a tool; `when` says about which.

        >>> ToolGuard("*", "ask", exclude=("search*",)).covers("refund")
        True
        """
        if tool.rpartition("/")[0] != self.owner.rpartition("/")[0]:
            return False  # a tool of an agent inside, which only a guard in there decides about
        excluded = any(fnmatchcase(tool, pattern) for pattern in self.exclude)
        return fnmatchcase(tool, self.tool) and not excluded

    def __str__(self) -> str:
        without = f" without {', '.join(self.exclude)}" if self.exclude else ""
        when = f" when {self.when}" if self.when else ""
        when += f", which runs only after {self.after}" if self.after else ""
        where = "" if self.place == "around_tool" else f", in {self.place}"
        people = " or ".join(self.reviewers)
        phrase = _ACTION_PHRASES[self.action].format(people or "a person")
        notes = [f"else {people}"] if people and self.action == "judge" else []
        notes += ["else it is denied"] if self.otherwise == "deny" else []
        notes += [", ".join(self.decisions)] if self.decisions else []
        notes += [f"approvals hold up to {_time(self.remember)}"] if self.remember else []
        more = f" ({'; '.join(notes)})" if notes else ""
        return f"{phrase} {self.tool}{without}{when}{where}{more}"


def _time(seconds: float) -> str:
    """A time in the largest unit with a whole number.

    >>> _time(604_800), _time(5_400), _time(1.5)
    ('7 days', '90 minutes', '1.5 seconds')
    """
    units = {"day": 86_400, "hour": 3_600, "minute": 60}
    unit, size = next(((u, s) for u, s in units.items() if seconds % s == 0), ("second", 1))
    return f"{seconds / size:g} {unit}{'' if seconds == size else 's'}"


LimitUnit = Literal[
    "model calls",
    "tool calls",
    "tokens",
    "input tokens",
    "output tokens",
    "USD",
    "seconds",
    "jobs under way",
]
"""What a limit counts."""

JOBS: LimitUnit = "jobs under way"
"""Unit of what runs at a time in the background. Such a limit ends no run, and bounds none."""

LimitScope = Literal["run", "thread", "ledger"]
"""What a limit is the limit of; a ledger is shared by several agents."""


@dataclass(frozen=True, slots=True)
class UsageLimit:
    """Limit of a use. A middleware declares limits in `limits`.

    Args:
        most: The number.
        unit: The counted use: "model calls", "tool calls", "tokens", "USD", ...
        scope: Of what: a "run", a "thread" or a "ledger".
        tool: For tool calls: the tool whose calls are counted; empty for all tools together.
        owner: The middleware's name; a plan fills it in.
        raisable: People may raise the limit while a run waits for a decision.
        ledger: The number of the ledger, if several middleware of a plan share it, by the order in
            which the plan has them; a plan fills it in.
        attempts: Each attempt of a call counts, also a failed attempt; a plan fills this in.

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
    ledger: int = 0
    attempts: bool = False

    def __post_init__(self) -> None:
        # NaN is not equal to itself, and would be no limit.
        if type(self.most) not in (int, float) or not 0 <= self.most < inf:
            raise ValueError(f"UsageLimit.most must be a number of at least 0, got {self.most!r}.")
        # Each number has a single form in JSON.
        if self.most == int(self.most):
            object.__setattr__(self, "most", int(self.most))
        _check_choice("UsageLimit.unit", LimitUnit, self.unit)
        _check_choice("UsageLimit.scope", LimitScope, self.scope)

    @property
    def what(self) -> str:
        """The counted use and the scope: "calls of search a run"."""
        unit = f"calls of {self.tool}" if self.tool else self.unit
        return f"{unit} a {self.scope}"

    def __str__(self) -> str:
        raisable = ", which people may raise" if self.raisable else ""
        shared = f" (shared ledger {self.ledger})" if self.ledger else ""
        return f"at most {self.most} {self.what}{raisable}{shared}"


Ledgers = tuple[tuple[str, int], ...]
"""Names of middleware, each with the `id` of its ledger: equal if they have the same one."""


def with_shared_ledgers(limits: Iterable[UsageLimit], ledgers: Ledgers) -> tuple[UsageLimit, ...]:
    """Limits with the numbers of the ledgers that several middleware share.

    >>> limits = [UsageLimit(9, "tokens", "ledger", owner=name) for name in ("A", "clerk/A", "B")]
    >>> [x.ledger for x in with_shared_ledgers(limits, (("A", 7), ("clerk/A", 7), ("B", 8)))]
    [1, 1, 0]
    """
    limits, of = tuple(limits), dict(ledgers)
    ids = [of.get(x.owner, 0) if x.scope == "ledger" else 0 for x in limits]
    owners = Counter(of.values())
    shared = [each for each in dict.fromkeys(ids) if owners[each] > 1]
    # Numbers, since an `id` differs between processes.
    numbers = {each: number for number, each in enumerate(shared, 1)}
    pairs = zip(limits, ids, strict=True)
    return tuple(replace(limit, ledger=numbers.get(each, 0)) for limit, each in pairs)


class AccessKind(StrEnum):
    """Kinds of access to a part of a conversation; the fields of `Ordering`."""

    READS = "reads"
    WRITES = "writes"
    SENDS_TO_MODEL = "sends_to_model"
    SANITIZES = "sanitizes"


@dataclass(frozen=True, slots=True)
class Access:
    """Parts of a conversation that a middleware reads, writes, sends to a model or sanitizes.

    Args:
        owner: The middleware's name.
        kind: The kind of access.
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
