"""Ask other models when a model refuses to answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from langchain_core.exceptions import ModelRefusalError as CoreRefusalError
from langchain_core.messages import AIMessage

from agent_factory import (
    AgentState,
    Flow,
    ModelRequest,
    ModelResponse,
    Ordering,
    OutputError,
    TurnError,
)
from agent_factory.providers import refusal_of

from ._shared.errors import is_async
from ._shared.messages import without_calls
from ._shared.models import (
    ModelEntry,
    alternates,
    mark_writer,
    model_label,
    request_to,
    with_metadata,
)
from ._shared.payload_free import PayloadFree
from ._shared.validation import check_choice, check_value, copied

__all__ = ["ModelRefusalError", "ModelRefusalMiddleware", "refusal_of"]


class ModelRefusalError(TurnError, CoreRefusalError):
    """Every model refused to answer, and `on_refusal` is "error".

    The class derives from langchain-core's `ModelRefusalError`, so handlers of that error apply.

    Attributes:
        ai_message: The first refusal; `raw_message` is the same, as in langchain-core.
        refusals: A dict for each refusing model: `model`, `reason` and `usage_metadata`.
    """

    code = "AF347"

    def __init__(self, ai_message: AIMessage, refusals: list[dict[str, Any]]) -> None:
        self.ai_message = ai_message
        self.raw_message = ai_message
        self.refusals = refusals
        models = "; ".join(f"{refusal['model']} ({refusal['reason']})" for refusal in refusals)
        super().__init__(
            "the model",
            f"refused to answer: {models}.",
            "Rephrase or remove the message that was refused, or pass another model.",
        )


class ModelRefusalMiddleware(PayloadFree[AgentState]):
    """Asks other models after a refusal, or raises an error without other models.

    An answer is a refusal if the provider marks it so, see `refusal_of`, or if `is_refusal` returns
    True. The next model receives the same request, without the refused answer. The thread holds
    only the answer of a model that does not refuse. Its `response_metadata["refusals"]` lists each
    model that refused before: `model`, `reason` and `usage_metadata`, because the tokens were paid
    for. If all models refuse, the first refusal is the answer, without tool calls, and ends the
    run. A refusal also ends a run with a `response_format`: no model is asked again for a
    structured answer.

    A model of another provider receives the request without the parts for the first model's
    provider only, as with `ModelFallbackMiddleware`. Of exceptions, only the `ModelRefusalError` of
    langchain-core counts as a refusal; any other propagates.

    If a model refuses while it streams, its tokens have been streamed already. The tokens of the
    next model follow under another message id.

    Args:
        *models: The models to ask in turn: chat models, "provider:name" (made into a model at the
            first need), or pairs of a model and its own settings, as in `ModelFallbackMiddleware`.
            Without any, a refusal raises ModelRefusalError.
        is_refusal: A function that returns True for an answer that is a refusal. Called if the
            provider gives no sign of a refusal.
        on_refusal: The consequence if all models refuse. "keep", the default if there are models:
            the first refusal is the answer. "error": ModelRefusalError is raised.
        name: The name of this instance, if a stack has several.

    Raises:
        ValueError: `on_refusal` is "keep" without a model, or unknown.
        TypeError: A model, its settings or `is_refusal` have an unusable type.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> no = AIMessage("", response_metadata={"stop_reason": "refusal"})
    >>> stack = [ModelRefusalMiddleware(ScriptedChatModel(["Gladly."]))]
    >>> agent = create_agent(ScriptedChatModel([no]), middleware=stack)
    >>> agent.invoke({"messages": "How do locks work?"})["messages"][-1].text
    'Gladly.'
    """

    ordering = Ordering(before=("ModelRetryMiddleware",))

    def __init__(
        self,
        *models: ModelEntry,
        is_refusal: Callable[[AIMessage], bool] | None = None,
        on_refusal: Literal["keep", "error"] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if on_refusal is None:
            on_refusal = "keep" if models else "error"
        check_choice("on_refusal", on_refusal, ("keep", "error"))
        if not models and on_refusal == "keep":
            raise ValueError(
                "on_refusal='keep' needs another model: without one, nothing would happen. Pass "
                "ModelRefusalMiddleware(model), or leave on_refusal out."
            )
        is_function = is_refusal is None or (callable(is_refusal) and not is_async(is_refusal))
        expected = "a plain function of the AIMessage that returns True or False"
        check_value("is_refusal", is_refusal, is_function, expected, error=TypeError)
        self.models = copied(models)
        self._models = alternates("ModelRefusalMiddleware", models)
        self.most_attempts = 1 + len(self._models)
        self.is_refusal, self.on_refusal = is_refusal, on_refusal

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelResponse]:
        """Ask the agent's model, then the others, until a model does not refuse."""
        first: AIMessage | None = None
        refusals: list[dict[str, Any]] = []
        for model in (request.model, *self._models):
            try:
                response: ModelResponse = yield request_to(model, request)
            except OutputError as error:  # a refusal does not fit the schema either
                message = error.ai_message
                reason = self._refusal_reason(message)
                if message is None or reason is None:
                    raise
            # Integrations raise the error where they read an answer, and so does another middleware
            # of this kind further in.
            except CoreRefusalError as error:
                raw = error.raw_message
                message = raw if isinstance(raw, AIMessage) else AIMessage(str(error))
                first = first or message
                own = [_refusal(model, "ModelRefusalError", message)]
                refusals += getattr(error, "refusals", own)
                continue
            else:
                message = next((m for m in response.result if isinstance(m, AIMessage)), None)
                reason = self._refusal_reason(message)
                if message is None or reason is None:
                    response = mark_writer(response, request, model)
                    return _with_refusals(response, refusals) if refusals else response
            # Without a usable answer, the user gets the answer of the agent's own model.
            first = first or message
            refusals.append(_refusal(model, reason, message))
        assert first is not None  # the loop only ends after a refusal
        if self.on_refusal == "error":
            raise ModelRefusalError(first, refusals)
        if first.tool_calls or first.invalid_tool_calls:
            # The unfinished calls of the refusal must not run.
            first = without_calls(first, str(first.text))
        return _with_refusals(ModelResponse([first]), refusals)

    def _refusal_reason(self, message: AIMessage | None) -> str | None:
        """Reason why a message counts as a refusal; None for any other message."""
        if message is None:
            return None
        if (reason := refusal_of(message)) is not None:
            return reason
        return "is_refusal" if self.is_refusal is not None and self.is_refusal(message) else None


def _refusal(model: object, reason: str, message: AIMessage | None) -> dict[str, Any]:
    usage = message.usage_metadata if message else None
    return {"model": model_label(model), "reason": reason, "usage_metadata": usage}


def _with_refusals(response: ModelResponse, refusals: list[dict[str, object]]) -> ModelResponse:
    return with_metadata(response, lambda metadata: {**metadata, "refusals": refusals})
