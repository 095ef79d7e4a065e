#!/usr/bin/env bash
# langchain-core 1.8.3.
#
# A tool returns a list of LangChain's standard content blocks: a text, and a picture, a document, a sound or
# a film, each as base64. Expected: the result has the blocks, so that a package can pass them on, or refuse
# them by their type. Seen: it has them for the picture and the document; with a sound or a film, the whole
# list becomes one text of JSON. So the base64 letters go to the model as words: a sound of a megabyte is
# more than a million characters, which overflow the window of each model, and no package or middleware can
# see that there was a sound. The types of the standard blocks include both ("audio", "video"); a
# `ToolMessage` that the tool makes itself keeps them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-core==1.8.3 2>/dev/null

cat > sounds.py <<'PY'
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

DATA = "UklGRiQAAABXQVZF" * 1000
MIME_TYPES = {"image": "image/png", "file": "application/pdf", "audio": "audio/wav", "video": "video/mp4"}


def blocks(kind: str) -> list:
    return [{"type": "text", "text": "See."}, {"type": kind, "base64": DATA, "mime_type": MIME_TYPES[kind]}]


@tool
def record(kind: str) -> list:
    """Return a recording."""
    return blocks(kind)


for kind in MIME_TYPES:
    result = record.invoke({"name": "record", "args": {"kind": kind}, "id": "1", "type": "tool_call"})
    own = ToolMessage(content_blocks=blocks(kind), tool_call_id="1")
    types = [block["type"] for block in result.content_blocks]
    print(f"{kind}: {types}, {len(result.text)} characters of text; made by the tool {[b['type'] for b in own.content]}")
PY
seen=$(venv/bin/python sounds.py)
echo "$seen"
expected="image: ['text', 'image'], 4 characters of text; made by the tool ['text', 'image']
file: ['text', 'file'], 4 characters of text; made by the tool ['text', 'file']
audio: ['text'], 16093 characters of text; made by the tool ['text', 'audio']
video: ['text'], 16093 characters of text; made by the tool ['text', 'video']"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
