"""Prices of tokens: given by the user, or listed by genai-prices."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agent_factory import create_agent
from agent_factory.middleware.budget import (
    BudgetMiddleware,
    Ledger,
    Limits,
    Price,
    UnknownPriceError,
)
from agent_factory.testing import ScriptedChatModel
from tables import each

USAGE: Any = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}


class OpenAI(ScriptedChatModel):
    """A model that says it is of openai, as langchain's classes do, or of another provider."""

    model_name: str = "gpt-4o"
    provider: str = "openai"

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {**super()._get_ls_params(stop=stop, **kwargs), "ls_provider": self.provider}


def cost(model: Any, usage: Any = None, *, named: str | None = None, prices: Any = None) -> float:
    """What one call costs."""
    answer = AIMessage(
        "done",
        usage_metadata={**USAGE, **(usage or {})},
        response_metadata={"model_name": named} if named else {},
    )
    inner = getattr(model, "bound", model)
    inner.steps.append(answer)
    ledger = Ledger(Limits(usd=100))
    agent = create_agent(model, middleware=[BudgetMiddleware(ledger=ledger, prices=prices)])
    agent.invoke({"messages": [("user", "Hi")]})
    return ledger.spent.usd


def test_a_known_model_costs_what_its_provider_lists() -> None:
    """Cached tokens are cheaper; details that contradict the totals are ignored."""
    assert cost(OpenAI()) == pytest.approx((1000 * 2.5 + 100 * 10) / 1e6)
    cached = {"input_token_details": {"cache_read": 800}}
    assert cost(OpenAI(), cached) == pytest.approx((200 * 2.5 + 800 * 1.25 + 100 * 10) / 1e6)
    odd = {"input_token_details": {"cache_read": 5000, "audio": -3}}
    assert cost(OpenAI(), odd) == cost(OpenAI())


def test_the_price_of_the_model_that_answered_counts() -> None:
    """A model may be bound, an alias, or a proxy that asks another one."""
    assert cost(OpenAI(), named="gpt-4o-mini") == pytest.approx((1000 * 0.15 + 100 * 0.6) / 1e6)
    assert cost(OpenAI(), named="of-my-own") == cost(OpenAI())
    assert cost(OpenAI().bind(temperature=0)) == cost(OpenAI())
    assert cost(OpenAI().bind(model="gpt-4o-mini")) < cost(OpenAI())


def test_given_prices_come_before_listed_ones_and_a_function_may_give_all() -> None:
    own = {"gpt-4o": Price(input=1, output=2, cache_read=0.5, cache_write=4)}
    details = {"cache_read": 400, "ephemeral_5m_input_tokens": 100}
    usage = {"input_token_details": details}
    assert cost(OpenAI(), usage, prices=own) == pytest.approx((500 + 200 + 400 + 200) / 1e6)
    assert cost(OpenAI(), prices={"other": Price(input=1, output=2)}) == cost(OpenAI())
    assert cost(OpenAI(), prices=lambda model, usage: {"gpt-4o": 0.25}[model]) == 0.25
    with pytest.raises(UnknownPriceError, match="gpt-9"):
        cost(OpenAI(model_name="gpt-9"), prices=lambda model, usage: {}[model])
    with pytest.raises(ValueError, match="must return US dollars"):
        cost(OpenAI(), prices=lambda model, usage: "much")


@each(
    "model, problem",
    [
        (OpenAI(model_name="gpt-9-ultra"), "has no known price at 'openai'"),
        (OpenAI(model_name=""), "has no known price at 'openai'"),
        (OpenAI(provider="local"), "gpt-4o: has no known price at 'local'"),
    ],
)
def test_an_unlisted_model_or_provider_is_named(model: Any, problem: str) -> None:
    """The same weights cost nothing on one's own machine."""
    with pytest.raises(UnknownPriceError, match=problem):
        cost(model)


def test_without_genai_prices_a_limit_in_dollars_needs_prices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Hidden(PathFinder):
        @classmethod
        def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
            return None if name == "genai_prices" else super().find_spec(name, path, target)

    finders = [Hidden if finder is PathFinder else finder for finder in sys.meta_path]
    monkeypatch.setattr(sys, "meta_path", finders)
    for name in [name for name in sys.modules if name.startswith("genai_prices")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match="the extra `cost`"):
        BudgetMiddleware(run=Limits(usd=1))
    BudgetMiddleware(run=Limits(usd=1), prices={"mine": Price(input=1, output=1)})
    BudgetMiddleware(run=Limits(total_tokens=100))


@each(
    "amounts, name",
    [
        ({"input": -1, "output": 1}, "input"),
        ({"input": 1, "output": "2"}, "output"),
        ({"input": 1, "output": 1, "cache_read": float("inf")}, "cache_read"),
        ({"input": None, "output": 1}, "input and output"),
    ],
)
def test_prices_that_are_not_amounts_raise(amounts: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Price(**amounts)
