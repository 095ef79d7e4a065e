"""Reasons why a model stopped, by its provider: a refusal, a cut answer, an unreadable answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from langchain_core.messages import AIMessage

_REFUSALS = frozenset(
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
        "error_toxic",  # Cohere
    }
)
"""The documented reasons of providers for an answer that was refused or withheld."""

_CUT = frozenset(
    {
        "length",  # OpenAI, Azure, Mistral, Groq, DeepSeek, Ollama and compatible providers
        "max_tokens",  # Anthropic, Bedrock, Gemini, Cohere, watsonx
        "max_output_tokens",  # OpenAI's Responses API
        "model_length",  # Mistral: the end of the context window
        "model_context_window_exceeded",  # Anthropic and Bedrock: the same
        "error_limit",  # Cohere: the same
    }
)
"""The documented reasons of providers for an answer that ended at a limit of tokens."""

_MALFORMATIONS = frozenset(
    {
        "malformed_function_call",  # Gemini
        "unexpected_tool_call",  # Gemini: a call although no tool was offered
        "malformed_tool_use",  # Bedrock's Converse API
        "malformed_model_output",  # the same
    }
)
"""The documented reasons of providers for an answer that they could not read."""

_KEYS = ("stop_reason", "finish_reason", "stopReason", "done_reason")

_NESTED_KEYS = (("incomplete_details", "reason"), ("prompt_feedback", "block_reason"))
"""Where OpenAI's Responses API, and Gemini for a blocked prompt, put the reason."""

# Gemini's "unspecified" means that nothing was blocked; clients pass it as a number or a name.
_NOT_BLOCKED = (None, 0, "0", "", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")


def refusal_of(message: AIMessage) -> str | None:
    """The sign by which a provider marks an answer as a refusal; None without a sign.

    The sign is a stop reason in `response_metadata` that providers document as a refusal, a text in
    `additional_kwargs["refusal"]`, or a content block of type "refusal".

    >>> refusal_of(AIMessage("", response_metadata={"finish_reason": "SAFETY"}))
    'finish_reason: SAFETY'
    >>> refusal_of(AIMessage("I'm sorry, I can't help with that.")) is None
    True
    """
    metadata = message.response_metadata
    blocks = message.content if isinstance(message.content, list) else ()
    if not (metadata or message.additional_kwargs or blocks):
        return None
    for key, reason in _reasons(metadata):
        is_blocked = key == "prompt_feedback" and reason not in _NOT_BLOCKED
        if is_blocked or _normalized(reason) in _REFUSALS:
            return f"{key}: {reason}"
    if message.additional_kwargs.get("refusal"):
        return "refusal"
    for block in blocks:
        # LangChain wraps unknown blocks as {"type": "non_standard", "value": block}.
        if isinstance(block, Mapping) and block.get("type") == "non_standard":
            block = block.get("value") or block
        if isinstance(block, Mapping) and block.get("type") == "refusal":
            return "refusal"
    return None


def fault_of(message: AIMessage) -> tuple[Literal["cut", "malformed"], str] | None:
    """Fault of an answer by its provider's reason, with the reason; None without a fault."""
    for key, reason in _reasons(message.response_metadata):
        if key == "prompt_feedback":
            continue
        if (name := _normalized(reason)) in _CUT:
            return "cut", f"{key}: {reason}"
        if name in _MALFORMATIONS:
            return "malformed", f"{key}: {reason}"
    return None


def _reasons(metadata: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The reasons in the metadata of an answer, with the keys under which providers put them."""
    for key in _KEYS:
        if key in metadata:
            yield key, metadata[key]
    for key, inner in _NESTED_KEYS:
        details = metadata.get(key)
        if details and isinstance(details, Mapping):
            yield key, details.get(inner)


def _normalized(reason: object) -> str:
    """A reason in lower case; integrations write a string or an enum, in any case."""
    name = getattr(reason, "name", reason)
    return str(name).rpartition(".")[2].lower().replace("-", "_")
