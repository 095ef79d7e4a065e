"""Laws for any middleware, each checked on many states."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import Command, interrupt

from agent_factory.compat.langchain import from_langchain_middleware
from agent_factory.errors import (
    AgentFactoryWarning,
    ArgumentError,
    WrongToolCallId,
    describe,
    require,
)
from agent_factory.factory.agent import create_agent, topology_of
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.flows import adrive, drive
from agent_factory.hooks.introspection import Bound, DefinitionT, hooks_of, layers_of
from agent_factory.state.updates import pairs_of
from agent_factory.testing import strategies
from agent_factory.testing.comparison import difference, normalize
from agent_factory.testing.fake_model import ScriptedChatModel
from agent_factory.testing.harness import (
    DONE,
    LayerRun,
    Middleware,
    SyncOrAsync,
    both_ways,
    disagreement,
    hook_node,
    in_langgraph,
    outcome_of,
    run_hook,
    run_layer,
    tool_request,
    usable_middleware,
)
from agent_factory.testing.histories import assert_valid_history
from agent_factory.topology.model import Call, Hook, Layer, Phase
from agent_factory.types import ModelRequest


class LawViolation(AssertionError):
    """A middleware breaks a law; the message names the law, the hook or layer, and the state."""


def check_middleware(
    make: Callable[[], Middleware],
    *,
    laws: Sequence[str] | None = None,
    without: Sequence[str] = (),
    states: object = None,
    tools: Sequence[str] = ("search", "add"),
    handler: object = DONE,
    context: object = None,
    store: BaseStore | None = None,
    config: Mapping[str, object] | None = None,
    resume: Sequence[object] = (),
    max_examples: int = 20,
) -> None:
    """Check laws of a middleware, on states from hypothesis.

    - `sync_equals_async`: a hook or layer does the same synchronously and asynchronously.
    - `idempotent`: a hook writes the same if it runs again on the same state. LangGraph runs a node
      again after an interrupt and after a crash.
    - `leaves_states_alone`: a hook returns its changes and does not change the state in place, nor
      the messages of the state; a layer overrides its request. A change in place is lost, or other
      middleware and parallel nodes see the change at an arbitrary time.
    - `leaves_agents_alone`: in a short conversation without a reason for the middleware to act, an
      agent with it has the same plan, apart from the nodes of the middleware, and gives the same
      messages.
    - `passes_interrupts`: an interrupt inside a layer propagates at once, and a layer around a
      run goes on after the answer.
    - `keeps_histories_valid`: in written messages, and in messages for a model, each tool
      call has a result.
    - `does_what_it_declares`: calls that `guards` ask about or deny do not run, the
      `limits` of calls hold, and a hook declares changes of tool calls in `Ordering(writes=...)`.

    Args:
        make: The class of the middleware, or a function without arguments.
        laws: The names of laws; default: all of `LAWS`.
        without: The names of laws to leave out.
        states: A hypothesis strategy for the states of hooks; default: by the state schema.
        tools: The names of the called tools in the generated states.
        handler: The answer of the inner call of layers, as for `run_layer`.
        context: `runtime.context`.
        store: `runtime.store`.
        config: A RunnableConfig.
        resume: Answers to interrupts, in order.
        max_examples: The number of states for each hook and layer.

    Raises:
        LawViolation: The middleware breaks a law; the error shows the simplest state found.
        ArgumentError: A law is unknown, or `make` does not make a middleware.
        MissingExtra: hypothesis is not installed.

    >>> from agent_factory import before_model
    >>> @before_model
    ... def forgetful(state, runtime):
    ...     state["messages"].clear()
    >>> try:
    ...     check_middleware(lambda: forgetful)
    ... except LawViolation as error:
    ...     print(str(error).partition(": messages")[0])
    leaves_states_alone: forgetful.before_model: it changed its state in place
    """
    # An instance may be callable, too, but each run needs a new one.
    if isinstance(make, AgentMiddleware) or not callable(make):
        raise ArgumentError(
            "make",
            f"must be a class or a function that makes the middleware, got {describe(make)}.",
            "Pass the class, or lambda: Guard(...).",
        )
    usable_middleware(make())
    for name in [*(laws or ()), *without]:
        if name not in LAWS:
            raise ArgumentError(name, "is not a law.", f"The laws are {', '.join(LAWS)}.")
    options = {"context": context, "store": store, "config": config, "resume": resume}
    case = LawCase(
        lambda: from_langchain_middleware(make()), states, tools, handler, options, max_examples
    )
    for name in LAWS if laws is None else laws:
        if name in without:
            continue
        try:
            LAWS[name](case)
        except LawViolation as broken:
            raise LawViolation(f"{name}: {broken}") from None


@dataclass(frozen=True)
class LawCase:
    """A middleware and the examples for laws: arguments of `check_middleware`."""

    make: Callable[[], Middleware]  # a plain function, which `both_ways` calls for each run
    states: object
    tools: Sequence[str]
    handler: object
    options: Mapping[str, Any]
    max_examples: int

    def examples(self, bound: Bound[Hook] | Bound[Layer]) -> Any:
        """A strategy for the states of a hook, or the requests to a layer."""
        definition = bound.definition
        if isinstance(definition, Hook):
            if self.states is not None:
                return self.states
            messages = strategies.messages(definition.phase, tools=self.tools)
            schema = self.make().state_schema
            return strategies.states(schema, definition.phase, messages=messages)
        if definition.call is not Call.TOOL:
            return strategies.messages(Phase.BEFORE_MODEL, tools=self.tools)
        from hypothesis import strategies as st

        args = st.dictionaries(st.sampled_from("abq"), st.text(max_size=9), max_size=2)
        name = st.sampled_from(list(self.tools))
        return st.fixed_dictionaries({"name": name, "args": args, "id": st.just("call_1")})

    def for_all(
        self, parts: Sequence[Bound[DefinitionT]], check: Callable[[Bound[DefinitionT], Any], None]
    ) -> None:
        """Check hooks or layers on many examples, and report the smallest failure."""
        require("testing", "check_middleware", "hypothesis")
        import hypothesis

        def law(bound: Bound[DefinitionT], example: object) -> None:
            try:
                check(bound, example)
            except AssertionError as broken:
                definition = bound.definition
                place = definition.node if isinstance(definition, Hook) else definition.name
                trial = f"tried on {_describe(example)}"
                raise LawViolation(f"{place}: {broken}\n  {trial}") from None
            except Exception:
                return  # a middleware may refuse a state

        # An example may build an agent, so there is no deadline. Without a database hypothesis
        # writes no folder into the user's project. The phase `explain` would run the law many times
        # more.
        settings = hypothesis.settings(
            max_examples=self.max_examples,
            deadline=None,
            database=None,
            derandomize=True,  # the same code gives the same result each time
            report_multiple_bugs=False,
            phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        for bound in parts:
            decorate: Callable[..., Callable[..., None]] = hypothesis.given(self.examples(bound))
            settings(decorate(law))(bound)

    def hook(
        self, bound: Bound[Hook], state: object, middleware: Middleware | None = None
    ) -> tuple[object, dict[str, object], dict[str, object]]:
        """Run a hook, synchronously if possible: the result, and the state before and after."""
        phase = bound.definition.phase.value
        # A copy: hypothesis reports the example, which a hook may have changed.
        node, input_state = hook_node(middleware or self.make(), phase, deepcopy(state))
        before = deepcopy(input_state)
        way = way_of(bound)
        invoke: Any = node.invoke if way.name == "sync" else node.ainvoke
        flow = in_langgraph(partial(invoke, input_state), **self.options)
        return way.call(drive, adrive, flow), before, input_state

    def layer(
        self, bound: Bound[Layer], request: object, **changes: object
    ) -> Iterator[Callable[[], LayerRun]]:
        """A function for one run of a layer, for each possible way to run."""
        args = (self.make(), deepcopy(request))
        options = {"handler": self.handler, "call": bound.definition.call.value, **self.options}
        for name, function in {"sync": bound.func, "async": bound.afunc}.items():
            if function is not None:
                yield partial(SyncOrAsync(name).run_layer, *args, **(options | changes))


def way_of(*parts: Bound[Hook] | Bound[Layer]) -> SyncOrAsync:
    """The synchronous way, if all hooks and layers can run so."""
    return SyncOrAsync("async" if any(part.func is None for part in parts) else "sync")


def _describe(example: Any) -> str:
    """An example as text: messages in short form, and the other keys of a state."""
    messages = example.get("messages") if isinstance(example, dict) else example
    if not isinstance(messages, list):
        return repr(example)
    texts = []
    for message in messages:
        names = ", ".join(call["name"] for call in getattr(message, "tool_calls", None) or ())
        texts.append(f"{message.type} {message.content!r}{names and f' calling {names}'}")
    more = {k: v for k, v in example.items() if k != "messages"} if example is not messages else {}
    return f"messages [{', '.join(texts)}]{f' and {more}' if more else ''}"


def sync_equals_async(case: LawCase) -> None:
    """Hooks and layers do the same in a synchronous and an asynchronous run."""

    def check_hook(hook: Bound[Hook], state: object) -> None:
        both_ways(run_hook, case.make, hook.definition.phase.value, state, **case.options)

    def check_layer(layer: Bound[Layer], request: object) -> None:
        options = {"handler": case.handler, "call": layer.definition.call.value, **case.options}
        both_ways(run_layer, case.make, request, **options)

    middleware = case.make()
    case.for_all([hook for hook in hooks_of(middleware) if hook.func], check_hook)
    layers = [layer for layer in layers_of(middleware) if layer.func and layer.afunc]
    case.for_all(layers, check_layer)


def idempotent(case: LawCase) -> None:
    """A hook writes the same when it runs again on the same state."""

    def check(hook: Bound[Hook], state: object) -> None:
        middleware = case.make()
        # On one instance: the memory of the first run must not matter in the second.
        run = partial(case.hook, hook, state, middleware)
        first, second = outcome_of(lambda: run()[0]), outcome_of(lambda: run()[0])
        text = disagreement(first, second, ("the first time", "the second time"))
        assert not text, f"run twice on one state: {text}"

    case.for_all(hooks_of(case.make()), check)


def leaves_states_alone(case: LawCase) -> None:
    """No hook changes its state in place, and no layer its request."""

    def unchanged(what: str, before: object, after: object) -> None:
        text = difference(before, normalize(after), ("before", "after"))
        assert not text, f"it changed its {what} in place: {text}"

    def check(hook: Bound[Hook], state: object) -> None:
        _, before, after = case.hook(hook, state)
        unchanged("state", normalize(before), after)

    def check_layer(layer: Bound[Layer], example: Any) -> None:
        call, request = layer.definition.call, deepcopy(example)
        if call is Call.MODEL:
            # Another list: a change shows in the state or in the request.
            state: Any = {"messages": request.copy()}
            request = ModelRequest(
                model=ScriptedChatModel(), messages=request, state=state, tools=[tool(look_up)]
            )
        elif call is Call.TOOL:
            calls = AIMessage("", tool_calls=[deepcopy(example)], id="1")
            state = {"messages": [HumanMessage("Go on.", id="0"), calls]}
            config: Any = case.options["config"] or {}
            runtime = Runtime(context=case.options["context"], store=case.options["store"])
            request = tool_request(request, None, state, config, runtime)

        def parts() -> dict[str, object]:
            if call is Call.AGENT:
                return {"messages": request}
            whole = {"request": request} if call is Call.MODEL else {"tool call": request.tool_call}
            return {**whole, "state": request.state}

        before = {what: normalize(part) for what, part in parts().items()}
        options = {"handler": case.handler, "call": call.value, **case.options}
        way_of(layer).run_layer(case.make(), request, **options)
        for what, part in parts().items():
            unchanged(what, before[what], part)

    middleware = case.make()
    case.for_all(hooks_of(middleware), check)
    case.for_all(layers_of(middleware), check_layer)


def passes_interrupts(case: LawCase) -> None:
    """An interrupt inside a layer propagates at once."""
    requests: list[object] = []

    def handler(request: object) -> str:
        requests.append(request)
        return f"The answer was {interrupt('May I?')}."

    for layer in layers_of(case.make()):
        name = layer.definition.name
        request: object = "Go on."
        if layer.definition.call is Call.TOOL:
            request = {"name": case.tools[0], "args": {}, "id": "call_1"}
        for attempt in case.layer(layer, request, handler=handler, resume=()):
            requests.clear()
            is_interrupted = isinstance(outcome_of(attempt).error, GraphInterrupt)
            if requests and not is_interrupted:
                raise LawViolation(f"{name}: it swallowed an interrupt and went on.")
            if len(requests) > 1:
                times = f"it asked {len(requests)} times before it let an interrupt pass."
                raise LawViolation(f"{name}: {times}")
        if requests and layer.definition.call is Call.AGENT:
            for attempt in case.layer(layer, request, handler=handler, resume=("Yes.",)):
                if (error := outcome_of(attempt).error) is not None:
                    raise LawViolation(f"{name}: it could not go on after a pause: {error!r}")


def keeps_histories_valid(case: LawCase) -> None:
    """Hooks and layers leave no tool call without a result."""

    def check_hook(hook: Bound[Hook], state: Any) -> None:
        update = _update_of(case.hook(hook, state)[0])
        history: Any = add_messages(state["messages"], update.get("messages", []))
        # A jump past the tools leaves nobody to answer the calls.
        pending = update.get("jump_to") not in ("end", "model")
        pending &= hook.definition.phase is Phase.AFTER_MODEL
        assert_valid_history(history, pending=pending)

    def check_layer(layer: Bound[Layer], request: Any) -> None:
        for attempt in case.layer(layer, request):
            try:
                result = attempt()
            # `for_all` reports failed assertions, and takes other errors for a refusal.
            except WrongToolCallId as error:
                raise AssertionError(str(error)) from error
            if layer.definition.call is Call.AGENT:
                assert_valid_history(result.response["messages"])
                continue
            if layer.definition.call is Call.MODEL:
                for model_request in result.asked:
                    assert_valid_history(model_request.messages)
                assert_valid_history([*request, *result.response.result], pending=True)
                continue
            calls = AIMessage("", tool_calls=[dict(request)])
            history: list[BaseMessage] = [HumanMessage("Go on."), calls]
            is_list = isinstance(result.response, list)
            for part in result.response if is_list else [result.response]:
                is_message = isinstance(part, ToolMessage)
                history += [part] if is_message else _update_of(part).get("messages", [])
            assert_valid_history(history)

    middleware = case.make()
    case.for_all(hooks_of(middleware), check_hook)
    case.for_all(layers_of(middleware), check_layer)


def _update_of(result: Any) -> dict[str, Any]:
    """The state update of a hook or a tool."""
    return dict(pairs_of(result, "a hook") if isinstance(result, Command) else result or {})


def leaves_agents_alone(case: LawCase) -> None:
    """An agent stays as it is where the middleware has nothing to do."""

    def agent(*stack: Middleware) -> Any:
        call = {"name": "look_up", "args": {"order": "A1"}, "id": "call_1"}
        model = ScriptedChatModel([[call], AIMessage("It is on its way.")])
        return _agent_of(model, [look_up], stack)

    def messages(*stack: Middleware) -> object:
        return normalize(_result_of(case, agent(*stack), stack)["messages"])

    middleware = case.make()
    new_nodes = {*topology_of(agent(middleware)).nodes} - {*topology_of(agent()).nodes}
    # New nodes of hooks are expected.
    foreign = new_nodes - {bound.definition.node for bound in hooks_of(middleware)}
    if foreign:
        raise LawViolation(f"{middleware.name}: it adds the nodes {', '.join(sorted(foreign))}.")
    labels = ("without it", "with it")
    text = difference(messages(), messages(case.make()), labels, "messages")
    if text:
        raise LawViolation(
            f"{middleware.name}: it changes a conversation in which it has nothing to do: {text}"
        )


def _agent_of(model: ScriptedChatModel, tools: list[Any], stack: Sequence[Middleware]) -> Any:
    # A stack of one middleware cannot satisfy every declared order, which does not matter here.
    with warnings.catch_warnings(action="ignore", category=AgentFactoryWarning):
        return create_agent(model, tools, middleware=stack, checkpointer=InMemorySaver())


def _result_of(case: LawCase, agent: Any, stack: Sequence[Middleware]) -> Any:
    """The result of a run of an agent, synchronous if the stack can run so."""
    hooks = [hook for middleware in stack for hook in hooks_of(middleware)]
    way = way_of(*hooks, *(layer for middleware in stack for layer in layers_of(middleware)))
    input_state = {"messages": [("user", "Where is order A1?")]}
    config = {"configurable": {"thread_id": "law"}}
    return way.invoke(agent, input_state, config, context=case.options.get("context"))


_MOST_CALLS = 50
"""The highest limit that is reached in a check; to reach a higher one would take long."""


def does_what_it_declares(case: LawCase) -> None:
    """Guards stop calls, limits hold, and changes of calls are declared."""
    middleware = case.make()
    for guard in middleware.guards:
        name = guard.tool if not set(guard.tool) & set("*?[") else "look_up"
        is_absolute = guard.action in ("ask", "deny") and not (guard.when or guard.after)
        if is_absolute and guard.covers(name) and _calls_of(case, name, turns=1)["tool calls"]:
            raise LawViolation(f"{middleware.name}: it declares that {guard}, and a call ran.")
    for limit in middleware.limits:
        if limit.scope == "run" and limit.most <= _MOST_CALLS:
            counts = _calls_of(case, limit.tool or "look_up", turns=int(limit.most) + 2)
            if counts.get(limit.unit, 0) > limit.most:
                text = f"it declares {limit}, and there were {counts[limit.unit]}."
                raise LawViolation(f"{middleware.name}: {text}")

    def check(hook: Bound[Hook], state: Any) -> None:
        update = _update_of(case.hook(hook, state)[0])
        calls = {m.id: m.tool_calls for m in state["messages"] if isinstance(m, AIMessage)}
        for message in update.get("messages", []):
            is_changed = isinstance(message, AIMessage) and message.id in calls
            assert not is_changed or message.tool_calls == calls[message.id], (
                "it changed tool calls; declare Ordering(writes=('tool_calls',))"
            )

    if "tool_calls" not in middleware.ordering.writes:
        hooks = [h for h in hooks_of(middleware) if h.definition.phase is Phase.AFTER_MODEL]
        case.for_all(hooks, check)


def _calls_of(case: LawCase, name: str, turns: int) -> dict[str, int]:
    """Calls of the model and of a tool in a run whose model calls the tool in each turn."""
    ran: list[int] = []

    def tool_of_law(order: str) -> str:
        """Look up an order."""
        ran.append(1)
        return f"{order} {len(ran)} is on its way."

    calls = [[{"name": name, "args": {"order": str(turn)}}] for turn in range(turns)]
    model = ScriptedChatModel([*calls, *["Done."] * 3])
    stack = [case.make()]
    agent = _agent_of(model, [tool(name)(tool_of_law)], stack)
    # A limit may end the run with an error.
    outcome_of(lambda: _result_of(case, agent, stack))
    return {"model calls": len(model.requests), "tool calls": len(ran)}


def look_up(order: str) -> str:
    """Look up an order."""
    return f"{order} is on its way."


LAWS: Mapping[str, Callable[[LawCase], None]] = {
    law.__name__: law
    for law in (
        sync_equals_async,
        idempotent,
        leaves_states_alone,
        leaves_agents_alone,
        passes_interrupts,
        keeps_histories_valid,
        does_what_it_declares,
    )
}
"""Every law by its name, for `pytest.mark.parametrize("law", LAWS)`."""
