"""Run a hook or a layer in a real LangGraph run, checked as in an agent; compare sync and async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeVar, get_type_hints

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.func import entrypoint
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime, get_runtime
from langgraph.store.base import BaseStore
from langgraph.types import Command

from agent_factory.compat.langchain import from_langchain_middleware
from agent_factory.errors import ArgumentError, PathNotSupported, describe, raise_all
from agent_factory.factory.agent import create_agent
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.flows import Flow, Invoke, adrive, drive, then
from agent_factory.hooks.introspection import (
    hooks_of,
    layers_of,
    sync_async_error,
    validate_middleware,
)
from agent_factory.runtime.composition import ModelOutcome, compose_model_call, compose_tool_call
from agent_factory.runtime.hook_node import HookNode, StateCopies
from agent_factory.runtime.routing import Rules
from agent_factory.testing.comparison import difference, normalize
from agent_factory.testing.fake_model import (
    ScriptedChatModel,
    ScriptError,
    fake_response,
    tool_call,
)
from agent_factory.topology.model import Call, Hook, Phase, Shape
from agent_factory.topology.topology import plan
from agent_factory.types import ModelRequest, ModelResponse

R = TypeVar("R")
Middleware = AgentMiddleware[Any, Any]
Config = Mapping[str, Any] | None

DONE = "Done."
"""The answer of the inner call if a test gives no handler."""


def in_langgraph(
    work: Callable[[RunnableConfig], Any],
    context: object = None,
    store: BaseStore | None = None,
    config: Config = None,
    resume: Sequence[object] = (),
) -> Flow[object]:
    """Call `work`, sync or async, in a LangGraph run, and again for each answer in `resume`."""
    # Not the result of the graph, which a checkpointer would have to store.
    outcomes: list[object] = []

    def harness(_: object) -> None:
        outcomes.append(work(get_config()))

    async def aharness(_: object) -> None:
        outcomes.append(await work(get_config()))

    # Only a resumed run needs a checkpointer, which takes half of the time.
    saver = InMemorySaver() if resume else None
    node = aharness if iscoroutinefunction(work) else harness
    graph = entrypoint(checkpointer=saver, store=store)(node).bind(context=context)
    yield from _with_answers(graph, {}, config, resume)
    if not outcomes:  # the exception GraphInterrupt, without an interrupt
        raise GraphInterrupt
    return outcomes[0]


def _with_answers(graph: Any, input: object, config: Config, resume: Sequence[object]) -> Flow[Any]:
    """Run a graph, and resume the run with each answer while it waits."""
    run_config = in_thread(config, "harness")
    for run_input in (input, *(Command(resume=answer) for answer in resume)):
        result = yield Invoke(graph, run_input, run_config)
        if "__interrupt__" not in (result or ()):
            return result
    # LangGraph does not raise an interrupt to the caller.
    raise GraphInterrupt(result["__interrupt__"])


def in_thread(config: Config, thread: str) -> dict[str, Any]:
    """A config with the id of a thread, unless the config names a thread."""
    configurable = (config or {}).get("configurable", {})
    return {**(config or {}), "configurable": {"thread_id": thread, **configurable}}


def run_coroutine(work: Coroutine[object, object, R]) -> R:
    """Run a coroutine from synchronous code, also while an event loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    # A loop runs in this thread, and `asyncio.run` refuses to start a second loop here.
    # In a copy of this context: the context variables of the test hold there, too.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, work).result()


def usable_middleware(middleware: object) -> Middleware:
    """The middleware as `create_agent` would take it, after the same checks."""
    member = from_langchain_middleware(middleware)
    if isinstance(member, type) or not isinstance(member, AgentMiddleware):
        example = f"{middleware.__name__}()" if isinstance(middleware, type) else "Guard()"
        raise ArgumentError(
            "middleware",
            f"must be an AgentMiddleware, got {describe(middleware)}.",
            f"Pass an instance: {example}.",
        )
    raise_all(list(validate_middleware(member)))
    return member


def as_state(state: object) -> dict[str, Any]:
    """A state, or only messages, in the form for a hook: messages are objects with ids."""
    values = dict(state) if isinstance(state, Mapping) else {"messages": state or []}
    messages = values.get("messages", [])
    if not isinstance(messages, list):
        messages = [messages]
    try:
        return {**values, "messages": add_messages([], messages)}
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ArgumentError(
            "messages",
            f"must be messages, got {describe(messages)}: {error}",
            "Pass strings or messages.",
        ) from None


def run_hook(
    middleware: Middleware,
    hook: str,
    state: object = None,
    *,
    context: object = None,
    store: BaseStore | None = None,
    config: Mapping[str, object] | None = None,
    resume: Sequence[object] = (),
) -> Any:
    """Run one node hook of a middleware, as a synchronous run of an agent would.

    Args:
        middleware: The middleware.
        hook: "before_agent", "before_model", "after_model" or "after_agent".
        state: The state, or only the messages, in any form for LangChain's conversion.
        context: `runtime.context`.
        store: `runtime.store`.
        config: A RunnableConfig.
        resume: Answers to the interrupts of the hook, in order.

    Returns:
        The update of the hook: a dict, a Command or None.

    Raises:
        ArgumentError: `middleware` is not a middleware, or has no such hook.
        GraphInterrupt: The hook interrupts, and `resume` holds no answer.
        TurnError: The hook writes an unknown key, makes an undeclared jump,
            or has no synchronous function.

    >>> from agent_factory import before_model
    >>> @before_model
    ... def count(state, runtime):
    ...     return {"messages": [("ai", f"{len(state['messages'])} so far")]}
    >>> run_hook(count, "before_model", "Hello")
    {'messages': [('ai', '1 so far')]}
    """
    node, input_state = hook_node(middleware, hook, state)
    return drive(in_langgraph(partial(node.invoke, input_state), context, store, config, resume))


async def arun_hook(
    middleware: Middleware,
    hook: str,
    state: object = None,
    *,
    context: object = None,
    store: BaseStore | None = None,
    config: Mapping[str, object] | None = None,
    resume: Sequence[object] = (),
) -> Any:
    """Run one node hook as an asynchronous run of an agent would; otherwise as `run_hook`.

    An async function, such as `abefore_model`, comes first.
    """
    node, input_state = hook_node(middleware, hook, state)
    return await adrive(
        in_langgraph(partial(node.ainvoke, input_state), context, store, config, resume)
    )


def hook_node(middleware: Middleware, hook: str, state: object) -> tuple[HookNode, dict[str, Any]]:
    """The node of a hook in an agent, and the input state of the node."""
    middleware = usable_middleware(middleware)
    hooks = {bound.definition.phase.value: bound for bound in hooks_of(middleware)}
    if hook not in hooks:
        name = f"{middleware.name}.{hook}"
        sync_name = hook.removeprefix("a")
        if sync_name in hooks:
            reason = "is the name of the async function."
            hint = f"Pass {sync_name!r}: arun_hook calls the async function, run_hook the other."
        elif hook not in list(Phase):
            reason = "is not a node hook."
            hint = f"The node hooks are {', '.join(Phase)}; for a layer, use run_layer."
        else:
            reason = "is not defined, so it never runs."
            hint = f"It has {', '.join(hooks) or 'no node hook'}."
        raise ArgumentError(name, reason, hint)
    input_state = as_state(state)
    hints = get_type_hints(middleware.state_schema)
    keys = {*hints, *input_state, "jump_to", "structured_response"}
    # A hook of another middleware comes first, because an entering hook resets
    # `jump_to` and an earlier structured response.
    first = Hook("outside", Phase.BEFORE_AGENT)
    topology = plan(Shape(hooks=(first, hooks[hook].definition), has_tools=True))
    node = HookNode(hooks[hook], topology, Rules(), keys, copies=_SharedState())
    return node, input_state


class _SharedState(StateCopies):
    """Gives the hook the state itself, so that the caller can see changes in place."""

    def copy(self, state: Mapping[str, Any]) -> Any:
        return state


@dataclass(frozen=True)
class LayerRun:
    """The result of running a layer.

    Args:
        response: Response of the layer: a ModelResponse, a ToolMessage or a Command; of a layer
            around a run the state at the end.
        asked: The requests to the inner call, in order; empty without an inner call. Of a layer
            around a run the states for the agent, a state for each part of the run.
        commands: The state updates next to the response of a model.
    """

    response: Any
    asked: list[Any] = field(default_factory=list)
    commands: tuple[Command[Any], ...] = ()

    @property
    def text(self) -> str:
        """The text of the last message of the response."""
        response = self.response
        if isinstance(response, ModelResponse):
            response = response.result[-1]
        elif isinstance(response, Mapping):
            response = response["messages"][-1]
        return str(response.text)


def run_layer(
    middleware: Middleware,
    request: object = None,
    handler: object = DONE,
    *,
    call: str | None = None,
    state: object = None,
    context: object = None,
    store: BaseStore | None = None,
    config: Mapping[str, object] | None = None,
    resume: Sequence[object] = (),
) -> LayerRun:
    """Run a layer of a middleware around a call, as a synchronous run of an agent would.

    Args:
        middleware: The middleware.
        request: For a model call a ModelRequest or messages in any form; for a tool call a
            ToolCallRequest or a dict with `name` and `args`; for a run its input, or messages.
            Missing parts get defaults.
        handler: The inner call: an answer, a list of answers (one for each inner call; an
            exception is raised), or a function of the request. Of a run, the model's answers.
        call: "agent", "model" or "tool", if the middleware has several layers.
        state: The state; default: the messages of the request.
        context: `runtime.context`.
        store: `runtime.store`.
        config: A RunnableConfig.
        resume: Answers to interrupts, in order.

    Raises:
        ArgumentError: The middleware has no such layer, or the request is of another kind.
        GraphInterrupt: The layer or the inner call interrupts, and `resume` holds no answer.
        ScriptError: The layer called inward more often than there are answers.
        TurnError: The layer returned a refused value, or has no sync function.

    >>> from agent_factory import wrap_model_call
    >>> @wrap_model_call
    ... def twice(request):
    ...     yield request
    ...     return (yield request)
    >>> run = run_layer(twice, "Hello", ["One.", "Two."])
    >>> run.text, len(run.asked)
    ('Two.', 2)
    """
    trial = _LayerTrial(middleware, request, handler, call, state)
    return drive(trial.run(trial.invoke, context, store, config, resume))


async def arun_layer(
    middleware: Middleware,
    request: object = None,
    handler: object = DONE,
    *,
    call: str | None = None,
    state: object = None,
    context: object = None,
    store: BaseStore | None = None,
    config: Mapping[str, object] | None = None,
    resume: Sequence[object] = (),
) -> LayerRun:
    """Run a layer as an asynchronous run of an agent would; otherwise as `run_layer`.

    `handler` may be a coroutine function.
    """
    trial = _LayerTrial(middleware, request, handler, call, state)
    return await adrive(trial.run(trial.ainvoke, context, store, config, resume))


def tool_request(
    call: Any, tool: Any, state: Any, config: RunnableConfig, runtime: Runtime[Any]
) -> ToolCallRequest:
    """A tool call with a runtime, as the tools node sends it to layers."""
    tool_runtime = ToolRuntime(
        state=state,
        context=runtime.context,
        config=config,
        stream_writer=runtime.stream_writer,
        tool_call_id=call["id"],
        store=runtime.store,
        execution_info=runtime.execution_info,
    )
    return ToolCallRequest(call, tool, state, tool_runtime)


@dataclass
class _LayerTrial:
    """A layer with a request, and with an inner call by the test's handler."""

    middleware: Middleware
    request: object
    handler: object
    call: str | None
    state: object
    asked: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        middleware, call = usable_middleware(self.middleware), self.call
        layers = {bound.definition.call.value: bound for bound in layers_of(middleware)}
        if call is None and len(layers) == 1:
            (call,) = layers
        if call not in layers:
            calls = ", ".join(f"call={name!r}" for name in layers)
            subject, reason = middleware.name, f"has no layer around {call or 'any'} calls."
            hint = f"It has {calls or 'none; for a hook, use run_hook'}."
            if call is None and layers:
                reason, hint = "has several layers.", f"Choose one of them: {calls}."
            elif call not in (None, *Call):
                names = ", ".join(map(repr, map(str, Call)))
                subject, reason = "call", f"must be one of {names}, got {describe(call)}."
                hint = f"Pass one of {calls}." if calls else "For a hook, use run_hook."
            raise ArgumentError(subject, reason, hint)
        self.bound, self.schema = layers[call], middleware.state_schema
        self.is_model = self.bound.definition.call is Call.MODEL

    def run(self, work: Callable[[RunnableConfig], Any], *options: Any) -> Flow[LayerRun]:
        """Make the call, or the run of an agent, inside the layer."""
        if self.bound.definition.call is Call.AGENT:
            return LayerRun((yield from self.whole_run(*options)), self.asked)
        result = yield from in_langgraph(work, *options)
        if isinstance(result, ModelOutcome):
            return LayerRun(result.response, self.asked, result.commands)
        return LayerRun(result, self.asked)

    def invoke(self, _: RunnableConfig) -> object:
        """Call the layer in a synchronous run."""
        return self._call(self.bound.func, self._inner, asynchronous=False)

    async def ainvoke(self, _: RunnableConfig) -> object:
        """Call the layer in an asynchronous run."""

        async def inner(request: object) -> object:
            result = self._inner(request)
            return await result if isawaitable(result) else result

        return await self._call(self.bound.afunc, inner, asynchronous=True)

    def _call(self, layer: Any, inner: Any, *, asynchronous: bool) -> Any:
        """Send the request through the layer; missing parts get defaults."""
        if layer is None:
            raise PathNotSupported(*sync_async_error(self.bound, asynchronous=asynchronous))
        layers, runtime = [(self.bound.definition.name, layer)], get_runtime()
        request, state, tool = self.request, self.state, None
        is_call = isinstance(request, Mapping) and "messages" not in request
        if self.is_model:
            if is_call or isinstance(request, ToolCallRequest):
                reason = f"must be a request to a model, got {describe(request)}."
                raise ArgumentError("request", reason, "Pass messages.")
            if not isinstance(request, ModelRequest):
                input_state: Any = as_state(request if state is None else state)
                # Messages are converted once, because their ids are drawn at random.
                is_same = state is None or request is None
                messages = input_state["messages"] if is_same else as_state(request)["messages"]
                model = ScriptedChatModel()
                request = ModelRequest(model=model, messages=messages, state=input_state)
            if request.runtime is None:
                request = request.override(runtime=runtime)
            return compose_model_call(layers, inner)(request)
        if isinstance(request, ToolCallRequest):
            if request.runtime is not None:
                return compose_tool_call(layers, inner)(request)
            request, tool = request.tool_call, request.tool
        if request is not None and not (isinstance(request, Mapping) and "name" in request):
            reason = f"must be a tool call, got {describe(request)}."
            raise ArgumentError("request", reason, "Pass {'name': ..., 'args': {...}}.")
        call = tool_call({"id": "call_1", **(request or {"name": "tool"})})
        input_state = as_state(state if state is not None else [AIMessage("", tool_calls=[call])])
        request = tool_request(call, tool, input_state, get_config(), runtime)
        return compose_tool_call(layers, inner)(request)

    def whole_run(
        self, context: Any, store: BaseStore | None, config: Config, resume: Sequence[object]
    ) -> Flow[object]:
        """Make a run of an agent inside the layer, and resume the run with each answer."""
        start: Any = self.bound.func
        requests = self.asked

        # Such a layer is about pauses, tasks and the state, which only a whole agent has.
        class Layers(Middleware):
            state_schema = self.schema

            def around_agent(
                self, state: Any, runtime: object, config: object, store: object, resumed: bool
            ) -> Flow[Any]:
                options = {"runtime": runtime, "config": config, "store": store}
                return (yield from start(state, resumed=resumed, **options))

        class Inner(Middleware):
            def around_agent(self, state: Any) -> Flow[Any]:
                requests.append(state)
                return (yield state)

        handler, state = self.handler, as_state(self.request)
        if self.state is not None:
            state = {**as_state(self.state), **(state if self.request is not None else {})}
        # A script calls a function with messages, and a handler takes the request of the layer.
        if callable(handler) and not isinstance(handler, type):
            handler = partial(lambda ask, messages: ask({"messages": messages}), handler)
        # Each resume may ask the model once more.
        answers = handler if isinstance(handler, list) else [handler] * (len(resume) + 1)
        agent = create_agent(
            ScriptedChatModel(answers),
            middleware=[Layers(name=self.bound.definition.owner), Inner(name="Inner")],
            # LangGraph converts a context to this class, and leaves an instance unchanged.
            context_schema=None if context is None else type(context),
            checkpointer=InMemorySaver() if resume else None,
            store=store,
        ).bind(context=context)
        return (yield from _with_answers(agent, state, config, resume))

    def _inner(self, request: Any) -> object:
        """The inner call; awaitable if the handler is a coroutine function."""
        self.asked.append(request)
        number = len(self.asked)
        answer = self.handler
        if isinstance(answer, list):
            if number > len(answer):
                raise ScriptError(
                    f"handler has no answer for request {number} inward; it has {len(answer)}."
                )
            answer = answer[number - 1]
        if callable(answer) and not isinstance(answer, type):
            answer = answer(request)

        def respond(answer: object) -> object:
            if self.is_model:
                if isinstance(answer, ModelResponse):
                    return ModelOutcome(answer)
                names = [getattr(tool, "name", "") for tool in request.tools]
                response = fake_response(answer, list(request.messages), names, number)
                return ModelOutcome(ModelResponse([response.complete()]))
            if isinstance(answer, BaseException):
                raise answer
            if isinstance(answer, ToolMessage | Command | list):
                return answer
            call = request.tool_call
            return ToolMessage(str(answer), tool_call_id=call["id"], name=call["name"])

        return then(answer, respond)


_ASYNC: Mapping[object, Callable[..., Any]] = {run_hook: arun_hook, run_layer: arun_layer}


def both_ways(target: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an agent, a hook or a layer synchronously and asynchronously; fail if they differ.

    Ids of messages and of tool calls may differ. An error of both runs is raised.

    A `ScriptedChatModel` of the agent answers both runs with the same steps. The asynchronous run
    has another thread, named after the thread of the config, and finds there the state of earlier
    calls of `both_ways`.

    Args:
        target: An agent, or a function without arguments that builds an agent for each run (if the
            model or middleware keeps state); or `run_hook` or `run_layer`, whose first argument may
            be such a function too.
        *args: The arguments of the agent's `invoke`, or of the function.
        **kwargs: The same by name.

    Returns:
        The result of the synchronous run.

    Raises:
        AssertionError: The runs differ; the message says where.
        ArgumentError: The target cannot run both ways.

    >>> from agent_factory import create_agent
    >>> agent = create_agent(ScriptedChatModel(["Hello!"]))
    >>> both_ways(agent, {"messages": [("user", "Hi")]})["messages"][-1].text
    'Hello!'
    """
    is_agent = hasattr(target, "invoke") and hasattr(target, "ainvoke")
    if target in _ASYNC:
        first, *rest = args
        # Not by `callable`: a middleware may define `__call__`.
        is_maker = isinstance(first, type) or type(first).__name__ == "function"

        def attempt(way: SyncOrAsync) -> Any:
            middleware = first() if is_maker else first
            return way.call(target, _ASYNC[target], middleware, *rest, **kwargs)

    elif is_agent or callable(target):
        spec = getattr(getattr(target, "builder", None), "spec", None)
        model = getattr(spec, "model", None) if is_agent else None
        position = model.position if isinstance(model, ScriptedChatModel) else 0
        # The config is the second argument of `invoke`.
        others = (*args[:1], *map(_other_thread, args[1:2]), *args[2:])
        keywords = {k: _other_thread(v) if k == "config" else v for k, v in kwargs.items()}

        def attempt(way: SyncOrAsync) -> Any:
            agent = target if is_agent else target()
            if way.name == "sync":
                return agent.invoke(*args, **kwargs)
            if isinstance(model, ScriptedChatModel):
                # The second run gets the same answers as the first.
                model.rewind(position)
            return run_coroutine(agent.ainvoke(*others, **keywords))
    else:
        raise ArgumentError(
            "target",
            f"must be an agent or a function that builds one, got {describe(target)}.",
            "Pass something with invoke and ainvoke, or run_hook or run_layer.",
        )
    run, other = (outcome_of(partial(attempt, SyncOrAsync(name))) for name in ("sync", "async"))
    labels = ("in the synchronous run", "in the asynchronous one")
    if text := disagreement(run, other, labels):
        raise AssertionError(f"The two runs differ: {text}.") from (run.error or other.error)
    if run.error is not None:
        raise run.error
    return run.value


def _other_thread(config: Any) -> object:
    configurable = (config or {}).get("configurable", {})
    if "thread_id" not in configurable:
        return config
    # In the same thread, the second run would go on where the first has ended.
    thread = f"{configurable['thread_id']} (async)"
    return {**config, "configurable": {**configurable, "thread_id": thread}}


@dataclass(frozen=True)
class SyncOrAsync:
    """A way to run. The fixture `sync_or_async` gives both ways, one after the other.

    Args:
        name: "sync" or "async".
    """

    name: str

    def __str__(self) -> str:
        return self.name

    def invoke(self, agent: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the agent's `invoke` or `ainvoke`."""
        return self.call(agent.invoke, agent.ainvoke, *args, **kwargs)

    def stream(self, agent: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """Collect the parts of the agent's `stream` or `astream`."""

        async def collect(*args: object, **kwargs: object) -> list[object]:
            return [item async for item in agent.astream(*args, **kwargs)]

        return list(self.call(agent.stream, collect, *args, **kwargs))

    def run_hook(self, *args: Any, **kwargs: Any) -> Any:
        """Call `run_hook` or `arun_hook`."""
        return self.call(run_hook, arun_hook, *args, **kwargs)

    def run_layer(self, *args: Any, **kwargs: Any) -> LayerRun:
        """Call `run_layer` or `arun_layer`."""
        run: LayerRun = self.call(run_layer, arun_layer, *args, **kwargs)
        return run

    def call(self, sync: Any, asynchronous: Any, *args: object, **kwargs: object) -> Any:
        """Call the function of this way to run."""
        if self.name == "sync":
            return sync(*args, **kwargs)
        return run_coroutine(asynchronous(*args, **kwargs))


@dataclass(frozen=True)
class RunResult:
    """The value or the error of a run."""

    value: object = None
    error: Exception | None = None

    @property
    def normalized(self) -> object:
        """The value or the error, after `normalize`."""
        if isinstance(self.error, GraphInterrupt):
            return {"interrupts": normalize(list(self.error.args[0]) if self.error.args else [])}
        return normalize(self.error or self.value)


def outcome_of(run: Callable[[], object]) -> RunResult:
    """Call a function, and keep the value or the error."""
    try:
        return RunResult(run())
    except Exception as error:
        return RunResult(error=error)


def disagreement(first: RunResult, other: RunResult, runs: tuple[str, str]) -> str:
    """The first difference of two outcomes as text; empty if they agree."""
    if (first.error is None) != (other.error is None):
        ends = [f"raised {end.error!r}" if end.error else "returned" for end in (first, other)]
        return f"{runs[0]} it {ends[0]}, {runs[1]} it {ends[1]}"
    return difference(first.normalized, other.normalized, runs)
