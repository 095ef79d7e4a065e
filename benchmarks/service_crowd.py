"""Many runs of one worker that wait for their models at once: memory, and the lag of its loop."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from statistics import quantiles
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from benchmarks.contenders import OURS
from benchmarks.databases import Place, database, places
from benchmarks.efforts import Effort
from benchmarks.harness import Pair, Tally
from benchmarks.service_load import SERVICE

RUNS = 1_000
"""How many runs wait at once."""

_ARRIVE_SECONDS = 180.0
"""How long they may take to come."""

_WATCH_SECONDS = 0.02
"""How long the first run sleeps at a time: what it sleeps longer is the lag of the loop."""

_ALL, _MEMORY, _MORE = "runs at once", "MB of the worker", "MB more than before"
_LAG, _SECONDS = "ms of loop lag, p99", "s until all wait"


def service_crowd(effort: Effort) -> Iterator[Tally]:
    """The runs on each database, in a process of their own."""
    number = max(5, round(RUNS * effort.share))
    for place in places():
        pairs = [
            Pair(SERVICE, None, "service crowd" if unit == _MEMORY else None, unit)
            for unit in (_ALL, _MEMORY, _MORE, _LAG, _SECONDS)
        ]
        name = f"{place}, {number:,} runs in one worker"
        yield Tally("service", name, {SERVICE: partial(_measured, place, number)}, pairs)


def _measured(place: Place, number: int) -> dict[str, float]:
    with database(place) as url:
        command = [sys.executable, "-m", "benchmarks.service_crowd", url, str(number)]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    amounts: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return amounts


class Crowd:
    """Runs that are in their models' calls."""

    def __init__(self) -> None:
        self.present = 0
        self.lags: list[float] = []
        self.is_open = True

    async def wait(self) -> None:
        """Come, and stay until it is open. The first one watches the loop."""
        self.present += 1
        is_first = self.present == 1
        while not self.is_open:
            if not is_first:
                await asyncio.sleep(0.5)
                continue
            begun = time.perf_counter()
            await asyncio.sleep(_WATCH_SECONDS)
            self.lags.append(time.perf_counter() - begun - _WATCH_SECONDS)


class WaitingModel(BaseChatModel):
    """A model whose async calls wait with the others."""

    crowd: Any

    @property
    def _llm_type(self) -> str:
        return "waiting"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Done."))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        await self.crowd.wait()
        return self._generate(messages)


def main(url: str, number: int) -> dict[str, float]:
    """Let so many runs wait at once in this process, and measure it meanwhile."""
    from agent_factory import create_agent
    from agent_factory.service import Service

    process = import_module("psutil").Process()
    crowd = Crowd()
    service = Service(url)
    service.add(OURS, create_agent(WaitingModel(crowd=crowd)), asynchronous=True)
    try:
        service.start(slots=number)
        service.submit(OURS, message="Hi").result(timeout=60)
        before = process.memory_info().rss
        crowd.present, crowd.is_open = 0, False
        begun = time.monotonic()
        runs = [service.submit(OURS, message="Hi") for _ in range(number)]
        while crowd.present < number and time.monotonic() < begun + _ARRIVE_SECONDS:
            time.sleep(0.1)
        seconds, present = time.monotonic() - begun, crowd.present
        memory = process.memory_info().rss
        crowd.is_open = True
        for run in runs:
            run.result(timeout=_ARRIVE_SECONDS)
    finally:
        crowd.is_open = True
        service.close()
    # Fewer runs say nothing about all of them.
    share = 1.0 if present == number else math.inf
    return {
        _ALL: present,
        _MEMORY: share * memory / 1e6,
        _MORE: share * (memory - before) / 1e6,
        _LAG: 1000 * quantiles(crowd.lags, n=100)[-1],
        _SECONDS: share * seconds,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
