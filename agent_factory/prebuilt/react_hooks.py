"""The hook nodes of `create_react_agent`: its two hooks, and the structured response at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from langchain_core.messages import SystemMessage
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
    """A `pre_model_hook` or `post_model_hook`, called with the state in its own schema.

    Args:
        function: The hook, made invocable by `invocable`.
        view: Converts the state to its schema.
    """

    def __init__(self, function: CanInvoke, view: View) -> None:
        self._function = function
        self._view = view

    def flow(self, state: Mapping[str, Any], runtime: Any) -> Flow[Any]:
        """Call the hook and return its update, without the managed `remaining_steps`."""
        result = yield Invoke(self._function, self._view(state))
        if isinstance(result, BaseModel):
            result = {key: getattr(result, key) for key in result.model_fields_set}
        if isinstance(result, Mapping):
            return {key: value for key, value in result.items() if key != STEPS}
        return result


class Extraction:
    """The call that asks for the structured response, once, after the loop.

    Args:
        model: The agent's model, or the function that chooses it.
        response_format: A schema, or a pair of system prompt and schema.
        view: Converts the state for the function that chooses the model.
    """

    def __init__(self, model: CanInvoke | ChosenModel, response_format: Any, view: View) -> None:
        prompted = isinstance(response_format, tuple)
        prompt, self._schema = response_format if prompted else (None, response_format)
        self._system = [] if prompt is None else [SystemMessage(prompt)]
        self._model = model
        self._view = view

    def flow(self, state: Mapping[str, Any], runtime: Any) -> Flow[Any]:
        """Ask the model."""
        model: Any = self._model
        if isinstance(model, ChosenModel):
            model = yield Invoke(model, (self._view(state), runtime))
        asked = chat_model_of(model).with_structured_output(self._schema)
        answer = yield Invoke(asked, [*self._system, *state["messages"]])
        return {"structured_response": answer}


def bound(name: str, given: UserHook | Extraction) -> Bound[Hook]:
    """The hook of a node of this name, sync and async.

    Args:
        name: The name of the node.
        given: Its flow.
    """

    def call(driver: Callable[[Flow[Any]], Any], state: Mapping[str, Any], runtime: Any) -> Any:
        # Hook nodes disable token streaming; these nodes are the user's own, so it stays on.
        return call_with_streaming(lambda known: driver(given.flow(known, runtime)), state)

    hook = Hook(name, REACT_HOOKS[name], at=name)
    return Bound(hook, AgentMiddleware(name=name), partial(call, run), partial(call, arun))
