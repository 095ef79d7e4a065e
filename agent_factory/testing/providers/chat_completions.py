"""Form of OpenAI's Chat Completions, which many providers share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar

from agent_factory.testing.providers.replies import Call, ProviderReply, cut_json
from agent_factory.testing.providers.rules import Json
from agent_factory.testing.providers.server import ProviderServer, pieces, sse, token


class ChatCompletionsServer(ProviderServer):
    """Fake of a provider with chat completions, whole and streamed; subclasses have the rules."""

    base_path = "/v1"
    endpoints = re.compile(r"/chat/completions(\?|$)")
    thinking_field: ClassVar[str] = ""
    """The field of a message with the thought; "": the provider shows no thoughts."""

    refusal_field: ClassVar[str] = ""
    """The field of a message with the text of a refusal; "": the content."""

    refusal_reason: ClassVar[str] = "stop"
    """The finish reason of a refusal."""

    def render(self, answer: ProviderReply, request: Json) -> Json:
        reason = {"length": "length", "refusal": self.refusal_reason}.get(answer.ending)
        message = self.message(answer)
        default = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "logprobs": None}
        return {
            "id": f"chatcmpl-{token()}",
            "object": "chat.completion",
            "created": 1764547200,
            "model": request.get("model"),
            "choices": [{**choice, "finish_reason": reason or default}],
            "usage": self.usage(answer),
        }

    def message(self, answer: ProviderReply) -> Json:
        """The message of an answer."""
        message: Json = {"role": "assistant", "content": answer.text or None}
        if self.refusal_field:
            message[self.refusal_field] = None
        if answer.ending == "refusal" and self.refusal_field:
            message |= {"content": None, self.refusal_field: answer.text}
        if answer.thinking and self.thinking_field:
            message[self.thinking_field] = answer.thinking
        if answer.calls:
            message["tool_calls"] = [
                self.call(call, is_cut=answer.ending == "length" and call is answer.calls[-1])
                for call in answer.calls
            ]
        return message

    def call(self, call: Call, *, is_cut: bool) -> Json:
        """A tool call; the arguments of a cut one are an unfinished text."""
        function = {"name": call.name, "arguments": cut_json(call.args) if is_cut else call.json}
        return {"id": call.id or self.call_id(), "type": "function", "function": function}

    def call_id(self) -> str:
        """A new id of a call."""
        return f"call_{token()}"

    def usage(self, answer: ProviderReply) -> Json:
        """The usage of an answer."""
        return answer.usage_by("prompt_tokens", "completion_tokens", "total_tokens")

    def stream(self, response: Json, request: Json) -> Iterator[bytes]:
        head = {k: v for k, v in response.items() if k not in ("choices", "usage")}
        head["object"] = "chat.completion.chunk"
        (choice,) = response["choices"]
        for delta in self.deltas(choice["message"]):
            yield sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        delta = self.last_delta(choice["message"])
        end = {"index": 0, "delta": delta, "finish_reason": choice["finish_reason"]}
        yield sse({**head, "choices": [end], **self.end_fields(response)})
        if (request.get("stream_options") or {}).get("include_usage"):
            yield sse({**head, "choices": [], "usage": response["usage"]})
        yield sse("[DONE]")

    def end_fields(self, response: Json) -> Json:
        """Fields of the chunk with the finish reason."""
        return {}

    def last_delta(self, message: Json) -> Json:
        """The part of a message in the chunk with the finish reason."""
        return {}

    def deltas(self, message: Json) -> Iterator[Json]:
        """The parts of a message in a stream."""
        yield {"role": "assistant", "content": ""}
        for key in (self.thinking_field, "content", self.refusal_field):
            for text in pieces(message.get(key) or ""):
                yield {key: text}
        for index, call in enumerate(message.get("tool_calls") or ()):
            function = {**call["function"], "arguments": ""}
            yield {"tool_calls": [{**call, "index": index, "function": function}]}
            for text in pieces(call["function"]["arguments"], 3):
                yield {"tool_calls": [{"index": index, "function": {"arguments": text}}]}

    def error_body(self, status: int, message: str, code: str = "") -> Json:
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(status)
        kind = kind or ("invalid_request_error" if status < 500 else "server_error")
        problem = {"message": message, "type": kind, "param": None, "code": code or None}
        return {"error": problem}


def calls_without_results(messages: Sequence[Json]) -> Iterator[tuple[int, list[str]]]:
    """The messages with calls that the messages after it do not answer: index and ids."""
    for index, message in enumerate(messages):
        missing = {call["id"]: None for call in message.get("tool_calls") or ()}
        for following in messages[index + 1 :]:
            if following["role"] != "tool":
                break
            missing.pop(following.get("tool_call_id"), None)
        if missing:
            yield index, [*missing]


def results_without_calls(messages: Sequence[Json]) -> Iterator[tuple[int, str]]:
    """The results that answer no call of the assistant's message before: index and id."""
    pending = Counter[str]()
    for index, message in enumerate(messages):
        if message["role"] != "tool":
            pending = Counter(call["id"] for call in message.get("tool_calls") or ())
            continue
        id_ = message.get("tool_call_id") or ""
        if not pending[id_]:
            yield index, id_
        pending[id_] -= 1
