"""How long a turn of calls takes that meet, over the longest chain of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from agent_factory import create_agent, touches
from agent_factory.testing import ScriptedChatModel
from benchmarks.savers import Mode

CALLS = (("a", 0.1), ("b", 0.05), ("a", 0.05), ("c", 0.12), ("b", 0.1))
"""What the calls of a turn write, and how long they take: the longest chain takes 0.15 seconds."""


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


def over_the_longest_chain(mode: Mode, runs: int) -> Mapping[str, float]:
    """The time of a run with one turn of calls that meet over that of its longest chain."""
    tool = work if mode is Mode.SYNC else awork
    calls = [{"name": tool.__name__, "args": {"path": p, "seconds": s}} for p, s in CALLS]
    agent: Any = create_agent(ScriptedChatModel([calls, "Done."] * (runs + 1)), [tool])
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
    return {"times the longest chain": median(times[1:]) / max(chains.values())}
