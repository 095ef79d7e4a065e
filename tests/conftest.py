"""What many tests share: each behaviour is tried in both colours."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

Run = Callable[..., Any]

SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "test", max_examples=50, deadline=None, derandomize=True, suppress_health_check=SLOW
)
settings.register_profile("prove", max_examples=2000, deadline=None, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


def pytest_collection_finish() -> None:
    """What is imported stays: looking through it for garbage takes a tenth of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Built-ins are tried in every order, also in those that a build warns of."""
    builtins = Path(__file__).parent / "middleware"
    for item in items:
        if builtins in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning"))


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
