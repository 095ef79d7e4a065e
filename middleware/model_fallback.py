"""Other models for a call that failed.

A layer: it takes no step of the graph, and of attempts that failed nothing reaches the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.errors import GraphBubbleUp

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
from agent_factory.middleware._shared.alternate_model import ModelEntry, OtherModel, label, own
from agent_factory.middleware._shared.errors import format_error, is_async
from agent_factory.middleware._shared.portable_request import portable_request

__all__ = ["ModelFallbackMiddleware", "portable_request"]

Handle = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
"""The exceptions after which another model is asked: types, or a predicate."""

_OF_A_MODEL = ("AF306", "AF347")
"""Codes of this library's errors that another model need not meet: it cannot call tools, or it
refused. Any other is about the call, whoever is asked."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """How one model failed.

    Args:
        model: What it is called.
        error: What it raised, or what kept it from being made.
        words: The words of a retry further in that gave up, where nothing was raised.
        asked: Whether it was asked at all.
    """

    model: str
    error: Exception | None = None
    words: ModelResponse[Any] | None = None
    asked: bool = True

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.model}: {format_error(self.error)}"
        return f"{self.model}: {self.words.result[0].text if self.words else ''}"


class ModelFallbackMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Asks other models, one after the other, where the model's call raises an exception.

    Each call begins with the agent's own model again. Where all fail, the exception of the last
    one that could be asked is raised, with a note for every model that says how it failed.
    Interrupts and other control flow pass. So do errors of this library that another model would
    meet too, such as a limit that is used up.

    A fallback of another provider is asked without what only the first one's provider
    understands; `portable_request` says what stays. What it answers is marked in
    `response_metadata["lc_written_by"]`, so that its own thoughts go back to it and to no other.

    A stream has sent the words of a model that failed half-way; those of the next one follow under
    another message id.

    Args:
        first_model: Asked where the agent's model fails: a chat model, or "provider:name", which
            is made into one when it is first needed. Where that fails (a package is not
            installed), it counts as that model's failure. With terms of its own, give a pair:
            `(model, {"temperature": 0})`, settings that replace those of the request; or
            `(model, function)`, a function of the request as it was, with only the model changed,
            that returns the request to make. It may call `portable_request`.
        *additional_models: Asked after it, in this order.
        handle: The exceptions after which the next model is asked: a type, a tuple of them, or a
            function of the exception. Any other is raised at once.
        name: Tells several instances apart.

    Raises:
        TypeError: A model, its terms or `handle` are of an unusable type.

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
        _check_handle(handle)
        entries = (first_model, *additional_models)
        self._models = [
            OtherModel(f"ModelFallbackMiddleware model {number}", entry)
            for number, entry in enumerate(entries, start=1)
        ]
        self._handle = handle

    def around_model(self, request: ModelRequest[Any]) -> Generator[Any, Any, ModelResponse[Any]]:
        """Asks the agent's model, then the others, until one answers."""
        failures: list[_Failure] = []
        response: ModelResponse[Any] | None
        response = yield from self._try(request.model, own(request), failures)
        for model in self._models:
            if response is not None:
                break
            response = yield from self._try_other(model, request, failures)
        return _ended(failures) if response is None else response

    def _try_other(
        self, model: OtherModel, request: ModelRequest[Any], failures: list[_Failure]
    ) -> Flow[ModelResponse[Any] | None]:
        try:
            _ = model.model
        except Exception as error:  # whatever is raised for a missing package, a missing key, ...
            failures.append(_Failure(str(model), error, asked=False))
            return None
        response = yield from self._try(model, model.asked(request), failures)
        return None if response is None else model.signed(response, request)

    def _try(
        self, model: Any, request: ModelRequest[Any], failures: list[_Failure]
    ) -> Flow[ModelResponse[Any] | None]:
        """A model's response; None where it failed, which is then noted."""
        try:
            response: ModelResponse[Any] = yield request
        except Exception as error:
            failures.append(_Failure(label(model), error))
            if not self._covers(error):
                _explain(error, failures)
                raise
            return None
        if _gave_up(response):
            failures.append(_Failure(label(model), words=response))
            return None
        return response

    def _covers(self, error: Exception) -> bool:
        if not isinstance(self._handle, type | tuple):
            return bool(self._handle(error))
        if isinstance(error, AgentFactoryError) and not _is_of_a_model(error):
            return False
        return isinstance(error, self._handle)


def _is_of_a_model(error: AgentFactoryError) -> bool:
    return isinstance(error, OutputError) or error.code in _OF_A_MODEL


def _gave_up(response: ModelResponse[Any]) -> bool:
    """Whether a retry further in says that it gave up, instead of raising."""
    return any(
        isinstance(message, AIMessage)
        and message.additional_kwargs.get("lc_source") == "model_retry"
        for message in response.result
    )


def _ended(failures: list[_Failure]) -> ModelResponse[Any]:
    """What is left when no model answered: the words of a retry that gave up, or an exception."""
    last = [failure for failure in failures if failure.asked][-1]
    if last.error is not None:
        _explain(last.error, failures)
        raise last.error
    assert last.words is not None  # it failed in one way or the other
    return last.words


def _explain(error: Exception, failures: list[_Failure]) -> None:
    """Note on an exception how each model failed, once; alone, it speaks for itself."""
    if len(failures) < 2:
        return
    for number, failure in enumerate(failures, start=1):
        note = f"Model {number}, {failure}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def _check_handle(handle: Any) -> None:
    kinds = handle if isinstance(handle, tuple) else (handle,)
    if kinds and all(map(_is_error, kinds)):
        return
    if not callable(handle) or isinstance(handle, type) or is_async(handle):
        raise TypeError(
            "handle must be an exception type, a tuple of them, or a plain function of the "
            f"exception that says whether to ask the next model, not {handle!r}. Write "
            "handle=(ConnectionError, TimeoutError). Interrupts and cancellations always pass."
        )


def _is_error(kind: Any) -> bool:
    return (
        isinstance(kind, type)
        and issubclass(kind, Exception)
        and not issubclass(kind, GraphBubbleUp)
    )
