// A frontend action in CopilotKit's own core: node copilotkit.mjs URL
import assert from "node:assert/strict";
import { HttpAgent } from "@ag-ui/client";

// Without a window, CopilotKit takes a process for a server, in which it runs nothing.
globalThis.window = globalThis;
const { CopilotKitCore } = await import("@copilotkit/core");

const [url] = process.argv.slice(2);
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
};
await say("title");
assert.deepEqual(calls, [{}], "CopilotKit runs the action once");
const shown = page.messages.map(({ role, content }) => [role, content]);
assert.deepEqual(shown, [
  ["user", "title"],
  ["assistant", undefined],
  ["tool", "Orders"],
  ["assistant", "Done: title=Orders"],
]);
await say("pay title");
assert.equal(calls.length, 2);
assert.equal(page.messages.at(-1).content, "Done: pay=Paid 5., title=Orders");
await say("Hello");
assert.equal(page.messages.at(-1).content, "You said: Hello");
process.exit(0);
