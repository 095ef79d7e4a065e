"""The service: messages a second, what each costs the database, and how long a user waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from statistics import median, quantiles
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.config import get_stream_writer

from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel
from benchmarks.contenders import HOOKS, OURS, ours
from benchmarks.databases import Place, Usage, database, places, plain_saver, usage
from benchmarks.efforts import Effort
from benchmarks.harness import Contender, Match, Pair, Scale, Tally, Timed

SLOTS = 8
"""Runs at once, in a service and in plain LangGraph."""

PROCESS_SLOTS = 4
"""Runs at once of each of several processes."""

SERVICE, PLAIN = "service", "langgraph alone"

HOOK_MIDDLEWARE = 2
"""Middleware of the agents whose costs are counted."""

_PATIENCE = 300.0


class Load(NamedTuple):
    """What is submitted at once.

    Args:
        calls: Tool calls of a message, one a turn; the model is called once more.
        seconds: How long each call of the model takes.
        messages: How many messages, each on a thread of its own.
    """

    calls: int
    seconds: float
    messages: int

    def __str__(self) -> str:
        calls = {0: "no tool call", 1: "1 tool call"}.get(self.calls, f"{self.calls} tool calls")
        return f"{calls}, {self.seconds * 1000:.0f} ms a model call"

    def scaled(self, share: float) -> Load:
        """A share of the messages, from a model that takes a share of the time."""
        messages = max(2, round(self.messages * share))
        return Load(self.calls, self.seconds * share, messages)


REAL = Load(5, 0.5, 16)
"""A model that takes its time, though less than most: what the goal is about."""

LOADS = (Load(0, 0, 40), Load(5, 0, 24), Load(5, 0.05, 32), REAL)
"""What the service and plain LangGraph are measured with."""

GROWTH = (Load(5, 0, 40), Load(1, 0.5, 32))
"""What processes are measured with: one keeps the processors busy, the other keeps the slots."""


def new_agent(load: Load, **options: Any) -> Any:
    """An agent that calls a tool a few times for each message, and then answers."""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        time.sleep(load.seconds)
        done = sum(isinstance(one, ToolMessage) for one in messages)
        if done == load.calls:
            return AIMessage("Paid.")
        call = {"name": "pay", "args": {"euros": done}, "id": f"call-{uuid4().hex[:8]}"}
        return AIMessage("", tool_calls=[call])

    def pay(euros: int) -> str:
        """Pay a bill."""
        get_stream_writer()({"at": time.time()})
        return f"Paid {euros}."

    return create_agent(ScriptedChatModel([answer] * 100_000), [pay], **options)


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
        pairs = [Pair(_processes(number), _processes(1)) for number in numbers[1:]]
        opened = partial(_growing, place, load, numbers)
        rounds = max(2, effort.services // 2)
        name = f"{place}, {PROCESS_SLOTS} slots a process, {load}"
        yield Match("service", name, opened, rounds, pairs, _rate(load))
    if Place.POSTGRES in places():
        yield from _costs(effort)
    for place in places():
        items = {
            SERVICE: partial(_latencies, place, max(2, round(10 * effort.services * effort.share)))
        }
        units = (
            f"ms to the {what}, {part}"
            for what in ("first event", "result", "event in another process")
            for part in ("p50", "p95")
        )
        pairs = [Pair(SERVICE, None, unit=unit) for unit in units]
        yield Tally("service", f"{place}, 1 tool call, nothing else to do", items, pairs)


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
        made = stack.enter_context(_service(url, load))

        def invoke(_: int) -> None:
            config: Any = {"configurable": {"thread_id": str(uuid4())}}
            agent.invoke({"messages": [HumanMessage("Pay.")]}, config, durability="sync")

        yield {
            # The worker only runs while it is measured: it polls its queue.
            SERVICE: Contender(
                partial(_submit_all, made, load.messages),
                prepare=partial(_start, made),
                tidy=made.stop,
            ),
            PLAIN: Contender(lambda: list(threads.map(invoke, range(load.messages)))),
        }


@contextmanager
def _service(url: str, load: Load, **options: Any) -> Iterator[Any]:
    from agent_factory.service import Service

    made = Service(url)
    made.add(OURS, new_agent(load, **options))
    try:
        yield made
    finally:
        made.close()


def _start(made: Any) -> None:
    made.start(slots=SLOTS)
    _submit_all(made, 1)


def _submit_all(made: Any, number: int) -> None:
    runs = [made.submit(OURS, message="Pay.") for _ in range(number)]
    for run in runs:
        run.result(timeout=_PATIENCE)


# Several processes


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


@contextmanager
def _growing(place: Place, load: Load, numbers: Sequence[int]) -> Iterator[Mapping[str, Timed]]:
    """As many workers as the contender says; the others know the database and do nothing."""
    from benchmarks.service_process import ServiceProcess

    with ExitStack() as stack:
        url = stack.enter_context(database(place))
        made = stack.enter_context(_service(url, load))
        _start(made)  # creates the tables
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
            _submit_all(made, number)

        yield {
            _processes(number): Contender(
                partial(_submit_all, made, load.messages),
                prepare=partial(prepare, number),
                tidy=partial(tell, number, "stop"),
            )
            for number in numbers
        }


# What a message costs


def _costs(effort: Effort) -> Iterator[Tally]:
    ways = {
        f"{OURS}": {},
        f"{OURS} hook by hook, full": {"fused": False, "checkpoints": "full"},
    }
    units = _units("message")
    for calls in (0, 5):
        load = Load(calls, 0, 60).scaled(effort.share)
        items = {
            name: partial(_cost, load, effort.services, options) for name, options in ways.items()
        }
        pairs = [Pair(name, None, unit=unit) for name, unit in product(ways, units)]
        yield Tally("service", f"{Place.POSTGRES}, {load}", items, pairs)
    shown = [unit for unit in _units("second") if "kB" not in unit]
    pairs = [Pair(SERVICE, None, unit=unit) for unit in shown]
    items = {SERVICE: partial(_idle_cost, effort.services, effort.share)}
    yield Tally("service", f"{Place.POSTGRES}, a worker with nothing to do", items, pairs)


def _cost(load: Load, rounds: int, options: Mapping[str, Any]) -> dict[str, float]:
    """What one more message costs: many less one, each in a service that is opened and closed."""
    members = ours().middleware(HOOKS, HOOK_MIDDLEWARE)

    def use(url: str, messages: int) -> Usage:
        before = usage(url)
        with _service(url, load, middleware=members, **options) as made:
            _start(made)
            _submit_all(made, messages)
        return usage(url).less(before)

    return _more(use, load.messages, rounds, "message")


def _idle_cost(rounds: int, share: float) -> dict[str, float]:
    """What one more second costs in which nothing is submitted."""
    load = Load(0, 0, 1)

    def use(url: str, seconds: int) -> Usage:
        before = usage(url)
        with _service(url, load) as made:
            _start(made)
            time.sleep(seconds)
        return usage(url).less(before)

    return _more(use, max(1, round(5 * share)), rounds, "second")


def _more(
    use: Callable[[str, int], Usage], number: int, rounds: int, each: str
) -> dict[str, float]:
    """The median of what one more of something costs."""
    with database(Place.POSTGRES) as url:
        use(url, number)  # creates the tables, and fills caches
        found = [use(url, number).less(use(url, 0)) for _ in range(rounds)]
    scales = (1, 1e-3, 1e-3, 1e3, 1e3)
    middles = (median(values) for values in zip(*found, strict=True))
    return {
        unit: middle * scale / number
        for unit, middle, scale in zip(_units(each), middles, scales, strict=True)
    }


def _units(each: str) -> list[str]:
    return [
        f"commits a {each}",
        f"kB of WAL a {each}",
        f"kB stored a {each}",
        f"CPU ms a {each}",
        f"CPU ms of Postgres a {each}",
    ]


# How long a user waits


def _latencies(place: Place, number: int) -> dict[str, float]:
    """Milliseconds from `submit` to the first event and to the result, and to another process."""
    from benchmarks.service_process import ServiceProcess

    load = Load(1, 0, number)
    taken: dict[str, list[float]] = {
        "first event": [],
        "result": [],
        "event in another process": [],
    }
    with ExitStack() as stack:
        url = stack.enter_context(database(place))
        made = stack.enter_context(_service(url, load))
        _start(made)
        reader = ServiceProcess("reader", url, load)
        stack.callback(reader.close)
        reader.answer()
        for _ in range(number):
            begun = time.perf_counter()
            run = made.submit(OURS, message="Pay.")
            next(run.stream(timeout=_PATIENCE))
            taken["first event"].append(time.perf_counter() - begun)
            run.result(timeout=_PATIENCE)
            taken["result"].append(time.perf_counter() - begun)
        for _ in range(number):
            reader.send(made.submit(OURS, message="Pay.").id)
            taken["event in another process"].append(float(reader.answer()))
    return {
        f"ms to the {what}, {part}": 1000 * value
        for what, values in taken.items()
        for part, value in (("p50", median(values)), ("p95", quantiles(values, n=20)[-1]))
    }
