#!/usr/bin/env bash
# langchain-deepseek 1.1.1 with langchain-openai 1.7.4, langchain-litellm 0.11.2 and langchain-core 1.8.3.
#
# DeepSeek thinks and calls a tool. Its documentation of thinking with tools: within the loop,
# `reasoning_content` of the answer must be sent back with the call, or the API refuses the request.
# Expected: langchain-deepseek sends it, since it has it, in `additional_kwargs["reasoning_content"]`. Seen:
# no request has it, neither after `invoke` nor after a stream, so the second request of each loop breaks
# the rule. The same message of the same model sent by langchain-litellm has it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-deepseek==1.1.1 langchain-openai==1.7.4 langchain-litellm==0.11.2 \
    langchain-core==1.8.3 2>/dev/null

cat > reasoning.py <<'PY'
import functools
import json
import operator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_core.messages import ToolMessage
from langchain_deepseek import ChatDeepSeek
from langchain_litellm import ChatLiteLLM

HEAD = {"id": "1", "created": 1, "model": "deepseek-reasoner"}
USAGE = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
MESSAGE = {"role": "assistant", "content": "", "reasoning_content": "I need the weather.", "tool_calls": [CALL]}
requests = []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        requests.append(request)
        streams = request.get("stream")
        choice = {"index": 0, "delta" if streams else "message": MESSAGE, "finish_reason": "tool_calls"}
        kind = "chat.completion.chunk" if streams else "chat.completion"
        answer = json.dumps({**HEAD, "object": kind, "choices": [choice], "usage": USAGE})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.end_headers()
        self.wfile.write((f"data: {answer}\n\ndata: [DONE]\n\n" if streams else answer).encode())

    def log_message(self, *arguments):
        pass


def weather(city: str) -> str:
    """Weather of a city."""
    return "sun"


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
deepseek = ChatDeepSeek(model="deepseek-reasoner", api_base=url, api_key="none")
litellm = ChatLiteLLM(model="deepseek/deepseek-reasoner", api_base=url, api_key="none")
for model in (deepseek, litellm):
    bound = model.bind_tools([weather])
    for way in ("invoke", "stream"):
        answer = bound.invoke("Rome?") if way == "invoke" else functools.reduce(operator.add, bound.stream("Rome?"))
        bound.invoke([("user", "Rome?"), answer, ToolMessage("sun", tool_call_id="call_1")])
        thought = answer.additional_kwargs["reasoning_content"]
        sent = requests[-1]["messages"][1].get("reasoning_content")
        print(f"{type(model).__name__}, {way}: thought {thought!r}, sent back {sent!r}")
PY
seen=$(LITELLM_LOCAL_MODEL_COST_MAP=True venv/bin/python reasoning.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="ChatDeepSeek, invoke: thought 'I need the weather.', sent back None
ChatDeepSeek, stream: thought 'I need the weather.', sent back None
ChatLiteLLM, invoke: thought 'I need the weather.', sent back 'I need the weather.'
ChatLiteLLM, stream: thought 'I need the weather.', sent back 'I need the weather.'"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
