"""Sentences of guarantees, and the values that they are read into.

```
tool NAME passes MEMBER                 NAME and MEMBER may be patterns
model passes MEMBER
every loop passes a limit
no path from NODE to NODE skips MEMBER
MEMBER sees tool_calls last
tool NAME only after tool OTHER
at most N model calls a run             or a thread, or a ledger; tokens, USD, ...
```

`and` joins sentences, and `unless MEMBER` excuses the paths that pass a member. In the place of a
member, `a guard`, `a person` and `a limit` mean any middleware that declares one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from agent_factory.errors import SpecError
from agent_factory.topology.declarations import UsageLimit

A_GUARD, A_PERSON, A_LIMIT = "a guard", "a person", "a limit"
"""Words for any middleware that decides about a call, by any means or by a person, or limits."""

SEEN_LAST = ("tool_calls", "answers")
"""Parts of a conversation that a member can see last."""


class GuaranteeSyntaxError(SpecError):
    """A text is not a guarantee."""

    code = "AF128"


@dataclass(frozen=True, slots=True)
class ToolPasses:
    """Each call of a tool passes a member after the calls before it; `members` are alternatives."""

    tool: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelPasses:
    """Each call of the model passes a member."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopPasses:
    """Each way around a loop passes a member."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathPasses:
    """Each path from one node to another passes a member."""

    source: str
    target: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeesLast:
    """No other member changes a part of the conversation after this one has seen it."""

    member: str
    aspect: str


@dataclass(frozen=True, slots=True)
class OnlyAfter:
    """A tool does not run before another one has run."""

    tool: str
    other: str


class AtMost(UsageLimit):
    """No more than a number of something is used: a limit, as a middleware declares it."""


Clause: TypeAlias = (
    ToolPasses | ModelPasses | LoopPasses | PathPasses | SeesLast | OnlyAfter | AtMost
)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A property of a plan.

    Args:
        text: The sentence.
        clauses: What it says; all of it must hold.
    """

    text: str
    clauses: tuple[Clause, ...]

    def __str__(self) -> str:
        return self.text


_NAME = r"[^\s,]+"
_MEMBER = rf"a guard|a person|a limit|{_NAME}"
_UNITS = "model calls|tool calls|input tokens|output tokens|tokens|USD|seconds|jobs under way"
# Larger numbers are infinite for Python, and no limits.
_AMOUNT = rf"(?P<most>\d{{1,300}}(\.\d+)?) ((?P<unit>{_UNITS})|calls of (?P<tool>{_NAME}))"
_PATTERNS: tuple[tuple[Callable[..., Clause], str], ...] = (
    (ToolPasses, rf"tool (?P<tool>{_NAME}) passes (?P<members>{_MEMBER})"),
    (ModelPasses, rf"model passes (?P<members>{_MEMBER})"),
    (LoopPasses, rf"every loop passes (?P<members>{_MEMBER})"),
    (
        PathPasses,
        rf"no path from (?P<source>{_NAME}) to (?P<target>{_NAME}) skips (?P<members>{_MEMBER})",
    ),
    (SeesLast, rf"(?P<member>{_NAME}) sees (?P<aspect>{'|'.join(SEEN_LAST)}) last"),
    (OnlyAfter, rf"tool (?P<tool>{_NAME}) only after tool (?P<other>{_NAME})"),
    (AtMost, rf"at most {_AMOUNT}(?: a (?P<scope>run|thread|ledger))?"),
)
"""What a sentence is read into, with the fields as groups."""

FORMS = (
    "tool NAME passes MEMBER",
    "model passes MEMBER",
    "every loop passes a limit",
    "no path from NODE to NODE skips MEMBER",
    f"MEMBER sees {' or '.join(SEEN_LAST)} last",
    "tool NAME only after tool OTHER",
    "at most N UNIT a run",
)
"""The forms of a sentence, for people."""

_WORDS = (
    "MEMBER is a middleware, 'a guard', 'a person' or 'a limit'. 'unless MEMBER' after a sentence "
    "with passes or skips excuses paths, and 'and' joins sentences. UNIT is "
    f"{', '.join(_UNITS.split('|'))} or calls of NAME; 'a run' may be 'a thread' or 'a ledger'."
)
"""What stands for the words in capitals."""


def parse(text: str) -> Guarantee:
    """Read a guarantee.

    Raises:
        GuaranteeSyntaxError: It is not one.

    >>> parse("tool refund passes Review and at most 5 model calls").clauses[0]
    ToolPasses(tool='refund', members=('Review',))
    """
    if not isinstance(text, str):
        raise _syntax_error(repr(text), "is not a string")
    words = " ".join(text.split()).removesuffix(".").rstrip()
    return Guarantee(words, tuple(_clause(words, part) for part in words.split(" and ")))


def _clause(text: str, part: str) -> Clause:
    # Names of middleware have no spaces, so the words between them cannot be a part of one.
    sentence, *excuses = part.split(" unless ")
    matches = ((kind, re.fullmatch(pattern, sentence)) for kind, pattern in _PATTERNS)
    kind, match = next((pair for pair in matches if pair[1]), (None, None))
    if kind is None or match is None:
        raise _syntax_error(text, f"has a part that is not a sentence: {part!r}")
    fields: dict[str, Any] = {name: word for name, word in match.groupdict().items() if word}
    if excuses and "members" not in fields:
        raise _syntax_error(text, f"has `unless` in a sentence that is not about paths: {part!r}")
    members = [member for excuse in excuses for member in excuse.split(" or ")]
    for member in members:
        if not re.fullmatch(_MEMBER, member):
            raise _syntax_error(text, f"does not name a member after `unless`: {member!r}")
    if "members" in fields:
        fields["members"] = (fields["members"], *members)
    if "most" in fields:
        # "calls of NAME" has no unit.
        fields = {"unit": "tool calls", **fields, "most": float(fields["most"])}
    return kind(**fields)


def _syntax_error(text: str, reason: str) -> GuaranteeSyntaxError:
    forms = "; ".join(FORMS)
    return GuaranteeSyntaxError(
        f"guarantee {text!r}", f"{reason}.", f"Write one of: {forms}. {_WORDS}"
    )
