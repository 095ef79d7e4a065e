// AG-UI's agent for LangGraph's API, which CopilotKit uses.
import { LangGraphAgent } from "@ag-ui/langgraph";
import { run, url } from "./checks.mjs";

const PAY = 'call pay {"euros": 5}';
const LOOK = 'call look {"order": "A1"}';
const user = (content) => ({ id: crypto.randomUUID(), role: "user", content });

function open(graphId, threadId = crypto.randomUUID()) {
  return new LangGraphAgent({ deploymentUrl: url, graphId, threadId });
}

// The events of a run: names of steps and texts, without the snapshots in between.
async function events(agent, options = {}) {
  const seen = [];
  const subscriber = {
    onEvent: ({ event }) => {
      const { type } = event;
      if (/STEP|RAW|SNAPSHOT|CONTENT|ARGS/.test(type)) return;
      seen.push([type, event.toolCallName ?? event.content ?? event.message ?? event.name ?? null]);
    },
  };
  await agent.runAgent(options, subscriber).catch((error) => seen.push(["rejected", String(error.message)]));
  const messages = agent.messages.map(({ role, content, toolCalls }) =>
    ({ role, content: content ?? "", calls: (toolCalls ?? []).map((call) => [call.function.name, call.function.arguments]) }));
  return { seen, messages };
}
async function say(agent, content, options) {
  agent.addMessage(user(content));
  return events(agent, options);
}
const resume = (value) => ({ forwardedProps: { command: { resume: value } } });
const approve = resume({ decisions: [{ type: "approve" }] });

await run({
  async chat() {
    const agent = open("desk");
    return [await say(agent, "Hi"), await say(agent, "More")];
  },

  "tool call shown once": () => say(open("desk"), LOOK),
  "model with own ids": () => say(open("ids"), LOOK),

  async review() {
    const agent = open("desk");
    return { asked: await say(agent, PAY), paid: await events(agent, approve), next: await say(agent, "Hi") };
  },

  async "review rejected"() {
    const agent = open("desk");
    await say(agent, PAY);
    return events(agent, resume({ decisions: [{ type: "reject", message: "Too much." }] }));
  },

  async "review answered by resume"() {
    const agent = open("desk");
    await say(agent, PAY);
    const { interrupts } = await (await fetch(`${url}/threads/${agent.threadId}`)).json();
    const [{ id }] = Object.values(interrupts).flat();
    return events(agent, { resume: [{ interruptId: id, status: "resolved", payload: approve.forwardedProps.command.resume }] });
  },

  async question() {
    const agent = open("desk");
    return { asked: await say(agent, 'call ask {"about": "tea"}'), told: await events(agent, resume("yes")) };
  },

  async regenerate() {
    const agent = open("desk");
    await say(agent, "One");
    await say(agent, "Two");
    agent.setMessages(agent.messages.slice(0, 3));
    return events(agent);
  },

  async edit() {
    const agent = open("desk");
    await say(agent, "One");
    await say(agent, "Two");
    agent.setMessages([...agent.messages.slice(0, 2), user("Other")]);
    return events(agent);
  },

  async failure() {
    const agent = open("desk");
    return [await say(agent, "fail"), await say(agent, "Hi")];
  },

  async "an agent inside"() {
    const agent = open("outer");
    return [await say(agent, LOOK), await say(agent, PAY), await events(agent, approve)];
  },

  async reload() {
    const first = open("desk");
    await say(first, "Hi");
    const second = open("desk", first.threadId);
    second.setMessages(first.messages);
    return say(second, "More");
  },

  configuration: () => say(open("desk"), "Hi", { forwardedProps: { config: { configurable: { shop: "north" } } } }),
});
