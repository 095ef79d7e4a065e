// The calls of agent-chat-ui (an app, not a package), with the hook it uses.
//
// At commit fdc87e65 (2026-07-25) the app
// - asks GET /info at its start, and reads the last ten states of the thread in its address (fetchStateHistory: true);
// - lists threads by metadata: assistant_id if the assistant's id is a UUID, else graph_id; limit 100;
// - sends messages, answers anew and edits with streamMode ["values"], streamSubgraphs and streamResumable, so that a
//   run goes on when the page is left; it names the parent checkpoint for the two last;
// - sends decisions, one at a time, and "Mark as resolved" without options: `submit({}, { command })`;
// - stops by an abort, which ends a run of a decision; joins no run after a reload, and shows what the state has;
// - reads custom events of the types "ui" and "remove-ui" into `values.ui`.
import assert from "node:assert/strict";
import { run, url } from "./checks.mjs";
import { human, open as openPage, texts } from "./page.mjs";
import { useState } from "react";
import { Client } from "@langchain/langgraph-sdk";
import { useStream } from "@langchain/langgraph-sdk/react";
import { isRemoveUIMessage, isUIMessage, uiMessageReducer } from "@langchain/langgraph-sdk/react-ui";

const client = new Client({ apiUrl: url });
const options = { streamMode: ["values"], streamSubgraphs: true, streamResumable: true };

async function open(assistantId, first = null, more = {}) {
  const runs = [], renders = [];
  const left = new AbortController();
  const callerOptions = {
    fetch: (input, init) =>
      fetch(input, { ...init, signal: AbortSignal.any([left.signal, ...(init?.signal ? [init.signal] : [])]) }),
  };
  const page = await openPage(() => {
    const [threadId, onThreadId] = useState(first);
    const stream = useStream({
      apiUrl: url,
      apiKey: undefined,
      assistantId,
      threadId,
      onThreadId,
      fetchStateHistory: true,
      callerOptions,
      onCreated: ({ run_id }) => runs.push(run_id),
      onCustomEvent: (event, { mutate }) => {
        if (!isUIMessage(event) && !isRemoveUIMessage(event)) return;
        mutate((previous) => ({ ...previous, ui: uiMessageReducer(previous.ui ?? [], event) }));
      },
      ...more,
    });
    renders.push(texts(stream.messages));
    return { stream, more: { threadId, runs, renders } };
  });
  // The hook keeps its connections when a component goes; a browser closes those of a page.
  page.leave = () => { page.close(); left.abort(); };
  return page;
}

// A call without a result gets one before the next message.
function missingResults(messages) {
  const calls = messages.flatMap((message, index) =>
    messages[index + 1]?.type === "tool" ? [] : (message.tool_calls ?? []));
  return calls.map((call) => ({ type: "tool", tool_call_id: call.id, name: call.name,
    id: `do-not-render-${crypto.randomUUID()}`, content: "Successfully handled tool call." }));
}

function say(page, text, { blocks = [], context } = {}) {
  const content = [{ type: "text", text }, ...blocks];
  const added = [...missingResults(page.stream.messages), { id: crypto.randomUUID(), type: "human", content }];
  const optimisticValues = (previous) =>
    ({ ...previous, context, messages: [...(previous.messages ?? []), ...added] });
  return page.stream.submit({ messages: added, context }, { ...options, optimisticValues });
}

function edit(page, message, text) {
  const { firstSeenState: seen } = page.stream.getMessagesMetadata(message);
  const [changed] = human(text).messages;
  const optimisticValues = (previous) =>
    seen.values ? { ...seen.values, messages: [...(seen.values.messages ?? []), changed] } : previous;
  const checkpoint = seen.parent_checkpoint;
  return page.stream.submit({ messages: [changed] }, { ...options, checkpoint, optimisticValues });
}

function regenerate(page, message) {
  const checkpoint = page.stream.getMessagesMetadata(message).firstSeenState.parent_checkpoint;
  return page.stream.submit(undefined, { ...options, checkpoint });
}

const command = (page, value) => page.stream.submit({}, { command: value });
const decide = (page, decision) => command(page, { resume: { decisions: [decision] } });

const ended = (page, count) =>
  page.until((stream) => !stream.isLoading && stream.messages.length === count);
// The hook knows the states of a message once it has read the history.
const known = (page, count) => page.until(({ isLoading, messages, getMessagesMetadata }) =>
  !isLoading && messages.length === count &&
    messages.every((message) => getMessagesMetadata(message)?.firstSeenState));

const waiting = (page) => page.until(({ interrupt, isLoading }) => interrupt && !isLoading);
// The last message, after a run.
const last = (page, text) =>
  page.until(({ isLoading, messages }) => !isLoading && texts(messages).at(-1) === text);

async function review(assistantId = "desk") {
  const page = await open(assistantId);
  await say(page, "Pay");
  await waiting(page);
  return page;
}

await run({
  async chat() {
    assert.ok((await fetch(`${url}/info`)).ok);
    const page = await open("payer");
    await say(page, "Pay");
    await ended(page, 4);
    await page.shows(["Pay", "", "Paid 5.", "Done."]);
    assert.deepEqual(page.more.renders.find((shown) => shown.length), ["Pay"]);
    const [, call, result] = page.stream.messages;
    assert.deepEqual([call.tool_calls[0].name, call.tool_calls[0].args], ["pay", { euros: 5 }]);
    assert.deepEqual([result.type, result.tool_call_id], ["tool", call.tool_calls[0].id]);
    await say(page, "More");
    await ended(page, 8);
    await page.shows(["Pay", "", "Paid 5.", "Done.", "More", "", "Paid 5.", "Done."]);
    assert.equal(page.stream.error, undefined);
    page.close();
  },

  async attachments() {
    const page = await open("echo");
    const data = Buffer.from("a picture").toString("base64");
    const image = { type: "image", mimeType: "image/png", data, metadata: { name: "a.png" } };
    const file = { type: "file", mimeType: "application/pdf", data, metadata: { filename: "a.pdf" } };
    await say(page, "Look", { blocks: [image, file] });
    await known(page, 2);
    const [first] = page.stream.messages;
    assert.deepEqual(first.content, [{ type: "text", text: "Look" }, image, file]);
    await page.shows(["Look", "You said: Look"]);
    page.close();
  },

  async list() {
    const [{ assistant_id: id }] = await client.assistants.search({ graphId: "echo" });
    for (const [assistantId, metadata] of [["echo", { graph_id: "echo" }], [id, { assistant_id: id }]]) {
      const page = await open(assistantId);
      await say(page, "slow");
      await page.until((_, { threadId, runs }) => threadId && runs.length);
      const find = async () => (await client.threads.search({ metadata, limit: 100 }))
        .find((thread) => thread.thread_id === page.more.threadId);
      assert.ok(await find(), "a new thread is listed while its first run goes on");
      await ended(page, 2);
      assert.equal(texts((await find()).values.messages)[0], "slow");
      page.close();
    }
    const others = await client.threads.search({ metadata: { graph_id: "echo" }, limit: 100 });
    assert.ok(others.every((thread) => thread.metadata.graph_id === "echo"));
  },

  async review() {
    const page = await review();
    const { value } = page.stream.interrupt;
    assert.deepEqual(value.action_requests.map(({ name, args }) => [name, args]), [["pay", { euros: 5 }]]);
    assert.equal(typeof value.action_requests[0].description, "string");
    assert.deepEqual(value.review_configs.map((config) => config.action_name), ["pay"]);
    const allowed = value.review_configs[0].allowed_decisions;
    assert.ok(["approve", "edit", "reject"].every((type) => allowed.includes(type)));
    const edited_action = { name: "pay", args: { euros: 3 } };
    const results = [
      [{ type: "approve" }, /^Paid 5\.$/],
      [{ type: "edit", edited_action }, /^Paid 3\./],
      [{ type: "reject", message: "Too much." }, /^Too much\.$/],
    ];
    for (const [index, [decision, result]] of results.entries()) {
      if (index) await say(page, "Pay");
      await waiting(page);
      await decide(page, decision);
      await ended(page, 4 * (index + 1));
      const [said, call, paid, done] = texts(page.stream.messages).slice(-4);
      assert.deepEqual([said, call, done], ["Pay", "", "Done."]);
      assert.match(paid, result);
      assert.equal(page.stream.interrupt, undefined);
    }
    assert.equal(page.stream.error, undefined);
    page.close();
  },

  async resolve() {
    for (const assistantId of ["desk", "outer"]) {
      const page = await review(assistantId);
      await command(page, { goto: "__end__" });
      await page.until(({ interrupt, isLoading }) => !interrupt && !isLoading);
      assert.equal((await client.threads.get(page.more.threadId)).status, "idle");
      assert.equal(page.stream.error, undefined);
      await say(page, "Again");
      await waiting(page);
      page.close();
    }
  },

  async "two calls"() {
    // The form shows the first call alone, and sends one decision: too few for the review.
    const page = await review("twice");
    assert.equal(page.stream.interrupt.value.action_requests.length, 2);
    await decide(page, { type: "approve" });
    await page.until(({ error, isLoading }) => error && !isLoading);
    assert.match(page.stream.error.message, /decision/);
    assert.equal((await client.threads.get(page.more.threadId)).status, "interrupted");
    page.close();
    const again = await open("twice", page.more.threadId);
    assert.equal(again.stream.interrupt.value.action_requests.length, 2);
    await command(again, { resume: { decisions: [{ type: "approve" }, { type: "approve" }] } });
    await ended(again, 5);
    await again.shows(["Pay", "", "Paid 5.", "Paid 7.", "Done."]);
    again.close();
  },

  async "inner review"() {
    const page = await review("outer");
    assert.equal(page.stream.interrupt.value.action_requests[0].name, "pay");
    await decide(page, { type: "approve" });
    await ended(page, 4);
    await page.shows(["Pay", "", "Paid 5.", "Done."]);
    page.close();
  },

  async question() {
    const page = await review("asks");
    assert.deepEqual(page.stream.interrupt.value, { about: "it" });
    // The app shows it, and has no form for it: an answer is a message.
    await say(page, "No");
    await page.until(({ interrupt, isLoading, messages }) =>
      interrupt && !isLoading && texts(messages).includes("No"));
    await command(page, { resume: "yes" });
    await last(page, "Done.");
    assert.equal(texts(page.stream.messages).at(-2), "They said yes.");
    page.close();
  },

  async "message instead of an answer"() {
    const page = await review();
    await say(page, "Wait");
    await page.until(({ interrupt, isLoading, messages }) =>
      interrupt && !isLoading && texts(messages).includes("Wait"));
    assert.equal(page.stream.error, undefined);
    const results = page.stream.messages.filter((message) => message.type === "tool");
    const [, call] = page.stream.messages;
    assert.deepEqual(results.map((message) => message.tool_call_id), [call.tool_calls[0].id]);
    await decide(page, { type: "approve" });
    await last(page, "Done.");
    assert.equal(texts(page.stream.messages).at(-2), "Paid 5.");
    page.close();
  },

  async cancel() {
    const page = await open("echo");
    const stopped = async () => {
      const before = page.more.runs.length;
      await page.until((_, { runs }) => runs.length > before);
      await page.stream.stop();
      await page.until(({ isLoading }) => !isLoading);
      assert.equal(page.stream.error, undefined);
      return page.more.runs.at(-1);
    };
    const status = async (run) => (await client.runs.get(page.more.threadId, run)).status;
    say(page, "slow");
    const first = await stopped();
    await say(page, "Hi");
    await last(page, "You said: Hi");
    // A run that can be resumed goes on when its page stops.
    assert.equal(await status(first), "success");
    await page.shows(["slow", "You said: slow", "Hi", "You said: Hi"]);
    say(page, "slow again");
    const second = await stopped();
    await say(page, "More");
    await last(page, "You said: More");
    assert.equal(await status(second), "success");
    const before = ["slow", "You said: slow", "Hi", "You said: Hi"];
    await page.shows([...before, "slow again", "You said: slow again", "More", "You said: More"]);
    // Decisions have no options, so a run of theirs ends with its connection.
    page.stream.submit(human("held"));
    const third = await stopped();
    await client.runs.join(page.more.threadId, third);
    assert.equal(await status(third), "interrupted");
    await say(page, "Bye");
    await last(page, "You said: Bye");
    page.close();
  },

  async branches() {
    const page = await open("echo");
    await say(page, "One");
    await known(page, 2);
    const answer = page.stream.messages[1].id;
    await regenerate(page, page.stream.messages[1]);
    await page.until(({ isLoading, messages }) =>
      !isLoading && messages.length === 2 && messages[1].id !== answer);
    await page.shows(["One", "You said: One"]);
    await known(page, 2);
    const { branch, branchOptions } = page.stream.getMessagesMetadata(page.stream.messages[1]);
    assert.equal(branchOptions.length, 2);
    page.stream.setBranch(branchOptions.find((each) => each !== branch));
    await page.until(({ messages }) => messages[1]?.id === answer);
    page.stream.setBranch(branch);
    await edit(page, page.stream.messages[0], "Two");
    await last(page, "You said: Two");
    await page.shows(["Two", "You said: Two"]);
    await known(page, 2);
    const { branchOptions: firsts } = page.stream.getMessagesMetadata(page.stream.messages[0]);
    assert.equal(firsts.length, 2);
    await say(page, "Three");
    await ended(page, 4);
    page.close();
    const again = await open("echo", page.more.threadId);
    await again.shows(["Two", "You said: Two", "Three", "You said: Three"]);
    again.close();
  },

  async "branches of a review"() {
    const page = await review();
    const call = () => page.stream.messages[1].id;
    await known(page, 2);
    let before = call();
    await edit(page, page.stream.messages[0], "Pay less");
    await page.until(({ messages }) => messages[1] && call() !== before);
    await waiting(page);
    await page.shows(["Pay less", ""]);
    await known(page, 2);
    before = call();
    await regenerate(page, page.stream.messages[1]);
    await page.until(({ messages }) => messages[1] && call() !== before);
    await waiting(page);
    await decide(page, { type: "approve" });
    await known(page, 4);
    await page.shows(["Pay less", "", "Paid 5.", "Done."]);
    before = call();
    await regenerate(page, page.stream.messages[1]);
    await page.until(({ messages }) => messages[1] && call() !== before);
    await waiting(page);
    await decide(page, { type: "reject", message: "Not again." });
    await ended(page, 4);
    await page.shows(["Pay less", "", "Not again.", "Done."]);
    page.close();
  },

  async reload() {
    const page = await open("echo");
    say(page, "slow");
    await page.until((_, { runs }) => runs.length);
    page.leave();
    const { threadId, runs } = page.more;
    const values = async () => (await client.threads.getState(threadId)).values;
    while (!(await values()).messages?.length);
    const second = await open("echo", threadId);
    assert.equal(second.shown()[0], "slow");
    assert.equal(second.stream.error, undefined);
    await client.runs.join(threadId, runs[0]);
    second.close();
    const third = await open("echo", threadId);
    await third.shows(["slow", "You said: slow"]);
    third.close();
    const reviewed = await review();
    reviewed.close();
    const again = await open("desk", reviewed.more.threadId);
    await again.shows(["Pay", ""]);
    await decide(again, { type: "approve" });
    await ended(again, 4);
    await again.shows(["Pay", "", "Paid 5.", "Done."]);
    again.close();
  },

  async reconnect() {
    // The hook joins a run by its id, if the app asks for it; agent-chat-ui does not.
    const kept = new Map();
    const reconnectOnMount = () => ({ getItem: (key) => kept.get(key) ?? null,
      setItem: (key, value) => kept.set(key, value), removeItem: (key) => kept.delete(key) });
    const page = await open("echo", null, { reconnectOnMount });
    say(page, "very slow");
    await page.until((_, { runs }) => runs.length);
    page.leave();
    const { threadId } = page.more;
    assert.deepEqual([...kept.keys()], [`lg:stream:${threadId}`]);
    const again = await open("echo", threadId, { reconnectOnMount });
    await again.shows(["very slow", "You said: very slow"]);
    await again.until(({ isLoading }) => !isLoading);
    assert.equal(kept.size, 0);
    assert.deepEqual(again.more.runs, []);
    again.close();
  },

  async errors() {
    const page = await open("echo");
    await say(page, "fail");
    await page.until(({ error, isLoading }) => error && !isLoading);
    assert.equal(page.stream.error.message, "the model is out of order");
    page.close();
    const again = await open("echo", page.more.threadId);
    assert.match(String(again.stream.error), /the model is out of order/);
    await say(again, "Hi");
    await last(again, "You said: Hi");
    assert.equal(again.stream.error, undefined);
    again.close();
    const unknown = await open("nobody");
    await say(unknown, "Hi");
    await unknown.until(({ error }) => error);
    assert.match(unknown.stream.error.message, /assistant 'nobody': does not exist/);
    unknown.close();
  },

  async components() {
    const page = await open("artist");
    await say(page, "Draw", { context: { place: "the hall" } });
    await ended(page, 4);
    await page.shows(["Draw", "", "Drawn for the hall.", "Done."]);
    const [picture] = page.stream.values.ui;
    assert.deepEqual([picture.name, picture.props], ["picture", { title: "Sea", done: true }]);
    assert.equal(picture.metadata.message_id, page.stream.messages[1].id);
    page.close();
    const again = await open("artist", page.more.threadId);
    assert.deepEqual(again.stream.values.ui.map(({ id }) => id), [picture.id]);
    // Code of components is not served: the page shows a message without them.
    const { status } = await fetch(`${url}/ui/artist`, { method: "POST", body: '{"name": "picture"}' });
    assert.equal(status, 404);
    again.close();
  },
});
