// CopilotKit's chat, over AG-UI without its runtime.
import { HttpAgent } from "@ag-ui/client";
import {
  CopilotChat, CopilotKitProvider, useAgent, useCopilotKit, useDefaultRenderTool, useInterrupt,
} from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { Review, isNew, threadId, url } from "./shared.jsx";
import "./page.css";

const agents = { chat: new HttpAgent({ url, threadId }) };

function Chat() {
  const { copilotkit } = useCopilotKit();
  const { agent } = useAgent({ agentId: "chat" });
  const [edited, setEdited] = useState(null);
  useInterrupt({
    render: ({ interrupt, resolve }) => <Review interrupt={interrupt} answer={resolve} />,
  });
  useDefaultRenderTool({
    render: ({ name, parameters, result }) => (
      <div className="call">{name}({JSON.stringify(parameters)}){result === undefined ? "" : ` → ${result}`}</div>
    ),
  });
  // A reloaded page asks for the thread by a run without messages.
  useEffect(() => { if (!isNew) copilotkit.runAgent({ agent }); }, [copilotkit, agent]);
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
      {agent.isRunning && <i className="busy" />}
      <CopilotChat agentId="chat" threadId={threadId} messageView={messageView} />
    </>
  );
}

createRoot(document.getElementById("root")).render(
  <CopilotKitProvider agentId="chat" agents__unsafe_dev_only={agents}><Chat /></CopilotKitProvider>,
);
