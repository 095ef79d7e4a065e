"""Fake of the Gemini API, with its rules.

https://ai.google.dev/api/generate-content
https://ai.google.dev/gemini-api/docs/thought-signatures
https://ai.google.dev/gemini-api/docs/function-calling
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from itertools import compress, count, pairwise
from typing import ClassVar

from agent_factory.testing.providers.replies import ProviderReply
from agent_factory.testing.providers.rules import Json, documented, extra_fields
from agent_factory.testing.providers.server import (
    ProviderRequest,
    ProviderServer,
    digest,
    pieces,
    sse,
    token,
)

GENERATE = "https://ai.google.dev/api/generate-content"
CONTENTS = "https://ai.google.dev/api/caching#Content"
FUNCTIONS = "https://ai.google.dev/gemini-api/docs/function-calling"
SIGNATURES = "https://ai.google.dev/gemini-api/docs/thought-signatures"

_DATA = {
    *("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"),
    *("codeExecutionResult", "toolCall", "toolResponse"),
}
_PART = _DATA | {"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"}
_SKIPS = (b"skip_thought_signature_validator", b"context_engineering_is_the_way_to_go")
"""Signatures that the provider accepts for calls of other models."""

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class GeminiServer(ProviderServer):
    """Fake of Gemini: `generateContent` and `streamGenerateContent`.

    Args:
        replies: The script; see `ProviderServer`. A dict replaces fields of the response, as
            `candidates` or `promptFeedback`.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    Raises:
        ValueError: The provider has no such reply.

    >>> from agent_factory.testing.providers import GeminiServer, reply
    >>> server = GeminiServer([reply("Hello.", thinking="A greeting.")])
    """

    endpoints = re.compile(r":(streamG|g)enerateContent(\?|$)")
    errors: ClassVar = {
        "authentication": (400, "API key not valid. Please pass a valid API key.", ""),
        "not_found": (404, "The model is not found for API version v1beta.", ""),
        "overflow": (
            400,
            "The input token count (1100000) exceeds the maximum number of tokens allowed "
            "(1048576).",
            "",
        ),
        "overloaded": (503, "The model is overloaded. Please try again later.", ""),
        "rate_limit": (429, "You exceeded your current quota.", ""),
    }

    def streams(self, request: ProviderRequest) -> bool:
        return ":streamGenerateContent" in request.path

    def render(self, answer: ProviderReply, request: Json) -> Json:
        parts: list[Json] = []
        if answer.thinking:
            parts.append({"text": answer.thinking, "thought": True})
        if answer.text and answer.ending != "refusal":
            parts.append({"text": answer.text})
        for call in answer.calls:
            id_ = call.id or f"call_{token()}"
            parts.append({"functionCall": {"id": id_, "name": call.name, "args": dict(call.args)}})
        reasons = {"length": "MAX_TOKENS", "refusal": "SAFETY"}
        candidate: Json = {"index": 0, "finishReason": reasons.get(answer.ending, "STOP")}
        if parts:
            candidate["content"] = {"role": "model", "parts": parts}
        names = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")
        return {
            "candidates": [candidate],
            "usageMetadata": answer.usage_by(*names),
            "modelVersion": self._model(),
            "responseId": token(),
        }

    def sign(self, response: Json, request: Json) -> None:
        # The first call of an answer is signed, or the text after a thought.
        for candidate in response.get("candidates") or ():
            parts = (candidate.get("content") or {}).get("parts") or []
            calls = [part for part in parts if "functionCall" in part]
            texts = [part for part in parts if "text" in part and not part.get("thought")]
            has_thought = any(part.get("thought") for part in parts)
            for part in (calls[:1] or texts[-1:]) if calls or has_thought else ():
                value = digest(part.get("functionCall") or part.get("text"))
                raw = json.dumps({"part": value}).encode()
                part.setdefault("thoughtSignature", base64.b64encode(raw).decode())

    def stream(self, response: Json, request: Json) -> Iterator[bytes]:
        candidates = response.get("candidates") or []
        parts = (candidates[0].get("content") or {}).get("parts") if len(candidates) == 1 else None
        if not parts:
            yield sse(response)
            return
        deltas = [delta for part in parts for delta in _deltas(part)]
        rest = {key: value for key, value in candidates[0].items() if key != "content"}
        for index, delta in enumerate(deltas):
            candidate: Json = {"index": 0, "content": {"role": "model", "parts": [delta]}}
            if index == len(deltas) - 1:
                candidate |= rest
            yield sse({**response, "candidates": [candidate]})

    def error_body(self, status: int, message: str, code: str = "") -> Json:
        name = code or _STATUSES.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": name}}

    def _model(self) -> str:
        path = self.requests[-1].path if self.requests else ""
        return path.rpartition("models/")[2].partition(":")[0]

    @documented(GENERATE)
    def required_fields(self, body: Json) -> Iterator[str]:
        """A request has contents, and each content has parts."""
        if not body.get("contents"):
            yield "* GenerateContentRequest.contents: contents is not specified"
        for index, content in enumerate(body.get("contents") or ()):
            if not content.get("parts"):
                yield f"* GenerateContentRequest.contents[{index}].parts: must not be empty."

    @documented(CONTENTS)
    def roles(self, body: Json) -> Iterator[str]:
        """Contents are the user's or the model's; the first is the user's."""
        for content in body["contents"]:
            if content.get("role") not in ("user", "model", "function", None):
                yield "Please use a valid role: user, model."
        if body["contents"][0].get("role") == "model":
            yield "Please ensure that the conversation begins with a user turn."

    @documented(CONTENTS)
    def parts(self, body: Json) -> Iterator[str]:
        """A part has one value, and documented fields alone."""
        for index, content in enumerate(body["contents"]):
            for position, part in enumerate(content["parts"]):
                place = f"contents[{index}].parts[{position}]"
                error = "Invalid JSON payload received. Unknown name \"{name}\" at '{place}'"
                yield from extra_fields(part, _PART, place, error)
                if len(part.keys() & _DATA) != 1:
                    yield (
                        f"* GenerateContentRequest.{place}.data: required oneof field 'data' must "
                        "have one initialized field"
                    )

    @documented(FUNCTIONS)
    def calls_have_results(self, body: Json) -> Iterator[str]:
        """After calls come the results of all of them, with the same names."""
        for content, following in pairwise([*body["contents"], {"parts": []}]):
            calls, results = _calls(content), _results(following)
            if calls and len(results) != len(calls):
                yield (
                    "Please ensure that the number of function response parts is equal to the "
                    "number of function call parts of the function call turn."
                )
            elif calls and _names(calls) != _names(results):
                yield "Please ensure that function responses have the names of their calls."

    @documented(FUNCTIONS)
    def results_have_calls(self, body: Json) -> Iterator[str]:
        """Results come immediately after calls."""
        for before, content in pairwise([{"parts": []}, *body["contents"]]):
            if _results(content) and not _calls(before):
                yield (
                    "Please ensure that function response turn comes immediately after a function "
                    "call turn."
                )

    @documented(FUNCTIONS)
    def order_of_calls(self, body: Json) -> Iterator[str]:
        """Calls come immediately after the user or after results."""
        for before, content in pairwise(body["contents"]):
            if _calls(content) and before.get("role") == "model":
                yield (
                    "Please ensure that function call turn comes immediately after a user turn or "
                    "after a function response turn."
                )

    @documented(SIGNATURES)
    def signatures_are_unchanged(self, body: Json) -> Iterator[str]:
        """A signature goes back as it came."""
        for content in body["contents"]:
            for part in content["parts"]:
                if "thoughtSignature" in part and not _is_valid(part["thoughtSignature"]):
                    yield "Thought signature is not valid."

    @documented(SIGNATURES)
    def signatures_of_calls(self, body: Json) -> Iterator[str]:
        """From Gemini 3 on, the first call of each step of the current turn has its signature."""
        version = re.match(r"gemini-(\d+)", self._model())
        if version and int(version[1]) < 3:
            return
        contents = body["contents"]
        texts = [c.get("role") == "user" and not _results(c) for c in contents]
        start = max(compress(count(), texts), default=0)
        for content in contents[start:]:
            calls = [part for part in content["parts"] if "functionCall" in part]
            if calls and "thoughtSignature" not in calls[0]:
                yield (
                    "Function call is missing a thought_signature in functionCall parts. This is "
                    "required for tools to work correctly. Additional data, function call "
                    f"`default_api:{calls[0]['functionCall'].get('name')}`."
                )


def _calls(content: Json) -> list[Json]:
    return [part["functionCall"] for part in content["parts"] if "functionCall" in part]


def _results(content: Json) -> list[Json]:
    return [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]


def _names(values: list[Json]) -> list[str]:
    return sorted(value["name"] for value in values)


def _is_valid(signature: str) -> bool:
    """Return True for a signature of these servers, in the alphabet of base64 or of URLs."""
    if signature.encode() in _SKIPS:
        return True
    text = signature.replace("-", "+").replace("_", "/")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return False
    return raw in _SKIPS or raw.startswith(b'{"part": ')


def _deltas(part: Json) -> list[Json]:
    """The pieces of a part in a stream; a signature comes with an empty text at the end."""
    if "text" not in part:
        return [part]
    plain = {key: value for key, value in part.items() if key != "thoughtSignature"}
    deltas = [{**plain, "text": text} for text in pieces(part["text"])]
    if "thoughtSignature" in part:
        deltas.append({"text": "", "thoughtSignature": part["thoughtSignature"]})
    return deltas
