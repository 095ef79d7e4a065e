"""Fake providers of models on 127.0.0.1, for tests of agents with the real clients of providers.

>>> from agent_factory.testing.providers import AnthropicServer, error, reply
"""

from agent_factory.testing.providers.anthropic import AnthropicServer
from agent_factory.testing.providers.bedrock import BedrockServer
from agent_factory.testing.providers.gemini import GeminiServer
from agent_factory.testing.providers.mistral import MistralServer
from agent_factory.testing.providers.ollama import OllamaServer
from agent_factory.testing.providers.openai_chat import OpenAIChatServer
from agent_factory.testing.providers.openai_responses import OpenAIResponsesServer
from agent_factory.testing.providers.openai_variants import DeepSeekServer, GroqServer, XAIServer
from agent_factory.testing.providers.replies import (
    ProviderError,
    ProviderReply,
    cut,
    error,
    pause,
    refusal,
    reply,
)
from agent_factory.testing.providers.rules import Fault, Rule
from agent_factory.testing.providers.server import ProviderRequest, ProviderServer

__all__ = (
    "AnthropicServer",
    "BedrockServer",
    "DeepSeekServer",
    "Fault",
    "GeminiServer",
    "GroqServer",
    "MistralServer",
    "OllamaServer",
    "OpenAIChatServer",
    "OpenAIResponsesServer",
    "ProviderError",
    "ProviderReply",
    "ProviderRequest",
    "ProviderServer",
    "Rule",
    "XAIServer",
    "cut",
    "error",
    "pause",
    "refusal",
    "reply",
)
