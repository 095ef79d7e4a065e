"""The chat models of providers, each with the fake of its provider."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from agent_factory.testing import providers as p
from foreign.claude_on_bedrock import PreservingBedrockServer


def _model(package: str, name: str, url: str, **options: Any) -> Callable[..., Any]:
    """A function of the URL of a server, and of streaming, that makes a chat model."""

    def make(server: p.ProviderServer, streaming: bool) -> Any:
        kind = getattr(pytest.importorskip(package), name)
        return kind(**{url: server.url, "disable_streaming": not streaming, **options})

    return make


_KEY: Any = {"api_key": "none", "max_retries": 0}
_claude = partial(_model, "langchain_anthropic", "ChatAnthropic", "base_url", **_KEY)
_gpt = partial(_model, "langchain_openai", "ChatOpenAI", "base_url", **_KEY, model="gpt-5")
_GEMINI: Any = {"model": "gemini-3-pro-preview", "google_api_key": "none", "max_retries": 1}
_MISTRAL: Any = {"model": "magistral-medium-latest", "api_key": "none", "max_retries": 1}
_BEDROCK: Any = {
    "model": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "region_name": "us-east-1",
    "aws_access_key_id": "none",
    "aws_secret_access_key": "none",
}
_THINKING = {"type": "enabled", "budget_tokens": 1024}


class Kind(NamedTuple):
    """The fake of a provider, and its model."""

    server: Callable[..., p.ProviderServer]
    model: Callable[..., Any]


KINDS = {
    "claude": Kind(p.AnthropicServer, _claude(model="claude-haiku-4-5", thinking=_THINKING)),
    "claude_preserving": Kind(
        partial(p.AnthropicServer, preserved_thinking=True), _claude(model="claude-opus-5-5")
    ),
    "openai_chat": Kind(p.OpenAIChatServer, _gpt(stream_usage=True)),
    "openai_responses": Kind(p.OpenAIResponsesServer, _gpt(use_responses_api=True)),
    "openai_v1": Kind(
        p.OpenAIResponsesServer,
        _gpt(
            use_responses_api=True,
            output_version="v1",
            store=False,
            include=["reasoning.encrypted_content"],
        ),
    ),
    "gemini": Kind(
        p.GeminiServer,
        _model("langchain_google_genai", "ChatGoogleGenerativeAI", "base_url", **_GEMINI),
    ),
    "mistral": Kind(
        p.MistralServer, _model("langchain_mistralai", "ChatMistralAI", "endpoint", **_MISTRAL)
    ),
    "groq": Kind(
        p.GroqServer, _model("langchain_groq", "ChatGroq", "base_url", **_KEY, model="gpt-oss-20b")
    ),
    "ollama": Kind(
        p.OllamaServer,
        _model("langchain_ollama", "ChatOllama", "base_url", model="qwen3", reasoning=True),
    ),
    "bedrock": Kind(
        p.BedrockServer, _model("langchain_aws", "ChatBedrockConverse", "endpoint_url", **_BEDROCK)
    ),
    "bedrock_preserving": Kind(
        PreservingBedrockServer,
        _model(
            "langchain_aws",
            "ChatBedrockConverse",
            "endpoint_url",
            **{**_BEDROCK, "model": "us.anthropic.claude-opus-5-5-v1:0"},
        ),
    ),
    "deepseek": Kind(
        p.DeepSeekServer,
        _model("langchain_deepseek", "ChatDeepSeek", "api_base", **_KEY, model="deepseek-flash"),
    ),
    "xai": Kind(
        p.XAIServer, _model("langchain_xai", "ChatXAI", "xai_api_base", **_KEY, model="grok-4")
    ),
}


# langchain-ollama 1.1.0 sends no name of a tool.
BROKEN = {"ollama": ["names_of_results"]}
"""Rules that the packages break without a middleware."""


def rule_names(server: p.ProviderServer) -> list[str]:
    """The rules that requests to a server broke, once each."""
    return sorted({fault.rule.name for fault in server.faults})
