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
from benchmarks.savers import Saver
from benchmarks.watchers import Watcher, watched_runs, watchers

SAVERS = (Saver.NONE, Saver.MEMORY)


def watched(effort: Effort) -> Iterator[Match]:
    """A run with many middleware over the peer's, in every way that a caller can watch it."""
    for saver, watcher in product(SAVERS, watchers()):
        turns = min(effort.turns, watcher.most or effort.turns)
        setting = Setting(watcher.mode, saver, HOOKS, MANY, turns, writing=watcher.writing)
        entries = {factory.name: (factory, setting) for factory in rivals(effort.transitions())}
        opened = partial(watched_runs, entries, watcher)
        pairs = list(_over_peer(effort, watcher))
        name, scale = f"{watcher.name}, {saver}", per(turns, "ms a turn")
        yield Match("watched", name, opened, effort.watches, pairs, scale)


def _over_peer(effort: Effort, watcher: Watcher) -> Iterator[Pair]:
    aims, over = judged(), PEER if has_peer() else None
    for way in effort.transitions():
        goal = watcher.goal if over and way in aims else None
        yield Pair(ours(way).name, over, goal)
