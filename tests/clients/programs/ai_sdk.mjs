// The transport of the AI SDK for deployments of LangGraph, and its messages for a page.
import { LangSmithDeploymentTransport } from "@ai-sdk/langchain";
import { readUIMessageStream } from "ai";
import { run, url } from "./checks.mjs";

const user = (text) => ({ id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] });

// The types and texts of the chunks, and the parts of the message that a page shows.
async function ask(graphId, ...messages) {
  const transport = new LangSmithDeploymentTransport({ url, graphId });
  const stream = await transport.sendMessages({ trigger: "submit-message", chatId: crypto.randomUUID(), messages });
  const [chunks, shown] = stream.tee();
  const types = [];
  const reading = (async () => {
    for await (const { type, delta, toolName, output, errorText } of chunks) {
      const entry = [type, toolName ?? output ?? errorText ?? null];
      if (delta === undefined || types.at(-1)?.[0] !== type) types.push(entry);
    }
  })();
  let message;
  for await (const each of readUIMessageStream({ stream: shown, onError: () => {} })) message = each;
  await reading;
  return { types, parts: message?.parts?.map(({ type, text, state, input, output }) => ({ type, text, state, input, output })) };
}

await run({
  chat: () => ask("desk", user("Hi you")),
  "tool call": () => ask("desk", user('call look {"order": "A1"}')),
  "model with own ids": () => ask("ids", user('call look {"order": "A1"}')),
  review: () => ask("desk", user('call pay {"euros": 5}')),
  failure: () => ask("desk", user("fail")),
  "an agent inside": () => ask("outer", user('call look {"order": "A1"}')),
  conversation: () => ask("desk", user("Hi"),
    { id: crypto.randomUUID(), role: "assistant", parts: [{ type: "text", text: "You said: Hi" }] }, user("More")),
});
