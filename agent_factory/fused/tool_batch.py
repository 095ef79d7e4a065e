"""The tool calls of one turn in one task, as long as all of them come to their end.

A task for each call costs more than most calls. But where one waits for an answer or fails, the
others must not run again when the run is taken up. Then each gets a task of its own after all:
what is done brings its result along.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.types import Command, Send

from agent_factory.fused.step import ANSWERED, Run, again, run_of
from agent_factory.hooks.flows import is_awaitable
from agent_factory.runtime.composition import Handler
from agent_factory.runtime.routing import DIRECT
from agent_factory.state.schema import TOOL_SIGNALS
from agent_factory.topology.model import TOOLS

DONE = "result"
"""Under this key a call that has run brings its result to a task of its own."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """The calls of one task.

    Args:
        run: The run they belong to.
        config: The config of the task.
        asynchronous: Its colour.
        alone: There is one call, whose errors are the task's.
        done: Results that are known already, by the id of the call.
        results: Those that come of it.
        stopped: What stopped a call.
    """

    run: Run
    config: RunnableConfig | None
    asynchronous: bool
    alone: bool
    done: Mapping[str, Any]
    results: dict[str, Any] = field(default_factory=dict)
    stopped: dict[str, Exception] = field(default_factory=dict)

    def keep(self, call: str, result: Any) -> Any:
        """Note a result."""
        self.results[call] = result
        return result

    def stop(self, call: str, error: Exception) -> ToolMessage:
        """Note what stopped a call, and stand in for its result.

        Raises:
            Exception: The call is alone.
        """
        if self.alone:
            raise error
        self.stopped[call] = error
        return ToolMessage("", tool_call_id=call)


_turn: ContextVar[_Turn | None] = ContextVar("turn", default=None)


def held(call: Handler) -> Handler:
    """All layers around a call, in either colour, which keep what comes of it for the turn."""
    return partial(_held, call)


def _held(wrap: Handler, request: Any) -> Any:
    turn, call = _turn.get(), request.tool_call["id"]
    if turn is None:
        return wrap(request)
    if call in turn.done:
        return _given(turn.done[call]) if turn.asynchronous else turn.done[call]
    if (act := turn.run.handed(call)) is not None:
        return act()
    try:
        result = wrap(request)
    except Exception as error:
        return turn.stop(call, error)
    return _held_later(turn, call, result) if is_awaitable(result) else turn.keep(call, result)


async def _given(result: Any) -> Any:
    return result


async def _held_later(turn: _Turn, call: str, result: Awaitable[Any]) -> Any:
    try:
        return turn.keep(call, await result)
    except Exception as error:
        return turn.stop(call, error)


class BatchedToolsNode(Runnable[Any, Any]):
    """The tools of an agent, where the calls of a turn may come in one task.

    Args:
        tools: The node that runs them; its layers are `held`.
        entry: Where a run goes from here, if no tool's result can be its last; None where an edge
            has to choose.
    """

    def __init__(self, tools: Runnable[Any, Any], entry: str | None = None) -> None:
        self.name = TOOLS
        self._tools = tools
        self._entry = entry

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Run the calls in a synchronous run."""
        turn = _begun(input, config, asynchronous=False)
        if (act := turn.run.handed(TOOLS)) is not None:
            return act()
        return self._ended(turn, input, self._tools.invoke(input, config))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Run the calls in an asynchronous run."""
        turn = _begun(input, config, asynchronous=True)
        if (act := turn.run.handed(TOOLS)) is not None:
            return act()
        return self._ended(turn, input, await self._tools.ainvoke(input, config))

    def _ended(self, turn: _Turn, input: Any, output: Any) -> Any:
        if turn.stopped:
            return _sent_again(turn, input)
        if self._entry is None:
            return output
        # Who sent a call hook by hook says nothing of it, and the node at the entry is to look.
        unknown = not isinstance(input, list) or any(call.get(ANSWERED, True) for call in input)
        said = [{TOOL_SIGNALS: DIRECT}] if unknown else []
        told = output if isinstance(output, list) else [output]
        return [*told, *said, Command(goto=self._entry)]


def _begun(input: Any, config: RunnableConfig | None, *, asynchronous: bool) -> _Turn:
    # A thread of another make may wait at the tools with the whole state for their input.
    calls = input if isinstance(input, list) else []
    done = {call["id"]: call[DONE] for call in calls if DONE in call}
    turn = _Turn(run_of(config), config, asynchronous, alone=len(calls) < 2, done=done)
    _turn.set(turn)
    return turn


def _sent_again(turn: _Turn, calls: Sequence[dict[str, Any]]) -> Command[Any]:
    for call, error in turn.stopped.items():
        if (act := again(error, turn.config)) is not None:
            turn.run.defer(call, act)
    turn.run.resent = True
    return Command(goto=[Send(TOOLS, [_with_result(turn, call)]) for call in calls])


def _with_result(turn: _Turn, call: dict[str, Any]) -> dict[str, Any]:
    known = call["id"] in turn.results
    return {**call, DONE: turn.results[call["id"]]} if known else call


class BatchedToolsEdge(Runnable[Any, Any]):
    """The edge of the tools: where they were sent again, it is theirs that counts.

    Args:
        path: The edge of the plan.
    """

    def __init__(self, path: Runnable[Any, Any]) -> None:
        self.name = path.name
        self._path = path

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Decide."""
        return [] if run_of(config).was_sent_again() else self._path.invoke(input, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Decide."""
        return self.invoke(input, config)
