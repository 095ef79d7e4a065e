#!/usr/bin/env bash
# langchain-ollama 1.1.0 with ollama 0.6.3 and langchain-core 1.8.3.
#
# A model calls two tools at once, `stock` and `orders`, and the results come in the order in which they were
# ready, that of `orders` first; each `ToolMessage` has the `tool_call_id` and the `name` of its call.
# Expected: the request says which result belongs to which call: the API of Ollama has `tool_name` for it.
# Seen: a result is sent as a role and a text alone, and a call without its id. So the model must go by the
# order, and takes 4 orders for 4 pieces in stock. Each other provider's package sends the id or the name.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-ollama==1.1.0 ollama==0.6.3 langchain-core==1.8.3 2>/dev/null

cat > results.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_core.messages import AIMessage, ToolMessage
from langchain_ollama import ChatOllama

requests = []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        answer = {"model": "m", "message": {"role": "assistant", "content": "No."}, "done": True, "done_reason": "stop"}
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode() + b"\n")

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
calls = [{"name": "stock", "args": {"of": "pens"}, "id": "1"}, {"name": "orders", "args": {"of": "pens"}, "id": "2"}]
results = [ToolMessage("4", tool_call_id="2", name="orders"), ToolMessage("70", tool_call_id="1", name="stock")]
ChatOllama(model="qwen3", base_url=f"http://127.0.0.1:{server.server_port}").invoke(
    [("user", "Enough pens?"), AIMessage("", tool_calls=calls), *results]
)
_, answer, *sent = requests[-1]["messages"]
print("calls:", json.dumps(answer["tool_calls"]))
print("results:", json.dumps(sent))
PY
seen=$(venv/bin/python results.py)
echo "$seen"
expected='calls: [{"function": {"name": "stock", "arguments": {"of": "pens"}}}, {"function": {"name": "orders", "arguments": {"of": "pens"}}}]
results: [{"role": "tool", "content": "4"}, {"role": "tool", "content": "70"}]'
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
