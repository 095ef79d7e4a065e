"""The table of docs/prompt_caching.md: how each built-in changes requests, measured in runs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Any

from stack_agents import kept_agent

from agent_factory import before_agent, dynamic_prompt
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel
from samples import search
from stack_tools import find

PAGE = Path(__file__).parents[2] / "docs/prompt_caching.md"

CELLS = {
    "stays": ("stays", "read whole", "stay"),
    "last message": ("another last message", "read up to this message", "those of the answer go"),
    "messages": ("earlier messages", "read up to the change", "those behind the change go"),
    "system prompt": ("system prompt", "read up to the prompt", "all go"),
    "tools": ("tools", "lost", "all go"),
}
"""Cells of a row, by the first part of a request that is unlike the request before."""


class ChatOpenAI(ScriptedChatModel):
    """Named as that of langchain-openai: it takes "none" as the choice of a tool."""


minutes = count()


@dynamic_prompt
def dated(request: Any) -> str:
    return f"It is 12:{next(minutes):02}."


@before_agent
def clock(state: Any, runtime: Any) -> Any:
    last = state["messages"][-1]
    return {"messages": [last.model_copy(update={"content": f"{last.text} At {next(minutes)}."})]}


def model(*steps: Any, kind: Any = ScriptedChatModel) -> Any:
    call = [{"name": "find", "args": {"query": "A1"}}]
    return kind([*steps, call, call, call, "Done.", call, "Done.", *["Done."] * 20])


def last_answer(kind: Any) -> Any:
    return model(kind=kind), m.ModelCallLimitMiddleware(run_limit=2, exit_behavior="answer")


TODOS = [{"name": "write_todos", "args": {"todos": [{"content": "x", "status": "pending"}]}}]
OTHER = ScriptedChatModel(["Hello."] * 9, name="other")
CHOICES = ['["find"]', '["search"]', '["find"]']

ROWS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "`SummarizationMiddleware`, when it summarizes": lambda: (
        model(),
        m.SummarizationMiddleware(OTHER, trigger=("messages", 6), keep=("messages", 3)),
    ),
    "`ContextEditingMiddleware`, when it clears": lambda: (
        model(),
        m.ContextEditingMiddleware(edits=[m.ClearToolUsesEdit(trigger=30, keep=1)]),
    ),
    "`ToolResultOffloadMiddleware`": lambda: (
        model(),
        m.ToolResultOffloadMiddleware(threshold=3, preview=2),
    ),
    '"answer" of limits, budget and progress guard': lambda: last_answer(ChatOpenAI),
    "the same where no choice of no call is known": lambda: last_answer(ScriptedChatModel),
    "`BudgetMiddleware`, the warning": lambda: (
        model(),
        m.BudgetMiddleware(run=m.Limits(turns=8), warn_at=0.2),
    ),
    "`ProgressGuardMiddleware`, the remark": lambda: (model(), m.ProgressGuardMiddleware()),
    "`AnswerGuardMiddleware`, when it asks again": lambda: (
        ScriptedChatModel([*model().steps[:1], "", *model().steps]),
        m.AnswerGuardMiddleware(),
    ),
    "`TodoListMiddleware`, with a list": lambda: (model(TODOS), m.TodoListMiddleware()),
    "`LLMToolSelectorMiddleware`, with another choice": lambda: (
        model(),
        m.LLMToolSelectorMiddleware(model=ScriptedChatModel(CHOICES), max_tools=1),
    ),
    "`ProviderToolSearchMiddleware`": lambda: (
        model(),
        m.ProviderToolSearchMiddleware(provider="anthropic"),
    ),
    "`PromptCachingMiddleware`": lambda: (
        model(),
        m.PromptCachingMiddleware(min_tokens=0, provider="anthropic"),
    ),
    "`PIIMiddleware`": lambda: (
        model(),
        m.PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True),
    ),
    "`dynamic_prompt` with a date": lambda: (model(), dated),
    "the clock of this page": lambda: (model(), clock),
}


def difference(earlier: Any, later: Any) -> str:
    """The part of the later request that is unlike the earlier."""
    if earlier.tools != later.tools:
        return "tools"
    # Texts have no marks of the cache.
    before, after = (
        [(message.type, message.text) for message in r.messages] for r in (earlier, later)
    )
    if before == after[: len(before)]:
        return "stays"
    if before[0] != after[0] and before[0][0] == "system":
        return "system prompt"
    return "last message" if before[:-1] == after[: len(before) - 1] else "messages"


def measured(make: Callable[[], tuple[Any, Any]]) -> str:
    """The first part that differs in a conversation of two turns."""
    chat_model, member = make()
    agent = kept_agent(chat_model, member, tools=[find, search])
    for text in ("Where is A1?", "And A2? ada@example.com"):
        agent.invoke({"messages": text}, {"configurable": {"thread_id": "1"}})
    differences = {difference(*pair) for pair in pairwise(chat_model.requests)}
    return next(part for part in reversed(CELLS) if part in differences)


def test_the_table_of_the_page_says_how_each_built_in_changes_requests() -> None:
    rows = [f"| {' | '.join((name, *CELLS[measured(make)]))} |" for name, make in ROWS.items()]
    assert "\n".join(rows) in PAGE.read_text()
