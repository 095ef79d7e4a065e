// Runs the search of the site's theme without a browser: node search_site.mjs WORKER INDEX < queries.
// The queries are a JSON list; the output is a list of the pages that each one finds, best first.
import fs from "node:fs";

const [worker, index] = process.argv.slice(2);
const { config, docs } = JSON.parse(fs.readFileSync(index, "utf8"));
const queries = JSON.parse(fs.readFileSync(0, "utf8"));

let listener;
let answer;
globalThis.self = globalThis;
globalThis.addEventListener = (_, handler) => (listener = handler);
globalThis.postMessage = (message) => answer(message);
const send = (type, data) =>
  new Promise((resolve) => {
    answer = resolve;
    listener({ data: { type, data } });
  });

const [SETUP, QUERY] = [0, 2];

(async () => {
  (0, eval)(fs.readFileSync(worker, "utf8"));
  await send(SETUP, { config, docs, options: { suggest: false } });
  const pages = [];
  for (const query of queries) {
    const { data } = await send(QUERY, query);
    pages.push(data.items.map((group) => group.find((item) => !item.parent).location));
  }
  console.log(JSON.stringify(pages));
})();
