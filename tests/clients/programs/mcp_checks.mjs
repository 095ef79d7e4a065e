// What both of MCP's clients for TypeScript do with an agent.
import assert from "node:assert/strict";
import { until, url } from "./checks.mjs";

const PAY = 'call pay {"euros": 5}';
const text = (result) => result.content.map((block) => block.text).join("\n");

// `connect(url, answer)` opens a client whose user answers forms; `call(client, name, args, options)` calls a tool.
export function mcpChecks(connect, call) {
  const using = (body, answer) => async () => {
    const client = await connect(url, answer);
    try {
      return await body(client);
    } finally {
      await client.close();
    }
  };
  const runs = (thread) => fetch(`${url}/threads/${thread}/runs`).then((response) => response.json());

  return {
    list: using(async (client) => {
      const { tools } = await client.listTools();
      assert.deepEqual(tools.map((tool) => tool.name).sort(), ["desk", "ids", "outer", "page"]);
      assert.ok(tools[0].inputSchema.properties.message);
    }),

    "call and thread": using(async (client) => {
      const result = await call(client, "desk", { message: "Hi" });
      assert.equal(text(result), "You said: Hi");
      const { thread, status } = result.structuredContent;
      assert.equal(status, "done");
      const next = await call(client, "desk", { message: "More", thread });
      assert.equal(next.structuredContent.thread, thread);
      assert.equal((await runs(thread)).length, 2);
    }),

    progress: using(async (client) => {
      const seen = [];
      const onprogress = ({ message }) => void seen.push(message);
      const result = await call(client, "desk", { message: 'call look {"order": "A1"}' }, { onprogress });
      assert.equal(text(result), "Done: Order A1 is on its way.");
      assert.match(seen.join(), /look/);
    }),

    failure: using(async (client) => {
      const result = await call(client, "desk", { message: "fail" });
      assert.equal(result.isError, true);
      assert.match(text(result), /the model is out of order/);
    }),

    "refused decision or failed run names the thread": using(async (client) => {
      const result = await call(client, "desk", { message: "fail" });
      assert.ok(result.structuredContent?.thread);
    }),

    "wrong input": using(async (client) => {
      const result = await call(client, "desk", { words: "Hi" });
      assert.equal(result.isError, true);
      await assert.rejects(call(client, "nobody", { message: "Hi" }));
    }),

    "a review without forms waits in the inbox": using(async (client) => {
      const result = await call(client, "desk", { message: PAY });
      assert.equal(result.structuredContent.status, "waiting");
      assert.match(text(result), /\/inbox\//);
    }),

    "a form approves a review": using(async (client) => {
      const result = await call(client, "desk", { message: PAY });
      assert.equal(text(result), "Done: Paid 5.");
    }, async () => ({ action: "accept", content: { decision: "approve" } })),

    "a form answers a question": using(async (client) => {
      const result = await call(client, "desk", { message: 'call ask {"about": "tea"}' });
      assert.match(text(result), /They said/);
    }, async ({ params }) => ({ action: "accept", content: fill(params.requestedSchema) })),

    "a declined form leaves the review waiting": using(async (client) => {
      const result = await call(client, "desk", { message: PAY });
      assert.equal(result.structuredContent.status, "waiting");
    }, async () => ({ action: "decline" })),

    cancel: using(async (client) => {
      const { structuredContent } = await call(client, "desk", { message: "Hi" });
      const { thread } = structuredContent;
      const stop = new AbortController();
      const done = call(client, "desk", { message: "wait", thread }, { signal: stop.signal }).catch((error) => error);
      await until(async () => (await runs(thread)).some((each) => each.status === "running"));
      stop.abort();
      assert.ok((await done) instanceof Error);
      await until(async () => (await runs(thread)).some((each) => each.status === "interrupted"), "the run is cancelled");
    }),

    "ten calls at once": using(async (client) => {
      const results = await Promise.all([...Array(10).keys()].map((n) => call(client, "desk", { message: `No ${n}` })));
      assert.deepEqual(results.map(text), [...Array(10).keys()].map((n) => `You said: No ${n}`));
    }),
  };
}

// Each field of a form with its first choice, or "yes".
const fill = (schema) =>
  Object.fromEntries(Object.entries(schema.properties).map(([name, field]) => [name, field.enum?.[0] ?? "yes"]));
