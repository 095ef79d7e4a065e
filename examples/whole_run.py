"""A layer around the whole run: a workspace, an apology and an audit, with a review in between.

Run: python examples/whole_run.py

The workspace is free while a person decides. The second request fails, and ends with an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, AgentState, Flow, RunPaused, Task, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.review import approve
from agent_factory.testing import ScriptedChatModel


class Audit(AgentMiddleware):
    """Says what becomes of each run, under one number."""

    runs = 0

    def around_agent(self, state: AgentState[Any], resumed: bool) -> Flow[Any]:
        """Number the run once, and note how each part of it ends."""
        number = yield Task("number", self.next_number)
        print(f"run {number} {'goes on' if resumed else 'starts'}")
        try:
            result = yield state
        except RunPaused:
            print(f"run {number} waits for a person")
            raise
        except BaseException as error:
            print(f"run {number} ends with {type(error).__name__}")
            raise
        print(f"run {number} ends: {result['messages'][-1].text}")
        return result

    def next_number(self) -> int:
        """Count the runs."""
        self.runs += 1
        return self.runs


class Apology(AgentMiddleware):
    """Ends a run that fails with an answer."""

    def around_agent(self, state: AgentState[Any]) -> Flow[Any]:
        """Turn an error into a message."""
        try:
            return (yield state)
        except OSError as error:
            return {"messages": [AIMessage(f"I am sorry: {error}.")]}


class Workspace(AgentMiddleware):
    """Holds a workspace as long as the agent works, and not while it waits."""

    def around_agent(self, state: AgentState[Any]) -> Flow[Any]:
        """Open it around each part of a run."""
        with workspace():
            return (yield state)


@contextmanager
def workspace() -> Iterator[None]:
    print("  workspace opened")
    try:
        yield
    finally:
        print("  workspace released")


def delete(name: str) -> str:
    """Delete a file of the workspace."""
    if name == "/":
        raise OSError("the disk is write-protected")
    return f"{name} is deleted."


def call(name: str, number: int) -> list[dict[str, object]]:
    return [{"name": "delete", "args": {"name": name}, "id": f"call-{number}"}]


def main() -> None:
    model = ScriptedChatModel([call("notes.txt", 1), "It is gone.", call("/", 2)])
    agent = create_agent(
        model,
        [delete],
        middleware=[Audit(), Apology(), Workspace(), HumanInTheLoopMiddleware({"delete": True})],
        checkpointer=InMemorySaver(),
    )
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    for request in ("Delete the notes.", "Now delete everything."):
        agent.invoke({"messages": request}, thread)
        approve(agent, thread)


if __name__ == "__main__":
    main()
