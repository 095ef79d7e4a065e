#!/usr/bin/env bash
# langchain-google-genai 4.4.3 with google-genai 3.6.1 and langchain-core 1.8.3.
#
# A tool returns a text: a version "1.10", a commit "1e3", an order "0042", the word "null". Expected: the
# model reads this text, as from each other provider's package. Seen: a text that happens to be JSON is
# parsed, and its value is sent: the version becomes 1.1, the commit 1000.0, the word null, a quoted text
# loses its quotes. The message in the thread and the trace keep the text, so nobody sees why the model
# looks for version 1.1. Also seen: a result with `status="error"` is sent under "output"; the API has the
# key "error" for it, and Anthropic's and Bedrock's packages pass the status on.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-google-genai==4.4.3 google-genai==3.6.1 langchain-core==1.8.3 2>/dev/null

cat > results.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_core.messages import AIMessage, ToolMessage
from langchain_google_genai import ChatGoogleGenerativeAI

requests = []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        content = {"role": "model", "parts": [{"text": "I see."}]}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"candidates": [{"content": content, "finishReason": "STOP"}]}).encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
model = ChatGoogleGenerativeAI(model="gemini-3.5-pro", base_url=url, api_key="none")
for text, status in (
    ("1.10 is the newest", "success"),
    ("0042", "success"),
    ("1.10", "success"),
    ("1e3", "success"),
    ("null", "success"),
    ('"quoted"', "success"),
    ("no such file", "error"),
):
    result = ToolMessage(text, tool_call_id="1", name="look", status=status)
    model.invoke([("user", "Hi."), AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}]), result])
    (part,) = requests[-1]["contents"][-1]["parts"]
    print(f"{status} {text}: {json.dumps(part['functionResponse']['response'])}")
PY
seen=$(venv/bin/python results.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected='success 1.10 is the newest: {"output": "1.10 is the newest"}
success 0042: {"output": "0042"}
success 1.10: {"output": 1.1}
success 1e3: {"output": 1000.0}
success null: {"output": null}
success "quoted": {"output": "quoted"}
error no such file: {"output": "no such file"}'
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
