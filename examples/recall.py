"""A thread that keeps everything, and a model that reads a large result in pages.

Run: python examples/recall.py

The log has 180,000 characters. The model sees its beginning, and asks for its end. Later the
provider says that the conversation is too long: it is made smaller, and the model is called again.
"""

from __future__ import annotations

from typing import Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent
from agent_factory.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
    ToolResultOffloadMiddleware,
)
from agent_factory.testing import ScriptedChatModel

SCRIPT: list[Any] = [
    [{"name": "read_log", "args": {}, "id": "log"}],
    [{"name": "recall", "args": {"id": "log", "start": 180_000}}],
    "The last entry is a fire in hall 3.",
    ContextOverflowError("the provider says that this is too long"),
    "You are welcome.",
]

SUMMARY = "The user asked for the last entry of the log: a fire in hall 3."


def read_log() -> str:
    """Read the log of the night."""
    return (
        "".join(f"{minute:05} all is well\n" for minute in range(10_000)) + "10000 fire, hall 3\n"
    )


def main() -> None:
    model = ScriptedChatModel(SCRIPT)
    agent = create_agent(
        model,
        [read_log],
        middleware=[
            ToolResultOffloadMiddleware(preview=36),
            ContextEditingMiddleware(edits=[ClearToolUsesEdit(keep=0)]),
            SummarizationMiddleware(ScriptedChatModel([SUMMARY]), trigger=("tokens", 50_000)),
        ],
        checkpointer=InMemorySaver(),
        decisions=lambda made: "overflow" in made.reason and print(f"({made.reason})"),
    )
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    for line in ("What happened last?", "Thank you!"):
        result: Any = agent.invoke({"messages": [{"role": "user", "content": line}]}, thread)
        print("--- the model sees")
        for message in model.requests[-1].messages:
            print(f"{message.type}: {message.text}")
        print(f"ai: {result['messages'][-1].text}")
    print("--- the thread keeps")
    for message in result["messages"]:
        print(f"{message.type}: {len(message.text)} characters")


if __name__ == "__main__":
    main()
