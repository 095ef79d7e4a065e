"""Two features and a way to run them keep the promises of both, and those that hold for all."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import combinations
from typing import Any, get_args
from zlib import crc32

import langgraph.checkpoint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import StreamMode

import agent_factory.middleware as package
import agent_factory.serve
import agent_factory.service.saver
from agent_factory import AgentMiddleware
from crossings.features import FEATURES, PROTOCOLS, SAVERS, STREAMS
from crossings.known import KNOWN
from crossings.oracle import Fault
from crossings.ways import MODES, SERVED, WAYS, Crossing, faults, faults_of, run

ANSWERS = ("plain", "poison", "mail", "empty", "error")
CALLS = (
    "fetch",
    "fetch poison",
    "fetch mail",
    "refund",
    "refund no",
    "fail",
    "clerk",
    "page",
    "write_todos",
)
STORY = (
    ("fetch poison", "refund"),
    ("fail", "fetch mail"),
    "mail",
    ("refund no", "clerk", "fail poison"),
    "poison",
    ("fetch", "refund", "page"),
    "error",
    "empty",
)
"""A script in which all that features act on occurs."""


LASTING = [name for name, row in FEATURES.items() if getattr(row.kind, "needs_checkpointer", False)]
"""Features that a service carries from run to run."""


def crossings(ways: Mapping[str, Any], names: Sequence[str]) -> st.SearchStrategy[Crossing]:
    """Crossings of one of these features and any other, in both orders."""
    calls = st.lists(st.sampled_from(CALLS), min_size=1, max_size=3).map(tuple)
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(sorted(FEATURES)))
    return st.builds(
        Crossing,
        pairs.filter(lambda pair: pair[0] != pair[1]).flatmap(st.permutations).map(tuple),
        st.sampled_from(sorted(ways)),
        st.lists(st.sampled_from(ANSWERS) | calls, max_size=5).map(tuple),
        st.lists(st.sampled_from(("plain", "poison", "mail")), min_size=1, max_size=3).map(tuple),
        st.sampled_from(("memory", "sqlite")),
    )


def new_faults(crossing: Crossing, found: list[Fault]) -> list[Fault]:
    """The faults of a crossing that are not known."""
    return [f for f in found if not any(known.covers(crossing, f) for known in KNOWN.values())]


def subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(subclasses, kind.__subclasses__()))


def test_each_built_in_has_a_row() -> None:
    names = {getattr(package, name) for name in package.__all__}
    built_ins = {c for c in names if isinstance(c, type) and issubclass(c, AgentMiddleware)}
    assert {row.kind for row in FEATURES.values()} - {None} == built_ins - {AgentMiddleware}


def test_each_saver_has_a_row() -> None:
    path = langgraph.checkpoint.__path__
    packages = [name for _, name, _ in pkgutil.iter_modules(path, "langgraph.checkpoint.")]
    for name in packages:
        import_module(name)
    homes = (*packages, "agent_factory")
    savers = {c for c in subclasses(BaseCheckpointSaver) if c.__module__.startswith(homes)}
    assert {c for c in savers if not re.search("Base|Postgres", c.__name__)} == SAVERS.keys()


def test_each_stream_mode_has_a_row() -> None:
    assert STREAMS.keys() == set(get_args(StreamMode))


def test_each_protocol_has_a_row() -> None:
    modules = pkgutil.iter_modules(agent_factory.serve.__path__)
    assert PROTOCOLS.keys() == {m.name for m in modules if m.ispkg} - {"pages"}


@settings.get_profile("crossings")
@given(crossing=crossings(WAYS, sorted(FEATURES)))
def test_two_features_keep_their_promises(crossing: Crossing) -> None:
    assert new_faults(crossing, faults(crossing)) == []


@settings.get_profile("served")
@given(crossing=crossings(SERVED, LASTING), mode=st.sampled_from(MODES))
def test_two_features_keep_their_promises_in_a_service(
    new_engine: Callable[[], str], crossing: Crossing, mode: str
) -> None:
    record = run(crossing, mode, engine=new_engine())
    assert new_faults(crossing, faults_of(crossing, record)) == []


PAIRS = [*combinations(sorted(FEATURES), 2)]
SHARE = 3 if settings.get_current_profile_name() == "test" else 1
"""One in so many pairs is walked, chosen by its names."""


@pytest.mark.parametrize("part", range(4))
def test_pairs_keep_their_promises(part: int) -> None:
    """In an order, a way and a mode that the names of a pair decide."""
    errors, ways = {}, sorted(WAYS)
    for place, (first, second) in enumerate(PAIRS):
        number = crc32(f"{first} {second}".encode())
        if place % 4 != part or number % SHARE:
            continue
        pair = (first, second) if number // 3 % 2 else (second, first)
        crossing = Crossing(pair, ways[number // 6 % len(ways)], STORY, ("mail", "poison", "plain"))
        record = run(crossing, MODES[number // 128 % 2])
        if found := new_faults(crossing, faults_of(crossing, record)):
            errors[crossing] = found
    assert errors == {}


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_fault_is_still_there(name: str) -> None:
    known = KNOWN[name]
    found = faults(known.example)
    shows = any(known.covers(known.example, fault) for fault in found)
    assert shows, f"{name} is repaired: remove it from crossings/known.py. {found}"
