"""Tokens are estimated as the provider of the model counts them, by every built-in that counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bound_models import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately

from agent_factory import ModelRequest, create_agent
from agent_factory.middleware import (
    BudgetMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    Ledger,
    Limits,
    Price,
    PromptCachingMiddleware,
    SummarizationMiddleware,
)
from agent_factory.middleware._shared.token_counter import counter_for, tokens_sent
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


def was_summarized(call: Run, kind: Any) -> bool:
    writer = ScriptedChatModel(["S"] * 2)
    stack = [SummarizationMiddleware(writer, trigger=("tokens", 900), keep=("messages", 1))]
    model = kind(steps=["ok"])
    history = [HumanMessage(WORDS), HumanMessage("b")]
    call(create_agent(model, middleware=stack), {"messages": history})
    return bool(writer.requests)


def was_cleared(call: Run, kind: Any) -> bool:
    edit = ClearToolUsesEdit(trigger=900, keep=0)
    calls: Any = [{"name": "add", "args": {}, "id": "1"}]
    looked = [AIMessage("", tool_calls=calls), ToolMessage(WORDS, tool_call_id="1")]
    history = [HumanMessage("a"), *looked, AIMessage("b"), HumanMessage("c")]
    model = kind(steps=["ok"])
    stack = [ContextEditingMiddleware(edits=[edit])]
    call(create_agent(model, middleware=stack), {"messages": history})
    return WORDS not in str(model.requests[0].messages)


def was_over_budget(call: Run, kind: Any) -> bool:
    stack = [BudgetMiddleware(run=Limits(input_tokens=900), warn_at=None)]
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
    stack = [PromptCachingMiddleware(min_tokens=900)]
    call(create_agent(model, middleware=stack), {"messages": [HumanMessage(WORDS)]})
    assert "cache_control" in str(model.requests[0].messages)


class Reporting(ScriptedChatModel):
    """A model that reports its name alone."""

    model_name: str

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {"ls_model_name": self.model_name}


@each("name, tokens", [("claude-sonnet-4-5", 1005), ("gpt-5", 829)])
def test_a_ledger_counts_what_a_model_does_not_report_by_its_name(name: str, tokens: int) -> None:
    ledger = Ledger(Limits(usd=100))
    handler = ledger.handler(prices={name: Price(input=1, output=1)})
    model = Reporting(steps=["ok"], model_name=name)
    model.invoke([HumanMessage(WORDS)], {"callbacks": [handler]})
    assert ledger.spent.input_tokens == tokens
