// A frontend action in CopilotKit's own core.
import assert from "node:assert/strict";
import { HttpAgent } from "@ag-ui/client";
import { run, url } from "./checks.mjs";

// Without a window, CopilotKit takes a process for a server, in which it runs nothing.
globalThis.window = globalThis;
const { CopilotKitCore } = await import("@copilotkit/core");

const page = new HttpAgent({ url: `${url}/ag-ui/page`, agentId: "page" });
const core = new CopilotKitCore({ agents__unsafe_dev_only: { page } });
const calls = [];
core.addTool({
  name: "title",
  description: "The title of the page.",
  handler: async (args) => {
    calls.push(args);
    return "Orders";
  },
});
core.subscribe({ onError: ({ error }) => assert.fail(error) });

const say = async (content) => {
  page.addMessage({ id: crypto.randomUUID(), role: "user", content });
  await core.runAgent({ agent: page });
  return page.messages.map(({ role, content: text }) => [role, text]);
};

await run({
  async "frontend action"() {
    assert.deepEqual(await say("call title {}"), [
      ["user", "call title {}"],
      ["assistant", undefined],
      ["tool", "Orders"],
      ["assistant", "Done: Orders"],
    ]);
    assert.deepEqual(calls, [{}], "CopilotKit runs the action once");
  },

  async "frontend action and a tool of the agent"() {
    const messages = await say('call look {"order": "A1"}\ncall title {}');
    assert.equal(calls.length, 2);
    assert.deepEqual(messages.at(-1), ["assistant", "Done: Orders"]);
  },

  async chat() {
    assert.deepEqual((await say("Hello")).at(-1), ["assistant", "You said: Hello"]);
  },
});
