"""Choose the next call of the model: what it will cost, and which call still fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata

from agent_factory import ModelRequest
from agent_factory.middleware._shared.messages import last_turn
from agent_factory.middleware._shared.token_counter import TokenCounter, tokens_sent
from agent_factory.middleware.budget.ledger import Ledger, Reservation
from agent_factory.middleware.budget.limits import (
    BOUGHT,
    Account,
    BudgetExceededError,
    Limits,
    Spent,
)
from agent_factory.middleware.budget.prices import Prices, name_of, names_of_response, tokens
from agent_factory.middleware.budget.state import CallAccounting

_WARNING = (
    "[Of the budget, {used} are used. Do what matters most first, and come to an end in time.]"
)
_ONE_TURN = Spent(turns=1)
_ROUNDING = 1e-6
"""Error in tokens that dividing dollars may cause."""


def _usage(read: int, written: int) -> UsageMetadata:
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)


class Estimate:
    """Least cost of a request before the call, and its actual cost after it."""

    def __init__(
        self, request: ModelRequest[Any], count: TokenCounter, prices: Prices | None
    ) -> None:
        self._request = request
        self._count = count
        self._prices = prices

    @cached_property
    def _last(self) -> tuple[AIMessage | None, int]:
        """The last answer, and the tokens of what came after it."""
        message, tail = last_turn(self._request.messages)
        return message, self._count(tail) if message and tail else 0

    @cached_property
    def input_size(self) -> int:
        """Tokens the model will read.

        The usage of the last answer covers everything before it, so that only what came since is
        counted, and not the whole conversation at each call.
        """
        message, since = self._last
        known = tokens(message.usage_metadata or {}, "total_tokens") if message else 0
        return known + since if known else self.counted_input_size

    @cached_property
    def counted_input_size(self) -> int:
        """Tokens the model will read, with every message counted."""
        return tokens_sent(self._request, self._request.messages, self._count)

    def least(self, model: Any, size: int) -> Spent:
        """The cost of a call that reads `size` tokens and writes one."""
        return self._call(model, size, 1)

    def rest_and_last_answer(self, model: Any, size: int) -> Spent:
        """What is spent after `least` if this turn is like the last one and an answer follows.

        That is the rest of this answer, and a call that reads all of it and the tool results.
        """
        message, since = self._last
        answer = 1
        if message is not None:
            answer = tokens(message.usage_metadata or {}, "output_tokens")
            answer = answer or max(self._count([message]), 1)
        grown = answer + since if message else 0
        return self._call(model, size + grown, 2 * answer - 1)

    def output_token_price(self, model: Any) -> float:
        """The cost of one more token of the answer, in US dollars."""
        size = self.input_size
        # Over many tokens, because a price function may round.
        more = self._cost(model, _usage(size, 1001)) - self._cost(model, _usage(size, 1))
        return more / 1000

    def _call(self, model: Any, read: int, written: int) -> Spent:
        usd = self._cost(model, _usage(read, written))
        return Spent(turns=1, input_tokens=read, output_tokens=written, usd=usd)

    def _cost(self, model: Any, usage: UsageMetadata) -> float:
        if self._prices is None:
            return 0.0
        return self._prices.cost(name_of(model, self._request.model_settings), usage)

    def actual(self, model: Any, result: Sequence[BaseMessage], prices: Prices | None) -> Spent:
        """The cost of a response: as the model reports it, by estimate if it reports no usage.

        A message that another middleware made instead of the model (`lc_source` marks it) costs
        nothing.
        """
        spent = Spent()
        for message in result:
            if not isinstance(message, AIMessage) or "lc_source" in message.additional_kwargs:
                continue
            usage = message.usage_metadata
            if not usage or not (tokens(usage, "input_tokens") or tokens(usage, "output_tokens")):
                usage = _usage(self.input_size, max(self._count([message]), 1))
            usd = 0.0
            if prices:
                asked = name_of(model, self._request.model_settings)
                models = names_of_response(message.response_metadata, asked)
                usd = prices.first_known_cost(models, usage)
            spent += Spent(
                turns=1,
                input_tokens=tokens(usage, "input_tokens"),
                output_tokens=tokens(usage, "output_tokens"),
                usd=usd,
            )
        return spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Validated arguments of a BudgetMiddleware."""

    run: Limits
    thread: Limits
    ledger: Ledger
    warn_at: tuple[float, ...]  # in rising order
    cheaper: BaseChatModel | None
    cheaper_at: float
    reserves_answer: bool  # enough is kept for a last answer
    counts_tokens: bool  # there is a limit of money or tokens
    cap_output: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A call that fits."""

    request: ModelRequest[Any]
    reservation: Reservation
    warned: float = 0  # the mark at which it warns the model; 0 for none
    last_because: str = ""  # why it is the last call; empty if it is not


class Plan:
    """Choice of the next call of the model."""

    def __init__(
        self,
        settings: Settings,
        request: ModelRequest[Any],
        accounting: CallAccounting,
        estimate: Estimate,
    ) -> None:
        self._settings = settings
        self._request = request
        self._accounting = accounting
        self._estimate = estimate

    def choose_call(self) -> Call | BudgetExceededError:
        """The next call, with its least cost reserved; an error if none fits."""
        settings = self._settings
        accounts = self._accounts()
        models = [self._request.model]
        if settings.cheaper is not None:
            if max(account.share(BOUGHT) for account in accounts) >= settings.cheaper_at:
                models = []
            models.append(settings.cheaper)
        refusals = []
        for model in models:
            reserved = self._reserve(model, accounts, last=False)
            if isinstance(reserved, Reservation):
                return self._with_warning(self._request_to(model, last=False), reserved, accounts)
            refusals.append(reserved)
        for model in models if settings.reserves_answer else ():
            reserved = self._reserve(model, accounts, last=True)
            if isinstance(reserved, Reservation):
                request = self._request_to(model, last=True)
                return Call(request, reserved, last_because=refusals[0].explanation)
        return refusals[0]

    def _accounts(self) -> tuple[Account, ...]:
        settings = self._settings
        own = self._accounting.accounts(settings.run, settings.thread)
        return (*own, settings.ledger.account())

    def _with_warning(
        self, request: ModelRequest[Any], reserved: Reservation, accounts: tuple[Account, ...]
    ) -> Call:
        """The call; if it is the first above a mark of `warn_at`, with a warning for the model."""
        marks = self._settings.warn_at
        share = max(map(Account.share, accounts))
        mark = max((mark for mark in marks if share >= mark), default=0.0)
        if mark <= self._accounting.run.get("warned", 0):
            return Call(request, reserved)
        used = " and ".join(
            account.describe(name)
            for account in accounts
            for name, share in account.shares().items()
            if share >= marks[0]
        )
        warning = HumanMessage(_WARNING.format(used=used))
        return Call(request.override(messages=[*request.messages, warning]), reserved, mark)

    def _reserve(
        self, model: Any, accounts: tuple[Account, ...], *, last: bool
    ) -> Reservation | BudgetExceededError:
        """Reserve the least cost of a call, if it fits with what must be left after it.

        If another layer has removed messages from the request, the usage of the last answer is
        too large; then every message is counted.
        """
        if not self._settings.counts_tokens:
            return self._reserve_for(model, 0, accounts, last)
        size = self._estimate.input_size
        reserved = self._reserve_for(model, size, accounts, last)
        is_edited = self._request.messages is not self._request.state.get("messages")
        if isinstance(reserved, BudgetExceededError) and is_edited:
            counted = self._estimate.counted_input_size
            if counted < size:
                return self._reserve_for(model, counted, accounts, last)
        return reserved

    def _reserve_for(
        self, model: Any, size: int, accounts: tuple[Account, ...], last: bool
    ) -> Reservation | BudgetExceededError:
        least, keep = self._needs(model, size, last)
        need = least + keep
        of_run, of_thread, _ = accounts
        if not of_run.shortfall(need) and not of_thread.shortfall(need):
            try:
                return self._settings.ledger.reserve(least, keep=keep)
            except BudgetExceededError as error:
                accounts = (*accounts[:-1], *error.accounts)
        return BudgetExceededError(accounts, need)

    def _needs(self, model: Any, size: int, last: bool) -> tuple[Spent, Spent]:
        """The least cost of a call, and what must be left after it: a tool call, a last answer."""
        settings, run = self._settings, self._accounting.run
        least = self._estimate.least(model, size) if settings.counts_tokens else _ONE_TURN
        if last:
            return least, Spent()
        # Another tool call must fit, or the run would only collect refusals.
        was_refused = run.get("refused", 0) > 0
        if not settings.reserves_answer:
            return least, Spent(tool_calls=int(was_refused))
        keep = Spent(
            tool_calls=int(was_refused or bool(self._request.tools)),
            seconds=run.get("slowest", 0) + self._accounting.unrecorded_seconds,
        )
        if settings.counts_tokens:
            return least, keep + self._estimate.rest_and_last_answer(model, size)
        return least, keep + _ONE_TURN

    def _request_to(self, model: Any, *, last: bool) -> ModelRequest[Any]:
        """The request to a model; with `cap_output`, its answer is limited to what is left."""
        request = self._request
        if model is not request.model:
            request = request.override(model=model)
        if not self._settings.cap_output:
            return request
        counts_tokens = self._settings.counts_tokens
        size = self._estimate.input_size if counts_tokens else 0
        least, keep = self._needs(model, size, last)
        price = self._estimate.output_token_price(model) if counts_tokens else 0.0
        *own, ledger = self._accounts()
        left = [_output_tokens_left(account, least + keep, price) for account in own]
        # The least cost is already reserved in the ledger.
        left.append(_output_tokens_left(ledger, keep, price))
        known = [1 + int(count + _ROUNDING) for count in left if count is not None]
        if not known:
            return request
        asked = request.model_settings.get("max_tokens", min(known))
        return request.override(
            model_settings={**request.model_settings, "max_tokens": max(min(asked, *known), 1)}
        )


def _output_tokens_left(account: Account, need: Spent, price: float) -> float | None:
    """How many more output tokens fit into an account; None if it does not limit them."""
    limits, used = account.limits.given(), account.used + need
    left = [
        limits[name] - getattr(used, name)
        for name in ("output_tokens", "total_tokens")
        if name in limits
    ]
    if "usd" in limits and price:
        left.append((limits["usd"] - used.usd) / price)
    return max(min(left), 0) if left else None
