// The flows of AG-UI's own client: node ag_ui_client.mjs URL FLOW
import assert from "node:assert/strict";
import { HttpAgent, buildResumeArray } from "@ag-ui/client";

const [url, flow] = process.argv.slice(2);

const agentOf = (name, more = {}) => new HttpAgent({ url: `${url}/ag-ui/${name}`, ...more });
const say = (agent, content) =>
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
const texts = (agent) => agent.messages.map((message) => message.content);

const flows = {
  async text() {
    const agent = agentOf("echo");
    const pieces = [];
    say(agent, "Hi there");
    await agent.runAgent({}, { onTextMessageContentEvent: ({ event }) => void pieces.push(event.delta) });
    assert.ok(pieces.length > 1, "the answer comes in pieces");
    assert.equal(pieces.join(""), "You said: Hi there");
    assert.deepEqual(texts(agent), ["Hi there", "You said: Hi there"]);
  },

  async twoRuns() {
    const agent = agentOf("echo");
    say(agent, "One");
    await agent.runAgent();
    say(agent, "Two");
    const { newMessages } = await agent.runAgent();
    assert.deepEqual(newMessages.map((message) => message.content), ["You said: Two"]);
    assert.deepEqual(texts(agent), ["One", "You said: One", "Two", "You said: Two"]);
    await agent.runAgent();
    assert.equal(agent.messages.length, 4, "nothing new: nothing happens");
    const other = agentOf("echo", { threadId: agent.threadId });
    await other.runAgent();
    assert.deepEqual(texts(other), texts(agent), "another client reads the thread");
  },

  async tools() {
    const agent = agentOf("payer");
    const seen = [];
    say(agent, "Pay");
    await agent.runAgent({}, {
      onToolCallEndEvent: ({ toolCallName, toolCallArgs }) => void seen.push([toolCallName, toolCallArgs]),
      onToolCallResultEvent: ({ event }) => void seen.push(event.content),
      onCustomEvent: ({ event }) => void seen.push([event.name, event.value]),
    });
    assert.deepEqual(seen, [["pay", { euros: 5 }], ["paying", 5], "Paid 5."]);
    assert.deepEqual(agent.messages.map((message) => message.role), ["user", "assistant", "tool", "assistant"]);
  },

  async clientTools() {
    const agent = agentOf("page");
    const parameters = { type: "object", properties: { to: { type: "integer" } } };
    const tools = [
      { name: "title", description: "The title of the page.", parameters: { type: "object" } },
      { name: "scroll", description: "Scroll to a line.", parameters },
    ];
    const outcomes = [];
    const results = [];
    const subscriber = {
      onRunFinishedEvent: ({ outcome }) => void outcomes.push(outcome),
      onToolCallResultEvent: ({ event }) => void results.push(event.content),
    };
    say(agent, "title pay scroll");
    await agent.runAgent({ tools }, subscriber);
    assert.deepEqual(agent.pendingInterrupts, [], "the page runs its calls, and is not asked");
    // As a front end does: it runs the calls that have no result and are its own, one by one.
    const done = new Set(agent.messages.map((message) => message.toolCallId));
    const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
    const mine = calls.filter((call) => call.function.name !== "pay" && !done.has(call.id));
    assert.deepEqual(mine.map((call) => [call.function.name, call.function.arguments]), [
      ["title", "{}"],
      ["scroll", '{"to": 7}'],
    ]);
    for (const call of mine) {
      agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call.id, content: "ok" });
    }
    await agent.runAgent({ tools }, subscriber);
    assert.deepEqual(outcomes, ["success", "success"]);
    assert.deepEqual(results, ["Paid 5."], "its own results are not sent back");
    assert.equal(agent.messages.at(-1).content, "Done: title=ok, pay=Paid 5., scroll=ok");
    const roles = ["user", "assistant", "tool", "tool", "tool", "assistant"];
    assert.deepEqual(agent.messages.map((message) => message.role), roles);
    const other = agentOf("page", { threadId: agent.threadId });
    await other.runAgent({ tools });
    // The client keeps the order in which results came; the thread has that of the calls.
    assert.deepEqual(texts(other).sort(), texts(agent).sort(), "another client reads the thread");
  },

  async clientToolsReload() {
    const tools = [{ name: "title", description: "The title.", parameters: { type: "object" } }];
    const agent = agentOf("page");
    say(agent, "title");
    await agent.runAgent({ tools });
    const other = agentOf("page", { threadId: agent.threadId });
    await other.runAgent({ tools });
    const [call] = other.messages.at(-1).toolCalls;
    other.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call.id, content: "", error: "No page." });
    await other.runAgent({ tools });
    assert.equal(other.messages.at(-1).content, "Done: title=No page.");
  },

  async state() {
    const agent = agentOf("notes");
    const seen = [];
    say(agent, "Note it");
    await agent.runAgent({}, {
      onStateDeltaEvent: ({ event }) => void seen.push(event.delta[0].value),
    });
    assert.deepEqual(seen, ["Tea at five."]);
    assert.deepEqual(agent.state, { note: "Tea at five." });
    agent.setState({ note: "Mine." });
    say(agent, "Again");
    await agent.runAgent();
    assert.deepEqual(agent.state, { note: "Tea at five." });
  },

  async reasoning() {
    const agent = agentOf("thinker");
    const pieces = [];
    say(agent, "Hi");
    await agent.runAgent({}, { onReasoningMessageContentEvent: ({ event }) => void pieces.push(event.delta) });
    assert.deepEqual(pieces, ["Hm."]);
    assert.deepEqual(agent.messages.map((message) => message.role), ["user", "reasoning", "assistant"]);
    say(agent, "And?");
    await agent.runAgent();
    assert.equal(agent.messages.length, 6);
  },

  async interrupt() {
    const agent = agentOf("desk");
    const outcomes = [];
    const subscriber = { onRunFinishedEvent: ({ outcome }) => void outcomes.push(outcome) };
    say(agent, "Pay");
    await agent.runAgent({}, subscriber);
    const [asked] = agent.pendingInterrupts;
    assert.equal(asked.reason, "tool_call");
    assert.equal(asked.toolCallId, agent.messages.at(-1).toolCalls[0].id);
    await assert.rejects(agent.runAgent(), /not addressed by resume/);
    const payload = { approved: true, editedArgs: { euros: 3 } };
    const resume = buildResumeArray([asked], { [asked.id]: { status: "resolved", payload } });
    await agent.runAgent({ resume }, subscriber);
    assert.deepEqual(outcomes, ["interrupt", "success"]);
    assert.deepEqual(agent.pendingInterrupts, []);
    assert.deepEqual(agent.messages.map((message) => message.role), ["user", "assistant", "tool", "assistant"]);
    assert.match(agent.messages[2].content, /^Paid 3\./);
  },

  async abandon() {
    const agent = agentOf("asker");
    const outcomes = [];
    say(agent, "Ask");
    await agent.runAgent();
    const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" }));
    await agent.runAgent({ resume }, { onRunFinishedEvent: ({ outcome }) => void outcomes.push(outcome) });
    assert.deepEqual(outcomes, ["cancelled"]);
  },

  async error() {
    const agent = agentOf("echo");
    const errors = [];
    say(agent, "fail");
    await agent.runAgent({}, { onRunErrorEvent: ({ event }) => void errors.push([event.code, event.message]) })
      .catch(() => {});
    assert.deepEqual(errors, [["ValueError", "the model is out of order"]]);
    const wrong = agentOf("nobody");
    say(wrong, "Hi");
    await assert.rejects(wrong.runAgent(), /404|There is no agent/);
  },

  async cancel() {
    const agent = agentOf("echo");
    say(agent, "held");
    await agent.runAgent({}, { onRunStartedEvent: () => agent.abortRun() }).catch(() => {});
    console.log(agent.threadId);
  },
};

await flows[flow]();
