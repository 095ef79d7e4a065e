#!/usr/bin/env bash
# langchain-perplexity 1.4.2 with perplexityai 0.46.1 and langchain-core 1.8.3.
#
# An answer reaches `max_tokens`, and the API says so: "finish_reason": "length". Expected: the answer has the
# reason in its `response_metadata`, whether it was streamed or not, so that an application can ask for the
# rest, and does not take half a list for the whole. Seen: a stream has it; the answer of `invoke` has the name
# of the model alone, and a cut answer looks like a finished one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-perplexity==1.4.2 perplexityai==0.46.1 langchain-core==1.8.3 2>/dev/null

cat > reason.py <<'PY'
import functools
import json
import operator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_perplexity import ChatPerplexity
from perplexity import Perplexity

HEAD = {"id": "1", "created": 1, "model": "sonar-pro"}
USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        streams = json.loads(self.rfile.read(int(self.headers["content-length"]))).get("stream")
        message = {"role": "assistant", "content": "The first is"}
        choice = {"index": 0, "finish_reason": "length", "message": message, "delta": message}
        answer = {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.end_headers()
        event = f"data: {json.dumps({**answer, 'object': 'chat.completion.chunk'})}\n\ndata: [DONE]\n\n"
        self.wfile.write((event if streams else json.dumps(answer)).encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
model = ChatPerplexity(model="sonar-pro", api_key="none", max_tokens=2)
model.client = Perplexity(api_key="none", base_url=f"http://127.0.0.1:{server.server_port}")
for name in ("invoke", "stream"):
    answer = model.invoke("Hi.") if name == "invoke" else functools.reduce(operator.add, model.stream("Hi."))
    print(f"{name}: {answer.text!r}, finish reason {answer.response_metadata.get('finish_reason')}")
PY
seen=$(venv/bin/python reason.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="invoke: 'The first is', finish reason None
stream: 'The first is', finish reason length"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
