"""A spending limit for several agents; amounts are reserved before each call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial, reduce
from itertools import count
from operator import add
from threading import Lock
from time import monotonic
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from agent_factory.middleware._shared.errors import outcome_unknown
from agent_factory.middleware._shared.token_counter import approximate_counter

from .limits import NOTHING, Account, BudgetExceededError, Limits, Spent
from .prices import ModelName, Price, PriceFunction, Prices, completed, usage_of

_MAX_RECORDED = 4096
"""Most messages that a handler has recorded and no middleware has asked about; a few bytes each."""


class Ledger:
    """A budget for a parent, its subagents and your own code, over any number of runs.

    Pass the ledger to the `BudgetMiddleware` of each. Threads and event loops may share it. The
    ledger lives in this process; to continue after a restart, store `spent` and pass it in again.

    A call starts only if its least cost fits together with everything spent and reserved; checking
    and reserving is an atomic step. Running calls may cost more than their reservations, so the
    limits can be exceeded by at most a call of each agent.

    `seconds` count while a call is running; parallel calls count once. Time between
    calls does not count, nor does time in which people are asked.

    Args:
        limits: The most that may be spent. `Limits()` sets no limit, and the ledger only counts.
        spent: The amounts spent before.

    Raises:
        TypeError: `limits` is not a Limits, or `spent` is not a Spent.

    >>> ledger = Ledger(Limits(usd=1.0))
    >>> with ledger.reserve(Spent(usd=0.3)) as reservation:  # a paid search, for example
    ...     reservation.commit(Spent(usd=0.25))
    >>> ledger.spent.usd, ledger.reserved.usd
    (0.25, 0.0)
    """

    def __init__(self, limits: Limits, *, spent: Spent = NOTHING) -> None:
        if not isinstance(limits, Limits):
            raise TypeError(f"limits must be Limits(usd=..., turns=...), got {limits!r}.")
        if not isinstance(spent, Spent):
            raise TypeError(
                f"spent must be Spent(usd=...), such as ledger.spent returns, got {spent!r}."
            )
        self._lock = Lock()
        self._limits = limits
        self._total = spent
        self._open: dict[int, Spent] = {}
        self._since = 0.0
        self._numbers = count()
        self._message_ids: OrderedDict[str, None] = OrderedDict()

    @property
    def limits(self) -> Limits:
        """The most that may be spent, raises included."""
        return self._limits

    @property
    def limited(self) -> frozenset[str]:
        """The names of the limited amounts; raising a limit adds none."""
        # Not by `limits`, which a SharedLedger reads from a database.
        return frozenset(self._limits.amounts)

    @property
    def spent(self) -> Spent:
        """Amounts spent up to now."""
        with self._lock:
            return self._spent_now()

    @property
    def reserved(self) -> Spent:
        """Least cost of the running calls."""
        with self._lock:
            return reduce(add, self._open.values(), NOTHING)

    def reserve(self, least: Spent, *, keep: Spent = NOTHING) -> Reservation:
        """Reserve the least cost of a call; use the result in a `with` statement.

        Leaving the statement without `commit`, also by an exception, releases the reservation.
        After a cancellation or a timeout, the call may have run: then the reserved
        amounts are recorded.

        Args:
            least: The least cost. Seconds in the cost are ignored, because the ledger measures
                them.
            keep: The amount to be left in addition.

        Raises:
            BudgetExceededError: The cost does not fit.
        """
        with self._lock:
            if self._limits.given() and (account := self._account()).shortfall(least, keep):
                raise BudgetExceededError((account,), least + keep)
            if not self._open:
                # Time counts once while calls run in parallel: from the first of them to the last.
                self._since = monotonic()
            number = next(self._numbers)
            # Time is measured, and not reserved.
            self._open[number] = _without_seconds(least)
        return Reservation(self, number, least)

    def raise_limits(self, extra: Mapping[str, float]) -> None:
        """Raise the limits.

        Args:
            extra: Additions to each limit, such as `{"usd": 0.5}`; amounts without a limit
                stay without one.
        """
        with self._lock:
            self._limits = self._limits.raised(extra)

    def account(self) -> Account:
        """The limits, with spent and reserved amounts, at one moment."""
        with self._lock:
            return self._account()

    def handler(
        self, prices: Mapping[str, Price] | PriceFunction | None = None
    ) -> BaseCallbackHandler:
        """A callback handler to record every model call of a run.

        A middleware does not see the model calls of other middleware, to summarize or to
        select, nor calls inside tools. With
        `agent.invoke(..., {"callbacks": [ledger.handler()]})` their tokens and dollars are
        recorded too. Calls recorded by a `BudgetMiddleware` with this ledger are counted once.
        The handler never refuses a call because of its cost; the middleware refuses the next call.

        Args:
            prices: As `BudgetMiddleware` takes them.

        Raises:
            ImportError: The ledger limits USD, `prices` is None, and genai-prices is not installed.
        """
        return LedgerHandler(self, prices)

    def record(self, amount: Spent, message_id: str | None = None) -> None:
        """Add an amount that was spent without a reservation.

        Args:
            amount: The amount. Seconds in the amount are ignored, because the ledger measures them.
            message_id: The id of the paid message, for a single record of each message.
        """
        with self._lock:
            self._total += _without_seconds(amount)
            if message_id is not None:
                self._message_ids[message_id] = None
                if len(self._message_ids) > _MAX_RECORDED:
                    self._message_ids.popitem(last=False)

    def take_recorded(self, message_id: str | None) -> bool:
        """Return True if the cost of a message was recorded, only once for each message."""
        with self._lock:
            # `self` stands for a missing id; the value of a known id is None.
            return self._message_ids.pop(message_id or "", self) is None

    def _settle(self, number: int, actual: Spent) -> bool:
        """End a reservation; False if it has ended."""
        with self._lock:
            if number not in self._open:
                return False
            total = self._spent_now()
            del self._open[number]
            if not self._open:  # the last running call: count its time now
                self._total = total
            self._total += _without_seconds(actual)
            return True

    def _account(self) -> Account:
        total = reduce(add, self._open.values(), self._spent_now())
        return Account("ledger", self._limits, total.as_record())

    def _spent_now(self) -> Spent:
        if not self._open:
            return self._total
        return self._total + Spent(seconds=monotonic() - self._since)


def _without_seconds(amount: Spent) -> Spent:
    return replace(amount, seconds=0.0) if amount.seconds else amount


class NoLedger(Ledger):
    """Ledger of a middleware without a shared ledger: allows everything, records nothing."""

    def __init__(self) -> None:
        super().__init__(Limits())
        self._empty = self._account()

    def reserve(self, least: Spent, *, keep: Spent = NOTHING) -> Reservation:
        return NoReservation(self, 0, least)

    def account(self) -> Account:
        return self._empty


class Reservation:
    """Amounts reserved for a call until the cost is known. Made by `Ledger.reserve`.

    Attributes:
        least: The reserved amounts.
    """

    def __init__(self, ledger: Ledger, number: int, least: Spent) -> None:
        self.least, self._ledger, self._number = least, ledger, number

    def commit(self, actual: Spent) -> None:
        """Record the actual cost instead of the reserved amounts.

        Raises:
            RuntimeError: The reservation has ended.
        """
        if not self._ledger._settle(self._number, actual):
            raise RuntimeError(
                "This reservation has ended. Call ledger.reserve() again for another call."
            )

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        may_have_run = error is not None and outcome_unknown(error)
        self._ledger._settle(self._number, self.least if may_have_run else NOTHING)

    def __repr__(self) -> str:
        return f"Reservation({self._number})"


class NoReservation(Reservation):
    """Reservation in no ledger: settles nothing, so any number of calls may share it."""

    def commit(self, actual: Spent) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


NO_LEDGER = NoLedger()


class LedgerHandler(BaseCallbackHandler):
    """Callback handler that records the model calls of any number of runs."""

    # LangChain only logs errors of a handler otherwise; an unknown price must stop the call.
    raise_error = True
    # Handlers of an async run otherwise run in a thread, and the middleware might ask too early.
    run_inline = True

    def __init__(
        self, ledger: Ledger, prices: Mapping[str, Price] | PriceFunction | None = None
    ) -> None:
        super().__init__()
        self._ledger = ledger
        self._needs_price = "usd" in ledger.limited
        self._prices = Prices(prices, needed=self._needs_price)
        self._calls: dict[object, tuple[ModelName, list[list[BaseMessage]]]] = {}

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: object,
        metadata: dict[str, Any] | None = None,
        **_: object,
    ) -> None:
        """Look the price up before money is spent; raise UnknownPriceError for a required price."""
        params, name = metadata or {}, (serialized or {}).get("name") or "a chat model"
        model = ModelName(params.get("ls_model_name") or name, params.get("ls_provider"))
        if self._needs_price:
            self._prices.cost(model, usage_of(1, 1))
        self._calls[run_id] = model, messages

    def on_llm_end(self, response: LLMResult, *, run_id: object, **_: object) -> None:
        """Record the response; missing counts of tokens are estimated."""
        # A handler added during a call has not seen the start.
        model, messages = self._calls.pop(run_id, (ModelName("", None), []))
        count = approximate_counter(model.provider, model.name)
        for generation in (item for several in response.generations for item in several):
            message = generation.message if isinstance(generation, ChatGeneration) else None
            if isinstance(message, AIMessage):
                usage = completed(
                    message.usage_metadata,
                    lambda: sum(map(count, messages)),
                    partial(count, [message]),
                )
                usd = self._prices.cost_of_response(message.response_metadata, model, usage)
                read, written = usage["input_tokens"], usage["output_tokens"]
                spent = Spent(input_tokens=read, output_tokens=written, usd=usd)
                self._ledger.record(spent, message.id)

    def on_llm_error(self, error: BaseException, *, run_id: object, **_: object) -> None:
        """Forget a failed call; it is not recorded."""
        self._calls.pop(run_id, None)
