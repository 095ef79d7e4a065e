"""Every library for agents side by side: a turn, a build, threads that wait, and processes killed.

All of them run in this process and take turns. Only the rows of kills and of servers start others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

from benchmarks.contenders import (
    BY_HAND,
    HOOKS,
    OURS,
    PEER,
    PLAIN,
    Factory,
    by_hand,
    has_peer,
    ours,
    peer,
    plain,
)
from benchmarks.efforts import Effort
from benchmarks.harness import Absent, Contender, Match, Pair, Tally, Timed, per
from benchmarks.others import AGNO, MODULES, NOT_INSTALLED, OPENAI_AGENTS, PYDANTIC_AI, libraries
from benchmarks.parts import MANY
from benchmarks.peer_kills import kills
from benchmarks.peer_waits import BYTES, bytes_at_the_model, bytes_at_the_person
from benchmarks.runs import Setting, built, question, until_done
from benchmarks.savers import CONFIG, Mode, Saver
from benchmarks.scripted import FreeModel, add, new_functions
from benchmarks.servers import served_beside
from benchmarks.watchers import ShowsTooLittle, watchers

GROUP = "peers"

NAMES = (OURS, PEER, BY_HAND, PYDANTIC_AI, OPENAI_AGENTS, AGNO)
"""Who takes part, in the order of the columns."""

INVOKED, STREAMED, TRACED = "invoked", "streamed", "traced"

ON_LANGGRAPH = {STREAMED: 'astream ["messages", "updates"]', TRACED: "ainvoke with a tracer"}
"""How a run of a graph is watched, by the names of the group `watched`."""

TOOLS = 10
"""How many tools a large agent has."""


class Turn(NamedTuple):
    """A way to run the same turns.

    Args:
        name: What it is called in the figures.
        view: How the run is watched.
        number: How many middleware there are.
        saver: Where the thread is kept. If it is kept, it goes on with one more message.
        mode: Whether the call is sync or async.
    """

    name: str
    view: str = INVOKED
    number: int = 0
    saver: Saver = Saver.NONE
    mode: Mode = Mode.ASYNC

    @property
    def needs(self) -> str:
        """What a library has to have for it: a key of `Factory.lacks`."""
        return self.view if self.view != INVOKED else str(self.saver)


TURNS = (
    Turn("a turn"),
    Turn("a turn, sync", mode=Mode.SYNC),
    Turn("a turn, 4 middleware", number=4),
    Turn(f"a turn, {MANY} middleware", number=MANY),
    Turn("a turn, streamed", STREAMED),
    Turn("a turn, traced", TRACED),
    Turn("a turn, thread in memory", saver=Saver.MEMORY),
    Turn("a turn, thread in SQLite", saver=Saver.SQLITE),
)

Entrants = Mapping[str, Factory | Absent]


def entrants() -> dict[str, Factory | Absent]:
    """Everyone by name; who is not installed is absent."""
    present: dict[str, Factory | Absent] = {OURS: ours(), BY_HAND: by_hand()}
    present[PEER] = peer() if has_peer() else Absent(NOT_INSTALLED)
    for library in libraries():
        is_there = find_spec(MODULES[library.name])
        present[library.name] = library if is_there else Absent(NOT_INSTALLED)
    return {name: present[name] for name in NAMES}


def peers(effort: Effort) -> Iterator[Match | Tally]:
    """Everyone in each row; each alone, and over ours."""
    everyone = entrants()
    for turn in TURNS:
        floor = {PLAIN: plain()} if turn == Turn(turn.name, mode=turn.mode) else {}
        opened = partial(_turning, {**everyone, **floor}, turn, effort.turns)
        scale = per(effort.turns, "ms a turn")
        pairs = over_ours((*NAMES, *floor))
        yield Match(GROUP, turn.name, opened, effort.runs, pairs, scale)
    for name, number, tools in (
        ("building an agent", 0, 0),
        (f"building with {MANY} middleware, {TOOLS} new tools", MANY, TOOLS),
    ):
        opened = partial(_building, everyone, number, tools)
        yield Match(GROUP, name, opened, effort.builds, over_ours(NAMES))
    number = effort.waiting
    for name, count in (
        (f"{number:,} runs that wait for their model", bytes_at_the_model),
        (f"{number:,} threads that wait for a person", bytes_at_the_person),
    ):
        items = {
            name: each if isinstance(each, Absent) else partial(count, each, number)
            for name, each in everyone.items()
        }
        pairs = [Pair(name, None, unit=BYTES) for name in NAMES]
        yield Tally(GROUP, name, items, [*pairs, *over_ours(NAMES, BYTES)])
    yield from kills(effort, everyone)
    if effort.servers:
        yield from served_beside(effort, GROUP)


def over_ours(names: tuple[str, ...], unit: str = "") -> list[Pair]:
    """Each alone where it is timed, and over ours."""
    alone = [] if unit else [Pair(name, None) for name in names]
    return alone + [Pair(name, OURS, unit=unit) for name in names if name != OURS]


@contextmanager
def _turning(everyone: Entrants, turn: Turn, turns: int) -> Iterator[Mapping[str, Timed | Absent]]:
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        yield {
            name: each if isinstance(each, Absent) else _turn(each, turn, turns, runner, stack)
            for name, each in everyone.items()
        }


def _turn(
    factory: Factory, turn: Turn, turns: int, runner: asyncio.Runner, stack: ExitStack
) -> Contender | Absent:
    if turn.needs in factory.lacks:
        return Absent(factory.lacks[turn.needs])
    how = Setting(turn.mode, turn.saver, HOOKS, turn.number, turns)
    agent, kept = built((factory, how), runner, stack)
    asked = question(how)
    if turn.mode is Mode.SYNC:
        return Contender(lambda: agent.invoke(asked, CONFIG))
    if turn.view != INVOKED:
        watch = watched(agent, turn.view)
        return Contender(lambda: _seen(until_done(runner, watch(asked, CONFIG)), turn, turns))

    async def run() -> None:
        await agent.ainvoke(asked, CONFIG)
        if turn.saver is not Saver.NONE:
            await agent.ainvoke(asked, CONFIG)

    return Contender(lambda: until_done(runner, run()), tidy=kept.forget)


def watched(agent: Any, view: str) -> Callable[[Any, Any], Coroutine[Any, Any, list[Any]]]:
    """The way to run an agent in this view: its own, or that of a graph."""
    if hasattr(agent, view):
        own: Any = getattr(agent, view)
    else:
        (watcher,) = (each for each in watchers() if each.name == ON_LANGGRAPH[view])
        own = partial(watcher.watch, agent)
    way: Callable[[Any, Any], Coroutine[Any, Any, list[Any]]] = own
    return way


def _seen(parts: list[Any], turn: Turn, turns: int) -> None:
    # The answer of the model and the result of the tool, in whatever form.
    if len(parts) < 2 * turns + 1:
        raise ShowsTooLittle(
            f"{turn.name}: a run of {turns} turns must show at least {2 * turns + 1} parts, "
            f"got {len(parts)}. A row that shows less is not comparable."
        )


@contextmanager
def _building(
    everyone: Entrants, number: int, tools: int
) -> Iterator[Mapping[str, Timed | Absent]]:
    yield {
        name: each if isinstance(each, Absent) else _build(each, number, tools)
        for name, each in everyone.items()
    }


def _build(factory: Factory, number: int, tools: int) -> Contender:
    members = factory.middleware(HOOKS, number)
    functions: list[Any] = [add]

    def renew() -> None:
        if tools:
            functions[:] = new_functions(tools)

    def build() -> None:
        factory.create_agent(FreeModel(turns=0), functions, middleware=members)

    return Contender(build, prepare=renew)
