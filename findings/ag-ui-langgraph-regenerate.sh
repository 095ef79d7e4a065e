#!/usr/bin/env bash
# @ag-ui/langgraph 0.0.43 with @ag-ui/client 1.0.0 on Node.js 20; langgraph-api 0.16.7 (`langgraph dev`), langgraph 1.2.24.
#
# A page asks for another answer, as CopilotKit does: it takes the last answer out of the agent's messages, and runs
# the agent. A page edits a message: it puts another message in its place, and runs the agent.
# Expected: the agent sees the conversation that the page has sent, and the page has this conversation at the end.
# Seen: for the other answer, the agent sees the answer that was taken out as its last message, and the thread has
# both answers. The edited message is added to the thread behind the message that it replaces; the page has both.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q 'langgraph-cli[inmem]==0.4.40' langgraph-api==0.16.7 langgraph==1.2.24 2>/dev/null
npm install --silent --no-audit --no-fund @ag-ui/langgraph@0.0.43 @ag-ui/client@1.0.0 >/dev/null 2>&1

cat > desk.py <<'PY'
from langgraph.graph import START, MessagesState, StateGraph


def answer(state):
    seen = [f"{message.type} {message.text}" for message in state["messages"]]
    return {"messages": [("ai", f"Answer to {seen[-1]}")]}


desk = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
PY
echo '{"dependencies": ["."], "graphs": {"desk": "./desk.py:desk"}}' > langgraph.json
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
venv/bin/langgraph dev --no-browser --no-reload --port "$port" > log 2>&1 &
server=$!
for _ in $(seq 300); do curl -sf "http://127.0.0.1:$port/ok" >/dev/null && break; sleep 0.2; done

cat > again.mjs <<'JS'
import { LangGraphAgent } from "@ag-ui/langgraph";

const deploymentUrl = process.argv[2];
const user = (content) => ({ id: crypto.randomUUID(), role: "user", content });
const show = (messages) => messages.map((each) => `${each.type ?? each.role}: ${each.content}`).join(" | ");
async function talk() {
  const agent = new LangGraphAgent({ deploymentUrl, graphId: "desk", threadId: crypto.randomUUID() });
  for (const text of ["One", "Two"]) {
    agent.addMessage(user(text));
    await agent.runAgent();
  }
  return agent;
}
async function report(title, agent) {
  const { values } = await (await fetch(`${deploymentUrl}/threads/${agent.threadId}/state`)).json();
  console.log(`${title}, thread: ${show(values.messages)}`);
  console.log(`${title}, page:   ${show(agent.messages)}`);
}

const other = await talk();
other.setMessages(other.messages.slice(0, 3));
await other.runAgent();
await report("another answer", other);

const edited = await talk();
edited.setMessages([...edited.messages.slice(0, 2), user("Edited")]);
await edited.runAgent();
await report("an edit", edited);
JS
seen=$(node again.mjs "http://127.0.0.1:$port")
echo "$seen"
expected="another answer, thread: human: One | ai: Answer to human One | human: Two | ai: Answer to human Two | ai: Answer to ai Answer to human Two
another answer, page:   user: One | assistant: Answer to human One | user: Two | assistant: Answer to human Two | assistant: Answer to ai Answer to human Two
an edit, thread: human: One | ai: Answer to human One | human: Two | ai: Answer to human Two | human: Edited | ai: Answer to human Edited
an edit, page:   user: One | assistant: Answer to human One | user: Edited | user: Two | assistant: Answer to human Two | assistant: Answer to human Edited"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
