"""Ends of answers, by the provider's reason: refused, cut, unreadable, paused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import invalid_tool_call

EndingKind = Literal["refused", "cut", "malformed", "paused"]

_REASONS: Final[Mapping[EndingKind, frozenset[str]]] = {
    "refused": frozenset(
        {
            "refusal",  # Anthropic
            "content_filter",  # OpenAI, Azure, Mistral and compatible providers
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
            "model_armor",  # Gemini on Vertex
            "error_toxic",  # Cohere
        }
    ),
    "cut": frozenset(
        {
            "length",  # OpenAI, Azure, Mistral, Groq, DeepSeek, Ollama and compatible providers
            "max_tokens",  # Anthropic, Bedrock, Gemini, Cohere, watsonx
            "max_output_tokens",  # OpenAI's Responses API
            "model_length",  # Mistral: the end of the context window
            "model_context_window_exceeded",  # Anthropic and Bedrock: the same
            "error_limit",  # Cohere: the same
        }
    ),
    "malformed": frozenset(
        {
            "malformed_function_call",  # Gemini
            "unexpected_tool_call",  # Gemini: a call although no tool was offered
            "malformed_tool_use",  # Bedrock's Converse API
            "malformed_model_output",  # the same
        }
    ),
    # platform.claude.com, build-with-claude/handling-stop-reasons: the API pauses a long turn with
    # server tools, and goes on when the answer is sent back.
    "paused": frozenset({"pause_turn"}),
}
"""The documented reasons of providers for answers that did not end by themselves."""

_KINDS: Final = {name: kind for kind, names in _REASONS.items() for name in names}
_KEYS = ("stop_reason", "finish_reason", "stopReason", "done_reason")

CUT_CALL: Final = (
    "The answer was cut off at the limit of output tokens, so this call did not run. Make smaller "
    "calls: split the work over several of them."
)
"""The `error` of a call in a cut answer, and the result that the model reads."""

_NESTED_KEYS = (("incomplete_details", "reason"), ("prompt_feedback", "block_reason"))
"""Where OpenAI's Responses API, and Gemini for a blocked prompt, put the reason."""

# Gemini's "unspecified" means that nothing was blocked; clients pass it as a number or a name.
_NOT_BLOCKED = (None, 0, "0", "", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")

_SENTENCES: Final[Mapping[EndingKind, str]] = {
    "refused": "The model or its provider refused to answer",
    "cut": "The answer was cut at a limit of tokens",
    "malformed": "The provider could not read a tool call of the model",
    "paused": "The provider paused the answer",
}


class Ending(NamedTuple):
    """End of an answer that did not end by itself.

    Attributes:
        kind: "refused", "cut" at a limit of tokens, "malformed" (a call that the provider could not
            read), or "paused" (the provider goes on when the answer is sent back).
        sign: The sign of the provider: "stop_reason: max_tokens", or "refusal".
    """

    kind: EndingKind
    sign: str

    @property
    def text(self) -> str:
        """The end in a sentence, for people.

        >>> Ending("cut", "done_reason: length").text
        'The answer was cut at a limit of tokens (done_reason: length).'
        """
        return f"{_SENTENCES[self.kind]} ({self.sign})."


def ending_of(message: BaseMessage) -> Ending | None:
    """The end of an answer by the provider's sign; None for an answer that ended by itself.

    A refusal comes first: a text in `additional_kwargs["refusal"]`, and a content block of type
    "refusal", are signs as well.

    >>> ending_of(AIMessage("Half", response_metadata={"done_reason": "length"}))
    Ending(kind='cut', sign='done_reason: length')
    >>> ending_of(AIMessage("Whole", response_metadata={"done_reason": "stop"})) is None
    True
    """
    first: Ending | None = None
    for key, reason in reasons_in(message.response_metadata):
        is_blocked = key == "prompt_feedback" and reason not in _NOT_BLOCKED
        kind = "refused" if is_blocked else _KINDS.get(_normalized(reason))
        if kind == "refused":
            return Ending("refused", f"{key}: {reason}")
        if kind is not None and key != "prompt_feedback":
            first = first or Ending(kind, f"{key}: {reason}")
    return Ending("refused", "refusal") if refusal_text(message) is not None else first


def refusal_of(message: AIMessage) -> str | None:
    """The sign by which a provider marks an answer as a refusal; None without a sign.

    >>> refusal_of(AIMessage("", response_metadata={"finish_reason": "SAFETY"}))
    'finish_reason: SAFETY'
    >>> refusal_of(AIMessage("I'm sorry, I can't help with that.")) is None
    True
    """
    ending = ending_of(message)
    return ending.sign if ending is not None and ending.kind == "refused" else None


def refusal_text(message: BaseMessage) -> str | None:
    """The words of a refusal that are not the text of the answer; None without a refusal there.

    OpenAI's Chat Completions API has them next to the content, its Responses API in a block.

    >>> refusal_text(AIMessage("", additional_kwargs={"refusal": "I cannot tell."}))
    'I cannot tell.'
    """
    if words := message.additional_kwargs.get("refusal"):
        return str(words)
    if not isinstance(message.content, list):
        return None
    for block in message.content:
        # LangChain wraps unknown blocks as {"type": "non_standard", "value": block}.
        if isinstance(block, Mapping) and block.get("type") == "non_standard":
            block = block.get("value") or block
        if isinstance(block, Mapping) and block.get("type") == "refusal":
            return str(block.get("refusal", ""))
    return None


def text_of(message: BaseMessage) -> str:
    """The text of a message or of a chunk for its reader, with the words of a refusal.

    >>> text_of(AIMessage("", additional_kwargs={"refusal": "I cannot tell."}))
    'I cannot tell.'
    """
    return f"{message.text}{refusal_text(message) or ''}"


def with_own_calls(message: AIMessage) -> AIMessage:
    """Return an answer with the calls that the model has made, as it has made them.

    - Calls of a cut answer are invalid: integrations complete the JSON of a cut call, and of
      "/tmp/work" they read "/tmp".
    - A stream of langchain-cohere 0.6 adds calls without arguments or names. The metadata names
      the calls of the model.
    """
    listed = message.response_metadata.get("tool_calls")
    ids = {call.get("id") for call in listed} if isinstance(listed, list) else set()
    if ids and not ids.isdisjoint(call["id"] for call in message.tool_calls):
        own = [call for call in message.tool_calls if call["id"] in ids]
        invalid = [call for call in message.invalid_tool_calls if call["id"] in ids]
        message = message.model_copy(update={"tool_calls": own, "invalid_tool_calls": invalid})
    ending = ending_of(message)
    if ending is None or ending.kind != "cut":
        return message
    calls = list(message.invalid_tool_calls)
    for call in message.tool_calls:
        args = json.dumps(call["args"])
        calls.append(invalid_tool_call(name=call["name"], args=args, id=call["id"], error=CUT_CALL))
    return message.model_copy(update={"tool_calls": [], "invalid_tool_calls": calls})


def reasons_in(metadata: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """The reasons in the metadata of an answer, with the keys under which providers put them."""
    yield from ((key, metadata[key]) for key in _KEYS if key in metadata)
    for key, inner in _NESTED_KEYS:
        if isinstance(details := metadata.get(key), Mapping) and details:
            yield key, details.get(inner)


def _normalized(reason: object) -> str:
    """A reason in lower case; integrations write a string or an enum, in any case."""
    name = getattr(reason, "name", reason)
    return str(name).rpartition(".")[2].lower().replace("-", "_")
