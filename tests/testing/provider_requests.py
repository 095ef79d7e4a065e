"""Conversations with the fake providers in their own forms, and edits that break one rule each."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import httpx

from agent_factory.testing import providers as p
from agent_factory.testing.providers import ProviderReply, ProviderServer, reply

Json = dict[str, Any]
Edit = tuple[str, Any]
"""A place in a request, as `messages.1.content`, and its new value; `...` removes it."""

THOUGHT = reply(
    "I look.",
    thinking="Bern?",
    calls=[{"name": "look", "args": {"city": "Bern"}, "id": "call00001", "type": "tool_call"}],
    usage=(70, 7),
)
"""An answer with a thought, a text and a call."""


CLIENT = httpx.Client(trust_env=False, verify=False)  # certificates would take most of the time


def post(server: ProviderServer, body: Json, path: str, **headers: str) -> httpx.Response:
    return CLIENT.post(server.url + path, json=body, headers=headers)


def edited(body: Json, edits: Sequence[Edit]) -> Json:
    """A copy of a request with edits; a place one past the end of a list appends."""
    body = copy.deepcopy(body)
    for place, value in edits:
        *parents, last = [int(part) if part.isdigit() else part for part in place.split(".")]
        target: Any = body
        for part in parents:
            target = target[part]
        if value is ...:
            del target[last]
        elif isinstance(target, list) and last == len(target):
            target.append(value)
        else:
            target[last] = value(target[last]) if callable(value) else value
    return body


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def says(role: str, *blocks: Json) -> Json:
    return {"role": role, "content": [*blocks]}


def anthropic(answer: Json | None) -> Json:
    result = {"type": "text", "text": "21 degrees"}
    tool_result = {"type": "tool_result", "tool_use_id": "call00001", "content": [result]}
    history = answer and [says("assistant", *answer["content"]), says("user", tool_result)]
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 2048,
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "look", "input_schema": SCHEMA}],
        "messages": [{"role": "user", "content": "Warm?"}, *(history or ())],
    }


def chat(answer: Json | None) -> Json:
    history = answer and [
        answer["choices"][0]["message"],
        {"role": "tool", "tool_call_id": "call00001", "content": "21 degrees"},
    ]
    function = {"name": "look", "parameters": SCHEMA}
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Warm?"}]
    return {
        "model": "m",
        "tools": [{"type": "function", "function": function}],
        "messages": [*messages, *(history or ())],
    }


def responses(answer: Json | None) -> Json:
    output = {"type": "function_call_output", "call_id": "call00001", "output": "21 degrees"}
    return {
        "model": "gpt-5",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [
            {"role": "user", "content": "Warm?"},
            *((*answer["output"], output) if answer else ()),
        ],
    }


def gemini(answer: Json | None) -> Json:
    result = {"name": "look", "response": {"output": "21 degrees"}}
    history = answer and [
        answer["candidates"][0]["content"],
        {"role": "user", "parts": [{"functionResponse": result}]},
    ]
    return {"contents": [{"role": "user", "parts": [{"text": "Warm?"}]}, *(history or ())]}


def bedrock(answer: Json | None) -> Json:
    result = {"toolUseId": "call00001", "content": [{"text": "21 degrees"}]}
    history = answer and [answer["output"]["message"], says("user", {"toolResult": result})]
    spec = {"name": "look", "inputSchema": {"json": SCHEMA}}
    return {
        "system": [{"text": "Be brief."}],
        "toolConfig": {"tools": [{"toolSpec": spec}]},
        "messages": [{"role": "user", "content": [{"text": "Warm?"}]}, *(history or ())],
    }


def ollama(answer: Json | None) -> Json:
    history = answer and [
        answer["message"],
        {"role": "tool", "tool_name": "look", "content": "21 degrees"},
    ]
    messages = [{"role": "user", "content": "Warm?"}, *(history or ())]
    return {"model": "qwen3", "messages": messages, "stream": False}


def sse(body: bytes) -> list[Json]:
    lines = [line for line in body.decode().splitlines() if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def lines(body: bytes) -> list[Json]:
    return [json.loads(line) for line in body.splitlines()]


def aws_events(body: bytes) -> list[Json]:
    """The messages of an event stream, with their checksums checked."""
    events = []
    while body:
        total, headers, prelude_crc = struct.unpack(">III", body[:12])
        (message_crc,) = struct.unpack(">I", body[total - 4 : total])
        assert (prelude_crc, message_crc) == (crc32(body[:8]), crc32(body[: total - 4]))
        names = body[12 : 12 + headers]
        kind = names.partition(b":event-type\x07")[2][2:].partition(b"\x0d:content-type")[0]
        events.append({kind.decode(): json.loads(body[12 + headers : total - 4])})
        body = body[total:]
    return events


@dataclass(frozen=True)
class Kind:
    """A provider: its server, the path of a request, the form of a conversation and of a stream."""

    server: Callable[..., ProviderServer]
    path: str
    body: Callable[[Json | None], Json]
    events: Callable[[bytes], list[Json]] = sse
    stream_path: str = ""
    stream: Json | None = None

    def history(self, server: ProviderServer, answer: ProviderReply = THOUGHT) -> Json:
        """A valid request after a call, and perhaps a thought and a text."""
        server.add(answer)
        return self.body(post(server, self.body(None), self.path).raise_for_status().json())


def preserving(*replies: Any, **options: Any) -> ProviderServer:
    return p.AnthropicServer(*replies, preserved_thinking=True, **options)


_MODELS, _CHAT, _STREAM = "/v1beta/models/gemini-3-pro", "/chat/completions", {"stream": True}
_COUNTED = {**_STREAM, "stream_options": {"include_usage": True}}
KINDS = {
    "anthropic": Kind(p.AnthropicServer, "/v1/messages", anthropic, stream=_STREAM),
    "preserving": Kind(preserving, "/v1/messages", anthropic, stream=_STREAM),
    "openai": Kind(p.OpenAIChatServer, _CHAT, chat, stream=_COUNTED),
    "groq": Kind(p.GroqServer, "/openai/v1" + _CHAT, chat, stream=_STREAM),
    "deepseek": Kind(p.DeepSeekServer, _CHAT, chat, stream=_STREAM),
    "xai": Kind(p.XAIServer, _CHAT, chat, stream=_COUNTED),
    "mistral": Kind(p.MistralServer, _CHAT, chat, stream=_STREAM),
    "responses": Kind(p.OpenAIResponsesServer, "/responses", responses, stream=_STREAM),
    "gemini": Kind(
        p.GeminiServer,
        f"{_MODELS}:generateContent",
        gemini,
        stream_path=f"{_MODELS}:streamGenerateContent?alt=sse",
    ),
    "gemini 2": Kind(p.GeminiServer, "/v1beta/models/gemini-2.5-pro:generateContent", gemini),
    "bedrock": Kind(
        p.BedrockServer, "/model/m/converse", bedrock, aws_events, "/model/m/converse-stream"
    ),
    "ollama": Kind(p.OllamaServer, "/api/chat", ollama, lines, stream=_STREAM),
}

EMPTY_TEXT = {"type": "text", "text": ""}
MARK = {"cache_control": {"type": "ephemeral"}}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
ENABLED = {"type": "enabled", "budget_tokens": 1024}
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
USER, ASSISTANT = {"role": "user", "content": "And?"}, {"role": "assistant", "content": "Well."}
RESULT = {"type": "tool_result", "tool_use_id": "call00001", "content": "Again."}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
TEXT, FORCED, LONG = {"type": "text", "text": "x"}, ("tool_choice", {"type": "any"}), "a" * 65


def again(index: int) -> Callable[[list[Any]], list[Any]]:
    """A list in which an item stands twice."""
    return lambda items: [*items[: index + 1], *items[index:]]


def with_marks(number: int) -> list[Edit]:
    blocks = [{"type": "text", "text": "x", **MARK} for _ in range(number)]
    return [("messages.0.content", blocks)]


ANTHROPIC: dict[str, list[Edit]] = {
    "required_fields": [("max_tokens", ...)],
    "documented_fields": [("messages.1.content.1.index", 0)],
    "documented_blocks": [("messages.2.content.0.content.0", {"type": "audio"})],
    "roles": [("messages.0.role", "assistant")],
    "blocks_fit_roles": [("messages.3", {"role": "user", "content": [SEARCH]})],
    "content_is_not_empty": [("messages.0.content", [])],
    "text_is_not_empty": [("messages.2.content.0.content.0", EMPTY_TEXT)],
    "end_has_no_trailing_space": [("messages.3", {"role": "assistant", "content": "So "})],
    "call_ids": [("messages.1.content.2.id", "a b"), ("messages.2.content.0.tool_use_id", "a b")],
    "arguments_are_objects": [("messages.1.content.2.input", "Bern")],
    "calls_have_results": [("messages.2", ...), ("messages.2", USER)],
    "results_have_calls": [("messages.2.content.1", RESULT)],
    "results_come_first": [("messages.2.content", lambda c: [{"type": "text", "text": "x"}, *c])],
    "server_calls_have_results": [("messages.3", says("assistant", SEARCH)), ("messages.4", USER)],
    "cache_marks": [*with_marks(4), ("cache_control", {"type": "ephemeral"})],
    "tool_settings": [("tools.1", {"name": "look", "input_schema": SCHEMA})],
    "settings_fit_thinking": [("thinking", ENABLED), ("tool_choice", {"type": "any"})],
    "thoughts_are_unchanged": [("messages.1.content.0.thinking", "Basel?")],
    "turns_begin_with_a_thought": [("thinking", ENABLED), ("messages.1.content.0", ...)],
}
CHAT_EDITS: dict[str, list[Edit]] = {
    "required_fields": [("model", ...)],
    "documented_fields": [("messages.2.thoughts", "x")],
    "roles": [("messages.0.role", "critic")],
    "calls_have_results": [("messages.3", ...)],
    "results_have_calls": [("messages.3.tool_call_id", "call00002")],
    "calls": [("messages.2.tool_calls.0.function.arguments", {"city": "Bern"})],
    "content": [("messages.1.content", [])],
    "names": [("messages.1.name", "Ann Lee")],
    "tool_settings": [("tools", []), ("tool_choice", "auto")],
}
TEXTS: dict[str, list[Edit]] = {"texts": [("messages.2.content", [{"type": "text", "text": "x"}])]}
REFUSED: dict[str, dict[str, list[Edit]]] = {
    "anthropic": ANTHROPIC,
    "preserving": {
        "prefix_is_unchanged": [("system.0.text", "Be brief. It is 12:00.")],
        "preserving_models": [("tool_choice", {"type": "any"})],
    },
    "openai": CHAT_EDITS,
    "groq": TEXTS,
    "deepseek": {**TEXTS, "thoughts_of_calls": [("messages.2.reasoning_content", ...)]},
    "xai": {"documented_fields": [("messages.2.reasoning", "x")]},
    "mistral": {
        "required_fields": [("messages", [])],
        "documented_fields": [("messages.2.content.0", "I look.")],
        "order_of_roles": [("messages.4", USER)],
        "calls_have_results": [("messages.3", ...)],
        "results_have_calls": [("messages.3.tool_call_id", "call00002")],
        "call_ids": [("messages.2.tool_calls.0.id", "x"), ("messages.3.tool_call_id", "x")],
        "assistant_content": [("messages.4", {"role": "assistant", "content": ""})],
    },
    "responses": {
        "required_fields": [("input", ...)],
        "previous_response": [("previous_response_id", "resp_0")],
        "documented_items": [("input.1.thoughts", "x")],
        "content": [("input.0.content", [{"type": "output_text", "text": "x"}])],
        "item_ids": [("input.2.id", "item_1")],
        "reasoning_is_unchanged": [("input.1.encrypted_content", "x")],
        "reasoning_of_items": [("input.1", ...)],
        "items_of_reasoning": [("input.2", ...), ("input.2", ...), ("input.2", ...)],
        "calls": [("input.3.arguments", {"city": "Bern"})],
        "calls_have_results": [("input.4", ...)],
        "results_have_calls": [("input.4.type", "custom_tool_call_output")],
    },
    "gemini": {
        "required_fields": [("contents.0.parts", [])],
        "roles": [("contents.0.role", "system")],
        "parts": [("contents.0.parts.0.inlineData", {})],
        "calls_have_results": [("contents.2", ...)],
        "results_have_calls": [("contents.1.parts.2", ...)],
        "order_of_calls": [("contents.0.role", "model")],
        "signatures_are_unchanged": [("contents.1.parts.2.thoughtSignature", "c2lnbmVk")],
        "signatures_of_calls": [("contents.1.parts.2.thoughtSignature", ...)],
    },
    "bedrock": {
        "required_fields": [("messages.0.content", [])],
        "order_of_roles": [("messages.3", {"role": "user", "content": [{"text": "x"}]})],
        "blocks": [("messages.0.content.0.text", " ")],
        "content_of_results": [("messages.2.content.0.toolResult.content.0.text", "")],
        "calls": [("messages.1.content.2.toolUse.input", "Bern")],
        "calls_have_results": [("messages.2", ...)],
        "results_have_calls": [("messages.2.content.0.toolResult.toolUseId", "other")],
        "thoughts_are_unchanged": [
            ("messages.1.content.0.reasoningContent.reasoningText.text", "Basel?")
        ],
        "tool_config": [("toolConfig", ...)],
        "cache_points": [("messages.0.content", lambda c: [{"cachePoint": {}}, *c])],
    },
    "ollama": {
        "required_fields": [("model", "")],
        "messages": [("messages.0.content", [])],
        "names_of_results": [("messages.2.tool_name", ...)],
        "arguments_are_objects": [("messages.1.tool_calls.0.function.arguments", "Bern")],
    },
}
"""Edits that break each rule of each provider. Before the edits, the request is valid."""

ALSO_REFUSED: dict[str, list[Edit | list[Edit]]] = {
    "anthropic": [
        *(("model", ...), ("thoughts", "x"), ("messages.0.thoughts", "x"), ("system.0.text", "")),
        *((f"messages.2.content.0.{place}thoughts", "x") for place in ("", "content.0.")),
        *(("messages.0.content", content) for content in ([{"type": "audio"}], " ")),
        *(("messages.3", says("critic", TEXT)), ("messages.3", says("assistant", FOUND))),
        *(("messages.1.content", again(2)), ("messages.2.role", "assistant")),
        *(("messages.2.content.1", {**RESULT, "tool_use_id": "b"}), ("messages.3", says("user"))),
        *([*with_marks(4), (place + ".cache_control", {})] for place in ("system.0", "tools.0")),
        *(("tools.0", {"defer_loading": True, **MARK}), [("tools", ...), FORCED]),
        *([("thinking", ENABLED), edit] for edit in (("temperature", 0), ("max_tokens", 1024))),
        [("thinking", {"type": "adaptive"}), FORCED],
    ],
    "preserving": [("thinking", {"type": "disabled"}), ("messages.3", ASSISTANT)],
    "openai": [
        *(("messages", []), ("messages", again(3)), ("messages.2.tool_calls", again(0))),
        [(f"messages.{place}", LONG) for place in ("2.tool_calls.0.id", "3.tool_call_id")],
        *(("messages.2.tool_calls.0.thoughts", "x"), ("messages.4", {"role": "assistant"})),
        *(("messages.1.content", content) for content in (None, [{**TEXT, "thoughts": "x"}])),
        *(("tools", []), ("messages.4", {**ASSISTANT, "tool_calls": []})),
        *(("messages.3.content", [{"type": "file"}]), [("tools", ...), ("parallel_tool_calls", 1)]),
    ],
    "deepseek": [("messages.3.content", [TEXT])],
    "mistral": [
        *((f"messages.{place}.thoughts", "x") for place in ("0", "2.tool_calls.0", "2.content.0")),
        ("messages.4", ASSISTANT),
    ],
    "responses": [
        *(("model", ...), ("input.1.summary", ...), ("input.1.encrypted_content", ...)),
        *(("input.5", {"type": "thought"}), ("input.0.content", [])),
        *(("input", again(n)) for n in (2, 3, 4)),
        *(("input.2.content.0.thoughts", "x"), [(f"input.{n}.call_id", LONG) for n in (3, 4)]),
    ],
    "gemini": [
        *(("contents.0.parts.0.thoughts", "x"), ("contents", lambda contents: contents[1:])),
        *(("contents", again(1)), ("contents.2.parts", again(0))),
        ("contents.2.parts.0.functionResponse.name", "other"),
    ],
    "bedrock": [
        *(("messages", lambda messages: messages[1:]), ("messages.0.content.0.image", {})),
        *(("messages.2.content", again(0)), ("toolConfig.tools", [])),
        ("messages.2.content.0.toolResult.content.0", {"audio": {}}),
        [
            (f"messages.{n}.toolUseId", LONG)
            for n in ("1.content.2.toolUse", "2.content.0.toolResult")
        ],
        ("messages.0.content", lambda content: [*content, *[{"cachePoint": {}}] * 5]),
    ],
    "ollama": [("messages.0.thoughts", "x"), ("messages.0.role", "critic")],
}
"""More requests that each break a rule in another way than the edits above."""

ACCEPTED: list[tuple[str, list[Edit]]] = [
    # The user may go on after a result, and the results of parallel calls share a message.
    ("anthropic", [("messages.2.content.1", {"type": "text", "text": "And?"})]),
    ("anthropic", [("messages.0.content", [{"type": "text", "text": "Warm?", **MARK}])]),
    ("anthropic", with_marks(4)),
    ("anthropic", [("messages.3", says("assistant"))]),
    ("anthropic", [("messages.3", {**ASSISTANT, "content": ""})]),
    ("anthropic", [("messages.3", says("user", {"type": "text", "text": "So "}))]),
    ("anthropic", [("messages.3", says("assistant", SEARCH, FOUND)), ("messages.4", USER)]),
    ("anthropic", [("messages.1.content", lambda content: [*content, SEARCH])]),
    ("anthropic", [("messages.2.content.0.content.0", {"type": "tool_reference"})]),
    ("anthropic", [("thinking", ENABLED), ("messages.1.content.0", ...), ("messages.3", USER)]),
    # A paused turn goes back without a result of the search.
    ("preserving", [("messages.3", {"role": "assistant", "content": [SEARCH]})]),
    # Marks of the cache are not a part of the prefix, and the end is not before a thought.
    (
        "preserving",
        [("system.0.cache_control", {}), ("messages.3", ASSISTANT), ("messages.4", USER)],
    ),
    # Without thoughts, all may change.
    ("preserving", [("system.0.text", "Short."), ("messages.1.content.0", ...)]),
    ("openai", [("messages.2.content", None), ("messages.4", USER)]),
    ("deepseek", [("thinking", {"type": "disabled"}), ("messages.2.reasoning_content", ...)]),
    ("deepseek", [("messages.4", {**ASSISTANT, "prefix": True})]),
    ("mistral", [("messages.4", ASSISTANT), ("messages.5", USER)]),
    ("mistral", [("messages.4", {**ASSISTANT, "prefix": True})]),
    ("responses", [("input.2.id", ...), ("input.3.id", ...), ("input.1", ...)]),
    ("gemini", [("contents.1.parts.2.thoughtSignature", "skip_thought_signature_validator")]),
    ("gemini 2", [("contents.1.parts.2.thoughtSignature", ...)]),
    ("gemini", [("contents.1.parts.2.thoughtSignature", ...), ("contents", lambda c: [*c, c[0]])]),
    ("bedrock", [("messages.0.content.1", {"cachePoint": {"type": "default"}})]),
    ("ollama", [("messages.2.tool_name", ...), ("messages.2.tool_call_id", "call00001")]),
]
"""Edits that break no rule."""


def refused_requests() -> Iterator[tuple[str, str, list[Edit]]]:
    """Kind, rule and edits of each request that a rule refuses."""
    for kind, rules in REFUSED.items():
        for rule, edits in rules.items():
            yield kind, rule, edits
    for kind, requests in ALSO_REFUSED.items():
        for request in requests:
            yield kind, "", request if isinstance(request, list) else [request]
