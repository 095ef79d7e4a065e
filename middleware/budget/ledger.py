"""A purse that several agents spend from at once: what is taken is reserved before it is spent."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from itertools import count
from operator import add
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from agent_factory.middleware.budget.limits import Account, BudgetExceededError, Limits, Spent
from agent_factory.middleware.budget.prices import (
    ModelName,
    Price,
    PriceFunction,
    Prices,
    named_by,
    tokens,
)

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler


_NOTHING = Spent()
_REMEMBERED = 4096
"""Answers that a handler has booked and no middleware has fetched yet; a few bytes each."""


class Ledger:
    """A budget that a parent, its subagents and your own code share, over any number of runs.

    Give it to the `BudgetMiddleware` of each of them. Threads and event loops may share it. It
    lives in this process; to go on after a restart, keep `spent` and pass it in again.

    A call starts only if the least it costs fits beside all that is spent and reserved, and that
    is checked and reserved in one step. So the limits can be passed by no more than what calls
    that are then under way cost beyond their reservations: at most one call of each agent.

    `seconds` count while at least one call is under way, parallel ones once. Time between calls,
    and time in which people are asked, is not counted.

    Args:
        limits: The most that may be spent. `Limits()` limits nothing, and the ledger only counts.
        spent: What was spent before.

    Raises:
        TypeError: `limits` is no Limits, or `spent` no Spent.

    >>> ledger = Ledger(Limits(usd=1.0))
    >>> with ledger.reserve(Spent(usd=0.3)) as reservation:  # a paid search, for example
    ...     reservation.commit(Spent(usd=0.25))
    >>> ledger.spent.usd, ledger.reserved.usd
    (0.25, 0.0)
    """

    def __init__(self, limits: Limits, *, spent: Spent = _NOTHING) -> None:
        if not isinstance(limits, Limits):
            raise TypeError(f"limits must be Limits(usd=..., turns=...), not {limits!r}.")
        if not isinstance(spent, Spent):
            raise TypeError(f"spent must be Spent(usd=...), as .spent gives it, not {spent!r}.")
        self._lock = Lock()
        self._limits = limits
        self._spent = spent
        self._open: dict[int, Spent] = {}
        self._since = 0.0
        self._numbers = count()
        self._booked: OrderedDict[str, None] = OrderedDict()

    @property
    def limits(self) -> Limits:
        """The most that may be spent, with what it was raised by."""
        return self._limits

    @property
    def spent(self) -> Spent:
        """What is spent up to now."""
        with self._lock:
            return self._now()

    @property
    def reserved(self) -> Spent:
        """What calls that are under way will cost at least."""
        with self._lock:
            return self._held()

    def reserve(self, least: Spent, *, keep: Spent = _NOTHING) -> Reservation:
        """Set aside what something will cost at least; use it in a `with` statement.

        Leaving the statement without `commit`, by an exception too, gives it back.

        Args:
            least: What it costs at least. Seconds in it are ignored: they count by themselves.
            keep: What must be left beside it.

        Raises:
            BudgetExceededError: It does not fit.
        """
        need = least + keep
        with self._lock:
            if self._limits.given() and (account := self._account()).missing(need):
                raise BudgetExceededError((account,), need)
            if not self._open:
                self._since = monotonic()
            number = next(self._numbers)
            self._open[number] = _without_seconds(least)
        return Reservation(self, number)

    def raise_limits(self, extra: Mapping[str, float]) -> None:
        """Allow more of what is limited.

        Args:
            extra: What is added to each limit, such as `{"usd": 0.5}`; what has no limit stays
                without one.
        """
        with self._lock:
            self._limits = self._limits.raised(extra)

    def account(self) -> Account:
        """What it allows, and what is spent and reserved of it, at one moment."""
        with self._lock:
            return self._account()

    def handler(
        self, prices: Mapping[str, Price] | PriceFunction | None = None
    ) -> BaseCallbackHandler:
        """A callback handler that books every model call of a run, whoever makes it.

        A middleware sees the calls that pass through it: not those that other middleware make to
        summarise or to select, nor those inside tools. With
        `agent.invoke(..., {"callbacks": [ledger.handler()]})` their tokens and dollars are booked
        as well, and those of calls that a `BudgetMiddleware` on this ledger books are counted
        once. The handler refuses no call for its cost; the next one through a middleware is.

        Args:
            prices: As `BudgetMiddleware` takes them.

        Raises:
            ImportError: The ledger limits USD, there are no prices, and genai-prices is missing.
        """
        from agent_factory.middleware.budget.ledger import LedgerHandler

        return LedgerHandler(self, prices)

    def book(self, amount: Spent, answer: str | None = None) -> None:
        """Add what was spent without a reservation.

        Args:
            amount: What was spent. Seconds in it are ignored: they count by themselves.
            answer: The id of the message it was spent on, so that it is not booked again.
        """
        with self._lock:
            self._spent += _without_seconds(amount)
            if answer is not None:
                self._booked[answer] = None
                if len(self._booked) > _REMEMBERED:
                    self._booked.popitem(last=False)

    def fetch(self, answer: str | None) -> bool:
        """Whether the cost of a message was booked already; asked once for each."""
        with self._lock:
            return self._booked.pop(answer or "", self) is None

    def _close(self, number: int, actual: Spent) -> bool:
        """End a reservation; False where it had ended before."""
        with self._lock:
            if number not in self._open:
                return False
            held = self._now()
            del self._open[number]
            self._spent = held if not self._open else self._spent
            self._spent += _without_seconds(actual)
            return True

    def _account(self) -> Account:
        book = (self._now() + self._held()).written()
        return Account("ledger", "in the shared budget", self._limits, book)

    def _now(self) -> Spent:
        if not self._open:
            return self._spent
        return self._spent + Spent(seconds=monotonic() - self._since)

    def _held(self) -> Spent:
        return reduce(add, self._open.values(), _NOTHING)


def _without_seconds(amount: Spent) -> Spent:
    return replace(amount, seconds=0.0) if amount.seconds else amount


class Unshared(Ledger):
    """In the place of a ledger where none is shared: it allows everything and keeps nothing."""

    def __init__(self) -> None:
        super().__init__(Limits())
        self._empty = self._account()

    def reserve(self, least: Spent, *, keep: Spent = _NOTHING) -> Reservation:
        """Nothing is set aside."""
        return Reservation(self, 0)

    def account(self) -> Account:
        """An account without limits."""
        return self._empty

    def _close(self, number: int, actual: Spent) -> bool:
        return True


class Reservation:
    """What is set aside for a call until it is known what it cost. `Ledger.reserve` makes it."""

    def __init__(self, ledger: Ledger, number: int) -> None:
        self._ledger = ledger
        self._number = number

    def commit(self, actual: Spent) -> None:
        """Spend what it really cost, in the place of what was reserved.

        Raises:
            RuntimeError: The reservation has ended before.
        """
        if not self._ledger._close(self._number, actual):
            raise RuntimeError("This reservation has ended; reserve again for another call.")

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ledger._close(self._number, _NOTHING)

    def __repr__(self) -> str:
        return f"Reservation({self._number})"


_ONE: Any = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


class LedgerHandler(BaseCallbackHandler):
    """Books calls; made by `Ledger.handler`. It may serve several runs at once.

    Args:
        ledger: Where the calls are booked.
        prices: As `BudgetMiddleware` takes them.

    Raises (in a call, before it is made):
        UnknownPriceError: The ledger limits USD, and the price of the model is not known.
    """

    # What is unknown must stop the call; an error in a handler is only logged otherwise.
    raise_error = True
    # In the order of the calls, so that a middleware finds its own call booked.
    run_inline = True

    def __init__(
        self, ledger: Ledger, prices: Mapping[str, Price] | PriceFunction | None = None
    ) -> None:
        super().__init__()
        self._ledger = ledger
        self._priced = ledger.limits.usd is not None
        self._prices = Prices(prices, needed=self._priced)
        self._asked: dict[Any, ModelName] = {}

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[Any]],
        *,
        run_id: Any,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Looks the price up, before money is spent."""
        about, name = metadata or {}, (serialized or {}).get("name") or "a chat model"
        model = ModelName(about.get("ls_model_name") or name, about.get("ls_provider"))
        if self._priced:
            self._prices.of(model, _ONE)
        self._asked[run_id] = model

    def on_llm_end(self, response: LLMResult, *, run_id: Any, **_: Any) -> None:
        """Books the answer."""
        asked = self._asked.pop(run_id, ModelName("", None))
        for generations in response.generations:
            for generation in generations:
                if isinstance(generation, ChatGeneration):
                    self._book(generation.message, asked)

    def on_llm_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        """A call that failed is not booked."""
        self._asked.pop(run_id, None)

    def _book(self, message: Any, asked: ModelName) -> None:
        if not isinstance(message, AIMessage) or not message.usage_metadata:
            return
        usage = message.usage_metadata
        models = named_by(message.response_metadata, asked)
        amount = Spent(
            usd=self._prices.first(models, usage),
            input_tokens=tokens(usage, "input_tokens"),
            output_tokens=tokens(usage, "output_tokens"),
        )
        self._ledger.book(amount, message.id)
