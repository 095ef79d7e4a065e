#!/usr/bin/env bash
# langchain-anthropic 1.7.10 with anthropic 0.125.0 and langchain-core 1.8.3.
#
# Claude thinks and answers with a text; the chunks of the stream are added, and the next turn sends the
# sum back, as each chat does. Expected: the request has the two blocks that Claude has sent, the thought
# and the text. Seen: without tools, the content of the sum begins with an empty string, from the first
# event of the stream, and the request has a third block before the thought: a text without text. The API
# documents that text blocks must not be empty, and refuses the request; so the second turn of a streamed
# chat fails, and each later one, since the thread keeps the message. With a tool bound, and with `invoke`,
# the content has two blocks. The server here sends the documented events, and keeps the requests.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-anthropic==1.7.10 anthropic==0.125.0 langchain-core==1.8.3 2>/dev/null

cat > chat.py <<'PY'
import functools
import json
import operator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_anthropic import ChatAnthropic

requests = []
THOUGHT = {"type": "thinking", "thinking": "A greeting.", "signature": "c2ln"}
USAGE = {"input_tokens": 9, "output_tokens": 9}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_sequence": None}


def events():
    yield {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None, "usage": USAGE}}
    yield {"type": "content_block_start", "index": 0, "content_block": {**THOUGHT, "thinking": "", "signature": ""}}
    for delta in ({"type": "thinking_delta", "thinking": "A greeting."}, {"type": "signature_delta", "signature": "c2ln"}):
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}
    yield {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hello."}}
    yield {"type": "content_block_stop", "index": 1}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE}
    yield {"type": "message_stop"}


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        requests.append(request)
        if request.get("stream"):
            body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events())
        else:
            content = [THOUGHT, {"type": "text", "text": "Hello."}]
            body = json.dumps({**MESSAGE, "content": content, "stop_reason": "end_turn", "usage": USAGE})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if request.get("stream") else "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()


def look(place: str) -> str:
    """Look at a place."""
    return place


plain = ChatAnthropic(model="claude-opus-5-5", base_url=f"http://127.0.0.1:{server.server_port}", api_key="none")
for name, model, streams in (
    ("invoke", plain, False),
    ("stream, a tool", plain.bind_tools([look]), True),
    ("stream, no tool", plain, True),
):
    answer = functools.reduce(operator.add, model.stream("Hi.")) if streams else model.invoke("Hi.")
    model.invoke([("user", "Hi."), answer, ("user", "And now?")])
    blocks = requests[-1]["messages"][1]["content"]
    print(f"{name}:", ", ".join(f"{block['type']} {block[block['type']]!r}" for block in blocks))
PY
seen=$(venv/bin/python chat.py)
echo "$seen"
expected="invoke: thinking 'A greeting.', text 'Hello.'
stream, a tool: thinking 'A greeting.', text 'Hello.'
stream, no tool: text '', thinking 'A greeting.', text 'Hello.'"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
