// What a page does with the newest useStream of LangChain for React.
import assert from "node:assert/strict";
import { useChannel, useMessageMetadata, useMessages, useStream, useToolCalls } from "@langchain/react";
import { run, url } from "./checks.mjs";
import { human, open as openPage, texts } from "./page.mjs";

const approve = { decisions: [{ type: "approve" }] };

const open = (assistantId, options = {}, more = () => ({})) =>
  openPage(() => {
    const stream = useStream({ assistantId, apiUrl: url, apiKey: null, ...options });
    return { stream, more: more(stream) };
  });

await run({
  async chat() {
    const page = await open("echo", {}, (stream) => useChannel(stream, ["messages"]));
    await page.stream.submit(human("Hi"));
    await page.until(({ messages, isLoading }) => messages.length === 2 && !isLoading);
    await page.shows(["Hi", "You said: Hi"]);
    const tokens = (events) => events.flatMap((event) => event.params.data.delta?.text ?? []);
    await page.until((_, events) => tokens(events).length === 3);
    assert.deepEqual(tokens(page.more), ["You ", "said: ", "Hi"]);
    assert.deepEqual(texts(page.stream.values.messages), ["Hi", "You said: Hi"]);
    await page.stream.submit(human("More"));
    await page.until(({ messages, isLoading }) => messages.length === 4 && !isLoading);
    await page.shows(["Hi", "You said: Hi", "More", "You said: More"]);
    assert.equal(page.stream.error, undefined);
    page.close();
  },

  async "tool calls"() {
    const page = await open("payer", {}, (stream) => useChannel(stream, ["custom"]));
    await page.stream.submit(human("Pay"));
    await page.until(({ messages, isLoading }) => messages.length === 4 && !isLoading);
    await page.shows(["Pay", "", "Paid 5.", "Done."]);
    await page.until(({ toolCalls }) => toolCalls[0]?.status === "finished");
    const [call] = page.stream.toolCalls;
    assert.deepEqual([call.name, call.input, call.status], ["pay", { euros: 5 }, "finished"]);
    assert.equal(call.output, "Paid 5.");
    assert.equal(page.stream.messages[1].tool_calls[0].name, "pay");
    await page.until((_, events) => events.length > 0);
    assert.deepEqual(page.more[0].params.data.payload, { paying: 5 });
    page.close();
  },

  async review() {
    const page = await open("desk");
    await page.stream.submit(human("Pay"));
    await page.until(({ interrupts, isLoading }) => interrupts.length === 1 && !isLoading);
    const { value } = page.stream.interrupt;
    // The hook spells keys as JavaScript does.
    assert.equal((value.actionRequests ?? value.action_requests)[0].name, "pay");
    await page.stream.respond(approve);
    await page.until(({ messages, isLoading }) => messages.length === 4 && !isLoading);
    await page.shows(["Pay", "", "Paid 5.", "Done."]);
    assert.deepEqual(page.stream.interrupts, []);
    await page.stream.submit(human("Again"));
    await page.until(({ interrupts }) => interrupts.length === 1);
    const reject = { decisions: [{ type: "reject", message: "Too much." }] };
    await page.stream.respond(reject, { interruptId: page.stream.interrupt.id });
    await page.until(({ messages, isLoading }) => messages.length === 8 && !isLoading);
    await page.shows(["Pay", "", "Paid 5.", "Done.", "Again", "", "Too much.", "Done."]);
    page.close();
  },

  async question() {
    const page = await open("asks");
    await page.stream.submit(human("Hi"));
    await page.until(({ interrupts }) => interrupts.length === 1);
    assert.deepEqual(page.stream.interrupt.value, { about: "it" });
    await page.stream.respond("yes");
    await page.until(({ messages }) => messages.length === 4);
    await page.shows(["Hi", "", "They said yes.", "Done."]);
    page.close();
  },

  async "message instead of an answer"() {
    const page = await open("desk");
    await page.stream.submit(human("Pay"));
    await page.until(({ interrupts, isLoading }) => interrupts.length === 1 && !isLoading);
    await page.stream.submit(human("Wait"));
    await page.until(({ messages, interrupts }) =>
      interrupts.length === 1 && messages.some((message) => message.text === "Wait"));
    assert.equal(page.stream.error, undefined);
    page.close();
  },

  async errors() {
    const page = await open("echo");
    await page.stream.submit(human("fail"));
    await page.until(({ error, isLoading }) => error && !isLoading);
    assert.equal(page.stream.error.message, "the model is out of order");
    // The client reads the end of a run from two connections. It takes a failure that comes late on
    // one of them for one of the next message, and not of the one after that.
    for (const message of ["Hi", "Bye"]) {
      await page.stream.submit(human(message));
      await page.until(({ messages, isLoading }) => !isLoading && texts(messages).includes(`You said: ${message}`));
    }
    assert.equal(page.stream.error, undefined);
    const unknown = await open("nobody");
    await unknown.stream.submit(human("Hi"));
    await unknown.until(({ error }) => error);
    assert.match(unknown.stream.error.message, /assistant 'nobody': does not exist/);
    const unfit = await open("desk");
    await unfit.stream.submit(human("Pay"));
    await unfit.until(({ interrupts, isLoading }) => interrupts.length === 1 && !isLoading);
    await assert.rejects(unfit.stream.respond("yes"), /decisions/);
    assert.ok(unfit.stream.error);
    const wrong = { interruptId: "wrong", namespace: [] };
    await assert.rejects(unfit.stream.respond(approve, wrong), /interrupt 'wrong'/);
    [page, unknown, unfit].forEach((each) => each.close());
  },

  async "tool error"() {
    const page = await open("lender");
    await page.stream.submit(human("Pay"));
    await page.until(({ error, toolCalls }) => error && toolCalls[0]?.status === "error");
    const [call] = page.stream.toolCalls;
    assert.deepEqual([call.status, call.error], ["error", "no money"]);
    page.close();
  },

  async reload() {
    const first = await open("desk");
    await first.stream.submit(human("Pay"));
    await first.until(({ interrupts, isLoading }) => interrupts.length === 1 && !isLoading);
    const { threadId } = first.stream;
    first.close();
    const second = await open("desk", { threadId });
    await second.shows(["Pay", ""]);
    assert.equal(second.stream.interrupts.length, 1);
    const third = await open("desk", { threadId });
    await second.stream.respond(approve, { interruptId: second.stream.interrupt.id });
    for (const page of [second, third]) {
      await page.until(({ messages, isLoading }) => messages.length === 4 && !isLoading);
      await page.shows(["Pay", "", "Paid 5.", "Done."]);
    }
    [second, third].forEach((each) => each.close());
  },

  async stop() {
    let run;
    const page = await open("echo", { onCreated: (created) => (run = created.run_id ?? created.runId) });
    const done = page.stream.submit(human("held"));
    await page.until(() => run);
    const { client, threadId } = page.stream;
    await page.stream.stop();
    await done;
    await page.until(({ isLoading }) => !isLoading);
    assert.equal((await client.runs.get(threadId, run)).status, "interrupted");
    page.close();
  },

  async "edit and regenerate"() {
    const metadata = (stream) => useMessageMetadata(stream, stream.messages.at(-1)?.id);
    const page = await open("echo", {}, metadata);
    await page.stream.submit(human("One"));
    await page.until(({ messages, isLoading }, known) =>
      messages.length === 2 && !isLoading && known?.parentCheckpointId);
    const [, answer] = page.stream.messages;
    await page.stream.submit(null, { forkFrom: page.more.parentCheckpointId });
    await page.until(({ messages, isLoading }) =>
      !isLoading && messages.length === 2 && messages[1].id !== answer.id);
    await page.shows(["One", "You said: One"]);
    const history = await page.stream.client.threads.getHistory(page.stream.threadId);
    const start = history.findLast((state) => state.metadata.source === "input");
    await page.stream.submit(human("Two"), { forkFrom: start.checkpoint.checkpoint_id });
    await page.until(({ messages, isLoading }) => !isLoading && messages.at(-1)?.text === "You said: Two");
    await page.shows(["Two", "You said: Two"]);
    page.close();
  },

  async "inner agent"() {
    const inner = (stream) => {
      const [graph] = [...stream.subgraphs.values()];
      return { graph, messages: texts(useMessages(stream, graph)), calls: useToolCalls(stream, graph) };
    };
    const page = await open("outer", {}, inner);
    await page.stream.submit(human("Pay"));
    await page.until(({ interrupts, isLoading }) => interrupts.length === 1 && !isLoading);
    assert.match(page.stream.interrupt.namespace[0], /^inner:/);
    await page.stream.respond(approve);
    await page.until(({ messages, isLoading }) => messages.length === 4 && !isLoading);
    await page.shows(["Pay", "", "Paid 5.", "Done."]);
    page.close();
  },
});
