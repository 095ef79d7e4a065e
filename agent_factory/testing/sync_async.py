"""Run something synchronously and asynchronously, and insist that it is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.errors import GraphInterrupt

from agent_factory.errors import ArgumentError, describe
from agent_factory.testing.comparison import first_difference, plain
from agent_factory.testing.fixtures import finish
from agent_factory.testing.hooks import arun_hook, run_hook
from agent_factory.testing.layers import LayerRun, arun_layer, run_layer
from agent_factory.testing.scripted import ScriptedChatModel

_TWINS: Mapping[Any, Any] = {run_hook: arun_hook, run_layer: arun_layer}
_COLOURS = ("in the synchronous run", "in the asynchronous one")


def both_ways(target: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an agent, a hook or a layer in both colours; fail unless they give the same.

    Ids of messages and of tool calls may differ. If both raise the same error, it is raised.

    Args:
        target: An agent, or a function without arguments that builds one anew for each colour
            (where its models or middleware keep something); or `run_hook` or `run_layer`, whose
            first argument may be such a function too.
        *args: What the agent's `invoke`, or the function, takes.
        **kwargs: The same by name.

    A `ScriptedChatModel` of the agent says its steps to both. In a thread of its own, named after
    the one of the config, the asynchronous run finds what earlier calls of `both_ways` left there.

    Returns:
        The result of the synchronous run.

    Raises:
        AssertionError: The two differ; the message says where.
        ArgumentError: The target is nothing that runs in two colours.

    >>> from agent_factory import create_agent
    >>> agent = create_agent(ScriptedChatModel(["Hello!"]))
    >>> both_ways(agent, {"messages": [("user", "Hi")]})["messages"][-1].text
    'Hello!'
    """
    sync, a = _pair(target, args, kwargs)
    one, other = outcome_of(sync), outcome_of(a)
    if words := disagreement(one, other, _COLOURS):
        raise AssertionError(f"The two colours differ: {words}.") from one.error or other.error
    if one.error is not None:
        raise one.error
    return one.value


@dataclass(frozen=True)
class Colour:
    """One of the two ways to run. The fixture `sync_or_async` gives both, one after the other.

    Args:
        name: "sync" or "async".
    """

    name: str

    def __str__(self) -> str:
        return self.name

    def invoke(self, agent: Any, *args: Any, **kwargs: Any) -> Any:
        """An agent's `invoke`, or its `ainvoke`."""
        if self.name == "sync":
            return agent.invoke(*args, **kwargs)
        return finish(agent.ainvoke(*args, **kwargs))

    def stream(self, agent: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """What an agent's `stream`, or its `astream`, gives, in one list."""
        if self.name == "sync":
            return list(agent.stream(*args, **kwargs))
        return finish(_gathered(agent.astream(*args, **kwargs)))

    def run_hook(self, *args: Any, **kwargs: Any) -> Any:
        """`run_hook`, or `arun_hook`."""
        return self._run(run_hook, *args, **kwargs)

    def run_layer(self, *args: Any, **kwargs: Any) -> LayerRun:
        """`run_layer`, or `arun_layer`."""
        found: LayerRun = self._run(run_layer, *args, **kwargs)
        return found

    def _run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.name == "sync":
            return function(*args, **kwargs)
        return finish(_TWINS[function](*args, **kwargs))


async def _gathered(stream: Any) -> list[Any]:
    return [item async for item in stream]


@dataclass(frozen=True)
class Outcome:
    """What came of a run: a value, or an error.

    Args:
        value: What it gave.
        error: What it raised instead.
    """

    value: Any = None
    error: Exception | None = None

    @property
    def plain(self) -> Any:
        """It, without what chance decided."""
        if isinstance(self.error, GraphInterrupt):
            return {"interrupts": plain(list(self.error.args[0]) if self.error.args else [])}
        return plain(self.error or self.value)

    def __str__(self) -> str:
        return f"raised {self.error!r}" if self.error else "returned"


def disagreement(one: Outcome, other: Outcome, when: tuple[str, str]) -> str:
    """In words, where two outcomes differ; empty where they agree."""
    if (one.error is None) != (other.error is None):
        return f"{when[0]} it {one}, {when[1]} it {other}"
    found = first_difference(one.plain, other.plain)
    return found.words(*when) if found else ""


def outcome_of(run: Callable[[], Any]) -> Outcome:
    """Run something, and keep what comes of it."""
    try:
        return Outcome(run())
    except Exception as error:
        return Outcome(error=error)


def _pair(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    if target in _TWINS:
        twin = _TWINS[target]
        return (
            lambda: target(_made(args[0]), *args[1:], **kwargs),
            lambda: finish(twin(_made(args[0]), *args[1:], **kwargs)),
        )
    if not callable(target) and not _runs(target):
        raise ArgumentError(
            "both_ways",
            f"{describe(target)} has no invoke and ainvoke.",
            "Give an agent, a function that builds one, run_hook or run_layer.",
        )
    sync, a = _agents(target)
    return (
        lambda: sync().invoke(*args, **kwargs),
        lambda: finish(a().ainvoke(*_elsewhere(args), **_elsewhere_named(kwargs))),
    )


def _made(middleware: Any) -> Any:
    is_maker = isinstance(middleware, type) or type(middleware).__name__ == "function"
    return middleware() if is_maker else middleware


def _runs(target: Any) -> bool:
    return hasattr(target, "invoke") and hasattr(target, "ainvoke")


def _agents(target: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    if not _runs(target):
        return target, target
    model = getattr(getattr(getattr(target, "builder", None), "spec", None), "model", None)
    position = model.position if isinstance(model, ScriptedChatModel) else 0

    def again() -> Any:
        if isinstance(model, ScriptedChatModel):
            model.rewind(position)
        return target

    return lambda: target, again


def _elsewhere(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*args[:1], *(_other_thread(config) for config in args[1:2]), *args[2:])


def _elsewhere_named(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {k: _other_thread(v) if k == "config" else v for k, v in kwargs.items()}


def _other_thread(config: Any) -> Any:
    configurable = (config or {}).get("configurable", {})
    if "thread_id" not in configurable:
        return config
    thread = f"{configurable['thread_id']} (async)"
    return {**config, "configurable": {**configurable, "thread_id": thread}}
