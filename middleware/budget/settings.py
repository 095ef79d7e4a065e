"""Settings of a budget: the arguments of `BudgetMiddleware`, checked, and what they imply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, overload

from langchain_core.messages import BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

from agent_factory.middleware._shared.models import given_model
from agent_factory.middleware._shared.token_counter import TokenCounter, check_token_counter
from agent_factory.middleware._shared.validation import check_choice, check_count, check_number

from .ledger import Ledger, NoLedger
from .limits import BOUGHT, Limits
from .prices import Price, PriceFunction, Prices, name_of, usage_of

NO_LEDGER = NoLedger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits of a budget, and its behavior close to a limit and at it."""

    run: Limits
    thread: Limits
    ledger: Ledger  # NO_LEDGER without one
    limits_usd: bool
    limits_tools: bool  # calls of tools may be refused
    counts_tokens: bool  # the tokens of a call are estimated before it
    records_usd: bool  # somebody reads what a call has cost
    warn_at: tuple[float, ...]  # the lowest share first
    cheaper: Any  # a chat model, or None
    cheaper_at: float
    exit_behavior: str
    prices: Prices
    count: TokenCounter
    cap_output: bool


T = TypeVar("T")


class Setting(Generic[T]):
    """Attribute of a budget that is one of its settings. It may be changed between calls."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, budget: None, owner: type) -> Setting[T]: ...
    @overload
    def __get__(self, budget: object, owner: type) -> T: ...
    def __get__(self, budget: Any, owner: type) -> Setting[T] | T:
        """Return the value."""
        return self if budget is None else getattr(budget._settings, self._name)

    def __set__(self, budget: Any, value: T) -> None:
        """Replace the value for the calls that follow."""
        # The settings are frozen: a call that is running keeps those that it began with.
        budget._settings = replace(budget._settings, **{self._name: value})


def checked_settings(
    *,
    run: Limits | None,
    thread: Limits | None,
    ledger: Ledger | None,
    warn_at: float | Sequence[float] | None,
    cheaper: object,
    cheaper_at: float,
    exit_behavior: str,
    prices: Mapping[str, Price] | PriceFunction | None,
    token_counter: TokenCounter,
    cap_output: bool,
) -> Settings:
    """Return the settings for the arguments of `BudgetMiddleware`.

    Raises:
        ValueError: See `BudgetMiddleware`.
        TypeError: An argument has a wrong type.
        ImportError: A limit in USD without `prices`, and genai-prices is not installed.
    """
    _check_type("run", run, Limits)
    _check_type("thread", thread, Limits)
    _check_type("ledger", ledger, Ledger)
    check_token_counter(token_counter)
    check_choice("exit_behavior", exit_behavior, ("answer", "end", "error", "ask"))
    run, thread = run or Limits(), thread or Limits()
    amounts = {*run.amounts, *thread.amounts, *(ledger.limited if ledger else ())}
    if not amounts and ledger is None:
        raise ValueError(
            "A budget needs a limit. Pass run=Limits(...), thread=Limits(...) or "
            "ledger=Ledger(Limits(...))."
        )
    limits_usd, counts_tokens = "usd" in amounts, not amounts.isdisjoint(BOUGHT)
    known_prices = Prices(prices, needed=limits_usd)
    shares = warn_at if isinstance(warn_at, list | tuple) else [] if warn_at is None else [warn_at]
    marks = tuple(sorted(_share("warn_at", share) for share in shares))
    if cheaper is not None:
        cheaper = given_model("cheaper", cheaper)
        if not counts_tokens:
            raise ValueError(
                "cheaper saves money or tokens, and no limit of these is given. Pass "
                "run=Limits(usd=...) or run=Limits(total_tokens=...)."
            )
        if limits_usd:
            # A price that is not known is an error now, and not in the middle of a run.
            known_prices.cost(name_of(cheaper), usage_of(1, 1))
    return Settings(
        run=run,
        thread=thread,
        ledger=ledger or NO_LEDGER,
        limits_usd=limits_usd,
        limits_tools=ledger is not None or not amounts.isdisjoint(("tool_calls", "seconds")),
        counts_tokens=counts_tokens,
        # Looking up prices takes time; without a limit, a ledger or prices nobody reads them.
        records_usd=limits_usd or ledger is not None or prices is not None,
        warn_at=marks,
        cheaper=cheaper,
        cheaper_at=_share("cheaper_at", cheaper_at),
        exit_behavior=exit_behavior,
        prices=known_prices,
        count=_checked_counter(token_counter),
        cap_output=cap_output,
    )


def _checked_counter(token_counter: TokenCounter) -> TokenCounter:
    if token_counter is count_tokens_approximately:  # its counts are cached
        return token_counter

    def count(messages: Sequence[BaseMessage]) -> int:
        number = token_counter(messages)
        check_count("The result of token_counter", number, required=True)
        return number

    return count


def _check_type(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} must be {kind.__name__}(...), got {value!r}.")


def _share(name: str, value: Any) -> float:
    check_number(name, value, unit="shares, such as 0.8,")
    if value is None or not 0 < value <= 1:
        raise ValueError(f"{name} must be more than 0 and at most 1, got {value!r}.")
    return float(value)
