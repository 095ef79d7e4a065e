"""Run something synchronously and asynchronously, and fail if the results differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.errors import GraphInterrupt

from agent_factory.errors import ArgumentError, describe
from agent_factory.testing.comparison import difference, normalize
from agent_factory.testing.fake_model import ScriptedChatModel
from agent_factory.testing.harness import (
    LayerRun,
    arun_hook,
    arun_layer,
    run_coroutine,
    run_hook,
    run_layer,
)

_ASYNC: Mapping[Any, Any] = {run_hook: arun_hook, run_layer: arun_layer}


def both_ways(target: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an agent, a hook or a layer synchronously and asynchronously; fail if they differ.

    Ids of messages and of tool calls may differ. If both runs raise the same error, it is raised.

    A `ScriptedChatModel` of the agent answers both runs with the same steps. The asynchronous run
    has its own thread, named after that of the config, so that it finds what earlier calls of
    `both_ways` left there.

    Args:
        target: An agent, or a function without arguments that builds one for each run (if its
            model or middleware keeps state); or `run_hook` or `run_layer`, whose first argument may
            be such a function too.
        *args: The arguments of the agent's `invoke`, or of the function.
        **kwargs: The same by name.

    Returns:
        The result of the synchronous run.

    Raises:
        AssertionError: The runs differ; the message says where.
        ArgumentError: The target cannot run both ways.

    >>> from agent_factory import create_agent
    >>> agent = create_agent(ScriptedChatModel(["Hello!"]))
    >>> both_ways(agent, {"messages": [("user", "Hi")]})["messages"][-1].text
    'Hello!'
    """
    is_agent = hasattr(target, "invoke") and hasattr(target, "ainvoke")
    if target in _ASYNC:
        first, *rest = args
        is_maker = isinstance(first, type) or type(first).__name__ == "function"

        def make() -> Any:
            return first() if is_maker else first

        one = outcome_of(lambda: target(make(), *rest, **kwargs))
        other = outcome_of(lambda: run_coroutine(_ASYNC[target](make(), *rest, **kwargs)))
    elif is_agent or callable(target):
        spec = getattr(getattr(target, "builder", None), "spec", None)
        model = getattr(spec, "model", None) if is_agent else None
        position = model.position if isinstance(model, ScriptedChatModel) else 0
        # The config is the second argument of `invoke`.
        others = (*args[:1], *map(_other_thread, args[1:2]), *args[2:])
        named = {k: _other_thread(v) if k == "config" else v for k, v in kwargs.items()}

        def make() -> Any:
            return target if is_agent else target()

        one = outcome_of(lambda: make().invoke(*args, **kwargs))
        if isinstance(model, ScriptedChatModel):
            model.rewind(position)
        other = outcome_of(lambda: run_coroutine(make().ainvoke(*others, **named)))
    else:
        raise ArgumentError(
            "target",
            f"must be an agent or a function that builds one, got {describe(target)}.",
            "Pass something with invoke and ainvoke, or run_hook or run_layer.",
        )
    found = disagreement(one, other, ("in the synchronous run", "in the asynchronous one"))
    if found:
        raise AssertionError(f"The two runs differ: {found}.") from one.error or other.error
    if one.error is not None:
        raise one.error
    return one.value


def _other_thread(config: Any) -> Any:
    configurable = (config or {}).get("configurable", {})
    if "thread_id" not in configurable:
        return config
    thread = f"{configurable['thread_id']} (async)"
    return {**config, "configurable": {**configurable, "thread_id": thread}}


@dataclass(frozen=True)
class SyncOrAsync:
    """One of the two ways to run. The fixture `sync_or_async` gives both, one after the other.

    Args:
        name: "sync" or "async".
    """

    name: str

    def __str__(self) -> str:
        return self.name

    def invoke(self, agent: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the agent's `invoke` or `ainvoke`."""
        return self._call(agent.invoke, agent.ainvoke, *args, **kwargs)

    def stream(self, agent: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """Collect what the agent's `stream` or `astream` yields."""

        async def collect(*args: Any, **kwargs: Any) -> list[Any]:
            return [item async for item in agent.astream(*args, **kwargs)]

        return list(self._call(agent.stream, collect, *args, **kwargs))

    def run_hook(self, *args: Any, **kwargs: Any) -> Any:
        """Call `run_hook` or `arun_hook`."""
        return self._call(run_hook, arun_hook, *args, **kwargs)

    def run_layer(self, *args: Any, **kwargs: Any) -> LayerRun:
        """Call `run_layer` or `arun_layer`."""
        found: LayerRun = self._call(run_layer, arun_layer, *args, **kwargs)
        return found

    def _call(self, sync: Any, asynchronous: Any, *args: Any, **kwargs: Any) -> Any:
        if self.name == "sync":
            return sync(*args, **kwargs)
        return run_coroutine(asynchronous(*args, **kwargs))


@dataclass(frozen=True)
class RunResult:
    """The value that a run returned, or the error that it raised."""

    value: Any = None
    error: Exception | None = None

    @property
    def normalized(self) -> Any:
        """The value or the error, as `normalize` returns it."""
        if isinstance(self.error, GraphInterrupt):
            return {"interrupts": normalize(list(self.error.args[0]) if self.error.args else [])}
        return normalize(self.error or self.value)

    def __str__(self) -> str:
        return f"raised {self.error!r}" if self.error else "returned"


def outcome_of(run: Callable[[], Any]) -> RunResult:
    """Call a function, and keep what it returns or raises."""
    try:
        return RunResult(run())
    except Exception as error:
        return RunResult(error=error)


def disagreement(one: RunResult, other: RunResult, runs: tuple[str, str]) -> str:
    """The first difference of two outcomes as text; empty if they agree."""
    if (one.error is None) != (other.error is None):
        return f"{runs[0]} it {one}, {runs[1]} it {other}"
    return difference(one.normalized, other.normalized, runs)
