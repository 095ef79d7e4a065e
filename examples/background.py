"""Subagents that work in the background with one budget, and a job that is cancelled.

Run: python examples/background.py [--model local | provider:name]

The agent asks three clerks at once and starts an archive, which takes long. It goes on meanwhile,
looks how far the archive is, and cancels it. One clerk fails, and the others are not concerned.
The local model is small: it asks clerks again after each result, until the budget ends the run.
"""

from __future__ import annotations

from threading import Event
from typing import Any

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import ToolRuntime, agent_tool, background, create_agent
from agent_factory.middleware import BackgroundMiddleware, BudgetMiddleware, Ledger, Limits
from agent_factory.testing import ScriptedChatModel

THREAD: Any = {"configurable": {"thread_id": "report"}}

begun = Event()


def archive(years: int, runtime: ToolRuntime) -> str:
    """Archive old reports."""
    for year in range(years):
        runtime.stream_writer(f"{year + 1} of {years} years")  # ends the tool, once it is cancelled
        begun.set()
        Event().wait(0.02)  # a year takes a while
    return "Everything is archived."


def clerk_says(messages: list[BaseMessage]) -> str:
    region = messages[0].text
    if region == "West":
        raise ConnectionError("the line is dead")
    return f"Sales of {region} grew."


def job_of(tool: str, messages: list[BaseMessage]) -> str:
    """The id of a job, as its handle names it."""
    handle = next(message.text for message in messages if message.name == tool)
    return handle.removeprefix("Started in the background as ").partition(".")[0]


def start(messages: list[BaseMessage]) -> Any:
    calls = [{"name": "clerk", "args": {"request": r}} for r in ("North", "East", "West")]
    return [*calls, {"name": "archive", "args": {"years": 1000}}]


def look(messages: list[BaseMessage]) -> Any:
    begun.wait()
    return [{"name": "check_background", "args": {"id": job_of("archive", messages)}}]


def stop(messages: list[BaseMessage]) -> Any:
    return [{"name": "cancel_background", "args": {"id": job_of("archive", messages)}}]


def answer(messages: list[BaseMessage]) -> str:
    """An answer from the results so far; the run goes on with each further one."""
    arrived = sum(message.name == "background" for message in messages)
    return f"{arrived} of 3 clerks have reported."


HINTS = {
    "clerk": ["How were the sales in the North?"],
    "archive": ["Archive the reports of 20 years."],
    "check_background": ["How far is the job 4f2a91c0?"],
    "cancel_background": ["Cancel the job 4f2a91c0."],
}


def main(model: BaseChatModel) -> None:
    ledger = Ledger(Limits(turns=20))
    budget = BudgetMiddleware(ledger=ledger)
    clerk = create_agent(ScriptedChatModel([clerk_says] * 20), middleware=[budget], name="clerk")
    agent: Any = create_agent(
        model,
        [background(agent_tool(clerk, description="Reads the sales.")), background(archive)],
        middleware=[BackgroundMiddleware(max_running=4), budget],
        checkpointer=InMemorySaver(),
    )
    result = agent.invoke({"messages": "How were the sales in the North?"}, THREAD)
    for message in result["messages"]:
        if message.text:
            print(f"{message.type:>6}: {message.text}")
    print(f"\nThe agent and its clerks took {ledger.spent.turns} of 20 turns.")


if __name__ == "__main__":
    main(chosen_model([start, look, stop, *[answer] * 4], HINTS))
