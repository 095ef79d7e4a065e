#!/usr/bin/env bash
# langchain-cohere 0.6.0 with cohere 5.21.1 and langchain-core 1.8.3.
#
# A model of Cohere calls two tools at once; the answer is streamed, with the documented events: for each call
# a start with id and name, pieces of its arguments, an end. Expected: the chunks, added, have the two calls
# that `invoke` has. Seen: they have six: one of each tool without arguments under an id of the package's
# own, one without a name for the pieces of each, and at last the two of the model. An agent that streams
# runs each tool once more without arguments, which does something else where these are optional, and the
# next request has all six calls, so results are due for calls that the model has never made.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain-cohere==0.6.0 cohere==5.21.1 langchain-core==1.8.3 2>/dev/null

cat > calls.py <<'PY'
import functools
import json
import operator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from langchain_cohere import ChatCohere


def call(id, name, arguments):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


CALLS = [call("call_1", "sales", '{"year": 2026}'), call("call_2", "stock", '{"of": "pens"}')]
USAGE = {"tokens": {"input_tokens": 9, "output_tokens": 9}, "billed_units": {"input_tokens": 9, "output_tokens": 9}}
MESSAGE = {"role": "assistant", "tool_plan": "I look.", "tool_calls": CALLS}
WHOLE = {"id": "1", "finish_reason": "TOOL_CALL", "message": MESSAGE, "usage": USAGE}


def events():
    def event(kind, index, **message):
        return {"type": kind, "index": index, "delta": {"message": message}}

    empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield {"type": "message-start", "id": "1", "delta": {"message": empty}}
    yield {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "I look."}}}
    for index, whole in enumerate(CALLS):
        arguments = whole["function"]["arguments"]
        start = call(whole["id"], whole["function"]["name"], "")
        yield event("tool-call-start", index, tool_calls=start)
        for piece in (arguments[:5], arguments[5:]):
            yield event("tool-call-delta", index, tool_calls={"function": {"arguments": piece}})
        yield {"type": "tool-call-end", "index": index}
    yield {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": USAGE}}


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        streams = json.loads(self.rfile.read(int(self.headers["content-length"]))).get("stream")
        stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events())
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.end_headers()
        self.wfile.write((stream if streams else json.dumps(WHOLE)).encode())

    def log_message(self, *arguments):
        pass


def sales(year: int = 0) -> str:
    """Sales of a year."""
    return ""


def stock(of: str = "all") -> str:
    """Stock of an article."""
    return ""


server = HTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
model = ChatCohere(model="command-a-03-2025", base_url=url, cohere_api_key="none").bind_tools([sales, stock])
for name in ("invoke", "stream"):
    answer = model.invoke("Well?") if name == "invoke" else functools.reduce(operator.add, model.stream("Well?"))
    print(f"{name}:")
    for made in answer.tool_calls:
        print(f"  {made['name'] or 'no name'} {made['args']}, id {made['id'] if len(made['id']) < 9 else 'of the package'}")
PY
seen=$(venv/bin/python calls.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="invoke:
  sales {'year': 2026}, id call_1
  stock {'of': 'pens'}, id call_2
stream:
  sales {}, id of the package
  no name {}, id of the package
  stock {}, id of the package
  no name {}, id of the package
  sales {'year': 2026}, id call_1
  stock {'of': 'pens'}, id call_2"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
