#!/usr/bin/env bash
# langchain-openai 1.7.4 with openai 3.57.0 and langchain-core 1.8.3.
#
# A model calls a tool, and its answer is sent back with the result, as in each loop. The arguments of a call
# are a text that the model has written, with or without spaces. Expected: they go back as the model has
# written them, so that the provider finds the whole conversation before in its cache. Seen: that is so for
# one form of messages alone, "responses/v1". With `output_version="v1"`, the form that is the same for all
# providers, the arguments are parsed and written again without spaces; with "v0", and for Chat Completions
# in each form, with spaces. So the request differs from the answer at the first call, and the tokens after
# it are not those of the cache; which model pays depends on its habit of writing JSON.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-openai==1.7.4 openai==3.57.0 langchain-core==1.8.3 2>/dev/null

cat > arguments.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI

WRITTEN = {"without spaces": '{"city":"Rome","days":2}', "with spaces": '{"city": "Rome", "days": 2}'}
arguments = ""  # of the next call
requests = []


def chat():
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"id": "1", "created": 1, "model": "gpt-5.5", "object": "chat.completion", "choices": [choice]}


def responses():
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": arguments,
            "status": "completed"}  # fmt: skip
    return {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5.5", "error": None, "tools": [],
            "parallel_tool_calls": True, "tool_choice": "auto", "status": "completed", "output": [call],
            "incomplete_details": None}  # fmt: skip


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(responses() if self.path.endswith("responses") else chat()).encode())

    def log_message(self, *arguments):
        pass


def weather(city: str, days: int) -> str:
    """Forecast for a city."""
    return "sun"


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
for name, options in (
    ("Responses, responses/v1", {"use_responses_api": True, "output_version": "responses/v1"}),
    ("Responses, v1", {"use_responses_api": True, "output_version": "v1"}),
    ("Responses, v0", {"use_responses_api": True, "output_version": "v0"}),
    ("Chat Completions, v1", {"output_version": "v1"}),
    ("Chat Completions, v0", {"output_version": "v0"}),
):
    url = f"http://127.0.0.1:{server.server_port}/v1"
    model = ChatOpenAI(model="gpt-5.5", base_url=url, api_key="none", **options).bind_tools([weather])
    fates = []
    for habit, arguments in WRITTEN.items():
        answer = model.invoke("Rome?")
        model.invoke([("user", "Rome?"), answer, ToolMessage("sun", tool_call_id="call_1")])
        request = requests[-1]
        if "input" in request:
            (call,) = (item for item in request["input"] if item["type"] == "function_call")
        else:
            (call,) = (call["function"] for message in request["messages"] for call in message.get("tool_calls", ()))
        fates.append(f"{habit}: {'kept' if call['arguments'] == arguments else call['arguments']}")
    print(f"{name}: written {', '.join(fates)}")
PY
seen=$(venv/bin/python arguments.py)
echo "$seen"
expected='Responses, responses/v1: written without spaces: kept, with spaces: kept
Responses, v1: written without spaces: kept, with spaces: {"city":"Rome","days":2}
Responses, v0: written without spaces: {"city": "Rome", "days": 2}, with spaces: kept
Chat Completions, v1: written without spaces: {"city": "Rome", "days": 2}, with spaces: kept
Chat Completions, v0: written without spaces: {"city": "Rome", "days": 2}, with spaces: kept'
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
