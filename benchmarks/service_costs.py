"""Costs of a message: commits, bytes and CPU; and those of a worker with nothing to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from statistics import median
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage

from benchmarks.contenders import HOOKS, ours
from benchmarks.databases import Place, Usage, database, places, plain_saver, usage
from benchmarks.efforts import Effort
from benchmarks.harness import Pair, Tally
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

HOOK_MIDDLEWARE = 2
"""Middleware of the agents whose costs are counted."""

FULL = f"{SERVICE}, hook by hook, full"

_Use = Callable[[str, int], Usage]
"""Usage of so many messages, or seconds."""


def costs(effort: Effort) -> Iterator[Tally]:
    """The costs of a message on each database, beside LangGraph alone; then those of no message."""
    for place, calls in product(places(), (0, 5)):
        load = Load(calls, 0, 60).scaled(effort.share)
        uses: dict[str, _Use] = {
            SERVICE: partial(_served, load, {}),
            FULL: partial(_served, load, {"fused": False, "checkpoints": "full"}),
            PLAIN: partial(_invoked, place, load),
        }
        items = {
            name: partial(_more, place, use, load.messages, effort.services, "message")
            for name, use in uses.items()
        }
        goals = {"commits a message": "message commits", "CPU ms a message": "message CPU"}
        pairs = [
            Pair(name, None, goals.get(unit) if name == SERVICE and not calls else None, unit)
            for name, unit in product(uses, _units(place, "message"))
        ]
        pairs.append(Pair(SERVICE, PLAIN, None if calls else "message", "CPU ms a message"))
        yield Tally("service", f"{place}, {load}", items, pairs)
    for place in places():
        seconds = max(3, round(10 * effort.share))
        items = {SERVICE: partial(_more, place, _idle, seconds, effort.services, "second")}
        pairs = [
            Pair(SERVICE, None, "idle" if unit == "commits a second" else None, unit)
            for unit in _units(place, "second")
            if "kB" not in unit
        ]
        yield Tally("service", f"{place}, a worker with nothing to do", items, pairs)


def _served(load: Load, options: Mapping[str, Any], url: str, messages: int) -> Usage:
    """By a service that is opened and closed."""
    before = usage(url)
    members = ours().middleware(HOOKS, HOOK_MIDDLEWARE)
    with new_service(url, load, middleware=members, **options) as service:
        start(service)
        submit_all(service, messages)
    return usage(url).less(before)


def _invoked(place: Place, load: Load, url: str, messages: int) -> Usage:
    """By LangGraph alone, in as many threads, whose saver is opened and closed."""
    before = usage(url)
    members = ours().middleware(HOOKS, HOOK_MIDDLEWARE)
    with plain_saver(place, url, SLOTS) as saver, ThreadPoolExecutor(SLOTS) as threads:
        agent = new_agent(load, middleware=members, checkpointer=saver)

        def invoke(_: int) -> None:
            config: Any = {"configurable": {"thread_id": str(uuid4())}}
            agent.invoke({"messages": [HumanMessage("Pay.")]}, config, durability="sync")

        # One more, as the service has.
        for _ in threads.map(invoke, range(messages + 1)):
            pass
    return usage(url).less(before)


def _idle(url: str, seconds: int) -> Usage:
    """By a worker to which nothing is submitted."""
    before = usage(url)
    with new_service(url, Load(0, 0, 1)) as service:
        start(service)
        time.sleep(seconds)
    return usage(url).less(before)


def _more(place: Place, use: _Use, number: int, rounds: int, each: str) -> dict[str, float]:
    """The median of what one more of something costs: many less none."""
    with database(place) as url:
        use(url, number)  # creates the tables, and fills caches
        differences = [use(url, number).less(use(url, 0)) for _ in range(rounds)]
    scales = {"commits": 1, "wal": 1e-3, "stored": 1e-3, "worker": 1e3, "server": 1e3}
    return {
        unit: median(getattr(difference, field) for difference in differences)
        * scales[field]
        / number
        for unit, field in _units(place, each).items()
    }


def _units(place: Place, each: str) -> dict[str, str]:
    """Units that are counted on a database, and the fields of its usage."""
    units = {f"commits a {each}": "commits", f"CPU ms a {each}": "worker"}
    if place is Place.POSTGRES:
        units |= {
            f"kB of WAL a {each}": "wal",
            f"kB stored a {each}": "stored",
            f"CPU ms of Postgres a {each}": "server",
        }
    return units
