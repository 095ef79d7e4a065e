#!/usr/bin/env bash
# langchain-nvidia-ai-endpoints 1.5.0 with langchain-core 1.8.3.
#
# A model of NVIDIA calls a tool, and the next request has the answer with its call and the result, as each
# loop of an agent does. Expected: the call is sent back, whether the answer was streamed or not, since a
# result without its call is refused by servers with OpenAI's form. Seen: after `invoke` it is, after a stream
# the request has the text of the answer and the result, and no call. The package reads the calls of
# `additional_kwargs`, which `invoke` fills and a stream does not, and not the field `tool_calls` of the
# message. So a streamed agent fails in its second request, and so does each conversation that another
# package's model began.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-nvidia-ai-endpoints==1.5.0 langchain-core==1.8.3 2>/dev/null

cat > calls.py <<'PY'
import functools
import json
import operator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_core.messages import AIMessage, ToolMessage
from langchain_nvidia_ai_endpoints import ChatNVIDIA

MODEL = "meta/llama-3.3-70b-instruct"
FUNCTION = {"name": "look_up", "arguments": '{"city": "Bern"}'}
CALL = {"id": "call_1", "type": "function", "function": FUNCTION}
HEAD = {"id": "1", "created": 1, "model": MODEL}
USAGE = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
requests = []


class Provider(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer("application/json", json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        requests.append(request)
        message = {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            whole = {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}
            return self.answer("application/json", json.dumps(whole))
        deltas = [{"role": "assistant", "content": "I look."}, {"tool_calls": [{"index": 0, **CALL}]}]
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
        chunks = [{**HEAD, "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
        events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        return self.answer("text/event-stream", events + "data: [DONE]\n\n")

    def answer(self, kind, text):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
model = ChatNVIDIA(model=MODEL, base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="nvapi-none")
ANOTHER = AIMessage("I look.", tool_calls=[{"name": "look_up", "args": {"city": "Bern"}, "id": "call_1"}])
for name in ("invoke", "stream", "another model"):
    answer = ANOTHER
    if name != "another model":
        answer = model.invoke("Hi.") if name == "invoke" else functools.reduce(operator.add, model.stream("Hi."))
    model.invoke([("user", "Hi."), answer, ToolMessage("12 degrees", tool_call_id="call_1")])
    _, sent, result = requests[-1]["messages"]
    calls = [call["id"] for call in sent.get("tool_calls", ())]
    print(f"{name}: calls {[call['id'] for call in answer.tool_calls]}, sent {calls}, result of {result['tool_call_id']}")
PY
seen=$(venv/bin/python calls.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="invoke: calls ['call_1'], sent ['call_1'], result of call_1
stream: calls ['call_1'], sent [], result of call_1
another model: calls ['call_1'], sent [], result of call_1"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
