"""Writes to a copy of the state, which have no effect: looked for in strict agents alone.

Each hook and layer gets a copy of the state. To compare it with the state takes longer than a hook
that does nothing, so that an agent does it only if it was built with `strict=True`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
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
from agent_factory.topology.model import Hook
from agent_factory.types import ModelRequest

_MISSING = object()


def watched_hook(bound: Bound[Hook], *, merges_by_id: bool) -> Bound[Hook]:
    """Return a hook that warns of its writes without effect.

    Args:
        bound: The hook.
        merges_by_id: Whether the state merges messages by their id.
    """
    name = bound.definition.node

    def call(func: Callable[..., Any], state: dict[str, Any], runtime: object) -> object:
        before, last = _copy(state), _last_message(state) if merges_by_id else None

        def check(result: object) -> object:
            if isinstance(result, Command):
                update = {} if result.graph is not None else dict(pairs_of(result, name))
            else:
                update = dict(result) if isinstance(result, Mapping) else {}
            _warn_of_changes(name, before, state, update)
            if last is not None and _is_cut(update.get("messages"), before["messages"], last):
                reason = (
                    "must return new messages, got some that the thread has already: no effect."
                )
                keep = "{'messages': [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages]}"
                hint = f"Messages are merged by id. To remove all others, return {keep}."
                _warn(BadReturn(name, reason, hint))
            return result

        return then(func(state, runtime), check)

    func, afunc = (f and partial(call, f) for f in (bound.func, bound.afunc))
    return replace(bound, func=func, afunc=afunc)


def watched_call(call: ModelCall) -> ModelCall:
    """Return a model call through layers that warns of their writes without effect."""

    def watched(request: ModelRequest[Any]) -> object:
        before, state = _copy(request.state), request.state

        def check(outcome: ModelOutcome) -> ModelOutcome:
            update = [pair for c in outcome.commands for pair in pairs_of(c, "a layer")]
            # A layer may add messages to the request, which holds the same list.
            written = {"messages", *(key for key, _ in update)}
            _warn_of_changes("a wrap_model_call layer", before, state, written)
            return outcome

        return then(call(request), check)

    return watched


def _copy(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a state and of its containers; what is inside is shared with the thread."""
    containers = (dict, list, set)
    return {key: v.copy() if type(v) in containers else v for key, v in state.items()}


def _last_message(state: Mapping[str, Any]) -> BaseMessage | None:
    """Return a copy of the last message, to see whether a hook changes it in place."""
    messages = state.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return last.model_copy(deep=True) if isinstance(last, BaseMessage) else None


def _warn_of_changes(
    owner: str, before: Mapping[str, Any], state: Mapping[str, Any], update: Collection[str]
) -> None:
    if changes := [key for key in _changes(before, state) if key not in update]:
        names = ", ".join(map(repr, changes))
        reason = f"must return what it changes, and changed {names} in its copy of the state."
        example = "[message]" if changes[0] == "messages" else "..."
        hint = f"Return the change: {{{changes[0]!r}: {example}}}."
        _warn(BadReturn(owner, reason, hint))


def _changes(before: Mapping[str, Any], state: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys with another value; by identity, because a comparison may be expensive."""
    for key in dict.fromkeys([*before, *state]):
        old, new = before.get(key, _MISSING), state.get(key, _MISSING)
        if type(old) is not type(new) or type(old) not in (dict, list, set):
            differs = old is not new
        elif isinstance(old, dict):
            differs = [*map(id, old.values()), *old] != [*map(id, new.values()), *new]
        else:
            differs = [*map(id, old)] != [*map(id, new)]
        if differs:
            yield key


def _is_cut(messages: Any, history: list[Any], last: BaseMessage) -> bool:
    """Return True if messages are a part of the history, up to its end, and nothing else."""
    if not isinstance(messages, list) or not 0 < len(messages) < len(history):
        return False
    # A message that the hook has changed in place is the same object, and another message.
    known_ids = set(map(id, history))
    return messages[-1] is history[-1] == last and all(id(m) in known_ids for m in messages)


def _warn(error: BadReturn) -> None:
    warnings.warn(AgentFactoryWarning([error]), stacklevel=3)
