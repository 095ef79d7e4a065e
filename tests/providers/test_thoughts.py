"""Thoughts that a model binds to the conversation before them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, RemoveMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from thinking_claude import ThinkingClaude, thoughts_in

from agent_factory import create_agent, dynamic_prompt, wrap_model_call
from agent_factory import middleware as m
from agent_factory.providers.thoughts import preserves_thoughts
from agent_factory.testing import ScriptedChatModel
from samples import last_text
from tables import each

ONE: Any = {"configurable": {"thread_id": "1"}}


def look(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def now() -> str:
    """Say the time."""
    return "12:00"


def looking(*words: str) -> list[Any]:
    return [{"name": "look", "args": {"q": word}, "id": word} for word in words]


def agent_of(model: Any, *stack: Any) -> Any:
    return create_agent(
        model,
        [look, now],
        system_prompt="Be brief.",
        middleware=stack,
        checkpointer=InMemorySaver(),
    )


@each(
    "name, preserves",
    [
        ("claude-opus-5-5-20260922", True),
        ("us.anthropic.claude-sonnet-5-5-v1:0", True),
        ("anthropic/claude-haiku-5.5", True),
        ("claude-fable-5-1", True),
        ("claude-opus-6", True),
        ("claude-fable-5", False),
        ("claude-opus-5", False),
        ("claude-sonnet-4-5-20250929", False),
        ("claude-opus-4-20250514", False),
        ("claude-3-7-sonnet-latest", False),
        ("gpt-5.5", False),
        (None, False),
    ],
)
def test_a_model_with_preserved_thinking_is_known_by_its_version(
    name: Any, preserves: bool
) -> None:
    assert preserves_thoughts(name) is preserves


def test_thoughts_stay_where_a_conversation_only_grows(call: Any) -> None:
    model = ThinkingClaude(steps=[looking("a"), looking("b"), "One.", looking("c"), "Two."])
    agent = agent_of(model)
    for question in ("1?", "2?"):
        call(agent, {"messages": question}, ONE)
    assert [len(thoughts_in(request.messages)) for request in model.requests] == [0, 1, 2, 3, 4]


def test_a_thread_of_an_earlier_version_goes_on(call: Any) -> None:
    """Its thoughts have no stamp, so that nobody knows the beginning that they are bound to."""
    model = ThinkingClaude(steps=["One.", "Two."])
    agent = agent_of(model)
    result = call(agent, {"messages": "1?"}, ONE)
    answer = result["messages"][-1].model_copy(update={"response_metadata": {}})
    agent.update_state(ONE, {"messages": [answer]})
    assert last_text(call(agent, {"messages": "2?"}, ONE)) == "Two."
    assert thoughts_in(model.requests[-1].messages) == []


@dynamic_prompt
def counting(request: Any) -> str:
    return f"Request {len(request.messages)}."


@wrap_model_call
def clock(request: Any) -> Any:
    *before, last = request.messages
    shown = last.model_copy(update={"content": f"{last.text} It is {len(before)} o'clock."})
    return (yield request.override(messages=[*before, shown]))


@wrap_model_call
def alternating_tools(request: Any) -> Any:
    tools = request.tools[: 1 + len(request.messages) % 2]
    return (yield request.override(tools=tools))


STACKS: dict[str, Any] = {
    "summary": lambda: m.SummarizationMiddleware(
        ScriptedChatModel(["S"] * 9), trigger=("messages", 4), keep=("messages", 3)
    ),
    "cleared results": lambda: m.ContextEditingMiddleware(
        edits=[m.ClearToolUsesEdit(trigger=1, keep=1)], keep_thread=True
    ),
    "remark": lambda: clock,
    "prompt": lambda: counting,
    "tools": lambda: alternating_tools,
    "last answer": lambda: m.ModelCallLimitMiddleware(run_limit=2, exit_behavior="answer"),
    "budget": lambda: m.BudgetMiddleware(run=m.Limits(turns=4), warn_at=0.3),
}


@each("name", list(STACKS))
def test_middleware_that_changes_a_beginning_loses_thoughts_and_no_request(
    name: str, call: Any
) -> None:
    model = ThinkingClaude(
        steps=[*map(looking, "abc"), "One.", *map(looking, "de"), "Two.", "Three."]
    )
    agent = agent_of(model, STACKS[name]())
    for question in ("1?", "2?"):
        result = call(agent, {"messages": question}, ONE)
    assert isinstance(result["messages"][-1], AIMessage)
    assert len(model.requests) >= 4


edits = st.sampled_from(["edit", "remove", "prompt", "tools", "nothing"])


@settings.get_profile("costly")
@given(st.lists(st.tuples(edits, st.integers(0, 7)), min_size=1, max_size=6))
def test_no_edit_makes_a_thread_invalid(changes: list[tuple[str, int]]) -> None:
    """The model refuses nothing after any edit between turns, and no edit loses no thought."""
    values = {"prompt": 0, "tools": 2}

    @wrap_model_call
    def layer(request: Any) -> Any:
        prompt = SystemMessage(f"P{values['prompt']}")
        tools = request.tools[: values["tools"]]
        return (yield request.override(system_message=prompt, tools=tools))

    model = ThinkingClaude(steps=["Answer."] * (len(changes) + 1))
    agent = agent_of(model, layer)
    agent.invoke({"messages": "0?"}, ONE)
    for kind, at in changes:
        messages = agent.get_state(ONE).values["messages"]
        message = messages[at % len(messages)]
        if kind in values:
            values[kind] = at % 3
        elif kind == "edit":
            text = message.model_copy(update={"content": f"{message.text}!"})
            agent.update_state(ONE, {"messages": [text]})
        elif kind == "remove":
            agent.update_state(ONE, {"messages": [RemoveMessage(id=message.id)]})
        agent.invoke({"messages": "Next?"}, ONE)
        if kind == "nothing":
            before, sent = (thoughts_in(r.messages) for r in model.requests[-2:])
            assert sent == [*before, *thoughts_in([messages[-1]])]
