"""Verdicts next to runs: sentences that hold and are contradicted, with the smallest agent.

python -m guarantees.oracle 0 500     # seeds, from the folder of the tests
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any, NamedTuple

from agent_factory import topology_of
from agent_factory.errors import SpecError
from agent_factory.guarantees import counterexamples
from guarantees.agents import agent_of, draw_spec, draw_turns
from guarantees.claims import Claim, at_most, claims_of
from guarantees.worlds import INSIDE, Event, Spec, World, run


class Fault(NamedTuple):
    """A sentence that holds for a plan, and an event that contradicts it."""

    claim: Claim
    spec: Spec
    world: World
    event: Event

    @property
    def kind(self) -> str:
        """The form of the sentence and what the agent has: what is alike."""
        return f"{self.claim.form}: {' + '.join(sorted(marks_of(self.spec)))}"

    def __str__(self) -> str:
        log = "\n".join(f"    {tuple(event)}" for event in self.world.log)
        return f"{self.claim.sentence!r} holds for\n{self.spec}\nand {tuple(self.event)}:\n{log}"


def marks_of(spec: Spec) -> frozenset[str]:
    """What an agent has, in words."""
    marks = {tool for tool in spec.tools if tool in ("sends", "stops", "flaky")}
    marks |= {"no tools"} if not spec.tools else set()
    marks |= {"structured"} if spec.structured else set()
    marks |= {doing for doing in spec.doings if doing == "fork"}
    for member in spec.members:
        settings = member.settings
        marks |= {member.kind, *(f"{rule[1]} rule" for rule in settings.get("rules") or ())}
        marks |= {*settings.get("acts", ()), *({"guard", "limit"} & settings.keys())}
        marks |= {f"{layer} layer" for layer in settings.get("layers", ())}
        hooks = settings.get("hooks", {}).items()
        marks |= {
            " to ".join((phase, *jump))
            for phase, jumps in hooks
            for jump in ([], *[[j] for j in jumps])
        }
    inside = {f"inside {mark}" for mark in marks_of(spec.inside)} if spec.inside else set()
    return frozenset(marks | inside | ({"inside"} if spec.inside else set()))


def plan_and_agent(spec: Spec) -> tuple[Any, Any]:
    """The plan and the agent of a value; twice None if it is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            agent = agent_of(spec)
        except (SpecError, ValueError):
            return None, None
        return topology_of(agent), agent


def noes_of(plan: Any, sentence: str) -> tuple[Any, ...] | None:
    """The counterexamples of a sentence; None if it is not about the plan."""
    try:
        return counterexamples(plan, [sentence])
    except SpecError:
        return None


def bounds_of(plan: Any) -> Iterator[Claim]:
    """What a plan says about the attempts of one run, as sentences that hold."""
    for row in plan.bounds().rows:
        # `None`: it is not known. A note says what a number does not include.
        if row.attempts is not None and row.agent in ("", INSIDE):
            where = f"{row.agent}/" if row.agent else ""
            name = row.what.removeprefix("calls of ")
            tool = f"{where}{name}" if name != row.what else None
            kind = "asked" if row.what == "model calls" else "ran"
            yield Claim("bounds", str(row), at_most(row.attempts, kind, tool, who=where))
        if row.most is not None and row.what.endswith("tokens") and not row.agent:
            # Each call takes 10 and gives 10. The last one may go over.
            calls = row.most / (20 if row.what == "tokens" else 10) + 1
            yield Claim("bounds", str(row), at_most(calls, "asked", who=""))


def faults_of(spec: Spec, sentence: str = "", refused: Any = None) -> Iterator[Fault]:
    """What holds and is contradicted by the runs of an agent; what is refused is counted."""
    plan, agent = plan_and_agent(spec)
    if agent is None:
        return
    claims = [
        (c, noes_of(plan, c.sentence)) for c in claims_of(spec) if sentence in ("", c.sentence)
    ]
    world = run(spec, agent)
    claims += [(claim, ()) for claim in bounds_of(plan) if sentence in ("", claim.sentence)]
    for claim, noes in claims:
        if noes is not None and (not noes or refused is not None):
            event = claim.contradiction(world)
            if noes:
                refused[claim.form, event is not None] += 1
            elif event is not None:
                yield Fault(claim, spec, world, event)


# The smallest agent


def smallest(fault: Fault) -> Fault:
    """The same fault of an agent from which nothing can be left out."""
    for spec in _smaller(fault.spec):
        if less := next(faults_of(spec, fault.claim.sentence), None):
            return smallest(less)
    return fault


def _smaller(spec: Spec) -> Iterator[Spec]:
    yield from (replace(spec, members=less) for less in _less(spec.members))
    yield from (replace(spec, doings=less) for less in _less(spec.doings))
    yield from (replace(spec, turns=less) for less in _less(spec.turns))
    yield from (replace(spec, tools=less) for less in _less(spec.tools) if less)
    for change in ({"inside": None}, {"endless": False}, {"structured": False}, {"mode": "sync"}):
        if any(getattr(spec, field) != value for field, value in change.items()):
            yield replace(spec, **change)
    for place, turn in enumerate(spec.turns):
        for less in _less(turn):
            yield replace(spec, turns=(*spec.turns[:place], less, *spec.turns[place + 1 :]))
    for place, member in enumerate(spec.members):
        for settings in _simpler(member.settings):
            changed = replace(member, settings=settings)
            members = (*spec.members[:place], changed, *spec.members[place + 1 :])
            yield replace(spec, members=members)
    for inside in _smaller(spec.inside) if spec.inside else ():
        yield replace(spec, inside=inside)


def _less(values: Any) -> Iterator[tuple[Any, ...]]:
    yield from ((*values[:place], *values[place + 1 :]) for place in range(len(values)))


def _simpler(settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Simpler settings of a member that still does what it declares."""
    roles = [role for role in ("guard", "limit") if settings.get(role)]
    places = {settings[role][1] for role in roles}
    yield from ({k: v for k, v in settings.items() if k != role} for role in roles)
    needed = {"around_tool": "tool", "layer": "model"}
    for key in ("acts", "layers", "rules"):
        for less in _less(settings.get(key) or ()):
            if key != "layers" or {needed[place] for place in places & {*needed}} <= {*less}:
                yield {**settings, key: less}
    hooks = settings.get("hooks", {})
    for phase in {*hooks} - places:
        yield {**settings, "hooks": {p: jumps for p, jumps in hooks.items() if p != phase}}
        for less in _less(hooks[phase]):
            yield {**settings, "hooks": {**hooks, phase: less}}


def never_shown(spec: Spec, tries: int) -> list[Claim]:
    """The refused sentences that none of so many more worlds contradicts."""
    plan, agent = plan_and_agent(spec)
    left = [claim for claim in claims_of(spec) if agent and noes_of(plan, claim.sentence)]
    for number in range(tries):
        random = Random(f"{spec.seed} {number}")
        names = [*spec.tools, *([INSIDE] if spec.inside else [])]
        turns = draw_turns(random, random.choice([names, *([name] for name in names)]))
        doings = ("say", "answer", *random.choices(("say", "answer", "fork"), k=3))
        more = replace(spec, seed=number, turns=turns, endless=number % 2 > 0, doings=doings)
        world = run(more, agent) if left else World(more)
        left = [claim for claim in left if claim.contradiction(world) is None]
    return left


def main(start: int, stop: int, most: int = 60) -> None:
    """Print the smallest agent of each kind of fault, and what is refused, with its share."""
    found: dict[str, Fault] = {}
    counts, refused, shrunk = Counter[str](), Counter[Any](), Counter[str]()
    spent, began = 0.0, time.process_time()
    for seed in range(start, stop):
        for fault in faults_of(draw_spec(seed), refused=refused):
            before = time.process_time()
            shrunk[fault.claim.form] += 1
            small = smallest(fault) if shrunk[fault.claim.form] < 9 else fault
            counts[small.kind] += 1
            found[small.kind] = min(found.get(small.kind, small), small, key=lambda f: len(str(f)))
            spent += time.process_time() - before
    for kind, number in islice(counts.most_common(), most):
        print(f"== {number} times, {kind}\n{found[kind]}\n")
    chased = [never_shown(draw_spec(seed), 40) for seed in range(start, stop, 20)]
    idle = Counter(claim.form for claims in chased for claim in claims)
    print(*sorted(counts), *map(str, sorted(refused.items())), dict(idle), sep="\n")
    print(f"{(time.process_time() - began - spent) / (stop - start) * 1000:.1f} ms an agent")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
