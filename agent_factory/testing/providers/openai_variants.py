"""Fakes of providers whose API is OpenAI's Chat Completions with some differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from agent_factory.testing.providers.openai_chat import OpenAIChatServer
from agent_factory.testing.providers.replies import ProviderReply
from agent_factory.testing.providers.rules import Json, documented

GROQ = "https://console.groq.com/docs/api-reference"
DEEPSEEK = "https://api-docs.deepseek.com/guides/thinking_mode"
DEEPSEEK_CHAT = "https://api-docs.deepseek.com/api/create-chat-completion"


class GroqServer(OpenAIChatServer):
    """Fake of Groq: chat completions, with thoughts in `reasoning`.

    https://console.groq.com/docs/reasoning

    Args:
        replies: The script; see `OpenAIChatServer`.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    >>> from agent_factory.testing.providers import GroqServer, reply
    >>> server = GroqServer([reply("Hello.", thinking="A greeting.")])
    """

    base_path = ""
    thinking_field = "reasoning"
    refusal_field = ""
    message_fields: ClassVar = {*OpenAIChatServer.message_fields, "reasoning"}
    errors: ClassVar = {
        **OpenAIChatServer.errors,
        "overflow": (
            400,
            "Please reduce the length of the messages or completion.",
            "context_length_exceeded",
        ),
        "overloaded": (503, "{model} is currently over capacity. Please try again.", ""),
    }

    def end_fields(self, response: Json) -> Json:
        return {"x_groq": {"id": "req_1", "usage": response["usage"]}}

    @documented(GROQ)
    def texts(self, body: Json) -> Iterator[str]:
        """The content of an assistant's message is a text."""
        for index, message in enumerate(body["messages"]):
            if message["role"] == "assistant" and isinstance(message.get("content"), list):
                yield f"'messages.{index}.content' : value must be a string"


class DeepSeekServer(OpenAIChatServer):
    """Fake of DeepSeek: chat completions, with thoughts in `reasoning_content`.

    https://api-docs.deepseek.com/guides/thinking_mode

    Args:
        replies: The script; see `OpenAIChatServer`.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    >>> from agent_factory.testing.providers import DeepSeekServer, reply
    >>> server = DeepSeekServer([reply("Hello.", thinking="A greeting.")])
    """

    base_path = ""
    thinking_field = "reasoning_content"
    refusal_field = ""
    refusal_reason = "content_filter"
    message_fields: ClassVar = {*OpenAIChatServer.message_fields, "reasoning_content", "prefix"}
    errors: ClassVar = {
        **OpenAIChatServer.errors,
        "authentication": (401, "Authentication Fails, Your api key is invalid", ""),
        "not_found": (400, "Model Not Exist", "invalid_request_error"),
        "overflow": (
            400,
            "This model's maximum context length is 131072 tokens. However, you requested 140000 "
            "tokens. Please reduce the length of the messages or completion.",
            "invalid_request_error",
        ),
    }

    def message(self, answer: ProviderReply) -> Json:
        # In thinking mode, each answer has the field.
        return {**super().message(answer), self.thinking_field: answer.thinking}

    def end_fields(self, response: Json) -> Json:
        return {"usage": response["usage"]}

    @documented(DEEPSEEK_CHAT)
    def texts(self, body: Json) -> Iterator[str]:
        """The content of an assistant's message or of a result is a text."""
        for index, message in enumerate(body["messages"]):
            if message["role"] in ("assistant", "tool") and isinstance(message["content"], list):
                yield (
                    "Failed to deserialize the JSON body into the target type: "
                    f"messages[{index}].content: invalid type: sequence, expected a string"
                )

    @documented(DEEPSEEK)
    def thoughts_of_calls(self, body: Json) -> Iterator[str]:
        """In thinking mode, which is the default, a message with calls has its thought."""
        if (body.get("thinking") or {}).get("type") == "disabled":
            return
        for message in body["messages"]:
            if message.get("tool_calls") and message.get("reasoning_content") is None:
                yield "The reasoning_content in the thinking mode must be passed back to the API."


class XAIServer(OpenAIChatServer):
    """Fake of xAI: chat completions, with thoughts in `reasoning_content`.

    https://docs.x.ai/docs/guides/reasoning

    Args:
        replies: The script; see `OpenAIChatServer`.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    >>> from agent_factory.testing.providers import XAIServer, reply
    >>> server = XAIServer([reply("Hello.", thinking="A greeting.")])
    """

    thinking_field = "reasoning_content"
    message_fields: ClassVar = {*OpenAIChatServer.message_fields, "reasoning_content"}
    errors: ClassVar = {
        **OpenAIChatServer.errors,
        "overflow": (
            400,
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            "",
        ),
    }

    def error_body(self, status: int, message: str, code: str = "") -> Json:
        names = {400: "Client specified an invalid argument", 404: "Some resource was not found"}
        return {"code": names.get(status, code or "The service is unavailable"), "error": message}
