"""The same scenario with the classes of langchain and with ours, and what both observed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from langchain_core.messages import BaseMessage

from agent_factory import arun, run

Body = Callable[[Any], Generator[Any, Any, Any]]


@dataclass(frozen=True)
class Family:
    """The names that a middleware and an agent are written with, of one of the libraries."""

    agents: str
    middleware: str
    output: str

    def __getattr__(self, name: str) -> Any:
        for module in (self.agents, self.middleware, f"{self.middleware}.types", self.output):
            found = getattr(import_module(module), name, None)
            if found is not None:
                return found
        raise AttributeError(name)

    def layer(self, body: Body, call: str = "model", **attributes: Any) -> Any:
        """A middleware with both forms of a wrap, in which `yield request` calls the handler."""

        def wrap(_: Any, request: Any, handler: Any) -> Any:
            return run(body(request), handler)

        async def awrap(_: Any, request: Any, handler: Any) -> Any:
            return await arun(body(request), handler)

        wraps = {f"wrap_{call}_call": wrap, f"awrap_{call}_call": awrap}
        return type(body.__name__, (self.AgentMiddleware,), wraps | attributes)()


THEIRS = Family(
    "langchain.agents", "langchain.agents.middleware", "langchain.agents.structured_output"
)
OURS = Family("agent_factory", "agent_factory.middleware", "agent_factory.structured_output")


def shown(value: Any) -> Any:
    """A value as it can be compared: messages by what a caller reads, classes by their names."""
    if isinstance(value, BaseMessage):
        fields = ("name", "tool_calls", "tool_call_id", "artifact")
        more = {field: shown(getattr(value, field, None)) for field in fields}
        return [value.type, shown(value.content), {k: v for k, v in more.items() if v}]
    if isinstance(value, dict):
        return {str(key): shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, str | int | float | None):
        return value
    return value.__name__ if inspect.isclass(value) else repr(value)
