"""Loops without progress end: turns that bring only errors, and hooks that jump in circles."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

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
from agent_factory.runtime.limits import MAX_FAILED_TURNS, MAX_JUMPS, MAX_UNREADABLE_TURNS
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import Answer, add, last_text
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
    model = ScriptedChatModel([*[unreadable()] * 7, "Done"])
    agent = create_agent(model, [add], checkpointer=InMemorySaver(), fused=fused)
    assert "could not be read" in last_text(call(agent, GO, THREAD))
    assert last_text(call(agent, GO, THREAD)) == "Done"


def test_a_run_that_broke_off_does_not_count_for_the_next_one(call: Any) -> None:
    steps = [*[unreadable()] * 3, ValueError("down"), *[unreadable()] * 3, "Done"]
    model = ScriptedChatModel(steps)
    agent = create_agent(model, [add], checkpointer=InMemorySaver())
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
    result = call(agent, GO)
    assert result["messages"][-1].name == "desk"
    skipped = [d for d in log if d.outcome == "skipped"]
    reason = "the model's calls of add could not be read, 4 times in a row"
    assert [(d.hook, d.reason) for d in skipped] == [("model", reason)]
    assert [d.reason for d in log if d.outcome == "routed"][-1] == "only errors"
    reasons = {str(r) for t in topology_of(agent).transitions for r in t.reasons}
    assert "only errors" in reasons


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

    model = ScriptedChatModel(["Hi"] * (2 * MAX_JUMPS + 10))
    agent = create_agent(model, middleware=[Twice()])
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
