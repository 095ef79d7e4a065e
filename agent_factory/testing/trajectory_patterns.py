"""Patterns of trajectories, parsed into rules about steps.

A rule becomes an automaton with a state for each named step. The automaton reads a run turn by
turn, because the calls of a turn run in parallel and have no order.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import groupby
from typing import Any, Final

from agent_factory.decisions.log import Outcome
from agent_factory.testing.trajectory_steps import NOT_FROM_MODEL, StepKind, TrajectoryStep

MOST_STEPS: Final = 1000
"""The most steps that one rule may name, with each repetition that is written as a number."""

OUTCOMES: Final = (
    "ok",
    "error",
    "pending",
    *(str(outcome).replace(" ", "_") for outcome in Outcome),
)
"""The results that a pattern may name without quotes: of tool calls, then of hooks and layers."""

_WORDS: Final = {
    "any": StepKind.TOOL,
    "model": StepKind.MODEL,
    "answer": StepKind.ANSWER,
    "user": StepKind.USER,
    "review": StepKind.REVIEW,
}
"""Names that stand for steps other than one tool's calls."""

# Names of middleware may have brackets, as PIIMiddleware[email], and names of remote tools may
# have dots, colons and slashes.
_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<name>[^\W\d]\w*(?:\[[^][\n]*\])?(?:[-.:/]\w+)*)
    | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<count>\{\s*\d*\s*(?:,\s*\d*\s*)?\})
    | (?P<sign>->|<=|>=|!=|[<>=~(),|*+?])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "~": lambda found, value: str(value) in str(found),
}


class PatternError(ValueError):
    """A pattern of a trajectory cannot be read.

    Args:
        pattern: The pattern.
        column: The column of the error, from 1.
        reason: The expected text, and the actual text.
        hint: The correction.
    """

    def __init__(self, pattern: str, column: int, reason: str, hint: str) -> None:
        self.pattern = pattern
        self.column = column
        self.reason = reason
        self.hint = hint
        line = " ".join(pattern.splitlines()) or " "
        super().__init__(f"column {column}: {reason} {hint}\n    {line}\n    {' ' * (column - 1)}^")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on an argument of a call: `euros<=50`."""

    key: str
    sign: str
    value: Any

    def problem(self, args: Mapping[str, object]) -> str:
        """Reason for a mismatch of the arguments; empty for a match."""
        if self.key not in args:
            return f"{self.key} is missing"
        argument, value = args[self.key], self.value
        # JSON has no numbers that are true or false, and Python does.
        alike = isinstance(argument, bool) is isinstance(value, bool)
        try:
            if self.sign == "=" and not alike:
                holds = False
            elif self.sign == "!=" and not alike:
                holds = True
            else:
                holds = _COMPARISONS[self.sign](argument, value)
        except TypeError:
            holds = False  # a text and a number have no order
        return "" if holds else f"{self.key} is {argument!r}"

    def __str__(self) -> str:
        return f"{self.key}{self.sign}{json.dumps(self.value, ensure_ascii=False)}"


# By identity: a rule may name equal steps in several places.
@dataclass(frozen=True, slots=True, eq=False)
class StepPattern:
    """A step in a rule: `refund(euros<=50) -> ok`, with the written `text`."""

    text: str
    column: int
    kind: StepKind
    name: str = ""  # empty for any
    conditions: tuple[Condition, ...] = ()
    result: str | None = None
    quoted: bool = False

    def sees(self, step: TrajectoryStep) -> bool:
        """Return True if a step has this name."""
        if self.kind is StepKind.MODEL:
            of_model = step.kind in (StepKind.MODEL, StepKind.ANSWER)
            return of_model and step.outcome != NOT_FROM_MODEL
        return step.kind is self.kind and self.name in ("", step.name)

    def problem(self, step: TrajectoryStep) -> str:
        """Reason for the mismatch of a step with this name; empty for a match."""
        for condition in self.conditions:
            if problem := condition.problem(step.args or {}):
                return problem
        if self.result is None:
            return ""
        result = f"{step.outcome}: {step.text}" if step.text else step.outcome
        if self.quoted:
            return "" if self.result in result else f"its result is {result!r}"
        holds = step.outcome.replace(" ", "_") == self.result
        return "" if holds else f"its result is {step.outcome}"

    def matches(self, step: TrajectoryStep) -> bool:
        """Return True if a step has this name, and meets the conditions."""
        return self.sees(step) and not self.problem(step)


@dataclass(frozen=True, slots=True)
class Ordered:
    """Parts of which each is over before the next begins, in an earlier turn: `a < b`."""

    parts: Sequence[Node]


@dataclass(frozen=True, slots=True)
class Choice:
    """Parts with a choice: `a | b`."""

    parts: Sequence[Node]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part, so many times; without an upper limit, `most` is None."""

    part: Node
    least: int
    most: int | None


Node = StepPattern | Ordered | Choice | Repeat
"""A part of a rule."""


@dataclass(frozen=True, slots=True)
class Break:
    """Place where a run breaks a rule: the index of the step, or None for the end of the run."""

    rule: Rule
    index: int | None
    reason: str


@dataclass(slots=True)
class _Part:
    """A part of an automaton: whether it may be empty, its first and its last states."""

    nullable: bool
    # Dicts and not sets, because errors list the steps in the order of the rule.
    first: dict[int, None]
    last: dict[int, None]


@dataclass(slots=True)
class Rule:
    """A rule of a pattern, as an automaton with a state for each named step.

    `follow` has for each state the next states, each with whether the turn must have changed
    in between. State 0 is the beginning.
    """

    text: str
    tree: Node
    forbids: bool = False
    sees_all: bool = False
    atoms: list[StepPattern] = field(default_factory=list)  # each once
    # The first state is the start, before any step.
    states: list[StepPattern | None] = field(default_factory=lambda: [None])
    follow: list[dict[int, bool]] = field(default_factory=lambda: [{}])
    _final: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.atoms = list(_atoms(self.tree))
        if not self.forbids:
            # Glushkov's construction: a state for each named step, no empty transitions.
            whole = self._build(self.tree)
            self.follow[0] = dict.fromkeys(whole.first, False)
            self._final = frozenset([*whole.last, *([0] if whole.nullable else [])])

    def _build(self, node: Node) -> _Part:
        if isinstance(node, StepPattern):
            self.states.append(node)
            self.follow.append({})
            if len(self.states) > MOST_STEPS:
                raise PatternError(
                    self.text,
                    1,
                    f"the rule is too large: with its repetitions it names more than {MOST_STEPS} "
                    "steps.",
                    "Write smaller numbers, or `*` or `+`.",
                )
            state = len(self.states) - 1
            return _Part(False, {state: None}, {state: None})
        if isinstance(node, Choice):
            parts = [self._build(part) for part in node.parts]
            return _Part(
                any(part.nullable for part in parts),
                {state: None for part in parts for state in part.first},
                {state: None for part in parts for state in part.last},
            )
        if isinstance(node, Ordered):
            whole = self._build(node.parts[0])
            for part in node.parts[1:]:
                whole = self._joined(whole, self._build(part), new_turn=True)
            return whole
        # Each repetition has its own states; optional repetitions are nested, so that
        # each is followed by the next only.
        whole = _Part(True, {}, {})
        copies = [self._build(node.part) for _ in range(node.least)]
        if node.most is None:
            copies = copies or [self._build(node.part)]
            for state in copies[-1].last:
                self._connect(state, copies[-1].first, new_turn=False)
            if not node.least:
                copies[-1].nullable = True
        else:
            for optional in [self._build(node.part) for _ in range(node.most - node.least)][::-1]:
                whole = self._joined(optional, whole, new_turn=False)
                whole.nullable = True
        for repetition in copies[::-1]:
            whole = self._joined(repetition, whole, new_turn=False)
        return whole

    def _joined(self, first: _Part, other: _Part, *, new_turn: bool) -> _Part:
        for state in first.last:
            self._connect(state, other.first, new_turn=new_turn)
        return _Part(
            first.nullable and other.nullable,
            first.first | (other.first if first.nullable else {}),
            other.last | (first.last if other.nullable else {}),
        )

    def _connect(self, state: int, others: Mapping[int, None], *, new_turn: bool) -> None:
        followers = self.follow[state]
        for other in others:
            # Of two transitions to a state, the one without a new turn allows more.
            followers[other] = new_turn and followers.get(other, True)

    def sees(self, step: TrajectoryStep) -> bool:
        """Return True for a named step; with `only`, for any call."""
        if self.sees_all and step.kind is StepKind.TOOL:
            return True
        return any(atom.sees(step) for atom in self.atoms)

    def check(self, steps: Sequence[TrajectoryStep]) -> Break | None:
        """Return the position at which a run breaks the rule; None for a match."""
        if self.forbids:
            for index, step in enumerate(steps):
                if any(atom.matches(step) for atom in self.atoms):
                    return Break(self, index, f"{step.event}, which `{self.text}` forbids.")
            return None
        visible_steps = [index for index, step in enumerate(steps) if self.sees(step)]
        states = {0}
        for _, turn in groupby(visible_steps, key=lambda index: steps[index].turn):
            calls = list(turn)
            after, failed = self._read(states, [steps[index] for index in calls])
            if failed is not None:
                index = calls[failed.place]
                return Break(self, index, self._why(steps, visible_steps, index, failed))
            states = after
        if states & self._final:
            return None
        expected = self._expected(states)
        seen_any = f"after step {visible_steps[-1] + 1} " if visible_steps else ""
        return Break(self, None, f"the run ended, and `{self.text}` {seen_any}expects {expected}.")

    def _read(
        self, states: set[int], turn: Sequence[TrajectoryStep]
    ) -> tuple[set[int], _Stuck | None]:
        """The states after the steps of a turn, in any possible order."""
        # The calls of a turn run in parallel: their order in the message means nothing.
        # Steps with the same fitting parts of the rule are interchangeable, so they are counted.
        kinds: dict[tuple[bool, ...], list[int]] = {}
        for place, step in enumerate(turn):
            kinds.setdefault(tuple(atom.matches(step) for atom in self.atoms), []).append(place)
        groups = list(kinds.values())
        fitting = [
            {id(atom) for atom, fits in zip(self.atoms, kind, strict=True) if fits}
            for kind in kinds
        ]
        layer = {(state, (0,) * len(groups)) for state in states}
        for count in range(len(turn)):
            next_layer = set()
            for state, counts in layer:
                for other, new_turn in self.follow[state].items():
                    # A turn has begun, and `<` needs a later turn.
                    if new_turn and count:
                        continue
                    for group, fits in enumerate(fitting):
                        if counts[group] < len(groups[group]) and id(self.states[other]) in fits:
                            more = (*counts[:group], counts[group] + 1, *counts[group + 1 :])
                            next_layer.add((other, more))
            if not next_layer:
                # The order with the most steps shows the step without a fitting part.
                place = max(
                    min(group[c] for group, c in zip(groups, counts, strict=True) if c < len(group))
                    for _, counts in layer
                )
                return set(), _Stuck(place, {state for state, _ in layer}, count)
            layer = next_layer
        return {state for state, _ in layer}, None

    def _expected(self, states: set[int]) -> str:
        """The possible next steps, in the form of a pattern."""
        texts = [a.text for s in sorted(states) for o in self.follow[s] if (a := self.states[o])]
        return " or ".join(dict.fromkeys(texts)) or "nothing more"

    def _why(
        self,
        steps: Sequence[TrajectoryStep],
        visible_steps: Sequence[int],
        index: int,
        stuck: _Stuck,
    ) -> str:
        """Reason why the rule does not allow the step at an index."""
        step, rule = steps[index], f"`{self.text}`"
        fitting = [atom for atom in self.atoms if atom.matches(step)]
        next_states = {o: turn for state in stuck.states for o, turn in self.follow[state].items()}
        expected = [atom for state in sorted(next_states) if (atom := self.states[state])]
        atoms = [atom for atom in (expected if fitting else self.atoms) if atom.sees(step)]
        if not fitting and not atoms:
            return f"{step.event}, and {rule} allows no other calls."
        if problems := [f"{p}, not {a.text}" for a in atoms if (p := a.problem(step))]:
            unlike = "; ".join(dict.fromkeys(problems))
            return f"{step.event}, and {rule} does not match it: {unlike}."
        if stuck.done and any(
            turn and self.states[o] in fitting for o, turn in next_states.items()
        ):
            other = next(i for i in visible_steps if steps[i].turn == step.turn and i != index)
            return (
                f"{step.event} in the same turn as {steps[other].name} (step {other + 1}), and `<` "
                f"in {rule} needs an earlier turn."
            )
        earlier = [i for i in visible_steps if i < index]
        if isinstance(self.tree, StepPattern | Repeat) and len(self.atoms) == 1:
            most = self.tree.most if isinstance(self.tree, Repeat) else 1
            return f"{step.event}, and {rule} allows {most}, not {len(earlier) + 1}."
        # A step with a fitting part further on came too early; any other step does not belong here.
        reachable, todo = set(next_states), list(next_states)
        while todo:
            new = self.follow[todo.pop()].keys() - reachable
            reachable |= new
            todo += new
        if any(self.states[state] in fitting for state in reachable):
            return (
                f"{step.event} before {self._expected(stuck.states)}, which {rule} expects first."
            )
        after = f" after {steps[earlier[-1]].name} (step {earlier[-1] + 1})" if earlier else ""
        return f"{step.event}{after}, where {rule} expects {self._expected(stuck.states)}."


@dataclass(frozen=True, slots=True)
class _Stuck:
    """First step of a turn without a fitting part: its index, and the steps before."""

    place: int
    states: set[int]
    done: int


def _atoms(node: Node) -> Iterator[StepPattern]:
    """Each named step of a part."""
    if isinstance(node, StepPattern):
        yield node
    elif isinstance(node, Repeat):
        yield from _atoms(node.part)
    else:
        for part in node.parts:
            yield from _atoms(part)


def parse(pattern: str) -> list[Rule]:
    """The rules of a pattern.

    Raises:
        PatternError: The pattern is not valid; the error names the column and the correction.
    """
    return _Parser(pattern).rules()


class _Parser:
    """Reads a pattern from left to right; `kind` and `text` are the token at `start`."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.start = self.end = 0
        self.kind = self.text = ""
        self.advance()

    def advance(self, at: int | None = None) -> None:
        """Go to the next token."""
        self.end = self.end if at is None else at
        match = _TOKEN.match(self.pattern, self.end)
        if match is None:
            rest = self.pattern[self.end :]
            self.start = self.end + len(rest) - len(rest.lstrip())
            raise self.error(
                f"{self.pattern[self.start]!r} cannot be read.",
                "Put the name of a tool in quotes if it has other signs than letters, digits, `_`, "
                "`-`, `.`, `:` and `/`.",
            )
        self.kind, self.text = match.lastgroup or "", match[match.lastgroup or 0]
        # The match includes the white space before the token.
        self.start, self.end = match.end() - len(self.text), match.end()

    def error(self, reason: str, hint: str) -> PatternError:
        """An error at the current token."""
        return PatternError(self.pattern, self.start + 1, reason, hint)

    @property
    def found(self) -> str:
        """The current token, for an error."""
        return "the end" if self.kind == "end" else f"`{self.text}`"

    def takes(self, sign: str) -> bool:
        """Go past a sign if the current token is that sign."""
        if self.kind != "sign" or self.text != sign:
            return False
        self.advance()
        return True

    def rules(self) -> list[Rule]:
        """All rules, up to the end."""
        rules = [self.rule()]
        while self.takes(","):
            rules.append(self.rule())
        if self.kind == "end":
            return rules
        if self.kind in ("name", "quoted"):
            raise self.error(
                f"expected `<`, `|`, `,` or the end, got {self.found}.",
                "Write `a < b` for an order, and `a, b` for both in any order.",
            )
        raise self.error(f"expected `<`, `|`, `,` or the end, got {self.found}.", "Remove it.")

    def rule(self) -> Rule:
        """A rule, with `never` or `only` before."""
        start = self.start
        word = self.text if self.kind == "name" and self.text in ("never", "only") else ""
        if word:
            self.advance()
        first = self.start
        tree = self.choice()
        text = self.pattern[start : self.start].rstrip().rstrip(",").rstrip()
        if word == "never":
            parts = tree.parts if isinstance(tree, Choice) else [tree]
            if not all(isinstance(part, StepPattern) for part in parts):
                raise PatternError(
                    self.pattern,
                    first + 1,
                    "expected steps after `never`, got an order or a repetition.",
                    "Write `never delete`, or `never delete | drop`.",
                )
        try:
            # The rule has its own text only, and the error is about the whole pattern.
            return Rule(text, tree, forbids=word == "never", sees_all=word == "only")
        except PatternError as error:
            raise PatternError(self.pattern, start + 1, error.reason, error.hint) from None

    def choice(self) -> Node:
        """Orders between `|`."""
        parts = [self.order()]
        while self.takes("|"):
            parts.append(self.order())
        return parts[0] if len(parts) == 1 else Choice(parts)

    def order(self) -> Node:
        """Steps between `<`."""
        parts = [self.repeated()]
        while self.takes("<"):
            parts.append(self.repeated())
        return parts[0] if len(parts) == 1 else Ordered(parts)

    def repeated(self) -> Node:
        """A step or a group, with the number of repetitions."""
        node = self.step()
        if self.kind == "sign" and self.text in ("*", "+", "?"):
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self.text]
        elif self.kind == "count":
            low, comma, high = self.text.strip("{} ").partition(",")
            low, high = low.strip(), high.strip()
            least = int(low or 0)
            most = (int(high) if high else None) if comma else least
            if not (low or high) or (most is not None and most < least):
                raise self.error(
                    f"expected numbers in rising order, got {self.found}.",
                    "Write {3} for three, {1,3} for one to three, {,3} for at most three, or {2,} "
                    "for at least two.",
                )
        else:
            return node
        self.advance()
        return Repeat(node, least, most)

    def step(self) -> Node:
        """A step, or a group in parentheses."""
        opening = self.start
        if self.takes("("):
            node = self.choice()
            if not self.takes(")"):
                raise self.error(
                    f"expected `)` for the `(` in column {opening + 1}, got {self.found}.",
                    "Close the group.",
                )
            return node
        if self.kind not in ("name", "quoted"):
            raise self.error(
                f"expected a step, got {self.found}.",
                "Write the name of a tool, such as `refund`, or `any`, `model`, `answer`, `user`, "
                "`review` or `Middleware.hook`.",
            )
        name, kind = self.text, StepKind.TOOL
        if self.kind == "quoted":
            name = _unquoted(name)
        elif name in _WORDS:
            name, kind = "" if name == "any" else name, _WORDS[name]
        elif "." in name:
            kind = StepKind.HOOK
        column = self.start + 1
        self.advance()
        conditions = tuple(self.conditions())
        result, is_quoted = None, False
        if self.takes("->"):
            result, is_quoted = self.result()
        text = self.pattern[column - 1 : self.start].rstrip()
        return StepPattern(text, column, kind, name, conditions, result, is_quoted)

    def conditions(self) -> Iterator[Condition]:
        """Conditions on arguments, in parentheses; none without any."""
        if not self.takes("("):
            return
        while True:
            if self.kind not in ("name", "quoted"):
                raise self.error(
                    f"expected the name of an argument, got {self.found}.",
                    'Write conditions such as `euros<=50` or `order_id="A1"`.',
                )
            key = _unquoted(self.text) if self.kind == "quoted" else self.text
            self.advance()
            if self.kind != "sign" or self.text not in _COMPARISONS:
                raise self.error(
                    f"expected a comparison after `{key}`, got {self.found}.",
                    f"Write one of {' '.join(_COMPARISONS)}; `~` is for a part of a text.",
                )
            sign = self.text
            yield Condition(key, sign, self.value())
            if self.takes(")"):
                return
            if not self.takes(","):
                raise self.error(
                    f"expected `,` or `)` after a condition, got {self.found}.",
                    "Separate conditions by commas.",
                )

    def value(self) -> Any:
        """The value after the current sign; the following token becomes the current token."""
        rest = self.pattern[self.end :]
        at = self.end + len(rest) - len(rest.lstrip())
        try:
            value, end = json.JSONDecoder().raw_decode(self.pattern, at)
        # Texts in single quotes are not JSON.
        except ValueError:
            self.advance()
            if self.kind != "quoted":
                raise self.error(
                    f"expected a value, got {self.found}.",
                    'Write a number, a text in quotes such as "A1", true, false, null, or a list '
                    "in JSON.",
                ) from None
            value = _unquoted(self.text)
            self.advance()
        else:
            self.advance(end)
        return value

    def result(self) -> tuple[str, bool]:
        """The result after an arrow, and whether the result is a text in quotes."""
        if self.kind == "quoted":
            result, is_quoted = _unquoted(self.text), True
        elif self.kind == "name" and self.text in OUTCOMES:
            result, is_quoted = self.text, False
        else:
            close = get_close_matches(self.text, OUTCOMES, n=1)
            raise self.error(
                f"expected a result, got {self.found}.",
                f"Did you mean {close[0]}?"
                if close
                else "Write ok, error or pending for a call, an outcome such as jumped for a hook, "
                "or a text in quotes that the result contains.",
            )
        self.advance()
        return result, is_quoted


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])
