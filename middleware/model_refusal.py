"""Other models for a request that one refused.

A layer: the refused answer never reaches the thread, where it would make the next one refuse too.
Only what providers say themselves counts as a refusal; words are never guessed at.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Literal

from langchain_core.messages import AIMessage

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Flow,
    ModelRequest,
    ModelResponse,
    Ordering,
    OutputError,
    TurnError,
)
from agent_factory.middleware._shared.alternate_model import ModelEntry, OtherModel, label, own
from agent_factory.middleware._shared.errors import is_async
from agent_factory.middleware._shared.validation import check_choice

__all__ = ["ModelRefusalError", "ModelRefusalMiddleware", "refusal_of"]

_REASONS = frozenset(
    {
        "refusal",  # Anthropic
        "content_filter",  # OpenAI, Azure, Mistral and those that speak like them
        "content_filtered",  # Bedrock's Converse API
        "guardrail_intervened",  # the same, for guardrails
        "safety",  # Gemini, from here on
        "image_safety",
        "prohibited_content",
        "image_prohibited_content",
        "blocklist",
        "spii",
        "recitation",
        "image_recitation",
        "error_toxic",  # Cohere
    }
)
"""What providers document as the reason of an answer that was refused or withheld."""

_REASON_KEYS = ("stop_reason", "finish_reason", "stopReason")

_NESTED = (("incomplete_details", "reason"), ("prompt_feedback", "block_reason"))
"""Where OpenAI's Responses API, and Gemini for a blocked prompt, put the reason."""

_NO_BLOCK = (None, 0, "0", "", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")

_CALLS = ("tool_calls", "function_call")


class ModelRefusalError(TurnError):
    """Every model refused to answer, and the middleware should raise.

    Attributes:
        ai_message: The first refusing answer.
        refusals: One dict for each model that refused: `model`, `reason` and `usage_metadata`.
    """

    code = "AF347"

    def __init__(self, ai_message: AIMessage, refusals: list[dict[str, Any]]) -> None:
        self.ai_message = ai_message
        self.refusals = refusals
        told = "; ".join(f"{refusal['model']} ({refusal['reason']})" for refusal in refusals)
        super().__init__(
            "the model",
            f"refused to answer: {told}.",
            "Rephrase or remove the message that was refused, or give another model.",
        )


class ModelRefusalMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Asks other models where one refuses to answer.

    A refusal is what the provider marks as one, see `refusal_of`, or what `is_refusal` takes for
    one. The next model is asked the same, without the refused answer. If it answers, the thread
    holds that answer alone; its `response_metadata["refusals"]` tells of each model that refused
    before: `model`, `reason` and `usage_metadata`, for its tokens were paid for. If all refuse, the
    first refusal stands, without tool calls, and ends the run, also where a structured answer was
    asked for: nobody is asked again for what was refused.

    A model of another provider is asked without what only the first one's provider understands,
    as by `ModelFallbackMiddleware`. An exception is no refusal and is raised as it is.

    A stream has sent what a model said before it refused; the words of the next one follow under
    another message id.

    Args:
        *models: Asked one after the other: chat models, "provider:name", which is made into a
            model when it is first needed, or pairs of one and its own settings, in the forms of
            `ModelFallbackMiddleware`.
        is_refusal: A function of the answer that says whether it is a refusal, asked where the
            provider gives no sign of one.
        on_refusal: What it leads to when all have refused. "keep": the first refusal is the
            answer; "error": ModelRefusalError.
        name: Tells several instances apart.

    Raises:
        ValueError: No model is given, and with "keep" nothing would come of it; or `on_refusal`
            is unknown.
        TypeError: A model, its terms or `is_refusal` are of an unusable type.

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
        on_refusal: Literal["keep", "error"] = "keep",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        check_choice("on_refusal", on_refusal, ("keep", "error"))
        if not models and on_refusal == "keep":
            raise ValueError("Give a model to ask after a refusal, or on_refusal='error'.")
        if is_refusal is not None and (not callable(is_refusal) or is_async(is_refusal)):
            raise TypeError(
                "is_refusal must be a plain function of the AIMessage that returns True or False, "
                f"not {is_refusal!r}."
            )
        self._models = [
            OtherModel(f"ModelRefusalMiddleware model {number}", entry)
            for number, entry in enumerate(models, start=1)
        ]
        self._is_refusal = is_refusal
        self._on_refusal = on_refusal

    def around_model(self, request: ModelRequest[Any]) -> Generator[Any, Any, ModelResponse[Any]]:
        """Asks the agent's model, then the others, until one does not refuse."""
        refused: list[tuple[AIMessage, dict[str, Any]]] = []
        response: ModelResponse[Any] | None
        response = yield from self._try(request.model, own(request), refused)
        for model in self._models:
            if response is not None:
                break
            response = yield from self._try(model, model.asked(request), refused)
            response = response and model.signed(response, request)
        told = [refusal for _, refusal in refused]
        if response is not None:
            return _telling(response, told) if told else response
        return self._ended(refused[0][0], told)

    def _try(
        self,
        model: Any,
        request: ModelRequest[Any],
        refused: list[tuple[AIMessage, dict[str, Any]]],
    ) -> Flow[ModelResponse[Any] | None]:
        """A model's response; None where it refused, which is then noted."""
        try:
            response: ModelResponse[Any] = yield request
        except OutputError as error:  # a refusal is no structured answer either
            message = error.ai_message
            if message is None or (reason := self._reason(message)) is None:
                raise
        else:
            message = next((m for m in response.result if isinstance(m, AIMessage)), None)
            if message is None or (reason := self._reason(message)) is None:
                return response
        usage = message.usage_metadata
        name = label(model)
        refused.append((message, {"model": name, "reason": reason, "usage_metadata": usage}))
        return None

    def _reason(self, message: AIMessage) -> str | None:
        if (reason := refusal_of(message)) is not None:
            return reason
        return "is_refusal" if self._is_refusal is not None and self._is_refusal(message) else None

    def _ended(self, first: AIMessage, told: list[dict[str, Any]]) -> ModelResponse[Any]:
        if self._on_refusal == "error":
            raise ModelRefusalError(first, told)
        return _telling(ModelResponse([_without_calls(first)]), told)


def refusal_of(message: AIMessage) -> str | None:
    """The sign by which a provider says that an answer is a refusal; None without one.

    It is a reason for stopping in `response_metadata` that providers document as such, a text in
    `additional_kwargs["refusal"]`, or a content block of type "refusal".

    >>> refusal_of(AIMessage("", response_metadata={"finish_reason": "SAFETY"}))
    'finish_reason: SAFETY'
    >>> refusal_of(AIMessage("I'm sorry, I can't help with that.")) is None
    True
    """
    nested = message.content if isinstance(message.content, list) else ()
    if not (message.response_metadata or message.additional_kwargs or nested):
        return None  # it says nothing of itself
    return next(_signs(message), None)


def _signs(message: AIMessage) -> Iterator[str]:
    metadata = message.response_metadata
    for key in _REASON_KEYS:
        if key in metadata and _word(metadata[key]) in _REASONS:
            yield f"{key}: {metadata[key]}"
    for key, inner in _NESTED:
        details = metadata.get(key)
        if not isinstance(details, Mapping):
            continue
        reason = details.get(inner)
        if _word(reason) in _REASONS or (key == "prompt_feedback" and reason not in _NO_BLOCK):
            yield f"{key}: {reason}"
    if message.additional_kwargs.get("refusal"):
        yield "refusal"
    blocks = message.content if isinstance(message.content, list) else []
    if any(isinstance(block, Mapping) and _is_refusal(block) for block in blocks):
        yield "refusal"


def _word(value: Any) -> str:
    """A reason as providers and their packages write it: an enum's name, in any case."""
    name = getattr(value, "name", value)
    return str(name).rpartition(".")[2].lower().replace("-", "_")


def _is_refusal(block: Mapping[str, Any]) -> bool:
    value = block.get("value")  # LangChain's wrapping of blocks that it does not know
    inner = value if block.get("type") == "non_standard" and isinstance(value, Mapping) else block
    return inner.get("type") == "refusal"


def _telling(response: ModelResponse[Any], refusals: list[dict[str, Any]]) -> ModelResponse[Any]:
    """The response with its answer telling who refused before."""
    result = [
        message.model_copy(
            update={"response_metadata": {**message.response_metadata, "refusals": refusals}}
        )
        if isinstance(message, AIMessage)
        else message
        for message in response.result
    ]
    return ModelResponse(result, response.structured_response)


def _without_calls(message: AIMessage) -> AIMessage:
    """The refusal without calls it had begun to make: what was refused is not carried out."""
    if not message.tool_calls and not message.invalid_tool_calls:
        return message
    kwargs = message.additional_kwargs
    update = {
        "content": str(message.text),
        "tool_calls": [],
        "invalid_tool_calls": [],
        # The same calls again, in the form OpenAI gave them.
        "additional_kwargs": {k: kwargs[k] for k in kwargs if k not in _CALLS},
    }
    return message.model_copy(update=update)
