#!/usr/bin/env bash
# langchain-core 1.8.3.
#
# `count_tokens_approximately` decides when a conversation is summarized or trimmed (`trim_messages` with
# "approximate"; LangChain's summary of conversations). Messages as the providers' packages make them, each
# with one field of 40,000 characters. Expected: a picture counts its 85 tokens in each documented form,
# and a thought in each of the ways in which packages keep it, or in none. Seen: a picture of the form
# that the Responses API documents, `input_image`, counts 10,000, since its base64 counts as text; so do
# sounds and PDFs. The signature of an empty thought and an encrypted thought count 10,000 tokens, though no
# reader reads them as text; and a thought that a package keeps in `additional_kwargs`, and sends back from
# there, counts nothing. So one threshold means a tenth of itself with one provider, and no bound with another.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-core==1.8.3 2>/dev/null

cat > counts.py <<'PY'
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

DATA = "A" * 40_000
URL = f"data:image/png;base64,{DATA}"
SOURCE = {"type": "base64", "data": DATA}
BLOCKS = {
    "picture, LangChain": {"type": "image", "base64": DATA, "mime_type": "image/png"},
    "picture, Anthropic": {"type": "image", "source": {**SOURCE, "media_type": "image/png"}},
    "picture, Chat Completions": {"type": "image_url", "image_url": {"url": URL}},
    "picture, Responses": {"type": "input_image", "image_url": URL},
    "sound, LangChain": {"type": "audio", "base64": DATA, "mime_type": "audio/wav"},
    "PDF, LangChain": {"type": "file", "base64": DATA, "mime_type": "application/pdf"},
    "PDF, Anthropic": {"type": "document", "source": {**SOURCE, "media_type": "application/pdf"}},
    "signature, Anthropic": {"type": "thinking", "thinking": "", "signature": DATA},
    "encrypted thought, Responses": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": DATA},
}
MESSAGES = {
    name: (AIMessage if "signature" in name or "thought" in name else HumanMessage)([block])
    for name, block in BLOCKS.items()
}
MESSAGES["thought, Fireworks and LiteLLM"] = AIMessage("", additional_kwargs={"reasoning_content": DATA})
MESSAGES["thought, OpenRouter"] = AIMessage("", additional_kwargs={"reasoning_details": [{"text": DATA}]})
for name, message in MESSAGES.items():
    tokens = count_tokens_approximately([message])
    print(f"{name}: {'about 10,000' if 9_900 < tokens < 10_100 else 'less than 100' if tokens < 100 else tokens}")
PY
seen=$(venv/bin/python counts.py)
echo "$seen"
expected="picture, LangChain: less than 100
picture, Anthropic: less than 100
picture, Chat Completions: less than 100
picture, Responses: about 10,000
sound, LangChain: about 10,000
PDF, LangChain: about 10,000
PDF, Anthropic: about 10,000
signature, Anthropic: about 10,000
encrypted thought, Responses: about 10,000
thought, Fireworks and LiteLLM: less than 100
thought, OpenRouter: less than 100"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
