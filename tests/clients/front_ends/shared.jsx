// Agent and thread of a page, which are in its address (?url=http://...#thread); a form for a review.
import { useState } from "react";

const query = new URLSearchParams(location.search);
export const [url, runtimeUrl] = [query.get("url"), query.get("runtime")];
export const isNew = !location.hash;
export const threadId = location.hash.slice(1) || crypto.randomUUID();
location.hash = threadId;

export function Review({ interrupt, answer }) {
  const { tool, args } = interrupt.metadata;
  const [text, setText] = useState(JSON.stringify(args));
  return (
    <section className="review" aria-label="Review">
      <b>{interrupt.message}</b>
      <label>{tool} <input aria-label="Arguments" value={text} onChange={(e) => setText(e.target.value)} /></label>
      <button onClick={() => answer({ approved: true })}>Approve</button>
      <button onClick={() => answer({ approved: true, editedArgs: JSON.parse(text) })}>Approve with changes</button>
      <button onClick={() => answer({ approved: false, message: "Too much." })}>Reject</button>
    </section>
  );
}
