#!/usr/bin/env bash
# langchain 1.5.2 with langgraph 1.2.24 and langchain-core 1.8.3.
#
# A person edits a call in a review that asks in `after_model` (its default mode).
# Expected: the thread has the edited call from then on, as in langchain 1.0.8, so each layer around the tool
# sees the call that runs. Seen: the message keeps the call of the model. The review carries out the edit in
# a layer around the tool, so layers before it in the list see arguments with which the tool does not run,
# layers after it see those of the person, and a trace or an evaluation of the thread reads the call that
# never ran. The result alone tells of the edit, in words.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q langchain==1.5.2 langgraph==1.2.24 langchain-core==1.8.3 2>/dev/null

cat > edits.py <<'PY'
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

seen = []


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **settings):
        return self


class Outside(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        seen.append((type(self).__name__, request.tool_call["args"]["euros"]))
        return handler(request)


class Inside(Outside):
    pass


@tool
def refund(euros: int) -> str:
    """Pay money back."""
    seen.append(("tool", euros))
    return "paid"


call = {"name": "refund", "args": {"euros": 1}, "id": "1"}
agent = create_agent(
    Model(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Done.")])),
    [refund],
    middleware=[Outside(), HumanInTheLoopMiddleware({"refund": True}), Inside()],
    checkpointer=InMemorySaver(),
)
thread = {"configurable": {"thread_id": "1"}}
agent.invoke({"messages": "Refund it."}, thread)
edit = {"type": "edit", "edited_action": {"name": "refund", "args": {"euros": 5}}}
messages = agent.invoke(Command(resume={"decisions": [edit]}), thread)["messages"]
print("seen:", *(f"{name} {euros}," for name, euros in seen))
print("in the thread:", messages[1].tool_calls[0]["args"]["euros"])
print("in the result:", "a human reviewer replaced this tool call" in messages[2].text)
assert seen == [("Outside", 1), ("Inside", 5), ("tool", 5)], seen
assert messages[1].tool_calls[0]["args"] == {"euros": 1}
PY
venv/bin/python -W ignore edits.py
# seen: Outside 1, Inside 5, tool 5,
# in the thread: 1
# in the result: True
