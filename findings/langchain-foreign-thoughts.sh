#!/usr/bin/env bash
# langchain-anthropic 1.7.10, langchain-mistralai 1.1.6 and langchain-openai 1.7.4; langchain-core 1.8.3.
#
# A conversation changes its provider, as a fallback does: an answer with a thought and a text that one
# package has made is sent by another; `response_metadata["model_provider"]` names the maker. Expected: a
# thought that the other provider cannot read is left out, or becomes text: the packages of Google, AWS and
# Fireworks do so, and OpenAI's for Chat Completions. Seen: Anthropic's package leaves out OpenAI's thoughts
# alone, and sends Gemini's without a signature, Mistral's with a list in the place of its text, and a block
# of Bedrock's that the API does not have. Mistral's sends everybody's. And OpenAI's makes a reasoning item
# without an id, with a field `signature`, of a thought of Claude in LangChain's own form ("v1"). The APIs
# document none of these, so a fallback that should save a conversation is refused.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-anthropic==1.7.10 anthropic==0.125.0 langchain-mistralai==1.1.6 \
    langchain-openai==1.7.4 openai==3.57.0 langchain-core==1.8.3 2>/dev/null

cat > crossing.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage
from langchain_mistralai import ChatMistralAI
from langchain_openai import ChatOpenAI

requests = []
USAGE = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
CHAT = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE], "usage": USAGE}
ANSWERS = {
    "messages": {"id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                 "content": [{"type": "text", "text": "Hi."}], "usage": {"input_tokens": 9, "output_tokens": 9}},
    "responses": {"id": "1", "object": "response", "created_at": 1, "model": "m", "error": None, "tools": [],
                  "parallel_tool_calls": True, "tool_choice": "auto", "status": "completed", "output": []},
    "completions": CHAT,
}  # fmt: skip


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(ANSWERS[self.path.split("/")[-1]]).encode())

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
MODELS = {
    "Chat Completions": ChatOpenAI(model="gpt-5.5", base_url=f"{url}/v1", api_key="none"),
    "Responses": ChatOpenAI(model="gpt-5.5", base_url=f"{url}/v1", api_key="none", use_responses_api=True),
    "Anthropic": ChatAnthropic(model="claude-opus-5-5", base_url=url, api_key="none"),
    "Mistral": ChatMistralAI(model="magistral-medium-latest", endpoint=f"{url}/v1", api_key="none"),
}
SUMMARY = {"type": "summary_text", "text": "A greeting."}
REASONING = {"text": "A greeting.", "signature": "c2ln"}
THOUGHTS = {
    "openai": {"type": "reasoning", "id": "rs_1", "summary": [SUMMARY], "encrypted_content": "c2ln"},
    "anthropic": {"type": "thinking", "thinking": "A greeting.", "signature": "c2ln"},
    "anthropic v1": {"type": "reasoning", "reasoning": "A greeting.", "extras": {"signature": "c2ln"}},
    "google_genai": {"type": "thinking", "thinking": "A greeting."},
    "mistralai": {"type": "thinking", "thinking": [{"type": "text", "text": "A greeting."}]},
    "bedrock_converse": {"type": "reasoning_content", "reasoning_content": REASONING},
}


def thoughts(request):
    """Sent items and blocks that are not texts, with the names of their fields."""
    if "input" in request:
        return [item for item in request["input"] if item["type"] != "message"]
    content = request["messages"][1]["content"]
    return [] if isinstance(content, str) else [block for block in content if block["type"] != "text"]


for target, model in MODELS.items():
    print(f"{target}:")
    for maker, thought in THOUGHTS.items():
        provider, _, version = maker.partition(" ")
        metadata = {"model_provider": provider} | ({"output_version": version} if version else {})
        answer = AIMessage([thought, {"type": "text", "text": "Hello."}], response_metadata=metadata)
        model.invoke([("user", "Hi."), answer, ("user", "And now?")])
        sent = thoughts(requests[-1])
        print(f"  {maker}:", " ".join(f"{block.pop('type')} with {', '.join(sorted(block))}" for block in sent) or "left out")
PY
seen=$(venv/bin/python crossing.py)
echo "$seen"
expected="Chat Completions:
  openai: left out
  anthropic: left out
  anthropic v1: left out
  google_genai: left out
  mistralai: left out
  bedrock_converse: left out
Responses:
  openai: reasoning with encrypted_content, id, summary
  anthropic: left out
  anthropic v1: reasoning with signature, summary
  google_genai: left out
  mistralai: left out
  bedrock_converse: left out
Anthropic:
  openai: left out
  anthropic: thinking with signature, thinking
  anthropic v1: thinking with signature, thinking
  google_genai: thinking with thinking
  mistralai: thinking with thinking
  bedrock_converse: reasoning_content with reasoning_content
Mistral:
  openai: reasoning with encrypted_content, id, summary
  anthropic: thinking with signature, thinking
  anthropic v1: reasoning with extras, reasoning
  google_genai: thinking with thinking
  mistralai: thinking with thinking
  bedrock_converse: reasoning_content with reasoning_content"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
