"""Conditions on the arguments of tool calls: comparisons, the grammar of their texts, and cases.

```
condition = part { " and " part }
part      = NAME SIGN JSON | "not (" condition [ ", or unknown" ] ")" | fact
```

`NAME` is an argument, `SIGN` a comparison of `COMPARISONS`. A *fact* is anything else: "seen
private", "labeled outside", the name of a function, words. A comparison with a missing
argument, or with an argument of another type, is unknown: neither true nor false, as in SQL. A tool
may have a default for such an argument, or convert the value.

`counterexample_case` decides exactly whether some call meets a condition and none of several more.
The function tries a value of each class of values that comparisons can tell apart: numbers between
and around the compared numbers, and a text for each combination of patterns. A pattern
may have `*` and `?`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import pairwise, product
from math import ceil, floor
from typing import Any


def _same_kind(value: object, other: object) -> bool:
    """Return True if two values compare."""
    return _kind(value) is _kind(other) and not any(item != item for item in (value, other))  # NaN


def _kind(value: object) -> type[object]:
    """The type of a value. JSON has a single kind of numbers, and True is not a number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float if is_number else type(value)


def _is_in(value: object, options: Any) -> bool | None:
    """Return True if a value is among several; None if another form may be."""
    alike = [option for option in options if _same_kind(value, option)]
    is_mixed = any(not _same_kind(value, option) for option in options if option is not None)
    return value in alike or (None if is_mixed or not alike else False)


def _compared(compare: Callable[[Any, Any], bool]) -> Callable[[object, object], bool | None]:
    """Extend a comparison: None if the two values are of different kinds."""
    return lambda value, other: compare(value, other) if _same_kind(value, other) else None


COMPARISONS: dict[str, Callable[[object, object], bool | None]] = {
    "==": _compared(operator.eq),
    "!=": _compared(operator.ne),
    "<": _compared(operator.lt),
    "<=": _compared(operator.le),
    ">": _compared(operator.gt),
    ">=": _compared(operator.ge),
    "in": _is_in,
    "not in": lambda value, options: None if (r := _is_in(value, options)) is None else not r,
    "like": _compared(fnmatchcase),
    "not like": _compared(lambda value, other: not fnmatchcase(value, other)),
}
"""Comparisons of an argument with a value. None: they cannot be compared."""


class UndecidableError(ValueError):
    """A condition cannot be decided exactly; the message says why."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of an argument with a value; `value` is JSON."""

    name: str
    sign: str
    json: str

    @property
    def value(self) -> Any:
        """The value to compare with the argument."""
        return json.loads(self.json)

    @property
    def constants(self) -> list[Any]:
        """The value, or the items of the list for `in` and `not in`."""
        return self.value if self.sign in ("in", "not in") else [self.value]

    @property
    def is_decided(self) -> bool:
        """False for an order of texts, and for a pattern with `[`."""
        if not isinstance(self.value, str):
            return True
        return self.sign[0] not in "<>" and not (self.sign.endswith("like") and "[" in self.value)

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {self.json}"


@dataclass(frozen=True, slots=True)
class Fact:
    """A part without a comparison."""

    text: str
    is_decided = True

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Condition:
    """Parts all of which must hold; `negated` for the opposite.

    With `or_unknown`, an unknown result counts as true, before it is negated.
    """

    parts: tuple[Comparison | Fact | Condition, ...]
    negated: bool = False
    or_unknown: bool = False

    def __str__(self) -> str:
        text = " and ".join(map(str, self.parts)) + _UNKNOWN * self.or_unknown
        return f"not ({text})" if self.negated else text

    @property
    def undecided(self) -> str:
        """The undecidable comparisons."""
        return ", ".join(str(leaf) for leaf in self.leaves if not leaf.is_decided)

    @property
    def decidable(self) -> Condition:
        """The condition, with facts in place of undecidable comparisons."""
        parts: list[Comparison | Fact | Condition] = []
        for part in self.parts:
            if isinstance(part, Condition):
                parts.append(part.decidable)
            else:
                parts.append(part if part.is_decided else Fact(str(part)))
        return replace(self, parts=tuple(parts))

    @property
    def unsure(self) -> set[str]:
        """The arguments that may be unknown to a negated part with `or_unknown`."""
        if self.or_unknown and self.negated:
            return {leaf.name for leaf in self.leaves if isinstance(leaf, Comparison)}
        return {n for part in self.parts if isinstance(part, Condition) for n in part.unsure}

    @property
    def leaves(self) -> Iterator[Comparison | Fact]:
        """All comparisons and facts of the condition."""
        for part in self.parts:
            yield from part.leaves if isinstance(part, Condition) else (part,)

    def holds(self, value_of: Callable[[Comparison | Fact], bool | None]) -> bool | None:
        """Return True if the condition holds, by the values of all leaves; None if unknown."""
        results = [
            part.holds(value_of) if isinstance(part, Condition) else value_of(part)
            for part in self.parts
        ]
        # As in SQL: a False decides, and an unknown result leaves all else undecided.
        otherwise = True if self.or_unknown else None
        result = False if False in results else otherwise if None in results else True
        return result if result is None or not self.negated else not result


_SIGNS = "|".join(sorted(map(re.escape, COMPARISONS), key=len, reverse=True))
_COMPARISON = re.compile(rf"(?P<name>[^\s()]+) (?P<sign>{_SIGNS}) ")
_UNKNOWN = ", or unknown"
_ALWAYS = "any arguments"
"""Text of a condition that each call meets."""


def parse_condition(text: str) -> Condition:
    """Read the text of a condition. Any other text is a fact.

    >>> parse_condition('euros > 50 and not (to like "*@shop.example")').parts[0]
    Comparison(name='euros', sign='>', json='50')
    """
    if not text:
        return Condition(())
    try:
        condition, end = _read(text, 0)
    except ValueError:
        end = -1
    # Words of a person may have brackets of any kind.
    return condition if end == len(text) else Condition((Fact(text),))


def _read(text: str, start: int) -> tuple[Condition, int]:
    """Read parts up to the end or a closing bracket."""
    parts: list[Comparison | Fact | Condition] = []
    while True:
        if text.startswith("not (", start):
            inner, start = _read(text, start + len("not ("))
            or_unknown = text.startswith(_UNKNOWN, start)
            start += len(_UNKNOWN) * or_unknown
            if not text.startswith(")", start):
                raise ValueError(text)
            parts.append(Condition(inner.parts, True, or_unknown))
            start += 1
        elif match := _COMPARISON.match(text, start):
            _, end = json.JSONDecoder().raw_decode(text, match.end())
            parts.append(Comparison(match["name"], match["sign"], text[match.end() : end]))
            start = end
        else:
            # The name of a function has brackets: "is_large()".
            match = re.compile(rf"(?:\(\)|[^()])+?(?= and |{_UNKNOWN}\)|\)|$)").match(text, start)
            if match is None:
                raise ValueError(text)
            parts += [] if match[0] == _ALWAYS else [Fact(match[0])]
            start = match.end()
        if not text.startswith(" and ", start):
            return Condition(tuple(parts)), start
        start += len(" and ")


_KINDS: dict[str, type[object]] = {
    "integer": float,
    "number": float,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}
"""Kinds of values, by the names that JSON schemas have for their types."""


def misfit(condition: Condition, schema: Mapping[str, Any]) -> str:
    """The reason why a comparison cannot be decided for any call of a tool; empty without a reason.

    >>> schema = {"properties": {"euros": {"type": "number"}}}
    >>> misfit(parse_condition("euros > 50"), schema)
    ''
    >>> misfit(parse_condition("euros > true"), schema)
    "euros is a number, and 'euros > true' compares it with a boolean"
    """
    arguments = schema.get("properties", {})
    for leaf in condition.leaves:
        if isinstance(leaf, Fact):
            continue
        if leaf.name not in arguments:
            if schema.get("additionalProperties"):
                continue
            names = ", ".join(arguments) or "none"
            return f"{leaf.name!r} is not one of its arguments, which are {names}"
        types = types_of(arguments[leaf.name], schema)
        kinds = set(map(_kind, leaf.constants))
        if types and kinds.isdisjoint(_KINDS[name] for name in types):
            name = next(name for name, kind in reversed(_KINDS.items()) if kind in kinds)
            expected = " or ".join(map(_with_article, sorted(types)))
            other = _with_article(name)
            return f"{leaf.name} is {expected}, and {str(leaf)!r} compares it with {other}"
    return ""


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"


def types_of(schema: Any, root: Mapping[str, Any]) -> set[str]:
    """The names of the types that the schema of a value allows; empty for any type."""
    if not isinstance(schema, Mapping):
        return set()
    if isinstance(ref := schema.get("$ref"), str):
        return types_of(root.get("$defs", {}).get(ref.rpartition("/")[2]), root)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            options = [types_of(option, root) for option in schema[key]]
            return set().union(*options) if all(options) else set()
    names = schema.get("type", ())
    types = {names} if isinstance(names, str) else set(names)
    return types if types <= _KINDS.keys() else set()


Values = Mapping[str, "Sequence[object] | type[int]"]
"""For some arguments all their values, or `int` for a whole number."""


def values_of(schema: Mapping[str, Any]) -> Values:
    """The arguments with few values, or with whole numbers alone, by the schema of a tool.

    >>> values_of({"properties": {"n": {"type": "integer"}, "to": {"enum": ["ann", "bob"]}}})
    {'n': <class 'int'>, 'to': ['ann', 'bob']}
    """
    values: dict[str, Sequence[object] | type[int]] = {}
    for name, argument in schema.get("properties", {}).items():
        if isinstance(argument, Mapping) and isinstance(options := argument.get("enum"), list):
            values[name] = options
        elif types_of(argument, schema) == {"integer"}:
            values[name] = int
    return values


Case = Mapping[str, object]
"""Arguments of a call, as far as conditions are about them."""


def counterexample_case(
    wanted: Condition,
    deciding: Sequence[Condition],
    facts: Callable[[str], bool | None],
    values: Values | None = None,
    sure: Collection[str] = (),
) -> Case | None:
    """Arguments that meet a condition and none of several more; None if there are none.

    A call whose arguments leave a deciding condition unknown meets the condition, as in a rule
    with "ask" or "deny". The first condition is about arguments as the tool receives them, the
    others about arguments as the model has written them; an argument with a difference is left out.

    Args:
        wanted: The condition to meet.
        deciding: Conditions not to meet.
        facts: Function of a fact: True if the fact holds, None if unknown.
        values: Known values of some arguments.
        sure: Arguments that no call leaves unknown.

    Raises:
        UndecidableError: The patterns of an argument are too many to compare.

    >>> large, small = parse_condition("euros > 50"), parse_condition("euros <= 50")
    >>> counterexample_case(large, [small], lambda fact: None)
    {'euros': 51}
    >>> counterexample_case(Condition(()), [large, small], lambda fact: None) is None
    True
    """
    by_argument: dict[str, list[Comparison]] = {}
    free: dict[object, None] = {}
    for number, condition in enumerate((wanted, *deciding)):
        for leaf in condition.leaves:
            if isinstance(leaf, Comparison):
                by_argument.setdefault(leaf.name, []).append(leaf)
            elif facts(leaf.text) is None:
                free[_free_fact(leaf, number)] = None
    cases = [_representatives(of, (values or {}).get(name)) for name, of in by_argument.items()]
    # As the model has written a call, an argument may be missing, or a text in place of a number.
    unsure = sorted(set().union(*(each.unsure for each in (wanted, *deciding))) - {*sure})
    for choice in product(*cases, *[(False, True)] * (len(free) + len(unsure))):
        items = iter(choice)
        arguments = dict(zip(by_argument, items, strict=False))
        free_values = dict(zip(free, items, strict=False))
        gaps = {name for name, is_gap in zip(unsure, items, strict=True) if is_gap}

        def value_of(number: int, leaf: Comparison | Fact) -> bool | None:
            if isinstance(leaf, Fact):
                fact = facts(leaf.text)
                return free_values[_free_fact(leaf, number)] if fact is None else fact  # noqa: B023
            if leaf.name in gaps and (number or wanted.unsure):  # noqa: B023
                return None
            return COMPARISONS[leaf.sign](arguments[leaf.name], leaf.value)  # noqa: B023

        results = (
            condition.holds(partial(value_of, number))
            for number, condition in enumerate((wanted, *deciding))
        )
        if next(results) and all(result is False for result in results):
            return {name: value for name, value in arguments.items() if name not in gaps}
    return None


def _free_fact(fact: Fact, number: int) -> object:
    # The labels seen in a thread are the same fact for all. Two functions may share a name.
    return fact.text if fact.text.startswith("seen ") else (fact.text, number)


_MOST_CASES = 4_096
"""The most combinations of patterns that are tried; more are refused by name."""


def _representatives(comparisons: Sequence[Comparison], values: Any) -> list[Any]:
    """A value of each class that some comparisons of an argument tell apart."""
    if isinstance(values, Sequence):
        return list(values)
    constants = [value for item in comparisons for value in item.constants]
    choices: list[Any] = []
    for kind in dict.fromkeys(map(_kind, constants)):
        alike = [value for value in constants if _kind(value) is kind]
        if kind is float:
            choices += _numbers(sorted(set(alike)), whole=values is int)
        elif kind is bool:
            choices += [True, False]
        elif kind is str:
            choices += _texts(comparisons)
        else:
            # Of lists, dicts and null only equality is decided: the compared values, and another.
            other: dict[type[object], Any] = {list: [alike], dict: {"another": alike}}
            choices += [*alike, *([other[kind]] if kind in other else [])]
    return choices


def _numbers(constants: Sequence[float], *, whole: bool) -> list[float]:
    """The compared numbers, a number between each two, and a number beyond both ends."""
    ends = [floor(constants[0]) - 1, ceil(constants[-1]) + 1]
    if whole:
        near = (n for c in constants for n in (floor(c) - 1, floor(c), ceil(c), ceil(c) + 1))
        return sorted({*near, *ends})
    between = [(low + high) / 2 for low, high in pairwise(constants)]
    return sorted({*constants, *between, *ends})


def _texts(comparisons: Sequence[Comparison]) -> list[str]:
    """A text for each combination of comparisons that may hold."""
    patterns = {  # each text, and True for a pattern
        (value, item.sign.endswith("like")): None
        for item in comparisons
        for value in item.constants
        if isinstance(value, str)
    }
    # All patterns read a text together, letter by letter; a letter outside of all patterns
    # stands for all such letters.
    letters = sorted(
        {c for text, is_pattern in patterns for c in text if not is_pattern or c not in "*?"}
    )
    other = next(letter for letter in map(chr, range(ord("a"), 0x10FFFF)) if letter not in letters)
    start = tuple(frozenset(_open(*pattern)) for pattern in patterns)
    texts, visited, waiting = dict[tuple[bool, ...], str](), {start}, [(start, "")]
    for states, text in waiting:
        # The empty text is the first of a class, and says little to people.
        matches = tuple("" in rests for rests in states)
        texts[matches] = texts.get(matches) or text
        for letter in (other, *letters):
            pairs = zip(states, patterns, strict=True)
            following = tuple(_step(rests, letter, is_pattern) for rests, (_, is_pattern) in pairs)
            if following not in visited:
                visited.add(following)
                waiting.append((following, text + letter))
            elif not text and letter == other:
                waiting.append((following, letter))
        if len(visited) > _MOST_CASES:
            raise UndecidableError(f"{comparisons[0].name}: its patterns are too many")
    return list(texts.values())


def _open(rest: str, is_pattern: bool) -> Iterator[str]:
    """The rest of a pattern, and its rests behind each `*` at the beginning."""
    yield rest
    while is_pattern and rest.startswith("*"):
        rest = rest[1:]
        yield rest


def _step(rests: Iterable[str], letter: str, is_pattern: bool) -> frozenset[str]:
    """The rests of a pattern after another letter."""
    after = set[str]()
    for rest in rests:
        sign = rest[:1]
        if is_pattern and sign == "*":
            after.update(_open(rest, is_pattern))
        elif sign == letter or (is_pattern and sign == "?"):
            after.update(_open(rest[1:], is_pattern))
    return frozenset(after)
