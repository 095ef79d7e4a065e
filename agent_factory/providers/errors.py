"""Errors of providers: a conversation that is too long for the model."""

from __future__ import annotations

from typing import Final

from langchain_core.exceptions import ContextOverflowError

_SIGNS: Final = (
    "context_length_exceeded",  # platform.openai.com/docs/guides/error-codes; Azure, Groq
    "invalid_request_prompt_too_long",  # docs.mistral.ai/resources/error-codes
    "maximum context length",  # DeepSeek, vLLM, NVIDIA, OpenRouter: they have no code for it
    "maximum prompt length",  # xAI
    "exceeds the context window",  # OpenAI's Responses API
    "exceeds the context length",  # Ollama
    "exceeds the available context size",  # llama.cpp's server
    "prompt is too long",  # Anthropic, through the clients of others too
    "input is too long for requested model",  # Bedrock, likewise
    "exceed context limit",  # Claude up to 4.1: the input and `max_tokens`
    "exceeds the maximum number of tokens",  # Gemini, through Vertex and the clients of others
    "total number of tokens in the prompt",  # docs.cohere.com/reference/errors
    "tokens + `max_new_tokens` must be",  # Hugging Face's TGI, Together
)
"""Codes and words, in lower case, of a response that says that the conversation is too long."""

_STATUS: Final = ("400", "413", "422")


def is_overflow(error: BaseException) -> bool:
    """Return True for an error of a model whose conversation is too long for the model.

    Such is langchain-core's `ContextOverflowError`, which not every client raises (seen with
    langchain-openai 1.7.4), and any error of status 400, 413 or 422 with the code or the words of a
    provider in its text or in the body of its response.

    >>> is_overflow(ContextOverflowError("too long"))
    True
    >>> error = ValueError("Error code: 400")
    >>> error.status_code, error.code = 400, "context_length_exceeded"
    >>> is_overflow(error), is_overflow(ValueError("context_length_exceeded"))
    (True, False)
    """
    if isinstance(error, ContextOverflowError):
        return True
    code, response = getattr(error, "code", ""), getattr(error, "response", None)
    # Errors of httpx, as of langchain-mistralai, and of botocore keep the status in `response`,
    # Google's in `code`.
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None) or code
    if isinstance(response, dict):
        status = (response.get("ResponseMetadata") or {}).get("HTTPStatusCode", status)
    # An error in a stream has a code alone; langchain-nvidia-ai-endpoints 1.5 raises an Exception
    # whose text begins with the status.
    is_bare = type(error) is Exception and str(error)[1:4] in _STATUS
    if str(status) not in _STATUS and code not in _SIGNS and not is_bare:
        return False
    text = f"{error} {code} {getattr(error, 'body', '')}".lower()
    return any(sign in text for sign in _SIGNS)
