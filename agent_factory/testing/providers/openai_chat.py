"""Fake of OpenAI's Chat Completions, with its rules.

https://platform.openai.com/docs/api-reference/chat/create
https://platform.openai.com/docs/api-reference/chat-streaming
https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from agent_factory.testing.providers.chat_completions import (
    ChatCompletionsServer,
    calls_without_results,
    results_without_calls,
)
from agent_factory.testing.providers.replies import ProviderReply
from agent_factory.testing.providers.rules import Json, documented, extra_fields

_DOCS = "https://platform.openai.com/docs"
CHAT = f"{_DOCS}/api-reference/chat/create"
FUNCTIONS = f"{_DOCS}/guides/function-calling"


class OpenAIChatServer(ChatCompletionsServer):
    """Fake of OpenAI: Chat Completions, whole and streamed.

    The provider shows no thoughts here: `thinking` of a reply is left out.

    Args:
        replies: The script; see `ProviderServer`. A dict replaces fields of the response, as
            `choices`.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    Raises:
        ValueError: The provider has no such reply.

    >>> from agent_factory.testing.providers import OpenAIChatServer, reply
    >>> server = OpenAIChatServer([reply("Hello.")])
    >>> server.rules["calls_have_results"].text
    'Each call has a result in the messages after it.'
    """

    refusal_field = "refusal"
    errors: ClassVar = {
        "authentication": (401, "Incorrect API key provided: x.", "invalid_api_key"),
        "not_found": (404, "The model `{model}` does not exist.", "model_not_found"),
        "overflow": (
            400,
            "This model's maximum context length is 128000 tokens. However, your messages "
            "resulted in 130000 tokens. Please reduce the length of the messages.",
            "context_length_exceeded",
        ),
        "overloaded": (503, "The engine is currently overloaded, please try again later", ""),
        "rate_limit": (429, "Rate limit reached for {model}.", "rate_limit_exceeded"),
    }
    message_fields: ClassVar[set[str]] = {
        *("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio"),
        "function_call",
    }
    """The fields of messages in a request."""

    user_parts: ClassVar[set[str]] = {"text", "image_url", "input_audio", "file"}
    assistant_parts: ClassVar[set[str]] = {"text", "refusal"}

    def usage(self, answer: ProviderReply) -> Json:
        return {
            **super().usage(answer),
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        }

    @documented(CHAT)
    def required_fields(self, body: Json) -> Iterator[str]:
        """A request has a model and messages."""
        for name in ("model", "messages"):
            if name not in body:
                yield f"Missing required parameter: '{name}'."
        if body.get("messages") == []:
            yield "Invalid 'messages': empty array. Expected an array with minimum length 1."

    @documented(CHAT)
    def documented_fields(self, body: Json) -> Iterator[str]:
        """Messages, calls and parts have documented fields alone."""
        error = "Additional properties are not allowed ('{name}' was unexpected) - '{place}'"
        for index, message in enumerate(body["messages"]):
            place = f"messages.{index}"
            yield from extra_fields(message, self.message_fields, place, error)
            for call in message.get("tool_calls") or ():
                fields = {"id", "type", "function", "custom", "index"}
                yield from extra_fields(call, fields, f"{place}.tool_calls", error)
            content = message.get("content")
            for part in content if isinstance(content, list) else ():
                if part.get("type") in ("text", "refusal"):
                    fields = {"type", part["type"]}
                    yield from extra_fields(part, fields, f"{place}.content", error)

    @documented(CHAT)
    def roles(self, body: Json) -> Iterator[str]:
        """Messages are of the system, the developer, the user, the assistant or a tool."""
        for index, message in enumerate(body["messages"]):
            if message["role"] not in ("system", "developer", "user", "assistant", "tool"):
                yield f"Invalid value: '{message['role']}'. - 'messages.{index}.role'"

    @documented(FUNCTIONS)
    def calls_have_results(self, body: Json) -> Iterator[str]:
        """Each call has a result in the messages after it."""
        for index, ids in calls_without_results(body["messages"]):
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages "
                "responding to each 'tool_call_id'. The following tool_call_ids did not have "
                f"response messages: {', '.join(ids)} - 'messages.{index}'"
            )

    @documented(FUNCTIONS)
    def results_have_calls(self, body: Json) -> Iterator[str]:
        """A result is the only one of a call in the message of the assistant before."""
        for index, _ in results_without_calls(body["messages"]):
            yield (
                "Invalid parameter: messages with role 'tool' must be a response to a "
                f"preceeding message with 'tool_calls'. - 'messages.{index}'"
            )

    @documented(FUNCTIONS)
    def calls(self, body: Json) -> Iterator[str]:
        """A call has a unique id of at most 40 characters, and arguments as a text."""
        for index, message in enumerate(body["messages"]):
            place = f"'messages[{index}].tool_calls"
            calls = message.get("tool_calls")
            if calls == []:
                yield f"Invalid {place}': empty array. Expected an array with minimum length 1."
            ids = Counter[str]()
            for position, call in enumerate(calls or ()):
                ids[call["id"]] += 1
                if not call["id"] or len(call["id"]) > 40:
                    yield f"Invalid {place}[{position}].id': expected 1 to 40 characters."
                if ids[call["id"]] > 1:
                    yield f"Invalid {place}[{position}].id': duplicate id {call['id']}."
                arguments = call.get("function", {}).get("arguments", "")
                if not isinstance(arguments, str):
                    yield f"Invalid type for {place}[{position}].function.arguments': not a string."

    @documented(CHAT)
    def content(self, body: Json) -> Iterator[str]:
        """A message has a content of documented parts; an assistant's may be calls or a refusal."""
        parts = {"user": self.user_parts, "assistant": self.assistant_parts}
        for index, message in enumerate(body["messages"]):
            role, content = message["role"], message.get("content")
            others = ("tool_calls", "refusal", "audio", "function_call")
            if content is None and not (role == "assistant" and any(map(message.get, others))):
                yield f"Invalid 'messages[{index}].content': expected a string, got null."
            if content == []:
                yield f"Invalid 'messages[{index}].content': empty array."
            for part in content if isinstance(content, list) else ():
                kind = part.get("type") if isinstance(part, dict) else part
                if kind not in parts.get(role, {"text"}):
                    yield f"Invalid value: '{kind}'. - 'messages[{index}].content'"

    @documented(CHAT)
    def names(self, body: Json) -> Iterator[str]:
        """The name of a message has no spaces and none of `< | \\ / >`."""
        for index, message in enumerate(body["messages"]):
            if message.get("name") and not re.fullmatch(r"[^\s<|\\/>]+", message["name"]):
                yield rf"Invalid 'messages[{index}].name': expected pattern '^[^\s<|\\/>]+$'."

    @documented(CHAT)
    def tool_settings(self, body: Json) -> Iterator[str]:
        """There are no settings of tools without tools."""
        if body.get("tools") == []:
            yield "Invalid 'tools': empty array. Expected an array with minimum length 1."
        for name in ("tool_choice", "parallel_tool_calls"):
            if body.get(name) is not None and not body.get("tools"):
                yield f"Invalid value for '{name}': only allowed when 'tools' are specified."
