"""How long a user waits for a service: on new threads and on long ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median, quantiles
from typing import Any

from benchmarks.contenders import OURS
from benchmarks.databases import Place, database, places
from benchmarks.efforts import Effort
from benchmarks.harness import Contender, Match, Pair, Tally, Timed, per
from benchmarks.service_load import PATIENCE, SERVICE, Load, new_agent, new_service, start

SHORT_THREAD, LONG_THREAD = 10, 1_000
"""Messages of the threads that get one more."""

_BUILDER, _CALLS_OF_BUILDER = "builder", 49
"""The agent that makes a thread long, and its tool calls: each run adds 100 messages."""

_MESSAGES_A_ROUND = 2


def waits(effort: Effort) -> Iterator[Match | Tally]:
    """Milliseconds from `submit` to an event or a result, where nothing else is submitted."""
    number = max(2, round(10 * effort.services * effort.share))
    for place in places():
        for calls in (0, 1):
            load = Load(calls, 0, number)
            units = [
                f"ms to the {what}, {part}"
                for what in ("first event", "result", *["event in another process"] * calls)
                for part in ("p50", "p95")
            ]
            pairs = [
                Pair(SERVICE, None, "answer" if unit == "ms to the result, p50" else None, unit)
                if not calls
                else Pair(SERVICE, None, unit=unit)
                for unit in units
            ]
            name = f"{place}, {'1 tool call' if calls else 'no tool call'}, nothing else to do"
            yield Tally("service", name, {SERVICE: partial(_latencies, place, load)}, pairs)
    for place in places():
        lengths = (SHORT_THREAD, max(30, round(LONG_THREAD * effort.share)))
        opened = partial(_threads, place, lengths)
        pair = Pair(_thread(lengths[1]), _thread(lengths[0]), "long service thread")
        name = f"{place}, a message without tool calls"
        scale = per(_MESSAGES_A_ROUND, "ms a message")
        yield Match("service", name, opened, effort.services, [pair], scale)


def _latencies(place: Place, load: Load) -> dict[str, float]:
    """Milliseconds from `submit` to the first event and to the result, and to another process."""
    from benchmarks.service_process import ServiceProcess

    taken: dict[str, list[float]] = {"first event": [], "result": []}
    with ExitStack() as stack:
        url = stack.enter_context(database(place))
        service = stack.enter_context(new_service(url, load))
        start(service)
        for _ in range(load.messages):
            begun = time.perf_counter()
            run = service.submit(OURS, message="Pay.")
            next(run.stream(timeout=PATIENCE))
            taken["first event"].append(time.perf_counter() - begun)
            run.result(timeout=PATIENCE)
            taken["result"].append(time.perf_counter() - begun)
        # A tool writes the event that another process reads.
        if load.calls:
            reader = ServiceProcess("reader", url, load)
            stack.callback(reader.close)
            reader.answer()
            passed = taken["event in another process"] = []
            for _ in range(load.messages):
                reader.send(service.submit(OURS, message="Pay.").id)
                passed.append(float(reader.answer()))
    return {
        f"ms to the {what}, {part}": 1000 * value
        for what, values in taken.items()
        for part, value in (("p50", median(values)), ("p95", quantiles(values, n=20)[-1]))
    }


def _thread(length: int) -> str:
    return f"thread of {length:,}"


@contextmanager
def _threads(place: Place, lengths: tuple[int, int]) -> Iterator[Mapping[str, Timed]]:
    """Threads of these lengths in one service. They grow while they are measured, by a few."""
    with ExitStack() as stack:
        url = stack.enter_context(database(place))
        service = stack.enter_context(new_service(url, Load(0, 0, 1)))
        service.add(_BUILDER, new_agent(Load(_CALLS_OF_BUILDER, 0, 1)))
        start(service)
        for length in lengths:
            _lengthen(service, _thread(length), length)
        yield {
            name: Contender(partial(_submit_in_turn, service, name))
            for name in map(_thread, lengths)
        }


def _lengthen(service: Any, thread: str, length: int) -> None:
    """Let agents work on a thread until it has about so many messages."""
    number = 0
    while number < length:
        agent = _BUILDER if length - number > 2 * _CALLS_OF_BUILDER else OURS
        run = service.submit(agent, thread=thread, message="Pay.")
        number = len(run.result(timeout=PATIENCE)["messages"])


def _submit_in_turn(service: Any, thread: str) -> None:
    for _ in range(_MESSAGES_A_ROUND):
        service.submit(OURS, thread=thread, message="Pay.").result(timeout=PATIENCE)
