"""A model that is called in place of the request's model, in the form that fits it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable

from agent_factory import ModelRequest, ModelResponse, init_model
from agent_factory.middleware._shared.errors import is_sync_function
from agent_factory.middleware._shared.provider_conversion import (
    WRITTEN_BY,
    model_name,
    portable_request,
    provider_of,
    same_provider,
    unbound,
)

Model = str | BaseChatModel | Runnable[Any, Any]
"""A chat model, perhaps with arguments bound to it, or "provider:name"."""

RequestChange = Mapping[str, Any] | Callable[[ModelRequest[Any]], ModelRequest[Any]]
"""`model_settings` that replace those of the request, or a function that makes the request."""

ModelEntry = Model | tuple[Model, RequestChange]
"""A model, alone or with its own settings."""


class AlternateModel:
    """A model that is made when it is first needed, and the form in which it is asked.

    A function paired with it takes the request, in which only the model is changed. `owner` names
    the argument it was passed as, for messages: "ModelFallbackMiddleware model 1".
    """

    def __init__(self, owner: str, entry: ModelEntry) -> None:
        model, change = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None)
        is_name = isinstance(model, str) and model.strip()
        binds_tools = isinstance(model, Runnable) and callable(getattr(model, "bind_tools", None))
        if not (is_name or isinstance(model, BaseChatModel) or binds_tools):
            raise TypeError(
                f"{owner} must be a chat model or 'provider:name', or a pair of one and its "
                f"settings, got {model!r}."
            )
        is_settings = isinstance(change, Mapping) and all(isinstance(key, str) for key in change)
        if not (change is None or is_settings or is_sync_function(change)):
            raise TypeError(
                f"{owner} must come with a dict of model_settings, or with a plain function of the "
                f"request that returns a request, got {change!r}."
            )
        self._owner = owner
        self._given: Any = model
        self._change = change

    @cached_property
    def model(self) -> Any:
        """The chat model, made from its name at the first access."""
        try:
            return init_model(self._given)
        except Exception as error:
            error.add_note(f"Raised while making {self._owner}, {self._given!r}.")
            raise

    def __str__(self) -> str:
        return self._given if isinstance(self._given, str) else model_label(self._given)

    def request_for(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request to send to this model."""
        if not callable(self._change):
            portable = portable_request(request, self.model)
            if self._change is None:
                return portable
            return portable.override(model_settings=dict(self._change))
        changed = self._change(request.override(model=self.model))
        if isinstance(changed, ModelRequest):
            return changed
        raise TypeError(
            f"The function paired with {self._owner} must return a ModelRequest, got {changed!r}. "
            "Return the request it was passed, or request.override(...)."
        )

    def mark(self, response: ModelResponse[Any], request: ModelRequest[Any]) -> ModelResponse[Any]:
        """The response of this model, marked if the provider of `request.model` is another one."""
        if same_provider(request.model, self.model):
            return response
        writer = provider_of(self.model) or "unknown"
        result: list[Any] = []
        for message in response.result:
            if isinstance(message, AIMessage) and WRITTEN_BY not in message.response_metadata:
                metadata = {**message.response_metadata, WRITTEN_BY: writer}
                message = message.model_copy(update={"response_metadata": metadata})
            result.append(message)
        return replace(response, result=result)


def request_for_own_model(request: ModelRequest[Any]) -> ModelRequest[Any]:
    """The request with messages that its own model can read, whichever providers wrote them."""
    return portable_request(request, request.model)


def model_label(model: Any) -> str:
    """The class of a model, and its name where it has one, for messages."""
    if isinstance(model, AlternateModel):
        return str(model)
    model = unbound(model)
    return f"{type(model).__name__} {model_name(model) or ''}".strip()
