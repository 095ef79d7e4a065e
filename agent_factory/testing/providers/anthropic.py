"""Fake of Anthropic's Messages API, with its rules.

https://platform.claude.com/docs/en/api/messages/create
https://platform.claude.com/docs/en/build-with-claude/streaming
https://platform.claude.com/docs/en/api/errors
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import ClassVar

from agent_factory.testing.providers import preserved_thinking as thinking
from agent_factory.testing.providers.replies import ProviderReply, Step, cut_json
from agent_factory.testing.providers.rules import Json, documented, extra_fields
from agent_factory.testing.providers.server import ProviderServer, pieces, sse, token

_DOCS = "https://platform.claude.com/docs/en"
MESSAGES = f"{_DOCS}/api/messages/create"
TOOL_USE = f"{_DOCS}/agents-and-tools/tool-use/handle-tool-calls"
SERVER_TOOLS = f"{_DOCS}/agents-and-tools/tool-use/server-tools"
THINKING = f"{_DOCS}/build-with-claude/extended-thinking"
ADAPTIVE = f"{_DOCS}/build-with-claude/adaptive-thinking"
PREFIX = f"{_DOCS}/build-with-claude/preserved-thinking/prefix-checks"
CACHING = f"{_DOCS}/build-with-claude/prompt-caching"
PREFILL = f"{_DOCS}/build-with-claude/working-with-messages"

_EXTRA = "{place}.{name}: Extra inputs are not permitted"
_FIELDS = {
    "": "model messages max_tokens system tools tool_choice stream temperature top_p top_k"
    " stop_sequences thinking metadata mcp_servers container context_management output_format"
    " output_config service_tier cache_control betas inference_geo speed fallbacks user_profile_id",
    "text": "text cache_control citations",
    "thinking": "thinking signature",
    "redacted_thinking": "data",
    "tool_use": "id name input cache_control caller toolset_name",
    "tool_result": "tool_use_id content is_error cache_control toolset_name",
    "image": "source cache_control transformations",
    "document": "source cache_control title context citations",
    "search_result": "source title content citations cache_control",
    "server_tool_use": "id name input cache_control caller",
    "web_search_tool_result": "tool_use_id content cache_control caller",
    "web_fetch_tool_result": "tool_use_id content cache_control caller",
    "advisor_tool_result": "tool_use_id content cache_control",
    "code_execution_tool_result": "tool_use_id content cache_control",
    "bash_code_execution_tool_result": "tool_use_id content cache_control",
    "text_editor_code_execution_tool_result": "tool_use_id content cache_control",
    "tool_search_tool_result": "tool_use_id content cache_control",
    "mcp_tool_use": "id name server_name input cache_control",
    "mcp_tool_result": "tool_use_id content is_error cache_control",
    "mcp_tool_listing": "mcp_server_name tools",
    "container_upload": "file_id cache_control",
    "compaction": "content encrypted_content signature tool_changes cache_control",
    "tool_addition": "tool cache_control",
    "tool_removal": "tool cache_control",
    "fallback": "from to trigger",
    "tool_reference": "tool_name cache_control",
}
FIELDS = {name: {"type", *fields.split()} for name, fields in _FIELDS.items()}
"""The fields of a request ("") and of each type of block; `tool_reference` is for results alone."""

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_IN_RESULTS = ("text", "image", "document", "search_result", "tool_reference")
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STOP_REASONS = {"length": "max_tokens", "refusal": "refusal", "pause": "pause_turn"}


class AnthropicServer(ProviderServer):
    """Fake of Anthropic: the Messages API, whole and streamed.

    A text with a `pause` is followed by the call of a web search that has no result yet.

    Args:
        replies: The script; see `ProviderServer`. A dict replaces fields of the message, as
            `content` and `stop_reason`; the server signs thoughts in it that have no signature.
        preserved_thinking: Check requests as the models with preserved thinking do (Opus 5.5 and
            newer): nothing before a thought may change while the thought goes back.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    Raises:
        ValueError: The provider has no such reply.

    >>> import json
    >>> from urllib.request import Request, urlopen
    >>> from agent_factory.testing.providers import AnthropicServer, reply
    >>> with AnthropicServer([reply("Hello.")]) as server:
    ...     body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    ...     with urlopen(Request(f"{server.url}/v1/messages", json.dumps(body).encode())) as http:
    ...         print(json.load(http)["content"], server.faults)
    [{'type': 'text', 'text': 'Hello.'}] []
    """

    endpoints = re.compile(r"/v1/messages(\?|$)")
    has_pauses = True
    errors: ClassVar = {
        "authentication": (401, "invalid x-api-key", ""),
        "not_found": (404, "model: {model}", ""),
        "overflow": (400, "prompt is too long: 200251 tokens > 200000 maximum", ""),
        "overloaded": (529, "Overloaded", ""),
        "rate_limit": (429, "This request would exceed your organization's rate limit.", ""),
    }

    def __init__(
        self, replies: Iterable[Step] = (), *, preserved_thinking: bool = False, strict: bool = True
    ) -> None:
        self.preserved_thinking = preserved_thinking
        super().__init__(replies, strict=strict)

    def render(self, answer: ProviderReply, request: Json) -> Json:
        content: list[Json] = []
        if answer.thinking:
            content.append({"type": "thinking", "thinking": answer.thinking, "signature": ""})
        if answer.text and answer.ending != "refusal":
            content.append({"type": "text", "text": answer.text})
        for call in answer.calls:
            use = {"id": call.id or f"toolu_{token()}", "name": call.name, "input": dict(call.args)}
            content.append({"type": "tool_use", **use})
        if answer.ending == "pause":
            query = {"id": f"srvtoolu_{token()}", "name": "web_search", "input": {"query": "x"}}
            content.append({"type": "server_tool_use", **query})
        details = {"type": "refusal", "category": None, "explanation": answer.text}
        default = "tool_use" if answer.calls else "end_turn"
        return {
            "id": f"msg_{token()}",
            "type": "message",
            "role": "assistant",
            "model": request.get("model"),
            "content": content,
            "stop_reason": _STOP_REASONS.get(answer.ending, default),
            "stop_sequence": None,
            **({"stop_details": details} if answer.ending == "refusal" else {}),
            "usage": {"input_tokens": answer.usage[0], "output_tokens": answer.usage[1]},
        }

    def sign(self, response: Json, request: Json) -> None:
        thinking.sign(response["content"], request)
        if self.preserved_thinking:
            response["input_transformations"] = [
                {"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"}
                for path, _ in thinking.mismatches(request)
            ]

    def stream(self, response: Json, request: Json) -> Iterator[bytes]:
        start = {**response, "content": [], "stop_reason": None}
        start["usage"] = {**response["usage"], "output_tokens": 1}
        changes = {k: start.pop(k) for k in ("input_transformations", "stop_details") if k in start}
        yield _event("message_start", message=start)
        is_cut = response["stop_reason"] == "max_tokens"
        for index, block in enumerate(response["content"]):
            is_last = index == len(response["content"]) - 1
            first, deltas = _parts(block, is_cut=is_cut and is_last)
            yield _event("content_block_start", index=index, content_block=first)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        yield _event("ping")
        end = {"stop_reason": response["stop_reason"], "stop_sequence": response["stop_sequence"]}
        if "stop_details" in changes:
            end["stop_details"] = changes.pop("stop_details")
        # The usage of this event is the sum of the whole stream.
        yield _event("message_delta", delta=end, usage=response["usage"], **changes)
        yield _event("message_stop")

    def error_body(self, status: int, message: str, code: str = "") -> Json:
        problem = {"type": code or _TYPES.get(status, "api_error"), "message": message}
        return {"type": "error", "error": problem, "request_id": f"req_{token()}"}

    @documented(MESSAGES)
    def required_fields(self, body: Json) -> Iterator[str]:
        """A request has a model, a limit of output tokens, and messages."""
        for name in ("model", "max_tokens", "messages"):
            if not body.get(name):
                yield f"{name}: Field required"

    @documented(MESSAGES)
    def documented_fields(self, body: Json) -> Iterator[str]:
        """Requests, messages and blocks have documented fields alone."""
        for name in sorted(body.keys() - FIELDS[""]):
            yield f"{name}: Extra inputs are not permitted"
        for index, message in enumerate(body["messages"]):
            yield from extra_fields(message, {"role", "content"}, f"messages.{index}", _EXTRA)
        for place, _, block in _each_block(body):
            for item in (block, *_inside(block)):
                fields = FIELDS.get(item.get("type", ""), item.keys())
                yield from extra_fields(item, {*fields}, f"{place}.{block.get('type')}", _EXTRA)

    @documented(MESSAGES)
    def documented_blocks(self, body: Json) -> Iterator[str]:
        """Blocks have a documented type; those of a result are text, images or documents."""
        tags = FIELDS.keys() - {"", "tool_reference"}
        for place, _, block in _each_block(body):
            kind = block.get("type")
            if kind not in tags:
                yield f"{place}: Input tag '{kind}' found using 'type' does not match any of the"
            for item in _inside(block):
                if item.get("type") not in _IN_RESULTS:
                    yield f"{place}.tool_result.content: Input tag '{item.get('type')}' is unknown"

    @documented(MESSAGES)
    def roles(self, body: Json) -> Iterator[str]:
        """Messages are of the user, the assistant or the system; the first is the user's."""
        for index, message in enumerate(body["messages"]):
            if message["role"] not in ("user", "assistant", "system"):
                yield f"messages.{index}.role: Input should be 'user' or 'assistant'"
        if body["messages"][0]["role"] != "user":
            yield 'messages: first message must use the "user" role'

    @documented(MESSAGES)
    def blocks_fit_roles(self, body: Json) -> Iterator[str]:
        """Calls and thoughts are the assistant's, results the user's."""
        for place, message, block in _each_block(body):
            kind = block.get("type")
            if kind in (*_CALLS, *thinking.KEYS) and message["role"] == "user":
                yield f"{place}: `{kind}` blocks can only be in `assistant` messages"
            if kind == "tool_result" and message["role"] != "user":
                yield f"{place}: `tool_result` blocks can only be in `user` messages"

    @documented(MESSAGES)
    def content_is_not_empty(self, body: Json) -> Iterator[str]:
        """All messages have content, but for an assistant's at the end."""
        last = len(body["messages"]) - 1
        for index, message in enumerate(body["messages"]):
            if not message["content"] and not (index == last and message["role"] == "assistant"):
                yield (
                    f"messages.{index}: all messages must have non-empty content except for the "
                    "optional final assistant message"
                )

    @documented(MESSAGES)
    def text_is_not_empty(self, body: Json) -> Iterator[str]:
        """A block of text has a text, which is not only white space."""
        system = body.get("system")
        blocks = [("system", block) for block in (system if isinstance(system, list) else [])]
        for place, _, block in _each_block(body):
            blocks += [(place, item) for item in (block, *_inside(block))]
        for place, block in blocks:
            if block.get("type") == "text" and not block["text"]:
                yield f"{place}: text content blocks must be non-empty"
            elif block.get("type") == "text" and not block["text"].strip():
                yield f"{place}: text content blocks must contain non-whitespace text"

    @documented(PREFILL)
    def end_has_no_trailing_space(self, body: Json) -> Iterator[str]:
        """A message of the assistant at the end does not end with white space."""
        last = body["messages"][-1]
        text = (blocks_of(last) or [{}])[-1].get("text", "")
        if last["role"] == "assistant" and text != text.rstrip():
            yield "messages: final assistant content cannot end with trailing whitespace"

    @documented(TOOL_USE)
    def call_ids(self, body: Json) -> Iterator[str]:
        """The id of a call is unique, of letters, digits, `_` and `-`."""
        ids = Counter[str]()
        for place, _, block in _each_block(body):
            if (kind := block.get("type")) in _CALLS:
                ids[id_ := block.get("id") or ""] += 1
                if not re.fullmatch(r"[a-zA-Z0-9_-]+", id_):
                    yield f"{place}.{kind}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
                if ids[id_] > 1:
                    yield f"{place}: `tool_use` ids must be unique"

    @documented(TOOL_USE)
    def arguments_are_objects(self, body: Json) -> Iterator[str]:
        """The arguments of a call are an object."""
        for place, _, block in _each_block(body):
            if block.get("type") in _CALLS and not isinstance(block.get("input"), dict):
                yield f"{place}.{block['type']}.input: Input should be a valid dictionary"

    @documented(TOOL_USE)
    def calls_have_results(self, body: Json) -> Iterator[str]:
        """The message after a call has its result."""
        pairs = pairwise([*body["messages"], {"content": []}])
        for index, (message, following) in enumerate(pairs):
            results = _results(following)
            if missing := [id_ for id_ in _calls(message) if id_ not in results]:
                yield (
                    f"messages.{index}: `tool_use` ids were found without `tool_result` blocks "
                    f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                    "corresponding `tool_result` block in the next message."
                )

    @documented(TOOL_USE)
    def results_have_calls(self, body: Json) -> Iterator[str]:
        """A result is the only one of a call in the message before."""
        pairs = pairwise([{"content": []}, *body["messages"]])
        for index, (before, message) in enumerate(pairs):
            for id_, number in Counter(_results(message)).items():
                if id_ not in _calls(before):
                    yield (
                        f"messages.{index}.content: unexpected `tool_use_id` found in "
                        f"`tool_result` blocks: {id_}. Each `tool_result` block must have a "
                        "corresponding `tool_use` block in the previous message."
                    )
                if number > 1:
                    yield f"messages.{index}.content: each tool_use must have a single result"

    @documented(TOOL_USE)
    def results_come_first(self, body: Json) -> Iterator[str]:
        """Results stand before other blocks of their message."""
        for index, message in enumerate(body["messages"]):
            kinds = [block.get("type") == "tool_result" for block in blocks_of(message)]
            if kinds != sorted(kinds, reverse=True):
                yield f"messages.{index}: `tool_result` blocks must come first in the content"

    @documented(SERVER_TOOLS)
    def server_calls_have_results(self, body: Json) -> Iterator[str]:
        """The result of a server tool follows its call, unless the turn is paused."""
        seen: set[str] = set()
        for index, message in enumerate(body["messages"]):
            pending: dict[str, str] = {}
            for block in blocks_of(message):
                kind = block.get("type", "")
                if kind in _CALLS[1:]:
                    pending[block["id"]] = kind
                    seen.add(block["id"])
                elif kind.endswith("_tool_result"):
                    pending.pop(block["tool_use_id"], None)
                    if block["tool_use_id"] not in seen:
                        yield f"messages.{index}: unexpected `tool_use_id` in `{kind}` blocks"
            following = body["messages"][index + 1 :]
            is_paused = not following or following[0]["role"] == "assistant"
            if pending and not _calls(message) and not is_paused:
                kind = next(iter(pending.values()))
                yield f"messages.{index}: `{kind}` was found without a corresponding result block"

    @documented(CACHING)
    def cache_marks(self, body: Json) -> Iterator[str]:
        """At most four blocks have a cache mark; automatic caching takes one of the four."""
        places = [body, *(body.get("tools") or ())]
        places += body["system"] if isinstance(body.get("system"), list) else []
        for _, _, block in _each_block(body):
            places += [block, *_inside(block)]
        number = sum("cache_control" in place for place in places)
        if number > 4:
            yield f"A maximum of 4 blocks with cache_control may be provided. Found {number}."

    @documented(MESSAGES)
    def tool_settings(self, body: Json) -> Iterator[str]:
        """Tools have unique names; a deferred tool has no cache mark; no choice without tools."""
        for name, number in Counter(tool.get("name") for tool in body.get("tools") or ()).items():
            if name and number > 1:
                yield "tools: Tool names must be unique."
        for index, tool in enumerate(body.get("tools") or ()):
            if tool.get("defer_loading") and "cache_control" in tool:
                yield f"tools.{index}: cache_control cannot be used with defer_loading"
        if body.get("tool_choice") and not body.get("tools"):
            yield "tool_choice: may only be specified while providing tools"

    @documented(THINKING)
    def settings_fit_thinking(self, body: Json) -> Iterator[str]:
        """A request with thinking neither forces a tool nor changes the temperature."""
        mode = (body.get("thinking") or {}).get("type")
        forced = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
        if mode in ("enabled", "adaptive") and forced:
            yield "Thinking may not be enabled when tool_choice forces tool use."
        if mode in ("enabled", "adaptive") and body.get("temperature") not in (None, 1):
            yield "`temperature` may only be set to 1 when thinking is enabled."
        if mode == "enabled" and body["max_tokens"] <= body["thinking"].get("budget_tokens", 0):
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."

    @documented(THINKING)
    def thoughts_are_unchanged(self, body: Json) -> Iterator[str]:
        """A thought goes back with its text and its signature."""
        for place, _, block in _each_block(body):
            if key := thinking.KEYS.get(block.get("type", "")):
                signature = thinking.read(block.get(key))
                if signature is None or signature["thought"] != thinking.thought(block):
                    yield f"{place}: Invalid `{key}` in `{block['type']}` block"

    @documented(THINKING)
    def turns_begin_with_a_thought(self, body: Json) -> Iterator[str]:
        """With manual thinking, the last turn with calls begins with a thought."""
        if (body.get("thinking") or {}).get("type") != "enabled":
            return
        for index, message in reversed([*enumerate(body["messages"])]):
            if message["role"] == "user" and not _results(message):
                return
            if message["role"] == "assistant" and _calls(message):
                kind = blocks_of(message)[0].get("type")
                if kind not in thinking.KEYS:
                    yield (
                        f"messages.{index}.content.0.type: Expected `thinking` or "
                        f"`redacted_thinking`, but found `{kind}`."
                    )
                return

    @documented(PREFIX)
    def prefix_is_unchanged(self, body: Json) -> Iterator[str]:
        """System, tools and messages before a preserved thought stay as they were."""
        binding = (body.get("thinking") or {}).get("block_binding")
        if binding and thinking.BETA not in self.requests[-1].headers.get("anthropic-beta", ""):
            yield f"thinking.block_binding: requires the beta header {thinking.BETA}"
        is_dropped = (binding or {}).get("prefix_mismatch_behavior") == "drop_block"
        if is_dropped or not self.preserved_thinking:
            return
        for place, changes in thinking.mismatches(body):
            yield (
                f"{place}: Invalid `signature` in `thinking` block. The block is bound to a "
                "different conversation. Remove the block, or set "
                '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block". '
                f"Changed before the block: {', '.join(changes)}."
            )

    @documented(ADAPTIVE)
    def preserving_models(self, body: Json) -> Iterator[str]:
        """Models with preserved thinking think adaptively, and force no tool; no prefill."""
        if not self.preserved_thinking:
            return
        mode = (body.get("thinking") or {}).get("type")
        if mode in ("enabled", "disabled"):
            yield f"thinking.type.{mode} is not supported for this model."
        if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
            yield "tool_choice forces tool use is not supported for this model."
        last = body["messages"][-1]
        is_paused = any(b.get("type") in _CALLS[1:] for b in blocks_of(last))
        if last["role"] == "assistant" and not is_paused:
            yield "This model does not support assistant message prefill."


def _event(kind: str, **fields: object) -> bytes:
    return sse({"type": kind, **fields}, kind)


def _parts(block: Json, is_cut: bool) -> tuple[Json, list[Json]]:
    """The start of a block in a stream, and its deltas."""
    kind = block["type"]
    if kind == "text":
        citations = block.get("citations") or ()
        deltas = [{"type": "text_delta", "text": text} for text in pieces(block["text"])]
        deltas += [{"type": "citations_delta", "citation": citation} for citation in citations]
        return {"type": kind, "text": "", **({"citations": []} if citations else {})}, deltas
    if kind == "thinking":
        texts = pieces(block["thinking"])
        deltas = [{"type": "thinking_delta", "thinking": text} for text in texts]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": kind, "thinking": "", "signature": ""}, deltas
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        text = cut_json(block["input"]) if is_cut else json.dumps(block["input"])
        # A call without arguments has one delta, which is empty.
        texts = ["", *pieces(text if block["input"] else "", 5)]
        deltas = [{"type": "input_json_delta", "partial_json": text} for text in texts]
        return {**block, "input": {}}, deltas
    return block, []


def blocks_of(message: Json) -> list[Json]:
    """The content of a message as blocks, of which an empty text has none."""
    content = message["content"] or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _each_block(body: Json) -> Iterator[tuple[str, Json, Json]]:
    """Place, message and block, of all messages."""
    for index, message in enumerate(body["messages"]):
        for position, block in enumerate(blocks_of(message)):
            yield f"messages.{index}.content.{position}", message, block


def _inside(block: Json) -> list[Json]:
    """The blocks in a result."""
    content = block.get("content") if block.get("type") == "tool_result" else None
    return content if isinstance(content, list) else []


def _results(message: Json) -> list[str]:
    return [b["tool_use_id"] for b in blocks_of(message) if b.get("type") == "tool_result"]


def _calls(message: Json) -> list[str]:
    return [block["id"] for block in blocks_of(message) if block.get("type") == "tool_use"]
