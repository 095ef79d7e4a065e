"""A function becomes a middleware: its name, its slot, its options, and what it may not be."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any, NotRequired

import pytest
from langchain_core.messages import SystemMessage

from agent_factory import (
    AgentMiddleware,
    AgentState,
    after_agent,
    after_model,
    before_agent,
    before_model,
    create_agent,
    dynamic_prompt,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from agent_factory.errors import (
    AgentFactoryError,
    ArgumentError,
    BadReturn,
    PathNotSupported,
    UndeclaredJump,
)
from agent_factory.testing import ScriptedChatModel
from samples import add, adding
from tables import each

Decorate = Callable[..., Any]
ASK: Any = {"messages": [("user", "2 + 3?")]}
HOOKS = [before_agent, before_model, after_model, after_agent]
NAMES = ["before_agent", "before_model", "after_model", "after_agent"]
HOOK_AND_NAME = list(zip(HOOKS, NAMES, strict=True))
WRAPS = [wrap_model_call, wrap_tool_call]


class Counting(AgentState[Any]):
    calls: NotRequired[int]


@each("decorate, name", HOOK_AND_NAME)
def test_a_plain_function_becomes_the_hook_of_that_name(
    call: Any, decorate: Decorate, name: str
) -> None:
    seen: list[Any] = []

    @decorate
    def note(state: Any, runtime: Any) -> None:
        """Note it."""
        seen.append((state["messages"][0].text, runtime.context))

    assert isinstance(note, AgentMiddleware)
    assert note.name == "note"
    assert type(note).__doc__ == "Note it."
    agent = create_agent(ScriptedChatModel(["5"]), middleware=[note])
    assert f"note.{name}" in agent.get_graph().nodes
    call(agent, ASK)
    assert seen == [("2 + 3?", None)]


def test_the_schema_and_the_tools_of_a_hook_are_those_of_the_agent(call: Any) -> None:
    @before_model(state_schema=Counting, tools=[add])
    def count(state: Any, runtime: Any) -> dict[str, Any]:
        return {"calls": state.get("calls", 0) + 1}

    result = call(create_agent(adding(), middleware=[count]), ASK)
    assert result["calls"] == 2
    assert [m.text for m in result["messages"]][-2:] == ["5", "5"]


@each("how", ["option", "hook_config"])
def test_a_hook_declares_its_jumps_by_option_or_by_hook_config(call: Any, how: str) -> None:
    """A31."""

    def stop(state: Any, runtime: Any) -> dict[str, Any]:
        return {"jump_to": "end"}

    options: Any = {"can_jump_to": ["end"]}
    is_option = how == "option"
    made = (
        before_model(**options)(stop) if is_option else before_model(hook_config(**options)(stop))
    )
    asked = ScriptedChatModel()
    result = call(create_agent(asked, middleware=[made]), ASK)
    assert [m.text for m in result["messages"]] == ["2 + 3?"]
    assert asked.requests == []


def test_a_function_a_partial_and_a_callable_object_make_middleware_under_their_names(
    call: Any,
) -> None:
    seen: list[str] = []

    def note(word: str, state: Any, runtime: Any) -> None:
        seen.append(word)

    class Noting:
        def __call__(self, state: Any, runtime: Any) -> None:
            seen.append("object")

    noting, partial = Noting(), functools.partial(note, "partial")
    members = [before_model(name=name)(partial) for name in ("first", "second")]
    members += [before_model(noting), before_model(name="last")(noting)]
    assert members[2].name == "Noting"
    call(create_agent(ScriptedChatModel(["5"]), middleware=members), ASK)
    assert seen == ["partial", "partial", "object", "object"]


@each("prompt", ["Be brief.", SystemMessage("Be brief.")])
def test_a_dynamic_prompt_is_computed_for_each_call(call: Any, prompt: Any) -> None:
    @dynamic_prompt
    def brief(request: Any) -> Any:
        return f"{prompt} {len(request.messages)}" if isinstance(prompt, str) else prompt

    asked = adding()
    call(create_agent(asked, [add], middleware=[brief], system_prompt="Old."), ASK)
    texts = [record.messages[0].text for record in asked.requests]
    many = isinstance(prompt, str)
    assert texts == (["Be brief. 1", "Be brief. 3"] if many else ["Be brief."] * 2)
    assert brief.name == "brief"


def test_an_async_dynamic_prompt_serves_async_runs_only() -> None:
    @dynamic_prompt
    async def brief(request: Any) -> str:
        await asyncio.sleep(0)
        return "Be brief."

    asked = ScriptedChatModel(["5"])
    agent = create_agent(asked, middleware=[brief])
    asyncio.run(agent.ainvoke(ASK))
    assert asked.requests[0].messages[0].text == "Be brief."
    with pytest.raises(PathNotSupported, match="brief"):
        agent.invoke(ASK)


@each(
    "decorators, function, message",
    [
        (HOOKS, lambda state, runtime, user: None, r"AF106\] .*called with \(state, runtime\)"),
        (HOOKS, lambda state, runtime: (yield), r"AF107\] .*is a generator"),
        (WRAPS, lambda request: request, r"AF106\] .*is called with \(request, handler\)"),
        (WRAPS, lambda request, handler: (yield), r"AF106\] .*is called with \(request\)"),
    ],
)
def test_a_function_of_the_wrong_kind_is_refused_at_build(
    decorators: list[Decorate], function: Any, message: str
) -> None:
    """wanted 17."""
    for decorate in decorators:
        with pytest.raises(ArgumentError, match=rf"^\[{message}"):
            create_agent(ScriptedChatModel(), middleware=[decorate(name="mine")(function)])


@each("decorate", [*HOOKS, *WRAPS, dynamic_prompt])
@each("junk", [5, "text"])
def test_decorating_something_other_than_a_function_is_refused(
    decorate: Decorate, junk: Any
) -> None:
    with pytest.raises(AgentFactoryError, match=type(junk).__name__):
        decorate(junk)


@each("junk", [None, 5, {"role": "system"}])
@each("asynchronous", [False, True])
def test_a_dynamic_prompt_without_a_return_is_an_error_that_names_it(
    junk: Any, asynchronous: bool
) -> None:
    """The prompt of the agent would be gone from the request, without an error."""

    @dynamic_prompt
    def rarely(request: Any) -> Any:
        return "You may refund." if request.runtime.context else junk

    @dynamic_prompt
    async def ararely(request: Any) -> Any:
        return await asyncio.sleep(0, junk)

    prompt = ararely if asynchronous else rarely
    agent = create_agent(ScriptedChatModel(["5"]), middleware=[prompt], system_prompt="Never.")
    run: Any = agent.ainvoke(ASK) if asynchronous else asyncio.to_thread(agent.invoke, ASK)
    with pytest.raises(BadReturn, match=r"^\[AF304\] a?rarely: must return a string") as error:
        asyncio.run(run)
    assert junk is not None or "`return request.system_message" in error.value.hint


def test_a_dynamic_prompt_can_leave_the_prompt_as_it_is(call: Any) -> None:
    @dynamic_prompt
    def same(request: Any) -> Any:
        return request.system_message or ""

    model = ScriptedChatModel(["5"])
    call(create_agent(model, middleware=[same], system_prompt="Never."), ASK)
    assert model.requests[0].messages[0].text == "Never."


@each("decorate, hook", HOOK_AND_NAME)
def test_hook_config_on_a_decorated_function_is_refused(decorate: Decorate, hook: str) -> None:
    @decorate
    def stop(state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"}

    with pytest.raises(ArgumentError, match="must decorate a function or a method") as error:
        hook_config(can_jump_to=["end"])(stop)
    assert error.value.hint == f"Write `@{hook}(can_jump_to=['end'])`, without hook_config."


def test_hook_config_on_a_class_is_refused() -> None:
    with pytest.raises(ArgumentError, match="Write it above the method that jumps"):
        hook_config(can_jump_to=["end"])(AgentMiddleware)


@each("declared", [None, ["model"]])
def test_an_undeclared_jump_of_a_function_names_its_decorator(call: Any, declared: Any) -> None:
    @after_model(can_jump_to=declared)
    def stop(state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"}

    with pytest.raises(UndeclaredJump) as error:
        call(create_agent(ScriptedChatModel(["5"]), middleware=[stop]), ASK)
    targets = ["end", *(declared or [])]
    assert error.value.hint == f"Decorate it with @after_model(can_jump_to={targets})."


def takes_self(self: Any, state: Any, runtime: Any) -> None:
    raise NotImplementedError


async def atakes_self(self: Any, state: Any, runtime: Any) -> None:
    await asyncio.sleep(0)


@each("decorate", [*HOOKS, *WRAPS, dynamic_prompt])
@each("function", [takes_self, atakes_self])
def test_a_decorated_function_that_takes_self_is_refused(
    decorate: Decorate, function: Decorate
) -> None:
    write = f"Write `def {function.__name__}(state, runtime)`."
    for decorator in (decorate, decorate()):
        with pytest.raises(ArgumentError, match=r"^\[AF106\].*without self") as error:
            decorator(function)
        assert error.value.hint == write


@each("decorate, method", [(before_model, "before_model"), (dynamic_prompt, "around_model")])
def test_a_decorator_in_the_body_of_a_class_is_explained(decorate: Decorate, method: str) -> None:
    with pytest.raises(ArgumentError, match=f"remove it, and name the method {method}"):

        class Mine(AgentMiddleware):
            @decorate
            def check(self, state: Any, runtime: Any) -> None:
                return None


@each(
    "decorate, write",
    [(before_model, "def look(state, runtime)"), (wrap_tool_call, "def look(request, handler)")],
)
def test_the_hint_for_a_function_with_other_arguments_is_without_self(
    decorate: Decorate, write: str
) -> None:
    @decorate
    def look() -> None:
        return None

    with pytest.raises(ArgumentError) as error:
        create_agent(ScriptedChatModel(), middleware=[look])
    assert error.value.hint == f"Write `{write}`."


@each("function", [lambda: "", lambda request, handler: ""])
def test_a_dynamic_prompt_with_other_arguments_is_refused(function: Decorate) -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF106\] .*is called with \(request\)"):
        dynamic_prompt(function)
