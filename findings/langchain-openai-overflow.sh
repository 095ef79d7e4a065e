#!/usr/bin/env bash
# langchain-openai 1.7.4 with openai 3.57.0 and with openai 2.54.0; langchain-core 1.8.3.
#
# A conversation is longer than the model's window, and OpenAI refuses the request with its documented
# error, `"code": "context_length_exceeded"`. Expected: langchain-core's `ContextOverflowError`, by which an
# application shortens the conversation and asks again, whichever provider it uses. Seen: with openai 2 it is
# raised, with openai 3 it is not: the package looks for the code in the text of the error, where openai 2 had
# the whole body, and the text of openai 3 is the message alone. The code is still there, in `error.code`.
# Both versions are allowed; so an upgrade of openai alone ends the recovery, and no test that raises the
# error of LangChain by itself sees it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-openai==1.7.4 openai==2.54.0 langchain-core==1.8.3 2>/dev/null

cat > overflow.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import openai
from langchain_core.exceptions import ContextOverflowError
from langchain_openai import ChatOpenAI

TEXT = "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."
ERROR = {"message": TEXT, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"error": ERROR}).encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
for name, responses in (("Chat Completions", False), ("Responses", True)):
    url = f"http://127.0.0.1:{server.server_port}/v1"
    model = ChatOpenAI(model="gpt-5.5", base_url=url, api_key="none", use_responses_api=responses)
    try:
        model.invoke("Hi.")
    except openai.BadRequestError as error:
        overflow = isinstance(error, ContextOverflowError)
        print(f"openai {openai.__version__}, {name}: ContextOverflowError {overflow}, code {error.code}")
PY
seen=$(venv/bin/python overflow.py)
venv/bin/python -m pip install -q openai==3.57.0 2>/dev/null
seen="$seen
$(venv/bin/python overflow.py)"
echo "$seen"
expected="openai 2.54.0, Chat Completions: ContextOverflowError True, code context_length_exceeded
openai 2.54.0, Responses: ContextOverflowError True, code context_length_exceeded
openai 3.57.0, Chat Completions: ContextOverflowError False, code context_length_exceeded
openai 3.57.0, Responses: ContextOverflowError False, code context_length_exceeded"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
