"""Who takes part: factories of agents with one model, one tool and the same middleware."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from itertools import pairwise
from typing import Any

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import agent_factory
from benchmarks.savers import Kept, Mode, Saver, opened

OURS, PEER = "agent_factory", "langchain"
BY_HAND, PLAIN = "langgraph by hand", "a plain loop"


def _hook(self: Any, state: Any, runtime: Any) -> None:
    return None


async def _ahook(self: Any, state: Any, runtime: Any) -> None:
    return None


def _layer(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
    return handler(request)


async def _alayer(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
    return await handler(request)


def _run_layer(self: Any, state: Any) -> Any:
    return (yield state)


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of middleware that does nothing, sync and async.

    Args:
        name: What several of them are called.
        methods: What each defines.
    """

    name: str
    methods: Mapping[str, Any]


HOOKS = Kind(
    "hook middleware",
    {
        "before_model": _hook,
        "abefore_model": _ahook,
        "after_model": _hook,
        "aafter_model": _ahook,
    },
)
LAYERS = Kind("model layers", {"wrap_model_call": _layer, "awrap_model_call": _alayer})
RUN_LAYERS = Kind("layers around the run", {"around_agent": _run_layer})


@dataclass(frozen=True, slots=True)
class Factory:
    """A way to build agents.

    Args:
        name: What it is called in the figures.
        create_agent: Takes a model, tools, and the keywords `middleware` and `checkpointer`.
        base: What its middleware derive from.
        form: The nearest form of middleware that its documentation has, where it has none.
        lacks: What it cannot do, with the reason.
        weighed: Options of `create_agent` with the saver that weighs in place of SQLite's.
    """

    name: str
    create_agent: Callable[..., Any]
    base: type[Any] = object
    form: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict)
    weighed: Mapping[str, Any] = field(default_factory=dict)

    def middleware(self, kind: Kind, number: int) -> list[Any]:
        """Middleware of this kind, each of its class, since names must differ."""
        return [type(f"Member{i}", (self.base,), dict(kind.methods))() for i in range(number)]

    def opened(
        self, saver: Saver, mode: Mode, runner: asyncio.Runner
    ) -> AbstractContextManager[Kept]:
        """A saver for its agents, until the block ends."""
        return opened(saver, mode, runner)


@dataclass(frozen=True, slots=True)
class Transition:
    """A way our own factory can build the same agent. A new one is one line in a list.

    Args:
        name: What it is called in the figures, behind the name of the library; empty for the
            default.
        options: What is given to `create_agent`. A way takes part as soon as `create_agent` has
            these parameters; False asks for nothing, so a parameter that is missing is left out.
        judged: Whether goals are about it.
    """

    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    judged: bool = True


DEFAULT = Transition()
"""What users get who pass no argument."""

WAYS = (
    DEFAULT,
    Transition("hook by hook", {"fused": False}, judged=False),
    Transition("fused turn", {"fused": "turn"}, judged=False),
)
"""How a run can take its steps."""

FULL_CHECKPOINTS = (
    Transition("full", {"checkpoints": "full"}, judged=False),
    Transition("hook by hook, full", {"fused": False, "checkpoints": "full"}, judged=False),
    Transition("fused turn, full", {"fused": "turn", "checkpoints": "full"}, judged=False),
)
"""The same with all messages in each checkpoint, as an exception."""


def there(transitions: Sequence[Transition]) -> list[Transition]:
    """Those that the library has."""
    known = signature(agent_factory.create_agent).parameters
    return [
        way
        for way in transitions
        if all(name in known or value is False for name, value in way.options.items())
    ]


def judged(transitions: Sequence[Transition] = WAYS) -> list[Transition]:
    """Those that goals are about."""
    return [way for way in there(transitions) if way.judged]


def ours(way: Transition = DEFAULT) -> Factory:
    """This library, with its default arguments or with others."""
    known = signature(agent_factory.create_agent).parameters
    options = {name: value for name, value in way.options.items() if name in known}
    create = partial(agent_factory.create_agent, **options)
    # A subclass of LangGraph's saver gets full checkpoints by default, and SQLite's gets delta.
    weighed = {"checkpoints": options.get("checkpoints", "delta")}
    name = f"{OURS} {way.name}".strip()
    return Factory(name, create, agent_factory.AgentMiddleware, weighed=weighed)


def peer() -> Factory:
    """The library to measure up to.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    create_agent: Any = import_module("langchain.agents").create_agent
    base: Any = import_module("langchain.agents.middleware").AgentMiddleware
    return Factory(PEER, create_agent, base)


def has_peer() -> bool:
    """Whether the other library is installed."""
    return find_spec(PEER) is not None


def by_hand() -> Factory:
    """The loop as one would wire it without any factory: hooks are nodes before the model and
    after it."""
    return Factory(BY_HAND, _wire_by_hand, form="a node for each hook")


class _Ask(Runnable[Any, Any]):
    """The model node, as cheap as possible, sync and async."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        return {"messages": [self._model.invoke(input["messages"])]}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        return {"messages": [await self._model.ainvoke(input["messages"])]}


def _wire_by_hand(
    model: Any, tools: Sequence[Any], *, middleware: Sequence[Any] = (), checkpointer: Any = None
) -> Any:
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", _Ask(model.bind_tools(tools)))
    graph.add_node("tools", ToolNode(list(tools)))
    befores, afters = (
        [f"{hook} {index}" for index in range(len(middleware))] for hook in ("before", "after")
    )
    for name in (*befores, *afters):
        graph.add_node(name, RunnableLambda(_no_update, _no_update_async))
    chain = [*befores, "model", *afters]
    graph.add_edge(START, chain[0])
    for name, following in pairwise(chain):
        graph.add_edge(name, following)
    graph.add_conditional_edges(chain[-1], tools_condition)
    graph.add_edge("tools", chain[0])
    return graph.compile(checkpointer=checkpointer).with_config(recursion_limit=10_000)


def _no_update(state: Any) -> dict[str, Any]:
    return {}


async def _no_update_async(state: Any) -> dict[str, Any]:
    return {}


def plain() -> Factory:
    """The same model and tool without LangGraph: the least that an agent can cost."""
    return Factory(PLAIN, PlainLoop)


class PlainLoop:
    """Ask the model, call its tools, and again. It has no middleware and keeps nothing.

    Args:
        model: Who is asked.
        tools: One function.
        middleware: None of them.
        checkpointer: None.
    """

    def __init__(
        self, model: Any, tools: Sequence[Any], *, middleware: Any = (), checkpointer: Any = None
    ) -> None:
        self._model = model.bind_tools(tools)
        self._tool: Any = tool(tools[0])

    def invoke(self, asked: Any, config: Any = None) -> Any:
        """Run until the model calls no tool."""
        messages = convert_to_messages(asked["messages"])
        while True:
            answer = self._model.invoke(messages)
            messages.append(answer)
            if not answer.tool_calls:
                return {"messages": messages}
            messages += [self._tool.invoke(call) for call in _typed(answer.tool_calls)]

    async def ainvoke(self, asked: Any, config: Any = None) -> Any:
        """Run until the model calls no tool; calls of one answer run at once."""
        messages = convert_to_messages(asked["messages"])
        while True:
            answer = await self._model.ainvoke(messages)
            messages.append(answer)
            if not answer.tool_calls:
                return {"messages": messages}
            calls = [self._tool.ainvoke(call) for call in _typed(answer.tool_calls)]
            messages += await asyncio.gather(*calls)


def _typed(calls: Sequence[Any]) -> list[Any]:
    return [{**call, "type": "tool_call"} for call in calls]


def rivals(transitions: Sequence[Transition]) -> list[Factory]:
    """Our factory in these ways, and the peer where it is installed."""
    return [*([peer()] if has_peer() else []), *map(ours, transitions)]
