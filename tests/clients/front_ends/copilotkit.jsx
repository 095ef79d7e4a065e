// CopilotKit's chat, over AG-UI without its runtime, or by its runtime (?runtime=http://...).
import { HttpAgent } from "@ag-ui/client";
import {
  CopilotChat, CopilotKitProvider, useAgent, useCopilotKit, useDefaultRenderTool, useInterrupt,
} from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { Review, isNew, runtimeUrl, threadId, url } from "./shared.jsx";
import "./page.css";

const place = runtimeUrl
  ? { runtimeUrl, useSingleEndpoint: true }
  : { agents__unsafe_dev_only: { chat: new HttpAgent({ url, threadId }) } };

// LangGraph's agents ask in an event, and take the decisions of LangChain's review.
function asked({ interrupt, event, resolve }) {
  if (interrupt?.metadata) return { interrupt, answer: resolve };
  const value = interrupt?.value ?? event.value;
  const { action_requests: [{ name: tool, args, description }] } = typeof value === "string" ? JSON.parse(value) : value;
  const answer = ({ approved, editedArgs, message }) => {
    if (editedArgs) return resolve({ decisions: [{ type: "edit", edited_action: { name: tool, args: editedArgs } }] });
    return resolve({ decisions: [approved ? { type: "approve" } : { type: "reject", message }] });
  };
  return { interrupt: { message: description, metadata: { tool, args } }, answer };
}

function Chat() {
  const { copilotkit } = useCopilotKit();
  const { agent } = useAgent({ agentId: "chat" });
  const [edited, setEdited] = useState(null);
  const isConnecting = runtimeUrl && copilotkit.runtimeConnectionStatus !== "connected";
  useInterrupt({
    render: (question) => <Review {...asked(question)} />,
  });
  useDefaultRenderTool({
    render: ({ name, parameters, result }) => (
      <div className="call">{name}({JSON.stringify(parameters)}){result === undefined ? "" : ` → ${result}`}</div>
    ),
  });
  // A reloaded page asks for the thread by a run without messages; the runtime has the thread.
  useEffect(() => { if (!isNew && !runtimeUrl) copilotkit.runAgent({ agent }); }, [copilotkit, agent]);
  // The chat shows a button if it has a function.
  const before = (message) => agent.messages.slice(0, agent.messages.findIndex(({ id }) => id === message.id));
  const go = (messages) => {
    agent.setMessages(messages);
    return copilotkit.runAgent({ agent });
  };
  const save = (event) => {
    event.preventDefault();
    const content = new FormData(event.target).get("text");
    setEdited(null);
    go([...before(edited), { id: crypto.randomUUID(), role: "user", content }]);
  };
  const messageView = {
    assistantMessage: { onRegenerate: (message) => go(before(message)) },
    userMessage: { onEditMessage: ({ message }) => setEdited(message) },
  };
  return (
    <>
      {edited && (
        <form className="composer" onSubmit={save}>
          <input aria-label="Edited message" name="text" defaultValue={edited.content} />
          <button>Save</button>
        </form>
      )}
      {(agent.isRunning || isConnecting) && <i className="busy" />}
      <CopilotChat agentId="chat" threadId={threadId} messageView={messageView} />
    </>
  );
}

createRoot(document.getElementById("root")).render(
  <CopilotKitProvider agentId="chat" {...place}><Chat /></CopilotKitProvider>,
);
