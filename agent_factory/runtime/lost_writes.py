"""Writes to a copy of the state, which have no effect: looked for in strict agents alone.

Each hook and layer gets a copy of the state. A comparison with the state takes longer than a hook
without work, so only an agent with `strict=True` compares.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import Command

from agent_factory.errors import AgentFactoryWarning, BadReturn
from agent_factory.hooks.flows import then
from agent_factory.hooks.introspection import Bound
from agent_factory.runtime.composition import ModelCall, ModelOutcome
from agent_factory.state.updates import pairs_of
from agent_factory.tools.injection import CONTAINERS
from agent_factory.tools.tool_node import own_containers
from agent_factory.topology.model import Hook
from agent_factory.types import ModelRequest

_MISSING = object()


def watched_hook(bound: Bound[Hook], *, merges_by_id: bool) -> Bound[Hook]:
    """Return a hook that warns of its writes without effect."""
    name = bound.definition.node

    def call(func: Callable[..., Any], state: dict[str, Any], runtime: object) -> object:
        before, messages = own_containers(state), state.get("messages")
        # A copy, to see whether the hook changes the message in place.
        last: BaseMessage | None = None
        if merges_by_id and isinstance(messages, list) and messages:
            last = messages[-1].model_copy(deep=True)

        def check(result: object) -> object:
            if isinstance(result, Command):
                update = {} if result.graph is not None else dict(pairs_of(result, name))
            else:
                update = dict(result) if isinstance(result, Mapping) else {}
            _warn_of_changes(name, before, state, update)
            kept: Any = update.get("messages")
            history = before.get("messages", [])
            if last is None or not isinstance(kept, list) or not 0 < len(kept) < len(history):
                return result
            # A message changed in place by the hook is the same object, and another message.
            known_ids = set(map(id, history))
            if kept[-1] is history[-1] == last and known_ids.issuperset(map(id, kept)):
                reason = (
                    "must return new messages, got some that the thread has already: no effect."
                )
                example = "{'messages': [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages]}"
                hint = f"Messages are merged by id. To remove all others, return {example}."
                _warn(BadReturn(name, reason, hint))
            return result

        return then(func(state, runtime), check)

    func, afunc = (f and partial(call, f) for f in (bound.func, bound.afunc))
    return replace(bound, func=func, afunc=afunc)


def watched_call(call: ModelCall) -> ModelCall:
    """Return a model call through layers that warns of lost writes of the layers."""

    def watched(request: ModelRequest[Any]) -> object:
        before, state = own_containers(request.state), request.state

        def check(outcome: ModelOutcome) -> ModelOutcome:
            update = [pair for c in outcome.commands for pair in pairs_of(c, "a layer")]
            # A layer may add messages to the request, which holds the same list.
            written = {"messages", *(key for key, _ in update)}
            _warn_of_changes("a wrap_model_call layer", before, state, written)
            return outcome

        return then(call(request), check)

    return watched


def _warn_of_changes(
    owner: str, before: Mapping[str, Any], state: Mapping[str, Any], update: Collection[str]
) -> None:
    changes: list[str] = []
    for key in dict.fromkeys([*before, *state]):
        old, new = before.get(key, _MISSING), state.get(key, _MISSING)
        # By identity, because a comparison may be expensive.
        if type(old) is not type(new) or type(old) not in CONTAINERS:
            differs = old is not new
        elif isinstance(old, dict):
            differs = [*map(id, old.values()), *old] != [*map(id, new.values()), *new]
        else:
            differs = [*map(id, old)] != [*map(id, new)]
        if differs and key not in update:
            changes.append(key)
    if changes:
        names = ", ".join(map(repr, changes))
        reason = f"must return what it changes, and changed {names} in its copy of the state."
        example = "[message]" if changes[0] == "messages" else "..."
        hint = f"Return the change: {{{changes[0]!r}: {example}}}."
        _warn(BadReturn(owner, reason, hint))


def _warn(error: BadReturn) -> None:
    warnings.warn(AgentFactoryWarning([error]), stacklevel=3)
