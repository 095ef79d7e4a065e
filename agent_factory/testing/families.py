"""One test for each stack of a family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent_factory.errors import ArgumentError, describe
from agent_factory.testing.bench import Middleware
from agent_factory.testing.extras import needs

if TYPE_CHECKING:
    import pytest

Stack = Sequence[Middleware] | Callable[[], Sequence[Middleware]]


def each_stack(stacks: Mapping[str, Stack]) -> pytest.MarkDecorator:
    """A decorator: the test runs once for each stack, which it takes as `agent_stack`.

    Args:
        stacks: Each stack by its name, or a function that makes it anew for each test.

    Raises:
        ArgumentError: It is no such mapping.
        ImportError: pytest is not installed.

    ```python
    @each_stack({"base": [], "with retry": lambda: [ModelRetryMiddleware()]})
    def test_the_plan_stays(agent_stack, topology_snapshot):
        assert plan_agent(tools, middleware=agent_stack) == topology_snapshot
    ```
    """
    if not isinstance(stacks, Mapping) or not stacks:
        raise ArgumentError(
            "each_stack", f"{describe(stacks)} names no stack.", "Give {'base': [...], ...}."
        )
    for name, stack in stacks.items():
        if not callable(stack) and not isinstance(stack, Sequence):
            raise ArgumentError(
                name, f"{describe(stack)} is no stack.", "Give a list, or a function that makes it."
            )
    decorator: pytest.MarkDecorator = needs("pytest").mark.parametrize(
        "agent_stack", list(stacks.values()), ids=list(stacks), indirect=True
    )
    return decorator
