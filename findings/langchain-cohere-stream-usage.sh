#!/usr/bin/env bash
# langchain-cohere 0.6.0 with cohere 5.21.1 and langchain-core 1.8.3.
#
# The API of Cohere reports two pairs of numbers for an answer: `tokens`, here 500 read and 12 written, and
# `billed_units`, 100 and 10, without the tokens that it adds itself. Expected: a stream, whose last event has
# the same pairs, ends with the usage of `invoke`: 500 and 12. Seen: `usage_metadata` of a stream is None,
# so each budget, limit and trace that reads LangChain's field counts a streamed answer as nothing. The
# numbers stand in `response_metadata["token_count"]`, but there a stream has the billed units under the
# names under which `invoke` has the tokens: the same answer counts 512 or 110.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-cohere==0.6.0 cohere==5.21.1 langchain-core==1.8.3 2>/dev/null

cat > usage.py <<'PY'
import functools
import json
import operator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_cohere import ChatCohere

USAGE = {
    "tokens": {"input_tokens": 500, "output_tokens": 12},
    "billed_units": {"input_tokens": 100, "output_tokens": 10},
}
WHOLE = {
    "id": "1",
    "finish_reason": "COMPLETE",
    "message": {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]},
    "usage": USAGE,
}
EVENTS = [
    {"type": "message-start", "id": "1", "delta": {"message": {"role": "assistant", "content": []}}},
    {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
    {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hello."}}}},
    {"type": "content-end", "index": 0},
    {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": USAGE}},
]


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        streams = json.loads(self.rfile.read(int(self.headers["content-length"]))).get("stream")
        stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.end_headers()
        self.wfile.write((stream if streams else json.dumps(WHOLE)).encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
model = ChatCohere(model="command-a-03-2025", base_url=f"http://127.0.0.1:{server.server_port}", cohere_api_key="none")
for name in ("invoke", "stream"):
    answer = model.invoke("Hi.") if name == "invoke" else functools.reduce(operator.add, model.stream("Hi."))
    usage, count = answer.usage_metadata, answer.response_metadata["token_count"]
    total = usage and usage["total_tokens"]
    print(f"{name}: {answer.text} usage_metadata {total}, token_count {count['input_tokens']:.0f} {count['output_tokens']:.0f}")
PY
seen=$(venv/bin/python usage.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="invoke: Hello. usage_metadata 512, token_count 500 12
stream: Hello. usage_metadata None, token_count 100 10"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
