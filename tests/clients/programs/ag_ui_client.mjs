// AG-UI's own client.
import assert from "node:assert/strict";
import { HttpAgent, buildResumeArray } from "@ag-ui/client";
import { run, until, url } from "./checks.mjs";

const PAY = 'call pay {"euros": 5}';
const LOOK = 'call look {"order": "A1"}';
const ROLES = ["user", "assistant", "tool", "assistant"];

const open = (name, more = {}) => new HttpAgent({ url: `${url}/ag-ui/${name}`, ...more });
const user = (content) => ({ id: crypto.randomUUID(), role: "user", content });
const say = (agent, content) => agent.addMessage(user(content));
const texts = (agent) => agent.messages.map((message) => message.content);
const roles = (agent) => agent.messages.map((message) => message.role);
const answer = (agent, payload) =>
  buildResumeArray(agent.pendingInterrupts, { [agent.pendingInterrupts[0].id]: { status: "resolved", payload } });

await run({
  async chat() {
    const agent = open("desk");
    const pieces = [];
    say(agent, "Hi there");
    await agent.runAgent({}, { onTextMessageContentEvent: ({ event }) => void pieces.push(event.delta) });
    assert.ok(pieces.length > 1, "the answer comes in pieces");
    assert.equal(pieces.join(""), "You said: Hi there");
    assert.deepEqual(texts(agent), ["Hi there", "You said: Hi there"]);
  },

  async turns() {
    const agent = open("desk");
    await agent.runAgent();
    assert.deepEqual(texts(agent), [], "a thread that has not begun is read, too");
    say(agent, "One");
    await agent.runAgent();
    say(agent, "Two");
    const { newMessages } = await agent.runAgent();
    assert.deepEqual(newMessages.map((message) => message.content), ["You said: Two"]);
    assert.deepEqual(texts(agent), ["One", "You said: One", "Two", "You said: Two"]);
    await agent.runAgent();
    assert.equal(agent.messages.length, 4, "nothing new: nothing happens");
    const other = open("desk", { threadId: agent.threadId });
    await other.runAgent();
    assert.deepEqual(texts(other), texts(agent), "another client reads the thread");
  },

  async regenerate() {
    const agent = open("desk");
    say(agent, "One");
    await agent.runAgent();
    const [question, old] = agent.messages;
    agent.setMessages([question]);
    await agent.runAgent();
    assert.deepEqual(texts(agent), ["One", "You said: One"]);
    assert.notEqual(agent.messages[1].id, old.id, "the answer is a new one");
  },

  async edit() {
    const agent = open("desk");
    say(agent, "One");
    await agent.runAgent();
    say(agent, "Two");
    await agent.runAgent();
    agent.setMessages([...agent.messages.slice(0, 2), user("Other")]);
    await agent.runAgent();
    assert.deepEqual(texts(agent), ["One", "You said: One", "Other", "You said: Other"]);
  },

  async "tool call"() {
    const agent = open("desk");
    const seen = [];
    say(agent, LOOK);
    await agent.runAgent({}, {
      onToolCallEndEvent: ({ toolCallName, toolCallArgs }) => void seen.push([toolCallName, toolCallArgs]),
      onToolCallResultEvent: ({ event }) => void seen.push(event.content),
      onCustomEvent: ({ event }) => void seen.push([event.name, event.value]),
    });
    assert.deepEqual(seen, [["look", { order: "A1" }], ["looking", "A1"], "Order A1 is on its way."]);
    assert.deepEqual(roles(agent), ROLES);
  },

  async "tools of the page"() {
    const agent = open("page");
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
    say(agent, `call title {}\n${LOOK}\ncall scroll {"to": 7}`);
    await agent.runAgent({ tools }, subscriber);
    assert.deepEqual(agent.pendingInterrupts, [], "the page runs its calls, and is not asked");
    // As a front end does: it runs the calls that have no result and are its own, one by one.
    const done = new Set(agent.messages.map((message) => message.toolCallId));
    const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
    const mine = calls.filter((call) => call.function.name !== "look" && !done.has(call.id));
    assert.deepEqual(mine.map((call) => [call.function.name, call.function.arguments]), [
      ["title", "{}"],
      ["scroll", '{"to": 7}'],
    ]);
    for (const call of mine) {
      agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call.id, content: "ok" });
    }
    await agent.runAgent({ tools }, subscriber);
    assert.deepEqual(outcomes, ["success", "success"]);
    assert.deepEqual(results, ["Order A1 is on its way."], "its own results are not sent back");
    assert.equal(agent.messages.at(-1).content, "Done: ok");
    assert.deepEqual(roles(agent), ["user", "assistant", "tool", "tool", "tool", "assistant"]);
    const other = open("page", { threadId: agent.threadId });
    await other.runAgent({ tools });
    // The client keeps the order in which results came; the thread has that of the calls.
    assert.deepEqual(texts(other).sort(), texts(agent).sort(), "another client reads the thread");
  },

  async "reload with tools of the page"() {
    const tools = [{ name: "title", description: "The title.", parameters: { type: "object" } }];
    const agent = open("page");
    say(agent, "call title {}");
    await agent.runAgent({ tools });
    const other = open("page", { threadId: agent.threadId });
    await other.runAgent({ tools });
    const [call] = other.messages.at(-1).toolCalls;
    other.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call.id, content: "", error: "No page." });
    await other.runAgent({ tools });
    assert.equal(other.messages.at(-1).content, "Done: No page.");
  },

  async state() {
    const agent = open("desk");
    const seen = [];
    say(agent, 'call write {"text": "Tea at five."}');
    await agent.runAgent({}, {
      onStateDeltaEvent: ({ event }) => void seen.push(event.delta[0].value),
    });
    assert.deepEqual(seen, ["Tea at five."]);
    assert.deepEqual(agent.state, { note: "Tea at five." });
    agent.setState({ note: "Mine." });
    say(agent, "Hi");
    await agent.runAgent();
    assert.deepEqual(agent.state, { note: "Mine." });
  },

  async reasoning() {
    const agent = open("desk");
    const pieces = [];
    say(agent, "think");
    await agent.runAgent({}, { onReasoningMessageContentEvent: ({ event }) => void pieces.push(event.delta) });
    assert.deepEqual(pieces, ["Hm."]);
    assert.deepEqual(roles(agent), ["user", "reasoning", "assistant"]);
    say(agent, "think");
    await agent.runAgent();
    assert.equal(agent.messages.length, 6);
  },

  async review() {
    const agent = open("desk");
    const outcomes = [];
    const subscriber = { onRunFinishedEvent: ({ outcome }) => void outcomes.push(outcome) };
    say(agent, PAY);
    await agent.runAgent({}, subscriber);
    const [asked] = agent.pendingInterrupts;
    assert.equal(asked.reason, "tool_call");
    assert.equal(asked.toolCallId, agent.messages.at(-1).toolCalls[0].id);
    await assert.rejects(agent.runAgent(), /not addressed by resume/);
    await agent.runAgent({ resume: answer(agent, { approved: true, editedArgs: { euros: 3 } }) }, subscriber);
    assert.deepEqual(outcomes, ["interrupt", "success"]);
    assert.deepEqual(agent.pendingInterrupts, []);
    assert.deepEqual(roles(agent), ROLES);
    assert.match(agent.messages[2].content, /^Paid 3\./);
  },

  async question() {
    const agent = open("desk");
    say(agent, 'call ask {"about": "tea"}');
    await agent.runAgent();
    await agent.runAgent({ resume: answer(agent, "yes") });
    assert.equal(texts(agent).at(-1), "Done: They said yes.");
  },

  async "a question abandoned"() {
    const agent = open("desk");
    const outcomes = [];
    say(agent, 'call ask {"about": "tea"}');
    await agent.runAgent();
    const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" }));
    await agent.runAgent({ resume }, { onRunFinishedEvent: ({ outcome }) => void outcomes.push(outcome) });
    assert.deepEqual(outcomes, ["cancelled"]);
  },

  async failure() {
    const agent = open("desk");
    const errors = [];
    say(agent, "fail");
    await agent.runAgent({}, { onRunErrorEvent: ({ event }) => void errors.push([event.code, event.message]) })
      .catch(() => {});
    assert.deepEqual(errors, [["ValueError", "the model is out of order"]]);
    const wrong = open("nobody");
    say(wrong, "Hi");
    await assert.rejects(wrong.runAgent(), /404|There is no agent/);
  },

  async cancel() {
    const agent = open("desk");
    say(agent, "wait");
    await agent.runAgent({}, { onRunStartedEvent: () => agent.abortRun() }).catch(() => {});
    const runs = async () => (await fetch(`${url}/threads/${agent.threadId}/runs`)).json();
    await until(async () => (await runs())[0].status === "interrupted", "the run is cancelled");
  },
});
