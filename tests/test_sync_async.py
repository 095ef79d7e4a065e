"""Which hooks and layers run in sync and async runs, and the errors for the other mode."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.types import Command, interrupt

from agent_factory import AgentMiddleware, Sleep, create_agent
from agent_factory.errors import HookPathNotSupported, PathNotSupported, SpecError
from agent_factory.testing import ScriptedChatModel
from samples import add, adding, awrap, wrap
from waiting import auntil

ASK: Any = {"messages": [("user", "2 + 3?")]}
HOOKS = ["before_agent", "before_model", "after_model", "after_agent"]
user: ContextVar[str] = ContextVar("user", default="nobody")


def middleware(**methods: Any) -> AgentMiddleware:
    made: AgentMiddleware = type("Mine", (AgentMiddleware,), methods)()
    return made


def hook(log: list[str], name: str = "sync") -> Any:
    def method(self: Any, state: Any, runtime: Any) -> None:
        log.append(name)

    return method


def ahook(log: list[str]) -> Any:
    async def method(self: Any, state: Any, runtime: Any) -> None:
        log.append("async")

    return method


# --- node hooks -------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", HOOKS)
def test_a_sync_run_refuses_a_hook_that_is_async_only(phase: str) -> None:
    """A6: LangGraph's text, and its TypeError."""
    agent = create_agent(adding(), [add], middleware=[middleware(**{f"a{phase}": ahook([])})])
    with pytest.raises(HookPathNotSupported) as caught:
        agent.invoke(ASK)
    error = caught.value
    assert f'No synchronous function provided to "a{phase}".' in str(error)
    assert error.subject == f"Mine.a{phase}"
    assert "ainvoke" in error.hint
    assert isinstance(error, TypeError)
    assert isinstance(error, NotImplementedError)


@pytest.mark.parametrize("phase", HOOKS)
async def test_an_async_run_runs_a_hook_that_is_sync_only(phase: str) -> None:
    """A6: consequence."""
    log: list[str] = []
    await create_agent(adding(), [add], middleware=[middleware(**{phase: hook(log)})]).ainvoke(ASK)
    assert set(log) == {"sync"}


@pytest.mark.parametrize("phase", HOOKS)
def test_of_two_variants_the_one_for_the_mode_of_the_run_is_called(phase: str) -> None:
    log: list[str] = []
    both = middleware(**{phase: hook(log), f"a{phase}": ahook(log)})
    agent = create_agent(ScriptedChatModel(["5"] * 2), middleware=[both])
    agent.invoke(ASK)
    asyncio.run(agent.ainvoke(ASK))
    assert log == ["sync", "async"]


async def test_a_sync_hook_in_an_async_run_does_not_block_the_loop() -> None:
    began, released = threading.Event(), threading.Event()

    def before_model(self: Any, state: Any, runtime: Any) -> None:
        began.set()
        assert released.wait(60), "the event loop stood still"

    agent = create_agent(
        ScriptedChatModel(["Hi."]), middleware=[middleware(before_model=before_model)]
    )
    task = asyncio.create_task(agent.ainvoke(ASK))
    await auntil(began.is_set)
    released.set()
    assert (await task)["messages"][-1].text == "Hi."


async def test_a_sync_hook_in_an_async_run_keeps_the_context_of_its_caller() -> None:
    seen: list[Any] = []

    def before_model(self: Any, state: Any, runtime: Any) -> None:
        seen.extend([user.get(), runtime.context, threading.current_thread()])
        get_stream_writer()("written")

    agent = create_agent(
        ScriptedChatModel(["Hi."]), middleware=[middleware(before_model=before_model)]
    )
    user.set("Ada")
    options: Any = {"context": {"id": 7}, "stream_mode": "custom"}
    chunks = [chunk async for chunk in agent.astream(ASK, **options)]
    assert seen[:2] == ["Ada", {"id": 7}]
    assert seen[2] is not threading.main_thread()
    assert chunks == ["written"]


async def test_a_sync_hook_in_an_async_run_may_interrupt_and_is_resumed() -> None:
    """wanted 1."""
    answers: list[Any] = []

    def before_model(self: Any, state: Any, runtime: Any) -> None:
        answers.append(interrupt("May I?"))

    agent = create_agent(
        ScriptedChatModel(["Hi."]),
        middleware=[middleware(before_model=before_model)],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    paused = await agent.ainvoke(ASK, config)
    assert [i.value for i in paused["__interrupt__"]] == ["May I?"]
    done = await agent.ainvoke(Command(resume="Yes."), config)
    assert done["messages"][-1].text == "Hi."
    assert answers == ["Yes."]


def test_what_a_hook_raises_reaches_the_caller_in_sync_and_async_runs(call: Any) -> None:
    def before_model(self: Any, state: Any, runtime: Any) -> None:
        raise LookupError("mine")

    agent = create_agent(ScriptedChatModel(), middleware=[middleware(before_model=before_model)])
    with pytest.raises(LookupError, match="mine"):
        call(agent, ASK)


# --- layers -----------------------------------------------------------------------------------

LAYERS = [("wrap_model_call", "around_model"), ("wrap_tool_call", "around_tool")]


@pytest.mark.parametrize(("name", "flow"), LAYERS)
@pytest.mark.parametrize("handle_tool_errors", [True, False])
async def test_an_async_run_refuses_a_layer_that_is_sync_only(
    name: str, flow: str, handle_tool_errors: bool
) -> None:
    """A37: NotImplementedError names the missing twin; ours names the class and the flow too."""
    agent = create_agent(
        adding(),
        [add],
        middleware=[middleware(**{name: wrap})],
        handle_tool_errors=handle_tool_errors,
    )
    with pytest.raises(NotImplementedError) as caught:
        await agent.ainvoke(ASK)
    assert isinstance(caught.value, PathNotSupported)
    assert not isinstance(caught.value, HookPathNotSupported)
    assert str(caught.value) == (
        f"[AF301] Mine: has no a{name}, and this run is asynchronous. "
        f"Define a{name}, or write {flow}, which serves both."
    )


@pytest.mark.parametrize(("name", "flow"), LAYERS)
@pytest.mark.parametrize("handle_tool_errors", [True, False])
def test_a_sync_run_refuses_a_layer_that_is_async_only(
    name: str, flow: str, handle_tool_errors: bool
) -> None:
    agent = create_agent(
        adding(),
        [add],
        middleware=[middleware(**{f"a{name}": awrap})],
        handle_tool_errors=handle_tool_errors,
    )
    with pytest.raises(PathNotSupported) as caught:
        agent.invoke(ASK)
    assert str(caught.value) == (
        f"[AF301] Mine: has no {name}, and this run is synchronous. "
        f"Define {name}, or write {flow}, which serves both."
    )


def test_a_layer_that_has_only_the_mode_of_the_run_works() -> None:
    members = [middleware(wrap_model_call=wrap, wrap_tool_call=wrap)]
    assert create_agent(adding(), [add], middleware=members).invoke(ASK)["messages"][-1].text == "5"
    members = [middleware(awrap_model_call=awrap, awrap_tool_call=awrap)]
    result = asyncio.run(create_agent(adding(), [add], middleware=members).ainvoke(ASK))
    assert result["messages"][-1].text == "5"


async def test_a_layer_of_the_wrong_mode_is_refused_before_the_model_is_called() -> None:
    asked = adding()
    agent = create_agent(asked, [add], middleware=[middleware(wrap_model_call=wrap)])
    with pytest.raises(PathNotSupported):
        await agent.ainvoke(ASK)
    assert asked.requests == []


def test_a_flow_serves_sync_and_async_runs(call: Any) -> None:
    class Both(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            yield Sleep(0)
            return (yield request)

        def around_tool(self, request: Any) -> Any:
            yield Sleep(0)
            return (yield request)

    result = call(create_agent(adding(), [add], middleware=[Both()]), ASK)
    assert [m.text for m in result["messages"]][-2:] == ["5", "5"]


SYNC_ONLY = [{"wrap_model_call": wrap}, {"wrap_tool_call": wrap}]
ASYNC_ONLY = [
    {"awrap_model_call": awrap},
    {"awrap_tool_call": awrap},
    *({f"a{phase}": ahook([])} for phase in HOOKS),
]


@pytest.mark.parametrize("sync_only", SYNC_ONLY, ids=lambda methods: next(iter(methods)))
@pytest.mark.parametrize("async_only", ASYNC_ONLY, ids=lambda methods: next(iter(methods)))
def test_modes_that_no_run_can_satisfy_are_refused_at_build(
    sync_only: Any, async_only: Any
) -> None:
    """wanted 17: no run could use both."""
    members = [
        type("Sync", (AgentMiddleware,), sync_only)(),
        type("Async", (AgentMiddleware,), async_only)(),
    ]
    with pytest.raises(SpecError, match=r"^\[AF109\]") as caught:
        create_agent(adding(), [add], middleware=members)
    assert (
        caught.value.subject == f"Sync.{next(iter(sync_only))} and Async.{next(iter(async_only))}"
    )
    assert "around_model" in caught.value.hint


@pytest.mark.parametrize("async_only", ASYNC_ONLY, ids=lambda methods: next(iter(methods)))
async def test_a_sync_hook_works_with_anything_async(async_only: Any) -> None:
    log: list[str] = []
    members = [
        type("Sync", (AgentMiddleware,), {"before_model": hook(log)})(),
        type("Async", (AgentMiddleware,), async_only)(),
    ]
    result = await create_agent(adding(), [add], middleware=members).ainvoke(ASK)
    assert result["messages"][-1].text == "5"
    assert log == ["sync", "sync"]
