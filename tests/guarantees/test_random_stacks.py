"""Verdicts about random stacks against all runs of these stacks, which know nothing of plans."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from agent_factory import topology_of
from agent_factory.guarantees import Counterexample, counterexamples
from agent_factory.testing import replay_counterexample
from guarantees.exhaustive_runs import Claim, Evidence, Exploration, claims_of, evidence_of
from guarantees.stack_draws import StackSpec, Stage, agent_of, draw_stack

# Random members jump where a build warns about it, and some do nothing.
pytestmark = pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")


def noes_of(spec: StackSpec) -> list[tuple[Claim, Counterexample]]:
    """The sentences that do not hold for a stack, after runs have shown the same of all of them."""
    exploration = Exploration(spec)
    plan = topology_of(agent_of(spec, Stage()))
    noes: list[tuple[Claim, Counterexample]] = []
    for claim in claims_of(spec):
        verdict = counterexamples(plan, [claim.sentence])
        is_refuted = claim.is_refuted(exploration)
        assert bool(verdict) == is_refuted, (claim.sentence, spec, *map(str, verdict))
        noes += [(claim, no) for no in verdict]
    return noes


class Replays:
    """Runs of stand-ins that go the way of the counterexamples of one stack.

    Counterexamples with the same path and tool have the same run, which is made once.
    """

    def __init__(self, spec: StackSpec) -> None:
        self.spec = spec
        self.evidence: dict[Any, Evidence] = {}

    def check(self, claim: Claim, no: Counterexample) -> None:
        """The run shows what the sentence denies."""
        # A number is exceeded by a longer path.
        counted = claim.sentence if claim.sentence.startswith("at most") else ""
        key = no.path, no.tool, counted
        if key not in self.evidence:
            self.evidence[key] = self._evidence_of(claim, no)
        is_refuted = claim.is_refuted_once or claim.is_refuted
        assert is_refuted(self.evidence[key]), (claim.sentence, self.spec, no)

    def _evidence_of(self, claim: Claim, no: Counterexample) -> Evidence:
        replay = replay_counterexample(no)
        run = replay.run()
        replay.model.assert_done()
        visits = [*run.visits, "__end__"]
        nodes = [visit for visit in visits if visit in (*no.plan.nodes, "__end__")]
        path = [step.target for step in replay.path]
        assert nodes[: len(path)] == path, (claim.sentence, self.spec)
        return evidence_of(self.spec, run.visits, run.tools)


def sample(random: Random, noes: Sequence[tuple[Claim, Counterexample]], size: int) -> list[int]:
    return random.sample(range(len(noes)), min(size, len(noes)))


# The last four are rare: no loop, a call that waits for another, a jump past a look at a call, and
# a jump with a call that a guard has not seen.
SEEDS = [*range(56), 67, 141, 243, 1598]


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_verdicts_are_what_all_runs_show(part: int) -> None:
    for seed in SEEDS[part::4]:
        random = Random(seed)
        spec = draw_stack(random)
        noes, replays = noes_of(spec), Replays(spec)
        for index in sample(random, noes, 2):
            replays.check(*noes[index])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(20))
def test_verdicts_about_a_thousand_stacks_are_what_all_runs_show_and_each_no_replays(
    part: int,
) -> None:
    """Each part is a law about fifty stacks, all of whose sentences are checked."""
    for seed in range(1_000 + 50 * part, 1_050 + 50 * part):
        random = Random(seed)
        spec = draw_stack(random)
        noes, replays = noes_of(spec), Replays(spec)
        # There are a hundred sentences about pairs of nodes for a stack: some of their paths do.
        is_path = [claim.sentence.startswith("no path") for claim, _ in noes]
        paths = [no for no, path in zip(noes, is_path, strict=True) if path]
        for claim, no in [no for no, path in zip(noes, is_path, strict=True) if not path]:
            replays.check(claim, no)
        for index in sample(random, paths, 5):
            replays.check(*paths[index])


@pytest.mark.long
def test_the_stacks_have_every_verdict() -> None:
    """Each form of a sentence holds for some of the stacks and not for others."""
    verdicts: dict[str, set[bool]] = {}
    for seed in range(60):
        spec = draw_stack(Random(seed))
        plan = topology_of(agent_of(spec, Stage()))
        for claim in claims_of(spec):
            form = claim.sentence.split()[0] + claim.sentence.split()[-1]
            verdicts.setdefault(form, set()).add(bool(counterexamples(plan, [claim.sentence])))
    forms = {
        "toolA", "toolB", "toolguard", "toolInner", "toollook", "modelA", "everyA", "everylimit",
        "Alast", "atcalls", "noA", "nomodel",
    }  # fmt: skip
    assert {form for form, both in verdicts.items() if len(both) == 2} >= forms


@pytest.mark.long
def test_only_a_jump_to_the_tools_bypasses_a_guard_in_a_hook() -> None:
    """A build searches for nothing else."""
    bypassed = 0
    for seed in range(300):
        plan = topology_of(agent_of(draw_stack(Random(seed)), Stage()))
        jumps = {jump for hook in plan.hooks for jump in hook.can_jump_to}
        for guard in plan.guards:
            tools = [tool.name for tool in plan.tools if guard.covers(tool.name)]
            if guard.place == "after_model" and tools:
                noes = counterexamples(plan, [f"tool {tools[0]} passes {guard.owner}"])
                assert "tools" in jumps or not noes, (seed, *map(str, noes))
                bypassed += bool(noes)
    assert bypassed > 5
