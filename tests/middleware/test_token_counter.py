"""Tokens are estimated as the provider of the model counts them, and cost what it lists."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any

import pytest
from bound_models import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately

from agent_factory import ModelRequest, create_agent
from agent_factory import middleware as m
from agent_factory.middleware._shared.token_counter import counter_for, tokens_sent
from agent_factory.middleware.budget import UnknownPriceError
from agent_factory.testing import ScriptedChatModel
from samples import Gpt
from tables import each

Run = Callable[..., Any]
WORDS = "x" * 3300
"""About 1000 tokens of Claude, and 825 of other models."""


class Typed(ScriptedChatModel):
    """A class of a product with the type of langchain-anthropic."""

    @property
    def _llm_type(self) -> str:
        return "anthropic-chat"


class Bedrock(ScriptedChatModel):
    """Claude at another provider."""

    model_id: str = "us.anthropic.Claude-sonnet-4-5-v1:0"


CLAUDE = [ChatAnthropic, Typed, Bedrock]
OTHERS = [ScriptedChatModel, Gpt]


@each("kind", [*CLAUDE, *OTHERS])
def test_tokens_of_claude_are_shorter(kind: Any) -> None:
    model, message = kind(steps=[]), HumanMessage(WORDS)
    tokens = 1005 if kind in CLAUDE else 829
    for any_model in (model, model.bind(stop=["x"])):
        request: ModelRequest[Any] = ModelRequest(model=any_model, messages=[message])
        for _ in range(2):  # the second time from the cache
            assert tokens_sent(request, [message], count_tokens_approximately) == tokens
        assert counter_for(any_model, count_tokens_approximately)([message]) == tokens
    assert counter_for(model, len) is len


@each(
    "block, most",
    [
        ({"type": "thinking", "thinking": "Hm.", "signature": "s" * 40_000}, 40),
        ({"type": "reasoning", "summary": [], "encrypted_content": "s" * 40_000}, 30),
        ({"type": "file", "mime_type": "application/pdf", "base64": "A" * 68_000}, 2_700),
        ({"type": "text", "text": "word " * 400}, 700),
    ],
)
def test_signatures_and_files_do_not_count_as_text(block: Any, most: int) -> None:
    for kind in (ChatAnthropic, Gpt):
        count = counter_for(kind(steps=[]), count_tokens_approximately)
        assert most / 3 < count([AIMessage(content=[block])]) < most


def was_summarized(call: Run, kind: Any) -> bool:
    writer = ScriptedChatModel(["S"] * 2)
    stack = [m.SummarizationMiddleware(writer, trigger=("tokens", 900), keep=("messages", 1))]
    model = kind(steps=["ok"])
    history = [HumanMessage(WORDS), HumanMessage("b")]
    call(create_agent(model, middleware=stack), {"messages": history})
    return bool(writer.requests)


def was_cleared(call: Run, kind: Any) -> bool:
    edit = m.ClearToolUsesEdit(trigger=900, keep=0)
    calls: Any = [{"name": "add", "args": {}, "id": "1"}]
    looked = [AIMessage("", tool_calls=calls), ToolMessage(WORDS, tool_call_id="1")]
    history = [HumanMessage("a"), *looked, AIMessage("b"), HumanMessage("c")]
    model = kind(steps=["ok"])
    stack = [m.ContextEditingMiddleware(edits=[edit])]
    call(create_agent(model, middleware=stack), {"messages": history})
    return WORDS not in str(model.requests[0].messages)


def was_over_budget(call: Run, kind: Any) -> bool:
    stack = [m.BudgetMiddleware(run=m.Limits(input_tokens=900), warn_at=None)]
    model = kind(steps=["ok"] * 2)
    call(create_agent(model, middleware=stack), {"messages": [HumanMessage(WORDS)]})
    return not model.requests


@each("decides", [was_summarized, was_cleared, was_over_budget])
@each("kind", [*CLAUDE, *OTHERS])
def test_built_ins_count_the_tokens_of_the_model_that_is_called(
    call: Run, decides: Any, kind: Any
) -> None:
    assert decides(call, kind) is (kind in CLAUDE)


@each("kind", [ChatAnthropic, Typed])
def test_a_prompt_is_long_enough_for_the_cache_by_its_providers_tokens(
    call: Run, kind: Any
) -> None:
    model = kind(steps=["ok"])
    stack = [m.PromptCachingMiddleware(min_tokens=900)]
    call(create_agent(model, middleware=stack), {"messages": [HumanMessage(WORDS)]})
    assert "cache_control" in str(model.requests[0].messages)


class Reporting(ScriptedChatModel):
    """A model that reports its name alone."""

    model_name: str

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {"ls_model_name": self.model_name}


@each("name, tokens", [("claude-sonnet-4-5", 1005), ("gpt-5", 829)])
def test_a_ledger_counts_what_a_model_does_not_report_by_its_name(name: str, tokens: int) -> None:
    ledger = m.Ledger(m.Limits(usd=100))
    handler = ledger.handler(prices={name: m.Price(input=1, output=1)})
    model = Reporting(steps=["ok"], model_name=name)
    model.invoke([HumanMessage(WORDS)], {"callbacks": [handler]})
    assert ledger.spent.input_tokens == tokens


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
    getattr(model, "bound", model).steps.append(answer)
    ledger = m.Ledger(m.Limits(usd=100))
    agent = create_agent(model, middleware=[m.BudgetMiddleware(ledger=ledger, prices=prices)])
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
    own = {"gpt-4o": m.Price(input=1, output=2, cache_read=0.5, cache_write=4)}
    usage = {"input_token_details": {"cache_read": 400, "ephemeral_5m_input_tokens": 100}}
    assert cost(OpenAI(), usage, prices=own) == pytest.approx((500 + 200 + 400 + 200) / 1e6)
    assert cost(OpenAI(), prices={"other": m.Price(input=1, output=2)}) == cost(OpenAI())
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
        m.BudgetMiddleware(run=m.Limits(usd=1))
    m.BudgetMiddleware(run=m.Limits(usd=1), prices={"mine": m.Price(input=1, output=1)})
    m.BudgetMiddleware(run=m.Limits(total_tokens=100))
