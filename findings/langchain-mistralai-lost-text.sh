#!/usr/bin/env bash
# langchain-mistralai 1.1.6 with langchain-core 1.8.3.
#
# A model says "The first city is Rome." and calls a tool in the same message; with reasoning, the message
# has a thought as well. The API takes such messages back: `content` and `tool_calls` stand side by side.
# Expected: the next request has the message as the model has sent it. Seen: it has the calls alone, and the
# text and the thought are replaced by "". So in each loop the model does not see its own words, and begins
# again where it had already decided; a note that it made for itself beside a call is lost. Without a call
# the same text and thought are sent. In LangChain's message, the trace and the thread all is there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-mistralai==1.1.6 langchain-core==1.8.3 2>/dev/null

cat > text.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_core.messages import ToolMessage
from langchain_mistralai import ChatMistralAI

TEXT = "The first city is Rome."
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Rome, then Oslo."}]}
CALL = {"id": "abcdefgh1", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
requests, answers = [], []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        message = {"role": "assistant", **answers[-1]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *arguments):
        pass


def weather(city: str) -> str:
    """Weather of a city."""
    return "sun"


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
model = ChatMistralAI(model="magistral-medium-latest", endpoint=url, api_key="none").bind_tools([weather])
for name, message in (
    ("text", {"content": TEXT}),
    ("thought and text", {"content": [THOUGHT, {"type": "text", "text": TEXT}]}),
    ("text and call", {"content": TEXT, "tool_calls": [CALL]}),
    ("thought, text and call", {"content": [THOUGHT, {"type": "text", "text": TEXT}], "tool_calls": [CALL]}),
):
    answers.append(message)
    answer = model.invoke("Hi.")
    more = ToolMessage("sun", tool_call_id="abcdefgh1") if answer.tool_calls else ("user", "And now?")
    model.invoke([("user", "Hi."), answer, more])
    sent = requests[-1]["messages"][1]
    fate = "as it came" if sent["content"] == message["content"] else repr(sent["content"])
    print(f"{name}: content is sent {fate}, calls {len(sent.get('tool_calls', ()))}; LangChain has {answer.text!r}")
PY
seen=$(venv/bin/python text.py)
echo "$seen"
expected="text: content is sent as it came, calls 0; LangChain has 'The first city is Rome.'
thought and text: content is sent as it came, calls 0; LangChain has 'The first city is Rome.'
text and call: content is sent '', calls 1; LangChain has 'The first city is Rome.'
thought, text and call: content is sent '', calls 1; LangChain has 'The first city is Rome.'"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
