#!/usr/bin/env bash
# @a2a-js/sdk 1.3.0 on Node.js 20, with a server of a few lines.
#
# A client lists the tasks of a context, and names no state. Expected: the request has no status, or the state
# TASK_STATE_UNSPECIFIED, which A2A 1.0 has for it. Seen: `params` has the status "UNRECOGNIZED", a word of the
# generated code and of no state, so a server that checks the status refuses each list without a state.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @a2a-js/sdk@1.3.0 >/dev/null 2>&1

cat > list.mjs <<'JS'
import http from "node:http";
import { ClientFactory } from "@a2a-js/sdk/client";

const server = http.createServer((request, response) => {
  let body = "";
  request.on("data", (data) => (body += data));
  request.on("end", () => {
    const url = `http://127.0.0.1:${server.address().port}/`;
    const card = {
      name: "desk", description: "A desk.", version: "1", capabilities: {}, skills: [],
      supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
      defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"],
    };
    const call = body && JSON.parse(body);
    if (call) console.log(call.method, JSON.stringify(call.params));
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(call ? { jsonrpc: "2.0", id: call.id, result: { tasks: [] } } : card));
  });
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const client = await new ClientFactory().createFromUrl(`http://127.0.0.1:${server.address().port}/`);
await client.listTasks({ contextId: "c" });
server.close();
JS
seen=$(node list.mjs)
echo "$seen"
expected='ListTasks {"contextId":"c","status":"UNRECOGNIZED"}'
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
