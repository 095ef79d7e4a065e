"""The service: messages a second, beside LangGraph alone, other servers, and more processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage

from benchmarks.databases import Place, database, places, plain_saver
from benchmarks.efforts import Effort
from benchmarks.harness import Contender, Match, Pair, Scale, Tally, Timed
from benchmarks.servers import served
from benchmarks.service_costs import costs
from benchmarks.service_crowd import service_crowd
from benchmarks.service_load import (
    PLAIN,
    SERVICE,
    SLOTS,
    Load,
    new_agent,
    new_service,
    start,
    submit_all,
)
from benchmarks.service_waits import waits

PROCESS_SLOTS = 4
"""Runs at once of each of several processes."""

REAL = Load(5, 0.5, 16)
"""A model that takes its time, though less than most: what the goal is about."""

LOADS = (Load(0, 0, 40), Load(5, 0, 24), Load(5, 0.05, 32), REAL)
"""What the service and plain LangGraph are measured with."""

SLOW_MODEL = Load(1, 0.5, 32)
"""What keeps the slots busy, and not the processors."""

GROWTH = (Load(5, 0, 40), SLOW_MODEL)
"""What processes are measured with: the first keeps the processors busy."""


def service(effort: Effort) -> Iterator[Match | Tally]:
    """All figures of the service, on each database that is installed."""
    for place, given in product(places(), LOADS):
        load = given.scaled(effort.share)
        opened = partial(_beside_plain, place, load)
        pairs = [Pair(SERVICE, PLAIN, "service" if given is REAL else None)]
        name = f"{place}, {load}, {SLOTS} slots"
        yield Match("service", name, opened, effort.services, pairs, _rate(load))
    for place, given in product(places(), GROWTH):
        load = given.scaled(effort.share)
        numbers = (1, 2) if place is Place.SQLITE else (1, 2, 4)
        pairs = [
            Pair(
                _processes(number),
                _processes(1),
                "four workers" if number == 4 and given is SLOW_MODEL else None,
            )
            for number in numbers[1:]
        ]
        opened = partial(_growing, place, load, numbers)
        rounds = max(2, effort.services // 2)
        name = f"{place}, {PROCESS_SLOTS} slots a process, {load}"
        yield Match("service", name, opened, rounds, pairs, _rate(load), inside=False)
    yield from costs(effort)
    yield from waits(effort)
    yield from service_crowd(effort)
    yield from served(effort)


def _rate(load: Load) -> Scale:
    return Scale("messages a second", lambda seconds: load.messages / seconds)


# Beside LangGraph alone


@contextmanager
def _beside_plain(place: Place, load: Load) -> Iterator[Mapping[str, Timed]]:
    """A service, and the same agent in as many threads; each stores each step before the next."""
    with ExitStack() as stack:
        url = stack.enter_context(database(place))
        saver = stack.enter_context(plain_saver(place, url, SLOTS))
        threads = stack.enter_context(ThreadPoolExecutor(SLOTS))
        agent = new_agent(load, checkpointer=saver)
        made = stack.enter_context(new_service(url, load))

        def invoke(_: int) -> None:
            config: Any = {"configurable": {"thread_id": str(uuid4())}}
            agent.invoke({"messages": [HumanMessage("Pay.")]}, config, durability="sync")

        yield {
            # The worker only runs while it is measured: it polls its queue.
            SERVICE: Contender(
                partial(submit_all, made, load.messages),
                prepare=partial(start, made),
                tidy=made.stop,
            ),
            PLAIN: Contender(lambda: list(threads.map(invoke, range(load.messages)))),
        }


# Several processes


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


@contextmanager
def _growing(place: Place, load: Load, numbers: Sequence[int]) -> Iterator[Mapping[str, Timed]]:
    """As many workers as the contender says; the others know the database and do nothing."""
    from benchmarks.service_process import ServiceProcess

    with ExitStack() as stack:
        url = stack.enter_context(database(place))
        made = stack.enter_context(new_service(url, load))
        start(made)  # creates the tables
        made.stop()
        workers = [ServiceProcess("worker", url, load, PROCESS_SLOTS) for _ in range(max(numbers))]
        for worker in workers:
            stack.callback(worker.close)
            worker.answer()

        def tell(number: int, word: str) -> None:
            for worker in workers[:number]:
                worker.send(word)
            for worker in workers[:number]:
                worker.answer()

        def prepare(number: int) -> None:
            tell(number, "start")
            submit_all(made, number)

        yield {
            _processes(number): Contender(
                partial(submit_all, made, load.messages),
                prepare=partial(prepare, number),
                tidy=partial(tell, number, "stop"),
            )
            for number in numbers
        }
