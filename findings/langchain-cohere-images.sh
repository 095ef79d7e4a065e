#!/usr/bin/env bash
# langchain-cohere 0.6.0 with cohere 5.21.1 and langchain-core 1.8.3.
#
# A user asks about a picture, in LangChain's standard block (`{"type": "image", "base64": ..., "mime_type":
# ...}`), which each provider's package translates. Expected: the request has the picture, as it has for the
# older block `image_url` with the same picture, or the call is refused. Seen: the picture is left out
# without an error or a warning; the model gets the question alone and answers about a picture that it has
# not seen. A standard block with a `url` is left out as well.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-cohere==0.6.0 cohere==5.21.1 langchain-core==1.8.3 2>/dev/null

cat > picture.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_cohere import ChatCohere
from langchain_core.messages import HumanMessage

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
requests = []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        message = {"role": "assistant", "content": [{"type": "text", "text": "A map."}]}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"id": "1", "finish_reason": "COMPLETE", "message": message}).encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
model = ChatCohere(
    model="command-a-vision-07-2025", base_url=f"http://127.0.0.1:{server.server_port}", cohere_api_key="none"
)
for name, block in (
    ("image_url", {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}),
    ("image, base64", {"type": "image", "base64": PICTURE, "mime_type": "image/png"}),
    ("image, url", {"type": "image", "url": "https://example.com/map.png"}),
):
    answer = model.invoke([HumanMessage([{"type": "text", "text": "Where is it?"}, block])])
    print(f"{name}: sent {[block['type'] for block in requests[-1]['messages'][0]['content']]}")
PY
seen=$(venv/bin/python picture.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="image_url: sent ['text', 'image_url']
image, base64: sent ['text']
image, url: sent ['text']"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
