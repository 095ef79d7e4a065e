"""Verdicts about random agents: what runs do, replays of each no, and laws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import agent_factory.middleware as package
from agent_factory import AgentMiddleware
from agent_factory.errors import ArgumentError
from agent_factory.testing import replay_counterexample
from guarantees.agents import draw_spec
from guarantees.built_ins import BUILT_INS, NOT_DRAWN
from guarantees.claims import Claim, claims_of
from guarantees.oracle import faults_of, never_shown, noes_of, plan_and_agent, smallest
from guarantees.worlds import Member, Spec, World

pytestmark = pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")


def assert_no_faults(seeds: Iterable[int]) -> None:
    """Fail with the first faults of agents, each of the smallest agent that shows it."""
    found = [fault for seed in seeds for fault in faults_of(draw_spec(seed))]
    assert not found, "\n".join(str(smallest(fault)) for fault in found[:3])


def test_each_built_in_is_drawn() -> None:
    names = {getattr(package, name) for name in package.__all__}
    built_ins = {c for c in names if isinstance(c, type) and issubclass(c, AgentMiddleware)}
    made = {type(row.make("A", "", **row.draw(Random(0), ["pay"]))) for row in BUILT_INS.values()}
    assert built_ins - made - {AgentMiddleware} == NOT_DRAWN


@pytest.mark.parametrize("part", range(4))
def test_what_holds_is_what_runs_do(part: int) -> None:
    assert_no_faults(range(50 * part, 50 * part + 50))


@pytest.mark.long
@pytest.mark.night
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(100))
def test_what_holds_is_what_the_runs_of_twenty_thousand_agents_do(part: int) -> None:
    assert_no_faults(range(1_000 + 200 * part, 1_200 + 200 * part))


@pytest.mark.long
@pytest.mark.night
@pytest.mark.timeout(600)
def test_few_sentences_are_refused_that_neither_runs_nor_a_replay_contradict() -> None:
    sentences, unshown = 0, Counter[str]()
    for spec in map(draw_spec, range(40)):
        plan, _ = plan_and_agent(spec)
        sentences += len(verdicts(spec))
        for claim in never_shown(spec, 60):
            noes = noes_of(plan, claim.sentence) or ()
            unshown[claim.form] += not any(is_shown(claim, no) for no in noes)
    assert unshown.total() < sentences / 20, unshown


def is_shown(claim: Claim, no: Any) -> bool:
    """Whether the run of stand-ins contradicts a sentence. They change no calls."""
    try:
        shown = replay_counterexample(no).run()
    except ArgumentError:
        return False
    return "may change" in no.reason or claim.contradiction(world_of(no.plan, shown)) is not None


# Each no is shown by a run of stand-ins


SHOWN = ("passes", "only after", "model passes", "no path", "at most model", "at most calls")
"""Forms of sentences that the run of a replay contradicts, by the visits that it reports."""


def test_each_no_replays() -> None:
    replayed = 0
    for seed in range(30):
        spec = draw_spec(seed)
        for claim, no in sample(spec, 3):
            try:
                replay = replay_counterexample(no)
            except ArgumentError:
                continue
            shown = replay.run()
            replay.model.assert_done()
            replayed += 1
            path = [step.target for step in replay.path]
            nodes = [v for v in (*shown.visits, "__end__") if v in (*no.plan.nodes, "__end__")]
            assert nodes[: len(path)] == path, (seed, claim.sentence)
            is_own = claim.sentence.split()[-1] not in {
                m.name for m in spec.members if m.kind != "own"
            }
            # Stand-ins pass calls on as they are.
            if claim.form.startswith(SHOWN) and is_own and "may change" not in no.reason:
                world = world_of(no.plan, shown)
                assert claim.contradiction(world), (seed, claim.sentence, shown)
    assert replayed > 40


def sample(spec: Spec, size: int) -> list[Any]:
    """Some sentences that do not hold for an agent, each with its counterexample."""
    plan, _ = plan_and_agent(spec)
    noes = [
        (claim, no)
        for claim in claims_of(spec)
        for no in (plan and noes_of(plan, claim.sentence)) or ()
    ]
    return Random(spec.seed).sample(noes, min(size, len(noes)))


def world_of(plan: Any, shown: Any) -> World:
    """The events of a replay, from the nodes and layers that it visited."""
    world, tools = World(Spec()), [*shown.tools]
    world.run, hooks = 1, {hook.node: hook for hook in plan.hooks}
    for number, (visit, layers) in enumerate(visits_of(plan, shown.visits)):
        if visit in hooks:
            world.note("hook", hooks[visit].owner, hooks[visit].phase)
        for layer in layers:
            owner, _, around = layer.rpartition(".around_")
            world.note(around, owner, call=f"{number}.0")
        if visit == "model":
            world.note("asked", key=number)
        if visit == "tools" and tools:
            world.note("ran", "", tools.pop(0), (9, ""), f"{number}.0")
    world.note("ended")
    return world


def visits_of(plan: Any, visits: Iterable[str]) -> list[tuple[str, list[str]]]:
    """The nodes of a run, each with the layers that ran in it."""
    found: list[tuple[str, list[str]]] = [("start", [])]
    for visit in visits:
        if visit in plan.nodes:
            found.append((visit, []))
        else:
            found[-1][1].append(visit)
    return found


# Laws


LAW = range(300, 360)


def verdicts(spec: Spec, sentences: Iterable[str] = ()) -> dict[str, bool]:
    """Whether sentences hold for an agent: these, or those that are tried on it."""
    plan, _ = plan_and_agent(spec)
    sentences = sentences or [claim.sentence for claim in claims_of(spec)]
    found = {sentence: noes_of(plan, sentence) for sentence in sentences if plan}
    return {sentence: not noes for sentence, noes in found.items() if noes is not None}


def with_member(seed: int, **settings: Any) -> Spec:
    """The agent of a seed with one more member, somewhere."""
    spec, member = draw_spec(seed), Member("More", "own", {"hooks": {}, "layers": (), **settings})
    place = Random(seed).randrange(len(spec.members) + 1)
    return replace(spec, members=(*spec.members[:place], member, *spec.members[place:]))


def test_each_form_has_both_verdicts() -> None:
    both: dict[str, set[bool]] = {}
    for seed in LAW:
        found = verdicts(draw_spec(seed))
        for claim in claims_of(draw_spec(seed)):
            both.setdefault(claim.form, set()).update({found.get(claim.sentence, True)})
    assert {form for form, seen in both.items() if len(seen) < 2} <= {
        "passes when",
        "passes unless",
    }


def test_a_member_that_does_nothing_changes_no_verdict() -> None:
    for seed in LAW:
        if before := verdicts(draw_spec(seed)):
            assert verdicts(with_member(seed), before) == before, seed


def test_a_guard_more_breaks_no_passage() -> None:
    guarded = {"layers": ("tool",), "guard": ("*", "around_tool", "")}
    for seed in LAW:
        before = {s: v for s, v in verdicts(draw_spec(seed)).items() if s.startswith("tool")}
        after = verdicts(with_member(seed, **guarded), before) if before else {}
        lost = [s for s, holds in before.items() if holds and not after.get(s, True)]
        assert not lost, (seed, lost)


def test_two_spellings_have_one_verdict() -> None:
    for seed in LAW:
        spec = draw_spec(seed)
        tool = (*spec.tools, "x")[0]
        same = {}
        for sentence, holds in verdicts(spec).items():
            same[f" {sentence.replace(' ', '  ')}."] = same[f"{sentence} and {sentence}"] = holds
            same[sentence.removesuffix(" a run")] = holds
            same[sentence.replace(f"tool {tool} ", f"tool {tool[:-1]}[{tool[-1]}] ", 1)] = holds
        assert not same or verdicts(spec, same) == same, seed
