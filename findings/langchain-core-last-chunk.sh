#!/usr/bin/env bash
# langchain-core 1.8.3.
#
# A chunk of a streamed answer carries a piece of the arguments of a tool call, and is marked as the last
# with `chunk_position="last"`. Expected: `content_blocks` of the chunk has its piece, as for each other
# chunk; the mark says where the message ends, and nothing about its contents. Seen: `content_blocks` is
# empty, though `tool_call_chunks` has the piece. A reader that puts a call together from the blocks of
# the chunks gets arguments that are cut off. The sum of the chunks is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-core==1.8.3 2>/dev/null

cat > chunks.py <<'PY'
from langchain_core.messages import AIMessageChunk


def piece(arguments, position=None, **first):
    call = {"name": None, "id": None, **first, "args": arguments, "index": 0}
    return AIMessageChunk("", id="m", tool_call_chunks=[call], chunk_position=position)


first = piece('{"euros"', name="pay", id="call-1")
for position in (None, "last"):
    second = piece(": 5}", position)
    from_blocks = "".join(b["args"] for chunk in (first, second) for b in chunk.content_blocks)
    print(f"{position}: pieces {len(second.tool_call_chunks)}, blocks {len(second.content_blocks)},"
          f" from the blocks {from_blocks}, from the sum {(first + second).tool_calls[0]['args']}")
PY
seen=$(venv/bin/python chunks.py)
echo "$seen"
expected="None: pieces 1, blocks 1, from the blocks {\"euros\": 5}, from the sum {'euros': 5}
last: pieces 1, blocks 0, from the blocks {\"euros\", from the sum {'euros': 5}"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
