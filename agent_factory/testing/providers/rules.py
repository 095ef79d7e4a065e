"""Rules that a provider documents for requests, and the faults of requests that break them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

Json = dict[str, Any]
"""An object of JSON."""

Check = TypeVar("Check", bound=Callable[..., Iterator[str]])

RULE = "documented_rule"
"""The attribute of a method with its rule."""


@dataclass(frozen=True)
class Rule:
    """A rule for requests.

    Args:
        name: The name of the rule, as `calls_have_results`.
        text: The rule in one sentence.
        source: The page of the provider's documentation.
        refused: The provider refuses a request that breaks the rule. False: the documentation asks
            for it, but requests without it get an answer.
    """

    name: str
    text: str
    source: str
    refused: bool = True


@dataclass(frozen=True, repr=False)
class Fault:
    """A request that breaks a rule.

    Args:
        request: The number of the request, from 1.
        rule: The broken rule.
        message: The error in the words of the provider, with the place in the request.
    """

    request: int
    rule: Rule
    message: str

    def __repr__(self) -> str:
        return f"request {self.request}: {self.message} [{self.rule.name}: {self.rule.source}]"


def documented(source: str, *, refused: bool = True) -> Callable[[Check], Check]:
    """Make a rule of a method: it yields an error for each place that breaks the rule.

    The first line of the docstring is the text of the rule. A subclass replaces a rule by a method
    of the same name.

    Args:
        source: The page of the provider's documentation.
        refused: The provider refuses a request that breaks the rule.
    """

    def mark(check: Check) -> Check:
        text = (check.__doc__ or "").partition("\n")[0]
        setattr(check, RULE, Rule(check.__name__, text, source, refused))
        return check

    return mark


def extra_fields(value: Json, fields: set[str], place: str, error: str) -> Iterator[str]:
    """An error for each field of an object that is not in its documented fields."""
    for name in sorted(value.keys() - fields):
        yield error.format(place=place, name=name)
