"""A stand-in for Anthropic's API on this machine, which plays the model of one page of the docs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

KEY = "sk-ant-key"
MODEL = "claude-haiku-4-5"
REFUSALS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class Messages(BaseHTTPRequestHandler):
    """Answers requests of the Messages API, whole or as events."""

    refused_texts: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = text_of(request["messages"][-1])
        if KEY not in (self.headers["X-Api-Key"], str(self.headers["Authorization"]).split()[-1]):
            return self.refuse(401, "invalid x-api-key")
        if request["model"] != MODEL:
            return self.refuse(404, f"model: {request['model']}")
        if text == "Are you busy?" and text not in self.refused_texts:
            self.refused_texts.add(text)
            return self.refuse(429, "This request would exceed your rate limit.")
        answer = answer_to(text, input_tokens=700 + 60 * len(request["messages"]))
        if request.get("stream"):
            return self.send("text/event-stream", "".join(events(answer)))
        self.send("application/json", json.dumps(answer))

    def refuse(self, status: int, text: str) -> None:
        error = {"type": REFUSALS[status], "message": text}
        self.send("application/json", json.dumps({"type": "error", "error": error}), status)

    def send(self, kind: str, body: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Write nothing to stderr."""


def text_of(message: dict[str, Any]) -> str:
    """The text of the last block of a message, which may be the result of a tool."""
    content: Any = message["content"]
    while not isinstance(content, str):
        content = content[-1].get("text") or content[-1]["content"]
    return content


def answer_to(text: str, input_tokens: int) -> dict[str, Any]:
    """The message that the model answers a text with."""
    calls = {
        "My lamp is broken. The order is A1.": ("find_order", {"order_id": "A1"}),
        "A1: a lamp, 40 euros": ("refund", {"order_id": "A1", "euros": 40}),
    }
    answers = {
        "Are you busy?": "Not any more.",
        "40 euros were paid back for order A1.": "I am sorry. You get your 40 euros back.",
    }
    answer = answers.get(text, "Hello! How can I help you?")
    content: dict[str, Any] = {"type": "text", "text": answer}
    if call := calls.get(text):
        content = {"type": "tool_use", "id": f"toolu_{call[0]}", "name": call[0], "input": call[1]}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": f"{MODEL}-20251001",
        "content": [content],
        "stop_reason": "tool_use" if call else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": input_tokens, "output_tokens": 46},
    }


def events(message: dict[str, Any]) -> Iterator[str]:
    """The events that a message arrives in, a word at a time."""
    (content,) = message["content"]
    if content["type"] == "text":
        block: dict[str, Any] = {"type": "text", "text": ""}
        words = content["text"].replace(" ", " \n").split("\n")
        deltas: list[Any] = [{"type": "text_delta", "text": word} for word in words]
    else:
        block = {**content, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(content["input"])}]
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    parts: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": message["usage"]},
        {"type": "message_stop"},
    ]
    for event in parts:
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


@contextmanager
def fake_anthropic() -> Iterator[dict[str, str]]:
    """Serve the stand-in; yields the environment in which Anthropic's client finds it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Messages)
    server.daemon_threads = True
    Messages.refused_texts.clear()
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
            "ANTHROPIC_API_KEY": KEY,
            "NO_PROXY": "127.0.0.1",
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
