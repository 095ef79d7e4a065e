"""One hook of one middleware, run alone: with a real Runtime, and checked as an agent checks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

from langgraph.config import get_config
from langgraph.store.base import BaseStore

from agent_factory.errors import ArgumentError
from agent_factory.hooks.introspection import Bound, hooks_of
from agent_factory.runtime.hook_node import HookNode
from agent_factory.runtime.routing import Rules
from agent_factory.testing.fixtures import Bench, Middleware, as_state, usable_middleware
from agent_factory.topology.model import Hook, Phase, Shape
from agent_factory.topology.topology import plan


def run_hook(
    middleware: Middleware,
    hook: str,
    state: Any = None,
    *,
    context: Any = None,
    store: BaseStore | None = None,
    config: Mapping[str, Any] | None = None,
    resume: Sequence[Any] = (),
) -> Any:
    """Run one node hook of a middleware, as a synchronous run of an agent would.

    Args:
        middleware: The middleware.
        hook: "before_agent", "before_model", "after_model" or "after_agent".
        state: The state it sees, or only its messages, in any form that LangChain converts.
        context: `runtime.context`.
        store: `runtime.store`.
        config: A RunnableConfig.
        resume: Answers to the interrupts it raises, in order.

    Returns:
        The update it returned: a dict, a Command or None.

    Raises:
        ArgumentError: It is no middleware, or has no such hook.
        GraphInterrupt: It interrupts, and `resume` holds no answer.
        TurnError: It writes a key that neither its schema nor the state has, jumps where it has
            not declared it, or has no synchronous function.

    >>> from agent_factory import before_model
    >>> @before_model
    ... def count(state, runtime):
    ...     return {"messages": [("ai", f"{len(state['messages'])} so far")]}
    >>> run_hook(count, "before_model", "Hello")
    {'messages': [('ai', '1 so far')]}
    """
    bench = Bench(context, store, config, resume)
    node, state = hook_node(middleware, hook, state)
    return bench.run(lambda: node.invoke(state, get_config()))


async def arun_hook(
    middleware: Middleware,
    hook: str,
    state: Any = None,
    *,
    context: Any = None,
    store: BaseStore | None = None,
    config: Mapping[str, Any] | None = None,
    resume: Sequence[Any] = (),
) -> Any:
    """As `run_hook`, as an asynchronous run of an agent would: `abefore_model` where there is one.

    Raises:
        ArgumentError: It is no middleware, or has no such hook.
        GraphInterrupt: It interrupts, and `resume` holds no answer.
        TurnError: Its update is refused.
    """
    bench = Bench(context, store, config, resume)
    node, state = hook_node(middleware, hook, state)
    return await bench.arun(lambda: node.ainvoke(state, get_config()))


def hook_node(middleware: Middleware, hook: str, state: Any) -> tuple[HookNode, dict[str, Any]]:
    """The node that an agent makes of a hook, and the state it is given.

    Raises:
        ArgumentError: It is no middleware, or has no such hook.
    """
    middleware = usable_middleware(middleware)
    bound = _hook(middleware, hook)
    given = as_state(state)
    keys = {*get_type_hints(middleware.state_schema), *given, "jump_to", "structured_response"}
    # A hook outside it, so that it does not enter the run: that would reset an earlier answer.
    outside = Hook("outside", Phase.BEFORE_AGENT)
    around = plan(Shape(hooks=(outside, bound.definition), has_tools=True))
    return HookNode(bound, around, Rules(), keys), given


def _hook(middleware: Middleware, hook: str) -> Bound[Hook]:
    found = {bound.definition.phase.value: bound for bound in hooks_of(middleware)}
    if hook in found:
        return found[hook]
    name = f"{middleware.name}.{hook}"
    if hook.removeprefix("a") in found:
        plainly = hook.removeprefix("a")
        raise ArgumentError(
            name, "names one colour.", f"Ask for {plainly!r}; arun_hook takes its async function."
        )
    if hook not in list(Phase):
        raise ArgumentError(
            name, "is no node hook.", f"A hook is one of {', '.join(Phase)}; a layer: run_layer."
        )
    raise ArgumentError(
        name, "is not defined, so it never runs.", f"It has {', '.join(found) or 'no node hook'}."
    )
