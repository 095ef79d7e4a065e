"""Patterns of trajectories, parsed into rules about steps.

A run is read turn by turn, because the calls of a turn run in parallel and have no order.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, groupby
from typing import Any, Final, TypeVar

from agent_factory.decisions.log import Outcome
from agent_factory.errors import did_you_mean
from agent_factory.testing.trajectory_steps import NOT_FROM_MODEL, StepKind, TrajectoryStep

T = TypeVar("T")

MOST_STEPS: Final = 1000
"""The most steps that one rule may name, with each repetition that is written as a number."""

OUTCOMES: Final = ("ok", "error", "pending", *(str(kind).replace(" ", "_") for kind in Outcome))
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
    r"""
    (?P<name>[^\W\d]\w*(?:\[[^][\n]*\])?(?:[-.:/]\w+)*)
    | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<count>\{\s*\d*\s*(?:,\s*\d*\s*)?\})
    | (?P<sign>->|<=|>=|!=|[<>=~(),|*+?])
    | (?P<end>\Z)
    """,
    re.VERBOSE,
)


def _are_equal(argument: object, value: object) -> bool:
    # JSON has no numbers that are true or false, and Python does.
    return isinstance(argument, bool) is isinstance(value, bool) and argument == value


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": _are_equal,
    "!=": lambda argument, value: not _are_equal(argument, value),
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "~": lambda argument, value: str(value) in str(argument),
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
        argument = args[self.key]
        try:
            holds = _COMPARISONS[self.sign](argument, self.value)
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
    """Parts of which each is over before the next begins, in an earlier turn: `a < b`.

    None stands for a first part that is over. Unless `new_turn`, the parts of a repetition follow
    each other; a step of the first part was read if it has begun.
    """

    parts: tuple[Node | None, ...]
    new_turn: bool = True
    has_begun: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Parts with a choice: `a | b`."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part, so many times; without an upper limit, `most` is None."""

    part: Node
    least: int
    most: int | None


Node = StepPattern | Ordered | Choice | Repeat
"""A part of a rule, or the rest of a rule after some steps."""

NextStep = tuple["StepPattern", bool, "Node | None"]
"""A possible next step, whether it needs a later turn, and the rest of the rule after it."""


@lru_cache(maxsize=4096)
def _next(node: Node | None) -> tuple[NextStep, ...]:
    """The possible next steps of a part."""
    # Brzozowski's derivatives: the state of a match is the part of the rule that is left.
    if isinstance(node, StepPattern):
        return ((node, False, None),)
    if isinstance(node, Choice):
        return tuple(step for part in node.parts for step in _next(part))
    steps: list[NextStep] = []
    if isinstance(node, Repeat) and node.most != 0:
        most = None if node.most is None else node.most - 1
        again = () if most == 0 else (Repeat(node.part, max(node.least - 1, 0), most),)
        for step, later, rest in _next(node.part):
            steps.append((step, later, _left(rest, again, new_turn=False)))
    elif isinstance(node, Ordered):
        for index, member in enumerate(node.parts):
            leaves_begun = node.new_turn and node.has_begun and index > 0
            for step, later, rest in _next(member):
                left = _left(rest, node.parts[index + 1 :], new_turn=node.new_turn)
                steps.append((step, later or leaves_begun, left))
            if not _may_end(member):
                break
    return tuple(steps)


def _left(rest: Node | None, others: tuple[Node | None, ...], *, new_turn: bool) -> Node | None:
    """The rest of a part that has begun, and the parts after it, in the shortest form."""
    # Equal rests have to be equal values: a repetition would grow with each step.
    if not others or (rest is None and not new_turn):
        return others[0] if others else rest
    return Ordered((rest, *others), new_turn, has_begun=True)


def _may_end(node: Node | None) -> bool:
    """Return True if a part may be left out, or is over."""
    if isinstance(node, Ordered):
        return all(map(_may_end, node.parts))
    if isinstance(node, Choice):
        return any(map(_may_end, node.parts))
    if isinstance(node, Repeat):
        return not node.least or _may_end(node.part)
    return node is None


def _size(node: Node | None) -> int:
    """Number of named steps, with each repetition that is written as a number."""
    if isinstance(node, Ordered | Choice):
        return sum(map(_size, node.parts))
    if isinstance(node, Repeat):
        return _size(node.part) * (max(node.least, 1) if node.most is None else node.most)
    return int(node is not None)


@dataclass(frozen=True, slots=True)
class Break:
    """Place where a run breaks a rule: the index of the step, or None for the end of the run."""

    rule: Rule
    index: int | None
    reason: str


# In a dict, the rests of a rule stay in the order of the rule.
Rests = dict["Node | None", None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a pattern; `atoms` are the steps of its tree."""

    text: str
    tree: Node
    atoms: tuple[StepPattern, ...]
    forbids: bool = False
    sees_all: bool = False

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
        rests: Rests = {self.tree: None}
        for _, turn in groupby(visible_steps, key=lambda index: steps[index].turn):
            calls = list(turn)
            after = self._read(rests, [steps[index] for index in calls])
            if isinstance(after, _Stuck):
                index = calls[after.place]
                return Break(self, index, self._why(steps, visible_steps, index, after))
            rests = after
        if any(map(_may_end, rests)):
            return None
        expected = self._expected(rests)
        seen_any = f"after step {visible_steps[-1] + 1} " if visible_steps else ""
        return Break(self, None, f"the run ended, and `{self.text}` {seen_any}expects {expected}.")

    def _read(self, rests: Rests, turn: Sequence[TrajectoryStep]) -> Rests | _Stuck:
        """The rests of the rule after the steps of a turn, in any possible order."""
        # The calls of a turn run in parallel: their order in the message means nothing.
        # Steps with the same fitting parts of the rule are interchangeable, so they are counted.
        kinds: dict[tuple[bool, ...], list[int]] = {}
        for place, step in enumerate(turn):
            kinds.setdefault(tuple(atom.matches(step) for atom in self.atoms), []).append(place)
        groups = list(kinds.values())
        fitting = [set(compress(self.atoms, kind)) for kind in kinds]
        layer = dict.fromkeys((rest, (0,) * len(groups)) for rest in rests)
        for count in range(len(turn)):
            next_layer: dict[tuple[Node | None, tuple[int, ...]], None] = {}
            for rest, counts in layer:
                for atom, needs_new_turn, left in _next(rest):
                    # A turn has begun, and `<` needs a later turn.
                    if needs_new_turn and count:
                        continue
                    for group, fits in enumerate(fitting):
                        if counts[group] < len(groups[group]) and atom in fits:
                            more = (*counts[:group], counts[group] + 1, *counts[group + 1 :])
                            next_layer[left, more] = None
            if not next_layer:
                # The order with the most steps shows the step without a fitting part.
                place = max(
                    min(group[c] for group, c in zip(groups, counts, strict=True) if c < len(group))
                    for _, counts in layer
                )
                return _Stuck(place, dict.fromkeys(rest for rest, _ in layer), count)
            layer = next_layer
        return dict.fromkeys(rest for rest, _ in layer)

    def _expected(self, rests: Rests) -> str:
        """The possible next steps, in the form of a pattern."""
        texts = [step.text for rest in rests for step, _, _ in _next(rest)]
        return " or ".join(dict.fromkeys(texts)) or "nothing more"

    def _why(
        self, steps: Sequence[TrajectoryStep], visible: Sequence[int], index: int, stuck: _Stuck
    ) -> str:
        """Reason why the rule does not allow the step at an index."""
        step, rule = steps[index], f"`{self.text}`"
        fitting = [atom for atom in self.atoms if atom.matches(step)]
        next_steps = [(step, later) for rest in stuck.rests for step, later, _ in _next(rest)]
        expected = [step for step, _ in next_steps]
        atoms = [atom for atom in (expected if fitting else self.atoms) if atom.sees(step)]
        if not fitting and not atoms:
            return f"{step.event}, and {rule} allows no other calls."
        if problems := [f"{p}, not {a.text}" for a in atoms if (p := a.problem(step))]:
            unlike = "; ".join(dict.fromkeys(problems))
            return f"{step.event}, and {rule} does not match it: {unlike}."
        if stuck.done and any(later and step in fitting for step, later in next_steps):
            other = next(i for i in visible if steps[i].turn == step.turn and i != index)
            return (
                f"{step.event} in the same turn as {steps[other].name} (step {other + 1}), and `<` "
                f"in {rule} needs an earlier turn."
            )
        earlier = [i for i in visible if i < index]
        if isinstance(self.tree, StepPattern | Repeat) and len(self.atoms) == 1:
            most = self.tree.most if isinstance(self.tree, Repeat) else 1
            return f"{step.event}, and {rule} allows {most}, not {len(earlier) + 1}."
        # A step with a fitting part further on came too early; any other step does not belong here.
        if any(a in fitting for rest in stuck.rests for a in _atoms(rest, reachable=True)):
            return f"{step.event} before {self._expected(stuck.rests)}, which {rule} expects first."
        after = f" after {steps[earlier[-1]].name} (step {earlier[-1] + 1})" if earlier else ""
        return f"{step.event}{after}, where {rule} expects {self._expected(stuck.rests)}."


@dataclass(frozen=True, slots=True)
class _Stuck:
    """First step of a turn without a fitting part: its index, and the rests before it."""

    place: int
    rests: Rests
    done: int


def _atoms(node: Node | None, *, reachable: bool = False) -> Iterator[StepPattern]:
    """Each named step of a part; with `reachable`, without steps that are repeated 0 times."""
    if isinstance(node, StepPattern):
        yield node
    elif isinstance(node, Repeat):
        if node.most != 0 or not reachable:
            yield from _atoms(node.part, reachable=reachable)
    elif node is not None:
        for part in node.parts:
            yield from _atoms(part, reachable=reachable)


def parse(pattern: str) -> list[Rule]:
    """The rules of a pattern; a PatternError names the column and the correction."""
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
        rest = self.pattern[self.end if at is None else at :].lstrip()
        self.start = len(self.pattern) - len(rest)
        match = _TOKEN.match(self.pattern, self.start)
        if match is None:
            raise self.error(
                self.start,
                f"{rest[0]!r} cannot be read.",
                "Put the name of a tool in quotes if it has other signs than letters, digits, `_`, "
                "`-`, `.`, `:` and `/`.",
            )
        self.kind, self.text, self.end = match.lastgroup or "", match[0], match.end()

    def error(self, at: int, reason: str, hint: str) -> PatternError:
        """An error at an index of the pattern."""
        return PatternError(self.pattern, at + 1, reason, hint)

    def unlike(self, expected: str, hint: str) -> PatternError:
        """An error about the current token, where another one is expected."""
        token = "the end" if self.kind == "end" else f"`{self.text}`"
        return self.error(self.start, f"expected {expected}, got {token}.", hint)

    def takes(self, sign: str) -> bool:
        """Go past the current token if it is this sign or word."""
        if self.text != sign:
            return False
        self.advance()
        return True

    def rules(self) -> list[Rule]:
        """All rules, up to the end."""
        rules = self.separated(",", self.rule)
        if self.kind == "end":
            return rules
        is_step = self.kind in ("name", "quoted")
        hint = "Write `a < b` for an order, and `a, b` for both in any order."
        raise self.unlike("`<`, `|`, `,` or the end", hint if is_step else "Remove it.")

    def separated(self, sign: str, part: Callable[[], T]) -> list[T]:
        """Parts between signs, at least one."""
        parts = [part()]
        while self.takes(sign):
            parts.append(part())
        return parts

    def rule(self) -> Rule:
        """A rule, with `never` or `only` before."""
        start = self.start
        forbids = self.takes("never")
        sees_all = not forbids and self.takes("only")
        first = self.start
        tree = self.choice()
        text = self.pattern[start : self.start].rstrip().rstrip(",").rstrip()
        if forbids:
            parts = tree.parts if isinstance(tree, Choice) else [tree]
            if not all(isinstance(part, StepPattern) for part in parts):
                raise self.error(
                    first,
                    "expected steps after `never`, got an order or a repetition.",
                    "Write `never delete`, or `never delete | drop`.",
                )
        elif _size(tree) >= MOST_STEPS:
            raise self.error(
                start,
                f"the rule is too large: with its repetitions it names more than {MOST_STEPS} "
                "steps.",
                "Write smaller numbers, or `*` or `+`.",
            )
        return Rule(text, tree, tuple(_atoms(tree)), forbids, sees_all)

    def choice(self) -> Node:
        """Orders between `|`."""
        parts = self.separated("|", self.order)
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def order(self) -> Node:
        """Steps between `<`."""
        parts = self.separated("<", self.repeated)
        return parts[0] if len(parts) == 1 else Ordered(tuple(parts))

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
                raise self.unlike(
                    "numbers in rising order",
                    "Write {3} for three, {1,3} for one to three, {,3} for at most three, or {2,} "
                    "for at least two.",
                )
        else:
            return node
        self.advance()
        return Repeat(node, least, most)

    def step(self) -> Node:
        """A step, or a group in parentheses."""
        column = self.start + 1
        if self.takes("("):
            node = self.choice()
            if not self.takes(")"):
                raise self.unlike(f"`)` for the `(` in column {column}", "Close the group.")
            return node
        if self.kind not in ("name", "quoted"):
            raise self.unlike(
                "a step",
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
        self.advance()
        conditions: list[Condition] = []
        if self.takes("("):
            conditions = self.separated(",", self.condition)
            if not self.takes(")"):
                raise self.unlike("`,` or `)` after a condition", "Separate conditions by commas.")
        result, is_quoted = None, False
        if self.takes("->"):
            result, is_quoted = self.result()
        text = self.pattern[column - 1 : self.start].rstrip()
        return StepPattern(text, column, kind, name, tuple(conditions), result, is_quoted)

    def condition(self) -> Condition:
        """A condition on an argument."""
        if self.kind not in ("name", "quoted"):
            hint = 'Write conditions such as `euros<=50` or `order_id="A1"`.'
            raise self.unlike("the name of an argument", hint)
        key = _unquoted(self.text) if self.kind == "quoted" else self.text
        self.advance()
        if self.kind != "sign" or self.text not in _COMPARISONS:
            hint = f"Write one of {' '.join(_COMPARISONS)}; `~` is for a part of a text."
            raise self.unlike(f"a comparison after `{key}`", hint)
        sign = self.text
        return Condition(key, sign, self.value())

    def value(self) -> Any:
        """The value after the current sign; the following token becomes the current token."""
        rest = self.pattern[self.end :].lstrip()
        at = len(self.pattern) - len(rest)
        try:
            value, end = json.JSONDecoder().raw_decode(self.pattern, at)
        # Texts in single quotes are not JSON.
        except ValueError:
            self.advance()
            if self.kind != "quoted":
                raise self.unlike(
                    "a value",
                    'Write a number, a text in quotes such as "A1", true, false, null, or a list '
                    "in JSON.",
                ) from None
            value, end = _unquoted(self.text), self.end
        self.advance(end)
        return value

    def result(self) -> tuple[str, bool]:
        """The result after an arrow, and whether the result is a text in quotes."""
        is_quoted = self.kind == "quoted"
        result = _unquoted(self.text) if is_quoted else self.text
        if not is_quoted and result not in OUTCOMES:
            otherwise = (
                "Write ok, error or pending for a call, an outcome such as jumped for a hook, or a "
                "text in quotes that the result contains."
            )
            raise self.unlike("a result", did_you_mean(self.text, OUTCOMES, otherwise))
        self.advance()
        return result, is_quoted


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])
