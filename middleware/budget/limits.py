"""Limits, spent amounts, and the error for a spent budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, Literal

from agent_factory import TurnError
from agent_factory.middleware._shared.validation import check_count, check_number

_ROUNDING = 1e-9
"""Error in US dollars that adding up floats may cause; a token costs more."""

UNITS = {
    "usd": "USD",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "total_tokens": "tokens",
    "seconds": "seconds",
    "turns": "turns",
    "tool_calls": "tool calls",
}

AMOUNTS = tuple(UNITS)
"""The names of the amounts that can be limited."""

BOUGHT = ("usd", "input_tokens", "output_tokens", "total_tokens")
"""The amounts that are estimated before a call."""

Record = dict[str, float]
"""Amounts as the state holds them: the fields of Spent, and keys that the middleware adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Amounts: spent already, or estimated for a call.

    Args:
        usd: US dollars.
        input_tokens: Tokens in requests, including cached tokens.
        output_tokens: Tokens in answers, including reasoning.
        seconds: Time in which calls were running; waiting for a person does not count.
        turns: Answers of models.
        tool_calls: Calls of tools.

    Raises:
        ValueError: A value is not a finite number of at least 0, or tokens, turns or calls are not
            whole numbers.

    >>> (Spent(turns=1, input_tokens=90) + Spent(turns=1, output_tokens=10)).total_tokens
    100
    """

    usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    turns: int = 0
    tool_calls: int = 0

    def __post_init__(self) -> None:
        # NaN would fit into every limit, and a negative amount would give spent amounts back.
        # Each call adds several amounts up, so plain comparisons recognize valid amounts.
        counts = self.input_tokens, self.output_tokens, self.turns, self.tool_calls
        numbers = self.usd, self.seconds
        are_counts = all(type(count) is int and count >= 0 for count in counts)
        if not are_counts or not all(type(n) in (float, int) and 0 <= n < inf for n in numbers):
            _check_amounts(self, required=True)

    @property
    def total_tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Spent) -> Spent:
        return Spent(**{n: getattr(self, n) + getattr(other, n) for n in self.__slots__})

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Spent:
        """Read spent amounts from a record in the state; all other keys are ignored."""
        return cls(**{name: record[name] for name in cls.__slots__ if name in record})

    def as_record(self) -> Record:
        """A record for the state, without zero amounts."""
        return {name: amount for name in self.__slots__ if (amount := getattr(self, name))}


NOTHING = Spent()


@dataclass(frozen=True, kw_only=True)  # without slots, so that cached_property works
class Limits:
    """The most that may be spent; None means no limit.

    Args:
        usd: US dollars.
        input_tokens: Tokens in requests, including cached tokens.
        output_tokens: Tokens in answers, including reasoning.
        total_tokens: Tokens read and written.
        seconds: Time, without waiting for a person.
        turns: Answers of models.
        tool_calls: Calls of tools; structured answers do not count.

    Raises:
        ValueError: A value is not a number of at least 0, or tokens, turns or calls are not whole
            numbers.

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
        _check_amounts(self)

    def given(self) -> dict[str, float]:
        """The given limits, by name."""
        return dict(self.amounts)

    @cached_property
    def amounts(self) -> Mapping[str, float]:
        """The given limits, by name; for reading only."""
        amounts = ((name, getattr(self, name)) for name in AMOUNTS)
        return {name: amount for name, amount in amounts if amount is not None}

    def raised(self, extra: Mapping[str, float]) -> Limits:
        """These limits, raised by `extra`; amounts without a limit stay unlimited."""
        old = self.amounts
        more: Any = {n: old[n] + amount for n, amount in extra.items() if amount and n in old}
        return replace(self, **more) if more else self


def _check_amounts(amounts: Spent | Limits, *, required: bool = False) -> None:
    check_number("usd", amounts.usd, unit="US dollars", required=required)
    check_number("seconds", amounts.seconds, unit="seconds", required=required)
    for name in ("input_tokens", "output_tokens", "total_tokens", "turns", "tool_calls"):
        check_count(name, getattr(amounts, name), required=required)


@dataclass(frozen=True)  # without slots, so that cached_property works
class Account:
    """Limits together with the spent amounts."""

    scope: Literal["run", "thread", "ledger"]
    limits: Limits
    record: Mapping[str, float]

    @cached_property
    def used(self) -> Spent:
        """Spent amounts."""
        return Spent.from_record(self.record)

    def amount(self, name: str) -> float:
        """Spent amount of a limit."""
        if name == "total_tokens":
            return self.used.total_tokens
        return self.record.get(name, 0)

    def shortfall(self, need: Spent, keep: Spent = NOTHING) -> dict[str, float]:
        """By how much each limit would be exceeded; empty if the need fits, with `keep` left."""
        shortfalls: dict[str, float] = {}
        for name, limit in self.limits.amounts.items():
            more = getattr(need, name) + getattr(keep, name)
            over = self.amount(name) + more - limit
            if name == "seconds" and over >= 0:  # every call takes time
                shortfalls[name] = over
            if name != "seconds" and more and over > (_ROUNDING if name == "usd" else 0):
                shortfalls[name] = over
        return shortfalls

    def share(self, names: tuple[str, ...] = AMOUNTS) -> float:
        """The largest used share of these amounts, 1 for all of it."""
        return max(self.shares(names).values(), default=0.0) if self.limits.amounts else 0.0

    def shares(self, names: tuple[str, ...] = AMOUNTS) -> dict[str, float]:
        """The used share of each of these limited amounts."""
        # A limit of 0 is used up from the beginning.
        limits = self.limits.amounts.items()
        return {n: self.amount(n) / limit if limit else 1.0 for n, limit in limits if n in names}

    def describe(self, name: str) -> str:
        """Describe the spent amount of a limit: "0.4 of 0.5 USD in this run"."""
        amount, limit = format_amount(self.amount(name)), format_amount(self.limits.amounts[name])
        where = "in the shared budget" if self.scope == "ledger" else f"in this {self.scope}"
        return f"{amount} of {limit} {UNITS[name]} {where}"


def format_amount(amount: float) -> str:
    """An amount without trailing zeros.

    >>> format_amount(0.5), format_amount(12000), format_amount(0.00002)
    ('0.5', '12000', '0.00002')
    """
    places = 4 if amount == 0 or amount >= 0.01 else 7
    return f"{amount:.{places}f}".rstrip("0").rstrip(".")


class BudgetExceededError(TurnError):
    """A budget is used up, or the next call does not fit. The work so far is kept.

    Attributes:
        reached: The exceeded limits and by how much, by scope ("run", "thread", "ledger").
        spent: Spent amounts, by scope.
        limits: The limits, by scope.
    """

    code = "AF342"

    def __init__(self, accounts: tuple[Account, ...], need: Spent) -> None:
        self.accounts, self.need = accounts, need
        self.reached = {a.scope: missing for a in accounts if (missing := a.shortfall(need))}
        self.spent = {account.scope: account.used for account in accounts}
        self.limits = {account.scope: account.limits for account in accounts}
        super().__init__(
            "the budget",
            f"is used up: {self.explanation}.",
            "Raise the limit, or choose exit_behavior='answer' to end with what there is.",
        )

    @property
    def explanation(self) -> str:
        """The exceeded limits: "0.5 of 0.5 USD in this run are used up"."""
        return " and ".join(
            f"{account.describe(name)} are used up"
            if account.amount(name) >= account.limits.amounts[name]
            else f"{account.describe(name)} are used, and too little is left for more"
            for account in self.accounts
            for name in self.reached.get(account.scope, ())
        )
