"""Who takes part: factories of agents with one model, one tool and the same middleware."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from benchmarks.harness import Clock, Contender, Reading

OURS, PEER, BY_HAND = "agent_factory", "langchain", "langgraph by hand"


class FreeModel(BaseChatModel):
    """Asks for a tool a number of times and then answers, at no cost: it looks at one length.

    Args:
        turns: How many answers ask for a tool.
    """

    turns: int

    @property
    def _llm_type(self) -> str:
        return "free"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> FreeModel:
        """Real models convert the tools here; this one only costs the call."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._answer(messages)

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._answer(messages)

    def _answer(self, messages: list[BaseMessage]) -> ChatResult:
        turn = len(messages) // 2  # the question, then a call and its result each turn
        calls: list[Any] = []
        if turn < self.turns:
            calls = [{"name": "add", "args": {"a": turn, "b": 1}, "id": f"call_{turn}"}]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def new_functions(number: int) -> list[Callable[..., Any]]:
    """Functions that no factory has seen before."""
    return [_new_function(f"tool_{index}") for index in range(number)]


def _new_function(name: str) -> Callable[..., Any]:
    def function(city: str, days: int = 1) -> str:
        """Tell the weather."""
        return f"{city}: sun for {days} days"

    function.__name__ = name
    return function


def _hook(self: Any, state: Any, runtime: Any) -> None:
    return None


async def _ahook(self: Any, state: Any, runtime: Any) -> None:
    return None


def _layer(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
    return handler(request)


async def _alayer(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
    return await handler(request)


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of middleware that does nothing, in both colours.

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


@dataclass(frozen=True, slots=True)
class Factory:
    """A way to build agents.

    Args:
        name: What it is called in the figures.
        create_agent: Takes a model, tools, and the keywords `middleware` and `checkpointer`.
        base: What its middleware derive from.
    """

    name: str
    create_agent: Callable[..., Any]
    base: type[Any]

    def middleware(self, kind: Kind, number: int) -> list[Any]:
        """Middleware of this kind, each of a class of its own: names must differ."""
        return [type(f"Member{i}", (self.base,), dict(kind.methods))() for i in range(number)]


def ours() -> Factory:
    """This library."""
    from agent_factory import AgentMiddleware, create_agent

    return Factory(OURS, create_agent, AgentMiddleware)


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
    """The loop as one would wire it without any factory; it has no middleware."""
    return Factory(BY_HAND, _wire_by_hand, object)


class _Ask(Runnable[Any, Any]):
    """The node of the model, as cheap as it can be in both colours."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        return {"messages": [self._model.invoke(input["messages"])]}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        return {"messages": [await self._model.ainvoke(input["messages"])]}


def _wire_by_hand(model: Any, tools: Sequence[Any], *, middleware: Any, checkpointer: Any) -> Any:
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", _Ask(model.bind_tools(tools)))
    graph.add_node("tools", ToolNode(list(tools)))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


class Colour(StrEnum):
    """How an agent is run."""

    SYNC = "sync"
    ASYNC = "async"


@dataclass(frozen=True, slots=True)
class Setting:
    """How an agent is built and run.

    Args:
        colour: How it is run.
        saver: Keep threads in memory.
        kind: The kind of its middleware.
        number: How many of them it has.
        turns: How many tool turns a run takes.
    """

    colour: Colour
    saver: bool = False
    kind: Kind = HOOKS
    number: int = 0
    turns: int = 10


@contextmanager
def runs(agents: Mapping[str, tuple[Factory, Setting]]) -> Iterator[dict[str, Contender]]:
    """Contenders that each run an agent, all in one event loop."""
    with asyncio.Runner() as runner:
        yield {name: _run(factory, how, runner) for name, (factory, how) in agents.items()}


def _run(factory: Factory, how: Setting, runner: asyncio.Runner) -> Contender:
    saver = InMemorySaver() if how.saver else None
    agent = factory.create_agent(
        FreeModel(turns=how.turns),
        [add],
        middleware=factory.middleware(how.kind, how.number),
        checkpointer=saver,
    )
    asked = {"messages": [("user", "Count.")]}
    config = {"configurable": {"thread_id": "one"}}

    def forget() -> None:
        if saver is not None:
            saver.delete_thread("one")

    if how.colour is Colour.SYNC:
        return Contender(lambda: agent.invoke(asked, config), tidy=forget)
    return Contender(lambda: runner.run(agent.ainvoke(asked, config)), tidy=forget)


@dataclass(frozen=True, slots=True)
class Import:
    """An import in a fresh interpreter, whose own start is not counted.

    Args:
        statement: What to execute.
    """

    statement: str

    def timed(self, clock: Clock) -> Reading:
        """Import once, by the clocks of the new process."""
        code = (
            "from time import perf_counter as wall, process_time as cpu\n"
            f"start = wall(), cpu()\n{self.statement}\n"
            "print(wall() - start[0], cpu() - start[1])"
        )
        # Told not to keep compiled modules, Python would compile those that pip did not, each time.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        wall, cpu = map(float, done.stdout.split())
        return Reading(wall, cpu)
