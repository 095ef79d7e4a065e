// A2A's client for JavaScript.
import assert from "node:assert/strict";
import { Role, TaskState } from "@a2a-js/sdk";
import { ClientFactory } from "@a2a-js/sdk/client";
import { all, run, until, url } from "./checks.mjs";

const PAY = 'call pay {"euros": 5}';
const client = await new ClientFactory().createFromUrl(`${url}/a2a/desk/`);

const message = (text, more = {}) => ({
  message: { messageId: crypto.randomUUID(), role: Role.ROLE_USER, parts: [{ content: { $case: "text", value: text } }], ...more },
});
const send = (text, more, configuration) => client.sendMessage({ ...message(text, more), configuration });
const state = (task) => task.status.state;
const text = (task) => task.artifacts[0].parts[0].content.value;

await run({
  async "card by an address without a slash"() {
    const other = await new ClientFactory().createFromUrl(`${url}/a2a/desk`);
    assert.equal((await other.getAgentCard()).name, "desk");
  },

  async card() {
    const card = await client.getAgentCard();
    assert.equal(card.name, "desk");
    assert.equal(card.capabilities.streaming, true);
  },

  async message() {
    const task = await send("Hi");
    assert.equal(state(task), TaskState.TASK_STATE_COMPLETED);
    assert.equal(text(task), "You said: Hi");
    const next = await send("More", { contextId: task.contextId });
    assert.equal(next.contextId, task.contextId);
    assert.notEqual(next.id, task.id);
  },

  async stream() {
    const parts = await all(client.sendMessageStream(message("Hi you")));
    const artifacts = parts.filter((part) => part.payload?.$case === "artifactUpdate").map((part) => part.payload.value);
    const words = artifacts.flatMap(({ artifact }) => artifact.parts.map((part) => part.content.value));
    assert.equal(words.join(""), "You said: Hi you");
    const last = parts.filter((part) => part.payload?.$case === "statusUpdate").at(-1);
    assert.equal(state(last.payload.value), TaskState.TASK_STATE_COMPLETED);
  },

  async review() {
    const task = await send(PAY);
    assert.equal(state(task), TaskState.TASK_STATE_INPUT_REQUIRED);
    const paid = await send("approve", { taskId: task.id, contextId: task.contextId });
    assert.equal(state(paid), TaskState.TASK_STATE_COMPLETED);
    assert.equal(text(paid), "Done: Paid 5.");
  },

  async question() {
    const task = await send('call ask {"about": "tea"}');
    const told = await send("yes", { taskId: task.id, contextId: task.contextId });
    assert.equal(text(told), "Done: They said yes.");
  },

  async failure() {
    const task = await send("fail");
    assert.equal(state(task), TaskState.TASK_STATE_FAILED);
  },

  async "get; cancel; list"() {
    const task = await send("wait", {}, { returnImmediately: true });
    assert.equal((await client.getTask({ id: task.id })).id, task.id);
    const cancelled = await client.cancelTask({ id: task.id });
    await until(async () => state(await client.getTask({ id: task.id })) === TaskState.TASK_STATE_CANCELED, "the task is cancelled");
    const { tasks } = await client.listTasks({ contextId: cancelled.contextId });
    assert.deepEqual(tasks.map((each) => each.id), [task.id]);
    await assert.rejects(client.getTask({ id: "nobody" }));
  },
});
