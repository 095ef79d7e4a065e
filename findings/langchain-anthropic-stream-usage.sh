#!/usr/bin/env bash
# langchain-anthropic 1.7.10 with anthropic 0.125.0 and langchain-core 1.8.3.
#
# An answer used 1,000 tokens of input, of which 900 were read from the cache. A stream says so in its first
# event, `message_start`, and its last, `message_delta`, may carry the tokens of the output alone: the
# documentation of streams shows this form, and servers that speak the protocol of Anthropic send it.
# Expected: `usage_metadata` of the stream is that of `invoke`. Seen: it has 0 tokens of input, and no
# details; the counts of the first event are ignored. A budget or a bill that adds the usage of streams
# counts the output alone. When the last event repeats the input, all is counted.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-anthropic==1.7.10 anthropic==0.125.0 langchain-core==1.8.3 2>/dev/null

cat > usage.py <<'PY'
import functools
import json
import operator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_anthropic import ChatAnthropic

INPUT = {"input_tokens": 100, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_sequence": None}
last = {}  # the usage in the last event


def events():
    first = {**INPUT, "output_tokens": 1}
    yield {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None, "usage": first}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": last}
    yield {"type": "message_stop"}


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        streams = json.loads(self.rfile.read(int(self.headers["content-length"]))).get("stream")
        content = [{"type": "text", "text": "Hello."}]
        whole = {**MESSAGE, "content": content, "stop_reason": "end_turn", "usage": {**INPUT, "output_tokens": 5}}
        stream = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events())
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.end_headers()
        self.wfile.write(("".join(stream) if streams else json.dumps(whole)).encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
model = ChatAnthropic(model="claude-opus-5-5", base_url=f"http://127.0.0.1:{server.server_port}", api_key="none")


def look(name, answer):
    usage = answer.usage_metadata
    cached = usage.get("input_token_details", {}).get("cache_read", 0)
    print(f"{name}: input {usage['input_tokens']}, of these cached {cached}, output {usage['output_tokens']}")


look("invoke", model.invoke("Hi."))
last.update(INPUT, output_tokens=5)
look("stream, input in both events", functools.reduce(operator.add, model.stream("Hi.")))
last.clear()
last.update(output_tokens=5)
look("stream, input in the first event", functools.reduce(operator.add, model.stream("Hi.")))
PY
seen=$(venv/bin/python usage.py)
echo "$seen"
expected="invoke: input 1000, of these cached 900, output 5
stream, input in both events: input 1000, of these cached 900, output 5
stream, input in the first event: input 0, of these cached 0, output 5"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
