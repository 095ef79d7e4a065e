"""Fake of OpenAI's Responses API, with its rules.

https://platform.openai.com/docs/api-reference/responses/create
https://platform.openai.com/docs/api-reference/responses-streaming
https://platform.openai.com/docs/guides/reasoning
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import ClassVar

from agent_factory.testing.providers.openai_chat import OpenAIChatServer
from agent_factory.testing.providers.replies import ProviderReply, Step, cut_json
from agent_factory.testing.providers.rules import Json, documented, extra_fields
from agent_factory.testing.providers.server import ProviderServer, digest, pieces, sse, token

_DOCS = "https://platform.openai.com/docs"
RESPONSES = f"{_DOCS}/api-reference/responses/create"
FUNCTIONS = f"{_DOCS}/guides/function-calling"
REASONING = f"{_DOCS}/guides/reasoning"
STATE = f"{_DOCS}/guides/conversation-state"

_EXTRA = "Unknown parameter: '{place}.{name}'."
_FIELDS = {
    "message": "role content id status phase",
    "reasoning": "id summary encrypted_content content status",
    "function_call": "id call_id name arguments status namespace caller async",
    "function_call_output": "id call_id output status caller name namespace",
    "custom_tool_call": "id call_id name input namespace caller async",
    "custom_tool_call_output": "id call_id output caller",
    "web_search_call": "id status action",
    "file_search_call": "id status queries results",
    "computer_call": "id call_id action actions pending_safety_checks status",
    "computer_call_output": "id call_id output acknowledged_safety_checks status",
    "code_interpreter_call": "id status code container_id outputs",
    "image_generation_call": "id status result action background error output_format quality"
    " revised_prompt size svg_usage",
    "mcp_call": "id name arguments server_label output error status approval_request_id",
    "mcp_list_tools": "id server_label tools error",
    "mcp_approval_request": "id name arguments server_label",
    "mcp_approval_response": "id approval_request_id approve reason",
    "tool_search_call": "id status arguments call_id execution",
    "tool_search_output": "id status tools call_id execution",
    "compaction": "id encrypted_content",
    "item_reference": "id",
}
_OUTPUTS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
_TEXTS = {"function_call": "arguments", "custom_tool_call": "input"}
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_BOUND = re.compile(r"[a-z]+_([0-9a-f]{16})x\d+")
"""Id of an item that needs the reasoning before it. The id of the reasoning has the same token."""


class OpenAIResponsesServer(ProviderServer):
    """Fake of OpenAI: the Responses API, whole and streamed.

    Args:
        replies: The script; see `ProviderServer`. A dict replaces fields of the response, as
            `output`.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    Raises:
        ValueError: The provider has no such reply.

    >>> from agent_factory.testing.providers import OpenAIResponsesServer, reply
    >>> server = OpenAIResponsesServer([reply("Hello.", thinking="A greeting.")])
    >>> server.rules["reasoning_of_items"].text
    'An item goes back with the reasoning that it was made with.'
    """

    base_path = "/v1"
    endpoints = re.compile(r"/responses(\?|$)")
    errors: ClassVar = {
        **OpenAIChatServer.errors,
        "overflow": (
            400,
            "Your input exceeds the context window of this model. Please adjust your input and "
            "try again.",
            "context_length_exceeded",
        ),
    }

    def __init__(self, replies: Iterable[Step] = (), *, strict: bool = True) -> None:
        self._items: dict[str, list[Json]] = {}
        """Input and output of each response, by the id of the response."""
        super().__init__(replies, strict=strict)

    def render(self, answer: ProviderReply, request: Json) -> Json:
        is_cut = answer.ending == "length"
        return {
            "id": f"resp_{token()}",
            "object": "response",
            "created_at": 1764547200,
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "model": request.get("model"),
            "output": [*_output(answer)],
            "usage": {
                **answer.usage_by("input_tokens", "output_tokens", "total_tokens"),
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
            **{"error": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True},
            **{"tool_choice": "auto", "tools": [], "temperature": 1, "top_p": 1},
            **{"text": {"format": {"type": "text"}}, "truncation": "disabled"},
        }

    def sign(self, response: Json, request: Json) -> None:
        is_encrypted = "reasoning.encrypted_content" in (request.get("include") or ())
        for item in response["output"]:
            if item["type"] == "reasoning" and is_encrypted:
                item.setdefault("encrypted_content", _encrypted(item["id"]))
        if request.get("store") is not False:
            self._items[response["id"]] = [*self._input(request), *response["output"]]

    def stream(self, response: Json, request: Json) -> Iterator[bytes]:
        numbers = count()

        def event(kind: str, **fields: object) -> bytes:
            return sse({"type": kind, "sequence_number": next(numbers), **fields}, kind)

        start = {**response, "output": [], "status": "in_progress", "usage": None}
        yield event("response.created", response=start)
        yield event("response.in_progress", response=start)
        for index, item in enumerate(response["output"]):
            empty = _empty(item)
            yield event("response.output_item.added", output_index=index, item=empty)
            for kind, fields in _parts(item):
                place = {"item_id": item.get("id"), "output_index": index}
                yield event(f"response.{kind}", **place, **fields)
            yield event("response.output_item.done", output_index=index, item=item)
        yield event(f"response.{response['status']}", response=response)

    def error_body(self, status: int, message: str, code: str = "") -> Json:
        kind = "invalid_request_error" if status < 500 else "server_error"
        problem = {"message": message, "type": kind, "param": None, "code": code or None}
        return {"error": problem}

    def _input(self, body: Json) -> list[Json]:
        """The items of a request, those of the previous response first."""
        items = body.get("input") or []
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        return [*self._items.get(body.get("previous_response_id") or "", ()), *items]

    @documented(RESPONSES)
    def required_fields(self, body: Json) -> Iterator[str]:
        """A request has a model and an input."""
        if not body.get("model"):
            yield "Missing required parameter: 'model'."
        if not body.get("input") and not body.get("previous_response_id"):
            yield "Missing required parameter: 'input'."

    @documented(STATE)
    def previous_response(self, body: Json) -> Iterator[str]:
        """The previous response was stored."""
        id_ = body.get("previous_response_id")
        if id_ and id_ not in self._items:
            yield f"Previous response with id '{id_}' not found."

    @documented(RESPONSES)
    def documented_items(self, body: Json) -> Iterator[str]:
        """Items have documented types and fields alone."""
        for index, item in enumerate(self._input(body)):
            kind = item.get("type") or "message"
            if kind not in _FIELDS:
                yield f"Invalid value: '{kind}'. - 'input[{index}]'"
                continue
            fields = {"type", *_FIELDS[kind].split()}
            yield from extra_fields(item, fields, f"input[{index}]", _EXTRA)

    @documented(RESPONSES)
    def content(self, body: Json) -> Iterator[str]:
        """Parts fit the role: output of the assistant, input of others and of results."""
        inputs = {"input_text", "input_image", "input_file", "input_audio"}
        for index, item in enumerate(self._input(body)):
            kind = item.get("type") or "message"
            content = item.get("content" if kind == "message" else "output")
            is_output = kind == "message" and item.get("role") == "assistant"
            parts = {"output_text", "refusal"} if is_output else inputs
            if content == [] and kind == "message":
                yield f"Invalid 'input[{index}].content': empty array."
            if kind not in ("message", *_OUTPUTS) or not isinstance(content, list):
                continue
            for part in content:
                if part.get("type") not in parts:
                    yield f"Invalid value: '{part.get('type')}'. - 'input[{index}].content'"
                elif part["type"] == "output_text":
                    fields = {"type", "text", "annotations", "logprobs"}
                    yield from extra_fields(part, fields, f"input[{index}].content", _EXTRA)

    @documented(RESPONSES)
    def item_ids(self, body: Json) -> Iterator[str]:
        """The id of an item is unique, and begins with the letters of its type."""
        ids: set[str] = set()
        for index, item in enumerate(self._input(body)):
            if not (id_ := item.get("id")):
                continue
            prefix = _PREFIXES.get(item.get("type") or "message", "")
            if not id_.startswith(prefix):
                yield (
                    f"Invalid 'input[{index}].id': '{id_}'. Expected an ID that begins with "
                    f"'{prefix}'."
                )
            if id_ in ids:
                yield (
                    f"Duplicate item found with id {id_}. Remove duplicate items from your input "
                    "and try again."
                )
            ids.add(id_)

    @documented(REASONING)
    def reasoning_is_unchanged(self, body: Json) -> Iterator[str]:
        """Reasoning has its summary, and its encrypted content where responses are not stored."""
        for index, item in enumerate(self._input(body)):
            if item.get("type") != "reasoning":
                continue
            id_, encrypted = item.get("id") or "", item.get("encrypted_content")
            if "summary" not in item:
                yield f"Missing required parameter: 'input[{index}].summary'."
            if encrypted and encrypted != _encrypted(id_):
                yield f"The encrypted content for item {id_} could not be verified."
            if not encrypted and body.get("store") is False:
                yield (
                    f"Item with id '{id_}' not found. Items are not persisted when `store` is set "
                    "to false."
                )

    @documented(REASONING)
    def reasoning_of_items(self, body: Json) -> Iterator[str]:
        """An item goes back with the reasoning that it was made with."""
        items = self._input(body)
        ids = {item.get("id") for item in items}
        for item in items:
            if match := _BOUND.fullmatch(item.get("id") or ""):
                needed = f"rs_{match[1]}"
                if needed not in ids:
                    yield (
                        f"Item '{item['id']}' of type '{item.get('type', 'message')}' was provided "
                        f"without its required 'reasoning' item: '{needed}'."
                    )

    @documented(REASONING)
    def items_of_reasoning(self, body: Json) -> Iterator[str]:
        """Reasoning goes back with the item after it."""
        items = self._input(body)
        for item, following in zip(items, [*items[1:], {"role": "user"}], strict=True):
            is_output = following.get("role") in (None, "assistant")
            is_output = is_output and not following.get("type", "").endswith("_output")
            if item.get("type") == "reasoning" and not is_output:
                yield (
                    f"Item '{item.get('id')}' of type 'reasoning' was provided without its "
                    "required following item."
                )

    @documented(FUNCTIONS)
    def calls(self, body: Json) -> Iterator[str]:
        """A call has arguments as a text, and a unique call id of at most 64 characters."""
        ids: set[str] = set()
        for index, item in enumerate(self._input(body)):
            if not (key := _TEXTS.get(item.get("type", ""))):
                continue
            if not isinstance(item.get(key), str):
                yield f"Invalid type for 'input[{index}].{key}': expected a string."
            id_ = item.get("call_id") or ""
            if not 0 < len(id_) <= 64:
                yield f"Invalid 'input[{index}].call_id': expected 1 to 64 characters."
            if id_ in ids:
                yield f"Duplicate function call with call_id {id_}."
            ids.add(id_)

    @documented(FUNCTIONS)
    def calls_have_results(self, body: Json) -> Iterator[str]:
        """Each call has an output."""
        items = self._input(body)
        outputs = {item.get("call_id") for item in items if item.get("type") in _OUTPUTS}
        for item in items:
            if item.get("type") in _TEXTS and item.get("call_id") not in outputs:
                yield f"No tool output found for function call {item.get('call_id')}."

    @documented(FUNCTIONS)
    def results_have_calls(self, body: Json) -> Iterator[str]:
        """An output is the only one of a call before it, and of the type of the call."""
        calls: dict[str, str] = {}
        for item in self._input(body):
            kind, id_ = item.get("type", ""), item.get("call_id", "")
            if kind in _TEXTS:
                calls[id_] = kind
            elif kind in _OUTPUTS and calls.pop(id_, None) != _OUTPUTS[kind]:
                name = kind.replace("_", " ")
                yield f"No tool call found for {name} with call_id {id_}."


def _encrypted(id_: str) -> str:
    """The encrypted content of the reasoning with this id."""
    return base64.b64encode(json.dumps({"reasoning": digest(id_)}).encode()).decode()


def _output(answer: ProviderReply) -> Iterator[Json]:
    """The items of an answer."""
    random, numbers = token(), count(1)

    def item_id(kind: str) -> str:
        bound = f"{random}x{next(numbers)}" if answer.thinking else token()
        return f"{kind}_{bound}"

    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        yield {"type": "reasoning", "id": f"rs_{random}", "summary": summary}
    status = "incomplete" if answer.ending == "length" else "completed"
    if answer.text:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        if answer.ending == "refusal":
            part = {"type": "refusal", "refusal": answer.text}
        content = {"role": "assistant", "content": [part], "status": status}
        yield {"type": "message", "id": item_id("msg"), **content}
    for call in answer.calls:
        is_cut = answer.ending == "length" and call is answer.calls[-1]
        yield {
            "type": "function_call",
            "id": f"fc_{token()}" if answer.text else item_id("fc"),
            "call_id": call.id or f"call_{token()}",
            "name": call.name,
            "arguments": cut_json(call.args) if is_cut else call.json,
            "status": "incomplete" if is_cut else "completed",
        }


def _empty(item: Json) -> Json:
    """An item at its begin in a stream."""
    fields = {"message": "content", "reasoning": "summary", **_TEXTS}
    empty = {**item}
    if field := fields.get(item["type"]):
        empty[field] = "" if item["type"] in _TEXTS else []
    if "status" in item:
        empty["status"] = "in_progress"
    return empty


def _parts(item: Json) -> Iterator[tuple[str, Json]]:
    """The events of an item in a stream, without its begin and end: type and fields."""
    kind = item["type"]
    if kind == "message":
        for index, part in enumerate(item["content"]):
            place = {"content_index": index}
            name = part["type"]
            key = "refusal" if name == "refusal" else "text"
            extra: Json = {} if key == "refusal" else {"logprobs": []}
            start = {**part, key: "", **({} if key == "refusal" else {"annotations": []})}
            yield "content_part.added", {**place, "part": start}
            for text in pieces(part[key]):
                yield f"{name}.delta", {**place, "delta": text, **extra}
            for number, annotation in enumerate(part.get("annotations") or ()):
                value = {"annotation_index": number, "annotation": annotation}
                yield "output_text.annotation.added", {**place, **value}
            yield f"{name}.done", {**place, key: part[key], **extra}
            yield "content_part.done", {**place, "part": part}
    elif kind == "reasoning":
        for index, part in enumerate(item["summary"]):
            place, start = {"summary_index": index}, {**part, "text": ""}
            yield "reasoning_summary_part.added", {**place, "part": start}
            for text in pieces(part["text"]):
                yield "reasoning_summary_text.delta", {**place, "delta": text}
            yield "reasoning_summary_text.done", {**place, "text": part["text"]}
            yield "reasoning_summary_part.done", {**place, "part": part}
    elif kind in _TEXTS:
        key = _TEXTS[kind]
        name = "function_call_arguments" if kind == "function_call" else f"{kind}_input"
        for text in pieces(item[key], 3):
            yield f"{name}.delta", {"delta": text}
        yield f"{name}.done", {key: item[key], "name": item["name"]}
