"""Laws that any middleware can be held to, each tried on many states."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph.message import add_messages
from langgraph.store.base import BaseStore
from langgraph.types import Command, interrupt

from agent_factory.compat.langchain import from_langchain_middleware
from agent_factory.errors import AgentFactoryWarning, ArgumentError, describe
from agent_factory.factory.agent import create_agent, topology_of
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.introspection import Bound, hooks_of, layers_of
from agent_factory.state.updates import pairs_of
from agent_factory.testing.comparison import first_difference, plain
from agent_factory.testing.fixtures import Middleware, finish, usable_middleware
from agent_factory.testing.histories import assert_valid_history
from agent_factory.testing.hooks import run_hook
from agent_factory.testing.layers import DONE, LayerRun, run_layer
from agent_factory.testing.scripted import ScriptedChatModel
from agent_factory.testing.subjects import LawViolation, Subject, conversation_of
from agent_factory.testing.sync_async import both_ways, disagreement, outcome_of
from agent_factory.topology.model import Call, Hook, Layer, Phase
from agent_factory.topology.topology import Topology

__all__ = ["LAWS", "LawViolation", "check_middleware"]


def check_middleware(
    make: Callable[[], Middleware],
    *,
    laws: Sequence[str] | None = None,
    without: Sequence[str] = (),
    states: Any = None,
    tools: Sequence[str] = ("search", "add"),
    handler: Any = DONE,
    context: Any = None,
    store: BaseStore | None = None,
    config: Mapping[str, Any] | None = None,
    resume: Sequence[Any] = (),
    max_examples: int = 20,
) -> None:
    """Hold a middleware to laws, on states that hypothesis makes up.

    - `sync_equals_async`: a hook or layer does the same in both colours.
    - `idempotent`: a hook that runs again on the same state writes the same. LangGraph runs a node
      again after an interrupt and after a crash.
    - `leaves_states_alone`: a hook returns what it wants changed, and changes nothing in place:
      that would be lost, or seen by others at a time of its own.
    - `leaves_agents_alone`: in a short conversation in which it has nothing to do, an agent with it
      has the same plan but for its own parts, and gives the same messages.
    - `passes_interrupts`: an interrupt inside of its layers goes through them at once.
    - `keeps_histories_valid`: what it writes, and what it shows a model, has an answer for each
      call.

    Args:
        make: Makes the middleware: its class, or a function without arguments.
        laws: The names of laws; default: all of `LAWS`.
        without: The names of those that are not meant to hold.
        states: A hypothesis strategy for the states its hooks see; default: by its state schema.
        tools: The tools that are called in the states made up.
        handler: What the call inside its layers gives, as for `run_layer`.
        context: `runtime.context`.
        store: `runtime.store`.
        config: A RunnableConfig.
        resume: Answers to the interrupts it raises, in order.
        max_examples: How many states each hook and layer is tried on.

    Raises:
        LawViolation: It does not keep one; the error shows the simplest state found.
        ArgumentError: There is no such law, or `make` makes no middleware.
        ImportError: hypothesis is not installed.

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
    options = {"context": context, "store": store, "config": config, "resume": resume}
    _check_maker(make)
    subject = Subject(
        lambda: from_langchain_middleware(make()), states, tools, handler, options, max_examples
    )
    for name in _chosen(laws, without):
        try:
            LAWS[name](subject)
        except LawViolation as broken:
            raise LawViolation(f"{name}: {broken}") from None


def _check_maker(make: Any) -> None:
    if isinstance(make, AgentMiddleware) or not callable(make):
        raise ArgumentError(
            "make", f"{describe(make)} makes nothing.", "Give a class, or lambda: Guard(...)."
        )
    usable_middleware(make())


def _chosen(laws: Sequence[str] | None, without: Sequence[str]) -> list[str]:
    for name in [*(laws or ()), *without]:
        if name not in LAWS:
            raise ArgumentError(name, "is no law.", f"The laws are {', '.join(LAWS)}.")
    return [name for name in (LAWS if laws is None else laws) if name not in without]


def _place(bound: Bound[Any]) -> str:
    fact = bound.definition
    return f"{fact.owner}.{fact.phase if isinstance(fact, Hook) else fact.method}"


def _sync_equals_async(subject: Subject) -> None:
    for hook in [hook for hook in subject.hooks if hook.func is not None]:
        phase = hook.definition.phase
        check = _same_both_ways(subject, run_hook, phase.value)
        subject.for_all(_place(hook), subject.states_at(phase), check)
    for layer in [layer for layer in subject.layers if layer.func and layer.afunc]:
        call = layer.definition.call
        check = _same_both_ways(subject, run_layer, handler=subject.handler, call=call.value)
        subject.for_all(_place(layer), subject.requests_to(call), check)


def _same_both_ways(
    subject: Subject, run: Callable[..., Any], *args: Any, **kwargs: Any
) -> Callable[[Any], None]:
    # both_ways takes a function for what makes the middleware, and a class is as good as one.
    def make() -> Middleware:
        return subject.make()

    return _expecting_errors(
        lambda example: both_ways(run, make, *args, example, **kwargs, **subject.options)
    )


def _expecting_errors(run: Callable[[Any], Any]) -> Callable[[Any], None]:
    """A middleware may raise, if it does so in both colours; a law is an AssertionError."""

    def check(example: Any) -> None:
        try:
            run(example)
        except AssertionError:
            raise
        except Exception:
            return

    return check


def _idempotent(subject: Subject) -> None:
    for hook in subject.hooks:

        def check(state: Any, hook: Bound[Hook] = hook) -> None:
            middleware = subject.make()
            first, second = (
                outcome_of(lambda: subject.hook(hook, state, middleware)) for _ in range(2)
            )
            words = disagreement(first, second, ("the first time", "the second time"))
            assert not words, f"run twice on one state: {words}"

        subject.for_all(_place(hook), subject.states_at(hook.definition.phase), check)


def _leaves_states_alone(subject: Subject) -> None:
    for hook in subject.hooks:

        def check(state: Any, hook: Bound[Hook] = hook) -> None:
            seen = subject.hook_in_place(hook, state)
            found = first_difference(plain(seen["before"]), plain(seen["after"]))
            words = found.words("before", "after") if found else ""
            assert not words, f"it changed its state in place: {words}"

        place = _place(hook)
        subject.for_all(place, subject.states_at(hook.definition.phase), _expecting_errors(check))


def _passes_interrupts(subject: Subject) -> None:
    for layer in subject.layers:
        request: Any = "Go on."
        if layer.definition.call is Call.TOOL:
            request = {"name": subject.tools[0], "args": {}, "id": "call_1"}
        asked: list[Any] = []

        def ask(request: Any, asked: list[Any] = asked) -> str:
            asked.append(request)
            return f"The answer was {interrupt('May I?')}."

        for run in subject.layer(layer, request, handler=ask, resume=()):
            asked.clear()
            stopped = isinstance(outcome_of(run).error, GraphInterrupt)
            if asked and not stopped:
                raise LawViolation(f"{_place(layer)}: it swallowed an interrupt and went on.")
            if len(asked) > 1:
                again = f"it asked {len(asked)} times before it let an interrupt pass."
                raise LawViolation(f"{_place(layer)}: {again}")


def _keeps_histories_valid(subject: Subject) -> None:
    for hook in subject.hooks:

        def check(state: Any, hook: Bound[Hook] = hook) -> None:
            update = dict(_pairs(subject.hook(hook, state)))
            history = add_messages(state["messages"], update.get("messages", []))
            stays = update.get("jump_to") not in ("end", "model")
            pending = hook.definition.phase is Phase.AFTER_MODEL and stays
            assert_valid_history(history, pending=pending)  # type: ignore[arg-type]

        place = _place(hook)
        subject.for_all(place, subject.states_at(hook.definition.phase), _expecting_errors(check))
    for layer in subject.layers:

        def check_layer(request: Any, layer: Bound[Layer] = layer) -> None:
            for run in subject.layer(layer, request):
                _check_layer_run(layer.definition.call, request, run())

        asks = subject.requests_to(layer.definition.call)
        subject.for_all(_place(layer), asks, _expecting_errors(check_layer))


def _pairs(update: Any) -> list[tuple[str, Any]]:
    if isinstance(update, Command):
        return pairs_of(update, "a hook")
    return list((update or {}).items())


def _check_layer_run(call: Call, request: Any, run: LayerRun) -> None:
    if call is Call.TOOL:
        said = run.response if isinstance(run.response, list) else [run.response]
        answers = [m for part in said for m in _messages_in(part)]
        assert_valid_history([*conversation_of(request), *answers])
        return
    for asked in run.asked:
        assert_valid_history(asked.messages)
    assert_valid_history([*request, *run.response.result], pending=True)


def _messages_in(part: Any) -> list[Any]:
    if isinstance(part, ToolMessage):
        return [part]
    return list(dict(_pairs(part)).get("messages", []))


def _leaves_agents_alone(subject: Subject) -> None:
    middleware = subject.make()
    beside, alone = _plans(middleware)
    own = {*beside.nodes} - {*alone.nodes}
    strange = own - {bound.definition.node for bound in hooks_of(middleware)}
    if strange:
        raise LawViolation(f"{middleware.name}: it adds the nodes {', '.join(sorted(strange))}.")
    with_it = plain(_talk(subject, [subject.make()])["messages"])
    found = first_difference(plain(_talk(subject, [])["messages"]), with_it, "messages")
    if found:
        words = found.words("without it", "with it")
        raise LawViolation(
            f"{middleware.name}: a conversation that is none of its business: {words}"
        )


def _plans(middleware: Middleware) -> tuple[Topology, Topology]:
    return topology_of(_agent([middleware])), topology_of(_agent([]))


def look_up(order: str) -> str:
    """Look up an order."""
    return f"{order} is on its way."


def _agent(stack: list[Middleware]) -> Any:
    call = {"name": "look_up", "args": {"order": "A1"}, "id": "call_1"}
    model = ScriptedChatModel([[call], AIMessage("It is on its way.")])
    with warnings.catch_warnings():
        # A stack of one cannot satisfy every wish, and nothing is to be learnt from it here.
        warnings.simplefilter("ignore", AgentFactoryWarning)
        return create_agent(model, [look_up], middleware=stack, checkpointer=InMemorySaver())


def _talk(subject: Subject, stack: list[Middleware]) -> Any:
    agent = _agent(stack)
    config = {"configurable": {"thread_id": "law"}}
    said = {"messages": [("user", "Where is order A1?")]}
    bound: list[Bound[Any]] = []
    for middleware in stack:
        bound += [*hooks_of(middleware), *layers_of(middleware)]
    if all(part.func is not None for part in bound):
        return agent.invoke(said, config, context=subject.options.get("context"))
    return finish(agent.ainvoke(said, config, context=subject.options.get("context")))


LAWS: Mapping[str, Callable[[Subject], None]] = {
    "sync_equals_async": _sync_equals_async,
    "idempotent": _idempotent,
    "leaves_states_alone": _leaves_states_alone,
    "leaves_agents_alone": _leaves_agents_alone,
    "passes_interrupts": _passes_interrupts,
    "keeps_histories_valid": _keeps_histories_valid,
}
"""Every law by its name, for `pytest.mark.parametrize("law", LAWS)`."""
