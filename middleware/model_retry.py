"""Call a model again after a failure.

The middleware is a layer: it adds no step to the graph, and nothing of a failed attempt reaches the
thread. Updates of layers further in are kept only for the attempt that succeeded.
"""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

from agent_factory import Flow, ModelRequest, ModelResponse

from ._shared.retry import OnFailure, RetryMiddleware, RetryOn

__all__ = ["ModelRetryMiddleware"]


class ModelRetryMiddleware(RetryMiddleware):
    """Calls the model again if a call raises, with growing waits.

    After the last attempt the run ends with a message that names the failure, or with the
    exception. With a `response_format` the run ends as well: the message is not parsed as an
    answer, the model is not asked again, and `structured_response` is None.

    Interrupts, handoffs, cancellation and KeyboardInterrupt are never retried. This library's own
    errors (`AgentFactoryError`: an unknown tool, a limit that is used up, a structured answer that
    never fitted) would be raised again, so `Exception` does not cover them. They are retried if
    `retry_on` names one of their classes, or is a predicate.

    If an attempt fails while it streams, its tokens have been streamed already. Those of the next
    attempt follow under another message id.

    Args:
        max_retries: Attempts after the first; with 0, a failure only becomes `on_failure`.
        retry_on: The exceptions that are retried: a type, a tuple of types, or a function of the
            exception. Any other exception is raised at once.
        on_failure: What the last failure leads to. "continue": an AIMessage that names it ends the
            run, marked by `additional_kwargs["lc_source"] == "model_retry"`. "error": its exception
            is raised, with a note of the attempts. A function of the exception: an AIMessage with
            the text that it returns.
        backoff_factor: How much longer each wait is than the one before; 0 keeps all waits the
            same.
        initial_delay: The first wait in seconds.
        max_delay: The longest wait in seconds, jitter included. The default is a minute, because
            providers limit calls per minute. A wait is at least as long as the provider asks for in
            `Retry-After`. If it asks for more than `max_delay`, the model is not called again.
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
        retry_on: RetryOn = (Exception,),
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
        """Call the model until it answers, or no attempt is left."""

        def reported(error: Exception, text: str) -> ModelResponse:
            message = AIMessage(text, additional_kwargs={"lc_source": "model_retry"})
            return ModelResponse([message])

        advice = "Nothing is lost: ask again later."
        retry = self._retry(request, "The model call", advice, reported, idempotent=True)
        return (yield from retry)
