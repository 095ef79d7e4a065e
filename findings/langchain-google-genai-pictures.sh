#!/usr/bin/env bash
# langchain-google-genai 4.4.3 with google-genai 3.6.1 and langchain-core 1.8.3.
#
# Two tools are called at once, and each returns a text and a picture: a map of Rome, a map of Oslo.
# Expected: the request says which picture belongs to which result: the API takes pictures inside of a
# `functionResponse`, in its `parts`. Seen: each picture is put outside, as a part of the user's own, in
# front of its result, which does not mention it. So the map of Oslo stands right behind the result for
# Rome, where a reader takes it for the map of Rome, and a model may take either for a picture of the user.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-google-genai==4.4.3 google-genai==3.6.1 langchain-core==1.8.3 2>/dev/null

cat > pictures.py <<'PY'
import base64
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


def result(city):
    """The text and the picture that a tool has returned for a city."""
    picture = base64.b64encode(f"map of {city}".encode()).decode()
    blocks = [{"type": "text", "text": city}, {"type": "image", "base64": picture, "mime_type": "image/png"}]
    return ToolMessage(blocks, tool_call_id=city, name="draw")


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
model = ChatGoogleGenerativeAI(model="gemini-3.5-pro", base_url=url, api_key="none")
cities = ["Rome", "Oslo"]
calls = [{"name": "draw", "args": {"city": city}, "id": city} for city in cities]
model.invoke([("user", "Maps, please."), AIMessage("", tool_calls=calls), *map(result, cities)])
for content in requests[-1]["contents"][2:]:
    for part in content["parts"]:
        if "inlineData" in part:
            print("picture beside the results:", base64.b64decode(part["inlineData"]["data"]).decode())
        else:
            response = part["functionResponse"]
            print("result:", json.dumps(response["response"]), "pictures inside", len(response.get("parts", ())))
PY
seen=$(venv/bin/python pictures.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected='picture beside the results: map of Rome
result: {"output": [{"type": "text", "text": "Rome"}]} pictures inside 0
picture beside the results: map of Oslo
result: {"output": [{"type": "text", "text": "Oslo"}]} pictures inside 0'
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
