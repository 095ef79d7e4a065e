#!/usr/bin/env bash
# langchain-google-genai 4.4.3 with google-genai 3.6.1 and langchain-core 1.8.3.
#
# Gemini thinks, runs code of its own, and answers. The API signs its thoughts: `thoughtSignature` stands at
# the first part after a thought, and is to be sent back at that part. Expected: the next turn has the
# signature where it was, as it has for a text, a call and a picture. Seen: a signature at `executableCode`
# is in no field of LangChain's message, and the next request has the code without it: the thought before
# the code is lost to the model, and no error or warning says so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-google-genai==4.4.3 google-genai==3.6.1 langchain-core==1.8.3 2>/dev/null

cat > signature.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_core.messages import ToolMessage
from langchain_google_genai import ChatGoogleGenerativeAI

SIGNED = {"thoughtSignature": "c2lnbmF0dXJl"}
answers, requests = [], []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        content = {"role": "model", "parts": answers[-1]}
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
code = {"executableCode": {"language": "PYTHON", "code": "print(1 + 2)"}}
output = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "3"}}
for name, parts in (
    ("text", [{"text": "It is 3.", **SIGNED}]),
    ("call", [{"functionCall": {"name": "add", "args": {"a": 1}}, **SIGNED}]),
    ("picture", [{"inlineData": {"mimeType": "image/png", "data": "cGljdHVyZQ=="}, **SIGNED}]),
    ("code", [{**code, **SIGNED}, output, {"text": "It is 3."}]),
):
    answers.append(parts)
    answer = model.invoke("1 + 2?")
    more = [ToolMessage("3 it is", tool_call_id=call["id"], name="add") for call in answer.tool_calls]
    model.invoke([("user", "1 + 2?"), answer, *more, ("user", "Sure?")])
    sent = requests[-1]["contents"][1]["parts"]
    stored = SIGNED["thoughtSignature"] in str(answer.model_dump())
    print(f"{name}: signature in LangChain's message {stored}, sent back {'thoughtSignature' in sent[0]}")
PY
seen=$(venv/bin/python signature.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="text: signature in LangChain's message True, sent back True
call: signature in LangChain's message True, sent back True
picture: signature in LangChain's message True, sent back True
code: signature in LangChain's message False, sent back False"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
