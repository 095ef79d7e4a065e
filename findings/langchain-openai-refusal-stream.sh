#!/usr/bin/env bash
# langchain-openai 1.7.4 with openai 3.57.0 and langchain-core 1.8.3.
#
# The model refuses, which OpenAI sends in the field `refusal` of a Chat Completions message in place of
# `content`; a stream sends it in pieces, in `delta.refusal`. Expected: the message of a stream has the words
# of the refusal, as the message of `invoke` has them in `additional_kwargs["refusal"]`. Seen: the chunks do
# not have them, in no field: the sum is an empty answer with the finish reason "stop", which nothing tells
# from a model that has said nothing. A chat that streams shows an empty bubble, and a guard that asks for
# the refusal lets it pass. A refusal in a stream of the Responses API is there, in a block of its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-openai==1.7.4 openai==3.57.0 langchain-core==1.8.3 2>/dev/null

cat > refusal.py <<'PY'
import functools
import json
import operator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_openai import ChatOpenAI

WORDS = "I cannot help with this."
HEAD = {"id": "1", "created": 1, "model": "gpt-5.5"}
PART = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5.5", "error": None, "tools": [],
            "parallel_tool_calls": True, "tool_choice": "auto", "incomplete_details": None}  # fmt: skip


def chat(streams):
    if not streams:
        message = {"role": "assistant", "content": None, "refusal": WORDS}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {**HEAD, "object": "chat.completion", "choices": [choice]}
    deltas = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"refusal": word} for word in ("I cannot help ", "with this.")]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    return [{**HEAD, "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]


def responses(streams):
    part = {"type": "refusal", "refusal": WORDS}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    response = {**RESPONSE, "status": "completed", "output": [item]}
    if not streams:
        return response
    return [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **PART, "part": {**part, "refusal": ""}},
        {"type": "response.refusal.delta", **PART, "delta": WORDS},
        {"type": "response.refusal.done", **PART, "refusal": WORDS},
        {"type": "response.content_part.done", **PART, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        streams = json.loads(self.rfile.read(int(self.headers["content-length"]))).get("stream", False)
        answer = (responses if self.path.endswith("responses") else chat)(streams)
        events = (f"data: {json.dumps({**event, 'sequence_number': n})}\n\n" for n, event in enumerate(answer))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.end_headers()
        self.wfile.write(("".join(events) + "data: [DONE]\n\n" if streams else json.dumps(answer)).encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
for name, responses_api in (("Chat Completions", False), ("Responses", True)):
    url = f"http://127.0.0.1:{server.server_port}/v1"
    model = ChatOpenAI(model="gpt-5.5", base_url=url, api_key="none", use_responses_api=responses_api)
    for way, answer in (("invoke", model.invoke("Hi.")), ("stream", functools.reduce(operator.add, model.stream("Hi.")))):
        print(f"{name}, {way}: text {answer.text!r}, the refusal is in the message: {WORDS in str(answer.model_dump())}")
PY
seen=$(venv/bin/python refusal.py)
echo "$seen"
expected="Chat Completions, invoke: text '', the refusal is in the message: True
Chat Completions, stream: text '', the refusal is in the message: False
Responses, invoke: text '', the refusal is in the message: True
Responses, stream: text '', the refusal is in the message: True"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
