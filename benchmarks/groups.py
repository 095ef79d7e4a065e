"""Every group by its name. What they give are values: nothing runs before it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from benchmarks.efforts import Effort
from benchmarks.floor import floor
from benchmarks.harness import Work
from benchmarks.latency import around, latency, layers
from benchmarks.pages import pages
from benchmarks.peers import peers
from benchmarks.service import service
from benchmarks.temporal import temporal
from benchmarks.upkeep import batteries, build, decisions, guards, imports, touched
from benchmarks.volume import calls, checkpoints, crowd, messages, reading
from benchmarks.watched import few, watched

GROUPS: Mapping[str, Callable[[Effort], Iterable[Work]]] = {
    "watched": watched,
    "few": few,
    "latency": latency,
    "layers": layers,
    "around": around,
    "peers": peers,
    "temporal": temporal,
    "checkpoints": checkpoints,
    "calls": calls,
    "messages": messages,
    "reading": reading,
    "crowd": crowd,
    "build": build,
    "imports": imports,
    "decisions": decisions,
    "batteries": batteries,
    "guards": guards,
    "touches": touched,
    "floor": floor,
    "service": service,
    "pages": pages,
}
"""Every group, by the name the command line knows it by. `check` comes before each."""
