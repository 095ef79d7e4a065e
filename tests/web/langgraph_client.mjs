// What front ends do with LangGraph's client for JavaScript: node langgraph_client.mjs URL CASE
import assert from "node:assert/strict";
import { Client } from "@langchain/langgraph-sdk";

const [url, name] = process.argv.slice(2);
const client = new Client({ apiUrl: url, apiKey: null, callerOptions: { maxRetries: 0 } });

const say = (content) => ({ messages: [{ role: "user", content }] });
const approve = { resume: { decisions: [{ type: "approve" }] } };
const texts = (values) => values.messages.map((message) => message.content);
const kinds = (parts) => new Set(parts.map((part) => part.event));
const refused = (status, text) => (error) =>
  error.status === status && String(error.message).includes(text);

async function all(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

// An event without an id has that of the event before it, in the same connection.
const shown = (parts) => parts.map(({ event, data }) => ({ event, data }));

async function newThread(options = {}) {
  return (await client.threads.create(options)).thread_id;
}

const cases = {
  async assistants() {
    const found = await client.assistants.search({ graphId: "desk" });
    assert.deepEqual(found.map((one) => one.name), ["desk"]);
    const id = found[0].assistant_id;
    assert.equal((await client.assistants.get(id)).graph_id, "desk");
    const graph = await client.assistants.getGraph(id);
    assert.ok(graph.nodes.some((node) => node.id === "tools"));
    assert.ok((await client.assistants.getSchemas(id)).input_schema.properties.messages);
    assert.deepEqual(await client.assistants.getSubgraphs(id), {});
    assert.equal(await client.assistants.count({ name: "desk" }), 1);
    await assert.rejects(client.assistants.create({ graphId: "x" }), refused(404, "agent 'x'"));
    await assert.rejects(client.assistants.delete(id), refused(403, "is agent 'desk' itself"));
    const made = await client.assistants.create({ graphId: "echo", name: "One", metadata: { a: 1 } });
    const own = made.assistant_id;
    const changed = await client.assistants.update(own, { name: "Two", metadata: { b: 2 } });
    assert.deepEqual([changed.version, changed.metadata], [2, { a: 1, b: 2 }]);
    assert.equal((await client.assistants.setLatest(own, 1)).name, "One");
    const versions = await client.assistants.getVersions(own);
    assert.deepEqual(versions.map((one) => one.version), [2, 1]);
    const thread = await newThread();
    await client.runs.wait(thread, own, { input: say("Hi") });
    assert.equal((await client.runs.list(thread))[0].assistant_id, own);
    await client.assistants.delete(own);
    await assert.rejects(client.assistants.get(own), refused(404, "does not exist"));
  },

  async threads() {
    const topic = crypto.randomUUID();
    const thread = await newThread({ metadata: { topic } });
    await assert.rejects(client.threads.create({ threadId: thread }), refused(409, "exists"));
    await client.threads.create({ threadId: thread, ifExists: "do_nothing" });
    await client.threads.update(thread, { metadata: { open: true } });
    assert.deepEqual((await client.threads.get(thread)).metadata, { topic, open: true });
    await client.runs.wait(thread, "desk", { input: say("Hi") });
    const query = { metadata: { topic }, status: "interrupted", sortBy: "created_at" };
    const found = await client.threads.search({ ...query, sortOrder: "asc" });
    assert.equal(found.length, 1);
    assert.equal(texts(found[0].values)[0], "Hi");
    const [[asked]] = Object.values(found[0].interrupts);
    assert.equal(asked.value.action_requests[0].name, "pay");
    assert.equal(await client.threads.count({ metadata: { topic } }), 1);
    const ids = await client.threads.search({ ids: [thread], select: ["thread_id"] });
    assert.deepEqual(ids, [{ thread_id: thread }]);
    const copy = await client.threads.copy(thread);
    assert.equal(copy.status, "interrupted");
    await client.threads.updateState(copy.thread_id, { values: null, asNode: "__end__" });
    assert.equal((await client.threads.get(copy.thread_id)).status, "idle");
    await client.threads.delete(thread);
    await assert.rejects(client.threads.get(thread), refused(404, "does not exist"));
  },

  async stream_modes() {
    const thread = await newThread();
    const streamMode = ["values", "updates", "messages-tuple", "tasks", "checkpoints", "debug"];
    const parts = await all(
      client.runs.stream(thread, "echo", { input: say("Hi"), streamMode, streamSubgraphs: true })
    );
    assert.deepEqual(
      kinds(parts),
      new Set(["metadata", "values", "updates", "messages", "tasks", "checkpoints", "debug"])
    );
    const values = parts.filter((part) => part.event === "values");
    assert.deepEqual(texts(values.at(-1).data), ["Hi", "You said: Hi"]);
    const tokens = parts.filter((part) => part.event === "messages");
    assert.equal(tokens.map((part) => part.data[0].content).join(""), "You said: Hi");
    const messages = await all(
      client.runs.stream(thread, "echo", { input: say("Two"), streamMode: "messages" })
    );
    const partial = messages.filter((part) => part.event === "messages/partial");
    assert.equal(partial.at(-1).data[0].content, "You said: Two");
    await client.runs.wait(thread, "desk", { input: say("Pay") });
    const custom = await all(
      client.runs.stream(thread, "desk", { command: approve, streamMode: ["custom"] })
    );
    assert.deepEqual(custom.at(-1).data, { paying: 5 });
    const events = await all(
      client.runs.stream(thread, "echo", { input: say("Hi"), streamMode: "events" })
    );
    assert.equal(events.at(-1).data.event, "on_chain_end");
    assert.deepEqual(texts(events.at(-1).data.data.output).slice(-2), ["Hi", "You said: Hi"]);
    await assert.rejects(
      all(client.runs.stream(thread, "echo", { input: say("Hi"), streamMode: "tools" })),
      refused(422, "got 'tools'")
    );
  },

  async interrupt_and_resume() {
    const thread = await newThread();
    const stream = client.runs.stream(thread, "desk", { input: say("Hi"), streamMode: "values" });
    const asked = (await all(stream)).at(-1).data.__interrupt__;
    assert.deepEqual(asked[0].value.action_requests[0].args, { euros: 5 });
    const state = await client.threads.getState(thread);
    assert.equal(state.tasks[0].interrupts[0].id, asked[0].id);
    const rest = await all(
      client.runs.stream(thread, "desk", { command: approve, streamMode: "values" })
    );
    assert.equal(texts(rest.at(-1).data).at(-1), "Done.");
    const question = await client.runs.wait(await newThread(), "asks", { input: say("Hi") });
    assert.deepEqual(question.__interrupt__[0].value, { about: "it" });
    const other = await newThread();
    await client.runs.wait(other, "desk", { input: say("Hi") });
    await client.runs.wait(other, "desk", { command: { goto: "__end__" } });
    assert.equal((await client.threads.get(other)).status, "idle");
    const paused = await newThread();
    const options = { input: say("Hi"), interruptBefore: ["model"] };
    await client.runs.wait(paused, "echo", options);
    assert.equal((await client.threads.get(paused)).status, "interrupted");
    assert.equal(texts(await client.runs.wait(paused, "echo")).at(-1), "You said: Hi");
  },

  async history_and_fork() {
    const thread = await newThread();
    await client.runs.wait(thread, "echo", { input: say("One") });
    const first = (await client.threads.getState(thread)).checkpoint;
    await client.runs.wait(thread, "echo", { input: say("Two") });
    const states = await client.threads.getHistory(thread, { limit: 100 });
    assert.deepEqual(texts(states[0].values).length, 4);
    const at = states.findIndex((state) => state.checkpoint.checkpoint_id === first.checkpoint_id);
    const before = { configurable: { checkpoint_id: states[0].checkpoint.checkpoint_id } };
    const earlier = await client.threads.getHistory(thread, { limit: 100, before });
    assert.deepEqual(earlier, states.slice(1));
    const fork = await client.runs.wait(thread, "echo", { input: say("Other"), checkpoint: first });
    assert.deepEqual(texts(fork), ["One", "You said: One", "Other", "You said: Other"]);
    assert.deepEqual(texts((await client.threads.getState(thread, first)).values), texts(states[at].values));
    const hand = { messages: [{ role: "assistant", content: "By hand." }] };
    const { configurable } = await client.threads.updateState(thread, {
      values: hand,
      checkpoint: first,
      asNode: "model",
    });
    const state = await client.threads.getState(thread);
    assert.equal(state.checkpoint.checkpoint_id, configurable.checkpoint_id);
    assert.deepEqual(texts(state.values), ["One", "You said: One", "By hand."]);
  },

  async rejoin() {
    for (const streamMode of [["values", "messages-tuple"], ["messages", "updates", "values"]]) {
      const thread = await newThread();
      const cut = new AbortController();
      const seen = [];
      let run;
      const stream = client.runs.stream(thread, "echo", {
        input: say("slow"),
        streamMode,
        signal: cut.signal,
        onRunCreated: (created) => (run = created.run_id),
      });
      for await (const part of stream) {
        seen.push(part);
        if (part.event === "values") break;
      }
      cut.abort();
      assert.equal(seen.at(-1).event, "values");
      const lastEventId = seen.at(-1).id;
      const rest = await all(client.runs.joinStream(thread, run, { lastEventId, streamMode }));
      const whole = await all(client.runs.joinStream(thread, run, { lastEventId: "-1", streamMode }));
      assert.deepEqual(shown([...seen, ...rest]), shown(whole));
      const at = whole.findIndex((part) => /^messages(.partial)?$/.test(part.event));
      const again = { lastEventId: whole[at].id, streamMode };
      assert.deepEqual(
        shown(await all(client.runs.joinStream(thread, run, again))),
        shown(whole.slice(at + 1))
      );
      assert.equal((await client.runs.get(thread, run)).status, "success");
    }
  },

  async thread_stream() {
    const thread = await newThread();
    const cut = new AbortController();
    const stream = client.threads.joinStream(thread, { signal: cut.signal });
    const reading = (async () => {
      const parts = [];
      for await (const part of stream) {
        parts.push(part);
        if (part.event === "values" && texts(part.data).length === 4) return parts;
      }
    })();
    await new Promise((resolve) => setTimeout(resolve, 300));
    await client.runs.wait(thread, "echo", { input: say("One") });
    await client.runs.wait(thread, "echo", { input: say("Two") });
    const parts = await reading;
    cut.abort();
    assert.equal(parts.filter((part) => part.event === "metadata").length, 2);
  },

  async store() {
    const place = ["users", crypto.randomUUID()];
    assert.equal(await client.store.getItem(place, "likes"), null);
    await client.store.putItem(place, "likes", { food: "pizza" });
    const item = await client.store.getItem(place, "likes");
    assert.deepEqual([item.namespace, item.value], [place, { food: "pizza" }]);
    const { items } = await client.store.searchItems(place, { filter: { food: "pizza" } });
    assert.deepEqual(items.map((one) => one.key), ["likes"]);
    const { namespaces } = await client.store.listNamespaces({ prefix: ["users"], suffix: [place[1]] });
    assert.deepEqual(namespaces, [place]);
    await client.store.deleteItem(place, "likes");
    assert.equal(await client.store.getItem(place, "likes"), null);
    await assert.rejects(
      client.store.putItem(["langgraph"], "key", {}),
      refused(422, "namespace: Root label")
    );
  },

  async cancel() {
    const thread = await newThread();
    const before = await client.runs.wait(thread, "echo", { input: say("Hi") });
    const run = await client.runs.create(thread, "echo", { input: say("held") });
    await assert.rejects(
      client.runs.create(thread, "echo", { input: say("Hi"), multitaskStrategy: "reject" }),
      refused(409, "is ")
    );
    await client.runs.cancel(thread, run.run_id, true);
    assert.equal((await client.runs.get(thread, run.run_id)).status, "interrupted");
    const other = await client.runs.create(thread, "desk", { input: say("Pay") });
    await client.runs.join(thread, other.run_id);
    await client.runs.cancel(thread, other.run_id, true, "rollback");
    const kept = (await client.threads.getState(thread)).values;
    assert.equal(texts(kept).includes("Pay"), false);
    assert.deepEqual(kept.messages.slice(0, 2), before.messages);
    // What was rolled back is gone, and so is what is deleted.
    assert.equal((await client.runs.list(thread)).length, 2);
    await client.runs.delete(thread, run.run_id);
    assert.equal((await client.runs.list(thread)).length, 1);
  },

  async without_a_thread() {
    const values = await client.runs.wait(null, "echo", { input: say("Hi") });
    assert.deepEqual(texts(values), ["Hi", "You said: Hi"]);
    const parts = await all(client.runs.stream(null, "echo", { input: say("Hi"), streamMode: "updates" }));
    assert.deepEqual(parts.map((part) => part.event), ["metadata", "updates"]);
    const made = await client.runs.createBatch([
      { assistantId: "echo", input: say("One") },
      { assistantId: "echo", input: say("Two") },
    ]);
    const joined = await all(client.runs.joinStream(null, made[1].run_id));
    assert.equal(texts(joined.at(-1).data).at(-1), "You said: Two");
    const cron = await client.crons.create("echo", { schedule: "0 3 * * *", input: say("Hi") });
    const crons = await client.crons.search({ assistantId: "echo" });
    assert.deepEqual(crons.map((one) => one.cron_id), [cron.cron_id]);
    assert.equal((await client.crons.update(cron.cron_id, { enabled: false })).enabled, false);
    await client.crons.delete(cron.cron_id);
    assert.equal(await client.crons.count(), 0);
    await assert.rejects(
      client.runs.create(null, "echo", { input: say("Hi"), webhook: "https://desk.example" }),
      refused(422, "webhook: this server sends none")
    );
  },
};

await cases[name]();
