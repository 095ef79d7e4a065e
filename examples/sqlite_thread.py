"""A thread that outlives its process: one process asks for a review, another answers it.

Run: python examples/sqlite_thread.py

It needs the extra `sqlite`. Without arguments it starts itself twice, one
process after the other, with a database file between them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.testing import ScriptedChatModel

THREAD: RunnableConfig = {"configurable": {"thread_id": "order A-1001"}}


def refund(order_id: str) -> str:
    """Refund an order."""
    return f"Order {order_id} was refunded by process {os.getpid()}."


def agent_with(saver: SqliteSaver, script: list[Any]) -> Any:
    review = HumanInTheLoopMiddleware({"refund": True})
    return create_agent(
        ScriptedChatModel(script), [refund], middleware=[review], checkpointer=saver
    )


def ask(database: str) -> None:
    """The first process ends while a review is open."""
    with SqliteSaver.from_conn_string(database) as saver:
        agent = agent_with(saver, [[{"name": "refund", "args": {"order_id": "A-1001"}}]])
        result = agent.invoke(
            {"messages": [{"role": "user", "content": "Refund order A-1001."}]}, THREAD
        )
    waiting = result["__interrupt__"][0].value["action_requests"][0]
    print(f"process {os.getpid()} asks about {waiting['name']} {waiting['args']} and ends")


def answer(database: str) -> None:
    """The second process knows only the id of the thread."""
    with SqliteSaver.from_conn_string(database) as saver:
        agent = agent_with(saver, ["Your money is on its way."])
        print(f"process {os.getpid()} finds {agent.get_state(THREAD).next} waiting and approves")
        result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    for message in result["messages"]:
        message.pretty_print()


def main() -> None:
    with TemporaryDirectory() as folder:
        database = str(Path(folder) / "threads.sqlite")
        for step in ("ask", "answer"):
            subprocess.run([sys.executable, __file__, step, database], check=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ask", database]:
            ask(database)
        case ["answer", database]:
            answer(database)
        case _:
            main()
