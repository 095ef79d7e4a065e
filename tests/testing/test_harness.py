"""A single hook or layer in a real run, valid histories, and the laws of a middleware."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from stack_agents import kept_agent

from agent_factory import AgentMiddleware, SpecError, TurnError, create_agent, hook_config
from agent_factory.errors import ArgumentError
from agent_factory.middleware import TodoListMiddleware
from agent_factory.testing import (
    LAWS,
    InvalidHistory,
    LawViolation,
    ScriptedChatModel,
    ScriptError,
    arun_hook,
    arun_layer,
    assert_valid_history,
    both_ways,
    check_middleware,
    run_hook,
    run_layer,
    strategies,
)
from agent_factory.topology import Phase
from agent_factory.types import AgentState, ExtendedModelResponse, ModelRequest, ModelResponse
from samples import Ends, Inconsistent, PassingFlows, add
from tables import each


class Numbered(AgentState[Any]):
    """A state with a number."""

    count: int


class Guard(AgentMiddleware[Numbered, Any]):
    state_schema = Numbered

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        if runtime.context == "stop":
            return {"jump_to": "end"}
        assert runtime.store is not None
        runtime.store.put(("seen",), "last", {"text": state["messages"][-1].text})
        return {"count": state.get("count", 0) + 1}

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [HumanMessage(f"You said {interrupt('May I?')}")]}

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"unknown": 1}


class Twice(AgentMiddleware):
    def around_model(self, request: Any) -> Any:
        try:
            return (yield request)
        except ValueError:
            return (yield request.override(system_prompt="Try harder."))

    def around_tool(self, request: Any) -> Any:
        answer = yield request
        return answer.model_copy(update={"content": f"{answer.content}!"})


# --- hooks ----------------------------------------------------------------------------------------


def test_a_hook_gives_its_update_and_sees_context_store_and_messages(sync_or_async: Any) -> None:
    store = InMemoryStore()
    state = {"messages": "Hello", "count": 2}
    assert sync_or_async.run_hook(Guard(), "before_model", state, store=store) == {"count": 3}
    item = store.get(("seen",), "last")
    assert item is not None
    assert item.value == {"text": "Hello"}
    stopped = sync_or_async.run_hook(Guard(), "before_model", "Hi", context="stop")
    assert stopped == {"jump_to": "end"}


def test_an_interrupt_is_raised_or_answered(sync_or_async: Any) -> None:
    with pytest.raises(GraphInterrupt, match=r"May I\?"):
        sync_or_async.run_hook(Guard(), "after_model", "Hi")
    update = sync_or_async.run_hook(Guard(), "after_model", "Hi", resume=["yes"])
    assert update["messages"][0].text == "You said yes"


def test_a_hook_is_checked_as_in_an_agent(sync_or_async: Any) -> None:
    with pytest.raises(TurnError, match="'unknown'"):
        sync_or_async.run_hook(Guard(), "after_agent")


@each(
    "hook, words",
    [
        ("before_agent", "is not defined, so it never runs. It has before_model"),
        ("before_modle", "is not a node hook"),
        ("abefore_model", "Pass 'before_model'"),
        ("wrap_model_call", "for a layer, use run_layer"),
    ],
)
def test_a_missing_hook_is_named(hook: str, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        run_hook(Guard(), hook)


def test_invalid_middleware_and_messages_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"Pass an instance: Guard\(\)"):
        run_hook(Guard, "before_model")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="must be messages"):
        run_hook(Guard(), "before_model", [object()])

    class Misspelt(AgentMiddleware):
        def before_modle(self, state: Any, runtime: Any) -> None: ...

    with pytest.raises(SpecError, match="Did you mean before_model"):
        run_hook(Misspelt(), "before_model")


async def test_an_async_hook_runs_while_an_event_loop_runs() -> None:
    class Slow(AgentMiddleware):
        async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"messages": ["slowly"]}

    assert await arun_hook(Slow(), "before_model") == {"messages": ["slowly"]}
    with pytest.raises(TypeError, match="No synchronous function"):
        run_hook(Slow(), "before_model")


# --- layers ---------------------------------------------------------------------------------------


def test_a_layer_returns_its_response_and_its_inner_requests(sync_or_async: Any) -> None:
    run = sync_or_async.run_layer(Twice(), "Hi", [ValueError("no"), "Yes."], call="model")
    assert run.text == "Yes."
    assert [request.system_prompt for request in run.asked] == [None, "Try harder."]


def test_a_tool_layer_receives_a_call(sync_or_async: Any) -> None:
    call = {"name": "add", "args": {"a": 1}, "id": "mine"}
    run = sync_or_async.run_layer(Twice(), call, "3", call="tool")
    assert (run.text, run.response.tool_call_id) == ("3!", "mine")
    assert run.asked[0].runtime.tool_call_id == "mine"
    assert_valid_history([*run.asked[0].state["messages"], run.response])


async def test_the_handler_may_be_a_function_or_a_coroutine_function() -> None:
    async def answer(request: Any) -> str:
        await asyncio.sleep(0)
        return "later"

    run = run_layer(Twice(), "Hi", lambda request: request.messages[0].text.upper(), call="model")
    assert run.text == "HI"
    assert (await arun_layer(Twice(), "Hi", answer, call="model")).text == "later"


def test_commands_of_a_layer_are_kept(sync_or_async: Any) -> None:
    class Noting(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            response = yield request
            return ExtendedModelResponse(response, Command(update={"note": 1}))

    assert sync_or_async.run_layer(Noting()).commands == (Command(update={"note": 1}),)


def test_a_given_request_is_not_changed() -> None:
    request: ModelRequest[Any] = ModelRequest(
        model=ScriptedChatModel(), messages=[HumanMessage("Hi")], system_prompt="Be brief."
    )
    run = run_layer(Twice(), request, ModelResponse([AIMessage("Hi.")]), call="model")
    assert run.asked[0].system_prompt == "Be brief."
    assert run.asked[0].runtime is not None


def test_more_inner_requests_than_answers_fail() -> None:
    with pytest.raises(ScriptError, match="handler has no answer for request 2 inward; it has 1"):
        run_layer(Twice(), "Hi", [ValueError("no")], call="model")


@each(
    "middleware, call, words",
    [
        (Guard(), None, "It has none; for a hook, use run_hook"),
        (Twice(), None, "Choose one of them: call='model', call='tool'"),
        (Twice(), "run", "must be one of 'agent', 'model', 'tool'"),
    ],
)
def test_a_missing_layer_is_named(middleware: Any, call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        run_layer(middleware, call=call)


@pytest.mark.parametrize(("call", "request_"), [("model", {"name": "x"}), ("tool", "add")])
def test_an_invalid_request_is_refused(call: str, request_: Any) -> None:
    with pytest.raises(ArgumentError, match="request"):
        run_layer(Twice(), request_, call=call)


# --- sync and async -------------------------------------------------------------------------------


def test_both_ways_reports_a_hook_that_differs_and_ignores_ids() -> None:
    with pytest.raises(
        AssertionError, match=r"messages\[0\].content: 'blue' in the synchronous run, 'red' in"
    ):
        both_ways(run_hook, Inconsistent(), "before_model")

    model = ScriptedChatModel([[{"name": "add", "args": {"a": 1, "b": 2}}], "It is 3."])
    result = both_ways(create_agent(model, [add]), {"messages": [("user", "1 + 2?")]})
    assert result["messages"][-1].text == "It is 3."
    model.assert_done()
    inconsistent = create_agent(ScriptedChatModel(["Hi"]), middleware=[Inconsistent()])
    with pytest.raises(AssertionError, match=r"messages\[1\].content: 'blue'"):
        both_ways(inconsistent, {"messages": ["Hi"]})


def test_both_ways_continues_a_thread() -> None:
    agent = kept_agent(["One.", "Two."])
    config = {"configurable": {"thread_id": "mine"}}
    both_ways(agent, {"messages": [("user", "first")]}, config)
    result = both_ways(agent, {"messages": [("user", "second")]}, config=config)
    assert [m.text for m in result["messages"]] == ["first", "One.", "second", "Two."]


def test_both_ways_builds_an_agent_or_middleware_for_each_run() -> None:
    made: list[int] = []

    def build() -> Any:
        made.append(1)
        return create_agent(ScriptedChatModel(["Hi"]))

    both_ways(build, {"messages": [("user", "Hi")]})
    assert len(made) == 2
    assert both_ways(run_layer, Twice, "Hi", call="model").text == "Done."


def test_both_ways_raises_a_common_error_and_reports_an_error_of_one_run() -> None:
    with pytest.raises(ValueError, match="no"):
        both_ways(run_layer, Twice(), "Hi", ValueError("no"), call="model")

    class Sync(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request)

    with pytest.raises(AssertionError, match="in the asynchronous one it raised PathNotSupported"):
        both_ways(run_layer, Sync())
    with pytest.raises(TurnError, match="has no awrap_model_call"):
        asyncio.run(arun_layer(Sync()))
    with pytest.raises(GraphInterrupt):  # interrupts are compared by value
        both_ways(run_hook, Guard(), "after_model")


async def test_both_ways_works_while_an_event_loop_runs_on_what_has_invoke() -> None:
    assert both_ways(run_layer, Twice(), call="model").text == "Done."
    with pytest.raises(ArgumentError, match="must be an agent or a function that builds one"):
        both_ways(42)


# --- histories ------------------------------------------------------------------------------------

CALL: Any = {"name": "add", "args": {}, "id": "1"}
ASKS = AIMessage("", tool_calls=[CALL], id="a")
ANSWER = ToolMessage("5", tool_call_id="1", id="b")


@each(
    "messages, words",
    [
        ([ASKS], r"messages\[0\] calls add \(id '1'\) and nothing answers it before the end"),
        ([ASKS, HumanMessage("?"), ANSWER], r"nothing answers it before messages\[1\]"),
        ([ANSWER], r"messages\[0\] answers the call '1', which the AI message before it does not"),
        ([ASKS, ANSWER, ToolMessage("6", tool_call_id="1")], r"messages\[2\].*a second time"),
        ([ASKS, ANSWER, HumanMessage("?", id="a")], r"messages\[2\] has the id 'a' of messages\[0"),
        ([AIMessage("", tool_calls=[CALL, CALL])], "several calls with the id '1'"),
        ([AIMessage("", tool_calls=[{**CALL, "id": None}])], "calls add without an id"),
        (["Hello"], r"messages\[0\] must be a message, got str"),
    ],
)
def test_an_invalid_history_names_the_message_and_the_fix(messages: Any, words: str) -> None:
    with pytest.raises(InvalidHistory, match=words) as caught:
        assert_valid_history(messages)
    assert str(caught.value).count(". ") >= 1


def test_calls_of_the_last_turn_may_be_pending() -> None:
    assert_valid_history([HumanMessage("?"), ASKS], pending=True)
    assert_valid_history([HumanMessage("?"), ASKS, ANSWER, AIMessage("It is 5.")])
    unreadable: Any = {"name": "add", "args": "{", "id": "9", "error": None}
    with pytest.raises(InvalidHistory, match="'9'"):
        assert_valid_history([AIMessage("", invalid_tool_calls=[unreadable])])


class Polite(AgentMiddleware[Any, Any]):
    """Says goodbye at the end of a run, and sorry if it fails."""

    def around_agent(self, state: Any, resumed: bool) -> Any:
        try:
            yield state
        except ValueError as error:
            return {"messages": [AIMessage(f"Sorry: {error}")]}
        return {"messages": [AIMessage("Welcome back." if resumed else "Bye.")]}


def test_a_layer_around_a_run_is_run_alone() -> None:
    run = both_ways(run_layer, Polite(), "Hello")
    assert [message.text for message in run.response["messages"]] == ["Hello", "Done.", "Bye."]
    assert run.text == "Bye."
    assert [message.text for message in run.asked[0]["messages"]] == ["Hello"]
    assert both_ways(run_layer, Polite(), "Hello", ValueError("down")).text == "Sorry: down"


def test_a_layer_around_a_run_goes_on_after_answers() -> None:
    def handler(state: Any) -> str:
        return f"You said {interrupt('Well?')} to {state['messages'][0].text}."

    with pytest.raises(GraphInterrupt):
        both_ways(run_layer, Polite, "Hello", handler)
    run = run_layer(Polite(), "Hello", handler, resume=["yes"])
    assert run.response["messages"][1].text == "You said yes to Hello."
    assert run.text == "Welcome back."
    assert len(run.asked) == 2


def test_a_layer_around_a_run_gets_its_context_and_its_store() -> None:
    class Asks(AgentMiddleware[Any, Any]):
        def around_agent(self, state: Any, runtime: Any, store: Any) -> Any:
            yield state
            return {"messages": [AIMessage(f"{runtime.context} {store is runtime.store}")]}

    assert run_layer(Asks(), "Hello", context="Ann", store=InMemoryStore()).text == "Ann True"


few = settings(
    max_examples=10, suppress_health_check=list(HealthCheck), deadline=None, derandomize=True
)


class Good(PassingFlows, AgentMiddleware):
    """One hook, and a layer of each kind."""

    def before_model(self, state: Any, runtime: Any) -> None: ...

    async def aafter_model(self, state: Any, runtime: Any) -> None: ...

    def around_agent(self, state: Any, resumed: bool) -> Any:
        return (yield state)


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


class NeverGoesOn(AgentMiddleware):
    def around_agent(self, state: Any, resumed: bool) -> Any:
        if resumed:
            raise KeyError("gone")
        return (yield state)


class InPlace(AgentMiddleware):
    def around_agent(self, state: Any) -> Any:
        state["messages"][-1].content = "other"
        return (yield state)


class LeavesCalls(AgentMiddleware):
    def around_agent(self, state: Any) -> Any:
        yield state
        call = {"name": "search", "args": {}, "id": "call_9"}
        return {"messages": [AIMessage("", tool_calls=[call])]}


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
        (Pushing, "leaves_states_alone", r"Pushing\.\w+: it changed its request .*: messages"),
        (Filing, "leaves_states_alone", r"Filing\.\w+: it changed its state in place: messages"),
        (Meddling, "leaves_states_alone", r"changed its state in place: messages\[\d\]: nothing b"),
        (Late, "leaves_states_alone", r"Late\.\w+: it changed its tool call in place: args"),
        (Chatty, "leaves_agents_alone", r"messages\[4\]: nothing without it, .* with it"),
        (Deaf, "passes_interrupts", r"Deaf.wrap_model_call: it swallowed an interrupt"),
        (Stubborn, "passes_interrupts", r"it asked 2 times before it let an interrupt pass"),
        (Cutting, "keeps_histories_valid", r"Cutting.before_model: messages\[1\] calls search"),
        (Ends, "keeps_histories_valid", r"nothing answers it before the end"),
        (Confusing, "keeps_histories_valid", r"nothing answers it before the end|'another'"),
        (NeverGoesOn, "passes_interrupts", r"NeverGoesOn.around_agent: it could not go on after"),
        (InPlace, "leaves_states_alone", r"InPlace.around_agent: it changed its messages"),
        (LeavesCalls, "keeps_histories_valid", r"LeavesCalls.around_agent"),
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
