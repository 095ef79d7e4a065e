"""Verdicts next to runs: sentences that hold and are contradicted, with the smallest agent."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from agent_factory import topology_of
from agent_factory.errors import SpecError
from agent_factory.guarantees import counterexamples
from guarantees.agents import agent_of, draw_turns
from guarantees.claims import Claim, at_most, claims_of
from guarantees.worlds import INSIDE, Event, Spec, World, run


class Fault(NamedTuple):
    """A sentence that holds for a plan, and an event that contradicts it."""

    claim: Claim
    spec: Spec
    world: World
    event: Event

    def __str__(self) -> str:
        log = "\n".join(f"    {tuple(event)}" for event in self.world.log)
        return f"{self.claim.sentence!r} holds for\n{self.spec}\nand {tuple(self.event)}:\n{log}"


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


def holds(plan: Any, sentence: str) -> bool:
    """Whether a sentence is about the plan and has no counterexample."""
    noes = noes_of(plan, sentence)
    return noes is not None and not noes


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


def faults_of(spec: Spec, sentence: str = "") -> Iterator[Fault]:
    """What holds and is contradicted by the runs of an agent."""
    plan, agent = plan_and_agent(spec)
    if agent is None:
        return
    claims = [c for c in (*claims_of(spec), *bounds_of(plan)) if sentence in ("", c.sentence)]
    world = run(spec, agent)
    for claim in (c for c in claims if c.form == "bounds" or holds(plan, c.sentence)):
        if event := claim.contradiction(world):
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
