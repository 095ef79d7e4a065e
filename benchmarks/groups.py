"""Every group by its name. What they give are values: nothing runs before it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from benchmarks.efforts import Effort
from benchmarks.harness import Work
from benchmarks.latency import latency, layers, peers
from benchmarks.upkeep import batteries, build, decisions, imports
from benchmarks.volume import calls, checkpoints, crowd, messages, threads

GROUPS: Mapping[str, Callable[[Effort], Iterable[Work]]] = {
    "latency": latency,
    "layers": layers,
    "peers": peers,
    "checkpoints": checkpoints,
    "calls": calls,
    "messages": messages,
    "threads": threads,
    "crowd": crowd,
    "build": build,
    "imports": imports,
    "decisions": decisions,
    "batteries": batteries,
}
"""Every group, by the name the command line knows it by. `check` comes before each."""
