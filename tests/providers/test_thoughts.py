"""Thoughts that a model binds to the conversation before them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage
from stack_agents import kept_agent
from thinking_claude import ThinkingClaude, thoughts_in

from agent_factory import dynamic_prompt, wrap_model_call
from agent_factory import middleware as m
from agent_factory.providers.thoughts import preserves_thoughts, with_valid_thoughts
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, last_text
from tables import each


def look(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def now() -> str:
    """Say the time."""
    return "12:00"


def looking(*words: str) -> list[Any]:
    return [{"name": "look", "args": {"q": word}, "id": word} for word in words]


def agent_of(model: Any, *stack: Any) -> Any:
    return kept_agent(model, *stack, tools=[look, now], system_prompt="Be brief.")


@each(
    "name, preserves",
    [
        ("claude-opus-5-5-20260922", True),
        ("us.anthropic.claude-sonnet-5-5-v1:0", True),
        ("anthropic/claude-haiku-5.5", True),
        ("claude-fable-5-1", True),
        ("claude-mythos-5-1", True),
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
        call(agent, {"messages": question}, THREAD)
    assert [len(thoughts_in(request.messages)) for request in model.requests] == [0, 1, 2, 3, 4]


MARKED = {"type": "text", "text": "Hi", "cache_control": {}, "index": 0}


@each(
    "content, args, kept",
    [
        ([MARKED], {"r": 2, "q": 1}, True),
        ([{**MARKED, "text": "Ho"}], {"q": 1, "r": 2}, False),
        ("Hi", {"q": 2, "r": 1}, False),
    ],
)
def test_thoughts_are_bound_to_contents_and_calls(content: Any, args: Any, kept: bool) -> None:
    call: Any = {"name": "look", "args": {"q": 1, "r": 2}, "id": "a"}
    before = [HumanMessage("Hi"), AIMessage("", tool_calls=[call])]
    conversation = with_valid_thoughts(before, [], None)[1]
    answer = conversation.stamped(AIMessage([{"type": "thinking", "signature": "s"}, "Well."]))
    asked = AIMessage([{"type": "tool_use", "id": "a"}], tool_calls=[{**call, "args": args}])
    later = [HumanMessage(content), asked, answer]
    sent: Any = with_valid_thoughts(later, [], None)[0]
    assert (len(thoughts_in(sent)) == 1) is (sent is later) is kept


def test_a_thread_of_an_earlier_version_goes_on(call: Any) -> None:
    """Its thoughts have no stamp, so that nobody knows the beginning that they are bound to."""
    model = ThinkingClaude(steps=["One.", "Two."])
    agent = agent_of(model)
    result = call(agent, {"messages": "1?"}, THREAD)
    answer = result["messages"][-1].model_copy(update={"response_metadata": {}})
    agent.update_state(THREAD, {"messages": [answer]})
    assert last_text(call(agent, {"messages": "2?"}, THREAD)) == "Two."
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
@each("chain", ["none", "Claude first", "Claude second"])
def test_middleware_that_changes_a_beginning_loses_thoughts_and_no_request(
    name: str, chain: str, call: Any
) -> None:
    claude: Any = ThinkingClaude(
        steps=[*map(looking, "abc"), "One.", *map(looking, "de"), "Two.", "Three."]
    )
    broken: Any = ScriptedChatModel([OSError()] * 9)
    first, second = (broken, claude) if chain == "Claude second" else (claude, broken)
    agent = agent_of(claude if chain == "none" else first.with_fallbacks([second]), STACKS[name]())
    for question in ("1?", "2?"):
        result = call(agent, {"messages": question}, THREAD)
    assert isinstance(result["messages"][-1], AIMessage)
    assert len(claude.requests) >= 4


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
    agent.invoke({"messages": "0?"}, THREAD)
    for kind, at in changes:
        messages = agent.get_state(THREAD).values["messages"]
        message = messages[at % len(messages)]
        if kind in values:
            values[kind] = at % 3
        elif kind == "edit":
            text = message.model_copy(update={"content": f"{message.text}!"})
            agent.update_state(THREAD, {"messages": [text]})
        elif kind == "remove":
            agent.update_state(THREAD, {"messages": [RemoveMessage(id=message.id)]})
        agent.invoke({"messages": "Next?"}, THREAD)
        if kind == "nothing":
            before, sent = (thoughts_in(r.messages) for r in model.requests[-2:])
            assert sent == [*before, *thoughts_in([messages[-1]])]
