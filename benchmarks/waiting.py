"""How long a user waits: for a guard that checks while the model works, for the first token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage

from agent_factory import (
    AgentMiddleware,
    Flow,
    ModelRequest,
    ModelResponse,
    NextChunk,
    create_agent,
)
from agent_factory.middleware import GuardMiddleware
from agent_factory.testing import ScriptedChatModel
from benchmarks.savers import Mode

SECONDS = ((0.02, 0.005), (0.02, 0.04))
"""How long the model and the check take."""


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


class Pass(AgentMiddleware):
    """Lets each chunk of an answer pass."""

    def around_stream(self, request: ModelRequest[Any]) -> Flow[None]:
        while (chunk := (yield NextChunk())) is not None:
            yield chunk


def first_token(mode: Mode, runs: int) -> Mapping[str, float]:
    """Milliseconds that a flow of chunks lets the first token come later; the median of pairs."""
    model = FakeListChatModel(responses=["So."])
    agents: list[Any] = [create_agent(model, middleware=stack) for stack in ([], [Pass()])]
    with asyncio.Runner() as runner:
        for _ in range(3):  # what the first runs leave in caches belongs to no run
            without, through = ([_until_token(agent, mode, runner)] for agent in agents)
        for number in range(runs):
            for at in (number % 2, 1 - number % 2):
                (without, through)[at].append(_until_token(agents[at], mode, runner))
    pairs = zip(through[1:], without[1:], strict=True)
    return {"ms the first token comes later": 1000 * median(a - b for a, b in pairs)}


def _until_token(agent: Any, mode: Mode, runner: asyncio.Runner) -> float:
    begun = time.perf_counter()
    if mode is Mode.ASYNC:
        return runner.run(_async_until_token(agent, begun))
    chunks = agent.stream({"messages": "Hi"}, stream_mode="messages")
    next(chunks)
    taken = time.perf_counter() - begun
    for _ in chunks:
        pass
    return taken


async def _async_until_token(agent: Any, begun: float) -> float:
    chunks = agent.astream({"messages": "Hi"}, stream_mode="messages")
    await anext(chunks)
    taken = time.perf_counter() - begun
    async for _ in chunks:
        pass
    return taken
