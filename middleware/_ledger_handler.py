"""Hears of every model call of a run, whoever makes it, and books what it cost in a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from ._budget_values import Spent
from ._ledger import Ledger
from ._prices import ModelName, Price, PriceFunction, Prices, named_by, tokens

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
