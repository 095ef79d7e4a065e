"""The cost of a decision log, in calls of functions: a run with many hooks makes many records."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from agent_factory import AgentMiddleware, Decision, create_agent
from agent_factory.testing import ScriptedChatModel

HOOKS = 16

ASK = {"messages": [("user", "Hello")]}


class Idle(AgentMiddleware[Any]):
    """Middleware whose hook returns None."""

    def __init__(self, number: int) -> None:
        self.name = f"Idle{number}"

    def before_model(self, state: Any, runtime: Any) -> None:
        return None

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        return None


def test_the_record_of_an_idle_hook_takes_few_calls(call: Any) -> None:
    """The functions of the log, and those of dataclasses that it calls, by file."""
    log: list[Decision] = []
    middleware = [Idle(number) for number in range(HOOKS)]
    agent = create_agent(ScriptedChatModel(["a", "b"]), middleware=middleware, decisions=log.append)
    call(agent, ASK)  # caches are filled
    log.clear()
    calls = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        file = frame.f_code.co_filename
        if event == "call" and ("/decisions/" in file or file.endswith("dataclasses.py")):
            calls += 1

    sys.setprofile(count)
    try:
        call(agent, ASK)
    finally:
        sys.setprofile(None)
    assert [decision.outcome for decision in log] == ["passed"] * HOOKS
    assert calls / len(log) < 22
