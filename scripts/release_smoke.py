"""Imports and a reviewed run of an installed agent_factory, without extras.

Run by `scripts/release.py` with the Python of an empty environment. It prints JSON: how many
modules were imported, and which ones say that they need an extra. Any other error ends it.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

import agent_factory
import agent_factory.middleware
from agent_factory import create_agent, review
from agent_factory.errors import MissingExtra
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.testing import ScriptedChatModel


def imports() -> tuple[list[str], list[str]]:
    """The modules imported with all names, and the modules without their extra."""
    modules, extras = [], []
    for package in (agent_factory, agent_factory.middleware):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if info.name.rpartition(".")[2].startswith("_"):
                continue
            try:
                module = importlib.import_module(info.name)
                for name in getattr(module, "__all__", ()):
                    getattr(module, name)
            except MissingExtra:
                extras.append(info.name)
            else:
                modules.append(info.name)
    return modules, extras


def refund(euros: int) -> str:
    """Pay money back."""
    return f"{euros} euros were paid back."


def desk() -> Any:
    """An agent whose refunds wait for a decision."""
    return create_agent(
        ScriptedChatModel([[{"name": "refund", "args": {"euros": 40}}], "Done."]),
        [refund],
        middleware=[HumanInTheLoopMiddleware({"refund": True})],
        checkpointer=InMemorySaver(),
    )


if __name__ == "__main__":
    modules, extras = imports()
    agent = desk()
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": [("user", "Refund it.")]}, thread)
    answer = review.approve(agent, thread)["messages"][-1].text
    if answer != "Done.":
        raise SystemExit(f"The run must end with 'Done.', got {answer!r}.")
    print(json.dumps({"modules": len(modules), "extras": extras}))
