"""Errors of providers whose conversation is too long, as their clients raise them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from agent_factory.providers import is_overflow
from tables import each

TOO_LONG: dict[str, dict[str, Any]] = {
    "openai": {"status_code": 400, "code": "context_length_exceeded"},
    "openai responses": {"text": "Your input exceeds the context window of this model."},
    "groq": {"body": {"error": {"code": "context_length_exceeded"}}},
    "deepseek": {"text": "This model's maximum context length is 131072 tokens."},
    "xai": {"body": "This model's maximum prompt length is 131072 but the request has more."},
    "mistral": {
        "text": '{"type":"invalid_request_prompt_too_long","code":"3051"}',
        "status_code": None,
        "response": SimpleNamespace(status_code=400),
    },
    "ollama": {"text": "input length exceeds the context length (status code: 400)"},
    "request too large": {"text": "prompt is too long: 213462 tokens", "status_code": 413},
}
"""Attributes of the errors, by provider; the status is 400 unless named."""


def error_with(text: str = "Error code: 400", **attributes: Any) -> Exception:
    error = ValueError(text)
    error.__dict__.update({"status_code": 400, **attributes})
    if error.__dict__["status_code"] is None:
        del error.__dict__["status_code"]
    return error


@each("provider", list(TOO_LONG))
def test_a_conversation_that_is_too_long_is_recognized(provider: str) -> None:
    assert is_overflow(error_with(**TOO_LONG[provider]))


@each(
    "error",
    [
        error_with("Your key exceeds the context window.", status_code=401),
        error_with("Unknown parameter.", code="unknown_parameter"),
        error_with("Slow down: maximum context length per minute", status_code=429),
        ValueError("This model's maximum context length is 8 tokens."),
    ],
)
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_overflow(error)
