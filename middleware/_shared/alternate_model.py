"""A model that is asked in the place of another: made when it is needed, asked in its own terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable

from agent_factory import ModelRequest, ModelResponse, init_model
from agent_factory.middleware._shared.errors import is_async
from agent_factory.middleware._shared.portable_request import (
    WRITER,
    bare,
    portable_request,
    provider_of,
    readable,
    same_provider,
)

Model = str | BaseChatModel | Runnable[Any, Any]
"""A chat model, perhaps with arguments bound to it, or "provider:name"."""

Terms = Mapping[str, Any] | Callable[[ModelRequest[Any]], ModelRequest[Any]]
"""A model's own settings, or what makes the request it is asked."""

ModelEntry = Model | tuple[Model, Terms]
"""A model, alone or with its own terms."""


class OtherModel:
    """A model with how it is asked.

    Args:
        owner: What it was given to, for messages: "ModelFallbackMiddleware first_model".
        entry: A chat model or "provider:name"; or a pair of one and its terms: `model_settings`
            that replace those of the request, or a function of the request, in which only the
            model is changed yet, that returns the request to make.

    Raises:
        TypeError: It is none of these.
    """

    def __init__(self, owner: str, entry: ModelEntry) -> None:
        given, terms = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None)
        _check_model(owner, given)
        _check_terms(owner, terms)
        self._owner = owner
        self._given: Any = given
        self._terms = terms

    @cached_property
    def model(self) -> Any:
        """The chat model, made from its name when it is first asked for.

        Raises:
            Exception: It cannot be made: a package is missing, or a key.
        """
        try:
            return init_model(self._given)
        except Exception as error:
            error.add_note(f"This is of {self._owner}, {self._given!r}.")
            raise

    def __str__(self) -> str:
        return self._given if isinstance(self._given, str) else label(self._given)

    def asked(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request as this model is to be asked it.

        Raises:
            TypeError: The function among its terms returned something else than a request.
        """
        if not callable(self._terms):
            other = portable_request(request, self.model)
            own = self._terms
            return other if own is None else other.override(model_settings=dict(own))
        made = self._terms(request.override(model=self.model))
        if isinstance(made, ModelRequest):
            return made
        raise TypeError(
            f"The function given with {self._owner} returned {made!r}; return the request it was "
            "given, or request.override(...)."
        )

    def signed(
        self, response: ModelResponse[Any], request: ModelRequest[Any]
    ) -> ModelResponse[Any]:
        """A response of this model, with a mark where the request's own provider did not write it.

        Args:
            response: What it answered.
            request: The call as it was meant for another model.
        """
        if same_provider(request.model, self.model):
            return response
        writer = provider_of(self.model) or "unknown"
        return replace(response, result=[_marked(message, writer) for message in response.result])


def own(request: ModelRequest[Any]) -> ModelRequest[Any]:
    """The request for its own model; what other providers' models said is made readable for it."""
    messages = readable(request, request.model, at_home=True)
    return request if messages is request.messages else request.override(messages=messages)


def label(model: Any) -> str:
    """A model as a message calls it: its class, and its name where it has one.

    >>> from langchain_core.language_models import FakeListChatModel
    >>> label(FakeListChatModel(responses=[]))
    'FakeListChatModel'
    """
    if isinstance(model, OtherModel):
        return str(model)
    model = bare(model)
    found = (getattr(model, name, None) for name in ("model_name", "model", "model_id"))
    name = next((value for value in found if isinstance(value, str)), "")
    return f"{type(model).__name__} {name}".strip()


def _marked(message: Any, writer: str) -> Any:
    if not isinstance(message, AIMessage) or WRITER in message.response_metadata:
        return message
    metadata = {**message.response_metadata, WRITER: writer}
    return message.model_copy(update={"response_metadata": metadata})


def _check_model(owner: str, model: Any) -> None:
    if isinstance(model, str) and model.strip():
        return
    is_model = isinstance(model, Runnable) and callable(getattr(model, "bind_tools", None))
    if isinstance(model, BaseChatModel) or is_model:
        return
    raise TypeError(
        f"{owner} must be a chat model or 'provider:name', or a pair of one and its settings, not "
        f"{model!r}."
    )


def _check_terms(owner: str, terms: Any) -> None:
    if terms is None or (isinstance(terms, Mapping) and all(isinstance(k, str) for k in terms)):
        return
    if not callable(terms) or isinstance(terms, type) or is_async(terms):
        raise TypeError(
            f"{owner} must come with a dict of model_settings, or with a plain function of the "
            f"request that returns a request, not with {terms!r}."
        )
