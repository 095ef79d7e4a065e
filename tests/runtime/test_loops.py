"""Loops without progress end, and so does a run whose recursion limit is too low for its calls."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from stack_agents import agent_of, kept_agent

from agent_factory import (
    AgentMiddleware,
    Decision,
    after_model,
    before_model,
    create_agent,
    hook_config,
    topology_of,
)
from agent_factory.errors import BadReturn, EndlessLoop
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.runtime.limits import MAX_FAILED_TURNS, MAX_JUMPS, MAX_UNREADABLE_TURNS
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import Answer, Number, add, add_tool, in_memory, last_text, tool_messages, tool_texts
from tables import each

GO: Any = {"messages": "Go"}
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
SCHEMA = {"title": "Answer", "type": "object", "properties": {"number": {"type": "integer"}}}


def unreadable(name: str = "add") -> AIMessage:
    call = {"name": name, "args": "{", "id": "b", "error": None, "type": "invalid_tool_call"}
    return AIMessage("", invalid_tool_calls=[call])


def asking(name: str, **args: Any) -> list[dict[str, Any]]:
    return [{"name": name, "args": args}]


@tool(return_direct=True)
def fail(reason: str = "") -> str:
    """Fail."""
    raise ValueError(f"failed {reason}")


def run(call: Any, steps: list[Any], *given: Any, **more: Any) -> tuple[Any, ScriptedChatModel]:
    """The result of a run, and the model with its requests."""
    model = ScriptedChatModel(steps)
    more = {"handle_tool_errors": True, **more}
    agent: Any = create_agent(model, more.pop("tools", [add, fail]), **more)
    return call(agent, *(given or [GO])), model


@pytest.fixture(params=[False, True, "turn"])
def fused(request: pytest.FixtureRequest) -> Any:
    return request.param


FORMATS: dict[str, Any] = {
    "none": None,
    "schema": Answer,
    "tool": ToolStrategy(SCHEMA),
    "provider": ProviderStrategy(SCHEMA),
}


@each("format_", FORMATS.values())
def test_unreadable_calls_of_a_model_end_the_run(call: Any, fused: Any, format_: Any) -> None:
    steps = [unreadable()] * 20
    result, model = run(call, steps, fused=fused, response_format=format_)
    assert len(model.requests) == MAX_UNREADABLE_TURNS == 4
    assert [m.type for m in result["messages"]] == ["human", *["ai", "tool"] * 4, "ai"]
    assert last_text(result) == (
        "The run ended: the model's calls of add could not be read, 4 times in a row."
    )
    assert result.get("structured_response") is None


@each(
    "steps, turns, last",
    [
        ([asking("ghost"), asking("ghost1")] * 10, MAX_FAILED_TURNS, "ghost1"),
        ([unreadable(), asking("ghost")] * 10, MAX_FAILED_TURNS, "ghost"),
        # The first is an attempt like any other, so that its repetitions count.
        ([asking("fail")] * 20, 1 + MAX_FAILED_TURNS, "fail"),
        ([asking("add", a="x")] * 20, 1 + MAX_FAILED_TURNS, "add"),
    ],
)
def test_a_model_that_makes_only_mistakes_is_not_asked_for_ever(
    call: Any, fused: Any, steps: Any, turns: int, last: str
) -> None:
    result, model = run(call, steps, fused=fused)
    assert len(model.requests) == turns
    assert last_text(result) == (
        f"The run ended: 10 turns in a row brought only errors, the last from calls of {last}."
    )


SUM = {"name": "add", "args": {"a": 1, "b": 2}}


@each(
    "steps",
    [
        [asking("fail", reason=str(i)) for i in range(30)],
        [[SUM]] * 50,
        [[{**SUM, "name": "ghost"}, SUM]] * 20,
        [[SUM, {**SUM, "name": "ghost"}]] * 20,
        [*[unreadable()] * 3, [SUM], *[unreadable()] * 3],
    ],
)
def test_turns_with_a_result_or_a_new_error_are_not_limited(
    call: Any, fused: Any, steps: Any
) -> None:
    assert last_text(run(call, [*steps, "Done"], fused=fused)[0]) == "Done"


def test_a_new_message_of_the_user_resets_the_count(call: Any, fused: Any) -> None:
    agent = kept_agent([*[unreadable()] * 7, "Done"], tools=[add], fused=fused)
    assert "could not be read" in last_text(call(agent, GO, THREAD))
    assert last_text(call(agent, GO, THREAD)) == "Done"


def test_a_run_that_broke_off_does_not_count_for_the_next_one(call: Any) -> None:
    steps = [*[unreadable()] * 3, ValueError("down"), *[unreadable()] * 3, "Done"]
    agent = create_agent(ScriptedChatModel(steps), [add], checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="down"):
        call(agent, GO, THREAD)
    assert last_text(call(agent, GO, THREAD)) == "Done"


def test_an_unknown_tool_that_a_layer_runs_is_not_an_error(call: Any) -> None:
    class Runs(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            return (yield request.override(tool=add_it, tool_call=renamed(request.tool_call)))

    add_it = tool(add)

    def renamed(given: Any) -> Any:
        return {**given, "name": "add", "args": {"a": 1, "b": 2}}

    result, _ = run(call, [*[asking("ghost")] * 20, "Done"], middleware=[Runs()])
    assert last_text(result) == "Done"


def test_an_agent_without_tools_does_not_ask_again(call: Any) -> None:
    result, model = run(call, [unreadable()], tools=[])
    assert len(model.requests) == 1
    assert "not a valid tool" in last_text(result)


def test_the_hooks_after_the_model_see_the_message_that_ends_the_run(call: Any, fused: Any) -> None:
    seen = []

    class Sees(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> None:
            seen.append(state["messages"][-1].text)

        def around_model(self, request: Any) -> Any:
            return (yield request)

    run(call, [unreadable()] * 20, middleware=[Sees()], fused=fused)
    assert [bool(text) for text in seen] == [False] * 4 + [True]


def test_the_end_is_recorded_and_in_the_plan(call: Any) -> None:
    log: list[Decision] = []
    model = ScriptedChatModel([unreadable()] * 20)
    agent = create_agent(model, [add], decisions=log.append, name="desk")
    assert call(agent, GO)["messages"][-1].name == "desk"
    skipped = [d for d in log if d.outcome == "skipped"]
    reason = "the model's calls of add could not be read, 4 times in a row"
    assert [(d.hook, d.reason) for d in skipped] == [("model", reason)]
    assert [d.reason for d in log if d.outcome == "routed"][-1] == "only errors"
    assert "only errors" in {str(r) for t in topology_of(agent).transitions for r in t.reasons}


class Still(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> None:
        """Do nothing, in front of a hook that jumps back."""


def jumper(hook: str) -> AgentMiddleware:
    def jump(self: Any, state: Any, runtime: Any) -> Any:
        return {"jump_to": "model"}

    declared = hook_config(can_jump_to=["model"])(jump)
    made: AgentMiddleware = type("Jumper", (AgentMiddleware,), {hook: declared})()
    return made


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@each(
    "hook, tools, fused",
    [
        ("before_model", [add], False),
        ("before_model", [], "turn"),
        ("after_model", [], False),
        ("after_model", [add], True),
        ("after_agent", [], True),
    ],
)
def test_a_hook_that_loops_is_named(call: Any, fused: Any, hook: str, tools: list[Any]) -> None:
    model = ScriptedChatModel(["Hi"] * (MAX_JUMPS + 5))
    agent = create_agent(model, tools, middleware=[Still(), jumper(hook)], fused=fused)
    with pytest.raises(EndlessLoop) as caught:
        call(agent, GO)
    assert caught.value.subject == f"Jumper.{hook}"
    assert f"{MAX_JUMPS} times" in caught.value.reason
    assert len(model.requests) == (0 if hook == "before_model" else MAX_JUMPS)


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
def test_an_async_hook_and_a_command_are_counted_too() -> None:
    class Jumper(AgentMiddleware):
        @hook_config(can_jump_to=["model"])
        async def abefore_model(self, state: Any, runtime: Any) -> Any:
            return Command(update={"jump_to": "model"})

    agent = create_agent(ScriptedChatModel([]), middleware=[Still(), Jumper()])
    with pytest.raises(EndlessLoop):
        asyncio.run(agent.ainvoke(GO))


def asks_again(times: int) -> AgentMiddleware:
    @after_model(can_jump_to=["model"])
    def again(state: Any, runtime: Any) -> Any:
        if len(state["messages"]) > 2 * times:
            return None
        return {"jump_to": "model", "messages": [HumanMessage("Again")]}

    return again


def test_a_hook_that_asks_the_same_and_gets_the_same_answer_is_named(call: Any) -> None:
    model = ScriptedChatModel(["Hi"] * (MAX_JUMPS + 5))
    agent = create_agent(model, middleware=[asks_again(1000)], fused=True)
    with pytest.raises(EndlessLoop, match="the model got nothing new"):
        call(agent, GO)
    assert len(model.requests) == MAX_JUMPS + 1
    for answers in (["Hi"] * 51, [str(number) for number in range(MAX_JUMPS + 25)]):
        model = ScriptedChatModel([*answers])
        hook = asks_again(len(answers) - 1)
        assert last_text(call(create_agent(model, middleware=[hook]), GO)) == answers[-1]
        model.assert_done()


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
def test_a_hook_that_asks_before_the_model_can_answer_is_named(call: Any) -> None:
    @before_model(can_jump_to=["model"])
    def again(state: Any, runtime: Any) -> Any:
        return {"jump_to": "model", "messages": [HumanMessage("Again")]}

    agent = create_agent(ScriptedChatModel([]), middleware=[Still(), again], fused=True)
    with pytest.raises(EndlessLoop, match="the model got nothing new"):
        call(agent, GO)


def test_the_jumps_of_each_run_count_alone() -> None:
    jumps = []

    class Twice(AgentMiddleware):
        @hook_config(can_jump_to=["model"])
        def after_model(self, state: Any, runtime: Any) -> Any:
            jumps.append(1)
            return {"jump_to": "model"} if len(jumps) % 2 else None

    agent = agent_of(ScriptedChatModel(["Hi"] * (2 * MAX_JUMPS + 10)), Twice())
    for _ in range(MAX_JUMPS + 5):
        agent.invoke({"messages": [HumanMessage("Go", id="1")]})
    assert len(jumps) == 2 * (MAX_JUMPS + 5)


class Unbounded(BaseException):
    """Ends a loop that nothing else ends."""


def insisting(method: str, request: Any, kind: type[BaseException]) -> Any:
    """A middleware whose flow passes something on until it works."""

    def flow(self: Any, given: Any) -> Any:
        while True:
            self.attempts += 1
            if self.attempts > 1000:
                raise Unbounded
            try:
                return (yield request or given)
            except GeneratorExit:
                raise
            except kind:
                continue

    names = {"around_agent": "state", "around_model": "request", "around_tool": "request"}
    flow.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for name in ("self", names[method])
        ]
    )
    return type("Insists", (AgentMiddleware,), {method: flow, "attempts": 0})()


@each("kind", [Exception, BaseException])
def test_a_layer_that_runs_the_agent_again_and_again_ends(call: Any, kind: Any) -> None:
    layer = insisting("around_agent", None, kind)
    with pytest.raises(BadReturn, match="ran the agent a second time"):
        run(call, [ConnectionError()] * 9, middleware=[layer])
    assert layer.attempts < 200


def test_a_layer_that_goes_on_after_a_pause_ends(call: Any) -> None:
    layer = insisting("around_agent", None, BaseException)
    saver, pause = InMemorySaver(), {"interrupt_before": ["model"]}
    result, _ = run(call, ["Hi"], GO, THREAD, middleware=[layer], checkpointer=saver, **pause)
    assert [m.text for m in result["messages"]] == ["Go"]
    assert layer.attempts < 200


@each("traced", [False, True])
@each("method", ["around_model", "around_tool"])
def test_a_layer_that_keeps_yielding_no_request_ends(call: Any, method: str, traced: bool) -> None:
    layer, callbacks = insisting(method, "no request", Exception), []
    if traced:
        callbacks = [RunCollectorCallbackHandler()]
    with pytest.raises(BadReturn, match="must call its handler with a"):
        run(call, [asking("add", a=1, b=2)], GO, {"callbacks": callbacks}, middleware=[layer])
    assert layer.attempts < 200


def test_a_layer_may_try_the_model_as_often_as_it_likes(call: Any) -> None:
    layer = insisting("around_model", None, ConnectionError)
    result, _ = run(call, [ConnectionError()] * 300 + ["Hi"], middleware=[layer])
    assert (last_text(result), layer.attempts) == ("Hi", 301)


EACH_WAY = each("fused", [False, True, "turn"])


show = tool("show", return_direct=True)(add)


class Hooks(AgentMiddleware):
    """Every hook. Some of them may write."""

    def __init__(self, name: str, *writing: str) -> None:
        super().__init__(name=name)
        self.writing = writing

    def note(self, hook: str) -> Any:
        return {"messages": [HumanMessage("Note.")]} if hook in self.writing else None

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return self.note("before_agent")

    def before_model(self, state: Any, runtime: Any) -> Any:
        return self.note("before_model")

    def after_model(self, state: Any, runtime: Any) -> Any:
        return None

    def after_agent(self, state: Any, runtime: Any) -> Any:
        return self.note("after_agent")


STACKS: dict[str, Any] = {
    "no hooks": lambda: [],
    "hooks": lambda: [Hooks("A")],
    "more hooks": lambda: [Hooks("A"), Hooks("B")],
    "hooks that write": lambda: [Hooks("A", "before_agent", "before_model", "after_agent")],
}
EACH_STACK = each("stack", STACKS)


def restless(name: str = "add", calls: int = 1) -> ScriptedChatModel:
    """A model that calls a tool in each turn."""
    return ScriptedChatModel(
        [
            [{"name": name, "args": {"a": turn, "b": n}, "id": f"{turn}-{n}"} for n in range(calls)]
            for turn in range(30)
        ]
    )


def limit(steps: int, **config: Any) -> Any:
    return {"recursion_limit": steps, **config}


def turns(result: Any) -> int:
    """The number of calls that ran."""
    return sum(message.status == "success" for message in tool_messages(result))


def least(run: Any, steps: int = 1) -> int:
    """The lowest limit with which a run ends."""
    while True:
        try:
            run(steps)
        except GraphRecursionError:
            steps += 1
        else:
            return steps


@settings.get_profile("costly")
@given(
    fused=st.sampled_from([False, True, "turn"]),
    stack=st.sampled_from(sorted(STACKS)),
    saver=st.booleans(),
    streamed=st.booleans(),
    is_async=st.booleans(),
)
def test_every_limit_that_allows_an_answer_ends_with_one(
    fused: Any, stack: str, saver: bool, streamed: bool, is_async: bool
) -> None:
    """From the lowest limit that allows an answer on."""

    def result_of(steps: int) -> Any:
        keeps: Any = {"checkpointer": InMemorySaver()} if saver else {}
        agent: Any = agent_of(restless(), *STACKS[stack](), tools=[add], fused=fused, **keeps)
        config = limit(steps, configurable={"thread_id": "1"})
        if not streamed:
            return asyncio.run(agent.ainvoke(GO, config)) if is_async else agent.invoke(GO, config)

        async def watch() -> Any:
            return [part async for part in agent.astream(GO, config, stream_mode="values")]

        parts = agent.stream(GO, config, stream_mode="values")
        return (asyncio.run(watch()) if is_async else [*parts])[-1]

    first = least(result_of)
    counts = []
    for steps in range(first, first + 10):
        result = result_of(steps)
        end = next(m for m in reversed(result["messages"]) if isinstance(m, AIMessage))
        assert end.text == (
            f"The run ended: its recursion limit of {steps} leaves too few steps for the calls "
            "of add."
        )
        counts.append(turns(result))
    assert counts == sorted(counts)
    assert (counts[0], counts[-1] > 0) == (0, True)


@EACH_STACK
def test_hook_by_hook_it_ends_as_late_as_possible(call: Any, stack: str) -> None:
    """LangGraph looks once more after the last step: a run of k steps needs a limit of k + 1."""
    number = {"no hooks": 0, "more hooks": 2}.get(stack, 1)
    turn, around = 2 + 2 * number, 2 * number  # hooks around the loop
    answer = 1 + 2 * number
    for steps in range(around + answer + 1, around + answer + 20):
        agent = create_agent(restless(), [add], middleware=STACKS[stack](), fused=False)
        assert turns(call(agent, GO, limit(steps))) == (steps - 1 - around - answer) // turn


@EACH_WAY
def test_the_work_is_kept_and_the_thread_goes_on(call: Any, fused: Any) -> None:
    saver: Any = InMemorySaver()
    thread: Any = {"configurable": {"thread_id": "1"}}
    calls = [{"name": "add", "args": {"a": 1, "b": n}, "id": f"c{n}"} for n in (1, 2)]
    model = ScriptedChatModel([calls, AIMessage("On it.", tool_calls=[{**calls[0], "id": "c3"}])])
    agent = create_agent(model, [add], checkpointer=saver, fused=fused)
    result = call(agent, GO, {**thread, **limit(4)})
    assert tool_texts(result) == [
        "2",
        "3",
        "Error: the run ended at its recursion limit, so this call did not run.",
    ]
    asked, refused, end = result["messages"][-3:]
    assert (asked.text, refused.tool_call_id, refused.status) == ("On it.", "c3", "error")
    assert end.additional_kwargs == refused.additional_kwargs == {"lc_source": "recursion_limit"}
    assert agent.get_state(thread).next == ()
    # The thread has had its steps: the limit is one of the run.
    again = create_agent(ScriptedChatModel(["Four."]), [add], checkpointer=saver, fused=fused)
    result = call(again, GO, {**thread, **limit(4)})
    assert [m.text for m in result["messages"][-2:]] == ["Go", "Four."]


@EACH_WAY
def test_a_limit_too_low_for_an_end_leaves_the_calls_to_the_next_run(call: Any, fused: Any) -> None:
    model = ScriptedChatModel([[{"name": "add", "args": {"a": 1, "b": 1}, "id": "1"}], "Two."])
    agent = create_agent(model, [add], checkpointer=InMemorySaver(), fused=fused)
    thread: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(GraphRecursionError):
        call(agent, GO, {**thread, **limit(1)})
    result = call(agent, None, thread)
    assert (tool_texts(result), result["messages"][-1].text) == (["2"], "Two.")


@EACH_WAY
def test_calls_whose_results_are_the_answer_need_fewer_steps(call: Any, fused: Any) -> None:
    for name, calls, ran in (("show", 1, 1), ("show", 2, 0), ("add", 1, 0)):
        agent = create_agent(restless(name, calls), [add, show], fused=fused)
        assert turns(call(agent, GO, limit(3))) == ran


@EACH_WAY
def test_an_answer_needs_no_more_steps_than_before(call: Any, fused: Any) -> None:
    agent = create_agent(ScriptedChatModel(["Hi"]), [add], fused=fused)
    assert call(agent, GO, limit(2))["messages"][-1].text == "Hi"


@EACH_WAY
def test_nobody_is_asked_about_calls_that_cannot_run(call: Any, fused: Any) -> None:
    agent = kept_agent(
        restless(), HumanInTheLoopMiddleware({"add": True}), tools=[add], fused=fused
    )
    result = call(agent, GO, limit(3, configurable={"thread_id": "1"}))
    assert "__interrupt__" not in result
    assert turns(result) == 0


@EACH_WAY
def test_calls_with_invalid_json_count_as_well(call: Any, fused: Any) -> None:
    broken = {"name": "add", "args": "{", "id": "1", "error": None, "type": "invalid_tool_call"}
    model = ScriptedChatModel([AIMessage("", invalid_tool_calls=[broken])])
    result = call(create_agent(model, [add], fused=fused), GO, limit(2))
    assert tool_messages(result)[0].text.startswith("Error: the run ended at its recursion limit")


@EACH_WAY
def test_an_answer_next_to_calls_without_steps_is_not_taken(call: Any, fused: Any) -> None:
    asked = [
        {"name": "add", "args": {"a": 1, "b": 1}, "id": "1"},
        {"name": "Number", "args": {"n": 3}, "id": "2"},
    ]
    agent = agent_of([asked], tools=[add], response_format=ToolStrategy(Number), fused=fused)
    assert call(agent, GO, limit(3))["structured_response"] is None


@EACH_WAY
def test_an_agent_in_a_graph_ends_with_an_answer_and_the_graph_goes_on(
    call: Any, fused: Any
) -> None:
    """Each graph counts its own steps, up to the limit of the run."""
    agent = create_agent(restless(), [add], fused=fused)
    graph = StateGraph(MessagesState).add_node("agent", agent)
    graph.add_node("after", lambda state: {"messages": [AIMessage("After.")]})
    graph.add_edge(START, "agent").add_edge("agent", "after")
    result = call(graph.compile(), GO, limit(5))
    assert [m.text for m in result["messages"][-2:]] == [
        "The run ended: its recursion limit of 5 leaves too few steps for the calls of add.",
        "After.",
    ]


@EACH_WAY
def test_the_decision_log_shows_the_end(call: Any, fused: Any) -> None:
    log: list[Any] = []
    call(create_agent(restless(), [add], decisions=log.append, fused=fused), GO, limit(3))
    skipped, reported, routed = (one for one in log if one.outcome != "passed")
    assert skipped.reason == "its recursion limit of 3 leaves too few steps for the calls of add"
    assert (reported.tool, reported.call_id, reported.detail) == ("add", "0-0", "recursion limit")
    assert (routed.detail, routed.reason) == ("__end__", "no calls left")


@EACH_WAY
def test_messages_of_the_end_are_streamed(collect: Any, fused: Any) -> None:
    agent = create_agent(restless(), [add], fused=fused)
    parts = collect(agent, GO, limit(3), stream_mode="messages")
    assert [m.text[:13] for m, _ in parts if isinstance(m, AIMessage | ToolMessage)][-2:] == [
        "Error: the ru",
        "The run ended",
    ]


def test_the_default_is_far_from_it(call: Any) -> None:
    assert create_agent(restless(), [add_tool]).config["recursion_limit"] == 9_999  # type: ignore[index]
    assert turns(call(create_agent(ScriptedChatModel(["Hi"]), [add]), GO, in_memory())) == 0
