// LangGraph's client for JavaScript: all of its kinds of calls.
import { Client } from "@langchain/langgraph-sdk";
import { all, refused, run, until, url } from "./checks.mjs";

const client = new Client({ apiUrl: url, apiKey: null, callerOptions: { maxRetries: 0 } });
const { assistants, crons, runs, store, threads } = client;

const say = (content) => ({ input: { messages: [{ role: "user", content }] } });
const PAY = 'call pay {"euros": 5}';
const LOOK = 'call look {"order": "A1"}';
const decide = (...decisions) => ({ command: { resume: { decisions } } });
const approve = decide({ type: "approve" });
const texts = (values) => values?.messages?.map((message) => message.content);

async function thread(options) {
  return (await threads.create(options)).thread_id;
}
async function spoken(agent, ...inputs) {
  const id = await thread();
  for (const content of inputs) await runs.wait(id, agent, say(content));
  return id;
}
const stream = async (id, agent, options) =>
  (await all(runs.stream(id, agent, options))).map(({ event, data }) => ({ event, data }));
// A model streams as fast as it likes: pieces of a message in a row are one.
const joined = (parts) =>
  parts.reduce((list, { event, data }) => {
    const [message] = event.startsWith("messages") && Array.isArray(data) ? data : [];
    const last = list.at(-1);
    if (message?.type === "AIMessageChunk" && last?.event === event && last.id === message.id) {
      last.content += message.content;
    } else if (message) {
      list.push({ event, id: message.id, type: message.type, content: message.content, metadata: data[1] });
    } else list.push({ event, data });
    return list;
  }, []).map(({ id, ...part }) => part);
const withoutRun = ({ event, data }) => ({ event, data: event === "metadata" ? Object.keys(data).sort() : data });
const sketch = (state) => ({ texts: texts(state.values), next: state.next, step: state.metadata?.step,
  source: state.metadata?.source, tasks: state.tasks.map(({ name, interrupts, error }) => ({ name, interrupts, error })) });

const modes = ["values", "updates", "messages-tuple", "messages", "custom", "tasks", "checkpoints", "debug"];

await run({
  async assistants() {
    const [desk] = await assistants.search({ graphId: "desk" });
    const graph = await assistants.getGraph(desk.assistant_id);
    const schemas = await assistants.getSchemas(desk.assistant_id);
    const made = await assistants.create({ graphId: "desk", name: "Mine", metadata: { topic: "a" } });
    const id = made.assistant_id;
    const changed = await assistants.update(id, { name: "Yours", metadata: { more: 1 } });
    const versions = await assistants.getVersions(id);
    const latest = await assistants.setLatest(id, 1);
    const found = await assistants.search({ metadata: { topic: "a" } });
    const reply = texts(await runs.wait(await thread(), id, say("Hi")));
    const deleted = await assistants.delete(id);
    return {
      desk, got: await assistants.get(desk.assistant_id), made, changed, versions, latest, found, reply, deleted,
      count: await assistants.count({ graphId: "desk" }),
      nodes: graph.nodes.map((node) => node.id).sort(),
      edges: graph.edges.map(({ source, target, conditional }) => `${source}-${target}-${!!conditional}`).sort(),
      schemas: Object.keys(schemas).sort(), input: Object.keys(schemas.input_schema.properties),
      subgraphs: Object.keys(await assistants.getSubgraphs((await assistants.search({ graphId: "outer" }))[0].assistant_id)),
      gone: await refused(assistants.get(id)), unknown: await refused(assistants.create({ graphId: "nobody" })),
    };
  },

  async threads() {
    const topic = crypto.randomUUID();
    const id = await thread({ metadata: { topic } });
    const fresh = await threads.get(id);
    const again = await threads.create({ threadId: id, ifExists: "do_nothing" });
    const refusal = await refused(threads.create({ threadId: id }));
    await threads.update(id, { metadata: { open: true } });
    await runs.wait(id, "desk", say("Hi"));
    const used = await threads.get(id);
    const search = { metadata: { topic }, status: "idle", sortBy: "created_at", sortOrder: "asc" };
    const copy = await threads.copy(id);
    const found = await threads.search(search);
    const fields = await threads.search({ ids: [id], select: ["thread_id", "status"] });
    const count = await threads.count({ metadata: { topic } });
    await threads.delete(id);
    return {
      fresh, again, refusal, used, found, fields, count, copied: texts((await threads.getState(copy.thread_id)).values),
      gone: await refused(threads.get(id)), unknown: await refused(threads.get(crypto.randomUUID())),
    };
  },

  async chat() {
    const id = await spoken("desk", "Hi");
    const values = await runs.wait(id, "desk", say("More"));
    const [last, first] = await runs.list(id);
    return { values, runs: (await runs.list(id)).length, last, first, got: await runs.get(id, last.run_id),
      byStatus: (await runs.list(id, { status: "success" })).length };
  },

  async "tool call"() {
    return runs.wait(await thread(), "desk", say(LOOK));
  },

  ...Object.fromEntries(modes.map((mode) => [`stream mode ${mode}`, async () => {
    const id = await thread();
    const chat = await stream(id, "desk", { ...say("Hi you"), streamMode: [mode] });
    const tool = await stream(id, "desk", { ...say(LOOK), streamMode: [mode] });
    const review = await stream(id, "desk", { ...say(PAY), streamMode: [mode] });
    const paid = await stream(id, "desk", { ...approve, streamMode: [mode] });
    return [chat, tool, review, paid].map((parts) => joined(parts).map(withoutRun));
  }])),

  async "stream mode events"() {
    const parts = await stream(await thread(), "desk", { ...say(LOOK), streamMode: ["events", "messages-tuple"] });
    const event = ({ event, name, data }) => ({ event, name, keys: Object.keys(data).sort() });
    const rows = parts.map(({ event: mode, data }) =>
      mode === "events" ? event(data) : { mode, content: data[0]?.content, calls: data[0]?.tool_call_chunks?.length ?? 0 });
    return rows.filter((row) => /tool|chat_model/.test(row.event ?? "") || row.mode === "messages");
  },

  async review() {
    const id = await spoken("desk", PAY);
    const state = await threads.getState(id);
    const waiting = await threads.get(id);
    const paid = await runs.wait(id, "desk", approve);
    const asked = await runs.wait(id, "desk", say(PAY));
    const rejected = await runs.wait(id, "desk", decide({ type: "reject", message: "Too much." }));
    await runs.wait(id, "desk", say(PAY));
    const edited = { name: "pay", args: { euros: 3 } };
    const changed = await runs.wait(id, "desk", decide({ type: "edit", edited_action: edited }));
    await runs.wait(id, "desk", say(`${PAY}\n${PAY}`));
    const two = await runs.wait(id, "desk", decide({ type: "approve" }, { type: "reject", message: "No." }));
    return { state: sketch(state), status: waiting.status, interrupts: Object.values(waiting.interrupts).flat(),
      paid: texts(paid), asked: asked.__interrupt__, rejected: texts(rejected).slice(4),
      changed: texts(changed).slice(8), two: texts(two).slice(12) };
  },

  // What CopilotKit's LangGraphAgent sends: the messages that it knows, beside the decision.
  async "review answered with known messages"() {
    const id = await spoken("desk", PAY);
    const { messages } = (await threads.getState(id)).values;
    const paid = await runs.wait(id, "desk", { input: { messages, tools: [] }, ...approve });
    return texts(paid);
  },

  async question() {
    const id = await thread();
    const asked = await runs.wait(id, "desk", say('call ask {"about": "tea"}'));
    return { asked: asked.__interrupt__, told: texts(await runs.wait(id, "desk", { command: { resume: "yes" } })) };
  },

  async "message instead of a decision"() {
    const id = await spoken("desk", PAY, "Hi");
    return { texts: texts((await threads.getState(id)).values), status: (await threads.get(id)).status };
  },

  async failure() {
    const id = await thread();
    const parts = await stream(id, "desk", { ...say("fail"), streamMode: ["updates"] });
    const [failed] = await runs.list(id);
    const { status } = await threads.get(id);
    const tool = await stream(id, "desk", { ...say('call lend {"euros": 5}'), streamMode: ["updates"] });
    const next = await refused(runs.wait(id, "desk", say("Hi")));
    return { parts: parts.map(withoutRun), run: failed.status, status, tool: tool.map(withoutRun), next,
      wait: await refused(runs.wait(await thread(), "desk", say("fail"))),
      quiet: await refused(runs.wait(await thread(), "desk", { ...say("fail"), raiseError: false })) };
  },

  async history() {
    const id = await spoken("desk", "One", "Two");
    const states = await threads.getHistory(id, { limit: 50 });
    const third = states[2].checkpoint;
    const before = await threads.getHistory(id, { limit: 50, before: { configurable: third } });
    const at = await threads.getHistory(id, { limit: 1, checkpoint: third });
    const inputs = await threads.getHistory(id, { limit: 50, metadata: { source: "input" } });
    return { states: states.map(sketch), keys: Object.keys(states[0]).sort(), limited: (await threads.getHistory(id, { limit: 2 })).length,
      before: before.map(sketch), at: at.map(sketch), inputs: inputs.map(sketch),
      state: sketch(await threads.getState(id, third)) };
  },

  async fork() {
    const id = await spoken("desk", "One");
    const { checkpoint } = await threads.getState(id);
    await runs.wait(id, "desk", say("Two"));
    const other = await runs.wait(id, "desk", { ...say("Other"), checkpoint });
    const again = await threads.getHistory(id, { limit: 50 });
    const start = again.findLast((state) => state.next.includes("model"));
    const anew = await runs.wait(id, "desk", { checkpoint: start.checkpoint });
    const hand = { messages: [{ role: "assistant", content: "By hand." }] };
    const update = await threads.updateState(id, { values: hand, checkpoint, asNode: "model" });
    return { other: texts(other), anew: texts(anew), update: Object.keys(update), state: sketch(await threads.getState(id)) };
  },

  async "steps from a checkpoint"() {
    const id = await thread();
    const options = { interruptBefore: ["tools"] };
    await runs.wait(id, "desk", { ...say(LOOK), ...options });
    const paused = await threads.getState(id);
    await runs.wait(id, "desk", { input: null, checkpoint: paused.checkpoint, ...options });
    const after = await thread();
    await runs.wait(after, "desk", { ...say(LOOK), interruptAfter: ["model"] });
    const stopped = await threads.getState(after);
    return { paused: sketch(paused), gone: sketch(await threads.getState(id)), stopped: sketch(stopped),
      rest: texts(await runs.wait(after, "desk", { input: null })) };
  },

  async cancel() {
    const id = await spoken("desk", "Hi");
    const work = await runs.create(id, "desk", say("wait"));
    await until(async () => (await threads.getState(id)).next.length);
    const busy = await threads.get(id);
    const rejected = await refused(runs.create(id, "desk", { ...say("Hi"), multitaskStrategy: "reject" }));
    await runs.cancel(id, work.run_id, true);
    const cancelled = await runs.get(id, work.run_id);
    const { status } = await threads.get(id);
    const second = await runs.create(id, "desk", say("wait"));
    await until(async () => (await runs.get(id, second.run_id)).status === "running");
    await runs.cancel(id, second.run_id, true, "rollback");
    return { busy: busy.status, rejected, cancelled: cancelled.status, status,
      rolled: await until(async () => texts((await threads.getState(id)).values)),
      gone: (await refused(runs.get(id, second.run_id))).status ?? "there" };
  },

  async "two messages at once"() {
    const results = {};
    for (const multitaskStrategy of ["enqueue", "interrupt", "rollback"]) {
      const id = await spoken("desk", "Hi");
      await runs.create(id, "desk", say(multitaskStrategy === "enqueue" ? "Hi" : "wait"));
      if (multitaskStrategy !== "enqueue") await until(async () => (await threads.getState(id)).next.length);
      const second = await runs.create(id, "desk", { ...say("Second"), multitaskStrategy });
      await runs.join(id, second.run_id);
      const state = await threads.getState(id);
      results[multitaskStrategy] = { last: texts(state.values).at(-1), count: state.values.messages.length,
        statuses: (await runs.list(id)).map((each) => each.status) };
    }
    return results;
  },

  async "join a run"() {
    const id = await thread();
    let created;
    const streamMode = ["values", "updates"];
    const whole = await all(runs.stream(id, "desk", { ...say("Hi"), streamMode, streamResumable: true,
      onRunCreated: (each) => (created = each.run_id) }));
    const again = await all(runs.joinStream(id, created, { lastEventId: "-1", streamMode }));
    const half = await all(runs.joinStream(id, created, { lastEventId: whole[1].id, streamMode }));
    const work = await runs.create(id, "desk", { ...say("Bye"), streamMode, streamResumable: true });
    const live = await all(runs.joinStream(id, work.run_id, { streamMode }));
    const joined = texts(await runs.join(id, created));
    const pieces = { streamMode: ["values", "messages-tuple"] };
    const cut = [];
    for await (const part of runs.stream(id, "desk", { ...say("Three words here"), ...pieces, streamResumable: true,
      onRunCreated: (each) => (created = each.run_id) })) {
      cut.push(part);
      if (part.event === "messages") break;
    }
    const rest = await all(runs.joinStream(id, created, { ...pieces, lastEventId: cut.at(-1).id }));
    const every = await all(runs.joinStream(id, created, { ...pieces, lastEventId: "-1" }));
    const seen = (parts) => JSON.stringify(parts.map(({ event, data }) => ({ event, data })));
    return { whole: whole.map((part) => part.event), goesOn: seen([...cut, ...rest]) === seen(every), again: again.map((part) => part.event),
      half: half.map((part) => part.event), live: texts(live.at(-1).data), joined };
  },

  async "join a thread"() {
    const id = await thread();
    const cut = new AbortController();
    const parts = [];
    const reading = (async () => {
      for await (const part of threads.joinStream(id, { signal: cut.signal, streamMode: ["run_modes", "lifecycle"] })) parts.push(part);
    })().catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 500));
    await runs.wait(id, "desk", { ...say("One"), streamMode: ["values"] });
    await new Promise((resolve) => setTimeout(resolve, 500));
    cut.abort();
    await reading;
    return parts.map(({ event, data }) => [event, data?.status ?? null]);
  },

  async "an agent inside"() {
    const id = await thread();
    const streamMode = ["updates", "values", "messages-tuple"];
    const parts = await stream(id, "outer", { ...say(PAY), streamMode, streamSubgraphs: true });
    const state = await threads.getState(id, undefined, { subgraphs: true });
    const paid = await stream(id, "outer", { ...approve, streamMode: ["updates"], streamSubgraphs: true });
    return { events: parts.map((part) => part.event), interrupts: state.tasks.map((task) => task.interrupts),
      inner: state.tasks.map((task) => task.state && sketch(task.state)), paid: paid.map(withoutRun),
      texts: texts((await threads.getState(id)).values) };
  },

  async "without a thread"() {
    const values = await runs.wait(null, "desk", say("Hi"));
    const parts = await stream(null, "desk", { ...say("Hi"), streamMode: "updates" });
    const batch = await runs.createBatch([{ assistantId: "desk", ...say("One") }, { assistantId: "desk", ...say("Two") }]);
    return { texts: texts(values), parts: parts.map(withoutRun), batch: batch.length,
      review: (await runs.wait(null, "desk", say(PAY))).__interrupt__ };
  },

  async crons() {
    const made = await crons.create("desk", { schedule: "0 3 * * *", ...say("Hi") });
    const id = await thread();
    const onThread = await crons.createForThread(id, "desk", { schedule: "0 4 * * *", ...say("Hi") });
    const found = await crons.search({ threadId: id });
    const changed = await crons.update(made.cron_id, { schedule: "0 5 * * *" });
    const count = await crons.count({ threadId: id });
    for (const { cron_id } of [made, onThread]) await crons.delete(cron_id);
    return { made, found, changed, count, gone: await refused(crons.delete(made.cron_id)),
      wrong: await refused(crons.create("desk", { schedule: "every day", ...say("Hi") })) };
  },

  async store() {
    const place = ["users", crypto.randomUUID()];
    await store.putItem(place, "likes", { food: "pizza" });
    const item = await store.getItem(place, "likes");
    const found = await store.searchItems(place, { filter: { food: "pizza" } });
    const none = await store.searchItems(place, { filter: { food: "soup" } });
    const names = await store.listNamespaces({ prefix: ["users"], suffix: [place[1]] });
    await store.deleteItem(place, "likes");
    return { item, found, none, names, gone: await refused(store.getItem(place, "likes")) };
  },

  ...Object.fromEntries(["desk", "ids"].map((agent) => [`protocol v2 (${agent})`, async () => {
    const thread = client.threads.stream({ assistantId: agent });
    const seen = [];
    const reading = (async () => {
      for await (const message of thread.messages) {
        seen.push({ text: await message.text, calls: (await message.toolCalls).map(({ name, args }) => ({ name, args })) });
      }
    })();
    await thread.run.start({ input: { messages: [{ role: "user", content: LOOK }] } });
    const values = await thread.output;
    await thread.close?.();
    await Promise.race([reading, new Promise((resolve) => setTimeout(resolve, 1000))]);
    return { seen, texts: texts(values) };
  }])),

  async refusals() {
    const id = await thread();
    const nobody = crypto.randomUUID();
    return {
      agent: await refused(runs.wait(id, "nobody", say("Hi"))),
      thread: await refused(runs.wait(nobody, "desk", say("Hi"))),
      mode: await refused(stream(id, "desk", { ...say("Hi"), streamMode: "nothing" })),
      run: await refused(runs.get(id, nobody)), join: await refused(runs.join(id, nobody)),
      cancel: await refused(runs.cancel(id, nobody)), state: await refused(threads.getState(nobody)),
      history: await refused(threads.getHistory(nobody)), update: await refused(threads.updateState(nobody, { values: {} })),
      copy: await refused(threads.copy(nobody)), delete: await refused(threads.delete(nobody)),
      resume: await refused(runs.wait(id, "desk", approve)), nothing: await refused(runs.wait(id, "desk", {})),
      strategy: await refused(runs.create(id, "desk", { ...say("Hi"), multitaskStrategy: "hurry" })),
      webhook: await refused(runs.create(id, "desk", { ...say("Hi"), webhook: "https://hooks.example.com" })),
    };
  },
});
