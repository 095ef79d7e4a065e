"""Amounts that a budget is made of: limits, what is spent, and both in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from agent_factory import TurnError
from agent_factory.middleware._shared.validation import check_count, check_number

_ROUNDING = 1e-9
"""Dollars that adding up dollars may be wrong by; a token costs more."""

_WORDS = {
    "usd": "USD",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "total_tokens": "tokens",
    "seconds": "seconds",
    "turns": "turns",
    "tool_calls": "tool calls",
}
"""What can be limited, and how it is called."""

AMOUNTS = tuple(_WORDS)
_SPENT = tuple(name for name in AMOUNTS if name != "total_tokens")
BOUGHT = ("usd", "input_tokens", "output_tokens", "total_tokens")
"""What a call is estimated by before it is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What has been spent, or what something will cost.

    Args:
        usd: US dollars.
        input_tokens: Tokens that models read, cached ones included.
        output_tokens: Tokens that models wrote, reasoning included.
        seconds: Time in which calls were under way; waiting for a person is none.
        turns: Answers of models.
        tool_calls: Calls of tools.

    >>> (Spent(turns=1, input_tokens=90) + Spent(turns=1, output_tokens=10)).total_tokens
    100
    """

    usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    turns: int = 0
    tool_calls: int = 0

    @property
    def total_tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            usd=self.usd + other.usd,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            seconds=self.seconds + other.seconds,
            turns=self.turns + other.turns,
            tool_calls=self.tool_calls + other.tool_calls,
        )

    @classmethod
    def of(cls, book: Mapping[str, Any]) -> Spent:
        """What a book in the state says."""
        return cls(**{name: book[name] for name in _SPENT if name in book})

    def written(self) -> dict[str, float]:
        """As a book in the state holds it: without what is nothing."""
        return {name: amount for name in _SPENT if (amount := getattr(self, name))}


@dataclass(frozen=True, kw_only=True)  # without slots, for what is remembered
class Limits:
    """The most that may be spent; None sets no limit.

    Args:
        usd: US dollars.
        input_tokens: Tokens that models read, cached ones included.
        output_tokens: Tokens that models write, reasoning included.
        total_tokens: Both together.
        seconds: Time, without waiting for a person.
        turns: Answers of models.
        tool_calls: Calls of tools; structured answers are none.

    Raises:
        ValueError: One is no number of at least 0; tokens, turns and calls are whole ones.

    >>> Limits(usd=0.5, turns=10).given()
    {'usd': 0.5, 'turns': 10}
    """

    usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    seconds: float | None = None
    turns: int | None = None
    tool_calls: int | None = None

    def __post_init__(self) -> None:
        check_number("usd", self.usd, unit="US dollars")
        check_number("seconds", self.seconds, unit="seconds")
        for name in AMOUNTS:
            if name not in ("usd", "seconds"):
                check_count(name, getattr(self, name))

    def given(self) -> dict[str, float]:
        """The limits that are set, by name."""
        return dict(self._given)

    @cached_property
    def _given(self) -> Mapping[str, float]:
        amounts = ((name, getattr(self, name)) for name in AMOUNTS)
        return {name: amount for name, amount in amounts if amount is not None}

    def raised(self, extra: Mapping[str, float]) -> Limits:
        """These limits with more of what they limit; what has no limit stays without one."""
        given = self._given
        more: Any = {n: given[n] + amount for n, amount in extra.items() if amount and n in given}
        return replace(self, **more) if more else self


@dataclass(frozen=True)  # without slots, for what is remembered
class Account:
    """One place that is spent from: whose it is, what it allows, and the book of what is gone."""

    scope: str
    where: str
    limits: Limits
    book: Mapping[str, float]

    @cached_property
    def used(self) -> Spent:
        """What is gone."""
        return Spent.of(self.book)

    def _gone(self, name: str) -> float:
        if name == "total_tokens":
            return self.used.total_tokens
        return self.book.get(name, 0)

    def missing(self, need: Spent) -> dict[str, float]:
        """What it lacks, by name; empty where the need can be met."""
        lacks: dict[str, float] = {}
        for name, limit in self.limits._given.items():
            more = getattr(need, name)
            over = self._gone(name) + more - limit
            if name == "seconds" and over >= 0:  # time passes with everything
                lacks[name] = over
            if name != "seconds" and more and over > (_ROUNDING if name == "usd" else 0):
                lacks[name] = over
        return lacks

    def share(self, names: tuple[str, ...] = AMOUNTS) -> float:
        """How much of the scarcest of these is gone, 1 for all of it."""
        return max(self.shares(names).values(), default=0.0) if self.limits._given else 0.0

    def shares(self, names: tuple[str, ...] = AMOUNTS) -> dict[str, float]:
        """How much of each of these is gone, where it is limited."""
        given = self.limits._given.items()
        return {n: _share(self._gone(n), limit) for n, limit in given if n in names}

    def says(self, name: str) -> str:
        """What is gone of one limit: "0.4 of 0.5 USD in this run"."""
        used, limit = self._gone(name), self.limits.given()[name]
        return f"{number(used)} of {number(limit)} {_WORDS[name]} {self.where}"


def _share(used: float, limit: float) -> float:
    return used / limit if limit else 1.0


def number(amount: float) -> str:
    """An amount as people write it.

    >>> number(0.5), number(12000), number(0.00002)
    ('0.5', '12000', '0.00002')
    """
    places = 4 if amount == 0 or amount >= 0.01 else 7
    return f"{amount:.{places}f}".rstrip("0").rstrip(".")


class BudgetExceededError(TurnError):
    """A budget is used up, and what comes next does not fit. What the run did so far is kept.

    Attributes:
        reached: The limits that stand in the way, by scope ("run", "thread", "ledger"): how much
            they lack.
        spent: What is spent, by scope.
        limits: The limits, by scope.
    """

    code = "AF342"

    def __init__(self, accounts: tuple[Account, ...], need: Spent) -> None:
        self.accounts = accounts
        self.need = need
        self.reached = {a.scope: lacks for a in accounts if (lacks := a.missing(need))}
        self.spent = {account.scope: account.used for account in accounts}
        self.limits = {account.scope: account.limits for account in accounts}
        super().__init__(
            "the budget",
            f"is used up: {reason(accounts, need)}.",
            "Raise the limit, or choose exit_behavior='answer' to end with what there is.",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.accounts, self.need)


def reason(accounts: tuple[Account, ...], need: Spent) -> str:
    """What stands in the way, as half a sentence: "0.5 of 0.5 USD in this run are used up"."""
    lacks = [(account, name) for account in accounts for name in account.missing(need)]
    return " and ".join(_why(account, name) for account, name in lacks)


def _why(account: Account, name: str) -> str:
    if account._gone(name) >= account.limits.given()[name]:
        return f"{account.says(name)} are used up"
    return f"{account.says(name)} are used, and too little is left for more"
