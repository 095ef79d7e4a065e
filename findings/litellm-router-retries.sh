#!/usr/bin/env bash
# litellm 1.110.2 with openai 3.57.0; requests are counted by a server on this machine.
#
# A server of OpenAI's API answers 500 with the header `x-should-retry: false`: the request has had an effect,
# and a repetition would have it again. Expected: no client repeats the request, as OpenAI's own client does not.
# Seen: `litellm.completion` sends it once, as OpenAI's client does, and `litellm.Router`, with no setting of
# retries, sends it three times, as without the header. With the status 424 it sends the request once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q litellm==1.110.2 openai==3.57.0 2>/dev/null

cat > retries.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import litellm
import openai

answer = {"status": 500, "headers": {}, "requests": 0}


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        answer["requests"] += 1
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps({"error": {"message": "no", "type": "server_error", "param": None, "code": None}}).encode()
        self.send_response(answer["status"])
        for name, value in {**answer["headers"], "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
place = {"model": "openai/m", "api_base": url, "api_key": "none"}
litellm.suppress_debug_info = True
router = litellm.Router(model_list=[{"model_name": "m", "litellm_params": place}])
own = openai.OpenAI(base_url=url, api_key="none").chat.completions
messages = [{"role": "user", "content": "Hi"}]
clients = {
    "OpenAI": lambda: own.create(model="m", messages=messages),
    "litellm.completion": lambda: litellm.completion(messages=messages, **place),
    "litellm.Router": lambda: router.completion("m", messages=messages),
}
for status, headers in ((500, {}), (500, {"x-should-retry": "false"}), (424, {})):
    for name, ask in clients.items():
        answer.update(status=status, headers=headers, requests=0)
        try:
            ask()
        except Exception:
            pass
        print(status, "with the header," if headers else "alone,", f"{name}: {answer['requests']}")
PY
seen=$(venv/bin/python retries.py 2>/dev/null)
echo "$seen"
expected="500 alone, OpenAI: 3
500 alone, litellm.completion: 3
500 alone, litellm.Router: 3
500 with the header, OpenAI: 1
500 with the header, litellm.completion: 1
500 with the header, litellm.Router: 3
424 alone, OpenAI: 1
424 alone, litellm.completion: 1
424 alone, litellm.Router: 1"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
