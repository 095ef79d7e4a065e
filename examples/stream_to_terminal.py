"""Stream tokens and state updates to a terminal.

Run: python examples/stream_to_terminal.py [--model local | provider:name]

`messages` streams the tokens of the agent's model; models that middleware call are left out.
`updates` streams what each step wrote.
"""

from __future__ import annotations

from typing import Any

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk

from agent_factory import AgentMiddleware, Flow, InputAgentState, Invoke, ModelRequest, create_agent
from agent_factory.testing import ScriptedChatModel

SCRIPT = [
    [{"name": "find_order", "args": {"order_id": "A-1001"}}],
    "It arrives on Thursday, between nine and noon.",
]
HINTS = {"find_order": ["Where is my order C-12?"]}


class Mood(AgentMiddleware):
    """Asks another model before each call. Its tokens are not in the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.model = ScriptedChatModel(["The customer is calm.", "The customer is calm."])

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        mood = yield Invoke(self.model, "In what mood is the customer?")
        return (yield request.override(system_prompt=f"Help. {mood.text}"))


def find_order(order_id: str) -> str:
    """Look up an order and say where it is."""
    return f"Order {order_id} arrives on Thursday, between nine and noon."


def main(model: BaseChatModel) -> None:
    agent = create_agent(model, [find_order], middleware=[Mood()])
    question: InputAgentState = {
        "messages": [{"role": "user", "content": "Where is my order A-1001?"}]
    }
    for mode, part in agent.stream(question, stream_mode=["messages", "updates"]):
        if mode == "messages":
            show_words(part)
        else:
            print(f"\n[{', '.join(part)}]")


def show_words(part: Any) -> None:
    chunk, _metadata = part
    if isinstance(chunk, AIMessageChunk):
        print(chunk.text, end="", flush=True)


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
