"""What many tests share: each behaviour is tried in both colours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Run:
    """Call an agent's `invoke` or `ainvoke`: `call(agent, input, config)`."""

    def sync(agent: Any, *args: Any, **kwargs: Any) -> Any:
        return agent.invoke(*args, **kwargs)

    def a(agent: Any, *args: Any, **kwargs: Any) -> Any:
        return asyncio.run(agent.ainvoke(*args, **kwargs))

    return sync if request.param == "sync" else a


@pytest.fixture(params=["sync", "async"])
def collect(request: pytest.FixtureRequest) -> Run:
    """Stream an agent to a list, by `stream` or `astream`: `collect(agent, input, ...)`."""

    def sync(agent: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return list(agent.stream(*args, **kwargs))

    async def gather(agent: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return [chunk async for chunk in agent.astream(*args, **kwargs)]

    def a(agent: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return asyncio.run(gather(agent, *args, **kwargs))

    return sync if request.param == "sync" else a
