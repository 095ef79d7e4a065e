"""Agents become contenders: built off the clock, run on it."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.contenders import HOOKS, Factory, Kind
from benchmarks.harness import Clock, Contender, Reading
from benchmarks.savers import CONFIG, Kept, Mode, Saver, Scales
from benchmarks.scripted import (
    FreeModel,
    Gate,
    add,
    async_add,
    async_writing_add,
    history,
    wordy_add,
    writing_add,
)

QUESTION = ("user", "Count.")


@dataclass(frozen=True, slots=True)
class Setting:
    """How an agent is built and run.

    Args:
        mode: How it is run.
        saver: Where its thread is kept.
        kind: The kind of its middleware.
        number: How many of them it has.
        turns: How many tool turns a run takes.
        calls: How many calls a turn makes.
        before: How many messages the conversation has already.
        plain: Call a plain function also in async runs, which takes a thread.
        writing: The tool also writes a custom event.
    """

    mode: Mode
    saver: Saver = Saver.NONE
    kind: Kind = HOOKS
    number: int = 0
    turns: int = 10
    calls: int = 1
    before: int = 0
    plain: bool = False
    writing: bool = False

    @property
    def tool(self) -> Callable[..., Any]:
        """What is called: in async runs a coroutine function, as one writes it there."""
        if self.plain or self.mode is Mode.SYNC:
            return writing_add() if self.writing else add
        return async_writing_add() if self.writing else async_add()


Entry = tuple[Factory, Setting]


@contextmanager
def runs(agents: Mapping[str, Entry]) -> Iterator[dict[str, Contender]]:
    """Contenders that each run an agent, all in one event loop."""
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        yield {name: _run(entry, runner, stack) for name, entry in agents.items()}


def until_done(runner: asyncio.Runner, work: Coroutine[Any, Any, Any]) -> Any:
    """Run something in a runner's loop.

    `Runner.run` sets up for Ctrl-C as well, and for that writes out a long result: a millisecond
    that is nobody's.
    """
    return runner.get_loop().run_until_complete(work)


def _run(entry: Entry, runner: asyncio.Runner, stack: ExitStack) -> Contender:
    _, how = entry
    agent, kept = built(entry, runner, stack)
    asked = question(how)
    if how.mode is Mode.SYNC:
        return Contender(lambda: agent.invoke(asked, CONFIG), tidy=kept.forget)
    return Contender(lambda: until_done(runner, agent.ainvoke(asked, CONFIG)), tidy=kept.forget)


def built(entry: Entry, runner: asyncio.Runner, stack: ExitStack) -> tuple[Any, Kept]:
    """An agent and its saver, which is open until the stack is left."""
    factory, how = entry
    kept = stack.enter_context(factory.opened(how.saver, how.mode, runner))
    agent = factory.create_agent(
        FreeModel(turns=how.turns, calls=how.calls, before=how.before),
        [how.tool],
        middleware=factory.middleware(how.kind, how.number),
        checkpointer=kept.saver,
    )
    return agent, kept


def question(how: Setting) -> dict[str, Any]:
    """The input of a run: the conversation so far, and one more question."""
    return {"messages": [*history(how.before), QUESTION] if how.before else [QUESTION]}


@contextmanager
def crowds(factories: Mapping[str, Entry], number: int) -> Iterator[dict[str, Contender]]:
    """Contenders that each run an agent so many times at once."""
    with asyncio.Runner() as runner:
        yield {name: _crowd(entry, number, runner) for name, entry in factories.items()}


def _crowd(entry: Entry, number: int, runner: asyncio.Runner) -> Contender:
    agent = _bare_agent(entry, FreeModel(turns=entry[1].turns))
    return Contender(lambda: until_done(runner, _all_at_once(agent, number)))


def _bare_agent(entry: Entry, model: FreeModel) -> Any:
    factory, how = entry
    members = factory.middleware(how.kind, how.number)
    return factory.create_agent(model, [how.tool], middleware=members, checkpointer=None)


async def _all_at_once(agent: Any, number: int) -> None:
    await asyncio.gather(*(agent.ainvoke({"messages": [QUESTION]}) for _ in range(number)))


def memory_per_run(entry: Entry, number: int) -> float:
    """What a run holds that waits for its last answer, in bytes; `number` of them wait at once.

    Counted by tracemalloc: what Python allocates, not what the process takes from the system.
    """
    return asyncio.run(_memory_per_run(entry, number))


async def _memory_per_run(entry: Entry, number: int) -> float:
    # What the first run leaves in caches belongs to no run.
    await _all_at_once(_bare_agent(entry, FreeModel(turns=entry[1].turns)), 1)
    gate = Gate(number)
    agent = _bare_agent(entry, FreeModel(turns=entry[1].turns, gate=gate))
    gc.collect()
    tracemalloc.start()
    try:
        waiting = asyncio.ensure_future(_all_at_once(agent, number))
        await gate.full.wait()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    gate.open.set()
    await waiting
    return held / number


def weigh(factory: Factory, number: int, turns: int, size: int) -> dict[str, float]:
    """What a run gives its saver.

    Args:
        factory: Who builds the agent.
        number: How many middleware with `before_model` and `after_model` it has.
        turns: How many tool turns the run takes.
        size: The length of each message, in characters.

    Returns:
        The checkpoints that one more turn makes, and the kilobytes of the whole run by its turns.
    """
    whole, least = _weighed(factory, number, turns, size), _weighed(factory, number, 1, size)
    more = (whole.checkpoints - least.checkpoints) / (turns - 1)
    return {"checkpoints a turn": more, "kB a turn": whole.bytes / turns / 1000}


def _weighed(factory: Factory, number: int, turns: int, size: int) -> Scales:
    scales = Scales()
    agent = factory.create_agent(
        FreeModel(turns=turns, size=size),
        [wordy_add(size)],
        middleware=factory.middleware(HOOKS, number),
        checkpointer=scales,
        **factory.weighed,
    )
    agent.invoke({"messages": [QUESTION]}, CONFIG)
    return scales


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
        # With PYTHONDONTWRITEBYTECODE, Python would compile modules that pip did not, each time.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        wall, cpu = map(float, done.stdout.split())
        return Reading(wall, cpu)
