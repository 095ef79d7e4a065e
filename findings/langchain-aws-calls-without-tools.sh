#!/usr/bin/env bash
# langchain-aws 1.9.1 with boto3 1.44.8 and langchain-core 1.8.3.
#
# A model of Bedrock has thought, called a tool and got a chart back. The next request has no tools: the
# application wants the answer now, or a step without tools goes on with the conversation. Expected: the
# request is refused, or the model reads the same conversation. Seen: the package rewrites it, since the API
# wants tools beside such blocks. The call becomes a text of the model, "[Called chart with parameters: ...]",
# the result a text of the user, "[Tool output: ...]", and the picture of the result is left out without a
# warning; the signed thought stays, in front of words that the model has never written. So the model answers
# about a chart that it no longer sees.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-aws==1.9.1 boto3==1.44.8 langchain-core==1.8.3 2>/dev/null

cat > chart.py <<'PY'
import base64
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_aws import ChatBedrockConverse
from langchain_core.messages import AIMessage, ToolMessage

requests = []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        message = {"role": "assistant", "content": [{"text": "It rises."}]}
        usage = {"inputTokens": 9, "outputTokens": 9, "totalTokens": 18}
        answer = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *arguments):
        pass


def chart(year: int) -> list:
    """Chart of a year."""
    return []


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
model = ChatBedrockConverse(
    model="anthropic.claude-opus-5-5-v1:0",
    endpoint_url=f"http://127.0.0.1:{server.server_port}",
    region_name="us-east-1",
    aws_access_key_id="none",
    aws_secret_access_key="none",
)
thought = {"type": "reasoning_content", "reasoning_content": {"text": "I need a chart.", "signature": "c2ln"}}
call = {"name": "chart", "args": {"year": 2026}, "id": "call_1"}
use = {"type": "tool_use", "id": "call_1", "name": "chart", "input": {"year": 2026}}
picture = {"type": "image", "base64": base64.b64encode(b"picture").decode(), "mime_type": "image/png"}
messages = [
    ("user", "How was the year?"),
    AIMessage([thought, use], tool_calls=[call]),
    ToolMessage([{"type": "text", "text": "The chart:"}, picture], tool_call_id="call_1"),
]
for name, sender in (("with tools", model.bind_tools([chart])), ("without tools", model)):
    sender.invoke(messages)
    print(f"{name}:")
    for message in requests[-1]["messages"][1:]:
        for block in message["content"]:
            for kind, value in block.items():
                if kind == "toolResult":
                    value = [kind for part in value["content"] for kind in part]
                print(f"  {message['role']}: {kind} {json.dumps(value)}")
PY
seen=$(venv/bin/python chart.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected='with tools:
  assistant: reasoningContent {"reasoningText": {"text": "I need a chart.", "signature": "c2ln"}}
  assistant: toolUse {"toolUseId": "call_1", "input": {"year": 2026}, "name": "chart"}
  user: toolResult ["text", "image"]
without tools:
  assistant: reasoningContent {"reasoningText": {"text": "I need a chart.", "signature": "c2ln"}}
  assistant: text "[Called chart with parameters: {\"year\": 2026}]"
  user: text "[Tool output: The chart:]"'
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
