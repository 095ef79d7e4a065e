"""Errors of providers whose conversation is too long, as their clients raise them."""

from __future__ import annotations

from types import SimpleNamespace

from agent_factory.providers import is_overflow
from tables import each


def error_with(text: str = "", status: int | None = 400, **attributes: object) -> Exception:
    error = ValueError(text)
    error.__dict__.update({"status_code": status} if status else {}, **attributes)
    return error


def responding(status: int, text: str) -> Exception:
    """An error of httpx, which keeps the status in its response."""
    return error_with(text, None, response=SimpleNamespace(status_code=status))


OF_BOTOCORE = {"ResponseMetadata": {"HTTPStatusCode": 400}}
TOO_LONG = {
    "openai": error_with(code="context_length_exceeded"),
    "openai responses": error_with("Your input exceeds the context window of this model."),
    "groq": error_with(body={"error": {"code": "context_length_exceeded"}}),
    "deepseek": error_with("This model's maximum context length is 131072 tokens."),
    "xai": error_with(body="This model's maximum prompt length is 131072, and you have more."),
    "mistral": responding(400, '{"type":"invalid_request_prompt_too_long","code":"3051"}'),
    "ollama": error_with("input length exceeds the context length (status code: 400)"),
    "llama.cpp": error_with("The request exceeds the available context size."),
    "vertex": error_with("The input (9) exceeds the maximum number of tokens (8).", None, code=400),
    "nvidia": Exception("[400] This model's maximum context length is 8 tokens."),
    "bedrock": error_with("Input is too long for requested model.", None, response=OF_BOTOCORE),
    "stream": error_with("failed", None, code="context_length_exceeded", status_code=None),
    "cohere": error_with(body="total number of tokens in the prompt cannot exceed 8"),
    "hugging face": responding(422, "`inputs` tokens + `max_new_tokens` must be <= 8."),
    "claude": error_with("input length and `max_tokens` exceed context limit: 9", response={}),
    "request too large": error_with("prompt is too long: 213462 tokens", 413),
}


@each("provider", list(TOO_LONG))
def test_a_conversation_that_is_too_long_is_recognized(provider: str) -> None:
    assert is_overflow(TOO_LONG[provider])


@each(
    "error",
    [
        error_with("Your key exceeds the context window.", 401),
        error_with("Unknown parameter.", code="unknown_parameter"),
        error_with("Slow down: maximum context length per minute", 429),
        Exception("[429] maximum context length per minute"),
        error_with("[400] maximum context length", 429, code={"type": "limit"}),
        ValueError("[400] Your prompt is too long."),
        ValueError("This model's maximum context length is 8 tokens."),
    ],
)
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_overflow(error)
