// assistant-ui, from its primitives, over AG-UI.
import { HttpAgent } from "@ag-ui/client";
import {
  ActionBarPrimitive as Actions, AssistantRuntimeProvider, BranchPickerPrimitive as Branches,
  ComposerPrimitive as Composer, ErrorPrimitive, ExportedMessageRepository, MessagePrimitive as Message,
  ThreadPrimitive as Thread,
} from "@assistant-ui/react";
import {
  fromAgUiMessages, useAgUiInterrupts, useAgUiRuntime, useAgUiSubmitInterruptResponses,
} from "@assistant-ui/react-ag-ui";
import { Fragment, useState } from "react";
import { createRoot } from "react-dom/client";
import { Review, isNew, threadId, url } from "./shared.jsx";
import "./page.css";

const agent = new HttpAgent({ url, threadId });
// A reloaded page asks for the thread by a run without messages. Messages alone bring no interrupts.
const history = {
  load: async () => {
    if (isNew) return { messages: [] };
    const reader = new HttpAgent({ url, threadId });
    await reader.runAgent();
    const agui = { interrupts: reader.pendingInterrupts };
    reader.messages.at(-1).metadata = { custom: { agui } };
    return ExportedMessageRepository.fromArray(fromAgUiMessages(reader.messages));
  },
  append: async () => {},
};

const Call = ({ toolName, argsText, result }) => (
  <div className="call">{toolName}({argsText}){result === undefined ? "" : ` → ${result}`}</div>
);
const parts = { tools: { Fallback: Call } };
const Picker = () => (
  <Branches.Root hideWhenSingleBranch>
    <Branches.Previous aria-label="Previous">‹</Branches.Previous>
    <Branches.Number />/<Branches.Count />
    <Branches.Next aria-label="Next">›</Branches.Next>
  </Branches.Root>
);
const User = () => (
  <Message.Root className="user">
    <Message.Parts />
    <Actions.Root><Actions.Edit>Edit</Actions.Edit></Actions.Root>
    <Picker />
  </Message.Root>
);
const Assistant = () => (
  <Message.Root className="assistant">
    <Message.Parts components={parts} />
    <Message.Error><ErrorPrimitive.Root><ErrorPrimitive.Message /></ErrorPrimitive.Root></Message.Error>
    <Actions.Root hideWhenRunning><Actions.Reload>Regenerate</Actions.Reload></Actions.Root>
    <Picker />
  </Message.Root>
);
const Edited = () => (
  <Composer.Root className="user">
    <Composer.Input aria-label="Edited message" />
    <Composer.Send>Save</Composer.Send>
  </Composer.Root>
);

function Reviews() {
  const submit = useAgUiSubmitInterruptResponses();
  return useAgUiInterrupts().map((interrupt) => (
    <Review key={interrupt.id} interrupt={interrupt}
      answer={(payload) => submit([{ interruptId: interrupt.id, status: "resolved", payload }])} />
  ));
}

function Page() {
  const [error, setError] = useState("");
  const runtime = useAgUiRuntime({ agent, adapters: { history }, onError: (e) => setError(e.message) });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Thread.Root>
        <Thread.Viewport>
          <Thread.Messages
            components={{ UserMessage: User, AssistantMessage: Assistant, UserEditComposer: Edited }} />
          <Reviews />
          <output>{error}</output>
        </Thread.Viewport>
        <Composer.Root className="composer">
          <Composer.Input aria-label="Message" />
          <Thread.If running={false}><Composer.Send>Send</Composer.Send></Thread.If>
          <Thread.If running><Composer.Cancel className="busy">Stop</Composer.Cancel></Thread.If>
        </Composer.Root>
      </Thread.Root>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById("root")).render(<Page />);
