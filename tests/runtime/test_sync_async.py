"""Which hooks and layers run in sync and async runs, and the errors for the other mode."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import pytest
from families import OURS
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.config import get_stream_writer
from langgraph.types import Command, interrupt
from pydantic import Field
from random_stacks import (
    ACTS,
    CALLED,
    FAILING,
    OUTWARD,
    TOOLS,
    Case,
    Diary,
    Helper,
    Mode,
    Model,
    Trial,
    cases,
)
from stack_agents import agent_of
from watching import NESTED_STREAMS, SECOND_STREAMS, STREAMS, Form, compare, simple, streams

from agent_factory import (
    AgentMiddleware,
    Flow,
    Invoke,
    ModelRequest,
    Sleep,
    Task,
    Together,
    create_agent,
    touches,
)
from agent_factory import middleware as m
from agent_factory.errors import HookPathNotSupported, PathNotSupported, SpecError
from agent_factory.runtime import watching
from agent_factory.testing import ScriptedChatModel
from samples import add, adding, awrap, wrap
from tables import each
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


@each("phase", HOOKS)
def test_of_two_variants_the_one_for_the_mode_of_the_run_is_called(phase: str) -> None:
    """A6: an async run runs a hook that is sync only."""
    log: list[str] = []
    both = middleware(**{phase: hook(log), f"a{phase}": ahook(log)})
    agent = create_agent(ScriptedChatModel(["5"] * 2), middleware=[both])
    agent.invoke(ASK)
    asyncio.run(agent.ainvoke(ASK))
    assert log == ["sync", "async"]
    agent = create_agent(ScriptedChatModel(["5"]), middleware=[middleware(**{phase: hook(log)})])
    asyncio.run(agent.ainvoke(ASK))
    assert log[2:] == ["sync"]


async def test_a_sync_hook_in_an_async_run_does_not_block_the_loop() -> None:
    began, released = threading.Event(), threading.Event()

    def before_model(self: Any, state: Any, runtime: Any) -> None:
        began.set()
        assert released.wait(60), "the event loop stood still"

    agent = agent_of(["Hi."], middleware(before_model=before_model))
    task = asyncio.create_task(agent.ainvoke(ASK))
    await auntil(began.is_set)
    released.set()
    assert (await task)["messages"][-1].text == "Hi."


async def test_a_sync_hook_in_an_async_run_keeps_the_context_of_its_caller() -> None:
    seen: list[Any] = []

    def before_model(self: Any, state: Any, runtime: Any) -> None:
        seen.extend([user.get(), runtime.context, threading.current_thread()])
        get_stream_writer()("written")

    agent = agent_of(["Hi."], middleware(before_model=before_model))
    user.set("Ada")
    options: Any = {"context": {"id": 7}, "stream_mode": "custom"}
    chunks = [chunk async for chunk in agent.astream(ASK, **options)]
    assert seen[:2] == ["Ada", {"id": 7}]
    assert seen[2] is not threading.main_thread()
    assert chunks == ["written"]


LAYERS = [("wrap_model_call", "around_model"), ("wrap_tool_call", "around_tool")]


@each("name, flow", LAYERS)
@each("handle_tool_errors", [True, False])
@each("asynchronous", [True, False])
def test_a_run_refuses_a_layer_of_the_other_mode_alone(
    name: str, flow: str, handle_tool_errors: bool, asynchronous: bool
) -> None:
    """A37: NotImplementedError names the missing twin; ours names the class and the flow too."""
    wraps, model = {name: wrap} if asynchronous else {f"a{name}": awrap}, adding()
    stack = [middleware(**wraps)]
    agent = create_agent(model, [add], middleware=stack, handle_tool_errors=handle_tool_errors)
    with pytest.raises(NotImplementedError) as caught:
        asyncio.run(agent.ainvoke(ASK)) if asynchronous else agent.invoke(ASK)
    assert len(model.requests) == (flow == "around_tool")
    assert isinstance(caught.value, PathNotSupported)
    assert not isinstance(caught.value, HookPathNotSupported)
    missing, mode = (f"a{name}", "asynchronous") if asynchronous else (name, "synchronous")
    assert str(caught.value) == (
        f"[AF301] Mine: has no {missing}, and this run is {mode}. "
        f"Define {missing}, or write {flow}, which serves both."
    )


SYNC_ONLY = [{"wrap_model_call": wrap}, {"wrap_tool_call": wrap}]
ASYNC_ONLY = [
    {"awrap_model_call": awrap},
    {"awrap_tool_call": awrap},
    *({f"a{phase}": ahook([])} for phase in HOOKS),
]


@each("sync_only", SYNC_ONLY)
@each("async_only", ASYNC_ONLY)
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


def reply(request: Any, text: str) -> Any:
    """What a layer returns in place of an answer of the model, or of a result of a tool."""
    if isinstance(request, ModelRequest):
        return AIMessage(text)
    return ToolMessage(text, tool_call_id=request.tool_call["id"])


def speak(request: Any, text: str) -> None:
    call = None if isinstance(request, ModelRequest) else request.tool_call["id"]
    request.runtime.stream_writer({"text": text, "call": call})


def softens(request: Any) -> Flow[Any]:
    try:
        return (yield request)
    except ValueError as error:
        return reply(request, f"sorry: {error}")


def repeats(request: Any) -> Flow[Any]:
    results = [(yield request), (yield request)]
    return results[1]


def changes(request: Any) -> Flow[Any]:
    if isinstance(request, ModelRequest):
        request = request.override(messages=[*request.messages, HumanMessage("changed")])
    elif "query" in (args := request.tool_call["args"]):
        call = {**request.tool_call, "args": {**args, "query": "changed"}}
        request = request.override(tool_call=call)
    return (yield request)


def answers(request: Any) -> Flow[Any]:
    return reply(request, "answered")
    yield


def speaks(request: Any) -> Flow[Any]:
    speak(request, "before")
    yield Sleep(0)
    yield Together(Invoke(HELPER, "one"), Invoke(HELPER, "two"))
    result = yield request
    speak(request, "after")
    return result


def asks(request: Any) -> Flow[Any]:
    answer = interrupt("a layer?")
    speak(request, answer)
    return (yield request)


def fails(request: Any) -> Flow[Any]:
    yield request
    raise ValueError("a layer fails")


def around(kind: str) -> Any:
    def around_agent(self: Any, state: Any, runtime: Any) -> Flow[Any]:
        runtime.stream_writer(f"{kind} begins")
        number = yield Task("number", lambda: 7)
        try:
            yield {**state, "last": f"number {number}"} if kind == "changes" else state
        except ValueError as error:
            if kind != "softens":
                raise
            return {"messages": [AIMessage(f"sorry: {error}")]}
        yield Invoke(HELPER, "after it")
        runtime.stream_writer(f"{kind} ends")
        return {"log": ["around"]} if kind == "changes" else None

    return around_agent


def layer(kind: Any, call: str, form: str) -> Any:
    """A layer of one kind around calls of the model or of tools, as a flow or as both wraps."""
    if form == "wraps":
        return OURS.layer(kind, call)

    def flow(self: Any, request: Any) -> Flow[Any]:
        return (yield from kind(request))

    return middleware(**{f"around_{call}": flow})


def build(parts: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Middleware for one agent, each with another name."""
    made = [make(*args) for make, *args in parts]
    for number, member in enumerate(made):
        member.name = f"more{number}"
    return made


@touches(writes="page")
def rewrite(query: str) -> str:
    """Rewrite a page: one call after another."""
    get_stream_writer()({"text": query, "call": query})
    return f"rewritten by {query}"


@touches(writes="page")
def tear(query: str) -> str:
    """Fail on a page."""
    raise ValueError(f"torn by {query}")


def look(query: str) -> str:
    """Look something up."""
    return f"seen {query}"


async def alook(query: str) -> str:
    await asyncio.sleep(0)
    return look(query)


def question(text: str) -> Any:
    return {"messages": text}


async def ask_inner(query: str) -> str:
    return str((await INNER.ainvoke(question(query)))["messages"][-1].text)


HELPER = Helper()
INNER = create_agent(Helper(calls="find"), TOOLS[:1])
MORE_TOOLS = [
    rewrite,
    tear,
    StructuredTool.from_function(look, alook),
    StructuredTool.from_function(
        lambda query: INNER.invoke(question(query))["messages"][-1].text,
        ask_inner,
        name="delegate",
        description="Ask an agent.",
    ),
]


class Recording(Model):
    """A model that keeps what it is asked."""

    requests: list[Any] = Field(default_factory=list)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        self.requests.append([sorted(str(getattr(t, "name", t)) for t in tools), kwargs])
        return self

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        self.requests.append(simple(messages))
        return super()._answer(messages)


@dataclass(frozen=True)
class Scene:
    """An agent, what is done with it, and how it is watched."""

    case: Case
    more: tuple[tuple[Any, ...], ...]
    fused: bool | Literal["turn"]
    form: Form | None
    is_kept: bool
    decision: Mapping[str, Any]
    steps: int


class Driven(Trial):
    """One agent of a scene in one mode, and all that its caller can observe."""

    model_type = Recording
    model: Recording

    def __init__(self, scene: Scene, mode: Mode) -> None:
        kept, more = scene.is_kept, build(scene.more)
        super().__init__(scene.case, scene.fused, mode, kept, MORE_TOOLS, INNER, more)
        self.scene = scene
        self.config["recursion_limit"] = scene.steps

    def observed(self, doing: str) -> list[Any]:
        """Take up the thread, and return all that is visible of it, event by event."""
        parts: list[Any] = []
        self.diary, self.model.requests = Diary(), []
        try:
            parts.append({"outcome": self._drive(self._given(doing), parts)})
        except Exception as error:
            parts.append({"error": error, "cause": repr(error.__cause__)})
        parts.extend(self.model.requests)
        parts.extend(self.diary.pages)
        if self.scene.is_kept:
            parts.extend(self._history())
        return [simple(part) for part in parts]

    def _given(self, doing: str) -> Any:
        """The input: a question, or answers to all that waits or to the first of it."""
        state = self.agent.get_state(self.config) if self.scene.is_kept else None
        if state is None or doing == "ask" or not state.next:
            return question("Well?")
        waiting = [pause for task in state.tasks for pause in task.interrupts]
        waiting.sort(key=lambda pause: str(pause.value))
        chosen = waiting[:1] if doing == "go on with one" else waiting
        return Command(resume={p.id: self._reply(p.value) for p in chosen}) if chosen else None

    def _reply(self, value: Any) -> Any:
        if isinstance(value, str):
            return f"to {value}"
        return {"decisions": [dict(self.scene.decision)] * len(value["action_requests"])}

    def _drive(self, input: Any, parts: list[Any]) -> Any:
        form = self.scene.form
        if form is None:
            if self.mode == "sync":
                return self.agent.invoke(input, self.config)
            return asyncio.run(self.agent.ainvoke(input, self.config))
        if self.mode == "sync":
            assert form.watch is not None
            parts.extend(form.watch(self.agent, input, self.config))
        else:
            asyncio.run(self._adrive(form, input, parts))
        return None

    async def _adrive(self, form: Form, input: Any, parts: list[Any]) -> None:
        assert form.awatch is not None
        async for part in form.awatch(self.agent, input, self.config):
            parts.append(part)

    def _history(self) -> list[Any]:
        async def asynchronous() -> list[Any]:
            return [state async for state in self.agent.aget_state_history(self.config)]

        sync = self.mode == "sync"
        states = self.agent.get_state_history(self.config) if sync else asyncio.run(asynchronous())
        history = [state._replace(created_at=None) for state in states]
        if self.scene.fused is False or self.scene.form is None:
            return history
        # How many hooks share a step depends on how a stream is read.
        return [history[0]._replace(metadata=None)]


LAYER = st.tuples(
    st.just(layer),
    st.sampled_from([softens, repeats, changes, answers, speaks, asks]),
    st.sampled_from(["model", "tool"]),
    st.sampled_from(["flow", "wraps"]),
)
MORE = st.one_of(
    LAYER,
    LAYER,
    st.just((layer, fails, "model", "flow")),
    st.builds(
        lambda kind: (lambda: middleware(around_agent=around(kind)),),
        st.sampled_from(["passes", "changes", "softens"]),
    ),
    st.builds(
        lambda exit: (partial(m.ModelCallLimitMiddleware, run_limit=2, exit_behavior=exit),),
        st.sampled_from(["end", "error"]),
    ),
    st.builds(
        lambda exit: (partial(m.ToolCallLimitMiddleware, run_limit=2, exit_behavior=exit),),
        st.sampled_from(["continue", "error"]),
    ),
    st.builds(
        lambda mode: (
            partial(m.HumanInTheLoopMiddleware, {"find": True, "look": True}, interrupt_mode=mode),
        ),
        st.sampled_from(["batched", "per_call"]),
    ),
)
WATCHES = [
    None,
    *STREAMS,
    *NESTED_STREAMS,
    SECOND_STREAMS[-1],
    streams(stream_mode="checkpoints"),
    streams(stream_mode=["debug", "updates"]),
    streams(stream_mode="updates", durability="exit"),
]
DECISIONS: list[Mapping[str, Any]] = [
    {"type": "approve"},
    {"type": "reject", "message": "No."},
    {"type": "edit", "edited_action": {"name": "find", "args": {"query": "edited"}}},
]
CALLS = (*CALLED, *["rewrite", "tear"] * 3, "look", "look", "delegate", *FAILING)
DOINGS = st.lists(st.sampled_from(["ask", "go on", "go on", "go on with one"]), max_size=3)
SCENES = st.builds(
    Scene,
    case=cases([*ACTS, *OUTWARD * 3], CALLS),
    more=st.lists(MORE, max_size=3).map(tuple),
    fused=st.sampled_from([True, True, False, "turn"]),
    form=st.sampled_from(WATCHES),
    is_kept=st.sampled_from([True, True, False]),
    decision=st.sampled_from(DECISIONS),
    steps=st.sampled_from([100, 100, 9]),
)


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@settings(max_examples=3 * settings().max_examples)
@given(SCENES, DOINGS, st.sampled_from([0, 60]))
def test_an_async_run_is_the_sync_run(scene: Scene, doings: list[str], patience: float) -> None:
    """Streams, results, errors, what waits, what the model is asked, what hooks see, the thread."""
    if not scene.is_kept:
        scene = replace(scene, case=replace(scene.case, pauses=()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watching, "PATIENCE", patience)
        sync, asynchronous = Driven(scene, "sync"), Driven(scene, "async")
        for doing in ("ask", *doings):
            expected, observed = sync.observed(doing), asynchronous.observed(doing)
            form = scene.form or STREAMS[0]
            if difference := compare(form, observed, expected, ("async", "sync")):
                pytest.fail(f"{doing}, {scene.form}: {difference}")
