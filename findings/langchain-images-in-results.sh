#!/usr/bin/env bash
# langchain-mistralai 1.1.6, langchain-groq 1.1.3 and langchain-deepseek 1.1.1 (with langchain-openai 1.7.4);
# langchain-core 1.8.3.
#
# A tool returns a picture as LangChain's standard block, `{"type": "image", "base64": ..., "mime_type":
# ...}`; a user sends the same block. Expected: each package translates the block into the form of its
# provider, wherever it stands, or refuses it. Seen: all three translate it in the user's message. In a
# result, Mistral's and Groq's package send LangChain's own block, a type that neither API has; and
# DeepSeek's makes one text of the whole list, so the picture goes out as its base64 letters: the model
# cannot see it, and a picture of 100 kB costs tens of thousands of tokens of text.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-mistralai==1.1.6 langchain-groq==1.1.3 langchain-deepseek==1.1.1 \
    langchain-openai==1.7.4 langchain-core==1.8.3 2>/dev/null

cat > images.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_deepseek import ChatDeepSeek
from langchain_groq import ChatGroq
from langchain_mistralai import ChatMistralAI

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
requests = []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        choice = {"index": 0, "message": {"role": "assistant", "content": "I see."}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *arguments):
        pass


def form(content):
    """The form in which a picture is sent."""
    if isinstance(content, str):
        return "letters in a text" if PICTURE in content else "missing"
    return next((block["type"] for block in content if PICTURE in json.dumps(block)), "missing")


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
blocks = [{"type": "text", "text": "A map."}, {"type": "image", "base64": PICTURE, "mime_type": "image/png"}]
call = {"name": "draw", "args": {}, "id": "abcdefgh1"}
for model in (
    ChatMistralAI(model="mistral-large-latest", endpoint=f"{url}/v1", api_key="none"),
    ChatGroq(model="meta-llama/llama-4-maverick-17b-128e-instruct", base_url=url, api_key="none"),
    ChatDeepSeek(model="deepseek-chat", api_base=f"{url}/v1", api_key="none"),
):
    model.invoke([HumanMessage(blocks), AIMessage("", tool_calls=[call]), ToolMessage(blocks, tool_call_id="abcdefgh1")])
    user, _, result = requests[-1]["messages"]
    print(f"{type(model).__name__}: the user's picture {form(user['content'])}, the tool's {form(result['content'])}")
PY
seen=$(venv/bin/python images.py)
echo "$seen"
expected="ChatMistralAI: the user's picture image_url, the tool's image
ChatGroq: the user's picture image_url, the tool's image
ChatDeepSeek: the user's picture image_url, the tool's letters in a text"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
