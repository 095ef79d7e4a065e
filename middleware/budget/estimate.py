"""What a call of the model will cost at least, before it is made, and what it cost afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from operator import add
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata

from agent_factory import ModelRequest
from agent_factory.middleware._shared.context_size import Load, TokenCounter
from agent_factory.middleware._shared.messages import last_turn
from agent_factory.middleware.budget.limits import Spent
from agent_factory.middleware.budget.prices import Prices, name_of, named_by, tokens


def _usage(read: int, written: int) -> UsageMetadata:
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)


class Estimate:
    """What a request will cost at least.

    Where the last answer tells its usage, that is the size of all before it, and only what came
    since is counted: a long conversation is not counted anew at each call. `exactly` counts all.

    Args:
        request: The call as it would be made.
        count: Counts the tokens of messages.
        prices: What tokens cost; None where no limit asks for it.
    """

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
    def quick(self) -> int:
        """Tokens the model will read, from what it read last."""
        message, since = self._last
        known = tokens(message.usage_metadata or {}, "total_tokens") if message else 0
        return known + since if known else self.exact

    @cached_property
    def exact(self) -> int:
        """Tokens the model will read, all counted. A summary may have made them fewer."""
        return Load(self._request, self._count, None).tokens

    @cached_property
    def _answer(self) -> int:
        """Tokens the last answer had; one before there is any."""
        message, _ = self._last
        if message is None:
            return 1
        written = tokens(message.usage_metadata or {}, "output_tokens")
        return written or max(self._count([message]), 1)

    def least(self, model: Any, size: int) -> Spent:
        """One call: it reads `size` tokens, and writes at least one."""
        return self._call(model, size, 1)

    def after(self, model: Any, size: int) -> Spent:
        """What is spent beyond the least if this turn goes as the last one did, and an answer
        follows: the rest of this answer, then a call that reads all of it and what tools gave.
        """
        message, since = self._last
        grown = self._answer + since if message else 0
        return self._call(model, size + grown, 2 * self._answer - 1)

    def token(self, model: Any) -> float:
        """What one more token of the answer costs, in US dollars."""
        size = self.quick
        # Over many tokens: a price may be rounded.
        more = self._cost(model, _usage(size, 1001)) - self._cost(model, _usage(size, 1))
        return more / 1000

    def _call(self, model: Any, read: int, written: int) -> Spent:
        usd = self._cost(model, _usage(read, written))
        return Spent(turns=1, input_tokens=read, output_tokens=written, usd=usd)

    def _cost(self, model: Any, usage: UsageMetadata) -> float:
        if self._prices is None:
            return 0.0
        return self._prices.of(name_of(model, self._request.model_settings), usage)

    def actual(self, model: Any, answers: Sequence[BaseMessage], prices: Prices | None) -> Spent:
        """What the answers cost: as the model reports it, and by estimate where it does not.

        A message that another middleware gave in the model's place (`lc_source` marks it) costs
        nothing.
        """
        spent = [
            self._spent_on(message, model, prices)
            for message in answers
            if isinstance(message, AIMessage) and "lc_source" not in message.additional_kwargs
        ]
        return reduce(add, spent) if spent else Spent()

    def _spent_on(self, message: AIMessage, model: Any, prices: Prices | None) -> Spent:
        usage = self._reported(message)
        return Spent(
            turns=1,
            input_tokens=tokens(usage, "input_tokens"),
            output_tokens=tokens(usage, "output_tokens"),
            usd=self._paid(model, message, usage, prices) if prices else 0.0,
        )

    def _paid(self, model: Any, message: AIMessage, usage: UsageMetadata, prices: Prices) -> float:
        asked = name_of(model, self._request.model_settings)
        return prices.first(named_by(message.response_metadata, asked), usage)

    def _reported(self, message: AIMessage) -> UsageMetadata:
        usage = message.usage_metadata
        if usage and (tokens(usage, "input_tokens") or tokens(usage, "output_tokens")):
            return usage
        return _usage(self.quick, max(self._count([message]), 1))
