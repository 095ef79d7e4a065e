// The endpoint of CopilotKit's runtime, with an agent over LangGraph's API and one over AG-UI.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { CopilotRuntime, ExperimentalEmptyAdapter, copilotRuntimeNodeHttpEndpoint } from "@copilotkit/runtime";
import { LangGraphAgent, LangGraphHttpAgent } from "@copilotkit/runtime/langgraph";
import { run, until, url } from "./checks.mjs";

// Without a window, CopilotKit takes a process for a server, in which it runs nothing.
globalThis.window = globalThis;
const { CopilotKitCore } = await import("@copilotkit/core");

const runtime = new CopilotRuntime({
  agents: {
    langgraph: new LangGraphAgent({ deploymentUrl: url, graphId: "desk" }),
    agui: new LangGraphHttpAgent({ url: `${url}/ag-ui/desk` }),
  },
});
const handler = copilotRuntimeNodeHttpEndpoint({
  endpoint: "/copilotkit", runtime, serviceAdapter: new ExperimentalEmptyAdapter(),
});
const server = createServer((request, response) => handler(request, response));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const endpoint = `http://127.0.0.1:${server.address().port}/copilotkit`;

// The page's side: CopilotKit's core, which reads the agents from the runtime.
async function open(name) {
  const core = new CopilotKitCore({ runtimeUrl: endpoint, runtimeTransport: "single" });
  const agent = await until(() => core.getAgent(name), "the runtime has the agent");
  agent.threadId = crypto.randomUUID();
  return { core, agent };
}

async function say({ core, agent }, content, options) {
  const seen = [];
  const { unsubscribe } = agent.subscribe({ onEvent: ({ event }) => void seen.push(event.type) });
  if (content) agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  await (options ? agent.runAgent(options) : core.runAgent({ agent })).catch(() => {});
  unsubscribe();
  return seen;
}
const texts = ({ agent }) => agent.messages.filter((each) => each.role !== "user").map((each) => each.content ?? "");
const count = (seen, type) => seen.filter((each) => each === type).length;

const checks = (name) => ({
  async chat() {
    const agent = await open(name);
    await say(agent, "Hi");
    await say(agent, "More");
    assert.deepEqual(texts(agent), ["You said: Hi", "You said: More"]);
  },

  async "tool call shown once"() {
    const agent = await open(name);
    const seen = await say(agent, 'call look {"order": "A1"}');
    assert.deepEqual([count(seen, "TOOL_CALL_START"), count(seen, "TOOL_CALL_RESULT")], [1, 1]);
    assert.ok(texts(agent).includes("Done: Order A1 is on its way."));
  },

  async "review answered"() {
    const agent = await open(name);
    await say(agent, 'call pay {"euros": 5}');
    const [interrupt] = agent.agent.pendingInterrupts;
    const decided = { decisions: [{ type: "approve" }] };
    await say(agent, null, name === "agui"
      ? { resume: [{ interruptId: interrupt.id, status: "resolved", payload: { approved: true } }] }
      : { forwardedProps: { command: { resume: decided } } });
    assert.ok(texts(agent).includes("Done: Paid 5."), texts(agent).join());
  },

  async failure() {
    const seen = await say(await open(name), "fail");
    assert.ok(seen.includes("RUN_ERROR"), seen.join());
  },
});

const named = (name) => Object.entries(checks(name)).map(([check, body]) => [`${check} (${name})`, body]);
await run(Object.fromEntries([...named("langgraph"), ...named("agui")]));
