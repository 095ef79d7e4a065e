"""The time of a run in view of somebody: by each way to call an agent, stream it and trace it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from benchmarks.contenders import HOOKS, PEER, has_peer, judged, ours, rivals
from benchmarks.efforts import Effort
from benchmarks.harness import Match, Pair, per
from benchmarks.parts import MANY
from benchmarks.runs import Setting
from benchmarks.savers import Mode, Saver
from benchmarks.watchers import watched_runs, watchers

SAVERS = (Saver.NONE, Saver.MEMORY)

FEW = (0, 2, 4)
"""How many middleware the agents of most people have."""

_KINDS = {
    "invoke": "invoked",
    'stream "messages"': "streamed",
    'stream "updates"': "streamed",
    'stream "values"': "streamed",
    'stream ["messages", "updates"]': "streamed",
    "invoke with a tracer": "traced",
}
"""Which goal a way to watch has, with few middleware."""


def watched(effort: Effort) -> Iterator[Match]:
    """A run with many middleware over the peer's, in every way that a caller can watch it."""
    for saver, watcher in product(SAVERS, watchers()):
        turns = min(effort.turns, watcher.most or effort.turns)
        setting = Setting(watcher.mode, saver, HOOKS, MANY, turns, writing=watcher.writing)
        entries = {factory.name: (factory, setting) for factory in rivals(effort.transitions())}
        opened = partial(watched_runs, entries, watcher)
        pairs = list(_over_peer(effort, watcher.goal))
        name, scale = f"{watcher.name}, {saver}", per(turns, "ms a turn")
        yield Match("watched", name, opened, effort.watches, pairs, scale)


def few(effort: Effort) -> Iterator[Match]:
    """A run with few middleware over the peer's: called, streamed and traced."""
    for number, watcher in product(FEW, watchers()):
        if watcher.mode is not Mode.SYNC or (kind := _KINDS.get(watcher.name)) is None:
            continue
        setting = Setting(watcher.mode, Saver.NONE, HOOKS, number, effort.turns)
        entries = {factory.name: (factory, setting) for factory in rivals(effort.transitions())}
        pairs = list(_over_peer(effort, f"{kind} with {number}"))
        name, scale = f"{watcher.name}, N={number}", per(effort.turns, "ms a turn")
        yield Match(
            "few", name, partial(watched_runs, entries, watcher), effort.watches, pairs, scale
        )


def _over_peer(effort: Effort, goal: str | None) -> Iterator[Pair]:
    aims, over = judged(), PEER if has_peer() else None
    for way in effort.transitions():
        yield Pair(ours(way).name, over, goal if over and way in aims else None)
