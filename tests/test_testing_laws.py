"""Laws a product can hold its middleware to: kept by what is well made, and broken by the rest."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

from agent_factory import AgentMiddleware, AgentState, create_agent
from agent_factory.errors import ArgumentError
from agent_factory.middleware import TodoListMiddleware
from agent_factory.testing import (
    LAWS,
    InvalidHistory,
    LawViolation,
    ScriptedChatModel,
    assert_valid_history,
    both_ways,
    check_middleware,
    strategies,
)
from agent_factory.topology import Phase
from samples import Ends, Inconsistent
from tables import each

few = settings(
    max_examples=10, suppress_health_check=list(HealthCheck), deadline=None, derandomize=True
)


class Good(AgentMiddleware):
    """One hook, and a layer of each kind."""

    def before_model(self, state: Any, runtime: Any) -> None: ...

    async def aafter_model(self, state: Any, runtime: Any) -> None: ...

    def around_model(self, request: Any) -> Any:
        return (yield request)

    def around_tool(self, request: Any) -> Any:
        return (yield request)


@each("law", LAWS)
def test_a_well_made_middleware_keeps_each_law(law: str) -> None:
    check_middleware(Good, laws=[law], max_examples=3)


@pytest.mark.long
def test_a_built_in_keeps_all_laws() -> None:
    check_middleware(TodoListMiddleware, max_examples=2)


class Counting(AgentMiddleware):
    def __init__(self) -> None:
        self.count = 0

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        self.count += 1
        return {"messages": [HumanMessage(f"Run {self.count}")]}


class Meddling(AgentMiddleware):
    def after_agent(self, state: Any, runtime: Any) -> None:
        state["messages"].append(HumanMessage("lost"))


class Editing(AgentMiddleware):
    """Changes a message itself, which hooks share with the thread."""

    def before_model(self, state: Any, runtime: Any) -> None:
        state["messages"][-1].content = "edited"


class Pushing(AgentMiddleware):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        request.messages.append(HumanMessage("pushed"))
        return handler(request)


class Filing(AgentMiddleware):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        request.state["messages"].append(HumanMessage("filed"))
        return await handler(request)


class Disarming(AgentMiddleware):
    def around_model(self, request: Any) -> Any:
        request.tools.clear()
        return (yield request)


class Late(AgentMiddleware):
    def around_tool(self, request: Any) -> Any:
        result = yield request
        request.tool_call["args"]["late"] = True
        return result


class Chatty(AgentMiddleware):
    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [AIMessage("Was that helpful?")]}


class Deaf(AgentMiddleware):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except Exception:
            return AIMessage("Sorry.")


class Stubborn(AgentMiddleware):
    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except Exception:
            return handler(request)


class Cutting(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        answers = [m for m in state["messages"] if isinstance(m, ToolMessage)]
        return {"messages": [RemoveMessage(id=str(answers[0].id))]} if answers else None


class Confusing(AgentMiddleware):
    def around_tool(self, request: Any) -> Any:
        yield request
        return ToolMessage("Done.", tool_call_id="another")


@each(
    "make, law, words",
    [
        (
            Inconsistent,
            "sync_equals_async",
            r"Inconsistent.before_model: .*'blue' in the synchronous",
        ),
        (Counting, "idempotent", r"run twice on one state: .*'Run 1' the first time, 'Run 2'"),
        (Editing, "leaves_states_alone", r"Editing\.before_model: it changed its state in place"),
        (
            Pushing,
            "leaves_states_alone",
            r"Pushing\.\w+: it changed its request .*: messages",
        ),
        (Filing, "leaves_states_alone", r"Filing\.\w+: it changed its state in place: messages"),
        (Disarming, "leaves_states_alone", r"Disarming\.\w+: it changed its request .*: tools"),
        (Meddling, "leaves_states_alone", r"changed its state in place: messages\[\d\]: nothing b"),
        (
            Late,
            "leaves_states_alone",
            r"Late\.\w+: it changed its tool call in place: args",
        ),
        (Chatty, "leaves_agents_alone", r"messages\[4\]: nothing without it, .* with it"),
        (Deaf, "passes_interrupts", r"Deaf.wrap_model_call: it swallowed an interrupt"),
        (Stubborn, "passes_interrupts", r"it asked 2 times before it let an interrupt pass"),
        (Cutting, "keeps_histories_valid", r"Cutting.before_model: messages\[1\] calls search"),
        (Ends, "keeps_histories_valid", r"nothing answers it before the end"),
        (Confusing, "keeps_histories_valid", r"nothing answers it before the end|'another'"),
    ],
)
def test_a_broken_law_says_which_where_and_on_what(make: Any, law: str, words: str) -> None:
    with pytest.raises(LawViolation, match=words) as caught:
        check_middleware(make, laws=[law], max_examples=20, states=SMALL.get(make))
    assert str(caught.value).startswith(f"{law}: {make.__name__}")


# Shrinking from states that are small anyhow takes no time.
SMALL: dict[Any, Any] = {
    make: strategies.states(messages=strategies.messages(phase, max_turns=0))
    for make, phase in (
        (Inconsistent, "before_agent"),
        (Counting, "before_agent"),
        (Meddling, "after_agent"),
        (Cutting, "before_model"),
        (Ends, "after_model"),
    )
}


@each(
    "args, kwargs, words",
    [
        ((Good(),), {}, r"Pass the class, or lambda"),
        ((lambda: 5,), {}, r"must be an AgentMiddleware, got int"),
        ((Good,), {"laws": ["gravity"]}, r"gravity: is not a law. The laws are sync_equals_async"),
    ],
)
def test_invalid_arguments_of_check_middleware_are_refused(
    args: Any, kwargs: Any, words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        check_middleware(*args, **kwargs)


def test_the_context_reaches_the_hooks_and_a_law_can_be_left_out() -> None:
    contexts = []

    class Asking(Chatty):
        def before_model(self, state: Any, runtime: Any) -> None:
            contexts.append(runtime.context)

    options: Any = {"context": {"user": "Ada"}, "max_examples": 2}
    laws = ["idempotent", "leaves_agents_alone"]
    with pytest.raises(LawViolation):
        check_middleware(Asking, laws=laws, **options)
    contexts.clear()
    check_middleware(Asking, laws=laws, without=["leaves_agents_alone"], **options)
    assert contexts
    assert all(context == {"user": "Ada"} for context in contexts)


# --- strategies -----------------------------------------------------------------------------------


@few
@given(strategies.messages())
def test_histories_are_valid_except_for_pending_calls(history: Any) -> None:
    assert_valid_history(history, pending=True)


@each("phase", Phase)
def test_histories_end_as_at_their_phase(phase: Phase) -> None:
    ends = {
        Phase.BEFORE_AGENT: {"human"},
        Phase.BEFORE_MODEL: {"human", "tool"},
        Phase.AFTER_MODEL: {"ai"},
        Phase.AFTER_AGENT: {"ai"},
    }
    waiting: list[bool] = []

    @few
    @given(strategies.messages(phase, max_turns=1))
    def law(history: Any) -> None:
        assert history[-1].type in ends[phase]
        try:
            assert_valid_history(history)
            waiting.append(False)
        except InvalidHistory:
            waiting.append(True)

    law()
    assert any(waiting) == (phase is Phase.AFTER_MODEL)


class Counted(AgentState[Any]):
    count: int
    note: str


def test_states_have_the_keys_their_schema_requires() -> None:
    from hypothesis import strategies as st

    @few
    @given(strategies.states(Counted, count=st.integers(0, 5)))
    def law(state: Any) -> None:
        assert state.keys() == {"messages", "count", "note"}
        assert 0 <= state["count"] <= 5

    law()


@settings(few, max_examples=6)
@given(strategies.stacks())
def test_idle_stacks_do_not_change_an_answer(stack: Any) -> None:
    assert len({member.name for member in stack}) == len(stack)
    agent = create_agent(ScriptedChatModel(["Hi!"]), middleware=stack)
    assert both_ways(agent, {"messages": [("user", "Hi")]})["messages"][-1].text == "Hi!"


def test_stacks_of_given_members() -> None:
    @few
    @given(strategies.stacks({"good": Good}, max_size=1))
    def law(stack: Any) -> None:
        assert [type(member) for member in stack] in ([], [Good])

    law()


def test_without_hypothesis_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ImportError, match="the extra `testing`"):
        strategies.messages()


class _AroundRun(AgentMiddleware[Any, Any]):
    def around_agent(self, state: Any, resumed: bool) -> Any:
        return (yield state)


class _NeverGoesOn(_AroundRun):
    def around_agent(self, state: Any, resumed: bool) -> Any:
        if resumed:
            raise KeyError("gone")
        return (yield state)


class _WritesInPlace(_AroundRun):
    def around_agent(self, state: Any, resumed: bool) -> Any:
        state["messages"][-1].content = "other"
        return (yield state)


class _LeavesCalls(_AroundRun):
    def around_agent(self, state: Any, resumed: bool) -> Any:
        yield state
        call = {"name": "search", "args": {}, "id": "call_9"}
        return {"messages": [AIMessage("", tool_calls=[call])]}


@each(
    "kind, words",
    [
        (_NeverGoesOn, "passes_interrupts: _NeverGoesOn.around_agent: it could not go on after a"),
        (_WritesInPlace, "leaves_states_alone: _WritesInPlace.around_agent: it changed its mess"),
        (_LeavesCalls, "keeps_histories_valid: _LeavesCalls.around_agent"),
    ],
)
def test_a_layer_around_a_run_keeps_the_laws_too(kind: Any, words: str) -> None:
    check_middleware(_AroundRun, max_examples=3)
    with pytest.raises(LawViolation) as broken:
        check_middleware(kind, laws=[words.partition(":")[0]], max_examples=5)
    assert words in str(broken.value)
