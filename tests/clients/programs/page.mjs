// A page in jsdom that shows the conversation of one of LangChain's hooks for React.
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { JSDOM } from "jsdom";
import { url } from "./checks.mjs";

const { window } = new JSDOM("<main></main>", { url });
for (const each of ["document", "navigator"]) {
  Object.defineProperty(globalThis, each, { value: window[each], configurable: true });
}
globalThis.window = window;

const { createElement } = await import("react");
const { createRoot } = await import("react-dom/client");

export const human = (content) => ({ messages: [{ type: "human", content }] });

// Messages of the newest hook have a text, those of the older hook are plain JSON.
const text = ({ text, content }) =>
  text ?? (Array.isArray(content) ? content.map((block) => block.text ?? "").join("") : content);
export const texts = (messages) => messages.map(text);

// `page.stream` and `page.more` are what `useConversation` returned at the last render.
export async function open(useConversation) {
  const page = {};
  const Chat = () => {
    Object.assign(page, useConversation());
    return createElement("ol", null, page.stream.messages.map((message, index) =>
      createElement("li", { key: message.id ?? index }, text(message))));
  };
  const main = document.createElement("main");
  const root = createRoot(main);
  root.render(createElement(Chat));
  page.shown = () => [...main.querySelectorAll("li")].map((item) => item.textContent);
  page.close = () => root.unmount();
  page.until = async (condition) => {
    const end = Date.now() + 20_000;
    while (!(page.stream && condition(page.stream, page.more))) {
      const { stream, more } = page;
      const seen = JSON.stringify({ texts: texts(stream?.messages ?? []), isLoading: stream?.isLoading,
        interrupts: stream?.interrupts, error: String(stream?.error), more });
      assert.ok(Date.now() < end, `not in 20 s: ${condition}; seen: ${seen}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  // The hooks read the ends of runs and what they say from two connections.
  page.shows = (expected) => page.until(() => isDeepStrictEqual(page.shown(), expected));
  await page.until((stream) => !stream.isThreadLoading);
  return page;
}
