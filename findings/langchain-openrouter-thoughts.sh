#!/usr/bin/env bash
# langchain-openrouter 0.2.9 with openrouter 0.11.46 and langchain-core 1.8.3.
#
# A model of OpenRouter thinks, and its thought comes in `reasoning_details`: each piece of a stream has its
# `type`, `index`, `format` and `id`, and the last one has the signature. The details are to be sent back as
# they are. Expected: the sum of the chunks has the detail of `invoke`: the text put together, each other
# field as in the pieces. Seen: the format is put together as well: three pieces make it
# "anthropic-claude-v1anthropic-claude-v1anthropic-claude-v1", which the thread keeps. The client of
# OpenRouter does not know such a format and leaves it out of the next request: so after a stream a signed
# thought goes back without the format by which it is read. Version 0.10 of the client sends it as it is.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-openrouter==0.2.9 openrouter==0.11.46 langchain-core==1.8.3 2>/dev/null

cat > thoughts.py <<'PY'
import functools
import json
import operator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_openrouter import ChatOpenRouter

HEAD = {"id": "1", "created": 1, "model": "anthropic/claude-opus-5.5", "system_fingerprint": None}
requests = []


def detail(text, signature=None):
    fixed = {"type": "reasoning.text", "id": "r-1", "format": "anthropic-claude-v1", "index": 0}
    return {**fixed, "text": text, "signature": signature}


def chunks():
    deltas = [{"role": "assistant", "content": "", "reasoning": "It is ", "reasoning_details": [detail("It is ")]}]
    deltas += [{"content": "", "reasoning": "a greeting.", "reasoning_details": [detail("a greeting.")]}]
    deltas += [{"content": "", "reasoning_details": [detail("", "c2ln")]}, {"content": "Hello."}]
    for delta in deltas:
        yield {"index": 0, "delta": delta, "finish_reason": None}
    yield {"index": 0, "delta": {}, "finish_reason": "stop"}


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        requests.append(request)
        details = [detail("It is a greeting.", "c2ln")]
        message = {"role": "assistant", "content": "Hello.", "reasoning": "It is a greeting.", "reasoning_details": details}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**HEAD, "object": "chat.completion", "choices": [choice]}
        stream = (f"data: {json.dumps({**HEAD, 'object': 'chat.completion.chunk', 'choices': [c]})}\n\n" for c in chunks())
        streams = request.get("stream")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.end_headers()
        self.wfile.write(("".join(stream) + "data: [DONE]\n\n" if streams else json.dumps(whole)).encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/api/v1"
model = ChatOpenRouter(model="anthropic/claude-opus-5.5", base_url=url, api_key="none")
for name in ("invoke", "stream"):
    answer = model.invoke("Hi.") if name == "invoke" else functools.reduce(operator.add, model.stream("Hi."))
    model.invoke([("user", "Hi."), answer, ("user", "And now?")])
    (stored,) = answer.additional_kwargs["reasoning_details"]
    (sent,) = requests[-1]["messages"][1]["reasoning_details"]
    print(f"{name}: {sent['text']!r}, signature {sent['signature']}, id {sent['id']}")
    print(f"  format in the thread: {stored['format']}, sent: {sent.get('format')}")
PY
seen=$(venv/bin/python thoughts.py)
echo "$seen"
expected="invoke: 'It is a greeting.', signature c2ln, id r-1
  format in the thread: anthropic-claude-v1, sent: anthropic-claude-v1
stream: 'It is a greeting.', signature c2ln, id r-1
  format in the thread: anthropic-claude-v1anthropic-claude-v1anthropic-claude-v1, sent: None"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
