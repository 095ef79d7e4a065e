"""Requests for a completion: settings and messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from agent_factory.serve.client_tools import client_settings
from agent_factory.service import Run, Service

_OF_THE_MODEL = {
    "chat_template_kwargs", "enable_thinking", "frequency_penalty", "include_reasoning",
    "logit_bias", "max_completion_tokens", "max_output_tokens", "max_tokens", "max_tool_calls",
    "min_p", "min_tokens", "mirostat", "mirostat_eta", "mirostat_tau", "parallel_tool_calls",
    "prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_options",
    "prompt_cache_retention", "reasoning", "reasoning_effort", "repeat_last_n", "repeat_penalty",
    "repetition_penalty", "safety_identifier", "seed", "service_tier", "stop", "stop_token_ids",
    "store", "temperature", "thinking", "thinking_budget", "top_k", "top_p", "truncation",
    "typical_p", "verbosity",
}  # fmt: skip
"""Settings of the model in clients of OpenAI, vLLM, llama.cpp and OpenRouter. The agent decides."""

_OF_THE_ANSWER: dict[str, tuple[object, ...]] = {
    "audio": (),
    "context_management": ([],),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "include": ([], ["reasoning.encrypted_content"]),
    "logprobs": (False,),
    "modalities": (["text"],),
    "moderation": (),
    "n": (1,),
    "prompt": (),
    "top_logprobs": (0,),
    "web_search_options": (),
}
"""Fields of OpenAI's API that change the form of an answer, with values that change nothing."""

_ROLES = ("system", "developer", "user", "assistant", "tool")

_ANY_OBJECT = {"title": "json_object", "type": "object", "additionalProperties": True}
"""The schema of `response_format: {"type": "json_object"}`."""


class StreamOptions(BaseModel):
    """Additions to the text of a stream."""

    include_usage: bool = False


class ChatRequest(BaseModel):
    """A request for a completion."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: list[dict[str, object]] = Field(min_length=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    metadata: dict[str, object] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None

    def place(self, service: Service, request: Request) -> tuple[str | None, Run | None, bool]:
        """The thread, the run after which the messages come, and whether the thread stays.

        A thread with a name stays always.
        """
        return request.headers.get("x-thread-id"), None, False


class Refused(Exception):
    """Unsupported request."""

    def __init__(
        self, param: str, text: str, code: str | None = "unsupported", status: int = 400
    ) -> None:
        super().__init__(text)
        self.param, self.code, self.status = param, code, status


def no_model(name: str) -> Refused:
    """The refusal of an unknown agent."""
    return Refused("model", f"There is no agent {name!r}.", "model_not_found", 404)


def settings_of(service: Service, body: ChatRequest) -> dict[str, object]:
    """The settings of a client, see `client_settings`; raises Refused for other settings."""
    for name, value in (body.model_extra or {}).items():
        if name in _OF_THE_MODEL or value is None or value in _OF_THE_ANSWER.get(name, ()):
            continue
        if name not in _OF_THE_ANSWER:
            # As OpenAI answers.
            raise Refused(name, f"Unknown parameter: {name!r}.", "unknown_parameter")
        text = f"{name} is not supported by this server: it changes the form of the answer."
        raise Refused(name, text)
    tools, choice = tools_of(body), choice_of(body)
    kind = (body.response_format or {"type": "text"}).get("type")
    formats = {"text": None, "json_object": _ANY_OBJECT, "json_schema": body.response_format}
    if not isinstance(kind, str) or kind not in formats:
        text = f"response_format.type must be {', '.join(map(repr, formats))}, got {kind!r}."
        raise Refused("response_format", text)
    if body.model not in service.agents:
        raise no_model(body.model)
    return client_settings(service.agents[body.model], body.model, tools, choice, formats[kind])


def tools_of(body: ChatRequest) -> list[dict[str, object]]:
    """The tools for the model, with `name`, `description`, `parameters`.

    Raises:
        Refused: A tool is not a function.
    """
    tools = []
    for tool in body.tools or ():
        # The Responses API has the parts of a function in the tool itself.
        function = tool.get("function", tool)
        if tool.get("type") != "function" or not isinstance(function, Mapping):
            text = f'tools must be of the type "function", got {tool.get("type")!r}.'
            raise Refused("tools", text)
        if not isinstance(function.get("name"), str):
            raise Refused("tools", f"tools.function.name must be a string, got {function!r:.100}.")
        parts = ("name", "description", "parameters")
        tools.append({name: function[name] for name in parts if function.get(name) is not None})
    return [] if body.tool_choice == "none" else tools


def choice_of(body: ChatRequest) -> str | None:
    """The tool that the model has to call, or "required"; None lets the model choose.

    Raises:
        Refused: The choice has another form, or there are no tools.
    """
    choice = body.tool_choice
    if choice in (None, "none", "auto"):
        return None
    function = choice.get("function", choice) if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if choice != "required" and not isinstance(name, str):
        text = (
            'tool_choice must be "none", "auto", "required" or {"type": "function", "function": '
            f'{{"name": ...}}}}, got {choice!r:.100}.'
        )
        raise Refused("tool_choice", text)
    if not body.tools:
        raise Refused("tool_choice", "tool_choice is only allowed when tools are specified.")
    return name if name is not None else "required"


def messages_of(body: ChatRequest) -> list[BaseMessage]:
    """The messages of a request.

    Raises:
        Refused: A message has another form.
    """
    plain = []
    for message in body.messages:
        role = message.get("role")
        if role not in _ROLES:
            raise Refused("messages", f"messages must be of {', '.join(_ROLES)}, got {role!r}.")
        content = message.get("content") or message.get("refusal") or ""
        parts: dict[str, object] = {"role": role, "content": content}
        if message.get("name"):
            parts["name"] = message["name"]
        if role == "assistant" and message.get("tool_calls"):
            parts["tool_calls"] = message["tool_calls"]
        if role == "tool":
            if not isinstance(message.get("tool_call_id"), str):
                raise Refused("messages", "messages of a tool must have a tool_call_id.")
            parts["tool_call_id"] = message["tool_call_id"]
        plain.append(parts)
    try:
        messages = convert_to_messages(plain)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = "messages must have a text or a list of parts as their content, and valid calls."
        raise Refused("messages", text) from error
    # A client need not repeat the name of the tool.
    names: dict[str | None, str] = {}
    for item in messages:
        if isinstance(item, AIMessage):
            names |= {call["id"]: call["name"] for call in item.tool_calls}
        elif isinstance(item, ToolMessage) and item.name is None:
            item.name = names.get(item.tool_call_id)
    return messages


def check_calls(messages: Sequence[BaseMessage]) -> None:
    """Check that each call of a history has a result, and each result a call, as OpenAI does.

    Raises:
        Refused: A call or a result is missing.
    """
    unanswered: list[str] = []
    # One more message, to check the calls of the last.
    for message in (*messages, HumanMessage("")):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in unanswered:
                text = "messages of a tool must follow the message with its call in 'tool_calls': "
                raise Refused("messages", f"{text}{message.tool_call_id!r} has none.")
            unanswered.remove(message.tool_call_id)
            continue
        if unanswered:
            text = "messages with 'tool_calls' must be followed by a message of the tool for each: "
            raise Refused("messages", f"{text}{', '.join(unanswered)} has none.")
        if isinstance(message, AIMessage):
            calls = [*message.tool_calls, *message.invalid_tool_calls]
            unanswered = [str(call["id"]) for call in calls]


def last_results(messages: Sequence[BaseMessage]) -> dict[str, object]:
    """The results after the last answer, by the ids of their calls."""
    results: dict[str, object] = {}
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message.content
    return results


def new_messages(
    messages: Sequence[BaseMessage], thread_messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """The messages of a request that its thread lacks.

    Chat clients send the whole conversation, without ids. New are messages after the last answer,
    except messages that the thread has not answered yet: clients repeat them. Results of tools are
    never new to a thread with messages: see `last_results`.

    >>> hi, hello, more = HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("More")
    >>> [message.text for message in new_messages([hi, hello, more], [hi, hello])]
    ['More']
    >>> new_messages([hi, hello, more], [hi, hello, more])
    []
    """
    if not thread_messages:
        return [*messages]
    last = max(
        (at for at, message in enumerate(messages) if isinstance(message, AIMessage)), default=-1
    )
    # Clients repeat their system prompt.
    prompts = {message.text for message in thread_messages if isinstance(message, SystemMessage)}
    new = [
        message
        for message in messages[last + 1 :]
        if not isinstance(message, ToolMessage)
        and not (isinstance(message, SystemMessage) and message.text in prompts)
    ]
    open_texts: list[str] = []
    for message in reversed(thread_messages):
        if isinstance(message, AIMessage) and not message.tool_calls:
            break
        if isinstance(message, HumanMessage):
            # Back to the last answer.
            open_texts.insert(0, message.text)
    for text in open_texts:
        if not new or new[0].text != text:
            break
        del new[0]
    return new
