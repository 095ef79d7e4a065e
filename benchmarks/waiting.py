"""How long a user waits: for a guard that checks while the model works, for calls that meet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from agent_factory import (
    AgentMiddleware,
    Flow,
    ModelRequest,
    ModelResponse,
    create_agent,
    touches,
)
from agent_factory.middleware import GuardMiddleware
from agent_factory.testing import ScriptedChatModel
from benchmarks.savers import Mode

SECONDS = ((0.02, 0.005), (0.02, 0.04))
"""How long the model and the check take."""

CALLS = (("a", 0.1), ("b", 0.05), ("a", 0.05), ("c", 0.12), ("b", 0.1))
"""What the calls of a turn write, and how long they take: the longest chain takes 0.15 seconds."""


class Watch(AgentMiddleware):
    """Notes how long the layers inside of it take for an answer, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[float] = []

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelResponse]:
        begun = time.perf_counter()
        response: ModelResponse = yield request
        self.taken.append(time.perf_counter() - begun)
        return response


def over_the_slower(mode: Mode, runs: int) -> Mapping[str, float]:
    """Milliseconds of an answer over the slower of model and check; the median of the worse."""
    worst = 0.0
    for model_seconds, check_seconds in SECONDS:

        def answer(_: list[BaseMessage], seconds: float = model_seconds) -> AIMessage:
            time.sleep(seconds)
            return AIMessage("Well.")

        def check(_: object, seconds: float = check_seconds) -> None:
            time.sleep(seconds)

        watch, model = Watch(), ScriptedChatModel([answer] * (runs + 1))
        agent: Any = create_agent(model, middleware=[watch, GuardMiddleware(check)])
        with asyncio.Runner() as runner:
            for _ in range(runs + 1):
                if mode is Mode.SYNC:
                    agent.invoke({"messages": "Hi"})
                else:
                    runner.run(agent.ainvoke({"messages": "Hi"}))
        slower = max(model_seconds, check_seconds)
        worst = max(worst, 1000 * (median(watch.taken[1:]) - slower))
    return {"ms over the slower of model and check": worst}


def over_the_longest_chain(mode: Mode, runs: int) -> Mapping[str, float]:
    """The time of a run with one turn of calls that meet over that of its longest chain."""

    @touches(writes="file:{path}")
    def work(path: str, seconds: float) -> str:
        """Work on a file."""
        time.sleep(seconds)
        return path

    @touches(writes="file:{path}")
    async def awork(path: str, seconds: float) -> str:
        """Work on a file."""
        await asyncio.sleep(seconds)
        return path

    tool = work if mode is Mode.SYNC else awork
    calls = [{"name": tool.__name__, "args": {"path": p, "seconds": s}} for p, s in CALLS]
    model = ScriptedChatModel([calls, "Done."] * (runs + 1))
    agent: Any = create_agent(model, [tool])
    times = []
    with asyncio.Runner() as runner:
        for _ in range(runs + 1):
            begun = time.perf_counter()
            if mode is Mode.SYNC:
                agent.invoke({"messages": "Hi"})
            else:
                runner.run(agent.ainvoke({"messages": "Hi"}))
            times.append(time.perf_counter() - begun)
    chains: dict[str, float] = {}
    for path, seconds in CALLS:
        chains[path] = chains.get(path, 0) + seconds
    longest = max(chains.values())
    return {"times the longest chain": median(times[1:]) / longest}
