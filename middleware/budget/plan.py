"""What a budget still allows at one call of the model: which model, with what said beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from agent_factory import ModelRequest
from agent_factory.middleware.budget.account import Visit
from agent_factory.middleware.budget.estimate import Estimate
from agent_factory.middleware.budget.ledger import Ledger, Reservation
from agent_factory.middleware.budget.limits import (
    BOUGHT,
    Account,
    BudgetExceededError,
    Limits,
    Spent,
    reason,
)

_WARNING = (
    "[Of the budget, {used} are used. Do what matters most first, and come to an end in time.]"
)
_A_TURN = Spent(turns=1)
_ROUNDING = 1e-6
"""Tokens that dividing dollars may be wrong by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a BudgetMiddleware was told, checked."""

    run: Limits
    thread: Limits
    ledger: Ledger
    warn_at: tuple[float, ...]
    cheaper: BaseChatModel | None
    cheaper_at: float
    answers: bool
    counts: bool
    cap_output: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A call that fits.

    Args:
        request: What is asked.
        reservation: What is set aside for it.
        mark: The mark it tells the model of, 0 for none.
        last: Why it is the last one; empty where it is not.
    """

    request: ModelRequest[Any]
    reservation: Reservation
    mark: float = 0
    last: str = ""


class Plan:
    """The choices at one call.

    Args:
        settings: Of the middleware.
        request: The call as it would be made.
        visit: What is spent.
        estimate: What the call costs.
    """

    def __init__(
        self, settings: Settings, request: ModelRequest[Any], visit: Visit, estimate: Estimate
    ) -> None:
        self._settings = settings
        self._request = request
        self._visit = visit
        self._estimate = estimate

    def made(self) -> Call | BudgetExceededError:
        """The next call, with its least cost set aside; or what stands in the way."""
        accounts = self._accounts()
        models = self._models(accounts)
        refusals = []
        for model in models:
            held = self._reserved(model, accounts, last=False)
            if isinstance(held, Reservation):
                return self._usual(model, held, accounts)
            refusals.append(held)
        for model in models if self._settings.answers else ():
            held = self._reserved(model, accounts, last=True)
            if isinstance(held, Reservation):
                why = reason(refusals[0].accounts, refusals[0].need)
                return Call(self._of(model, last=True), held, last=why)
        return refusals[0]

    def _accounts(self) -> tuple[Account, ...]:
        settings = self._settings
        own = self._visit.accounts(settings.run, settings.thread)
        return (*own, settings.ledger.account())

    def _models(self, accounts: tuple[Account, ...]) -> list[Any]:
        """The models that may be asked, the preferred one first."""
        cheaper = self._settings.cheaper
        if cheaper is None:
            return [self._request.model]
        if max(account.share(BOUGHT) for account in accounts) < self._settings.cheaper_at:
            return [self._request.model, cheaper]
        return [cheaper]

    def _reserved(
        self, model: Any, accounts: tuple[Account, ...], *, last: bool
    ) -> Reservation | BudgetExceededError:
        """The call's least cost set aside, by the smaller size where a layer changed what is sent.

        The size that the last answer tells is the better one, unless messages have gone since.
        """
        refused = self._tried(model, self._quick, accounts, last)
        if isinstance(refused, Reservation) or not self._settings.counts:
            return refused
        if self._request.messages is self._request.state.get("messages"):
            return refused
        shorter = self._estimate.exact < self._estimate.quick
        return self._tried(model, self._estimate.exact, accounts, last) if shorter else refused

    @property
    def _quick(self) -> int:
        return self._estimate.quick if self._settings.counts else 0

    def _tried(
        self, model: Any, size: int, accounts: tuple[Account, ...], last: bool
    ) -> Reservation | BudgetExceededError:
        least, keep = self._least(model, size), self._kept(model, size, last)
        need = least + keep
        of_run, of_thread, _ = accounts
        if not of_run.missing(need) and not of_thread.missing(need):
            try:
                return self._settings.ledger.reserve(least, keep=keep)
            except BudgetExceededError as error:
                accounts = (*accounts[:-1], *error.accounts)
        return BudgetExceededError(accounts, need)

    def _least(self, model: Any, size: int) -> Spent:
        return self._estimate.least(model, size) if self._settings.counts else _A_TURN

    def _kept(self, model: Any, size: int, last: bool) -> Spent:
        """What must be left beside a call: what a last answer takes, and a call of a tool."""
        if last:
            return Spent()
        refused = self._visit.run.get("refused", 0) > 0
        if not self._settings.answers:
            return Spent(tool_calls=int(refused))
        tool_calls = int(refused or bool(self._request.tools))
        seconds = self._visit.run.get("slowest", 0) + self._visit.idle
        if not self._settings.counts:
            return Spent(turns=1, tool_calls=tool_calls, seconds=seconds)
        return self._estimate.after(model, size) + Spent(tool_calls=tool_calls, seconds=seconds)

    def _usual(self, model: Any, held: Reservation, accounts: tuple[Account, ...]) -> Call:
        request = self._of(model, last=False)
        mark = self._mark(accounts)
        if not mark:
            return Call(request, held)
        told = HumanMessage(_WARNING.format(used=_used(accounts, min(self._settings.warn_at))))
        return Call(request.override(messages=[*request.messages, told]), held, mark)

    def _mark(self, accounts: tuple[Account, ...]) -> float:
        """The highest mark that is passed, if the model was not told of it; else 0."""
        share = max(map(Account.share, accounts))
        passed = [mark for mark in self._settings.warn_at if share >= mark]
        return passed[-1] if passed and passed[-1] > self._visit.run.get("told", 0) else 0.0

    def _of(self, model: Any, *, last: bool) -> ModelRequest[Any]:
        """The request with its model, and with no longer an answer than is left."""
        request = self._request
        if model is not request.model:
            request = request.override(model=model)
        room = self._room(model, last) if self._settings.cap_output else None
        if room is None:
            return request
        asked = request.model_settings.get("max_tokens", room)
        return request.override(
            model_settings={**request.model_settings, "max_tokens": max(min(asked, room), 1)}
        )

    def _room(self, model: Any, last: bool) -> int | None:
        """The longest answer that all limits allow, in tokens; None where none asks."""
        least, keep = self._least(model, self._quick), self._kept(model, self._quick, last)
        accounts = self._accounts()
        token = self._estimate.token(model) if self._settings.counts else 0.0
        own = [_room(account, least + keep, token) for account in accounts[:-1]]
        # The ledger holds the least already.
        rooms = [*own, _room(accounts[-1], keep, token)]
        return min((1 + int(room + _ROUNDING) for room in rooms if room is not None), default=None)


def _room(account: Account, need: Spent, token: float) -> float | None:
    """How many more tokens of output fit into an account; None where it limits none."""
    limits = account.limits.given()
    left = {n: limits[n] - getattr(account.used + need, n) for n in BOUGHT if n in limits}
    left.pop("input_tokens", None)
    if "usd" in left:
        dollars = left.pop("usd")
        if token:
            left["usd"] = dollars / token
    return max(min(left.values()), 0) if left else None


def _used(accounts: tuple[Account, ...], mark: float) -> str:
    return " and ".join(
        account.says(name)
        for account in accounts
        for name, share in account.shares().items()
        if share >= mark
    )
