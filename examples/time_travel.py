"""Go back to an earlier checkpoint of a thread, decide differently, and keep both branches.

Run: python examples/time_travel.py

It needs the extra `sqlite`. Every step of a run is a checkpoint in a database
file. A config with the id of a checkpoint refers to it, and a decision there starts a branch.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver

from agent_factory import create_agent
from agent_factory.review import approve, edit, pending, reject
from agent_factory.testing import ScriptedChatModel

THREAD: RunnableConfig = {"configurable": {"thread_id": "order A-1001"}}

SCRIPT = [
    [{"name": "refund", "args": {"order_id": "A-1001", "euros": 90}}],
    "You get 90 euros back.",
    "I am sorry, we do not refund lamps.",
    "You get 45 euros back.",
]


def refund(order_id: str, euros: int) -> str:
    """Pay money back for an order."""
    return f"{euros} euros were paid back for order {order_id}."


def agent_with(saver: SqliteSaver) -> Any:
    return create_agent(
        ScriptedChatModel(SCRIPT), [refund], checkpointer=saver, interrupt_before=["tools"]
    )


def checkpoint_of_review(agent: Any) -> RunnableConfig:
    """The oldest checkpoint of the thread at which a call was pending."""
    paused = [state for state in agent.get_state_history(THREAD) if state.next == ("tools",)]
    config: RunnableConfig = paused[-1].config
    return config


def show(title: str, result: Any) -> None:
    print(f"{title}: {' | '.join(m.text for m in result['messages'] if m.text)}")


def main() -> None:
    with TemporaryDirectory() as folder:
        database = str(Path(folder) / "threads.sqlite")
        with SqliteSaver.from_conn_string(database) as saver:
            agent = agent_with(saver)
            agent.invoke({"messages": [{"role": "user", "content": "90 euros, please."}]}, THREAD)
            print(f"pending: {pending(agent, THREAD).calls[0].args}")
            show("approved", approve(agent, THREAD))

            checkpoint = checkpoint_of_review(agent)
            show("rejected", reject(agent, checkpoint, "No refunds for lamps."))
            args = {"order_id": "A-1001", "euros": 45}
            show("edited", edit(agent, checkpoint, args))

            history = list(agent.get_state_history(THREAD))
            ends = [state for state in history if not state.next]
            print(f"{len(history)} checkpoints are kept, {len(ends)} of them ends of a run")
            show("the thread goes on from", ends[0].values)


if __name__ == "__main__":
    main()
