#!/usr/bin/env bash
# langchain-litellm 0.11.2 with litellm 1.110.2 and langchain-core 1.8.3; langchain-openai 1.7.4.
#
# A model ends a call too early, and its arguments are no JSON: LangChain puts the call into
# `invalid_tool_calls`. An agent answers the call with an error, so that the model can try again. Expected: the
# next request has the call as the model wrote it, and the error as its result, as langchain-openai sends
# them. Seen: langchain-litellm sends the result alone. A result without its call is refused ("messages with
# role 'tool' must be a response to a preceeding message with 'tool_calls'"), so the conversation is stuck.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-litellm==0.11.2 litellm==1.110.2 langchain-openai==1.7.4 \
    openai==3.57.0 langchain-core==1.8.3 2>/dev/null

cat > invalid.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_core.messages import ToolMessage
from langchain_litellm import ChatLiteLLM
from langchain_openai import ChatOpenAI

FUNCTION = {"name": "look_up", "arguments": '{"city": "Be'}
CALL = {"id": "call_1", "type": "function", "function": FUNCTION}
MESSAGE = {"role": "assistant", "content": None, "tool_calls": [CALL]}
CHOICE = {"index": 0, "message": MESSAGE, "finish_reason": "length"}
USAGE = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
CHAT = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE], "usage": USAGE}
requests = []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(CHAT).encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
for model in (
    ChatOpenAI(model="gpt-5", base_url=url, api_key="none"),
    ChatLiteLLM(model="openai/gpt-5", api_base=url, api_key="none"),
):
    answer = model.invoke("Hi.")
    invalid = [call["id"] for call in answer.invalid_tool_calls]
    model.invoke([("user", "Hi."), answer, ToolMessage("The arguments are no JSON.", tool_call_id="call_1")])
    _, sent, result = requests[-1]["messages"]
    calls = [call["function"]["arguments"] for call in sent.get("tool_calls") or ()]
    print(f"{type(model).__name__}: invalid {invalid}, sent {calls}, result of {result['tool_call_id']}")
PY
seen=$(LITELLM_LOCAL_MODEL_COST_MAP=True venv/bin/python invalid.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="ChatOpenAI: invalid ['call_1'], sent ['{\"city\": \"Be'], result of call_1
ChatLiteLLM: invalid ['call_1'], sent [], result of call_1"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
