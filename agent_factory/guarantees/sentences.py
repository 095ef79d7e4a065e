"""Sentences of guarantees, and their parsed values.

```
tool NAME passes MEMBER                 NAME and MEMBER may be patterns
tool NAME passes MEMBER when CONDITION  or unless CONDITION
model passes MEMBER
every loop passes a limit
no path from NODE to NODE skips MEMBER
MEMBER sees tool_calls last
tool NAME only after tool OTHER
at most N model calls a run             or a thread, or a ledger; tokens, USD, ...
```

`and` joins sentences, and `unless MEMBER` excuses the paths that pass a member. In the place of a
member, `a guard`, `a person` and `a limit` mean any middleware with such a declaration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from agent_factory.errors import SpecError
from agent_factory.topology.conditions import Condition, Fact, parse_condition
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
    """Each call of a tool passes a member before it runs.

    Args:
        tool: The tool, or a pattern.
        members: The members; passing any is enough.
        wanted: The calls in question; None for all calls.
        if_any: There may be no such tool.
    """

    tool: str
    members: tuple[str, ...]
    wanted: Condition | None = None
    if_any: bool = False


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
    """Each path between two nodes passes a member."""

    source: str
    target: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeesLast:
    """No other member changes a part of the conversation after this member has seen it."""

    member: str
    aspect: str


@dataclass(frozen=True, slots=True)
class OnlyAfter:
    """A tool does not run before another tool."""

    tool: str
    other: str


class AtMost(UsageLimit):
    """Limit of a use, in the form of a middleware's declarations."""


Clause: TypeAlias = (
    ToolPasses | ModelPasses | LoopPasses | PathPasses | SeesLast | OnlyAfter | AtMost
)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A property of a plan.

    Args:
        text: The sentence.
        clauses: The parts of the sentence; all must hold.
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


class Form(NamedTuple):
    """Form of a sentence, and its meaning for runs.

    Args:
        text: The form.
        says: What holds for each run of the agent.
        leaves_open: Questions outside of the sentence.
    """

    text: str
    says: str
    leaves_open: str


FORMS = (
    Form(
        "tool NAME passes MEMBER",
        "Before the tool runs, each call of it has passed a member after the last change of the "
        "call: the input, the model, a hook before a jump, a member that writes calls. A guard is "
        "passed where it decides about the tool that runs. A call that never runs passes all.",
        "How the person, the judge or the code decides. An approval that is remembered is a "
        "decision.",
    ),
    Form(
        "tool NAME passes MEMBER when CONDITION",
        "The same for calls whose arguments meet the condition; `unless CONDITION` for all others.",
        "What the tool does with its arguments.",
    ),
    Form(
        "model passes MEMBER",
        "Between two model calls of the agent, and before the first, a run passes the member. A "
        "member with nothing but `before_agent` is passed once a run.",
        "Calls of models by middleware and tools themselves.",
    ),
    Form(
        "every loop passes a limit",
        "A run, or one of an agent inside of a tool, does not go on for ever: a number of model "
        "calls, tokens or seconds ends it.",
        "How long it takes until then. A limit of money ends no loop whose calls cost nothing.",
    ),
    Form(
        "no path from NODE to NODE skips MEMBER",
        "A run that comes from the first node to the second passes the member in between.",
        "What happens inside of a node: a layer may answer in place of its inner layers.",
    ),
    Form(
        f"MEMBER sees {' or '.join(SEEN_LAST)} last",
        "Each call that runs, or the last answer of each run, was seen by the member as it is.",
        "What the member does about it.",
    ),
    Form(
        "tool NAME only after tool OTHER",
        "The tool does not run in a thread before the other one has run in it.",
        "Whether the other one succeeded for the same order, person or file.",
    ),
    Form(
        "at most N UNIT a run",
        "No run uses more, with all attempts of its calls and the agents inside of its tools. Of "
        "`a thread`, no branch of it does; of `a ledger`, the agents that share it do not.",
        "Calls of models by middleware and tools themselves. Tokens, USD and seconds are known "
        "after a call, so the last one may go over the number. A tool that asks begins again with "
        "the answer, in the same call.",
    ),
)
"""The forms of a sentence, with their meaning."""

_WORDS = (
    "MEMBER is a middleware, 'a guard', 'a person' or 'a limit'. 'unless MEMBER' after a sentence "
    "with passes or skips excuses paths, 'if any' allows that no tool has the name, and 'and' "
    'joins sentences. CONDITION is one of a policy, such as euros > 50 or to == "Ann". UNIT is '
    f"{', '.join(_UNITS.split('|'))} or calls of NAME; 'a run' may be 'a thread' or 'a ledger'."
)
"""What stands for the words in capitals."""


def parse(text: str) -> Guarantee:
    """Read a guarantee.

    Raises:
        GuaranteeSyntaxError: The text is not a guarantee.

    >>> parse("model passes Review and tool refund passes a person").clauses[0]
    ModelPasses(members=('Review',))
    """
    if not isinstance(text, str):
        raise _syntax_error(repr(text), "is not a string")
    # Spaces in quotes belong to a value.
    words = re.sub(r'"(?:\\.|[^"\\])*"|\s+', lambda m: m[0] if m[0][0] == '"' else " ", text)
    words = words.strip().removesuffix(".").rstrip()
    parts: list[str] = []
    for part in words.split(" and "):
        # A condition may hold an "and", too: euros > 50 and to == "Ann".
        has_open_quote = parts and len(re.findall(r'(?<!\\)"', parts[-1])) % 2 == 1
        if parts and (has_open_quote or _condition(part) is not None):
            parts[-1] += f" and {part}"
        else:
            parts.append(part)
    return Guarantee(words, tuple(_clause(words, part) for part in parts))


def _condition(text: str) -> Condition | None:
    """Parse a condition; None if the text has other parts than arguments and labels seen."""
    condition = parse_condition(text)
    is_fact = any(isinstance(x, Fact) and not x.text.startswith("seen ") for x in condition.leaves)
    return None if is_fact else condition


_ENDS = re.compile(r' (?P<word>when|unless) (?=(?:[^"]*"[^"]*")*[^"]*$)')
"""Words before a member or a condition, outside of quotes."""


def _clause(text: str, part: str) -> Clause:
    sentence, *rest = _ENDS.split(part)
    is_any, sentence = sentence.endswith(" if any"), sentence.removesuffix(" if any")
    if rest and rest[-1].endswith(" if any"):
        is_any, rest[-1] = True, rest[-1].removesuffix(" if any")
    matches = ((kind, re.fullmatch(pattern, sentence)) for kind, pattern in _PATTERNS)
    kind, match = next((pair for pair in matches if pair[1]), (None, None))
    if kind is None or match is None:
        raise _syntax_error(text, f"has a part that is not a sentence: {part!r}")
    fields: dict[str, Any] = {name: word for name, word in match.groupdict().items() if word}
    if rest and "members" not in fields:
        raise _syntax_error(text, f"has `{rest[0]}` in a sentence not about paths: {part!r}")
    members: list[str] = []
    wanted: list[Condition] = []
    for word, words in zip(rest[::2], rest[1::2], strict=True):
        condition = _condition(words)
        if condition is not None:
            if word == "unless":  # all other calls, with any value that does not compare
                others = Condition(condition.parts, negated=True)
                condition = Condition((others,), or_unknown=True)
            wanted.append(condition)
            continue
        members += words.split(" or ")
        if word == "when" or not all(re.fullmatch(_MEMBER, member) for member in members):
            expected = "a condition" if word == "when" else "a member or a condition"
            raise _syntax_error(text, f"must have {expected} after `{word}`: {words!r}")
    if (wanted or is_any) and kind is not ToolPasses:
        raise _syntax_error(text, f"has a condition, and is not about a tool: {part!r}")
    if "members" in fields:
        fields["members"] = (fields["members"], *members)
    if kind is ToolPasses:
        fields.update(wanted=Condition(tuple(wanted)) if wanted else None, if_any=is_any)
    if "most" in fields:
        # "calls of NAME" has no unit.
        fields = {"unit": "tool calls", **fields, "most": float(fields["most"])}
    return kind(**fields)


def _syntax_error(text: str, reason: str) -> GuaranteeSyntaxError:
    forms = {form.text: re.split(" (?=[A-Z])", form.text)[0] + " " for form in FORMS}
    parts = text.lower().split(" and ")
    # Forms with the same first words are the nearest.
    near = [form for form, words in forms.items() if any(p.startswith(words) for p in parts)]
    known = tuple(forms.values())
    hint = f"Write one of: {'; '.join(near if all(p.startswith(known) for p in parts) else forms)}."
    return GuaranteeSyntaxError(f"guarantee {text!r}", f"{reason}.", f"{hint} {_WORDS}")
