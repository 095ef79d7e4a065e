"""Laws of tool call limits: with random models, limits and jumps no tool runs too often."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, create_agent, hook_config
from agent_factory.middleware import ToolCallLimitExceededError, ToolCallLimitMiddleware
from agent_factory.state.history import is_valid
from agent_factory.testing import ScriptedChatModel

TOOLS = ("search", "read", "write")
RUNS = 2
"""Each thread gets so many messages."""

EXITS = st.sampled_from(["continue", "end", "error", "answer"])
TURNS = st.lists(st.lists(st.sampled_from(TOOLS), max_size=3), max_size=4)
JUMPS = st.lists(st.sampled_from([None, "model", "tools", "end"]), max_size=5)


@st.composite
def limits(draw: st.DrawFn) -> dict[str, Any]:
    """The settings of a limit."""
    run, more = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    settings: dict[str, Any] = {"run_limit": run, "thread_limit": run + more}
    for left_out in draw(st.sampled_from([[], ["run_limit"], ["thread_limit"]])):
        del settings[left_out]
    tool = draw(st.sampled_from([None, "search", "read"]))
    return {**settings, "tool_name": tool, "exit_behavior": draw(EXITS)}


class Jumps(AgentMiddleware[Any, Any]):
    """Jump as the parameters say."""

    def __init__(self, jumps: list[str | None]) -> None:
        super().__init__(name="jumps")
        self.left = list(jumps)

    @hook_config(can_jump_to=["model", "tools", "end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        jump = self.left.pop(0) if self.left else None
        waits = getattr(state["messages"][-1], "tool_calls", ())
        return None if jump is None or (jump == "tools" and not waits) else {"jump_to": jump}


class Script:
    """A model that makes the given calls and then answers."""

    def __init__(self, turns: list[list[str]]) -> None:
        self.left = list(turns)

    def __call__(self, messages: list[Any]) -> Any:
        names = self.left.pop(0) if self.left else []
        return [{"name": name, "args": {}} for name in names] or "So."


def tools(ran: Counter[str]) -> list[Any]:
    def search() -> str:
        """Search."""
        ran["search"] += 1
        return "found"

    def read() -> str:
        """Read."""
        ran["read"] += 1
        return "read"

    def write() -> str:
        """Write."""
        ran["write"] += 1
        raise ValueError("cannot write")

    return [search, read, write]


def covered(limit: ToolCallLimitMiddleware, ran: Counter[str]) -> int:
    return ran.total() if limit.tool_name is None else ran[limit.tool_name]


@settings.get_profile("costly")
@given(st.lists(limits(), min_size=1, max_size=2), TURNS, JUMPS, st.integers(0, 2))
def test_no_tool_runs_more_often_than_any_limit_allows(
    settings: list[dict[str, Any]],
    turns: list[list[str]],
    jumps: list[str | None],
    place: int,
) -> None:
    found = [ToolCallLimitMiddleware(**s, name=f"limit {i}") for i, s in enumerate(settings)]
    thread: Counter[str] = Counter()
    run: Counter[str] = Counter()
    stack: list[Any] = list(found)
    stack.insert(place, Jumps(jumps))
    agent = create_agent(
        ScriptedChatModel([Script(turns)] * 60),
        tools(run),
        middleware=stack,
        checkpointer=InMemorySaver(),
        handle_tool_errors=True,
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    for _ in range(RUNS):
        run.clear()
        try:
            agent.invoke({"messages": [HumanMessage("Go on")]}, config)
        except ToolCallLimitExceededError:
            assert any(limit.exit_behavior == "error" for limit in found)
        thread += run
        values = agent.get_state(config).values
        for limit in found:
            assert limit.run_limit is None or covered(limit, run) <= limit.run_limit
            assert limit.thread_limit is None or covered(limit, thread) <= limit.thread_limit
        assert Counter(values.get("thread_tool_call_count", {})) == thread
        assert has_one_answer_each(values["messages"])
        # Only a jump out of the run leaves calls behind, or an error after a jump away from them.
        raises = any(limit.exit_behavior == "error" for limit in found)
        left_behind = "end" in jumps or (raises and "model" in jumps)
        assert is_valid(values["messages"]) or left_behind


def has_one_answer_each(messages: list[Any]) -> bool:
    answers = Counter(m.tool_call_id for m in messages if m.type == "tool")
    calls = {c["id"] for m in messages if m.type == "ai" for c in m.tool_calls}
    return set(answers) <= calls and set(answers.values()) <= {1}


@pytest.mark.long
@settings.get_profile("costly")
@given(
    st.integers(0, 3),
    st.integers(0, 3),
    st.lists(st.sampled_from(TOOLS), max_size=6),
    st.booleans(),
)
def test_as_many_run_as_both_limits_allow(
    total: int, searches: int, names: list[str], total_first: bool
) -> None:
    """Limits that keep places for calls that cannot run would let too few run."""
    run: Counter[str] = Counter()
    stack = [
        ToolCallLimitMiddleware(run_limit=total),
        ToolCallLimitMiddleware(tool_name="search", run_limit=searches),
    ]
    model = ScriptedChatModel([Script([names])] * 2)
    agent = create_agent(
        model,
        tools(run),
        middleware=stack if total_first else stack[::-1],
        handle_tool_errors=True,
    )
    agent.invoke({"messages": [HumanMessage("Go on")]})
    others = sum(name != "search" for name in names)
    assert run.total() == min(total, others + min(searches, len(names) - others))
