"""Ask other models when a model call fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.exceptions import ContextOverflowError

from agent_factory import (
    AgentFactoryError,
    AgentMiddleware,
    AgentState,
    Flow,
    ModelRequest,
    ModelResponse,
    Ordering,
    OutputError,
)
from agent_factory.providers import is_overflow

from ._shared.errors import are_exception_types, format_error, is_sync_function
from ._shared.models import (
    ModelEntry,
    alternates,
    mark_writer,
    model_label,
    portable_request,
    request_to,
)
from ._shared.overflow import recovers_later
from ._shared.validation import copied

__all__ = ["ModelFallbackMiddleware", "portable_request"]

Handle = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
"""The exceptions after which another model is asked: types, or a predicate."""

_MODEL_SPECIFIC = ("AF306", "AF347", "AF355")
"""Codes of this library's errors that depend on the model: no calls of tools, a refusal, or no
usable answer. Any other error of this library would be raised for another model too."""


class ModelFallbackMiddleware(AgentMiddleware[AgentState, Any]):
    """Asks other models, one after the other, if the call of a model raises an exception.

    Each call begins with the agent's own model. If all models fail, the exception of the last model
    is raised, with a note for each model about its failure. Interrupts and other control flow
    always propagate. So do errors of this library that another model would meet too, such as a
    limit that is used up. If a layer further out can make a too long conversation smaller
    for the model, this is done before another model is asked, unless `handle` names
    ContextOverflowError.

    A fallback of another provider receives the request without the parts for the first model's
    provider only; `portable_request` lists the kept parts. Its answers are marked in
    `response_metadata["lc_written_by"]`, so that thoughts are sent back to their model and to no
    other.

    If a model fails while it streams, its tokens have been streamed already. The tokens of the next
    model follow under another message id.

    Args:
        first_model: The model to ask if the agent's model fails: a chat model or "provider:name".
            To give a model its own settings, pass a pair: `(model, {"temperature": 0})` replaces
            the settings of the request; `(model, function)` passes the request, with only the model
            changed, to a function that returns the request to send. The function may call
            `portable_request`.
        *additional_models: The next models to ask, in this order.
        handle: The exceptions after which the next model is asked: a type, a tuple of types, or a
            function of the exception. Any other exception is raised at once.
        name: The name of this instance, if a stack has several.

    Raises:
        TypeError: A model, its settings or `handle` have an unusable type.
        ImportError: A model is named, and langchain or the package of its provider is missing.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> down, up = ScriptedChatModel([ConnectionError("down")]), ScriptedChatModel(["Hello!"])
    >>> agent = create_agent(down, middleware=[ModelFallbackMiddleware(up)])
    >>> agent.invoke({"messages": "Hi"})["messages"][-1].text
    'Hello!'
    """

    ordering = Ordering(before=("ModelRetryMiddleware",))

    def __init__(
        self,
        first_model: ModelEntry,
        *additional_models: ModelEntry,
        handle: Handle = Exception,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if not are_exception_types(handle) and not is_sync_function(handle):
            raise TypeError(
                "handle must be an exception type, a tuple of them, or a plain function of the "
                f"exception that returns whether to ask the next model, got {handle!r}. Write "
                "handle=(ConnectionError, TimeoutError). Interrupts and cancellations always "
                "propagate."
            )
        self.first_model, *additional = copied((first_model, *additional_models))
        self.additional_models = tuple(additional)
        self.handle = handle
        self._models = alternates("ModelFallbackMiddleware", (first_model, *additional_models))
        self.most_attempts = 1 + len(self._models)

    @property
    def models(self) -> list[Any]:
        """The models to ask after the agent's own."""
        return [alternate.model for alternate in self._models]

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelResponse]:
        """Ask the agent's model, then the others, until a model answers."""
        failures: list[str] = []
        last: Exception | ModelResponse | None = None
        response: ModelResponse
        for model in (request.model, *self._models):
            attempt = request_to(model, request)
            try:
                response = yield attempt
            except Exception as error:
                failures.append(f"{model_label(model)}: {format_error(error)}")
                # A layer further out makes the conversation, which is too long, smaller.
                waits = not self._names_overflow and is_overflow(error) and recovers_later(request)
                if not self._covers(error) or waits:
                    _add_notes(error, failures)
                    raise
                last = error
                continue
            # A ModelRetryMiddleware further in answers in place of a failed model.
            if "model_retry" in [m.additional_kwargs.get("lc_source") for m in response.result]:
                failures.append(f"{model_label(model)}: {response.result[0].text}")
                last = response
                continue
            return mark_writer(response, request, model)
        if isinstance(last, ModelResponse):
            return last
        assert last is not None  # the agent's own model was called
        _add_notes(last, failures)
        raise last

    @property
    def _names_overflow(self) -> bool:
        kinds = self.handle if isinstance(self.handle, tuple) else (self.handle,)
        return any(isinstance(k, type) and issubclass(k, ContextOverflowError) for k in kinds)

    def _covers(self, error: Exception) -> bool:
        if not isinstance(self.handle, type | tuple):
            return bool(self.handle(error))
        if isinstance(error, AgentFactoryError) and not isinstance(error, OutputError):
            return error.code in _MODEL_SPECIFIC and isinstance(error, self.handle)
        is_overflow_named = self._names_overflow and is_overflow(error)
        return is_overflow_named or isinstance(error, self.handle)


def _add_notes(error: Exception, failures: list[str]) -> None:
    """Add a note to an exception for each failed model, if there are several."""
    if len(failures) < 2:
        return
    for number, failure in enumerate(failures, start=1):
        note = f"Model {number}, {failure}"
        # The same exception object may be raised again, by a retry further out for instance.
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
