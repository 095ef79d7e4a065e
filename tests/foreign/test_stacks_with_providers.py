"""Stacks of built-ins, and pairs of fallback, against the rules of each provider."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent_factory import create_agent, dynamic_prompt
from agent_factory import middleware as m
from agent_factory.testing.providers import ProviderReply, error, reply
from foreign.provider_models import BROKEN, KINDS, rule_names
from samples import THREAD


class Helper(FakeListChatModel):
    """A model that says the same each time, and calls no tool."""

    def bind_tools(self, tools: Any, **_: Any) -> Helper:
        return self.model_copy()


def says(text: str = "In short.") -> Helper:
    return Helper(responses=[text])


def find(query: str) -> str:
    """Find something."""
    return f"Write to ann@example.com about {query}. " * 8


def now() -> str:
    """Say the time."""
    return "12:30"


def fails() -> str:
    """Fail."""
    raise ValueError("no connection")


def clock() -> Any:
    minutes = count()
    return dynamic_prompt(lambda request: f"It is 12:{next(minutes):02}.")


LENGTHS: Any = {"trigger": ("messages", 5), "keep": ("messages", 3)}
STACKS: dict[str, Callable[[], Any]] = {
    "none": lambda: [],
    "crash": lambda: [],  # a tool raises, and the thread goes on with open calls
    "answer_guard": lambda: m.AnswerGuardMiddleware(max_retries=1),
    "auto_mode": lambda: m.AutoModeMiddleware(tools=["find"], classifier=says()),
    "budget": lambda: m.BudgetMiddleware(run=m.Limits(turns=8), warn_at=0.3),
    "budget_answer": lambda: m.BudgetMiddleware(run=m.Limits(turns=2), warn_at=None),
    "budget_end": lambda: m.BudgetMiddleware(run=m.Limits(turns=2), exit_behavior="end"),
    "budget_error": lambda: m.BudgetMiddleware(run=m.Limits(turns=2), exit_behavior="error"),
    "caching": lambda: m.PromptCachingMiddleware(min_tokens=0),
    "clearing": lambda: m.ContextEditingMiddleware(edits=[m.ClearToolUsesEdit(trigger=30, keep=1)]),
    "clearing_thread": lambda: m.ContextEditingMiddleware(
        edits=[m.ClearToolUsesEdit(trigger=30, keep=1)], keep_thread=False
    ),
    "clock": clock,
    "emulator": lambda: m.LLMToolEmulator(tools=["find"], model=says()),
    "guard_answer": lambda: m.GuardMiddleware(lambda _: "no", on="answer"),
    "guard_call": lambda: m.GuardMiddleware(lambda _: "no", on="call"),
    "guard_result": lambda: m.GuardMiddleware(lambda _: "no", on="result"),
    "limit_answer": lambda: m.ModelCallLimitMiddleware(run_limit=2, exit_behavior="answer"),
    "limit_end": lambda: m.ModelCallLimitMiddleware(run_limit=2, exit_behavior="end"),
    "limit_error": lambda: m.ModelCallLimitMiddleware(run_limit=1, exit_behavior="error"),
    "offload": lambda: m.ToolResultOffloadMiddleware(threshold=3, preview=2),
    "once": lambda: m.OnceMiddleware({}, default="fail", store=m.InMemoryEffects()),
    "pii": lambda: m.PIIMiddleware(
        "email", apply_to_output=True, apply_to_tool_results=True, apply_to_tool_calls=True
    ),
    "progress": lambda: m.ProgressGuardMiddleware(
        remark_after=1, withhold_after=1, answer_after=2, error_after=1
    ),
    "retry": lambda: m.ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False),
    "review_approve": lambda: m.HumanInTheLoopMiddleware({"find": True}),
    "review_edit": lambda: m.HumanInTheLoopMiddleware({"find": True}),
    "review_reject": lambda: m.HumanInTheLoopMiddleware({"find": True}),
    "selector": lambda: m.LLMToolSelectorMiddleware(
        model=Helper(responses=['{"tools": ["find"]}', '{"tools": ["find", "now"]}'])
    ),
    "steering": lambda: m.SteeringMiddleware(),
    "summary": lambda: m.SummarizationMiddleware(says(), **LENGTHS),
    "summary_thread": lambda: m.SummarizationMiddleware(says(), **LENGTHS, keep_thread=False),
    "todo": lambda: m.TodoListMiddleware(),
    "tool_error": lambda: m.ToolErrorMiddleware(),
    "tool_limit": lambda: m.ToolCallLimitMiddleware(run_limit=2),
    "tool_limit_answer": lambda: m.ToolCallLimitMiddleware(run_limit=2, exit_behavior="answer"),
    "tool_limit_end": lambda: m.ToolCallLimitMiddleware(run_limit=2, exit_behavior="end"),
    "tool_search": lambda: m.ProviderToolSearchMiddleware(),
}
"""Stacks of built-ins, set up so that they act soon."""

ASK: Any = {"messages": [{"role": "user", "content": "What time is it?"}]}
DECISIONS = {
    "review_edit": {"type": "edit", "edited_action": {"name": "find", "args": {"query": "tea"}}},
    "review_reject": {"type": "reject", "message": "Not now."},
}


def script(tool: str) -> list[ProviderReply]:
    """Three turns with thoughts and calls, the last of a tool, and some more answers."""
    steps = []
    for number in range(3):
        calls = [{"name": "find", "args": {"query": f"{number}"}}, {"name": "now", "args": {}}]
        steps += [
            reply(f"Say {number}.", thinking=f"Mail ann@example.com {number}.", calls=calls),
            reply(thinking="Again.", calls=[{"name": tool, "args": {}}]),
            reply("Ask ann@example.com.", thinking="So."),
        ]
    return [*steps, *(reply("More.", thinking="Then.") for _ in range(12))]


def talk(agent: Any, decision: Any, streaming: bool) -> None:
    """Three turns. A run that ends with an error is a turn as well: the thread goes on."""
    for number in range(3):
        value: Any = {"messages": [{"role": "user", "content": f"Question {number}?"}]}
        with suppress(Exception):
            for _ in range(4):
                if streaming:
                    list(agent.stream(value, THREAD, stream_mode=["messages", "updates"]))
                else:
                    agent.invoke(value, THREAD)
                if not (waits := agent.get_state(THREAD).interrupts):
                    break
                requests = waits[0].value["action_requests"]
                value = Command(resume={"decisions": [decision] * len(requests)})


def agent_of(model: Any, member: Any) -> Any:
    return create_agent(
        model,
        [find, now, fails],
        system_prompt="Be brief.",
        middleware=member if isinstance(member, list) else [member],
        checkpointer=InMemorySaver(),
    )


def faults_of(kind: str, stack: str, streaming: bool) -> list[str]:
    """The rules that the requests of a stack break."""
    tool = "fails" if stack in ("crash", "tool_error") else "now"
    with KINDS[kind].server(script(tool), strict=False) as server:
        agent = agent_of(KINDS[kind].model(server, streaming), STACKS[stack]())
        talk(agent, DECISIONS.get(stack, {"type": "approve"}), streaming)
        assert len(server.requests) > 2
        return rule_names(server)


@pytest.mark.night
@pytest.mark.filterwarnings("ignore")  # the packages warn of models, the stacks of their order
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", KINDS)
def test_requests_of_a_stack_keep_the_rules(kind: str, streaming: bool) -> None:
    report = {}
    for stack in STACKS:
        if rules := set(faults_of(kind, stack, streaming)) - {*BROKEN.get(kind, ())}:
            report[stack] = rules
    assert report == {}


@pytest.mark.night
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", KINDS)
def test_a_fallback_in_the_middle_of_a_run_keeps_the_rules(first: str) -> None:
    report = {}
    for second in KINDS:
        # The first model calls and fails, the second calls, and the first ends the run.
        call = reply("I look.", thinking="Where?", calls=[{"name": "now", "args": {}}])
        script = [call, error("overloaded"), "Done."]
        with (
            KINDS[first].server(script, strict=False) as one,
            KINDS[second].server([call], strict=False) as other,
        ):
            models = [KINDS[first].model(one, False), KINDS[second].model(other, False)]
            agent = agent_of(models[0], m.ModelFallbackMiddleware(models[1]))
            assert agent.invoke(ASK, THREAD)["messages"][-1].text == "Done."
            rules = set()
            for kind, server in ((first, one), (second, other)):
                rules |= {*rule_names(server)} - {*BROKEN.get(kind, ())}
            if rules:
                report[second] = rules
    assert report == {}
