"""The nodes beside the model of a `create_react_agent`, as ordinary node hooks of fixed names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from langchain_core.messages import SystemMessage
from langgraph.types import Command
from pydantic import BaseModel

from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.flows import CanInvoke, Flow, Invoke, arun, run
from agent_factory.hooks.introspection import Bound
from agent_factory.prebuilt.react_models import ChosenModel, chat_model_of
from agent_factory.prebuilt.react_state import STEPS
from agent_factory.runtime.composition import call_with_streaming
from agent_factory.topology.model import REACT_HOOKS, Hook

View = Callable[[Mapping[str, Any]], Any]


class UserHook:
    """Calls a hook of the user's with the state as it knows it.

    Args:
        function: The hook: a function, a coroutine function or a runnable, as a part.
        view: What it sees of the state.
    """

    def __init__(self, function: CanInvoke, view: View) -> None:
        self._function = function
        self._view = view

    def flow(self, state: Mapping[str, Any], runtime: Any) -> Flow[Any]:
        """Call it."""
        return _update((yield Invoke(self._function, self._view(state))))


def _update(result: Any) -> Any:
    """What a hook returned, as an update: of a model what was set, and nothing that is managed."""
    if isinstance(result, Command):
        return result
    if isinstance(result, BaseModel):
        result = {key: getattr(result, key) for key in result.model_fields_set}
    if isinstance(result, Mapping):
        return {key: value for key, value in result.items() if key != STEPS}
    return result


class Extraction:
    """Asks a model for the structured answer, once, when the loop is over.

    Args:
        model: The agent's model, or what chooses it.
        response_format: A schema, or a system prompt and a schema.
        view: What the choice of a model sees of the state.
    """

    def __init__(self, model: CanInvoke | ChosenModel, response_format: Any, view: View) -> None:
        prompted = isinstance(response_format, tuple)
        prompt, self._schema = response_format if prompted else (None, response_format)
        self._system = [] if prompt is None else [SystemMessage(prompt)]
        self._model = model
        self._view = view

    def flow(self, state: Mapping[str, Any], runtime: Any) -> Flow[Any]:
        """Ask it."""
        model: Any = self._model
        if isinstance(model, ChosenModel):
            model = yield Invoke(model, (self._view(state), runtime))
        asked = chat_model_of(model).with_structured_output(self._schema)
        answer = yield Invoke(asked, [*self._system, *state["messages"]])
        return {"structured_response": answer}


def bound(name: str, given: UserHook | Extraction) -> Bound[Hook]:
    """What is called with state and runtime as the hook of a node, in both colours.

    Args:
        name: The name of its node.
        given: It.
    """
    func, afunc = (partial(_call, driver, given) for driver in (run, arun))
    return Bound(Hook(name, REACT_HOOKS[name], at=name), AgentMiddleware(name=name), func, afunc)


def _call(
    driver: Callable[[Flow[Any]], Any],
    given: UserHook | Extraction,
    state: Mapping[str, Any],
    runtime: Any,
) -> Any:
    # Models that are asked here are heard in streams: these nodes are the user's, or the agent's.
    return call_with_streaming(lambda known: driver(given.flow(known, runtime)), state)
