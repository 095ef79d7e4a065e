"""Stacks that keep the prefix of their requests: no alarm, whatever is in them."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import (
    AgentMiddleware,
    before_model,
    create_agent,
    dynamic_prompt,
    wrap_model_call,
)
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel, aassert_stable_prefix, assert_stable_prefix
from stack_tools import break_down, find

Member = AgentMiddleware[Any, Any]


def model(*steps: Any) -> ScriptedChatModel:
    return ScriptedChatModel([*steps, *["Fine."] * 60])


@dynamic_prompt
def greeting(request: Any) -> str:
    return f"{request.system_prompt or ''} You are asked by Ada.".strip()


@wrap_model_call
def clock(request: Any) -> Any:
    """What changes in each call goes to the end of the last message."""
    *before, last = request.messages
    shown = last.model_copy(update={"content": f"{last.text}\n\nIt is {len(before)} o'clock."})
    return (yield request.override(messages=[*before, shown]))


@before_model
def nudge(state: Any, runtime: Any) -> Any:
    return {"messages": [("user", f"Message {len(state['messages'])} is yours.")]}


STABLE: dict[str, Callable[[], Member]] = {
    "budget": lambda: m.BudgetMiddleware(run=m.Limits(turns=50)),
    "caching": lambda: m.PromptCachingMiddleware(min_tokens=0, provider="anthropic"),
    "clearing": lambda: m.ContextEditingMiddleware(),
    "clock": lambda: clock,
    "emulator": lambda: m.LLMToolEmulator(tools=["find"], model=model()),
    "fallback": lambda: m.ModelFallbackMiddleware(model()),
    "greeting": lambda: greeting,
    "limit": lambda: m.ModelCallLimitMiddleware(run_limit=50),
    "nudge": lambda: nudge,
    "once": lambda: m.OnceMiddleware({}, default="fail", store=m.InMemoryEffects()),
    "pii": lambda: m.PIIMiddleware(
        "email", apply_to_output=True, apply_to_tool_results=True, apply_to_tool_calls=True
    ),
    "provider": lambda: m.ProviderToolSearchMiddleware(provider="anthropic"),
    "refusal": lambda: m.ModelRefusalMiddleware(model()),
    "retry": lambda: m.ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False),
    "router": lambda: m.ModelRouterMiddleware(
        choices={"same": m.ModelChoice(model(), "always")}, classifier=lambda request: "same"
    ),
    "selector": lambda: m.LLMToolSelectorMiddleware(
        model=model(), max_tools=1, max_retries=0, on_parsing_failure="all"
    ),
    "summary": lambda: m.SummarizationMiddleware(model(), trigger=("messages", 1000)),
    "todo": m.TodoListMiddleware,
    "tool_error": m.ToolErrorMiddleware,
    "tool_limit": lambda: m.ToolCallLimitMiddleware(run_limit=2),
    "tool_retry": lambda: m.ToolRetryMiddleware(max_retries=1, initial_delay=0, jitter=False),
}
"""Middleware that change no prefix, as they are set up here."""

REWRITES: dict[str, Callable[[], Member]] = {
    "ContextEditingMiddleware": lambda: m.ContextEditingMiddleware(
        edits=[m.ClearToolUsesEdit(trigger=30, keep=1)]
    ),
    "SummarizationMiddleware": lambda: m.SummarizationMiddleware(
        model(), trigger=("messages", 6), keep=("messages", 3)
    ),
}
"""Middleware that are meant to rewrite the history now and then."""

STEPS = st.sampled_from(
    [
        [{"name": "find", "args": {"query": "A1"}}],
        [{"name": "find", "args": {"query": "A1"}}, {"name": "find", "args": {"query": "A2"}}],
        [{"name": "break_down", "args": {"query": "A3"}}],
        [{"name": "write_todos", "args": {"todos": [{"content": "x", "status": "pending"}]}}],
        [{"name": "nobody", "args": {}}],
        "Write to ada@example.com.",
        ConnectionError("down"),
        "",
    ]
)
TURNS = ["I am ada@example.com.", "And where is A2?", "Thank you.", "Bye."]


def check(
    names: list[str], steps: list[Any], kept: bool, waits: bool, rewrite: str | None = None
) -> None:
    # The answer of another model in one call changes the prefix twice, as it should.
    if "fallback" in names or "retry" not in names:
        steps = [step for step in steps if not isinstance(step, Exception)]
    stack = [STABLE[name]() for name in names]
    if rewrite is not None:
        stack = [REWRITES[rewrite](), *(member for member in stack if member.name != rewrite)]
    with warnings.catch_warnings(action="ignore"):  # any order is tried, some are warned of
        agent = create_agent(
            model(*steps),
            [find, break_down],
            system_prompt="You help.",
            middleware=stack,
            checkpointer=InMemorySaver() if kept else None,
            handle_tool_errors=True,
        )
    allow: Any = {"allow": {rewrite}} if rewrite else {}
    if waits:
        asyncio.run(aassert_stable_prefix(agent, TURNS, **allow))
    else:
        assert_stable_prefix(agent, TURNS, **allow)


MANY = settings(settings.get_profile("costly"), max_examples=max(50, settings().max_examples))


@pytest.mark.long
@MANY
@given(
    st.lists(st.sampled_from(sorted(STABLE)), unique=True, max_size=8),
    st.lists(STEPS, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_a_stable_stack_raises_no_alarm(
    names: list[str], steps: list[Any], kept: bool, waits: bool
) -> None:
    check(names, steps, kept, waits)


@settings.get_profile("costly")
@given(
    st.lists(st.sampled_from(sorted(STABLE)), unique=True, max_size=4),
    st.sampled_from(sorted(REWRITES)),
    st.lists(STEPS, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_an_allowed_rewrite_raises_none_either(
    names: list[str], rewrite: str, steps: list[Any], kept: bool, waits: bool
) -> None:
    check(names, steps, kept, waits, rewrite)
