"""Say something to an agent while it runs, from another thread, and stop it.

Run: python examples/steering.py [--model local | provider:name]

The agent reads pages of a report. Meanwhile the user asks for a shorter answer, and for a mail when
it is done. The tool sees that something waits, and ends early. Then a second run is cancelled.
"""

from __future__ import annotations

from threading import Event, Thread
from time import sleep
from typing import Any

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import ToolRuntime, create_agent
from agent_factory.middleware import SteeringMiddleware, cancel, follow_up, steer, unread

THREAD: Any = {"configurable": {"thread_id": "report"}}
READ = [{"name": "read_report", "args": {"pages": 500}}]
SCRIPT: list[Any] = [READ, "Sales grew by 4 %.", "The mail is written.", READ]
HINTS = {"read_report": ["What does the report of 500 pages say?"]}

reading = Event()


def read_report(pages: int, runtime: ToolRuntime) -> str:
    """Read the pages of the report, until the user says something."""
    for page in range(1, pages + 1):
        reading.set()
        sleep(0.02)  # a page takes a while
        if unread(runtime):
            return f"Stopped before page {page + 1}."
    return "All pages are read."


def main(model: BaseChatModel) -> None:
    agent: Any = create_agent(
        model,
        [read_report],
        middleware=[SteeringMiddleware()],
        checkpointer=InMemorySaver(),
    )

    def interrupt_with(*sends: Any) -> Thread:
        def wait_and_send() -> None:
            reading.wait()
            for send in sends:
                send()

        reading.clear()
        thread = Thread(target=wait_and_send)
        thread.start()
        return thread

    user = interrupt_with(
        lambda: follow_up(agent, THREAD, "Then write a mail."),
        lambda: steer(agent, THREAD, "One sentence is enough."),
    )
    result = agent.invoke({"messages": "What does the report of 500 pages say?"}, THREAD)
    user.join()
    count = len(result["messages"])
    for message in result["messages"]:
        print(f"{message.type:>6}: {message.text or 'calls read_report'}")

    print("\nA second run, which the user cancels:")
    user = interrupt_with(lambda: cancel(agent, THREAD))
    result = agent.invoke({"messages": "Read the report of 500 pages again."}, THREAD)
    user.join()
    for message in result["messages"][count:]:
        print(f"{message.type:>6}: {message.text or 'calls read_report'}")


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
