"""Constructors and decorators of middleware: arguments and names, and wrong ones."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from built_in_cases import BUILT_INS
from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

import agent_factory
from agent_factory import (
    AgentMiddleware,
    Invoke,
    Sleep,
    Together,
    after_agent,
    after_model,
    before_agent,
    before_model,
    create_agent,
    create_react_agent,
    dynamic_prompt,
    hook_config,
    plan_agent,
    with_model,
    wrap_model_call,
    wrap_tool_call,
)
from agent_factory import middleware as m
from agent_factory.errors import (
    ArgumentError,
    BadReturn,
    PathNotSupported,
    SpecError,
    UndeclaredJump,
)
from agent_factory.testing import ScriptedChatModel
from samples import Count, Number, Plain, User, add, adding
from tables import each


class Lookup(BaseTool):
    name: str = "lookup"
    description: str = "Look it up."

    def _run(self) -> str:
        return ""


@each("kind", BUILT_INS, ids=lambda kind: kind.__name__)
def test_every_built_in_takes_types_and_says_which_argument_is_meant(kind: Any) -> None:
    assert issubclass(type("Own", (kind[Any],), {}), kind[Any, None, Any])
    parameters = inspect.signature(kind).parameters.values()
    name = next(p.name for p in parameters if p.kind is not p.VAR_POSITIONAL)
    with pytest.raises(ArgumentError, match=f"is not an argument of {kind.__name__}") as error:
        kind(**{f"{name}_": 1})
    assert error.value.hint == f"Did you mean {name}?"
    assert isinstance(error.value, TypeError)


def test_an_unknown_argument_of_a_built_in_is_explained_with_those_that_it_takes() -> None:
    with pytest.raises(ArgumentError) as error:
        m.TodoListMiddleware(color=3)  # type: ignore[call-arg]
    assert error.value.subject == "color"
    assert error.value.hint == "It takes system_prompt, tool_description, name."


def test_an_argument_by_position_is_explained() -> None:
    with pytest.raises(ArgumentError, match=r"no argument 1 by position, got int \(3\)") as error:
        m.ModelRetryMiddleware(3)  # type: ignore[call-arg]
    assert error.value.hint.startswith("Write max_retries=...")


def test_the_signature_of_a_middleware_is_that_of_its_constructor() -> None:
    names = [*inspect.signature(m.ModelRetryMiddleware).parameters]
    assert names[:2] == ["max_retries", "retry_on"]
    for kind in (AgentMiddleware, Plain):
        assert [*inspect.signature(kind).parameters] == ["name"]


class Keywords(AgentMiddleware):
    def __init__(self, *values: int, **options: int) -> None:
        self.given = (values, options)


class Base:
    def __new__(cls, value: int) -> Base:
        created = super().__new__(cls)
        created.value = value  # type: ignore[attr-defined]
        return created


class Both(AgentMiddleware, Base):
    def __init__(self, value: int) -> None:
        super().__init__(name=f"both{value}")


class Own(AgentMiddleware):
    def __new__(cls, size: int) -> Own:
        return super().__new__(cls)

    def __init__(self, size: int) -> None:
        self.size = size


def test_a_class_with_a_constructor_of_its_own_is_made_as_before() -> None:
    assert Keywords(1, 2, a=3).given == ((1, 2), {"a": 3})
    both: Any = Both(3)
    assert (both.name, both.value) == ("both3", 3)
    assert Own(size=4).size == 4


@each("build", [create_agent, plan_agent])
@each(
    "value, hint",
    [
        ([Plain()], "Write middleware=..."),
        (Plain(), "Write middleware=..."),
        ("Be brief.", "Write system_prompt=..."),
        (InMemorySaver(), "Write checkpointer=..."),
        (5, "Write an argument by its name, such as checkpointer=..."),
    ],
)
def test_a_third_argument_by_position_is_explained(build: Any, value: Any, hint: str) -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF101\] argument 3: must be given by") as error:
        build(ScriptedChatModel(), [add], value)
    assert error.value.hint == hint
    assert isinstance(error.value, TypeError)


def test_the_arguments_of_create_react_agent_are_explained() -> None:
    with pytest.raises(TypeError, match="unexpected keyword") as unknown:
        create_react_agent(ScriptedChatModel(), [add], system_prompt="Be brief.")
    assert unknown.value.__notes__ == ["system_prompt: Did you mean prompt?"]


CLASSES = {
    "checkpointer": (InMemorySaver, "Pass InMemorySaver()."),
    "store": (InMemoryStore, "Pass InMemoryStore()."),
    "tools": ([Lookup], "Pass Lookup()."),
    "cache": (InMemoryCache, "Pass InMemoryCache()."),
    "model": (ScriptedChatModel, "Pass ScriptedChatModel()."),
}


@each(
    "build, argument",
    [
        *((create_agent, argument) for argument in CLASSES),
        *((create_react_agent, argument) for argument in ("checkpointer", "store", "tools")),
    ],
)
def test_a_class_in_place_of_an_instance_is_explained(build: Any, argument: str) -> None:
    kind, write = CLASSES[argument]
    arguments: dict[str, Any] = {"model": ScriptedChatModel(), "tools": [], argument: kind}
    with pytest.raises(ArgumentError, match="got the class") as error:
        build(**arguments)
    assert error.value.hint == write


def test_a_class_in_place_of_a_model_is_explained_everywhere() -> None:
    agent: Any = create_agent(ScriptedChatModel())
    with pytest.raises(ArgumentError, match=r"got the class .* Pass ScriptedChatModel\(\)\."):
        with_model(agent, ScriptedChatModel)  # type: ignore[arg-type]
    for kind in (m.SummarizationMiddleware, m.ModelFallbackMiddleware):
        with pytest.raises(TypeError, match="got the class ScriptedChatModel"):
            kind(ScriptedChatModel)  # type: ignore[arg-type]


@each("value", [Number(n=1), User("ada"), {"name": "ada"}])
@each("build", [create_agent, create_react_agent])
def test_an_instance_in_place_of_the_context_schema_is_refused(build: Any, value: Any) -> None:
    with pytest.raises(SpecError, match=r"context_schema: must be a class") as error:
        build(ScriptedChatModel(), [], context_schema=value)
    assert "agent.invoke(..., context=...)" in error.value.hint


@each(
    "package, name, hint",
    [
        ("agent_factory", "SummarizationMiddleware", "agent_factory.middleware"),
        ("agent_factory", "ToolStrategy", "agent_factory.structured_output"),
        ("agent_factory.middleware", "create_agent", "agent_factory"),
        ("agent_factory.middleware", "SumarizationMiddleware", "mean SummarizationMiddleware?"),
        ("agent_factory", "creat_agent", "Did you mean create_agent?"),
        ("agent_factory.testing", "ScriptedModel", "Did you mean ScriptedChatModel?"),
    ],
)
def test_a_name_of_another_package_is_found(package: str, name: str, hint: str) -> None:
    if not hint.endswith("?"):
        hint = f"Write `from {hint} import {name}`."
    with pytest.raises(ImportError, match=f"cannot import name '{name}' from '{package}'") as error:
        exec(f"from {package} import {name}")
    assert str(error.value).endswith(hint)
    module = __import__(package, fromlist=["__name__"])
    with pytest.raises(AttributeError) as missing:
        getattr(module, name)
    assert str(missing.value).endswith(hint)
    assert not hasattr(module, name)


def test_a_name_like_no_other_has_the_error_of_python() -> None:
    with pytest.raises(AttributeError) as error:
        _ = agent_factory.nonsense
    assert str(error.value) == "module 'agent_factory' has no attribute 'nonsense'"
    with pytest.raises(ImportError, match="cannot import name 'nonsense' from 'agent_factory'"):
        exec("from agent_factory import nonsense")


Decorate = Callable[..., Any]
ASK: Any = {"messages": [("user", "2 + 3?")]}
HOOKS = [before_agent, before_model, after_model, after_agent]
NAMES = ["before_agent", "before_model", "after_model", "after_agent"]
HOOK_AND_NAME = list(zip(HOOKS, NAMES, strict=True))
WRAPS = [wrap_model_call, wrap_tool_call]


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


@each("decorate, name", HOOK_AND_NAME)
def test_a_generator_function_becomes_a_hook_for_sync_and_async_runs(
    call: Any, sync_or_async: Any, decorate: Decorate, name: str
) -> None:
    """It waits, asks a model and a person, gets the config and jumps."""
    asked = ScriptedChatModel(["Yes."] * 4)

    @decorate
    @hook_config(can_jump_to=["end"])
    def review(state: Any, runtime: Any, config: Any) -> Any:
        _, verdict = yield Together(Sleep(0), Invoke(asked, state["messages"]))
        word = interrupt(f"{verdict.text} {config['metadata']['mark']}")
        return {"jump_to": "end", "messages": [("ai", word)]}

    stack: Any = {"middleware": [review], "checkpointer": InMemorySaver()}
    agent = create_agent(ScriptedChatModel(["5"]), **stack)
    config = {"configurable": {"thread_id": name}, "metadata": {"mark": "Well?"}}
    assert call(agent, ASK, config)["__interrupt__"][0].value == "Yes. Well?"
    result = call(agent, Command(resume="Fine."), config)
    assert result["messages"][-1].text == "Fine."
    update = sync_or_async.run_hook(review, name, ASK["messages"], config=config, resume=["Good."])
    assert update["messages"][0] == ("ai", "Good.")


def test_the_schema_and_the_tools_of_a_hook_are_those_of_the_agent(call: Any) -> None:
    @before_model(state_schema=Count, tools=[add])
    def count(state: Any, runtime: Any) -> dict[str, Any]:
        return {"count": state.get("count", 0) + 1}

    result = call(create_agent(adding(), middleware=[count]), ASK)
    assert result["count"] == 2
    assert [m.text for m in result["messages"]][-2:] == ["5", "5"]


@each(
    "decorate",
    [
        before_model(can_jump_to=["end"]),
        lambda hook: before_model(hook_config(can_jump_to=["end"])(hook)),
    ],
)
def test_a_hook_declares_its_jumps_by_option_or_by_hook_config(
    call: Any, decorate: Decorate
) -> None:
    """A31."""
    asked = ScriptedChatModel()
    stop = decorate(lambda state, runtime: {"jump_to": "end"})
    result = call(create_agent(asked, middleware=[stop]), ASK)
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


@each(
    "prompt, texts",
    [
        (lambda request: f"Brief. {len(request.messages)}", ["Brief. 1", "Brief. 3"]),
        (lambda request: SystemMessage("Be brief."), ["Be brief."] * 2),
        (lambda request: request.system_message, ["Old."] * 2),
    ],
)
def test_a_dynamic_prompt_is_computed_for_each_call(
    call: Any, prompt: Any, texts: list[str]
) -> None:
    @dynamic_prompt
    def brief(request: Any) -> Any:
        return prompt(request)

    asked = adding()
    call(create_agent(asked, [add], middleware=[brief], system_prompt="Old."), ASK)
    assert [record.messages[0].text for record in asked.requests] == texts
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


@each("function", [lambda: "", lambda request, handler: ""])
def test_a_dynamic_prompt_with_other_arguments_is_refused(function: Decorate) -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF106\] .*is called with \(request\)"):
        dynamic_prompt(function)
