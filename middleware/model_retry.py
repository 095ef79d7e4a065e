"""Ask the model again when its call failed.

A layer, so that it takes no step of the graph: a failed attempt leaves nothing in the thread, and
what layers further in wrote is only that of the attempt which succeeded.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from langchain_core.messages import AIMessage

from agent_factory import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from agent_factory.middleware._shared.retry import Backoff, OnFailure, Retries, RetryOn

__all__ = ["ModelRetryMiddleware"]

_ADVICE = "Nothing is lost: ask again later."


class ModelRetryMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Calls the model again when a call raised, with growing waits.

    After the last attempt the run ends with a message that says so, or with the exception. With a
    `response_format` it ends as well: the message is not taken for an answer in prose, the model
    is not asked for a better one, and `structured_response` is None.

    Interrupts, handoffs, cancellation and KeyboardInterrupt are never retried. Errors that this
    library names (`AgentFactoryError`: an unknown tool, a limit that is used up, a structured
    answer that never fitted) would come again, so `Exception` does not mean them; they are retried
    where `retry_on` names one of their classes, or is a predicate.

    A stream has sent the words of a failed attempt before it failed; those of the next one follow
    under another message id.

    Args:
        max_retries: Attempts after the first; 0 only turns the failure into `on_failure`.
        retry_on: The exceptions that are retried: a type, a tuple of them, or a function of the
            exception. Any other is raised at once, as it is.
        on_failure: What the last failure leads to. "continue": an AIMessage that names it ends the
            run, marked by `additional_kwargs["lc_source"] == "model_retry"`; "error": its
            exception is raised, with a note of the attempts; a function of the exception: an
            AIMessage with the text it returns.
        backoff_factor: How much longer each wait is than the one before; 0 keeps them the same.
        initial_delay: The first wait, in seconds.
        max_delay: The longest wait, in seconds, jitter included. A minute, as providers count
            their rates by the minute.
        jitter: Draw each wait from between its half and its whole, so that clients which failed
            together do not come back together.
        name: Tells several instances apart.

    Raises:
        ValueError: An argument that is none of these; the message says what to write.

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
        super().__init__(name=name)
        self.max_retries = max_retries
        backoff = Backoff(backoff_factor, initial_delay, max_delay, jitter)
        self._retries = Retries(self.name, max_retries, retry_on, on_failure, backoff)

    def around_model(
        self, request: ModelRequest[Any]
    ) -> Generator[Any, Any, ModelResponse[Any] | AIMessage]:
        """Asks until there is an answer, or no attempt is left."""
        answer: ModelResponse[Any] | AIMessage = yield from self._retries.around(
            request, self._failed
        )
        return answer

    def _failed(self, error: Exception) -> AIMessage:
        text = self._retries.last_words(error, "The call of the model", _ADVICE)
        return AIMessage(text, additional_kwargs={"lc_source": "model_retry"})
