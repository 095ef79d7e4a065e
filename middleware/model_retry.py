"""Call a model again after a failure."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

from agent_factory import Flow, ModelRequest, ModelResponse

from ._shared.retry import OnFailure, RetryMiddleware, RetryOn, default_retry_on

__all__ = ["ModelRetryMiddleware", "default_retry_on"]


class ModelRetryMiddleware(RetryMiddleware):
    """Calls the model again if a call raises, with growing waits.

    The message about a failure ends the run. Programs recognize the message by
    `additional_kwargs["lc_source"] == "model_retry"` and by `response_metadata["failure"]`, which
    has the type of the exception as `error` and the number of `attempts`. With a `response_format`
    the message is not parsed as an answer, the model is not asked again, and `structured_response`
    is None.

    By default, `default_retry_on` decides about retries. An error outside of the default is retried
    if `retry_on` names its class, which base classes such as `Exception` do not, or is a predicate.
    Interrupts, handoffs, cancellation and KeyboardInterrupt are never retried.

    If an attempt fails while it streams, its tokens have been streamed already. The tokens of the
    next attempt follow under another message id.

    Args:
        max_retries: Attempts after the first; with 0, a failure only becomes `on_failure`.
        retry_on: The exceptions to retry: a type, a tuple of types, or a function of the exception.
            Any other exception is raised at once.
        on_failure: The result of the last failure. "continue": an AIMessage with its name. "error":
            its exception, with a note of the attempts. A function of the exception: an AIMessage
            with the function's text.
        backoff_factor: How much longer each wait is than the wait before; 0 keeps all waits the
            same.
        initial_delay: The first wait in seconds.
        max_delay: The longest wait in seconds, jitter included. The default is a minute, because
            providers limit calls per minute. A wait is at least as long as the provider's
            `Retry-After`. If the provider asks for more than `max_delay`, the model is not called
            again.
        jitter: Draw each wait from between half of it and all of it, so that clients which failed
            together do not retry together.
        name: The name of this instance, if a stack has several.

    Raises:
        ValueError: An argument has an unusable value.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> model = ScriptedChatModel([ConnectionError("down"), "Hello!"])
    >>> agent = create_agent(model, middleware=[ModelRetryMiddleware(initial_delay=0.01)])
    >>> agent.invoke({"messages": "Hi"})["messages"][-1].text
    'Hello!'
    """

    def __init__(
        self,
        *,
        max_retries: int = 2,
        retry_on: RetryOn = default_retry_on,
        on_failure: OnFailure = "continue",
        backoff_factor: float = 2.0,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        jitter: bool = True,
        name: str | None = None,
    ) -> None:
        waits = (backoff_factor, initial_delay, max_delay, jitter)
        super().__init__(max_retries, retry_on, on_failure, *waits, name)

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelResponse]:
        """Call the model until an attempt succeeds, or no attempt is left."""

        def reported(error: Exception, attempts: int, text: str) -> ModelResponse:
            failure = {"error": type(error).__name__, "attempts": attempts}
            metadata, kwargs = {"failure": failure}, {"lc_source": "model_retry"}
            message = AIMessage(text, additional_kwargs=kwargs, response_metadata=metadata)
            return ModelResponse([message])

        advice = "Nothing is lost: ask again later."
        retry = self._retry(request, "The model call", advice, reported, idempotent=True)
        return (yield from retry)
